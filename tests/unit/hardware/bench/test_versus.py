"""A bare loop beside ours, on simulated devices."""

from __future__ import annotations

import math
import random

import pytest

from assay.hardware.bench.timing import FEWEST_PAIRS, median_rank, versus

pytestmark = pytest.mark.simulated


def test_a_known_share_is_found_exactly():
    found = versus(lambda calls: calls * 1.04e-3, lambda calls: calls * 1e-3, 0.5)
    assert found.ratio == pytest.approx(1 / 1.04)
    assert (found.low, found.high) == pytest.approx((1 / 1.04, 1 / 1.04))
    facts = found.facts(2e9, 1e12)
    assert facts["bare"] == pytest.approx(2.0)
    assert facts["ours"] == pytest.approx(2.0 / 1.04)
    assert facts["level"] == pytest.approx(0.95)


def test_a_machine_that_slows_down_hits_both_alike():
    clock = [0.0]

    def drifting(call_s):
        def timed(calls):
            took = calls * call_s * (1 + clock[0] / 2)
            clock[0] += took
            return took

        return timed

    found = versus(drifting(1e-3), drifting(1e-3), 0.5)
    assert found.low <= 1 <= found.high
    assert found.ratio == pytest.approx(1, abs=0.02)


def test_slow_blocks_still_give_enough_pairs():
    found = versus(lambda calls: calls * 5.0, lambda calls: calls * 5.0, 0.1)
    assert found.pairs == FEWEST_PAIRS


@pytest.mark.parametrize("n", [1, 5, 6, 9, 20, 101])
def test_the_rank_is_the_largest_that_keeps_the_promise(n):
    rank = median_rank(n)
    below = sum(math.comb(n, k) for k in range(rank + 1)) / 2**n
    more = sum(math.comb(n, k) for k in range(rank + 2)) / 2**n
    assert below <= 0.025 or rank == 0  # few pairs promise less, and all of them are used then
    assert more > 0.025


def test_the_interval_holds_the_truth_as_often_as_it_promises():
    draw = random.Random(1)
    held = 0
    for _ in range(400):
        noisy = [lambda calls: calls * 1e-2 * math.exp(draw.gauss(0, 0.1)) for _ in range(2)]
        found = versus(noisy[0], noisy[1], 0.1)
        held += found.low <= 1 <= found.high
    assert held >= 0.92 * 400
