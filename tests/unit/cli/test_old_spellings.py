"""What was spelt otherwise in an earlier version still works, and says so."""

from __future__ import annotations

import shlex

import pytest
from typer.testing import CliRunner

from assay.cli.main import app
from assay.cli.old_spellings import OPTIONS, VERBS, current
from assay.cli.verbs import leaf_verbs

LEAVES = dict(leaf_verbs())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("schedule add bench.yaml", "schedules add bench.yaml"),
        ("schedule run-now nightly", "schedules run nightly"),
        ("schedules run-now nightly", "schedules run nightly"),
        ("jobs logs c1-job-0 --server http://x", "logs c1-job-0 --server http://x"),
        ("info --fresh --json", "info --fresh --format json"),
        ("schedule list --json", "schedules list --format json"),
        ("serve --folder demo --port 8081", "serve --store demo --port 8081"),
        ("tokens create ci --folder=demo", "tokens create ci --store=demo"),
        ("agent start --host http://x", "agent start --server http://x"),
        ("logs latest -f", "logs latest --follow"),
        ("score latest --format table", "score latest --format text"),
        ("score latest --format=table", "score latest --format=text"),
    ],
)
def test_an_old_spelling_becomes_the_new_one_with_a_note(old: str, new: str) -> None:
    words, notes = current(old.split())
    assert words == new.split()
    assert notes
    assert all(note.startswith("note    `") and "the next version does not know" in note for note in notes)
    assert current(words) == (words, [])


@pytest.mark.parametrize(
    "line",
    [
        "serve --host 0.0.0.0",
        "agent serve --listen :8081",
        "device bench --folder /mnt",
        "run bench.yaml -f json",
        "results list -f json",
        "ab -- a.yaml --json",
        "schedules run nightly",
        "",
    ],
)
def test_other_lines_stay_as_they_are(line: str) -> None:
    assert current(shlex.split(line)) == (line.split(), [])


def test_a_verb_called_by_an_old_name_says_the_new_one_on_stderr() -> None:
    result = CliRunner().invoke(app, ["schedule", "--help"])
    assert result.exit_code == 0
    assert result.stderr == "note    `schedule` is now `schedules`; the next version does not know the old spelling\n"
    assert "Usage: assay schedules [OPTIONS] VERB ..." in result.stdout
    assert "schedule " not in CliRunner().invoke(app, ["--help"]).stdout


def test_every_new_spelling_exists() -> None:
    for verb in VERBS.values():
        assert any(path[: len(verb)] == verb for path in LEAVES), verb
    for spelling in OPTIONS:
        below = [command for path, command in LEAVES.items() if path[: len(spelling.verb)] == spelling.verb]
        known = [option for command in below for parameter in command.params for option in parameter.opts]
        assert spelling.new[0] in known, spelling


def test_options_mean_the_same_everywhere() -> None:
    """One spelling for the server, the form of output and the store; `-f` is the form alone."""
    for path, command in LEAVES.items():
        spelled = {option: parameter.name for parameter in command.params for option in parameter.opts}
        assert "--json" not in spelled, path
        assert spelled.get("-f", "form") == "form", path
        assert "--folder" not in spelled or path == ("device", "bench"), path
        if "--host" in spelled:  # where something listens
            assert path in {("serve",), ("infra", "create"), ("sim", "llm"), ("sim", "http")}
