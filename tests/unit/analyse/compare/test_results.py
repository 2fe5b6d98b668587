"""Several results on a side: the spread between them counts, and the promise holds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as reference

from assay.analyse.compare import compare_metric, compare_results
from assay.analyse.compare.metric import ResultReading, change_between, change_between_results

VALUES = st.lists(st.floats(0.5, 2.0), min_size=2, max_size=6)


def reading(*runs: float) -> ResultReading:
    return ResultReading(float(np.median(runs)), runs)


def test_one_result_against_one_is_welch_between_runs() -> None:
    a, b = (1.0, 1.02, 0.99), (1.1, 1.08, 1.13)
    assert change_between_results([reading(*a)], [reading(*b)]) == change_between(np.array(a), np.array(b))


@pytest.mark.parametrize(("a", "b"), [((1.0,), (1.0, 1.1)), ((1.0, 1.1), (1.2,))])
def test_a_single_run_on_a_side_reports_no_spread(a, b) -> None:
    assert change_between_results([reading(*a)], [reading(*b)]) is None


@given(st.lists(st.floats(0.5, 2.0), min_size=4, max_size=9), st.floats(0.5, 2.0))
def test_single_runs_give_the_prediction_interval_of_the_textbook(values, new) -> None:
    logs = np.log(values)
    if logs.std() < 1e-6:
        return
    found = change_between_results([reading(one) for one in values], [reading(new)])
    assert found is not None
    half = reference.t.ppf(0.975, logs.size - 1) * logs.std(ddof=1) * np.sqrt(1 + 1 / logs.size)
    middle = np.log(new) - logs.mean()
    interval = found.interval(0.95)
    assert interval.low == pytest.approx(np.expm1(middle - half), rel=1e-6, abs=1e-9)
    assert interval.high == pytest.approx(np.expm1(middle + half), rel=1e-6, abs=1e-9)
    assert f"from {logs.size}" in interval.method


@given(st.lists(VALUES, min_size=4, max_size=8), st.lists(VALUES, min_size=4, max_size=8))
def test_several_on_each_side_never_claim_more_than_welch_between_their_means(left, right) -> None:
    means = [np.array([np.log(one).mean() for one in side]) for side in (left, right)]
    found = change_between_results(*([reading(*one) for one in side] for side in (left, right)))
    expected = change_between(*(np.exp(side) for side in means))
    assert found is not None
    assert found.estimate == pytest.approx(expected.estimate, abs=1e-9)
    assert found.error >= expected.error * (1 - 1e-9)


@given(st.lists(VALUES, min_size=2, max_size=6), VALUES)
def test_swapping_the_sides_turns_the_change_round(many, one) -> None:
    a, b = [reading(*runs) for runs in many], [reading(*one)]
    there, back = change_between_results(a, b), change_between_results(b, a)
    assert there is not None
    assert back is not None
    assert (there.estimate, there.error, there.df) == pytest.approx((-back.estimate, back.error, back.df))


def test_results_that_differ_more_than_their_runs_widen_the_interval() -> None:
    tight = [reading(level, level * 1.001, level * 0.999) for level in (1.0, 1.0005, 0.9995, 1.0, 1.0)]
    apart = [reading(level, level * 1.001, level * 0.999) for level in (1.0, 1.05, 0.95, 1.02, 0.98)]
    new = [reading(1.03, 1.031, 1.029)]
    assert change_between_results(tight, new).interval(0.95).low > 0
    assert change_between_results(apart, new).interval(0.95).low < 0


def test_results_that_agree_by_luck_are_not_believed_more_than_their_runs() -> None:
    level = (1.0, 1.1, 0.9)
    found = change_between_results([reading(*level)] * 5, [reading(*(1.05 * one for one in level))])
    between = np.log(level).std(ddof=1) / np.sqrt(3)
    assert found.error == pytest.approx(between * np.sqrt(1 + 1 / 5))


def test_a_new_result_with_fewer_or_wilder_runs_is_believed_less() -> None:
    many = [reading(1.0 + shift, 1.01 + shift, 0.99 + shift) for shift in (0.0, 0.001, -0.001, 0.002, 0.0)]
    usual = change_between_results(many, [reading(1.0, 1.01, 0.99)])
    single = change_between_results(many, [reading(1.0)])
    wild = change_between_results(many, [reading(0.8, 1.0, 1.25)])
    assert usual.error < single.error < wild.error
    assert wild.df < usual.df


def test_a_number_known_only_over_all_runs_is_one_value_per_result() -> None:
    pooled = [ResultReading(value) for value in (10.0, 10.2, 9.9, 10.1)]
    found = change_between_results(pooled, [ResultReading(12.0, (11.0, 12.0, 13.0))])
    same = change_between_results(pooled, [ResultReading(12.0)])
    assert found == same
    assert change_between_results(pooled[:1], [ResultReading(12.0)]) is None


def test_values_around_zero_are_compared_by_difference() -> None:
    found = change_between_results([reading(0.0), reading(0.0), reading(0.0)], [reading(0.02)])
    assert (found.logarithmic, found.base, found.estimate) == (False, 0.0, 0.02)
    assert found.chance(1) == 0.0
    assert found.chance(-1) == 1.0


def test_the_chance_is_that_of_students_t() -> None:
    found = change_between_results([reading(one) for one in (1.0, 1.1, 0.9, 1.05)], [reading(1.2)])
    expected = reference.t.sf(found.estimate / found.error, found.df)
    assert found.chance(1) == pytest.approx(expected)
    assert found.chance(-1) == pytest.approx(1 - expected)


def test_a_pool_of_one_and_one_is_the_plain_comparison(stats) -> None:
    a, b = stats(10.0, 10.1, 9.9), stats(11.0, 11.1, 10.9)
    assert compare_results("m", [a], [b]) == compare_metric("m", a, b)


def test_a_pool_says_how_results_differ(stats) -> None:
    olds = [stats(level, level * 1.01, level * 0.99) for level in (10.0, 10.05, 9.95, 10.0, 10.02)]
    found = compare_results("m", olds, [stats(12.0, 12.1, 11.9)])
    assert (found.answer, found.a, found.b) == ("worse", 10.0, 12.0)
    assert "results" in found.a_interval.method
    few = compare_results("m", olds[:2], [stats(12.0, 12.1, 11.9)])
    assert few.answer == "worse"
    assert "only 2 results" in few.because[0]
    none = compare_results("m", olds, [stats(10.0, 10.1, 9.9)])
    assert none.answer == "cannot tell"
    assert "more results would decide it" in none.because[0]


def test_a_metric_that_changed_its_meaning_is_not_compared(stats) -> None:
    turned = compare_metric("m", stats(1.0, 1.1), stats(2.0, 2.1, better="higher"))
    assert turned.because == ("which direction is better differs: lower against higher",)
    mixed = compare_results("m", [stats(1.0, 1.1), stats(1.0, 1.1, unit="s")], [stats(1.0, 1.1)])
    assert mixed.because == ("the units differ: ms against s",)


def drawn(rng, results: int, runs: int, between: float, within: float) -> list[ResultReading]:
    levels = between * rng.standard_normal(results)
    return [reading(*np.exp(level + within * rng.standard_normal(runs))) for level in levels]


@pytest.mark.simulated
@pytest.mark.parametrize(("between", "within"), [(0.0, 0.02), (0.02, 0.02), (0.05, 0.02), (0.02, 0.002)])
@pytest.mark.parametrize(("results", "runs"), [(2, 5), (2, 3), (3, 5), (3, 2), (5, 3), (10, 1)])
def test_equal_things_are_called_worse_in_less_than_one_of_twenty(results, runs, between, within) -> None:
    rng = np.random.default_rng([results, runs, round(1e4 * between), round(1e4 * within)])
    false = 0
    for _ in range(600):
        change = change_between_results(
            drawn(rng, results, runs, between, within), drawn(rng, 1, runs, between, within)
        )
        false += change.chance(1) <= 0.025
    assert false / 600 <= 0.05
