"""Series whose truth is known: what is found, and what is left alone."""

import json
import math

import numpy as np
import pytest
from benches.series_laws import noise as remembering
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.analyse.series import Series, detect, series_of
from assay.errors import UsageError

POINTS = 120
SEEDS = st.integers(0, 10_000)


def noise(seed: int, points: int = POINTS) -> np.ndarray:
    return 100 + 2 * np.random.default_rng(seed).standard_normal(points)


def raised(seed: int, *steps: tuple[int, float], points: int = POINTS) -> np.ndarray:
    values = noise(seed, points)
    for place, size in steps:
        values[place:] += size
    return values


def found(values: np.ndarray, **how) -> list[tuple[str, int]]:
    return [(one.kind, one.index) for one in detect(Series(values, **how)).findings]


@pytest.mark.parametrize("seed", range(5))
def test_a_step_is_found_with_its_size_and_place(seed) -> None:
    report = detect(Series(raised(seed, (80, 10.0)), "lower"))
    (one,) = report.findings
    assert report.kind == "stepped"
    assert one.kind == "step"
    assert one.range[0] <= 80 <= one.range[1]
    assert abs(one.index - 80) <= 2
    assert (one.first_bad, one.last_good) == (one.index, one.index - 1)
    assert one.difference_interval.low <= 10 <= one.difference_interval.high
    assert one.interval.low <= 0.1 <= one.interval.high
    assert one.before == pytest.approx(100, abs=1.5)
    assert one.after == pytest.approx(110, abs=1.5)
    assert one.probability > 0.99
    assert (one.direction, one.answer, one.because) == ("worse", "worse", ())
    assert report.spread == pytest.approx(2, rel=0.3)


@pytest.mark.parametrize("seed", range(5))
def test_a_step_down_and_a_later_step_up_are_two_findings(seed) -> None:
    report = detect(Series(raised(seed, (40, -8.0), (70, 8.0)), "lower"))
    assert [(one.kind, one.answer) for one in report.findings] == [("step", "better"), ("step", "worse")]
    for one, place in zip(report.findings, (40, 70), strict=True):
        assert one.range[0] <= place <= one.range[1]


@pytest.mark.parametrize("seed", range(5))
def test_an_old_large_step_does_not_hide_a_new_small_one(seed) -> None:
    places = [place for _, place in found(raised(seed, (30, 40.0), (105, 5.0)))]
    assert len(places) == 2
    assert places[0] == 30
    assert abs(places[1] - 105) <= 3


def test_many_steps_do_not_pass_for_memory() -> None:
    """Each level tells the memory of the noise; a piece with more of it than the others is looked at again."""
    source, places = np.random.default_rng(5), (33, 60, 149, 204, 227, 243, 340)
    hits = extra = 0
    for _ in range(30):
        values = np.zeros(365)
        for at in range(1, 365):
            values[at] = 0.3 * values[at - 1] + math.sqrt(1 - 0.3**2) * source.standard_normal()
        values = 100 * np.exp(0.018 * values)
        for place, size in zip(places, (0.06, -0.057, -0.11, 0.05, 0.09, -0.083, 0.055), strict=True):
            values[place:] *= 1 + size
        ranges = [(one.range[0] - 3, one.range[1] + 3) for one in detect(Series(values)).findings]
        hits += sum(any(low <= place <= high for low, high in ranges) for place in places)
        extra += sum(not any(low <= place <= high for place in places) for low, high in ranges)
    assert hits >= 0.88 * 30 * len(places)
    assert extra <= 3


@pytest.mark.parametrize("seed", range(5))
def test_a_short_visit_to_another_level_is_two_steps(seed) -> None:
    assert found(raised(seed, (50, 14.0), (57, -14.0))) == [("step", 50), ("step", 57)]


@pytest.mark.parametrize("after", [2, 3, 4, 8])
@pytest.mark.parametrize("seed", range(5))
def test_a_high_span_near_the_end_is_two_steps_and_no_memory(seed, after) -> None:
    """Its begin stays found however few points follow it; its end needs three."""
    values = raised(seed, (26, 40.0), (33, -40.0), points=33 + after)
    both = [("step", 26), ("step", 33)]
    assert found(values) in ([both] if after > 2 else [both, both[:1]])


# Results of a service, 41 nights: slower for seven of them, and wild in two of the last four.
NIGHTS = [
    10.025, 9.977, 9.906, 9.926, 9.95, 9.998, 9.966, 10.006, 10.147, 9.936, 9.935, 9.98, 10.088, 9.944, 10.115, 9.895,
    9.917, 9.996, 9.931, 9.951, 10.036, 10.058, 10.009, 9.978, 10.002, 10.029, 11.539, 11.578, 11.511, 11.572, 11.62,
    11.464, 11.409, 9.943, 9.998, 9.821, 9.886, 20.01, 9.992, 20.042, 10.014,
]  # fmt: skip
ERRORS = [
    *[0.0737] * 25, 0.1232, 0.0135, 0.0269, 0.0548, 0.0571, 0.0131, 0.1327, 0.0888, 0.0196, 0.077, 0.0076, 0.0485,
    0.1744, 0.0278, 0.1113, 0.0429,
]  # fmt: skip


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(("points", "places"), [(33, [26]), (36, [26, 33]), (37, [26, 33]), (41, [26, 33])])
def test_errors_of_few_runs_and_wild_nights_hide_no_clear_change(points, places, known) -> None:
    errors = np.array(ERRORS[:points]) if known else None
    findings = detect(Series(np.array(NIGHTS[:points]), "lower", errors)).findings
    assert [one.index for one in findings] == places
    assert [one.answer for one in findings] == ["worse", "better"][: len(places)]
    assert min(one.probability for one in findings) > 0.99


@pytest.mark.simulated
def test_alternating_steps_do_not_pass_for_memory() -> None:
    """Five steps of 5 σ, up and down by turns, in noise that keeps half of its deviation."""
    places = [61, 122, 182, 243, 304]
    drawn = remembering(np.random.default_rng(1), "AR 0.5", 20, 365)
    hits = 0
    for values in drawn:
        for number, place in enumerate(places):
            values[place:] += -5 if number % 2 else 5
        ranges = [one.range for one in detect(Series(100 + 2 * values)).findings]
        hits += sum(any(low - 2 <= place <= high + 2 for low, high in ranges) for place in places)
    assert hits >= 0.9 * 20 * len(places)


@pytest.mark.parametrize("seed", range(5))
def test_after_an_outage_the_step_may_have_come_at_any_time_of_it(seed) -> None:
    values = raised(seed, (70, 10.0))
    values[50:70] = np.nan
    report = detect(Series(values))
    (one,) = report.findings
    assert (one.last_good, one.first_bad) == (49, 70)
    assert one.range[0] <= 50
    assert one.range[1] >= 70
    assert (report.points, report.missing) == (100, 20)


@pytest.mark.parametrize("seed", range(5))
def test_an_outage_alone_is_nothing(seed) -> None:
    values = noise(seed)
    values[50:70] = np.nan
    assert not found(values)


@pytest.mark.parametrize("seed", range(5))
def test_a_drift_is_no_step(seed) -> None:
    values = noise(seed) + np.clip((np.arange(POINTS) - 20) / 80, 0, 1) * 14
    report = detect(Series(values, "lower"))
    assert report.kind == "drifting"
    assert all(one.kind == "drift" for one in report.findings if one.chance < 1e-3)
    drifts = [one for one in report.findings if one.kind == "drift"]
    assert {one.answer for one in drifts} == {"worse"}
    assert drifts[0].range[0] < 45
    assert drifts[-1].range[1] > 75
    assert sum(one.difference for one in drifts) == pytest.approx(14, abs=2)


@pytest.mark.parametrize("place", [10, 60, 119])
def test_one_wild_point_is_an_outlier_and_no_step(place) -> None:
    values = noise(3)
    values[place] += 60
    report = detect(Series(values))
    assert not report.findings
    assert place in report.outliers


@pytest.mark.parametrize("seed", range(5))
def test_a_time_of_noise_is_recognised_and_is_no_step(seed) -> None:
    values = noise(seed)
    values[60:85] = 100 + 12 * np.random.default_rng(seed + 100).standard_normal(25)
    report = detect(Series(values))
    assert report.kind == "noisy"
    assert not report.findings
    (burst,) = report.bursts
    assert abs(burst.first - 60) <= 6
    assert abs(burst.last - 84) <= 6
    assert burst.factor > 2


@pytest.mark.parametrize("seed", range(5))
def test_a_step_beside_a_time_of_noise_is_still_found(seed) -> None:
    values = raised(seed, (105, 8.0))
    values[40:60] = 100 + 10 * np.random.default_rng(seed + 100).standard_normal(20)
    assert any(abs(place - 105) <= 3 for _, place in found(values))


def test_points_of_large_known_error_are_trusted_less() -> None:
    """The same high values are a step if they are exact, and nothing if each may be off by as much."""
    values = noise(1)
    values[100:106] += 9
    errors = np.full(POINTS, 0.5)
    assert found(values, standard_errors=errors)
    errors[100:106] = 20.0
    assert not found(values, standard_errors=errors)


def test_three_nights_of_a_large_step_are_enough_and_one_is_not() -> None:
    values = raised(2, (117, 20.0))
    assert found(values) == [("step", 117)]
    assert not detect(Series(values)).outliers
    assert not found(values[:118])


def test_wandering_noise_is_no_change() -> None:
    walk = np.cumsum(np.random.default_rng(5).standard_normal(POINTS))
    report = detect(Series(walk))
    assert not report.findings
    assert report.correlation > 0.8


def test_values_that_are_mostly_equal() -> None:
    rare = np.zeros(POINTS)
    rare[[7, 30, 31, 64, 90, 118]] = 0.02
    assert not found(rare)
    assert found(np.repeat([512.0, 520.0], [100, 6])) == [("step", 100)]
    assert found(np.repeat([3.0, 4.0, 3.0], [40, 20, 40])) == [("step", 40), ("step", 60)]


@given(st.floats(-1e6, 1e6), st.integers(0, 200))
def test_equal_values_are_no_finding(value, points) -> None:
    report = detect(Series(np.full(points, value)))
    assert not report.findings
    assert report.kind == ("constant" if points >= 8 else "too short")


@settings(max_examples=25)
@given(SEEDS, st.floats(0.001, 1000), st.floats(-300, 300), st.sampled_from([0.0, 3.0, 9.0]))
def test_units_and_origin_do_not_matter(seed, scale, shift, step) -> None:
    values = raised(seed, (80, step))
    one, two = detect(Series(values)), detect(Series(scale * values + shift))
    assert [(f.kind, f.index, f.range) for f in one.findings] == [(f.kind, f.index, f.range) for f in two.findings]
    for a, b in zip(one.findings, two.findings, strict=True):
        assert b.difference == pytest.approx(scale * a.difference, rel=1e-6)
        assert b.difference_interval.low == pytest.approx(scale * a.difference_interval.low, rel=1e-5, abs=1e-6 * scale)
        assert b.before == pytest.approx(scale * a.before + shift, rel=1e-6, abs=1e-6 * scale)
    assert two.spread == pytest.approx(scale * one.spread, rel=1e-6)


@settings(max_examples=25)
@given(SEEDS, st.integers(25, 95), st.sampled_from([-1, 1]))
def test_backwards_a_clear_step_is_mirrored(seed, place, sign) -> None:
    values = raised(seed, (place, sign * 12.0))
    forth = [one for one in detect(Series(values)).findings if one.chance < 1e-6]
    back = [one for one in detect(Series(values[::-1])).findings if one.chance < 1e-6]
    assert len(forth) == len(back) == 1
    assert abs(forth[0].index - (POINTS - back[0].index)) <= 1
    assert forth[0].difference == pytest.approx(-back[0].difference, rel=0.1)


@settings(max_examples=25)
@given(SEEDS, st.sampled_from([-10.0, 10.0]))
def test_the_answer_turns_with_the_direction(seed, step) -> None:
    values = raised(seed, (80, step))
    reports = {better: detect(Series(values, better)) for better in ("lower", "higher", None)}
    turned = {"better": "worse", "worse": "better"}
    for low, high, none in zip(*(report.findings for report in reports.values()), strict=True):
        assert low.direction == turned[high.direction]
        assert (none.direction, none.answer) == ("unknown", "cannot tell")
        assert low.chance == high.chance == none.chance
        if low.chance < 1e-6:
            assert (low.answer, high.answer) == (low.direction, high.direction)
            assert "lower or higher" in none.because[0]


@settings(max_examples=30)
@given(
    st.lists(
        st.one_of(st.floats(allow_nan=True, allow_infinity=True), st.sampled_from([0.0, 1.0, math.nan])), max_size=80
    )
)
def test_any_numbers_give_a_report_that_json_can_hold(values) -> None:
    report = detect(series_of(values, "lower"))
    assert report.points + report.missing == len(values)
    for one in report.findings:
        assert 0 <= one.range[0] <= one.range[1] < len(values)
        assert one.last_good < one.first_bad
    json.dumps(report.record(), allow_nan=False)


def test_a_record_says_everything_that_is_requested() -> None:
    labels = tuple(f"night {number}" for number in range(POINTS))
    (one,) = detect(Series(raised(1, (80, 10.0)), "lower", labels=labels)).findings
    record = json.loads(json.dumps(one.record()))
    assert {"index", "size", "interval", "probability", "direction", "answer"} <= set(record)
    assert record["interval"][0] < record["size"] < record["interval"][1]
    assert record["first_bad_label"] == f"night {one.first_bad}"


def test_lists_of_other_lengths_are_refused() -> None:
    with pytest.raises(UsageError, match="3 labels for 2 values"):
        Series(np.ones(2), labels=("a", "b", "c"))
    with pytest.raises(UsageError, match="1 standard errors for 2 values"):
        Series(np.ones(2), standard_errors=np.ones(1))


@pytest.mark.parametrize("seed", range(12))
def test_a_long_series_with_clear_steps_has_these_and_no_others(seed):
    values = 100 + 2 * np.random.default_rng(100 + seed).standard_normal(1000)
    for place, size in ((250, 6), (500, -8), (800, 5)):
        values[place:] += size
    found = [finding.index for finding in detect(Series(values)).findings]
    assert len(found) == 3
    assert all(abs(index - place) <= 5 for index, place in zip(found, (250, 500, 800), strict=True))
