"""Which percentiles a number of samples backs, after MLPerf LoadGen's early stopping rule.

The rule. Let t of n samples lie above some latency x. If the true p-th percentile were above x, each sample
would lie above x with a chance of more than 1 - p, so t or fewer of them would happen with a chance of at most

    P(Binomial(n, 1 - p) <= t) = I_p(n - t, t + 1)

Where that is 1 % or less, x is at or above the true percentile with 99 % confidence. LoadGen takes the largest
such t and gives the t-th highest sample as its estimate; the smallest n with t = 1 is its minimum (64 samples
for p90, 662 for p99), and ours.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from assay.analyse.distributions import binomial_rank

CONFIDENCE = 0.99
# Percentile fields of MetricStatistics and what they mean; the median needs no backing.
TAILS = {"p90": 0.9, "p95": 0.95, "p99": 0.99, "p99_9": 0.999}


def tolerated(n: int, p: float) -> int:
    """How many of n samples may lie above a latency that is still at or above the p-th percentile; -1 if none."""
    # Rounded, since 1 - 0.9 is not quite 0.1 and the cache should see one number.
    return binomial_rank(n, round(1 - p, 12), round(1 - CONFIDENCE, 12))


def backed(n: int, p: float) -> bool:
    """Whether n samples are enough to speak of the p-th percentile (p as a share, 0.99 for p99)."""
    return n >= samples_needed(p)


@cache
def samples_needed(p: float) -> int:
    """The smallest number of samples that backs the p-th percentile."""
    low, high = 1, 2
    while tolerated(high, p) < 1:
        low, high = high, high * 2
    while low + 1 < high:  # tolerated() never falls with n, so halving finds the first
        middle = (low + high) // 2
        low, high = (low, middle) if tolerated(middle, p) >= 1 else (middle, high)
    return high


def percentile_estimate(values: NDArray[np.float64], p: float) -> float | None:
    """LoadGen's early stopping estimate: at or above the true percentile with 99 % confidence.

    Returns:
        The estimate, or None where the values are too few.
    """
    if not backed(values.size, p):
        return None
    rank = values.size - tolerated(values.size, p)
    return float(np.partition(values, rank)[rank])
