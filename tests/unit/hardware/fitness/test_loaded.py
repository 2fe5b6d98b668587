"""A machine that others load while a job is measured: the checks must say so."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

import assay
from assay.hardware.fitness.control import ControlHistory, timed_control
from assay.hardware.fitness.session import FOLDER, fitness
from assay.hardware.machine import machine_id

pytestmark = [pytest.mark.live, pytest.mark.quiet]

BUSY = "print(flush=True)\nwhile True: pass"


@pytest.fixture
def load():
    """Start busy processes, so many for each core that we may use."""
    started: list[subprocess.Popen[bytes]] = []

    def _load(per_core: int) -> None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        for _ in range(per_core * cores):
            started.append(subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE))
        for one in started:
            one.stdout.readline()

    yield _load
    for one in started:
        one.kill()
        one.wait()
        one.stdout.close()


def test_a_job_on_a_loaded_machine_says_which_share_others_took(load, tiny_model):
    load(1)
    result = assay.run(
        {
            "benchmark": "loaded",
            "target": {"model": str(tiny_model)},
            "measure": {"runs": 1, "warmup": 5, "until": {"at_least": "400ms", "at_most": "600ms"}, "control": False},
        }
    )
    (job,) = result.jobs
    quiet = next(one for one in job.checks if one.name == "machine quiet")
    assert quiet.passed is False
    share = re.search(r"other programs used (\d+(?:\.\d+)?) % of the machine's processor time in run 1", quiet.detail)
    assert share, quiet.detail
    assert float(share[1]) > 10
    assert job.verdict == "suspect"
    assert {"memory free", "cool enough", "control workload steady"} <= {one.name for one in job.checks}
    for when in ("before", "after"):
        assert job.environment[when]["fitness"]["absent"]["control"] == "no control workload was asked for"


def test_the_control_workload_drifts_on_a_loaded_machine(load, tmp_path, monkeypatch):
    monkeypatch.delenv("ASSAY_CONTROL", raising=False)
    figures, _, reason = timed_control()
    assert reason == ""
    # What this machine does now is made its history, so that only the load of this test is seen.
    history = ControlHistory(tmp_path / FOLDER, machine_id(), int(figures["version"]))
    for number in range(8):
        one = 1 + 0.005 * (number % 3 - 1)
        history.add({part: figures[part] * one for part in ("integer_ms", "memory_ms")}, "2026-01-01T00:00:00+00:00")
    load(2)
    state = fitness("cpu", True, tmp_path)
    drift = state["control"]["history"]["integer"]
    assert drift["drift_pct"] > max(10, drift["band_pct"])
    assert state["load"]["others_pct"] > 10
