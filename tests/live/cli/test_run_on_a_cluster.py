"""`assay run` of a benchmark for a cluster: what only a fleet could heed is refused before anything happens."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from assay.cli.main import app
from assay.errors import UsageError


@pytest.mark.parametrize(
    "words",
    [("--priority", "3"), ("--deadline", "2h"), ("--agent", "a"), ("--spread", "pack"), ("--unplaceable", "fail")],
)
def test_options_for_agents_are_refused(tmp_path, words):
    file = tmp_path / "b.json"
    document = {"benchmark": "b", "target": {"command": ["true"]}, "place": {"engine": "slurm"}}
    file.write_text(json.dumps(document))
    done = CliRunner().invoke(app, ["run", str(file), "--server", "http://127.0.0.1:9", *words])
    assert isinstance(done.exception, UsageError)
    assert words[0] in done.exception.problem.message
