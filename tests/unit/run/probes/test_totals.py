"""Statistics of series over a window, and energies with their grades."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.run.probes.columns import ReadingColumns, energies, joined, statistics

S = 1_000_000_000


def test_a_rate_counts_for_the_time_that_lies_in_the_window():
    columns = ReadingColumns()
    for second, value in enumerate((0.0, 100.0, 50.0, 900.0)):
        columns.rate("job", "cpu_pct", second * S, (second + 1) * S, value)
    told = statistics(columns, (S // 2, 3 * S))["job.cpu_pct"]
    assert told == {"mean": pytest.approx((0.5 * 0 + 100 + 50) / 2.5), "min": 0.0, "max": 100.0}


def test_a_stretch_that_mostly_lies_outside_is_no_extreme():
    columns = ReadingColumns()
    for second, value in enumerate((700.0, 100.0, 800.0)):
        columns.rate("job", "cpu_pct", second * S, (second + 1) * S, value)
    told = statistics(columns, (S * 9 // 10, S * 21 // 10))["job.cpu_pct"]
    assert (told["min"], told["max"]) == (100.0, 100.0)


def test_a_window_inside_one_stretch_has_its_rate():
    columns = ReadingColumns()
    columns.rate("job", "cpu_pct", 0, S, 42.0)
    assert statistics(columns, (S // 4, S // 2))["job.cpu_pct"]["mean"] == pytest.approx(42.0)


def test_states_inside_or_next_to_the_window():
    columns = ReadingColumns()
    for second, value in enumerate((1.0, 2.0, 6.0, 100.0)):
        columns.gauge("machine", "temperature_c", second * S, value)
    assert statistics(columns, (S, 2 * S))["machine.temperature_c"] == {"mean": 4.0, "min": 2.0, "max": 6.0}
    assert statistics(columns, (S + 1, S + 2))["machine.temperature_c"] == {"mean": 4.0, "min": 2.0, "max": 6.0}


def test_counters_and_codes_have_no_mean():
    columns = ReadingColumns()
    columns.counter("gpu:0", "energy_j", 0, 1.0)
    columns.gauge("gpu:0", "throttle_bits", 0, 4.0)
    columns.gauge("gpu:0", "gpu_util_pct", 0, 97.0)
    assert statistics(columns, (0, S)).keys() == {"gpu:0.gpu_util_pct"}


@given(st.lists(st.tuples(st.integers(1, S), st.floats(0, 1e4)), min_size=1, max_size=40))
def test_the_mean_of_a_rate_over_all_of_it_is_what_the_counter_grew(steps):
    columns, at, total = ReadingColumns(), 0, 0.0
    for gap, value in steps:
        columns.rate("machine", "x_per_s", at, at + gap, value)
        at, total = at + gap, total + value * gap
    assert statistics(columns, (0, at))["machine.x_per_s"]["mean"] == pytest.approx(total / at, abs=1e-9)


def test_the_window_joins_all_marks_of_a_phase():
    marks = [("load", 0, 5), ("measure", 7, 9), ("warmup", 9, 11), ("measure", 11, 20)]
    assert joined(marks) == (7, 20)
    assert joined(marks[:1]) is None


def board(
    columns: ReadingColumns, source: str, *, counter: bool = True, power: bool = True, watts: float = 400.0
) -> None:
    for tenth in range(11):
        at = tenth * S // 10
        if counter:
            columns.counter(source, "energy_j", at, 1e6 + watts * tenth / 10)
        if power:
            columns.gauge(source, "power_w", at, watts)


def test_a_counter_is_better_than_samples():
    columns = ReadingColumns()
    board(columns, "gpu:0")
    (found,), absent = energies(columns, (0, S), {"gpu:0": 70.0})
    assert found == {
        "source": "NVML energy counter of GPU 0",
        "scope": "gpu",
        "joules": pytest.approx(400),
        "seconds": 1.0,
        "grade": "counter",
        "idle_w": 70.0,
        "low_j": pytest.approx(360),
        "high_j": pytest.approx(440),
    }
    assert absent == {}


def test_a_board_without_a_counter_is_sampled():
    columns = ReadingColumns()
    board(columns, "gpu:1", counter=False, watts=250.0)
    (found,), absent = energies(columns, (S // 4, S * 3 // 4), {})
    assert (found["grade"], found["joules"], found["idle_w"]) == ("sampled", pytest.approx(125), None)
    assert found["source"] == "NVML power of GPU 1"
    assert absent == {}


def test_a_counter_that_stands_still_leaves_the_samples():
    columns = ReadingColumns()
    board(columns, "gpu:0", watts=0.0, power=False)
    for tenth in range(11):
        columns.gauge("gpu:0", "power_w", tenth * S // 10, 30.0)
    (found,), _ = energies(columns, (0, S), {})
    assert (found["grade"], found["joules"]) == ("sampled", pytest.approx(30))


def test_a_board_that_reports_neither_is_absent_with_its_reason():
    columns = ReadingColumns()
    columns.gauge("gpu:0", "gpu_util_pct", 0, 1.0)
    found, absent = energies(columns, (0, S), {})
    assert found == []
    assert absent == {"energy:gpu:0": "the board has no energy counter, and does not report its power"}


def test_processors_memory_and_the_whole_system_are_distinguished():
    columns = ReadingColumns()
    for source in ("rapl:package-0", "rapl:package-0-dram", "rapl:psys"):
        columns.counter(source, "energy_j", 0, 0.0)
        columns.counter(source, "energy_j", S, 50.0)
    found, _ = energies(columns, (0, S), {})
    assert {one["source"]: one["scope"] for one in found} == {
        "RAPL counter of package-0": "package",
        "RAPL counter of package-0-dram": "dram",
        "RAPL counter of psys": "system",
    }


def test_a_counter_that_may_have_gone_round_twice_is_absent():
    columns = ReadingColumns()
    columns.counter("rapl:package-0", "energy_j", 0, 0.0)
    columns.counter("rapl:package-0", "energy_j", S, 50.0)
    found, absent = energies(columns, (0, S), {}, lambda source, window: "no reading for 400 s")
    assert (found, absent) == ([], {"energy:rapl:package-0": "no reading for 400 s"})


def test_powermetrics_is_an_estimate():
    columns = ReadingColumns()
    columns.rate("powermetrics", "power_w", 0, S, 8.0)
    (found,), _ = energies(columns, (0, S), {})
    assert (found["grade"], found["joules"]) == ("estimated", pytest.approx(8))
