"""The sequential test: it cannot be fooled by looking often, whatever the noise; and it tells what is there."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.analyse.ab.worlds import NOISE, block_differences, coins

from assay.analyse.ab.bets import (
    blocks_needed,
    fewest_blocks,
    interval,
    threshold,
    winnings,
    won,
)
from assay.analyse.intervals import binomial_rank

LIMIT = threshold()
sizes = st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=9)
values = st.lists(st.floats(-1e3, 1e3).filter(lambda x: x == 0 or abs(x) > 1e-6), min_size=1, max_size=30)


def most_hits(tries, chance, tail=1e-4):
    """More hits than this come by luck once in ten thousand tests only."""
    return tries - binomial_rank(tries, 1 - chance, tail)


@given(sizes)
def test_no_one_can_expect_to_win_against_fair_coins(found):
    """Exact, over every way in which the coins can fall: all own the stake on average, and 20 is rare."""
    paths = [
        winnings([sign * size for sign, size in zip(signs, found, strict=True)])
        for signs in product((1, -1), repeat=len(found))
    ]
    owned = np.exp([path[-1] for path in paths])
    assert owned.mean() == pytest.approx(1.0, rel=1e-9)
    assert np.mean([path.max() >= LIMIT for path in paths]) <= 0.05


@given(values, st.floats(1e-3, 1e3), st.floats(-100, 100))
def test_units_and_sides_do_not_matter(found, unit, shift):
    owned = won(found)
    assert won([unit * value for value in found]) == pytest.approx(owned, abs=1e-6)
    assert won([-value for value in found]) == pytest.approx(owned, abs=1e-9)
    assert won([value + shift for value in found], shift) == pytest.approx(owned, abs=0.05)


@given(values)
def test_the_last_of_the_winnings_is_what_is_owned(found):
    path = winnings(found)
    assert path.shape == (len(found),)
    assert [won(found[: end + 1]) for end in range(len(found))] == pytest.approx(path.tolist(), abs=1e-9)


def test_six_blocks_are_the_fewest_that_report_and_do():
    assert fewest_blocks() == 6
    assert won([0.3] * 5) < LIMIT
    assert won([0.3, 0.31, 0.29, 0.3, 0.32, 0.28]) >= LIMIT
    assert won([]) == 0.0
    assert won([0.0] * 50) == pytest.approx(0.0)


def test_one_disturbed_block_does_not_ruin_the_others():
    clean = [1.0, 0.9, 1.1, 1.0, 0.95, 1.05, 1.0, 0.9]
    assert won([*clean[:4], -500.0, *clean[4:], *clean]) >= LIMIT
    low, high = interval([*clean[:4], -500.0, *clean[4:], *clean])
    assert 0 < low < 1 < high < 10


@pytest.mark.simulated
@pytest.mark.parametrize("kind", NOISE)
def test_equal_sides_are_distinguished_at_most_once_in_twenty_at_any_look(kind):
    """Looked at after each of 60 blocks, with drift, memory, heavy tails and steps of a clock."""
    rng = np.random.default_rng(20_261_115)
    tries = 1000
    told = sum(winnings(block_differences(NOISE[kind](rng, 240), coins(rng, 60))).max() >= LIMIT for _ in range(tries))
    assert told <= most_hits(tries, 0.05)


@pytest.mark.simulated
def test_a_coin_that_is_not_thrown_would_be_fooled():
    """The same machine with a beat of four runs, and always ABBA: this is what the lot is for."""
    rng = np.random.default_rng(1)
    noise = NOISE["a beat of four runs"](rng, 240)
    assert winnings(block_differences(noise, ["ABBA"] * 60)).max() >= LIMIT


@pytest.mark.simulated
@pytest.mark.parametrize("kind", ["normal", "heavy tails", "memory 0.6", "drift", "skewed"])
def test_the_interval_holds_the_truth_at_all_looks_together(kind):
    rng = np.random.default_rng(7)
    tries, missed = 50, 0
    for _ in range(tries):
        found = block_differences(NOISE[kind](rng, 120), coins(rng, 30), effect=0.4)
        ends = [interval(found[:end]) for end in (6, 9, 14, 20, 30)]
        missed += any(one is not None and not one[0] <= 0.4 <= one[1] for one in ends)
    assert missed <= most_hits(tries, 0.05)


@given(st.lists(st.floats(-10, 10), min_size=6, max_size=25))
def test_an_interval_excludes_exactly_what_the_bets_exclude(found):
    ends = interval(found)
    if ends is None:
        return
    low, high = ends
    assert low <= np.median(found) <= high
    reach = max(high - low, 1e-3)
    for outside in (low - 1e-6 * reach, high + 1e-6 * reach, high + 3 * reach):
        assert won(found, outside) >= LIMIT - 1e-6 or low == high


def test_too_few_blocks_have_no_interval_and_equal_ones_a_point():
    assert interval([]) is None
    assert interval([0.1] * 5) is None
    assert interval([0.1] * 6) == (0.1, 0.1)
    assert interval([0.1, 0.2, 0.3]) is None


def test_intervals_shrink_with_the_number_of_blocks():
    rng = np.random.default_rng(3)
    found = rng.normal(0.5, 1, 400)
    widths = [high - low for low, high in (interval(found[:n]) for n in (10, 40, 100, 400))]
    assert widths == sorted(widths, reverse=True)
    # A fixed interval of 95 % would be 0.2 wide; what may be looked at at any time costs about twice that.
    assert 0.2 < widths[-1] < 0.42


@pytest.mark.simulated
@pytest.mark.parametrize("effect", [0.4, 0.7, 1.0, 2.0, 4.0])
def test_the_blocks_named_are_enough_as_often_as_they_should_be(effect):
    rng = np.random.default_rng(11)
    for chance, least, most in ((0.5, 0.45, 0.75), (0.8, 0.7, 0.95)):
        blocks = blocks_needed(effect, 1.0, chance=chance)
        told = np.mean([winnings(rng.normal(effect, 1, blocks)).max() >= LIMIT for _ in range(300)])
        assert told >= least
        assert told <= most or blocks <= fewest_blocks() + 1


@given(st.floats(0.05, 5), st.floats(1.01, 3))
def test_smaller_effects_need_more_blocks(effect, factor):
    more, fewer = (blocks_needed(one, 1.0) or math.inf for one in (effect, effect * factor))
    assert more >= fewer >= fewest_blocks()


def test_blocks_for_nothing_or_without_noise():
    assert blocks_needed(0.0, 1.0) is None
    assert blocks_needed(1e-4, 1.0) is None
    assert blocks_needed(0.1, 0.0) == fewest_blocks()
    assert blocks_needed(-0.7, 1.0) == blocks_needed(0.7, 1.0)
