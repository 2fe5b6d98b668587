"""Intervals between and within runs, the percentiles that samples back, and the smallest change that runs can show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from assay.analyse.distributions import binomial_rank, t_quantile, variance_inflation
from assay.analyse.records import Interval

LEVEL = 0.95


def between_runs(values: Sequence[float] | NDArray[np.float64], level: float = LEVEL) -> Interval | None:
    """Student's t interval of the runs' values; None for fewer than two runs.

    Values that are all positive (times, rates, sizes) are taken on the log scale: their spread is a share of
    their size, and an interval of a time can then never reach below zero.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.size < 2:
        return None
    method = f"Student's t between {array.size} runs"
    if not (array > 0).all():
        return Interval(*_t_interval(array, level), level, method)
    low, high = _t_interval(np.log(array), level)
    # Equal runs give back their own value: exp(log(x)) is x only nearly.
    ends = (float(array[0]), float(array[0])) if low == high else (_exp(low), _exp(high))
    return Interval(*ends, level, f"{method}, on the log scale")


def _exp(exponent: float) -> float:
    """The exponential, kept finite: a document has no word for infinity."""
    return math.exp(min(exponent, 709.0))


def _t_interval(array: NDArray[np.float64], level: float) -> tuple[float, float]:
    half = t_quantile(level, array.size - 1) * float(array.std(ddof=1)) / math.sqrt(array.size)
    mean = float(array.mean())
    return mean - half, mean + half


def order_statistic_interval(values: NDArray[np.float64], q: float, level: float = LEVEL) -> Interval | None:
    """The interval of a quantile from two order statistics, for independent samples of any distribution.

    The i-th smallest value lies above the quantile only if fewer than i samples lie below it, which has a
    binomial chance; each end takes half of what the level leaves.

    Returns:
        The interval, or None where no two of the values reach the level.
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


def median_interval_of_run(durations: NDArray[np.float64] | NDArray[np.int64], level: float = LEVEL) -> Interval | None:
    """The interval of the median of one run, honest also where samples remember the ones before them.

    It is the order statistics interval, with its distance from the middle stretched by the root of the
    variance inflation of "this sample is above the median". No shape of the distribution is assumed.

    Returns:
        The interval, or None where the samples are too few to promise one.
    """
    n = durations.size
    rank = binomial_rank(n, 0.5, round((1 - level) / 2, 12)) if n else -1
    if rank < 0:
        return None
    middle = (n - 1) // 2
    halves = np.partition(durations, middle)
    inflation = variance_inflation(_side_of(durations, halves[middle]))
    low_rank = math.floor((n - 1) / 2 - ((n - 1) / 2 - rank) * math.sqrt(inflation))
    if low_rank < 0:
        return None
    ranks = [low_rank, n - 1 - low_rank]
    low, high = np.partition(halves, ranks)[ranks]
    effective = f"{n / inflation:.0f} of {n} samples count as independent"
    return Interval(float(low), float(high), level, f"order statistics; {effective}")


def _side_of(values: NDArray[np.float64] | NDArray[np.int64], median: float) -> NDArray[np.float64]:
    """Minus one below the median, one above, zero on it: what decides where the median of a sample falls."""
    return (values > median).astype(np.float64) - (values < median)


def relative_half_width(interval: Interval) -> float:
    """How far an interval reaches from its centre, as a share of it; infinite around zero.

    Between positive ends the centre is the geometric one: an interval from a half to twice a value is ±100 %,
    and a wider one is more. (From the arithmetic centre no interval could reach further than ±100 %.)
    """
    if interval.half_width == 0:
        return 0.0
    if interval.low > 0:
        return math.sqrt(interval.high / interval.low) - 1
    centre = abs(interval.low + interval.high) / 2
    return interval.half_width / centre if centre else math.inf


POWER = 0.8
# Enough for seven digits, from two runs to thousands.
_RATIO_NODES = 24
_SPREAD_NODES = 160
# From here on the degrees of freedom hardly depend on the ratio any more.
_RATIO_MATTERS_UP_TO = 200


def power(effect: float, runs: int, level: float = LEVEL) -> float:
    """The chance that a comparison tells a change.

    Args:
        effect: The true change in units of the spread between runs, on the scale on which it is compared.
    """
    if runs < 2:
        raise ValueError(f"a comparison needs 2 runs or more on each side; got {runs}")
    limits, shares = _limits(runs, level)
    spreads, weights = _spreads(2 * runs - 2)
    shift = abs(effect) * math.sqrt(runs / 2)
    reach = np.multiply.outer(limits, spreads)
    told = _normal_cdf(shift - reach) + _normal_cdf(-shift - reach)
    return float(np.einsum("i,ij,j->", shares, told, weights))


@lru_cache(maxsize=256)
def smallest_effect(runs: int, *, level: float = LEVEL, chance: float = POWER) -> float:
    """The change, in units of the spread between runs, that so many runs on each side tell with that chance."""
    if not 1 - level < chance < 1:
        raise ValueError(f"the chance must lie between {1 - level:g} and 1; got {chance}")
    low, high = 0.0, 1.0
    while power(high, runs, level) < chance:
        low, high = high, high * 2
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if power(middle, runs, level) < chance else (low, middle)
    return (low + high) / 2


@lru_cache(maxsize=256)
def _limits(runs: int, level: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What the statistic is held against, and how often: one limit for each ratio of the two variances.

    With r = sin²(φ/2) for the share of one variance in both, the density of φ is sin(φ) to the power n - 2.
    """
    if runs > _RATIO_MATTERS_UP_TO:
        return np.array([t_quantile(level, 2 * runs - 2)]), np.ones(1)
    nodes, weights = np.polynomial.legendre.leggauss(_RATIO_NODES)
    # Most of the mass lies within a few widths of the middle, where both variances are equal.
    width = min(math.pi / 2, 9 / math.sqrt(max(runs - 2, 1)))
    sines = np.sin(math.pi / 2 - width * (nodes + 1) / 2)
    shares = weights * sines ** (runs - 2)
    limits = [t_quantile(level, (runs - 1) / (1 - sine * sine / 2)) for sine in map(float, sines)]
    return np.array(limits), shares / shares.sum()


@lru_cache(maxsize=256)
def _spreads(df: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The pooled spread over the true one, and how often; an even grid of its logarithm is exact to many digits."""
    low = -8 / math.sqrt(2 * df) - 40 / df
    logs = np.linspace(low, 8 / math.sqrt(2 * df), _SPREAD_NODES)
    weights = np.exp(df * logs - df / 2 * np.expm1(2 * logs))
    return np.exp(logs), weights / weights.sum()


def _normal_cdf(values: NDArray[np.float64]) -> NDArray[np.float64]:
    scaled = (-values / math.sqrt(2)).ravel().tolist()
    return np.array([math.erfc(value) / 2 for value in scaled]).reshape(values.shape)


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
