"""Every file of examples/ is run, shortened, and gives what it says."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from assay.campaign import plan_of
from assay.spec.load import load

pytestmark = pytest.mark.live

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
Record = dict[str, Any]
FILES = sorted(path for path in EXAMPLES.iterdir() if path.suffix in (".yaml", ".toml", ".json"))
SHORT = ("--set", "measure.runs=1", "--set", "measure.warmup=none", "--set", "measure.until={samples: 5}")


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def folder(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    monkeypatch.setenv("ASSAY_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("ASSAY_CACHE", str(cache))
    monkeypatch.setenv("PATH", os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))
    return tmp_path


def assay(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["assay", *arguments], cwd=folder, capture_output=True, text=True, timeout=120)


def test_no_example_is_forgotten() -> None:
    scripts = {path.name for path in EXAMPLES.glob("*.py")}
    assert scripts == {"train.py", "python_api.py"}
    assert {path.name for path in EXAMPLES.iterdir() if path.is_file()} == scripts | {path.name for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_an_example_measures_every_job(path: Path, folder: Path) -> None:
    jobs = len(plan_of(load(path)).jobs)
    less = SHORT[:2] if path.name == "program.yaml" else SHORT
    done = assay(folder, "run", f"examples/{path.name}", "--quiet", "--out", "out", *less)
    assert done.returncode == 0, done.stdout + done.stderr
    (document,) = (folder / "out").glob("*.json")
    record = json.loads(document.read_text())
    assert [job["state"] for job in record["jobs"]] == ["done"] * jobs
    assert all(job["metrics"] for job in record["jobs"])
    SAYS.get(path.name, lambda _: None)(record)
    (table,) = (folder / "out").glob("*_results.csv")
    rows = list(csv.DictReader(io.StringIO(table.read_text())))
    assert [row["Status"] for row in rows] == ["Complete"] * jobs
    assert "</html>" in next((folder / "out").glob("*.html")).read_text()


def _program(record: Record) -> None:
    metrics = record["jobs"][0]["metrics"]
    assert metrics["rows_per_s"]["median"] > 1000  # by a pattern
    assert metrics["accuracy{fold=0}"]["median"] > 0.9  # by a pattern with context; it really learns
    assert metrics["accuracy{fold=1}"]["median"] > 0.9
    assert 0 < metrics["loss"]["median"] < 0.3  # by emit


def _objective(record: Record) -> None:
    assert [gate["passed"] for gate in record["jobs"][0]["gates"]] == [True, True, True]


def _offline(record: Record) -> None:
    assert record["jobs"][0]["runs"][0]["facts"]["load"] == {"scenario": "offline", "streams": 2, "items_per_call": 4}


SAYS = {"program.yaml": _program, "objective.json": _objective, "offline.yaml": _offline}


def test_the_training_runs_without_assay_watching(folder: Path) -> None:
    done = subprocess.run(
        ["python", "examples/train.py", "--epochs", "3"], cwd=folder, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["loss"] > 0


def test_the_python_example_runs(folder: Path) -> None:
    done = subprocess.run(["python", "examples/python_api.py"], cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "run 2 measure latency_ms" in done.stdout
