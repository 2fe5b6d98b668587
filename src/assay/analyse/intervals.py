"""Intervals: of a run's median from its samples, and of a metric from the spread between runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

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


def bootstrap_interval(
    values: NDArray[np.float64],
    statistic: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    rng: np.random.Generator,
    *,
    level: float = LEVEL,
    rounds: int = 2000,
) -> Interval | None:
    """Percentile bootstrap interval of any statistic of independent values.

    Args:
        rng: Where the draws come from; seed it to get the same interval again.
    """
    if values.size < 2:
        return None
    drawn = statistic(rng.choice(values, (rounds, values.size)))
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high), level, f"bootstrap of {values.size} values, {rounds} rounds")


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
