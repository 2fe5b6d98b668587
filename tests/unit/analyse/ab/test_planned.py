"""The planned test: exact over the coins, more power than bets, and corrected for its looks."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.unit.analyse.ab.test_betting import most_hits
from tests.unit.analyse.ab.worlds import NOISE, block_differences, coins, pairs_from

from assay.analyse.ab import PairPlan, decide
from assay.analyse.ab.planned import blocks_to_plan, fewest_blocks, look_at


def last_look(found, plan):
    """The look that ends an experiment: the first that can tell, else the last."""
    looks = (look_at(found[:blocks], plan) for blocks in plan.looks)
    return next((look for look in looks if look.excludes()), None) or look_at(found, plan)


def evidence(found, plan, *, ended=False):
    return look_at(found, plan, ended=ended).evidence()


@given(st.integers(1, 2500))
def test_looks_are_few_and_what_they_may_spend_only_grows(blocks):
    plan = PairPlan(blocks)
    assert plan.looks[-1] == blocks
    assert list(plan.looks) == sorted(set(plan.looks))
    assert len(plan.looks) <= 10 + 9
    spent = [plan.spent(look) for look in plan.looks]
    assert spent == sorted(spent)
    assert spent[-1] == pytest.approx(0.05)


@settings(max_examples=5)
@given(st.lists(st.floats(0, 1e3), min_size=11, max_size=11))
def test_it_is_exact_over_every_way_in_which_the_coins_can_fall(sizes):
    """Eleven blocks, looks after 8, 10 and 11: at most one of twenty of all patterns is ever called different."""
    plan = PairPlan(11)
    assert plan.looks == (8, 10, 11)
    rng = np.random.default_rng(1)
    patterns = [pattern for pattern in product((1, -1), repeat=11) if pattern[0] > 0]
    told = 0
    for number in rng.choice(len(patterns), 60, replace=False):
        told += last_look(np.array(sizes) * patterns[number], plan).excludes()
    assert told <= most_hits(60, 0.05)


@pytest.mark.simulated
@pytest.mark.parametrize("kind", NOISE)
def test_equal_sides_are_distinguished_at_most_once_in_twenty(kind):
    rng = np.random.default_rng(20_261_119)
    tries, told, plan = 100, 0, PairPlan(20)
    for _ in range(tries):
        found = block_differences(NOISE[kind](rng, 80), coins(rng, 20))
        told += last_look(found, plan).excludes()
    assert told <= most_hits(tries, 0.05)


@pytest.mark.simulated
def test_half_of_all_small_differences_are_found_and_sizes_are_not_too_large():
    """One percent under noise of two, forty pairs: one in five with bets."""
    rng = np.random.default_rng(3)
    plan, tries = PairPlan(20), 100
    told, covered, above = 0, 0, 0
    for _ in range(tries):
        concluded = last_look(rng.normal(0.5, 1, 20), plan).evidence()
        told += concluded.differs
        covered += concluded.ends[0] <= 0.5 <= concluded.ends[1]
        above += concluded.centre > 0.5
        assert concluded.ends[0] <= concluded.centre <= concluded.ends[1]
    assert 0.43 * tries <= told <= 0.62 * tries
    assert covered >= 0.94 * tries
    assert 0.36 * tries <= above <= 0.58 * tries


def test_a_large_difference_ends_a_long_experiment_early():
    found = np.random.default_rng(4).normal(5, 1, 400)
    assert look_at(found[:8], PairPlan(400)).excludes()


def test_what_ends_by_time_spends_what_is_left():
    """Twelve of twenty blocks: at that share of the plan little may be spent, at its end all."""
    found = np.random.default_rng(0).normal(0.6, 1, 12)
    plan = PairPlan(20)
    assert not look_at(found, plan).excludes()
    assert look_at(found, plan, ended=True).excludes()
    assert look_at(found[:5], plan) is None
    assert evidence(found[:5], plan, ended=True).ends is None


def test_differences_too_small_for_single_precision_are_none():
    found = np.array([0.0, 0.0, 0.0, 1.0, 1.098457908283057e-221, -1.0])
    assert not evidence(found, PairPlan(6)).differs
    assert not evidence(-found, PairPlan(6)).differs


@settings(max_examples=20)
@example([0.0, 0.0, 0.0, 1.0, 1.098457908283057e-221, -1.0], 1.0, 0.0)
@given(st.lists(st.floats(-10, 10), min_size=6, max_size=20), st.floats(0.1, 100), st.floats(-50, 50))
def test_units_and_sides_do_not_matter(found, unit, shift):
    values, plan = np.array(found), PairPlan(len(found))
    one = evidence(values, plan)
    assert evidence(-values, plan).differs == one.differs
    if one.ends is None:
        return
    assert one.differs == (one.ends[0] > 0 or one.ends[1] < 0) or min(map(abs, one.ends)) < 1e-3
    moved = evidence(unit * values + shift, plan)
    assert moved.ends == pytest.approx([unit * end + shift for end in one.ends], abs=0.01 * unit + 1e-3)


def test_fewest_blocks():
    assert fewest_blocks() == 6
    assert evidence(np.ones(6), PairPlan(6)).differs
    assert not evidence(np.ones(5), PairPlan(5)).differs
    assert evidence(np.array([0.3, 0.31, 0.29, 0.3, 0.32, 0.28]), PairPlan(6)).differs
    assert not evidence(np.zeros(30), PairPlan(30)).differs


def test_one_disturbed_block_does_not_hide_the_others():
    found = np.random.default_rng(2).normal(1, 0.5, 20)
    found[3] = -500.0
    assert last_look(found, PairPlan(20)).excludes()


@pytest.mark.simulated
def test_the_planned_number_of_pairs_is_enough_four_times_in_five():
    blocks = blocks_to_plan(0.5, 1.0)
    rng, tries = np.random.default_rng(6), 100
    told = sum(last_look(rng.normal(0.5, 1, blocks), PairPlan(blocks)).excludes() for _ in range(tries))
    assert 0.7 * tries <= told <= 0.92 * tries
    assert blocks_to_plan(0.0, 1.0) is None
    assert blocks_to_plan(1e-4, 1.0) is None
    assert blocks_to_plan(-0.5, 1.0) == blocks


def test_what_is_told_names_the_design_and_the_pairs_of_a_new_experiment():
    rng = np.random.default_rng(1)
    pairs = pairs_from(NOISE["normal"](rng, 80), coins(rng, 20), 0.0, 0.02)
    told = decide("latency_ms", "ms", "lower", pairs, smallest=0.01, plan=PairPlan(20))
    assert (told.answer, told.design) == ("cannot tell", "planned")
    assert "holds at all planned looks" in told.interval.method
    assert told.because[1].startswith("a new experiment should plan ")
    assert f"about {told.plan_for_smallest:,} pairs to detect one of 1.0 %" in told.because[1]
    assert told.more_for_seen is None
    early = decide("latency_ms", "ms", "lower", pairs[:10], smallest=0.01, plan=PairPlan(20))
    assert early.because == (
        "5 blocks of 2 pairs cannot tell: below 12 pairs, the random order alone could show any difference",
    )
    between = decide("latency_ms", "ms", "lower", pairs[:14], smallest=0.01, plan=PairPlan(20))
    assert between.because == ("no planned look was reached",)


@pytest.mark.simulated
def test_equal_enough_ends_it():
    rng = np.random.default_rng(5)
    pairs = pairs_from(NOISE["normal"](rng, 80), coins(rng, 20), 0.0, 0.002)
    told = decide("latency_ms", "ms", "lower", pairs[:24], smallest=0.01, plan=PairPlan(20))
    assert told.alike
    assert told.is_final
    assert math.isclose(told.change, 0.0, abs_tol=0.005)
