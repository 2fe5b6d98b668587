"""`assay doctor` as a user meets it: marks, reasons, remedies, one sentence at the end, and an exit code."""

from __future__ import annotations

import json
import sys

import pytest
from tests.unit.hardware.fitness.conftest import laptop
from typer.testing import CliRunner

from assay.analyse.checks.table import CONDITIONS
from assay.cli.main import app
from assay.hardware.fitness import control, lock
from assay.hardware.fitness import session as state

CLOCK = {"sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc"}
MEMORY = {"proc/meminfo": "MemTotal: 16000000 kB\nMemAvailable: 12000000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n"}
QUIET = {"others_pct": 1.0, "steal_pct": 0.0, "over_s": 1.0}


class NoBoards:
    absent, count, facts, lost = "NVML sees no GPU", 0, (), {}


@pytest.fixture
def doctor(tmp_path, monkeypatch):
    """Run the verb on a recorded machine, with times of the control workload that are given."""

    def _doctor(files, *arguments, integer_ms=100.0, load=QUIET, reader=None):
        for name, text in (CLOCK | MEMORY | files).items():
            path = tmp_path / "root" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")
        timed = {"version": 1, "rounds": 8, "integer_ms": integer_ms, "memory_ms": 50.0}
        monkeypatch.setattr(state, "timed_control", lambda _run: (dict(timed), dict(load), ""))
        boards = reader or NoBoards()
        monkeypatch.setattr(state, "nvml", lambda: boards)
        real = state.fitness
        monkeypatch.setattr(state, "fitness", lambda *words: real(*words, root=tmp_path / "root"))
        try:
            return CliRunner().invoke(app, ["doctor", *arguments])
        finally:
            monkeypatch.setattr(state, "fitness", real)

    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ASSAY_CONTROL", raising=False)
    monkeypatch.setenv("ASSAY_LOCK", "off")
    return _doctor


def test_a_fit_machine(doctor):
    done = doctor(laptop("performance", no_turbo="1"), "--device", "cpu")
    assert done.exit_code == 0, done.output
    last = done.output.splitlines()[-1]
    assert last.startswith("fit: ")
    assert "all of them are met" in last
    assert "✕" not in done.output.partition("what can be watched")[0]
    assert "✓ turbo off or steady" in done.output


def test_a_laptop_as_it_is_delivered_has_doubts_and_remedies(doctor):
    done = doctor(laptop(), "--device", "cpu")
    assert done.exit_code == 0
    assert done.output.splitlines()[-1] == "fit with doubts: governor set for speed, turbo off or steady"
    assert "✕ governor set for speed" in done.output
    assert "    why  " in done.output
    if sys.platform == "linux":
        assert "    fix  sudo cpupower frequency-set --governor performance" in done.output
    assert "    fix  echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo" in done.output


def test_a_busy_machine_is_not_fit(doctor):
    done = doctor(laptop("performance", no_turbo="1"), load={**QUIET, "others_pct": 43.0})
    assert done.exit_code == 1
    assert done.output.splitlines()[-1] == "not fit: machine quiet"
    assert "other programs use 43 % of the machine's processor time (limit 10 %)" in done.output


def test_json_has_every_reading_reason_and_remedy(doctor):
    done = doctor(laptop(), "--format", "json")
    found = json.loads(done.stdout)
    assert found["fit"] == "fit with doubts"
    assert [one["name"] for one in found["checks"]] == list(CONDITIONS)
    assert all(one["why"] for one in found["checks"])
    assert {one["name"] for one in found["checks"] if one["fix"]} == {"governor set for speed", "turbo off or steady"}
    assert found["state"]["processor"]["governors"] == {"powersave": 4}
    assert {one["name"] for one in found["probes"]} >= {"processor time", "energy of the processor", "GPUs"}


def test_the_history_grows_and_a_drift_is_shown(doctor):
    for _ in range(5):
        doctor({}, "--device", "cpu")
    done = doctor({}, "--device", "cpu", integer_ms=130.0)
    assert done.exit_code == 1
    assert "takes 30 % longer than usual here (integer loop, 5 entries)" in done.output
    assert done.output.splitlines()[-1] == "not fit: control workload steady"


def test_without_the_control_workload(doctor):
    done = doctor({}, "--no-control")
    assert "– control workload steady" in done.output
    assert "– machine quiet" in done.output


def test_an_unknown_device_is_a_mistake_of_the_user(doctor):
    done = doctor({}, "--device", "abacus")
    assert done.exit_code != 0
    assert "abacus" in str(done.exception)


def test_while_another_measures_it_starts_no_work_and_says_who(doctor, monkeypatch):
    monkeypatch.setenv("ASSAY_LOCK", "try")
    somebody = lock.Holder("cpu", user="alice", pid=1, purpose="squeezenet")
    monkeypatch.setattr(lock, "holders", lambda: (somebody,))
    done = doctor({}, "--device", "cpu")
    assert done.exit_code == 1
    assert "alice for squeezenet (pid 1)" in done.output
    assert "another measurement is under way" in done.output


def test_processes_of_others_on_a_gpu_are_named_and_nobody_is_advised_to_end_them(doctor):
    class Crowded:
        absent, count, facts, lost = "", 1, ({"index": 0, "name": "NVIDIA H200"},), {}

        def read(self, index):
            return {"temperature_c": 40.0, "power_w": 90.0, "energy_j": 5.0, "throttle_bits": 0.0}

        def limits(self, index):
            return {"slowdown_c": 87.0}

        def processes(self, index):
            return [(2**22 + 7, 3 * 2**30)]

        def throttle_reasons(self, bits):
            return ()

    done = doctor({}, "--device", "cuda:0", reader=Crowded())
    assert done.exit_code == 1
    assert f"a process (pid {2**22 + 7}, 3.0 GiB)" in done.output
    assert "kill" not in done.output
    assert "✓ cool enough" in done.output


@pytest.mark.live
def test_this_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path))
    monkeypatch.delenv("ASSAY_CONTROL", raising=False)
    done = CliRunner().invoke(app, ["doctor", "--format", "json"])
    found = json.loads(done.stdout)
    assert done.exit_code == (found["fit"] == "not fit")
    if control.VARIABLE not in found["state"].get("absent", {}):
        timed = next(one for one in found["checks"] if one["name"] == "control workload steady")
        assert timed["detail"]
    assert all(one["detail"] for one in (*found["checks"], *found["probes"]))
