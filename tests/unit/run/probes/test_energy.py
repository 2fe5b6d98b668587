"""Energy of a window: known ramps must come out as they are, and what was not read must not."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.run.probes.columns import (
    NoEnergyError,
    ReadingColumn,
    counted,
    power_between_steps,
    sampled,
    summed,
    value_at,
)

S = 1_000_000_000


def counter(*points: tuple[float, float]) -> ReadingColumn:
    return ReadingColumn(
        "counter", array("q", [round(at * S) for at, _ in points]), array("d", [one for _, one in points])
    )


def watts(*points: tuple[float, float]) -> ReadingColumn:
    return ReadingColumn(
        "gauge", array("q", [round(at * S) for at, _ in points]), array("d", [one for _, one in points])
    )


def window(begin: float, end: float) -> tuple[int, int]:
    return round(begin * S), round(end * S)


def test_a_counter_is_read_off_the_line_between_readings_at_both_ends():
    found = counted(counter((0, 1000.0), (1, 1100.0), (2, 1400.0), (3, 1500.0)), window(0.5, 2.5))
    assert found.joules == pytest.approx((1400 + 50) - (1000 + 50))
    assert found.seconds == pytest.approx(2.0)


def test_a_window_that_reaches_past_the_readings_is_reported_as_far_as_they_reach():
    found = counted(counter((0, 0.0), (1, 100.0)), window(0.5, 1.2))
    assert (found.joules, found.seconds) == (pytest.approx(50), pytest.approx(0.5))


@pytest.mark.parametrize(
    ("column", "says"),
    [
        (counter((0, 5.0)), "not two readings"),
        (counter(), "not two readings"),
        (counter((0, 5.0), (1, 5.0)), "did not move in 0.8 s"),
        (counter((0, 900.0), (0.5, 3.0), (1, 50.0)), "fell in the middle"),
        (counter((0.0, 1.0), (0.3, 2.0)), "cover 0.2 s of the 0.8 s"),
        (counter((5, 1.0), (6, 2.0)), "cover 0 s of the 0.8 s"),
    ],
)
def test_a_counter_that_does_not_report_is_refused(column, says):
    with pytest.raises(NoEnergyError, match=says):
        counted(column, window(0.1, 0.9))


def test_a_ramp_of_power_is_its_area():
    ramp = watts(*((at / 10, 100 + 20 * at / 10) for at in range(51)))  # 100 W, 20 W more each second
    found = sampled(ramp, window(1.03, 4.47))
    middle_w = 100 + 20 * (1.03 + 4.47) / 2
    assert found.joules == pytest.approx(middle_w * (4.47 - 1.03), rel=1e-9)
    assert found.seconds == pytest.approx(3.44)


def test_a_triangle_of_power_whose_tip_is_sampled():
    found = sampled(watts((0, 0.0), (1, 300.0), (2, 0.0)), window(0, 2))
    assert found.joules == pytest.approx(300.0)


def test_too_few_samples_of_the_power_are_refused():
    with pytest.raises(NoEnergyError):
        sampled(watts((0, 100.0)), window(0, 1))


def test_mean_powers_count_for_the_part_of_their_stretch_that_lies_inside():
    column = ReadingColumn("rate", array("q", [1 * S, 2 * S]), array("d", [10.0, 30.0]), array("q", [0, 1 * S]))
    found = summed(column, window(0.5, 1.5))
    assert (found.joules, found.seconds) == (pytest.approx(20.0), pytest.approx(1.0))
    with pytest.raises(NoEnergyError, match=r"cover 0.5 s of the 3 s"):
        summed(column, window(1.5, 4.5))


def test_mean_powers_that_cross_an_end_leave_the_energy_open():
    column = ReadingColumn("rate", array("q", [1 * S, 2 * S]), array("d", [10.0, 30.0]), array("q", [0, 1 * S]))
    found = summed(column, window(0.5, 2))
    assert (found.low_j, found.high_j) == (pytest.approx(30.0), pytest.approx(40.0))


@given(
    st.floats(0.3, 3),
    st.floats(0, 1),
    st.floats(0, 1),
    st.sampled_from([0.0, 0.02, 0.1, 0.25]),
    st.floats(0, 0.05),
)
def test_the_energy_of_a_load_between_idle_times_lies_within_what_the_readings_say(
    length_s, begin_s, phase_s, step_s, jitter_s
):
    """50 W, then 500 W for a while, then 50 W: looks every tenth of a second at a counter that moves in steps."""
    begin_s += 1.0

    def true_j(at_s: float) -> float:
        return 50 * at_s + 450 * min(max(at_s - begin_s, 0.0), length_s)

    looks = [0.1 * look + jitter_s * (look % 2) for look in range(70)]
    shown = [true_j((at - phase_s * step_s) // step_s * step_s + phase_s * step_s if step_s else at) for at in looks]
    found = counted(counter(*zip(looks, shown, strict=True)), window(begin_s, begin_s + length_s))
    assert found.low_j - 1e-3 <= 500 * length_s <= found.high_j + 1e-3
    assert found.low_j - 1e-3 <= found.joules <= found.high_j + 1e-3
    assert found.high_j - found.low_j <= 500 * (4 * max(step_s, 0.1) + 8 * jitter_s + 0.4), "and they say something"


def test_power_of_a_counter_that_moves_in_steps():
    stepping = counter(
        *((read / 50, 10.0 * ((read * 2 + 5) // 10)) for read in range(30))
    )  # 10 J each tenth of a second
    assert power_between_steps(stepping) == pytest.approx(100.0, rel=0.01)
    assert power_between_steps(counter((0, 1.0), (1, 1.0), (2, 2.0))) is None
    assert power_between_steps(counter()) is None


ticks = st.lists(
    st.tuples(st.integers(1, 10**9), st.floats(0, 1e5, allow_subnormal=False)), min_size=2, max_size=30
)  # nanoseconds and joules from one reading to the next


def ramp_of(steps) -> ReadingColumn:
    column, at, joules = ReadingColumn("counter"), 10**12, 5e6
    for gap, grown in steps:
        column.at_ns.append(at)
        column.value.append(joules)
        at, joules = at + gap, joules + grown
    return column


@given(ticks, st.floats(0, 1))
def test_a_value_between_two_readings_lies_between_their_values(steps, share):
    column = ramp_of(steps)
    when = column.at_ns[0] + round(share * (column.at_ns[-1] - column.at_ns[0]))
    found = value_at(column.at_ns, column.value, when)
    low = max(value for at, value in zip(column.at_ns, column.value, strict=True) if at <= when)
    high = min(value for at, value in zip(column.at_ns, column.value, strict=True) if at >= when)
    assert low - 1e-3 <= found <= high + 1e-3


@given(ticks)
def test_readings_themselves_come_back(steps):
    column = ramp_of(steps)
    for at, value in zip(column.at_ns, column.value, strict=True):
        assert value_at(column.at_ns, column.value, at) == value


@given(ticks, st.floats(0.05, 0.95))
def test_two_halves_of_a_window_add_up(steps, share):
    column = ramp_of(steps)
    begin, end = column.at_ns[0], column.at_ns[-1]
    middle = begin + round(share * (end - begin))
    try:
        whole, first, second = (counted(column, part) for part in ((begin, end), (begin, middle), (middle, end)))
    except NoEnergyError:
        return  # one of them is empty or used nothing
    assert first.joules + second.joules == pytest.approx(whole.joules, abs=1e-2)
    assert first.seconds + second.seconds == pytest.approx(whole.seconds)


@given(st.floats(1, 1000), st.floats(-20, 20), st.lists(st.integers(10**6, 10**9), min_size=3, max_size=30))
def test_any_straight_line_of_power_is_summed_exactly(at_first, slope, gaps):
    column, at = ReadingColumn("gauge"), 0
    for gap in gaps:
        column.at_ns.append(at)
        column.value.append(at_first + slope * at / S)
        at += gap
    begin, end = column.at_ns[0] + gaps[0] // 3, column.at_ns[-1] - gaps[-2] // 3
    if end <= begin or 2 * (end - begin) < (end - begin):
        return
    mean_w = at_first + slope * (begin + end) / 2 / S
    assert sampled(column, (begin, end)).joules == pytest.approx(mean_w * (end - begin) / S, rel=1e-6, abs=1e-6)
