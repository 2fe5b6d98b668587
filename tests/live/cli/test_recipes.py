"""`assay recipes`: listed, shown and copied."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from assay.cli.main import app
from assay.errors import UsageError
from assay.spec.recipes import find_recipe


def run(*words: str):
    return CliRunner().invoke(app, ["recipes", *words])


def test_they_are_listed_with_a_line_each():
    said = run("list")
    assert said.exit_code == 0
    for name in ("chroma", "ollama", "pgvector", "qdrant", "vllm"):
        assert any(line.startswith(name) and len(line.split()) > 4 for line in said.stdout.splitlines()), name


def test_one_is_shown_and_copied(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("show", "ollama").stdout == find_recipe("ollama").text
    assert run("copy", "ollama").stdout == "wrote ollama.yaml\n"
    assert (tmp_path / "ollama.yaml").read_text() == find_recipe("ollama").text
    refused = run("copy", "ollama")
    assert isinstance(refused.exception, UsageError)
    assert "exists already" in str(refused.exception)
    assert run("copy", "ollama", "--force", "--out", "ollama.yaml").exit_code == 0
    assert isinstance(run("show", "olama").exception, UsageError)


def test_a_program_gets_the_list_as_json():
    names = [recipe["name"] for recipe in json.loads(run("list", "--format", "json").stdout)]
    assert {"chroma", "ollama", "pgvector", "qdrant", "vllm"} <= set(names)
