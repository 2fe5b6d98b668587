"""Figures with their spread over rounds, and whether they keep a target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.analyse.intervals import LEVEL, backed, binomial_rank, tolerated
from assay.analyse.records import Interval


@dataclass(frozen=True, slots=True)
class Figure:
    """A middle value and where it may lie."""

    value: float
    low: float
    high: float
    rounds: int

    def text(self, digits: int = 3, scale: float = 1.0) -> str:
        """`0.123 [0.119, 0.130]`; a figure of one round has no spread to show."""
        value, low, high = (f"{scale * number:,.{digits}f}" for number in (self.value, self.low, self.high))
        return value if self.rounds == 1 else f"{value} [{low}, {high}]"

    def below(self, target: float) -> str:
        """Whether the figure is below a target; `cannot tell` when its spread reaches over it."""
        if self.high < target:
            return "pass"
        return "**fail**" if self.low >= target else "cannot tell"

    def within(self, share: float) -> str:
        """Whether a ratio is 1 but for a share; `cannot tell` when its interval reaches over the edge."""
        low, high = 1 - share, 1 + share
        if low <= self.low and self.high <= high:
            return "pass"
        return "**fail**" if self.low > high or self.high < low else "cannot tell"


def median_of(rounds: Sequence[float] | NDArray[np.float64]) -> Figure:
    """The median of rounds with its 95 % interval by order statistics, or the range where rounds are few."""
    values = np.asarray(rounds, dtype=np.float64)
    interval = order_statistic_interval(values, 0.5)
    low, high = (interval.low, interval.high) if interval else (float(values.min()), float(values.max()))
    return Figure(float(np.median(values)), low, high, values.size)


def ratio_of(ours: Sequence[float], theirs: Sequence[float]) -> Figure:
    """The median of paired ratios with its 95 % interval: one bad round of a shared machine must not widen it."""
    return median_of(np.asarray(ours, dtype=np.float64) / np.asarray(theirs, dtype=np.float64))


def order_statistic_interval(values: NDArray[np.float64], q: float, level: float = LEVEL) -> Interval | None:
    """The interval of a quantile from two order statistics, for independent samples of any distribution.

    The i-th smallest value lies above the quantile only if fewer than i samples lie below it, which has a
    binomial chance; each end takes half of what the level leaves. None where no two of the values reach the level.
    """
    n = values.size
    tail = round((1 - level) / 2, 12)
    below = binomial_rank(n, q, tail) if n else -1
    above = binomial_rank(n, 1 - q, tail) if n else -1
    if below < 0 or above < 0:
        return None
    ranks = (below, n - 1 - above)
    low, high = np.partition(values, ranks)[list(ranks)]
    return Interval(float(low), float(high), level, f"order statistics of {n} independent samples")


def percentile_estimate(values: NDArray[np.float64], p: float) -> float | None:
    """LoadGen's early stopping estimate: at or above the true percentile with 99 % confidence; None for too few."""
    if not backed(values.size, p):
        return None
    rank = values.size - tolerated(values.size, p)
    return float(np.partition(values, rank)[rank])
