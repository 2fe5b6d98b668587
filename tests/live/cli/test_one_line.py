"""One line is enough: each form of `assay run`, `assay plan` and `assay init` without a benchmark file."""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest
from tests.support.command_line import called
from tests.support.simulated import llm_server

import assay as library

SHORT = ("--quiet", "--no-control")


def run(*words, cwd, text="") -> subprocess.CompletedProcess[str]:
    """`assay run` in a process of its own, as a shell starts it."""
    command = [sys.executable, "-m", "assay", "run", *words]
    return subprocess.run(command, cwd=cwd, input=text, capture_output=True, text=True, timeout=300)


def plan(*words, cwd) -> dict:
    done = called("plan", "--format", "json", *words, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def digests(document) -> list[str]:
    return [job["digest"] for job in document["jobs"]]


def refused(*words, cwd) -> str:
    done = called(*words, cwd=cwd)
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr


@pytest.fixture(autouse=True)
def _no_server(monkeypatch):
    monkeypatch.delenv("ASSAY_SERVER", raising=False)


@pytest.fixture(scope="module")
def counting():
    with llm_server(ttft_ms=2, itl_ms=1, tokens=200) as server:
        yield server


@pytest.fixture(scope="module")
def silent():
    """A server without /tokenize."""
    with llm_server(ttft_ms=2, itl_ms=1, no_tokenizer=True, model="org/name") as server:
        yield server


@pytest.fixture(scope="module")
def tags() -> Iterator[str]:
    """A server that lists its models as Ollama does, and in no other way."""

    class Handler(BaseHTTPRequestHandler):
        answers: ClassVar = {"/api/tags": {"models": [{"name": "llama3:8b"}, {"name": "qwen:7b"}]}}

        def do_GET(self):
            answer = self.answers.get(self.path)
            self.send_response(404 if answer is None else 200)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def do_POST(self):
            self.send_error(404)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.live
def test_a_model_file_and_the_file_that_was_run(tiny_model, tmp_path):
    words = ("tiny.onnx", "--batch", "1,4", "--runs", "1", "--set", "measure.until={samples: 50}")
    done = run(*words, *SHORT, "--save", "kept/bench.yaml", cwd=tmp_path)
    assert done.returncode == 2  # the folder is not there, and that is seen before anything is measured
    (tmp_path / "kept").mkdir()
    done = run(*words, *SHORT, "--save", "kept/bench.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "batch=1" in done.stdout
    assert "batch=4" in done.stdout
    assert "valid, 2 jobs" in called("validate", "kept/bench.yaml", cwd=tmp_path).stdout
    assert digests(plan("kept/bench.yaml", cwd=tmp_path)) == digests(plan(*words, cwd=tmp_path))


def test_a_built_in_model_with_a_matrix(tmp_path):
    jobs = plan("squeezenet", "--device", "cpu", "--batch", "1,8", "--threads", "1,2", cwd=tmp_path)["jobs"]
    assert [job["point"] for job in jobs] == [
        {"workload.batch": batch, "target.threads": threads} for batch in (1, 8) for threads in (1, 2)
    ]


@pytest.mark.live
def test_a_whole_load_is_at_most_90_characters(counting, tmp_path):
    """512 tokens in, 128 out, 5 requests a second, 300 of them."""
    command = "assay run http://127.0.0.1:8000/v1 --rate 5 --input-tokens 512 --output-tokens 128 -n 300"
    assert len(command) <= 90
    asked = shlex.split(command.replace("http://127.0.0.1:8000", counting.url))[2:]
    (job,) = plan(*asked, "--save", "b.json", cwd=tmp_path)["jobs"]
    written = json.loads((tmp_path / "b.json").read_text())
    assert written["workload"] == {"input_tokens": 512, "output_tokens": 128}
    assert written["load"] == {"rate": 5, "requests": 300}
    assert job["runs"] == 3
    # The same words are run, with their load shortened to what a test has time for.
    done = run(*asked, "--runs", "1", "--set", "load={rate: 50, requests: 10}", "-f", "json", *SHORT, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    records = counting.records()
    assert set(records.prompt_tokens[-10:]) == {512}
    assert set(records.tokens[-10:]) == {128}


@pytest.mark.live
def test_a_program(tmp_path):
    (tmp_path / "train.py").write_text("import sys\nimport assay\nassay.emit({'loss': float(sys.argv[2])})\n")
    done = run("--runs", "2", *SHORT, "--save", "p.yaml", "--", "python", "train.py", "--loss", "0.5", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "loss" in done.stdout
    assert plan("p.yaml", cwd=tmp_path)["benchmark"] == "python train.py --loss 0.5"
    assert digests(plan("p.yaml", cwd=tmp_path)) == digests(
        plan("--runs", "2", "--", "python", "train.py", "--loss", "0.5", cwd=tmp_path)
    )


@pytest.mark.live
@pytest.mark.parametrize(
    "text",
    ["benchmark: piped\ntarget: {command: 'true'}\n", '{"benchmark": "piped", "target": {"command": "true"}}',
     "# toml\nbenchmark = 'piped'\ntarget.command = 'true'\n"],
    ids=["yaml", "json", "toml"],
)  # fmt: skip
def test_a_file_on_stdin(text, tmp_path):
    done = run("-", "--runs", "1", "--format", "json", *SHORT, cwd=tmp_path, text=text)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["benchmark"], len(result["jobs"][0]["runs"])) == ("piped", 1)


def test_a_mistake_on_stdin_has_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"benchmark: b\ntarget: {modle: m}\n")))
    assert "error[unknown-key] stdin:2\n" in refused("plan", "-", cwd=tmp_path)


@pytest.mark.live
def test_a_quick_look_at_an_endpoint(counting, tmp_path):
    done = run(f"{counting.url}/v1", "--quick", "--requests", "5", "--output-tokens", "4", "--no-control", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("a quick look, not a measurement") == 1
    assert "speaks openai-chat and counts tokens; model sim" in done.stderr
    assert "1 job, 1 run" in done.stderr


@pytest.mark.live
def test_options_replace_the_keys_of_a_file(write, tmp_path):
    write("b.yaml", "benchmark: b\ntarget: {command: 'true'}\nmeasure: {runs: 9}\nmatrix: {target.cwd: [., /]}\n")
    done = run("b.yaml", "--runs", "2", "--format", "json", *SHORT, cwd=tmp_path)
    assert [len(job["runs"]) for job in json.loads(done.stdout)["jobs"]] == [2, 2]


def test_an_endpoint_is_queried_for_what_is_left_out(counting, silent, tags, tmp_path):
    def saved(url: str) -> dict:
        name = f"{url.rpartition(':')[2].replace('/', '-')}.json"
        plan(url, "--save", name, cwd=tmp_path)
        return json.loads((tmp_path / name).read_text())

    assert saved(f"{counting.url}/v1") == {
        "benchmark": f"load on {counting.host}:{counting.port}",
        "target": {"endpoint": f"{counting.url}/v1", "api": "openai-chat", "model": "sim"},
        "workload": {"input_tokens": 256, "output_tokens": 128},
        "load": {"concurrency": 8, "duration": "60s"},
        "measure": {"runs": 3},
    }
    completions = saved(f"{counting.url}/v1/completions")["target"]
    assert (completions["api"], completions["endpoint"]) == ("openai-completions", f"{counting.url}/v1")
    uncounted = saved(silent.url)
    assert (uncounted["target"]["model"], uncounted["workload"]) == ("org/name", {"output_tokens": 128})
    ollama = saved(f"{tags}/v1")["target"]
    assert ollama == {"endpoint": tags, "api": "ollama", "model": "llama3:8b"}


@pytest.mark.live
def test_init_writes_a_file_that_runs(counting, silent, tags, tmp_path):
    for name, url in (("counting", f"{counting.url}/v1"), ("silent", silent.url)):
        assert called("init", url, "--out", f"{name}.yaml", cwd=tmp_path).returncode == 0
        short = ("--set", "load={requests: 3}", "--set", "workload.output_tokens=4", "--runs", "1")
        done = run(f"{name}.yaml", *short, *SHORT, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert called("init", tags, "--out", "tags.yaml", cwd=tmp_path).returncode == 0
    assert "api: ollama" in (tmp_path / "tags.yaml").read_text()
    assert "valid, 1 job" in called("validate", "tags.yaml", cwd=tmp_path).stdout


def test_init_takes_what_run_takes(tmp_path):
    assert called("init", "--out", "p.yaml", "--", "python", "train.py", cwd=tmp_path).returncode == 0
    assert "valid, 1 job" in called("validate", "p.yaml", cwd=tmp_path).stdout
    assert "is a benchmark file already" in refused("init", "p.yaml", "--out", "q.yaml", cwd=tmp_path)
    assert "did you mean squeezenet?" in refused("init", "squeeznet", cwd=tmp_path)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "URL of an endpoint"),
        ("squeeznet", "did you mean squeezenet?"),
        ("bench.yml", "No such file"),
        ("localhost:8000/v1", "did you mean http://localhost:8000/v1?"),
        ("127.0.0.1:8000", "did you mean http://127.0.0.1:8000?"),
        ("train.py", "-- python train.py"),
        ("weights.gguf", "llama.cpp"),
        ("env", "it is a program: write -- env"),
        ("org/name", "--runtime transformers"),
        ("modle.onnx", "did you mean model.onnx?"),
        ("gone.onnx", "the model file"),
        ("weights", "recognised by its ending"),
        ("empty.onnx", "is empty"),
        ("squeezenet shufflenet", "one at a time"),
        ("squeezenet -- python train.py", "one at a time"),
        ("squeezenet --rate 5", "which is for an endpoint; this is a model"),
        ("--batch 3 -- python train.py", "this is a command"),
        ("squeezenet --batch x", "error[value] --batch"),
        ("squeezenet --set workload.bach=3", "error[unknown-key] --set workload.bach"),
        ("http://127.0.0.1:9/v1 --api openai-chatt --model m", "did you mean openai-chat?"),
        ("squeezenet --output-token 3", "--output-tokens"),
    ],
)
def test_what_is_mistyped_is_refused_with_what_was_meant(words, said, tmp_path):
    (tmp_path / "model.onnx").write_bytes(b"x")
    (tmp_path / "weights").write_bytes(b"\x08\x07\x12\x00")
    (tmp_path / "empty.onnx").touch()
    assert said in refused("plan", *shlex.split(words), cwd=tmp_path)


def test_a_server_that_is_down_is_reported_as_down(tmp_path):
    done = called("plan", "http://127.0.0.1:9/v1", "--rate", "5", cwd=tmp_path)
    assert done.returncode == 3
    assert "did not answer" in done.stderr
    assert "refused" in done.stderr
    assert plan("http://127.0.0.1:9/v1", "--api", "openai-chat", "--model", "m", cwd=tmp_path)["jobs"]


def test_lengths_that_nothing_can_count_are_refused_before_anything_is_sent(silent, tmp_path):
    words = ("plan", f"{silent.url}/v1", "--input-tokens", "512")
    assert "error[no-tokenizer] --input-tokens" in refused(*words, cwd=tmp_path)
    assert "org/name" in refused(*words, cwd=tmp_path)


def test_a_tokenizer_by_its_name_on_the_hub(silent, tmp_path):
    """Out of the local cache of the hub, where it lies after it was fetched once."""
    repository = tmp_path / "hub" / "models--org--name"
    snapshot = repository / "snapshots" / "0123456789abcdef0123456789abcdef01234567"
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(snapshot.name)
    (snapshot / "tokenizer.json").write_text("{}")
    command = [sys.executable, "-m", "assay", "plan", f"{silent.url}/v1", "--input-tokens", "5", "--save", "b.json"]
    environment = {**os.environ, "HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"}
    for name, code in (("org/name", 0), ("org/other", 3)):
        done = subprocess.run(
            [*command, "--tokenizer", name], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stderr
    assert "org/other is no file here" in done.stderr
    target = json.loads((tmp_path / "b.json").read_text())["target"]
    assert target["tokenizer"] == str(snapshot / "tokenizer.json")


def test_a_model_that_the_endpoint_does_not_list(counting, tmp_path):
    assert "did you mean sim?" in called("plan", counting.url, "--model", "simm", cwd=tmp_path).stderr


def test_a_saved_file_is_never_another_benchmark(write, tiny_model, tmp_path):
    write("b.yaml", f"benchmark: b\ntarget: {{model: {tiny_model.name}}}\n")
    (tmp_path / "other").mkdir()
    assert "relative paths start from" in refused("plan", "b.yaml", "--save", "other/c.yaml", cwd=tmp_path)
    plan("b.yaml", "--batch", "2", "--save", "c.yaml", cwd=tmp_path)
    plan("b.yaml", "--batch", "2", "--save", "c.yaml", cwd=tmp_path)  # the same again
    assert "exists already" in refused("plan", "b.yaml", "--batch", "3", "--save", "c.yaml", cwd=tmp_path)
    assert "no ending" in refused("plan", "b.yaml", "--save", "c.txt", cwd=tmp_path)


@pytest.mark.live
def test_python_takes_what_the_command_line_takes(tiny_model):
    result = library.run(str(tiny_model), control=False)
    assert result.record.benchmark == "tiny on this machine"
