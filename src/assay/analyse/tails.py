"""Intervals for the high percentiles: order statistics of all samples, as far as samples and runs are independent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from assay.analyse.intervals import LEVEL, incomplete_beta, normal_quantile, t_quantile, variance_inflation
from assay.analyse.records import Interval

Values = NDArray[np.float64]
_HALVINGS = 30


def tail_interval(by_run: Sequence[Values], share: float, value: float, level: float = LEVEL) -> Interval | None:
    """The interval of a percentile; None where too few samples lie beyond it.

    Samples that remember each other, and runs of which one is slower than another, count as fewer: by the larger of the
    two spreads of "this sample lies beyond the percentile".

    Args:
        value: the percentile itself, of the samples of all runs.
    """
    pooled = np.concatenate(by_run)
    n = pooled.size
    beyond = [(values > value).astype(np.float64) for values in by_run if values.size]
    inflation = max(1.0, _between(beyond, level), *map(variance_inflation, beyond))
    independent = n / inflation
    # Three digits are more than such a number is known to, and make the cache useful.
    ends = _shares(share, float(f"{independent:.3g}"), level)
    if ends is None:
        return None
    method = f"order statistics of {n:,} samples, which count as {independent:,.0f}"
    low, high = _of_ranks(pooled, [end * (n + 1) for end in ends])
    return Interval(min(low, value), max(high, value), level, method)


def _of_ranks(values: Values, ranks: Sequence[float]) -> list[float]:
    """The values of ranks that count from 1; between two values by the distance to them."""
    below = [min(max(math.floor(rank), 1), values.size) - 1 for rank in ranks]
    above = [min(index + 1, values.size - 1) for index in below]
    ordered = np.partition(values, sorted({*below, *above}))
    ends = [(float(ordered[low]), float(ordered[high])) for low, high in zip(below, above, strict=True)]
    return [
        min(max(low + (high - low) * (rank - 1 - index), low), high)
        for (low, high), rank, index in zip(ends, ranks, below, strict=True)
    ]


def _between(beyond: Sequence[Values], level: float) -> float:
    """How many samples count as one, by how much the shares of the runs differ; few runs tell it badly."""
    sizes = np.array([part.size for part in beyond], dtype=np.float64)
    shares = np.array([part.mean() for part in beyond])
    mean = float((shares * sizes).sum() / sizes.sum())
    if shares.size < 2 or not 0 < mean < 1:
        return 1.0
    spread = float((sizes * (shares - mean) ** 2).sum()) / (shares.size - 1) / (mean * (1 - mean))
    return spread * (t_quantile(level, shares.size - 1) / normal_quantile(level)) ** 2


@lru_cache(maxsize=4096)
def _shares(share: float, n: float, level: float) -> tuple[float, float] | None:
    """The ranks between which the percentile of n independent samples lies, as shares; None beyond the samples."""
    tail = (1 - level) / 2

    def chance(rank: float) -> float:
        """How often the value of this rank lies below the percentile."""
        return incomplete_beta(share, rank, n + 1 - rank)

    centre = share * (n + 1)
    if chance(n) > tail or chance(1e-9 + min(1.0, centre / 2)) < 1 - tail:
        return None
    low, high = min(1.0, centre / 2), centre
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if chance(middle) >= 1 - tail else (low, middle)
    lower = low
    low, high = centre, n
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if chance(middle) <= tail else (middle, high)
    return lower / (n + 1), high / (n + 1)
