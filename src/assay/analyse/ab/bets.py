"""The test of an open-ended experiment: bets on the coin. It may be looked at after every block, whenever it stops.

A bet on fair coins has no expected win. Start with a stake of 1, bet before each block a share of it on the
sign, and the chance to ever own 20 is at most 1 in 20 (Ville's inequality), however often one looks and whenever one
stops. Owning 20 is therefore the evidence that an answer of 95 % asks for. This is an always-valid test (a test
martingale, or e-process): it needs no number of looks beforehand, and pays for that with about a third of the power of
a planned one.

The bet. If differences were normal around delta with spread sigma, the best share to bet on "+" for a size of d would
be tanh(delta d / sigma^2). Neither is known, so sizes are measured in the median size so far (its own included: the
sign is still open then) and the stake is divided among four steepnesses and two signs: tiny to large effects. Sizes are
cut at twice the median: no single disturbed block can ruin what the others have earned.

The interval. All factors against which the bets have not won 20 form the interval of 95 %; it holds at every look as
well (a confidence sequence), for which it is about twice as wide as one for a single look. Six blocks are the least
that can tell anything: with five coins, luck draws the extreme once in sixteen.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Sequence
from functools import cache
from statistics import NormalDist

import numpy as np

from assay.analyse.ab.evidence import Evidence, centre_of, interval_of
from assay.analyse.ab.pairs import Values
from assay.analyse.intervals import LEVEL
from assay.analyse.text import count

# How steeply a bet grows with the size of a difference, and the part of the stake that bets so.
# The largest part is on large effects, so that the fewest blocks that can tell them do.
_BETS = ((0.1, 0.1), (0.3, 0.15), (0.9, 0.15), (3.0, 0.6))
_STEEPNESS = np.array([steepness for steepness, _ in _BETS])
_SHARES = np.log([share / 2 for _, share in _BETS])  # half on each sign
_LARGEST = 2.0  # in median sizes
# More blocks than this are not worth naming.
MOST_BLOCKS = 2500
_NODES = 400


def threshold(level: float = LEVEL) -> float:
    """What the bets must have won, as a logarithm, for an answer with this promise."""
    return -math.log1p(-level)


def winnings(differences: Sequence[float] | Values, centre: float = 0.0) -> Values:
    """The logarithm of what the bets own after each block, if the true difference were `centre`."""
    bets = np.tanh(np.multiply.outer(_STEEPNESS, _ratios(differences, centre)))
    both = [_SHARES[:, None] + np.cumsum(np.log1p(sign * bets), axis=1) for sign in (1.0, -1.0)]
    owned: Values = np.logaddexp.reduce(np.concatenate(both), axis=0)
    return owned


def _stakes(differences: Values, sign: float) -> Values:
    """The logarithm of what each bet on one sign owns after all blocks."""
    bets = np.tanh(np.multiply.outer(_STEEPNESS, _ratios(differences, 0.0)))
    owned: Values = _SHARES + np.log1p(sign * bets).sum(axis=1)
    return owned


def won(differences: Sequence[float] | Values, centre: float = 0.0) -> float:
    """The logarithm of what the bets own after all blocks; that of the stake, 0, before the first."""
    return float(winnings(differences, centre)[-1]) if len(differences) else 0.0


def _ratios(differences: Sequence[float] | Values, centre: float) -> Values:
    """Each difference in units of the median size so far; none is larger than the largest that counts."""
    sizes: list[float] = []
    ratios: list[float] = []
    for difference in differences:
        deviation = float(difference) - centre
        if deviation == 0:  # the coin changes nothing about it, so there is nothing to bet on
            ratios.append(0.0)
            continue
        insort(sizes, abs(deviation))
        middle = (sizes[(len(sizes) - 1) // 2] + sizes[len(sizes) // 2]) / 2
        ratios.append(math.copysign(min(abs(deviation) / middle, _LARGEST), deviation))
    return np.array(ratios)


@cache
def fewest_blocks(level: float = LEVEL) -> int:
    """The number of blocks below which not even differences of equal size and sign can tell anything."""
    blocks = 1
    while won([1.0] * blocks) < threshold(level):
        blocks += 1
    return blocks


def interval(differences: Sequence[float] | Values, level: float = LEVEL) -> tuple[float, float] | None:
    """Where the true difference lies; None where too few blocks promise any end."""
    values = np.asarray(differences, dtype=np.float64)
    return interval_of(values, lambda centre: won(values, centre) >= threshold(level))


def evidence(values: Values, level: float = LEVEL) -> Evidence:
    """What the bets conclude; may be asked after every block."""
    return Evidence(
        # Asked of the bets themselves: the end of an interval is found by halving, and may miss by its last digit.
        differs=bool(values.size) and won(values) >= threshold(level),
        centre=centre_of(values) if values.size else 0.0,
        ends=interval(values, level),
        method=f"bets on the order of {count(values.size, 'block')}, in random order; holds at every look",
    )


def blocks_needed(
    effect: float, spread: float, known: Sequence[float] | Values = (), *, level: float = LEVEL, chance: float = 0.5
) -> int | None:
    """About how many more blocks tell a difference with that chance; None for more than a few thousand.

    For normal differences the winnings of each bet grow by a sum of independent steps, so that their mean and variance
    say when most sums have passed the threshold.

    Args:
        known: the differences that were measured already; the bets continue from what they own after them.
    """
    if effect == 0:
        return None
    fewest = max(fewest_blocks(level) - len(known), 1)
    if spread <= abs(effect) * 1e-9:
        return fewest
    values = abs(effect) + spread * _normal_nodes()
    middle = float(np.median(np.abs(values)))
    ratios = np.sign(values) * np.minimum(np.abs(values) / middle, _LARGEST)
    gains = np.log1p(np.tanh(np.multiply.outer(_STEEPNESS, ratios)))
    z = NormalDist().inv_cdf(chance)
    steps = [
        _steps(float(gain.mean()), float(gain.var()), z, threshold(level) - float(share))
        for gain, share in zip(gains, _stakes(np.asarray(known), math.copysign(1.0, effect)), strict=True)
    ]
    needed = max(min(steps), fewest)
    return math.ceil(needed) if needed <= MOST_BLOCKS else None


def _steps(mean: float, variance: float, z: float, height: float) -> float:
    """How many steps of that mean and variance pass a height, z standard deviations below their mean."""
    if mean <= 0:
        return math.inf
    if height <= 0:
        return 0.0
    root = (z * math.sqrt(variance) + math.sqrt(z * z * variance + 4 * mean * height)) / (2 * mean)
    return root * root


@cache
def _normal_nodes() -> Values:
    """Values of the standard normal distribution, each as likely as any other."""
    normal = NormalDist()
    return np.array([normal.inv_cdf((node + 0.5) / _NODES) for node in range(_NODES)])
