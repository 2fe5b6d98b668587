"""A study of equal runs: what is simulated must come back, and what nobody put in must not be found."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from assay.analyse.compare import compare_metric
from assay.analyse.noise import drift_of, noise_of, smallest_change, spread_interval
from assay.analyse.summary import summarise
from assay.documents import to_plain


def study(run_values, samples=None, name="latency_ms", better="lower", **more):
    by_run = samples or {run: np.array([value]) for run, value in enumerate(run_values)}
    stats = summarise(name, "ms", better, by_run)
    return noise_of(name, stats, samples or {}, **more)


def simulated(rng, runs, *, between, within=0.0, samples=1, drift=0.0):
    """Run id → samples: runs that differ by a factor, samples that differ around it."""
    centres = 10 * np.exp(between * rng.standard_normal(runs) + drift * np.arange(runs))
    return {
        run: centre * np.exp(within * rng.standard_normal(samples)) for run, centre in enumerate(map(float, centres))
    }


def test_the_spreads_that_were_put_in_come_back():
    rng = np.random.default_rng(1)
    found = study((), simulated(rng, 100, between=0.02, within=0.1, samples=400))
    assert found.within.spread == pytest.approx(0.1, rel=0.05)
    assert found.between == pytest.approx(math.hypot(0.02, 0.1 * 1.2533 / 20), rel=0.25)
    assert found.interval.low < found.between < found.interval.high
    # The median of 400 samples differs by 0.6 %, which is a tenth of the variance of 2 %; told is at most that.
    assert 0.07 < found.within.share < 0.2
    assert found.within.samples == 400
    assert found.within.independent > 250


def test_runs_that_differ_by_their_samples_alone_are_explained_by_them():
    rng = np.random.default_rng(2)
    found = study((), simulated(rng, 100, between=0.0, within=0.2, samples=200))
    assert found.within.share > 0.7


@pytest.mark.parametrize(("samples", "told"), [(4, False), (8, True)])
def test_a_handful_of_samples_explains_something_too(samples, told):
    rng = np.random.default_rng(8)
    found = study((), simulated(rng, 60, between=0.0, within=0.05, samples=samples))
    assert (found.within.share is not None) is told
    assert not told or found.within.share > 0.7


def test_samples_that_remember_their_past_count_for_less():
    rng = np.random.default_rng(3)

    def walk(centre):
        steps = rng.standard_normal(2000)
        for i in range(1, steps.size):
            steps[i] += 0.9 * steps[i - 1]
        return centre * np.exp(0.01 * steps)

    found = study((), {run: walk(10.0) for run in range(12)})
    # Of a process that keeps nine tenths of its past, one sample in nineteen is new.
    assert found.within.independent == pytest.approx(2000 / 19, rel=0.5)
    assert found.within.share > 0.3


@pytest.mark.simulated
@pytest.mark.parametrize("runs", [4, 12, 40])
def test_the_interval_of_the_spread_holds_the_truth_as_often_as_it_promises(runs):
    rng = np.random.default_rng(runs)
    inside = 0
    for _ in range(3000):
        low, high = spread_interval(float(rng.normal(0, 0.03, runs).std(ddof=1)), runs)
        inside += low <= 0.03 <= high
    assert inside / 3000 == pytest.approx(0.95, abs=0.013)


@pytest.mark.simulated
@pytest.mark.parametrize("runs", [3, 10])
def test_the_smallest_change_is_reported_by_the_products_own_comparison_in_four_of_five(runs):
    rng = np.random.default_rng(runs)
    spread = 0.03
    change = smallest_change(spread, runs)
    told = {0.0: 0, change: 0}
    pairs = 1200
    for _ in range(pairs):
        for size in told:
            a, b = 10 * np.exp(spread * rng.standard_normal((2, runs)))
            sides = [
                summarise("latency_ms", "ms", "lower", {i: np.array([v]) for i, v in enumerate(side)})
                for side in (a, b * (1 + size))
            ]
            told[size] += compare_metric("latency_ms", *sides).answer != "cannot tell"
    assert told[change] / pairs == pytest.approx(0.8, abs=0.03)
    assert told[0.0] / pairs <= 0.05 + 0.015


@settings(max_examples=30)
@given(
    spread=st.floats(1e-6, 0.5),
    runs=st.integers(2, 60),
    more=st.integers(1, 60),
    logarithmic=st.booleans(),
)
def test_more_runs_and_less_spread_show_smaller_changes(spread, runs, more, logarithmic):
    here = smallest_change(spread, runs, logarithmic=logarithmic)
    assert smallest_change(spread, runs + more, logarithmic=logarithmic) < here
    assert smallest_change(spread / 2, runs, logarithmic=logarithmic) < here


def test_the_table_of_a_study_is_that_of_its_spread():
    rng = np.random.default_rng(4)
    found = study([float(value) for value in 10 * np.exp(0.02 * rng.standard_normal(12))], runs=(3, 50))
    spread = math.sqrt(math.log1p(found.between**2))
    assert [one.runs for one in found.resolves] == [3, 50]
    for one in found.resolves:
        assert one.change == pytest.approx(smallest_change(spread, one.runs))
        assert one.at_most > one.change


@pytest.mark.simulated
def test_equal_runs_are_distinguished_no_more_often_than_promised():
    rng = np.random.default_rng(5)
    interleaved = in_turn = by_lot = 0
    studies = 30
    for _ in range(studies):
        found = study([float(value) for value in 10 * np.exp(0.03 * rng.standard_normal(12))])
        interleaved += found.against.interleaved.answer != "cannot tell"
        in_turn += found.against.in_turn.answer != "cannot tell"
        by_lot += found.against.told / found.against.splits
    # A twentieth of 30 is 1.5, give or take 1.2.
    assert interleaved <= 6
    assert in_turn <= 6
    assert by_lot / studies <= 0.06


def test_a_machine_that_drifts_is_found_out_and_alternating_hides_it_best():
    rng = np.random.default_rng(6)
    found = study((), simulated(rng, 20, between=0.005, drift=0.01))
    assert found.drift.found
    assert found.drift.change == pytest.approx(math.expm1(0.19), rel=0.15)
    assert found.against.in_turn.answer == "worse"
    assert found.against.interleaved.answer == "cannot tell"


@pytest.mark.simulated
def test_drift_is_found_by_luck_in_one_of_twenty_or_fewer():
    rng = np.random.default_rng(7)
    found = sum(drift_of(rng.standard_normal(12)).found for _ in range(3000))
    assert 0.03 < found / 3000 <= 0.05 + 0.01


@given(st.lists(st.integers(0, 30), min_size=4, max_size=9, unique=True))
def test_the_chance_of_an_order_agrees_with_scipy(values):
    array = np.array(values, dtype=np.float64)
    expected = scipy_stats.kendalltau(np.arange(array.size), array, method="exact").pvalue
    assert drift_of(array).chance == pytest.approx(expected, abs=1e-12)


def test_equal_values_have_no_spread_and_every_change_would_show():
    found = study([512.0] * 6, name="peak_run_rss_mb")
    assert found.between == 0
    assert found.drift.chance == 1
    assert not found.drift.found
    assert {one.change for one in found.resolves} == {0.0}
    assert found.against.told == 0


def test_many_equal_values_are_ordered_by_luck_only():
    found = study([1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0])
    assert not found.drift.found
    assert 0 < found.drift.chance <= 1


def test_a_metric_without_direction_hides_no_false_alarm():
    values = [1.0, 2.0] * 6  # every second run differs, which alternating takes for a change
    found = study(values, name="oddity", better=None)
    assert found.better is None
    assert found.against.interleaved.answer == "worse"


@pytest.mark.parametrize("values", [[1.0, 2.0, 3.0], [0.0, 0.0, 0.0, 0.0], [-1.0, 1.0, -1.0, 1.0]])
def test_too_few_runs_or_values_without_size_are_not_studied(values):
    assert study(values) is None


def test_values_below_zero_are_studied_as_they_are():
    found = study([-1.0, 2.0, 1.5, 2.5, 3.0, 2.0], name="oddity")
    assert found.between == pytest.approx(np.std([-1.0, 2.0, 1.5, 2.5, 3.0, 2.0], ddof=1) / 10 * 6)


def test_a_study_becomes_a_document():
    document = to_plain(study([1.0, 1.1, 0.9, 1.0, 1.2]))
    assert document["within"] is None
    assert document["against"]["interleaved"]["answer"] == "cannot tell"
    assert [one["runs"] for one in document["resolves"]] == [3, 5, 10, 20, 50]
