import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as reference

from assay.analyse.compare import compare_metric
from assay.analyse.compare.metric import RelativeChange, change_between, runs_to_decide
from assay.analyse.summary import summarise

SLOW, FAST = (10.0, 10.1, 9.9, 10.05), (9.0, 9.1, 8.9, 9.05)
VALUES = st.lists(st.floats(0.1, 1e6), min_size=2, max_size=12)


@pytest.mark.parametrize(
    ("a", "b", "better", "answer"),
    [
        (SLOW, FAST, "lower", "better"),
        (FAST, SLOW, "lower", "worse"),
        (SLOW, FAST, "higher", "worse"),
        (FAST, SLOW, "higher", "better"),
        (SLOW, SLOW, "lower", "cannot tell"),
        (SLOW, FAST, None, "cannot tell"),
    ],
)
def test_answers(stats, a, b, better, answer) -> None:
    found = compare_metric("latency_ms", stats(*a, better=better), stats(*b, better=better))
    assert found.answer == answer
    assert (answer == "cannot tell") == bool(found.because)


def test_the_change_is_relative_to_a_with_its_interval(stats) -> None:
    found = compare_metric("latency_ms", stats(*SLOW), stats(*FAST))
    assert found.change is not None
    assert found.change.low < -0.1 < found.change.high < 0
    assert (found.a, found.b, found.unit) == (pytest.approx(10.025), pytest.approx(9.025), "ms")


@pytest.mark.parametrize(("a", "b"), [((1.0,), (2.0, 2.1)), ((1.0, 1.1), (2.0,)), ((1.0,), (2.0,))])
def test_one_run_on_a_side_cannot_tell(stats, a, b) -> None:
    found = compare_metric("m", stats(*a), stats(*b))
    assert (found.answer, found.change) == ("cannot tell", None)
    assert "1 run" in found.because[0]


def test_two_runs_get_no_answer_and_say_how_many_are_needed(stats) -> None:
    found = compare_metric("m", stats(10.0, 10.01), stats(20.0, 20.01))
    assert (found.answer, found.chance) == ("cannot tell", None)
    assert found.because == (
        "2 runs against 2 runs: each side needs 3 or more, to know how much runs differ by themselves",
    )
    assert found.change is not None
    assert found.change.low > 0


def test_an_interval_with_zero_says_how_many_runs_would_tell(stats) -> None:
    found = compare_metric("m", stats(10.0, 10.5, 9.5), stats(10.3, 10.9, 9.8))
    assert found.answer == "cannot tell"
    assert "a new comparison, planned with about " in found.because[0]
    assert "`assay ab`" in found.because[0]


def test_nobody_is_invited_to_add_runs_until_they_tell(stats) -> None:
    """Who adds runs after a look calls equal things different more often than in one of twenty comparisons."""
    found = compare_metric("m", stats(10.0, 10.5, 9.5), stats(10.3, 10.9, 9.8))
    assert "more run" not in found.because[0]


def test_a_change_below_the_smallest_of_interest_is_no_answer(stats) -> None:
    a, b = stats(10.0, 10.001, 9.999), stats(10.05, 10.051, 10.049)
    assert compare_metric("m", a, b).answer == "worse"
    found = compare_metric("m", a, b, smallest=0.01)
    assert found.answer == "cannot tell"
    assert "smaller than the 1.0 %" in found.because[0]


def test_equal_values_everywhere_are_the_same_and_other_ones_differ(stats) -> None:
    assert "same value" in compare_metric("m", stats(5.0, 5.0, 5.0), stats(5.0, 5.0, 5.0)).because[0]
    assert compare_metric("m", stats(5.0, 5.0, 5.0), stats(6.0, 6.0, 6.0)).answer == "worse"


def test_values_around_zero_are_compared_by_difference(stats) -> None:
    found = compare_metric("m", stats(-1.0, -1.1, -0.9), stats(-2.0, -2.1, -1.9))
    assert found.answer == "better"
    assert found.change is not None
    assert found.change.low < -1.0 < found.change.high
    zero = compare_metric("m", stats(0.0, 0.0), stats(1.0, 1.0))
    assert (zero.answer, zero.change) == ("cannot tell", None)


def test_different_units_are_not_compared(stats) -> None:
    assert "units differ" in compare_metric("m", stats(*SLOW), stats(*FAST, unit="s")).because[0]


def test_samples_inside_runs_do_not_narrow_the_change() -> None:
    rng = np.random.default_rng(0)
    level = {0: 1.0, 1: 1.2, 2: 0.9}
    many, few = (
        summarise("m", "ms", "lower", {run: rng.normal(mean, 1e-6, n) for run, mean in level.items()})
        for n in (9999, 9)
    )
    wide, also_wide = (compare_metric("m", one, one).change for one in (many, few))
    assert wide is not None
    assert also_wide is not None
    assert wide.half_width == pytest.approx(also_wide.half_width, rel=1e-3)


@given(VALUES, VALUES)
def test_welch_agrees_with_scipy(left, right) -> None:
    a, b = np.array(left), np.array(right)
    change = change_between(a, b)
    if change.error <= 1e-9 or np.log(a).std() < 1e-9 or np.log(b).std() < 1e-9:
        return
    expected = reference.ttest_ind(np.log(b), np.log(a), equal_var=False)
    interval = expected.confidence_interval(0.95)
    found = change.interval(0.95)
    assert change.df == pytest.approx(expected.df, rel=1e-6)
    # Where the runs differ wildly, an end of the interval can pass what exp() can hold.
    assert found.low == pytest.approx(np.expm1(min(interval.low, 700)), rel=1e-3)
    assert found.high == pytest.approx(np.expm1(min(interval.high, 700)), rel=1e-3)


@given(VALUES, VALUES)
def test_swapping_the_sides_swaps_the_answer(left, right) -> None:
    one, other = (
        summarise("m", "ms", "lower", {run: np.array([value]) for run, value in enumerate(values)})
        for values in (left, right)
    )
    swapped = {"better": "worse", "worse": "better", "cannot tell": "cannot tell"}
    assert compare_metric("m", other, one).answer == swapped[compare_metric("m", one, other).answer]


@pytest.mark.simulated
@pytest.mark.parametrize("effect", [0.015, 0.02, 0.03])
def test_the_runs_that_are_named_report_four_times_in_five(effect) -> None:
    seen = RelativeChange(np.log1p(effect), 0.02 * np.sqrt(2 / 3), 4.0, logarithmic=True, base=1.0)
    needed = runs_to_decide(seen, 3, 0.95)
    assert needed is not None
    rng = np.random.default_rng(1)
    pairs = np.exp(0.02 * rng.standard_normal((1000, 2, needed)))
    told = [change_between(a, b * (1 + effect)).interval(0.95).low > 0 for a, b in pairs]
    assert 0.76 < np.mean(told) < 0.9


@pytest.mark.parametrize("effect", [0.0, 1e-5])
def test_a_tiny_change_would_need_more_runs_than_are_worth_naming(effect) -> None:
    assert runs_to_decide(RelativeChange(effect, 0.01, 4.0, logarithmic=True, base=1.0), 3, 0.95) is None
