"""The control workload: the same amount of work each time, in a process of its own; and its history."""

from __future__ import annotations

import json
import multiprocessing
import statistics
import subprocess
import sys
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.hardware.fitness import control
from assay.hardware.fitness import control_loops as loops
from assay.hardware.fitness.control import FEWEST, KEPT, NAME, ControlHistory, usual


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


RESULT = {"integer_ms": 100.0, "memory_ms": 50.0, "version": 1}


def history(folder, **key):
    return ControlHistory(folder, **{"machine": "m", "version": 1, "python": "CPython 3.11.9", **key})


def filled(folder, count, value=100.0):
    one = history(folder)
    for number in range(count):
        one.add({"integer_ms": value * (1 + 0.01 * (number % 3 - 1)), "memory_ms": 50.0}, "now")
    return one


def test_few_entries_are_no_history(tmp_path):
    one = filled(tmp_path, FEWEST - 1)
    assert one.against(RESULT) == {"entries": FEWEST - 1}
    one.add(RESULT, "now")
    assert set(one.against(RESULT)) == {"entries", "integer", "memory"}


def test_drift_band_and_median(tmp_path):
    told = filled(tmp_path, 30).against({"integer_ms": 110.0, "memory_ms": 45.0})
    assert told["integer"]["median_ms"] == 100.0
    assert told["integer"]["drift_pct"] == pytest.approx(10.0)
    assert told["memory"] == {"median_ms": 50.0, "band_pct": 0.0, "drift_pct": -10.0}
    assert 3.5 < told["integer"]["band_pct"] < 10


@pytest.mark.parametrize("other", [{"machine": "n"}, {"version": 2}, {"python": "CPython 3.12.1"}])
def test_entries_of_another_machine_python_or_version_do_not_count(tmp_path, other):
    filled(tmp_path, 10)
    assert history(tmp_path, **other).entries() == []


def test_only_the_last_entries_count(tmp_path):
    one = filled(tmp_path, KEPT + 50)
    one.add({"integer_ms": 7.0}, "now")
    assert len(one.entries()) == KEPT
    assert one.entries()[-1] == {"integer": 7.0}


def test_figures_of_a_busy_machine_count_only_where_it_is_never_quiet(tmp_path):
    one = history(tmp_path)
    for _ in range(9):
        one.add({"integer_ms": 200.0, "others_pct": 60.0}, "now")
    assert one.against({"integer_ms": 200.0})["integer"]["drift_pct"] == 0.0
    for _ in range(FEWEST):
        one.add({"integer_ms": 100.0, "others_pct": 2.0}, "now")
    told = one.against({"integer_ms": 200.0})
    assert (told["entries"], told["integer"]["drift_pct"]) == (FEWEST, 100.0)


def test_the_file_stays_small(tmp_path):
    one = filled(tmp_path, 10)
    path = tmp_path / NAME
    path.write_bytes(b"rubbish\n" * 200_000 + path.read_bytes())
    one.add(RESULT, "now")
    one.add(RESULT, "now")
    assert path.stat().st_size < 600 * 1024
    assert len(one.entries()) == 12


def test_a_half_written_line_costs_one_entry(tmp_path):
    one = filled(tmp_path, 6)
    with (tmp_path / NAME).open("a") as file:
        file.write('{"machine": "m", "python"')
    one.add(RESULT, "now")  # joins the broken line
    one.add(RESULT, "now")
    assert len(one.entries()) == 7


def test_a_folder_that_cannot_be_written_is_a_reason_not_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    one = history(tmp_path / "file" / "below")
    assert "cannot be written" in one.add(RESULT, "now")
    assert one.entries() == []


def _add_many(folder):
    one = history(folder)
    for _ in range(100):
        one.add(RESULT, "now")


def test_processes_that_write_at_once_never_mix_their_lines(tmp_path):
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_add_many, args=(tmp_path,)) for _ in range(4)]
    for one in writers:
        one.start()
    for one in writers:
        one.join()
    lines = (tmp_path / NAME).read_text().splitlines()
    assert len(lines) == 400
    assert all(json.loads(line)["integer_ms"] == 100.0 for line in lines)


KEY = {"machine": "m", "python": "CPython 3.11.9", "control": 1}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
ENTRY = st.fixed_dictionaries({"integer_ms": ANYTHING, "memory_ms": ANYTHING}).map(lambda one: json.dumps(KEY | one))
LINES = st.lists(st.binary(max_size=30) | ENTRY.map(str.encode) | ANYTHING.map(lambda one: json.dumps(one).encode()))


@given(LINES)
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_whatever_stands_in_the_file_no_entry_is_anything_but_a_time(tmp_path, lines):
    (tmp_path / NAME).write_bytes(b"\n".join(lines))
    one = history(tmp_path)
    assert all(0 < value < 1e9 for entry in one.entries() for value in entry.values())
    told = one.against(RESULT)
    assert told["entries"] == len(one.entries())


@given(st.lists(st.floats(0.1, 1e6), min_size=FEWEST, max_size=50), st.floats(0.1, 1e6))
def test_drift_has_the_right_sign(values, now):
    known = usual(values)
    middle = statistics.median(values)
    assert known.band >= 0
    assert known.entries == len(values)
    assert (known.drift(now) > 0) == (now / middle > 1)
    assert known.drift(middle) == 0


@given(st.lists(st.floats(1, 100), min_size=FEWEST, max_size=30), st.floats(0.5, 2))
def test_the_band_is_a_share_and_does_not_depend_on_the_unit(values, scale):
    assert usual([value * scale for value in values]).band == pytest.approx(usual(values).band, rel=1e-6, abs=1e-9)


def test_fewer_entries_have_a_wider_band():
    few, many = usual([99.0, 100.0, 101.0, 99.0, 101.0]), usual([99.0, 100.0, 101.0, 99.0, 101.0] * 20)
    assert few.band > 1.5 * many.band
    assert usual([1.0] * (FEWEST - 1)) is None
