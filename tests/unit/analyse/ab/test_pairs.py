"""Runs put together: which run belongs to which, what a block says, and what does not count."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.analyse.ab.worlds import coins, pairs_from

from assay.analyse.ab import MetricSelection, Pair, RunReading, pairs_of
from assay.analyse.ab.decision import order_note
from assay.analyse.ab.pairs import Scale, differences, scale_of, second_against_first
from assay.analyse.summary import summarise

MS = MetricSelection("latency_ms")
LOG = Scale(True, 1.0)


def make_stats(value):
    return summarise("latency_ms", "ms", "lower", {0: np.array([value])})


def reading(run, value=None, failure=""):
    return RunReading(run, {} if value is None else {"latency_ms": make_stats(value)}, failure)


def test_the_first_runs_of_both_sides_are_a_pair_and_order_says_who_began():
    a = [reading(run, 1.0 + run) for run in range(4)]
    b = [reading(run, 11.0 + run) for run in range(4)]
    pairs = pairs_of(a, b, ["ABBA", "BAAB"], MS)
    assert [(pair.block, pair.a_first, pair.a, pair.b) for pair in pairs] == [
        (0, True, 1.0, 11.0),
        (0, False, 2.0, 12.0),
        (1, False, 3.0, 13.0),
        (1, True, 4.0, 14.0),
    ]
    assert all(pair.complete and not pair.why for pair in pairs)


def test_a_failed_run_takes_its_pair_with_it_and_is_named():
    a = [reading(0, 1.0), reading(1, failure="error[timeout]: not finished"), reading(2, 1.0)]
    b = [reading(0, 2.0), reading(1, 2.0), reading(2)]
    good, failed, empty = pairs_of(a, b, ["ABBA", "ABBA"], MS)
    assert good.complete
    assert not failed.complete
    assert failed.why == "a run 2: error[timeout]: not finished"
    assert empty.why == "b run 3: it gave no latency_ms"
    # The other pair of the block still counts.
    assert differences([good, failed, empty], LOG) == pytest.approx([math.log(2)])


def test_only_runs_that_both_sides_have_make_pairs():
    assert len(pairs_of([reading(0, 1.0), reading(1, 1.0)], [reading(0, 1.0)], ["ABBA"], MS)) == 1
    assert pairs_of([], [], [], MS) == ()


def test_a_number_that_is_none_does_not_count():
    (pair,) = pairs_of(
        [reading(0, 1.0)],
        [RunReading(0, {"latency_ms": make_stats(1.0)})],
        ["ABBA"],
        MetricSelection("latency_ms", "std"),
    )
    assert not pair.complete
    assert "more than 1 value" in pair.why


def test_ratios_where_all_is_positive_else_differences():
    assert scale_of([Pair(0, True, 2.0, 1.0)]) == Scale(True, 2.0)
    assert scale_of([Pair(0, True, 2.0, 0.0), Pair(0, False, 4.0, 1.0)]) == Scale(False, 3.0)
    assert scale_of([]).base == 0.0
    plain = Scale(False, 4.0)
    assert plain.relative(1.0) == 0.25
    assert plain.difference(0.25) == 1.0
    assert LOG.difference(-1.0) == -math.inf


@given(st.floats(-0.9, 5))
def test_a_share_and_its_difference_are_one(share):
    for scale in (LOG, Scale(False, 3.0)):
        assert scale.relative(scale.difference(share)) == pytest.approx(share)


@given(st.integers(0, 2**32), st.floats(-0.05, 0.05), st.floats(-0.5, 0.5))
def test_steady_drift_falls_out_of_every_block(seed, drift, effect):
    orders = coins(np.random.default_rng(seed), 6)
    pairs = pairs_from(np.arange(24) * drift, orders, effect, spread=1.0)
    assert differences(pairs, LOG) == pytest.approx([effect] * 6, abs=1e-9)
    assert second_against_first(pairs, LOG) == pytest.approx([drift] * 6, abs=1e-9)


def test_order_that_matters_is_reported_with_its_size():
    rng = np.random.default_rng(5)
    slower = np.tile([0.0, 0.05], 24)  # every second run
    noise = slower + rng.normal(0, 0.01, 48)
    orders = coins(rng, 12)
    note = order_note(pairs_from(noise, orders, effect=0.3, spread=1.0))
    assert note.startswith("run order matters: the second run of a pair gives +5.")
    assert "the comparison stands" in note
    # What the sides differ by is no order.
    assert order_note(pairs_from(rng.normal(0, 0.01, 48), orders, effect=0.3, spread=1.0)) == ""
    assert order_note(pairs_from(slower[:20], orders[:5], spread=1.0)) == ""
    assert order_note([]) == ""


@pytest.mark.simulated
def test_order_is_seldom_seen_where_there_is_none():
    rng = np.random.default_rng(17)
    seen = sum(bool(order_note(pairs_from(rng.standard_t(3, 80), coins(rng, 20)))) for _ in range(400))
    assert seen <= 14  # one in a hundred is promised; more than this comes once in ten thousand tests
