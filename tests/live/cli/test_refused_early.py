"""What `run` must refuse is refused by `validate` and `plan` too: exit code 2, at its line, before anything is kept."""

from __future__ import annotations

import json

import pytest
from tests.support.simulated import llm_server

ENDPOINT = "benchmark: chat\ntarget:\n  endpoint: http://127.0.0.1:9/v1\n  api: {api}\n"
CHAT = ENDPOINT.format(api="openai-chat") + "  model: m\n"
KUBERNETES = "place: {engine: kubernetes, kubernetes: {namespace: n, image: i}}\n"
SHAREGPT = [{"id": "a", "conversations": [{"from": "human", "value": "hello"}]}]

# Name → the file, the line that is to blame, the code, and what the message says.
WRONG = {
    "endpoint without a model": (ENDPOINT.format(api="openai-chat"), 2, "missing-key", "target.model"),
    "completions without a model": (ENDPOINT.format(api="openai-completions"), 2, "missing-key", "target.model"),
    "ollama without a model": (ENDPOINT.format(api="ollama"), 2, "missing-key", "target.model"),
    "misspelt protocol": (CHAT.replace("openai-chat", "openai-chatt"), 4, "target", "did you mean openai-chat?"),
    "placeholder of init": (ENDPOINT.format(api="openai-chat") + "  model: CHANGE-ME\n", 5, "placeholder", "CHANGE-ME"),
    "prompt without a place": (CHAT + "workload:\n  prompt: hello\n", 7, "prompt-template", "{text}"),
    "monitoring on kubernetes": (CHAT + KUBERNETES + "monitoring: true\n", 7, "monitoring", "Prometheus"),
    "model file": ("benchmark: m\ntarget:\n  model: gone.onnx\n", 3, "model", "gone.onnx does not exist"),
    "model in a matrix": (
        "benchmark: m\ntarget: {model: squeezenet}\nmatrix:\n  target.model: [squeezenet, gone.onnx]\n",
        4,
        "model",
        "gone.onnx does not exist",
    ),
    "input file": (
        "benchmark: m\ntarget: {model: squeezenet}\nworkload:\n  inputs:\n    x: {file: gone.npy}\n",
        5,
        "file",
        "gone.npy",
    ),
    "data file": (CHAT + "workload:\n  file: gone.jsonl\n", 7, "file", "gone.jsonl"),
    "data of another shape": (CHAT + "workload:\n  file: sharegpt.json\n", 7, "workload-file", "list"),
    "data on many lines": (CHAT + "workload:\n  file: pretty.json\n", 7, "workload-file", "list"),
    "several turns for prompts": (CHAT + "workload:\n  file: turns.jsonl\n", 7, "workload-file", "turns.jsonl:2"),
    "a task without its file": (CHAT + "workload:\n  task: prompts\n", 6, "workload-file", "workload.file"),
    "trace of another shape": (CHAT + "load:\n  trace: sharegpt.json\n", 7, "trace", "sharegpt.json"),
}


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch) -> None:
    """A folder of its own with files of prompts, and an empty store."""
    (tmp_path / "sharegpt.json").write_text(json.dumps(SHAREGPT))
    (tmp_path / "pretty.json").write_text(json.dumps(SHAREGPT, indent=2))
    (tmp_path / "turns.jsonl").write_text('{"prompt": "one"}\n{"turns": ["one", "two"]}\n')
    (tmp_path / "good.jsonl").write_text('{"prompt": "one"}\n{"prompt": "two"}\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ASSAY_SERVER", raising=False)
    monkeypatch.setenv("ASSAY_STORE", str(tmp_path / "store"))


@pytest.mark.parametrize("verb", ["validate", "plan", "run"])
@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_run_is_refused_at_its_line(name, verb, cli, write, tmp_path):
    text, line, problem, said = WRONG[name]
    write("bench.yaml", text)
    code, out, err = cli(verb, "bench.yaml")
    assert (code, out) == (2, "")
    assert err.startswith(f"error[{problem}] bench.yaml:{line}\n")
    assert said in err
    assert "try: " in err
    assert cli("results", "list")[1].startswith("no results")


@pytest.mark.parametrize(
    "text",
    [
        CHAT + "workload: {prompt: 'say {text}'}\n",
        CHAT + "workload: {file: good.jsonl}\n",
        CHAT + "workload: {input_tokens: 20}\n",  # whether there is a tokenizer is known to the server alone
        ENDPOINT.format(api="openai-chat") + "  options: {model: m}\n",
        ENDPOINT.format(api="openai-chat") + "matrix: {target.model: [a, b]}\n",
        ENDPOINT.format(api="telepathy"),  # of a package that the machine has which measures
        ENDPOINT.format(api="http") + "  body: {text: $prompt}\n",
        CHAT + "load: {trace: rows.jsonl}\n",
        "benchmark: v\ntarget: {library: faiss}\nworkload: {task: knn}\n",
        CHAT + "monitoring: true\nplace: {engine: slurm}\n",
        "benchmark: m\ntarget: {model: /only/on/the/nodes.onnx}\nplace: {engine: slurm}\n",
        "benchmark: m\ntarget: {model: org/name, runtime: transformers}\n",
        "benchmark: m\ntarget: {model: 'https://example.org/m.onnx'}\n",
    ],
)
def test_what_can_run_is_valid(text, cli, write):
    write("rows.jsonl", '{"timestamp": 0.0}\n{"timestamp": 1.0}\n')
    write("bench.yaml", text)
    code, out, err = cli("validate", "bench.yaml")
    assert (code, err) == (0, "")
    assert "valid" in out


def test_every_file_is_checked(cli, write):
    write("one.yaml", "benchmark: m\ntarget: {model: gone.onnx}\n")
    write("two.yaml", CHAT + "workload: {prompt: hello}\n")
    write("three.yaml", CHAT)
    code, out, err = cli("validate", "one.yaml", "two.yaml", "three.yaml")
    assert code == 2
    assert "three.yaml: valid" in out
    assert "one.yaml:2" in err
    assert "two.yaml:6" in err


def test_a_value_set_on_the_command_line_is_checked_too(cli, write):
    write("bench.yaml", CHAT)
    code, _, err = cli("plan", "bench.yaml", "--set", "workload.prompt=hello")
    assert code == 2
    assert "prompt-template" in err


@pytest.mark.live
def test_init_asks_an_endpoint_for_its_model_and_writes_what_runs(cli):
    with llm_server(ttft_ms=1, itl_ms=1, tokens=4, model="tiny-chat") as sim:
        code, out, _ = cli("init", f"{sim.url}/v1")
        assert code == 0
        assert "model   tiny-chat" in out
        quick = ["--set", "load={requests: 4, concurrency: 2}", "--set", "measure={runs: 1, warmup: none}"]
        code, out, err = cli("run", "bench.yaml", *quick, "--set", "workload.output_tokens=4")
    assert code == 0, err
    assert "tiny-chat" in out


def test_init_without_the_endpoint_says_what_is_left_to_write(cli):
    code, out, _ = cli("init", "http://127.0.0.1:9/v1")
    assert code == 0
    assert "target.model" in out
    code, _, err = cli("validate", "bench.yaml")
    assert code == 2
    assert err.startswith("error[placeholder] bench.yaml:6")
