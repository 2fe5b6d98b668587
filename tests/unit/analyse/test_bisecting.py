"""The search over an ordered list under noise: it finds the step, knows how sure it is, and measures little."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.analyse.bisect import (
    LIMIT,
    BisectGuess,
    answer_of,
    guess_of,
    is_between,
    levels_of,
    next_item,
    places,
    pooled_spread,
    standing,
    weight_of,
)
from assay.analyse.intervals import binomial_rank

ENDS = np.array([0.10, 0.11, 0.09, 0.10, 0.105, 0.095])
LEVELS = levels_of([ENDS])


def test_good_and_bad_follow_from_the_ends():
    assert LEVELS.good == pytest.approx(0)
    assert LEVELS.bad == pytest.approx(0.1)
    assert LEVELS.boundary == pytest.approx(0.05)
    assert LEVELS.spread == pytest.approx(float(ENDS.std(ddof=1)))


def test_a_boundary_of_ones_own_lies_in_the_middle_of_good_and_bad():
    small = levels_of([ENDS], 0.02)
    assert (small.good, small.bad) == (pytest.approx(0), pytest.approx(0.04))
    large = levels_of([ENDS], 0.09)
    assert (large.good, large.bad) == (pytest.approx(0.08), pytest.approx(0.1))


def test_the_spread_is_that_around_each_items_own_middle():
    groups = [np.array([0.0, 0.02]), np.array([5.0, 5.02]), np.array([9.0])]
    assert pooled_spread(groups) == pytest.approx(0.01 * math.sqrt(2))
    assert pooled_spread([np.array([1.0])]) == 0.0


def test_one_block_does_not_decide_and_two_clear_ones_do():
    assert answer_of(weight_of(np.array([0.1]), LEVELS)) == "cannot tell"
    assert answer_of(weight_of(np.array([0.1, 0.1]), LEVELS)) == "bad"
    assert answer_of(weight_of(np.array([0.0, 0.001]), LEVELS)) == "good"
    assert answer_of(weight_of(np.array([0.05] * 20), LEVELS)) == "cannot tell"
    # One disturbed block among good ones is outvoted.
    assert answer_of(weight_of(np.array([0.0, 9.0, 0.0, 0.0]), LEVELS)) == "good"


@given(st.floats(-1, 1), st.floats(0, 1))
def test_what_is_worse_is_never_less_bad(value, more):
    before, after = (weight_of(np.array([one]), LEVELS) for one in (value, value + more))
    assert after >= before - 1e-12
    assert abs(after) < LIMIT


@given(st.floats(-0.05, 0.05))
def test_both_directions_weigh_alike(distance):
    worse, better = (weight_of(np.array([0.05 + sign * distance]), LEVELS) for sign in (1, -1))
    assert worse == pytest.approx(-better, abs=1e-6)


def test_places_follow_from_the_answers():
    assert places({}, 5) == pytest.approx([0, 0.25, 0.25, 0.25, 0.25])
    told = places({2: 50.0}, 5)
    assert told == pytest.approx([0, 0.5, 0.5, 0, 0])
    assert places({2: -50.0, 3: 50.0}, 5) == pytest.approx([0, 0, 0, 1, 0])
    # Two answers that contradict each other leave both places open.
    assert places({2: 50.0, 3: -50.0}, 5)[[1, 2, 4]] == pytest.approx([1 / 3] * 3, abs=1e-6)


@given(st.integers(2, 40), st.dictionaries(st.integers(1, 38), st.floats(-300, 300), max_size=20))
def test_chances_are_chances(items, weights):
    chances = places({item: weight for item, weight in weights.items() if item < items - 1}, items)
    assert chances.sum() == pytest.approx(1)
    assert chances[0] == 0
    assert (chances >= 0).all()
    guess = guess_of(chances, ())
    assert guess.first == guess.last == int(chances.argmax())


def test_items_that_cannot_be_measured_are_reported_together_with_the_next_one():
    chances = places({1: -50.0, 4: 50.0}, 6)
    assert guess_of(chances, {2, 3}) == BisectGuess(2, 4, pytest.approx(1))
    assert guess_of(chances, ()).confidence == pytest.approx(1 / 3)
    # The bad end is there whatever it is called.
    assert guess_of(places({}, 3), {1, 2}) == BisectGuess(1, 2, pytest.approx(1))


def test_the_next_item_halves_what_is_open():
    assert next_item(places({}, 9), ()) == 4
    assert next_item(places({}, 9), {4}) == 3
    assert next_item(places({4: 50.0}, 9), {4}) == 2
    assert next_item(places({}, 2), ()) is None
    assert next_item(places({}, 4), {1, 2}) is None


def test_two_neighbours_need_no_search():
    found = standing({1: ENDS}, 2)
    assert found.next is None
    assert found.guess == BisectGuess(1, 1, pytest.approx(1))


def test_an_item_is_stayed_with_until_it_is_reported():
    first = standing({8: ENDS}, 9)
    assert first.next == 4
    half = standing({8: ENDS, 4: np.array([0.1])}, 9, stay=4)
    assert half.next == 4
    assert standing({8: ENDS, 4: np.array([0.1, 0.1])}, 9, stay=4).next == 2
    assert standing({8: ENDS, 4: np.array([0.1])}, 9, stay=4, closed={4}).next != 4


def test_a_second_step_is_seen():
    assert is_between(np.array([0.05, 0.051, 0.049, 0.05]), LEVELS)
    assert not is_between(np.array([0.001, 0.0, 0.002, 0.001]), LEVELS)
    assert not is_between(np.array([0.1, 0.099, 0.101]), LEVELS)
    assert not is_between(np.array([0.05]), LEVELS)
    # Half-way it is no evidence for either, however often it is measured.
    assert weight_of(np.array([0.052, 0.053, 0.054, 0.052, 0.053]), LEVELS) == 0
    assert weight_of(np.array([0.02, 0.021, 0.019, 0.02]), LEVELS) < -LIMIT


def search(rng, items, step_at, effect, noise, most=10, skipped=(), half_from=None):
    """Run a search against a machine whose truth is known; return its last standing and the blocks it took."""
    truth = np.where(np.arange(items) >= step_at, effect, 0.0)
    if half_from is not None:
        truth[half_from:step_at] = effect / 2
    blocks = {items - 1: effect + noise(rng, 8)}
    closed, stay, used = set(), None, 0
    while True:
        now = standing(blocks, items, skipped=skipped, closed=closed, stay=stay)
        if now.next is None:
            return now, used
        stay = now.next
        more = truth[stay] + noise(rng, 1)
        blocks[stay] = np.concatenate([blocks.get(stay, np.empty(0)), more])
        used += 1
        if blocks[stay].size >= most:
            closed.add(stay)


NOISES = {
    "normal": lambda rng, n: rng.normal(0, 1, n),
    "heavy tails": lambda rng, n: rng.standard_t(3, n) / math.sqrt(3),
}


@pytest.mark.simulated
@pytest.mark.parametrize("kind", NOISES)
@pytest.mark.parametrize("effect", [2.0, 3.0, 6.0])
def test_what_is_claimed_is_right_in_95_of_100_searches(kind, effect):
    rng = np.random.default_rng(2026)
    tries, claimed, right, used = 150, 0, 0, []
    for _ in range(tries):
        step_at = int(rng.integers(1, 33))
        now, blocks = search(rng, 33, step_at, effect, NOISES[kind])
        used.append(blocks)
        if now.is_clear:
            claimed += 1
            right += now.guess.first == step_at
    assert claimed - right <= claimed - binomial_rank(claimed, 0.95, 1e-4)
    assert claimed >= 0.8 * tries
    # Each of 31 items in turn, two blocks each, would be 62.
    assert np.mean(used) <= {2.0: 36, 3.0: 22, 6.0: 15}[effect]


@pytest.mark.simulated
def test_a_clear_step_takes_two_blocks_for_each_halving():
    rng = np.random.default_rng(5)
    for step_at in (1, 7, 20, 63, 64):
        now, used = search(rng, 65, step_at, 50.0, NOISES["normal"])
        assert now.guess.first == step_at
        assert used <= 2 * 6 + 2


@pytest.mark.simulated
def test_skipped_items_leave_a_range_that_holds_the_step():
    rng = np.random.default_rng(6)
    now, _ = search(rng, 17, 8, 20.0, NOISES["normal"], skipped={7, 8, 9})
    assert now.is_clear
    assert (now.guess.first, now.guess.last) == (7, 10)


@pytest.mark.simulated
def test_noise_that_hides_the_step_is_not_reported():
    rng = np.random.default_rng(8)
    wrong = 0
    for _ in range(40):
        now, _ = search(rng, 17, 8, 0.3, NOISES["normal"], most=4)
        wrong += now.is_clear and now.guess.first != 8
    assert wrong <= 8


@pytest.mark.simulated
def test_a_step_in_two_halves_is_hardly_ever_placed_between_equal_items():
    """What lies half-way is called good or bad by luck; a step between two such items must not be claimed."""
    rng = np.random.default_rng(9)
    tries, wrong, held = 60, 0, 0
    for _ in range(tries):
        now, _ = search(rng, 16, 12, 4.0, NOISES["normal"], most=6, half_from=4)
        wrong += now.is_clear and now.guess.first not in (4, 12)
        held += (
            now.is_clear or now.guess.confidence < 0.95 or bool({4, 12} & {*range(now.guess.first, now.guess.last + 1)})
        )
    assert wrong <= 6  # without the check of the neighbours 13
    assert held >= 57
