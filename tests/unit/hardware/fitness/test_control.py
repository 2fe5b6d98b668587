"""The control workload: the same amount of work each time, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from assay.hardware.fitness import control
from assay.hardware.fitness import control_loops as loops


def told(**changes):
    whole = {
        "version": 1,
        "rounds_ms": {"integer": [10.0, 11.0, 30.0], "memory": [5.0, 5.0, 5.0]},
        "absent": "",
        "cpu_s": 0.1,
        **changes,
    }
    return lambda *_, **__: SimpleNamespace(returncode=0, stdout=json.dumps(whole), stderr="")


def test_the_median_round_is_the_figure(monkeypatch):
    figures, others, reason = control.timed_control(told())
    assert (figures["integer_ms"], figures["memory_ms"], figures["rounds"]) == (11.0, 5.0, 3)
    assert figures["integer_spread_pct"] == pytest.approx(100 * 1.4826 / 11, rel=1e-3)
    assert figures["memory_spread_pct"] == 0.0
    assert others["others_pct"] >= 0
    assert reason == ""


def test_without_room_for_the_memory_loop_the_integer_loop_still_counts():
    figures, _, _ = control.timed_control(told(rounds_ms={"integer": [10.0]}, absent="no 64 MiB"))
    assert figures["integer_ms"] == 10.0
    assert "memory_ms" not in figures
    assert figures["memory_absent"] == "no 64 MiB"


@pytest.mark.parametrize(
    "answer",
    [
        lambda *_, **__: SimpleNamespace(returncode=1, stdout="", stderr="Traceback\nMemoryError: no"),
        lambda *_, **__: SimpleNamespace(returncode=0, stdout="not JSON", stderr=""),
        lambda *_, **__: SimpleNamespace(returncode=0, stdout="[1]", stderr=""),
        told(rounds_ms={"integer": [], "memory": []}),
        told(rounds_ms={"integer": [float("nan")]}),
        told(version=None),
    ],
)
def test_a_workload_that_fails_is_a_reason(answer):
    figures, others, reason = control.timed_control(answer)
    assert (figures, others) == ({}, {})
    assert "control workload" in reason


@pytest.mark.parametrize("problem", [OSError("no room"), subprocess.TimeoutExpired("python", 60)])
def test_a_workload_that_cannot_start_is_a_reason(problem):
    def run(*_, **__):
        raise problem

    assert "could not be run" in control.timed_control(run)[2]


def test_the_work_is_fixed_and_its_result_known():
    assert loops.integers(1000) == loops.integers(1000)
    assert [loops.integers(steps) for steps in (0, 1, 2)] == [1, 149, (149 * 75 + 74) % 65537]
    there, back = memoryview(bytearray(8)), memoryview(bytearray(b"abcdefgh"))
    loops.copies(there, back, 2)
    assert bytes(there) == b"abcdefgh"


class Ticking:
    """A clock on which each reading is a fixed time after the one before."""

    def __init__(self, step_s: float) -> None:
        self.now_s, self.step_s = 0.0, step_s

    def perf_counter(self) -> float:
        self.now_s += self.step_s
        return self.now_s

    def process_time(self) -> float:
        return self.now_s


@pytest.mark.parametrize(("step_s", "rounds"), [(0.01, loops.ROUNDS), (0.2, 4), (5.0, loops.FEWEST)])
def test_a_slow_machine_makes_fewer_rounds_and_never_smaller_ones(monkeypatch, step_s, rounds):
    monkeypatch.setattr(loops, "time", Ticking(step_s))
    done = []
    monkeypatch.setattr(loops, "integers", lambda: done.append("integers"))
    monkeypatch.setattr(loops, "copies", lambda *_: done.append("copies"))
    monkeypatch.setattr(loops, "SIZE", 256)
    found = loops.rounds()
    assert len(found["rounds_ms"]["integer"]) == rounds
    assert done == ["integers", "copies"] * rounds


@pytest.mark.parametrize(("value", "off"), [("off", True), ("OFF", True), ("", False), ("on", False)])
def test_the_environment_can_switch_it_off(monkeypatch, value, off):
    monkeypatch.setenv(control.VARIABLE, value)
    assert control.is_off() is off


@pytest.mark.live
def test_the_real_workload_says_how_long_it_took_and_imports_nothing_of_ours():
    figures, others, reason = control.timed_control()
    assert reason == ""
    assert figures["version"] == loops.VERSION
    assert 1 < figures["integer_ms"] < 10_000
    assert 0.1 < figures["memory_ms"] < 10_000
    assert 0 <= others["others_pct"] <= 101
    seen = subprocess.run(
        [sys.executable, "-I", "-S", "-X", "importtime", loops.__file__], capture_output=True, text=True, check=True
    )
    assert "assay" not in seen.stderr
