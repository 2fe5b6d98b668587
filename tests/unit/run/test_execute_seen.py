"""Runs that are looked at from the side: what of that reaches the record, whatever happens to the run or the probe."""

from __future__ import annotations

import csv
import gzip
import json
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest
from tests.unit.run.children import children

from assay.clock import SYSTEM_CLOCK
from assay.plan.job import Job
from assay.run.execute import execute_job
from assay.run.probes import FILE
from assay.spec.benchmark import Definition

pytestmark = pytest.mark.live

SPIN = "import time\nuntil = time.monotonic() + 0.8\nwhile time.monotonic() < until: pass\n"


class Nobody:
    def phase(self, name): ...
    def progress(self, share, note): ...
    def run(self, run_id, of): ...
    def log(self, lines): ...
    def run_done(self, result): ...


def execute(tmp_path, target, watch=None, measure=None, keep=None, **sections):
    raw = {"target": target, "measure": {"runs": 1, "probe": "50ms", **(measure or {})}, **sections}
    outcomes = []

    def taken(outcome):
        outcomes.append(outcome)
        if keep is not None:
            keep(outcome)

    execute_job(
        Job("b", "d", 0, Definition.model_validate_json(json.dumps(raw)), base=str(tmp_path)),
        cache=Path(os.environ["ASSAY_CACHE"]),
        clock=SYSTEM_CLOCK,
        watch=watch or Nobody(),
        keep=taken,
    )
    return outcomes


def rows(path) -> list[dict[str, str]]:
    with gzip.open(path, "rt") as file:
        return list(csv.DictReader(file))


def looking() -> list[psutil.Process]:
    return children("assay.run.probes.sampler")


@pytest.mark.quiet
def test_a_program_is_seen_in_its_measured_window_and_the_readings_are_kept(tmp_path):
    kept = []
    (outcome,) = execute(
        tmp_path,
        {"command": [sys.executable, "-c", SPIN]},
        keep=lambda outcome: kept.append(rows(outcome.files[FILE])),
        prices={"*": {"per_hour": 2}},
    )
    result = outcome.result
    assert result.error is None
    seen = result.seen
    seconds = (seen.window_ns[1] - seen.window_ns[0]) / 1e9
    assert seconds == pytest.approx(result.phases["measure"], abs=1e-6)
    assert seen.looks > 5
    # The clock of the program's own process is the truth, other programs may take part of the core.
    truth_pct = 100 * result.metrics["cpu_s"] / result.metrics["duration_s"]
    assert seen.statistics["job.cpu_pct"]["mean"] == pytest.approx(truth_pct, abs=25)
    assert seen.statistics["job.processes"]["max"] >= 2  # ours and the program
    assert {"others.cpu_pct", "own.cpu_pct", "machine.memory_available_bytes"} <= seen.statistics.keys()
    assert 0 < seen.cost["cpu_pct"] < 30
    phases = {row["name"]: (row["at_ns"], row["value"]) for row in kept[0] if row["source"] == "phase"}
    assert {"measure", "score"} <= phases.keys()
    assert looking() == []
    _check_energy(result)
    assert result.facts["price"]["matched"] == "*"
    assert result.absent["items_per_cost"] == "the target reports no throughput_per_s"


def _check_energy(result):
    """On a machine with counters there is a figure with its grade, on any other a reason and no watt."""
    if result.seen.energy:
        assert result.metrics["energy_j"] > 0
        assert result.facts["energy"]["grade"] in ("counter", "sampled", "estimated")
    else:
        assert result.absent["energy_j"]
        assert not {"energy_j", "power_w", "energy_per_item_j"} & result.metrics.keys()


@pytest.mark.quiet
def test_a_run_that_crashed_has_its_readings_too(tmp_path):
    files = []
    crash = "import os, time; time.sleep(0.4); os.abort()"
    (outcome,) = execute(
        tmp_path,
        {"command": [sys.executable, "-c", crash]},
        keep=lambda outcome: files.append(rows(outcome.files[FILE])),
    )
    assert outcome.result.error.code == "command"
    seen = outcome.result.seen
    assert (seen.window_ns[1] - seen.window_ns[0]) / 1e9 > 0.4
    assert "job.rss_bytes" in seen.statistics
    assert files[0]


@pytest.mark.quiet
def test_a_run_that_is_killed_by_its_deadline_is_seen(tmp_path):
    (outcome,) = execute(
        tmp_path, {"command": [sys.executable, "-c", "import time; time.sleep(60)"]}, measure={"timeout": "1500ms"}
    )
    assert outcome.result.error.code == "timeout"
    assert outcome.result.seen.looks > 3
    assert FILE in outcome.files


def test_one_process_looks_at_all_runs(tmp_path):
    pids = set()

    class Watch(Nobody):
        def phase(self, name):
            if name == "measure":
                pids.update(one.pid for one in looking())

    outcomes = execute(
        tmp_path, {"command": [sys.executable, "-c", "import time; time.sleep(0.2)"]}, Watch(), {"runs": 2}
    )
    assert len(pids) == 1
    assert all(one.result.seen.statistics for one in outcomes)
    begins = [one.result.seen.window_ns[0] for one in outcomes]
    assert begins == sorted(begins)


def test_a_probe_that_is_killed_costs_the_run_nothing_but_its_readings(tmp_path):
    class Killer(Nobody):
        def phase(self, name):
            if name == "measure":
                for one in looking():
                    one.send_signal(signal.SIGKILL)

    outcomes = execute(tmp_path, {"command": [sys.executable, "-c", "pass"]}, Killer(), {"runs": 2})
    assert [one.result.error for one in outcomes] == [None, None]
    for one in outcomes:
        assert one.result.seen.absent == {"probe": "the watching process ended with code -9"}
        assert one.result.absent["energy_j"] == "the watching process ended with code -9"
        assert FILE not in one.files


def test_off_is_off(tmp_path):
    started = []

    class Watch(Nobody):
        def phase(self, name):
            started.extend(looking())

    (outcome,) = execute(tmp_path, {"command": [sys.executable, "-c", "pass"]}, Watch(), {"probe": "off"})
    assert outcome.result.seen is None
    assert started == []
    assert FILE not in outcome.files
    assert "energy_j" not in outcome.result.absent


def test_a_refused_job_leaves_no_process(tmp_path):
    (outcome,) = execute(tmp_path, {"model": "missing.onnx"})
    assert outcome.result.error.phase == "prepare"
    assert looking() == []


@pytest.mark.quiet
def test_tests_of_a_target_are_summed_up_by_themselves(tmp_path, monkeypatch):
    (tmp_path / "testing.py").write_text(
        "import time\nfrom assay.run.contract import Measured\n"
        "def measure(order, stage, rules):\n"
        "    with stage.phase('measure'):\n"
        "        begin = time.perf_counter_ns()\n"
        "        until = time.monotonic() + 0.6\n"
        "        while time.monotonic() < until: pass\n"
        "        end = time.perf_counter_ns()\n"
        "    tests = {'spin': {'begin_ns': begin, 'end_ns': end}, 'odd': {'begin_ns': None}, 'plain': 3}\n"
        "    return Measured(metrics={'throughput_per_s': 5.0}, facts={'tests': tests})\n"
    )
    info = tmp_path / "testing-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: testing\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[assay.targets]\nspinning = testing:measure\n")
    (tmp_path / "m.onnx").write_bytes(b"x")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("ASSAY_LABELS", "gpu=l4")
    (outcome,) = execute(tmp_path, {"model": "m.onnx", "runtime": "spinning"}, prices={"gpu=l4": {"per_hour": 1.8}})
    assert outcome.result.error is None
    (span,) = outcome.result.seen.spans.values()
    assert span["statistics"]["job.cpu_pct"]["mean"] > 20
    assert outcome.result.metrics["items_per_cost"] == pytest.approx(10_000)
