"""Starter files: each is valid as it is, and says of an endpoint what the endpoint said."""

from __future__ import annotations

import pytest

from assay.errors import SpecError
from assay.spec.load import load
from assay.spec.problems import PLACEHOLDER
from assay.spec.source import parse
from assay.spec.starter import Endpoint, kind_of, starter


def one(target: str, **said: object) -> str:
    kind = kind_of((target,))
    return starter((target,), kind, Endpoint(target, **said) if kind == "endpoint" else None)


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["bench.yaml"], "file"),
        (["gone/bench.toml"], "file"),
        (["-"], "file"),
        (["here"], "file"),
        (["squeezenet"], "model"),
        (["gone.onnx"], "model"),
        (["program.PT2"], "model"),
        (["https://example.org/m.onnx?x=1"], "model"),
        (["https://example.org/v1"], "endpoint"),
        (["http://localhost:8000"], "endpoint"),
        (["python train.py"], "command"),
        (["python", "train.py"], "command"),
        (["llm"], "language model"),
        (["models"], "model"),
    ],
)
def test_what_words_name(words, kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").write_text("benchmark: b\n")
    (tmp_path / "models").mkdir()
    (tmp_path / "llm").mkdir()
    (tmp_path / "llm" / "config.json").write_text("{}")
    assert kind_of(words) == kind


@pytest.mark.parametrize(
    "target",
    [
        "squeezenet",
        "models/my model.onnx",
        "https://example.org/m.onnx?x=1",
        "python train.py --lr 1e-3",
        "weird: # name.onnx",
        "ünïcode.onnx",
        "true",
    ],
)
def test_a_starter_is_valid_as_it_is(target, tmp_path):
    path = tmp_path / "b.yaml"
    kind = "command" if target.startswith("python") else "model"
    path.write_text(starter((target,), kind))
    described = load(path).benchmark.target
    assert target in (getattr(described, "model", None), getattr(described, "command", None))


def test_the_runtime_follows_from_the_file(tmp_path):
    path = tmp_path / "b.yaml"
    path.write_text(one("program.pt2"))
    assert load(path).benchmark.target.runtime == "torch"


def test_words_of_a_command_stay_apart(tmp_path):
    path = tmp_path / "b.yaml"
    path.write_text(starter(("python", "train.py", "--name", "two words"), "command"))
    target = load(path).benchmark.target
    assert target.command == "python train.py --name 'two words'"
    assert target.metrics == ()  # a metric that never appears would make the result invalid


def test_a_starter_for_an_endpoint_names_its_model(tmp_path):
    path = tmp_path / "b.yaml"
    path.write_text(one("https://example.org/v1", models=("org/first: 1b", "second")))
    benchmark = load(path).benchmark
    assert benchmark.target.endpoint == "https://example.org/v1"
    assert benchmark.target.model == "org/first: 1b"
    assert benchmark.workload.input_tokens is None  # a server need not have a tokenizer
    assert "second" in path.read_text()


def test_prompts_have_a_length_where_the_server_counts_tokens(tmp_path):
    path = tmp_path / "b.yaml"
    path.write_text(one("https://example.org/v1", models=("m",), counts_tokens=True))
    assert load(path).benchmark.workload.input_tokens == 256


@pytest.mark.parametrize(("api", "output_tokens"), [("ollama", 128), ("openai-embeddings", None)])
def test_a_starter_has_the_protocol_and_what_it_needs(api, output_tokens, tmp_path):
    path = tmp_path / "b.yaml"
    path.write_text(one("https://example.org", api=api, models=("m",)))
    benchmark = load(path).benchmark
    assert (benchmark.target.api, benchmark.workload.output_tokens) == (api, output_tokens)


def test_a_starter_whose_model_is_not_known_is_refused_until_it_is(tmp_path):
    path = tmp_path / "b.yaml"
    path.write_text(one("https://example.org/v1"))
    with pytest.raises(SpecError) as caught:
        load(path)
    assert caught.value.problem.code == "placeholder"
    assert caught.value.problem.at.endswith("b.yaml:6")
    path.write_text(path.read_text().replace(PLACEHOLDER, "mine"))
    assert load(path).benchmark.target.model == "mine"


def test_a_starter_explains_itself():
    text = one("squeezenet")
    assert text.count("#") > 5
    assert parse(text, ".yaml", "f").document["measure"]["budget"] == "5m"
