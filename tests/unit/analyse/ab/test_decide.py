"""What is told: better, worse, or cannot tell and how many more pairs would."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.analyse.ab.worlds import NOISE, coins, pairs_from

from assay.analyse.ab import Pair, decide
from assay.analyse.ab.bets import threshold, won
from assay.analyse.ab.evidence import centre_of


def experiment(effect, blocks=20, spread=0.02, seed=1, kind="normal"):
    rng = np.random.default_rng(seed)
    return pairs_from(NOISE[kind](rng, 4 * blocks), coins(rng, blocks), effect, spread)


def test_lower_latency_is_better_and_lower_speed_is_worse():
    pairs = experiment(math.log(0.8), blocks=8)
    told = decide("latency_ms", "ms", "lower", pairs, smallest=0.01)
    assert told.answer == "better"
    assert told.because == ()
    assert told.differs
    assert told.is_final
    assert told.change == pytest.approx(-0.2, abs=0.02)
    assert told.interval.low < -0.2 < told.interval.high < 0
    assert told.interval.level == 0.95
    assert told.b / told.a == pytest.approx(0.8, abs=0.03)
    assert told.pairs == 16
    assert decide("speed", "", "higher", pairs).answer == "worse"


def test_without_a_direction_a_difference_is_no_answer():
    told = decide("speed", "", None, experiment(0.3, blocks=8))
    assert told.answer == "cannot tell"
    assert told.because == ("it changed, but which direction is better was not declared",)
    assert told.is_final


def test_few_pairs_say_that_they_are_few():
    told = decide("latency_ms", "ms", "lower", experiment(0.5, blocks=5))
    assert told.answer == "cannot tell"
    assert told.interval is None
    assert told.change == pytest.approx(0.65, abs=0.05)
    assert "5 blocks of 2 pairs cannot tell: below 12 pairs" in told.because[0]
    assert not told.is_final


def test_what_cannot_be_decided_says_how_many_more_pairs_would():
    told = decide("latency_ms", "ms", "lower", experiment(0.005, blocks=12), smallest=0.01)
    assert told.answer == "cannot tell"
    assert told.interval.low < 0 < told.interval.high
    assert "includes no change" in told.because[0]
    assert f"about {told.more_for_smallest} more pairs would detect one of 1.0 %" in told.because[1]
    assert "a difference of this size" in told.because[1]
    assert told.more_for_smallest % 2 == 0


def test_it_ends_where_any_difference_is_too_small_to_matter():
    told = decide("latency_ms", "ms", "lower", experiment(0.0, blocks=30, spread=0.005), smallest=0.01)
    assert told.answer == "cannot tell"
    assert told.because == ("any difference is smaller than the 1.0 % that is of interest",)
    assert told.alike
    assert not told.differs
    assert told.is_final
    assert -0.01 <= told.interval.low <= 0 <= told.interval.high <= 0.01
    # Nobody asked about a margin: then no difference is too small.
    assert not decide("latency_ms", "ms", "lower", experiment(0.0, blocks=30, spread=0.005)).is_final


def test_a_difference_below_the_one_of_interest_is_reported_and_said_to_be_small():
    told = decide("latency_ms", "ms", "lower", experiment(0.004, blocks=40, spread=0.002), smallest=0.01)
    assert told.differs
    assert told.alike
    assert told.answer == "worse"
    assert told.because == ("by less than the 1.0 % that is of interest",)


def test_a_difference_that_may_be_too_small_says_so():
    told = decide("latency_ms", "ms", "lower", experiment(0.012, blocks=12, spread=0.006), smallest=0.01)
    assert told.answer == "worse"
    assert told.because == ("whether by the 1.0 % that is of interest is not certain",)


def test_values_that_never_differ():
    pairs = [Pair(block // 2, True, 5.0, 5.0) for block in range(16)]
    assert decide("size_mb", "MB", "lower", pairs, smallest=0.01).alike
    told = decide("size_mb", "MB", "lower", pairs)
    assert told.answer == "cannot tell"
    assert told.because == ("both sides gave the same value in every pair",)
    assert told.change == 0


def test_zeros_are_compared_as_differences_and_a_first_side_of_zero_has_no_change():
    pairs = [Pair(block // 2, True, float(block % 3), 1.0 + block % 3) for block in range(16)]
    told = decide("errors", "", "lower", pairs)
    assert told.answer == "worse"
    assert told.change == pytest.approx(1 / np.mean([pair.a for pair in pairs]))
    zero = decide("errors", "", "lower", [Pair(block // 2, True, 0.0, 1.0) for block in range(16)])
    assert zero.answer == "cannot tell"
    assert zero.because == ("the first side is zero, so no relative change exists",)
    assert zero.change is None
    assert zero.interval is None


def test_failed_pairs_are_counted_and_named_once():
    bad = [
        Pair(9, True, None, 1.0, "a run 4: error[timeout]: x"),
        Pair(10, True, None, 1.0, "a run 4: error[timeout]: x"),
    ]
    told = decide("latency_ms", "ms", "lower", [*experiment(0.3, blocks=8), *bad])
    assert told.answer == "worse"
    assert (told.pairs, told.failed) == (16, 2)
    assert told.failures == ("a run 4: error[timeout]: x",)
    nothing = decide("latency_ms", "ms", "lower", bad)
    assert nothing.answer == "cannot tell"
    assert nothing.because == ("no pair was measured whole",)
    assert nothing.a is None


@given(st.integers(0, 2**32), st.floats(-0.1, 0.1), st.integers(1, 12), st.sampled_from(sorted(NOISE)))
def test_an_answer_never_contradicts_its_interval(seed, effect, blocks, kind):
    pairs = experiment(effect, blocks, spread=0.01, seed=seed, kind=kind)
    told = decide("latency_ms", "ms", "lower", pairs, smallest=0.01)
    values = np.array([math.log(pair.b / pair.a) for pair in pairs]).reshape(-1, 2).mean(axis=1)
    assert told.differs == (won(values) >= threshold())
    if told.answer in ("better", "worse"):
        assert told.interval.low > 0 or told.interval.high < 0 or told.interval is None
        assert (told.change < 0) == (told.answer == "better")
    if told.alike:
        assert -0.0101 <= told.interval.low <= told.interval.high <= 0.0101
    if told.interval is not None:
        assert told.interval.low - 1e-9 <= told.change <= told.interval.high + 1e-9
    # The other way round it is the other answer.
    back = decide("latency_ms", "ms", "lower", [Pair(p.block, p.a_first, p.b, p.a) for p in pairs], smallest=0.0)
    forth = decide("latency_ms", "ms", "lower", pairs, smallest=0.0)
    assert {"better": "worse", "worse": "better"}.get(forth.answer, forth.answer) == back.answer


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=12))
def test_the_middle_of_differences_moves_with_them(values):
    array = np.array(values)
    assert array.min() <= centre_of(array) <= array.max()
    assert centre_of(array + 5) == pytest.approx(centre_of(array) + 5)
    assert centre_of(-array) == pytest.approx(-centre_of(array))


@pytest.mark.simulated
@pytest.mark.parametrize("kind", ["heavy tails", "memory 0.6"])
def test_a_against_a_is_not_distinguished_in_95_of_100(kind):
    """As `ab` asks, up to 40 pairs, with the smallest difference of interest at 1 %."""
    tries, wrong = 100, 0
    for seed in range(tries):
        pairs = experiment(0.0, blocks=20, spread=0.02, seed=seed, kind=kind)
        for blocks in (6, 8, 10, 13, 16, 20):
            told = decide("latency_ms", "ms", "lower", pairs[: 2 * blocks], smallest=0.01)
            if told.is_final or blocks == 20:
                wrong += told.answer != "cannot tell"
                break
    assert wrong <= 5


@pytest.mark.simulated
def test_what_is_there_is_reported_and_in_the_right_direction():
    answers = []
    for seed in range(100):
        pairs = experiment(0.03, blocks=20, spread=0.02, seed=seed, kind="memory 0.6")
        answers.append(decide("latency_ms", "ms", "lower", pairs).answer)
    assert "better" not in answers
    assert answers.count("worse") >= 90
