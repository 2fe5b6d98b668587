"""`assay report --since` and `assay sim history`, from the command line."""

from __future__ import annotations

import csv
import json
from datetime import UTC, datetime

import pytest
from tests.live.test_simulating import SMALL
from typer.testing import CliRunner

from assay.cli.main import app
from assay.cli.results import window
from assay.errors import AssayError, UsageError

NOW = datetime(2026, 1, 8, 12, tzinfo=UTC)
DAY = 86_400.0


def run(*words: str) -> str:
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, f"{done.output}\n{done.exception}"
    return done.output


def refused(*words: str) -> str:
    done = CliRunner().invoke(app, list(words))
    assert isinstance(done.exception, AssayError), done.output
    return str(done.exception)


@pytest.mark.parametrize(
    ("since", "until", "days"),
    [
        ("7d", None, 7),
        ("24h", None, 1),
        ("2026-01-01T12:00", None, 7),
        ("1d", "2026-01-05", 1),
        ("2026-01-01", "2026-01-05", 4),
    ],
)
def test_the_time_of_a_digest(since, until, days):
    begin, end = window(since, until, NOW)
    assert end - begin == days * DAY
    assert end == (NOW.timestamp() if until is None else datetime(2026, 1, 5, tzinfo=UTC).timestamp())


@pytest.mark.parametrize(
    ("since", "until"), [("yesterday", None), ("7d", "soon"), ("2026-02-01", None), ("0s", None), ("-3d", None)]
)
def test_a_time_that_is_none_is_refused(since, until):
    with pytest.raises(UsageError):
        window(since, until, NOW)


def test_an_empty_store_has_an_empty_digest(tmp_path):
    told = run("report", "--since", "7d", "--format", "md", "--out", "-")
    assert "There is no series yet" in told
    path = run("report", "--since", "7d", "--out", str(tmp_path / "d.html")).strip()
    assert path == str(tmp_path / "d.html")
    assert "There is no series yet" in (tmp_path / "d.html").read_text()
    document = json.loads(run("report", "--since", "7d", "--format", "json", "--out", "-"))
    assert (document["schema"], document["groups"]) == ("assay.digest/1", [])


def test_wrong_use_is_reported(tmp_path):
    assert "leave out one of them" in refused("report", "latest", "--since", "7d")
    assert "no CSV form" in refused("report", "--since", "7d", "--format", "csv")
    assert "give --since too" in refused("report", "--until", "2026-01-01")
    assert "give --out FOLDER or --store FOLDER" in refused("sim", "history")
    assert "cannot read" in refused("sim", "history", "--out", str(tmp_path), "--settings", str(tmp_path / "none.yaml"))


def test_a_history_as_files(tmp_path):
    run("sim", "history", "--nights", "40", "--out", str(tmp_path))
    rows = list(csv.DictReader((tmp_path / "points.csv").open()))
    assert {row["better"] for row in rows} == {"lower", "higher"}
    assert len({row["series"] for row in rows}) == 12
    assert len(rows) == 12 * 40
    true = json.loads((tmp_path / "truth.json").read_text())
    assert {one["night"] for one in true} == {34}
    again = tmp_path / "again"
    run("sim", "history", "--nights", "40", "--out", str(again))
    assert (again / "points.csv").read_bytes() == (tmp_path / "points.csv").read_bytes()
    run("sim", "history", "--nights", "40", "--seed", "1", "--out", str(again))
    assert (again / "points.csv").read_bytes() != (tmp_path / "points.csv").read_bytes()


def test_the_files_can_be_checked_without_a_store(tmp_path):
    run("sim", "history", "--nights", "60", "--out", str(tmp_path))
    found = json.loads(run("series", "check", str(tmp_path / "points.csv"), "--format", "json"))
    moved = {one["series"] for one in found["series"] if one["findings"]}
    assert {"image classifier #0 latency_ms", "image classifier #1 latency_ms"} <= moved


@pytest.mark.simulated
def test_a_history_in_a_store_and_its_digest(tmp_path):
    store, settings = str(tmp_path / "store"), tmp_path / "settings.yaml"
    settings.write_text(json.dumps(SMALL))
    told = run("sim", "history", "--settings", str(settings), "--nights", "36", "--store", store)
    assert "72 jobs of 36 nights" in told
    told = run("report", "--store", store, "--since", "14d", "--until", "2025-02-06", "--format", "md", "--out", "-")
    assert "### code: commit" in told
    assert "| latency\\_ms · small · batch=1 | worse |" in told
    assert "holds results already" in refused("sim", "history", "--nights", "2", "--store", store)
