"""`assay noise` as a user meets it."""

import json
import subprocess
import sys

import pytest

from assay.cli.bisect import built_in
from assay.spec.load import load

pytestmark = pytest.mark.live

ASSAY = [sys.executable, "-m", "assay"]
# Runs differ by a few percent in an order that is fixed, so that the answers are known.
PROGRAM = """
import os, assay
run = int(os.environ["ASSAY_RUN_ID"])
for i in range(8):
    assay.emit({"step_ms": 10 + (7 * run % 5) / 10 + i / 100, "steps_per_s": 100 - run % 3})
"""


def assay(*arguments, **options):
    return subprocess.run([*ASSAY, *map(str, arguments)], capture_output=True, text=True, **options)


@pytest.fixture
def bench(write):
    write("work.py", PROGRAM)
    metrics = [{"name": "step_ms", "unit": "ms", "better": "lower"}, {"name": "steps_per_s", "better": "higher"}]
    target = {"command": [sys.executable, "work.py"], "metrics": metrics}
    return write("bench.json", json.dumps({"benchmark": "steps", "target": target, "measure": {"runs": 2}}))


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setenv("ASSAY_LOCK", "off")
    monkeypatch.setenv("ASSAY_CONTROL", "off")


def test_a_study_of_a_file_says_how_much_equal_runs_differ(bench):
    done = assay("noise", bench, "--runs", 5, "--format", "json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["schema"] == "assay.noise/1"
    (job,) = document["jobs"]
    metrics = {one["metric"]: one for one in job["metrics"]}
    assert set(metrics) == {"step_ms", "steps_per_s"}
    step = metrics["step_ms"]
    assert step["runs"] == 5
    assert step["within"]["samples"] == 8
    assert 0.005 < step["between"] < 0.05
    assert step["interval"]["low"] < step["between"] < step["interval"]["high"]
    assert step["against"]["interleaved"]["answer"] == "cannot tell"
    changes = [one["change"] for one in step["resolves"]]
    assert changes == sorted(changes, reverse=True)
    # It is a campaign like any other.
    assert json.loads(assay("results", "show", document["campaign"], "--format", "json").stdout)["benchmark"] == "steps"


def test_the_study_reads_as_text(bench):
    done = assay("noise", bench, "--runs", 4, "--quiet", "--all")
    assert done.returncode == 0, done.stderr
    for words in (
        "within",
        "between",
        "drift",
        "A against A",
        "N runs on each side",
        "With 5 runs on each side",
        "duration_s",
    ):
        assert words in done.stdout
    assert done.stdout.splitlines()[-1].startswith("result  ")
    assert done.stderr == ""


def test_a_job_that_fails_is_reported_and_fails_the_command(write):
    bench = write("bad.yaml", "benchmark: bad\ntarget: {command: 'false'}\n")
    done = assay("noise", bench, "--runs", 4, "--quiet")
    assert done.returncode == 3
    assert "error[command]" in done.stdout


def test_too_few_runs_and_settings_without_a_file_are_refused():
    assert assay("noise", "--runs", 3).returncode == 2
    done = assay("noise", "--set", "measure.runs=3")
    assert done.returncode == 2
    assert "error[set]" in done.stderr


def test_without_a_file_the_control_workload_is_studied():
    loaded = load(built_in(12))
    target = loaded.benchmark.target
    assert loaded.benchmark.measure.runs == 12
    done = subprocess.run(target.command, capture_output=True, text=True, check=True)
    emitted = [json.loads(line) for line in done.stdout.splitlines()]
    assert {name for line in emitted for name in line} == {metric.name for metric in target.metrics}
    assert len(emitted) >= 4
