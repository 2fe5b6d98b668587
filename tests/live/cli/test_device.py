"""`assay device`: bench, list and locks."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from assay.cli.main import app

ASSAY = [sys.executable, "-m", "assay"]


def invoke(*words):
    return CliRunner().invoke(app, ["device", *words])


def test_list_shows_the_processor_and_what_measures_it():
    done = invoke("list")
    assert done.exit_code == 0
    assert any(line.startswith("cpu ") and "numpy" in line for line in done.output.splitlines())
    rows = json.loads(invoke("list", "--format", "json").output)
    assert rows[0]["device"] == "cpu"


def test_locks_says_who_holds_what(monkeypatch):
    from assay.hardware.fitness import lock

    monkeypatch.setattr(lock, "holders", lambda: ())
    assert invoke("locks").output == "no device is held\n"
    holder = lock.Holder("gpu0", user="ada", pid=12, since="2026-11-15T10:00:00+00:00", purpose="squeezenet")
    monkeypatch.setattr(lock, "holders", lambda: (holder,))
    told = invoke("locks").output
    assert told.startswith("gpu0: held by ada")
    assert json.loads(invoke("locks", "--format", "json").output)[0]["user"] == "ada"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--device", "toaster"), "unknown device 'toaster'"),
        (("--tests", "copy,fly"), "fly"),
        (("--each", "soon"), "is not a duration"),
        (("--shapes", "big"), "--shapes"),
        (("--sizes", "1parsec"), "unknown unit 'parsec'"),
    ],
)
def test_wrong_use_is_reported_before_anything_runs(words, told):
    done = subprocess.run([*ASSAY, "device", "bench", *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert told in done.stderr


@pytest.mark.live
def test_bench_measures_prints_a_table_and_keeps_the_result(tmp_path):
    store = tmp_path / "store"
    words = ("--tests", "fp32,int8", "--shapes", "64", "--each", "20ms", "--runs", "2", "--threads", "1", "--bare")
    done = subprocess.run(
        [*ASSAY, "device", "bench", *words, "--store", str(store), "--quiet"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode in (0, 1), done.stderr
    lines = done.stdout.splitlines()
    assert any(line.split()[:2] == ["test", "value"] for line in lines)
    fp32 = next(line for line in lines if line.startswith("fp32 "))
    assert "TFLOPS" in fp32
    assert "64²" in fp32
    assert any("int8" in line and "the BLAS of numpy" in line for line in lines)
    campaign = lines[-1].split()[-1]
    shown = subprocess.run(
        [*ASSAY, "results", "show", campaign, "--store", str(store), "--format", "json"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    (job,) = json.loads(shown.stdout)["jobs"]
    assert job["definition"]["target"]["device"] == "cpu"
    run = job["runs"][0]
    assert run["facts"]["tests"]["fp32"]["curve"][0]["n"] == 64
    assert run["absent"]["int8_tops"]
    assert run["device"]["used"] == "cpu"
    assert run["facts"]["bare"]["fp32"]["pairs"] >= 9


@pytest.mark.live
def test_bench_on_a_device_that_is_not_here_fails_with_the_reason(tmp_path):
    words = ("--device", "cuda:7", "--runs", "1", "--store", str(tmp_path), "--quiet", "--format", "json")
    done = subprocess.run([*ASSAY, "device", "bench", *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 3
    (job,) = json.loads(done.stdout)["jobs"]
    assert job["state"] == "failed"
    assert job["error"]["code"] == "device"
