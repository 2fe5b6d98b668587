"""Intervals between and within runs, the percentiles that samples back, and the smallest change that runs can show.

Quantiles of Student's t, chi-square and tails of the binomial rest on the incomplete beta and gamma functions. scipy
would give them too, but it is larger than the rest of the base install together; the tests hold ours against it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

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
        return Interval(*t_interval(array, level), level, method)
    low, high = t_interval(np.log(array), level)
    # Equal runs give back their own value: exp(log(x)) is x only nearly.
    ends = (float(array[0]), float(array[0])) if low == high else (_exp(low), _exp(high))
    return Interval(*ends, level, f"{method}, on the log scale")


_WIDENED = "; widened by {:.0%}, since the spread decided how many runs were made"


def median_of_runs(
    values: Sequence[float] | NDArray[np.float64], level: float = LEVEL, *, widened: float = 1.0
) -> Interval | None:
    """The interval of the median run, which needs no shape of the spread; None for fewer than two runs.

    From six runs on the ends lie between the order statistics of the runs (the interpolation of Hettmansperger and
    Sheather, 1986): runs on two speeds and a bad run now and then are covered as normal ones are. Fewer runs cannot
    promise 95 % so; there it is Student's t between the runs, never narrower than the runs themselves.

    Args:
        widened: factor on the distance of both ends from the median, where the spread decided how many runs there are.
    """
    array = np.sort(np.asarray(values, dtype=np.float64))
    if array.size < 2:
        return None
    logarithmic = bool((array > 0).all())
    scaled = np.log(array) if logarithmic else array
    low, high, method = _median_ends(scaled, level)
    centre = (array[(array.size - 1) // 2] + array[array.size // 2]) / 2
    middle = math.log(centre) if logarithmic else float(centre)
    low, high = middle - widened * max(middle - low, 0.0), middle + widened * max(high - middle, 0.0)
    method += (", on the log scale" if logarithmic else "") + (_WIDENED.format(widened - 1) if widened > 1 else "")
    if low == high:  # equal runs give back their own value: exp(log(x)) is x only nearly
        return Interval(float(centre), float(centre), level, method)
    ends = (_exp(low), _exp(high)) if logarithmic else (low, high)
    return Interval(*ends, level, method)


def stretched(interval: Interval | None, factor: float) -> Interval | None:
    """An interval that reaches further from its centre by a factor."""
    if interval is None or factor == 1:
        return interval
    if interval.low > 0:
        centre, half = math.sqrt(interval.low * interval.high), math.sqrt(interval.high / interval.low) ** factor
        return replace(interval, low=centre / half, high=centre * half)
    centre, half = (interval.low + interval.high) / 2, interval.half_width * factor
    return replace(interval, low=centre - half, high=centre + half)


def _median_ends(ordered: NDArray[np.float64], level: float) -> tuple[float, float, str]:
    """Both ends of the interval of the median, and how they were found."""
    n = ordered.size
    rank = binomial_rank(n, 0.5, round((1 - level) / 2, 12))
    if rank < 0:
        low, high = t_interval(ordered, level)
        return min(low, float(ordered[0])), max(high, float(ordered[-1])), f"Student's t between {n} runs"
    share = _between_ranks(n, rank + 1, level)
    low = (1 - share) * ordered[rank] + share * ordered[rank + 1]
    high = (1 - share) * ordered[n - 1 - rank] + share * ordered[n - 2 - rank]
    return float(low), float(high), f"order statistics of {n} runs"


@lru_cache(maxsize=1024)
def _between_ranks(n: int, k: int, level: float) -> float:
    """How far from the k-th value towards the next one the interval of a median may end."""
    wider, narrower = (1 - 2 * binomial_cdf(rank - 1, n, 0.5) for rank in (k, k + 1))
    part = (wider - level) / (wider - narrower)
    return (n - k) * part / (k + (n - 2 * k) * part)


def _exp(exponent: float) -> float:
    """The exponential, kept finite: a document has no word for infinity."""
    return math.exp(min(exponent, 709.0))


def t_interval(array: NDArray[np.float64], level: float) -> tuple[float, float]:
    """Where the mean of two values or more lies, by Student's t."""
    half = t_quantile(level, array.size - 1) * float(array.std(ddof=1)) / math.sqrt(array.size)
    mean = float(array.mean())
    return mean - half, mean + half


def median_interval_of_run(durations: NDArray[np.float64] | NDArray[np.int64], level: float = LEVEL) -> Interval | None:
    """The interval of the median of one run, honest also where samples remember the ones before them.

    It is the order statistics interval, with its distance from the middle stretched by the root of the
    variance inflation of "this sample is above the median". No shape of the distribution is assumed. None where the
    samples are too few to promise one.
    """
    n = durations.size
    rank = binomial_rank(n, 0.5, round((1 - level) / 2, 12)) if n else -1
    if rank < 0:
        return None
    middle = (n - 1) // 2
    halves = np.partition(durations, middle)
    # What decides where the median of a sample falls is on which side of it each value lies.
    median = halves[middle]
    inflation = variance_inflation((durations > median).astype(np.float64) - (durations < median))
    low_rank = math.floor((n - 1) / 2 - ((n - 1) / 2 - rank) * math.sqrt(inflation))
    if low_rank < 0:
        return None
    ranks = [low_rank, n - 1 - low_rank]
    low, high = np.partition(halves, ranks)[ranks]
    effective = f"{n / inflation:.0f} of {n} samples count as independent"
    return Interval(float(low), float(high), level, f"order statistics; {effective}")


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
# From here on the degrees of freedom hardly depend on the ratio.
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
    power = _normal_cdf(shift - reach) + _normal_cdf(-shift - reach)
    return float(np.einsum("i,ij,j->", shares, power, weights))


@lru_cache(maxsize=256)
def smallest_effect(runs: int, *, level: float = LEVEL, chance: float = POWER) -> float:
    """The change, in units of the spread between runs, that `runs` runs on each side show with that chance."""
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


_GAMMA_STEPS = 10_000
_STEPS = 100_000  # the continued fraction needs about the square root of its larger argument
_TINY = 1e-300
_NORMAL = NormalDist()
# From here on Student's t and the normal distribution agree to about seven digits.
_NORMAL_FROM_DF = 1e7


def incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b)."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    log_front = a * math.log(x) + b * math.log1p(-x) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    # The fraction converges fast only on the near side of the mean; the far side follows by symmetry.
    if x < (a + 1) / (a + b + 2):
        return math.exp(log_front) * _fraction(x, a, b) / a
    return 1 - math.exp(log_front) * _fraction(1 - x, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    front = 1.0
    value = back = 1 / _apart_from_zero(1 - (a + b) * x / (a + 1))
    for m in range(1, _STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            back = 1 / _apart_from_zero(1 + term * back)
            front = _apart_from_zero(1 + term / front)
            value *= back * front
        if abs(back * front - 1) < 1e-15:
            break
    return value


def _apart_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def t_tail(t: float, df: float) -> float:
    """The chance that Student's t with `df` degrees of freedom lies outside ±t."""
    return incomplete_beta(df / (df + t * t), df / 2, 0.5)


@lru_cache(maxsize=4096)
def t_quantile(level: float, df: float) -> float:
    """The t that holds Student's distribution within ±t with probability `level`."""
    if not 0 < level < 1 or df < 1:
        raise ValueError(f"level must lie between 0 and 1 and df be 1 or more; got {level} and {df}")
    normal = _NORMAL.inv_cdf((1 + level) / 2)
    return normal if df > _NORMAL_FROM_DF else _solve_t(1 - level, df, normal)


def _solve_t(tail: float, df: float, start: float) -> float:
    """Newton's method on the tail, kept inside a bracket."""
    low, high = 0.0, max(start, 1.0)
    while t_tail(high, df) > tail:
        low, high = high, high * 2
    t = (low + high) / 2
    for _ in range(200):
        excess = t_tail(t, df) - tail
        low, high = (t, high) if excess > 0 else (low, t)
        step = t + excess / (2 * _t_density(t, df))
        new = step if low < step < high else (low + high) / 2
        if abs(new - t) <= 1e-13 * new:
            return new
        t = new
    return t


def _t_density(t: float, df: float) -> float:
    log_scale = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - math.log(df * math.pi) / 2
    return math.exp(log_scale - (df + 1) / 2 * math.log1p(t * t / df))


def normal_quantile(level: float) -> float:
    """The z that holds the normal distribution within ±z with probability `level`."""
    return _NORMAL.inv_cdf((1 + level) / 2)


def binomial_cdf(k: int, n: int, p: float) -> float:
    """The chance of at most `k` hits in `n` tries of probability `p`."""
    if k < 0 or k >= n:
        return 0.0 if k < 0 else 1.0
    return incomplete_beta(1 - p, n - k, k + 1)


@lru_cache(maxsize=4096)
def binomial_rank(n: int, p: float, tail: float) -> int:
    """The largest k for which at most k hits in n tries happen with chance `tail` or less; -1 if none."""
    k = round(n * p + _NORMAL.inv_cdf(tail) * math.sqrt(n * p * (1 - p)))
    k = min(max(k, -1), n - 1)
    while k >= 0 and binomial_cdf(k, n, p) > tail:
        k -= 1
    while k < n - 1 and binomial_cdf(k + 1, n, p) <= tail:
        k += 1
    return k


def chi_square_cdf(x: float, df: float) -> float:
    """The chance that chi-square with `df` degrees of freedom is at most `x`."""
    a, half = df / 2, x / 2
    if half <= 0:
        return 0.0
    log_front = a * math.log(half) - half - math.lgamma(a)
    # The series converges fast below the mean, the fraction above it.
    if half < a + 1:
        return min(1.0, math.exp(log_front) * _series(a, half))
    return max(0.0, 1 - math.exp(log_front) * _gamma_fraction(a, half))


def _series(a: float, x: float) -> float:
    term = total = 1 / a
    for n in range(1, _GAMMA_STEPS):
        term *= x / (a + n)
        total += term
        if term < total * 1e-16:
            break
    return total


def _gamma_fraction(a: float, x: float) -> float:
    """The continued fraction of the upper incomplete gamma function, by Lentz's method."""
    b = x + 1 - a
    c = 1 / _TINY
    d = 1 / b
    value = d
    for n in range(1, _GAMMA_STEPS):
        step = -n * (n - a)
        b += 2
        d = 1 / _apart_from_zero(step * d + b)
        c = _apart_from_zero(b + step / c)
        value *= d * c
        if abs(d * c - 1) < 1e-15:
            break
    return value


@lru_cache(maxsize=1024)
def chi_square_quantile(p: float, df: float) -> float:
    """The value below which chi-square with `df` degrees of freedom lies with chance `p`."""
    if not 0 < p < 1 or df < 1:
        raise ValueError(f"p must lie between 0 and 1 and df be 1 or more; got {p} and {df}")
    # Wilson and Hilferty: its cube root is nearly normal. From there a bracket, halved.
    near = df * max(1e-6, 1 - 2 / (9 * df) + NormalDist().inv_cdf(p) * math.sqrt(2 / (9 * df))) ** 3
    low, high = near / 2, near * 2
    while chi_square_cdf(low, df) > p:
        low /= 4
    while chi_square_cdf(high, df) < p:
        high *= 2
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if chi_square_cdf(middle, df) < p else (low, middle)
    return (low + high) / 2


# Lags beyond this are left to the batches, which see them all together.
_LAGS = 100
_BATCHES = 32
_SMALLEST_BATCH = 16
# Longer series are folded into this many means first: millions of token times must not take seconds to evaluate.
_LONGEST = 100_000


def variance_inflation(series: NDArray[np.float64]) -> float:
    """By how much the variance of the series' mean exceeds that of independent samples; 1 or more.

    Two estimators see different things: the sum of autocorrelations sees short memory even in short series,
    batch means see long memory. The larger one counts, since a too wide interval is the smaller lie.
    """
    if series.size < 4:
        return 1.0
    centred = series - series.mean()
    variance = _product(centred, centred) / series.size
    if variance <= 0:
        return 1.0
    if series.size > 2 * _LONGEST:
        return max(1.0, _folded(centred, variance))
    return max(1.0, _by_autocorrelation(centred, variance), _by_batches(centred, variance))


def _folded(centred: NDArray[np.float64], variance: float) -> float:
    """The inflation of a long series: that of neighbours within a fold, times that of the folds' means."""
    size = centred.size // _LONGEST
    means = centred[: size * _LONGEST].reshape(_LONGEST, size).mean(axis=1)
    return size * float(means.var()) / variance * variance_inflation(means)


def _by_autocorrelation(centred: NDArray[np.float64], variance: float) -> float:
    """One plus twice the sum of autocorrelations, up to the first pair that is not positive (Geyer 1992)."""
    n = centred.size
    total = 1.0
    for lag in range(1, min(_LAGS, n // 4), 2):
        pair = _autocorrelation(centred, lag, variance) + _autocorrelation(centred, lag + 1, variance)
        if pair <= 0:
            break
        total += 2 * pair
    # Removing the mean makes every autocorrelation about total / n too small.
    return total / max(1 - total / n, 0.1)


def _autocorrelation(centred: NDArray[np.float64], lag: int, variance: float) -> float:
    return _product(centred[lag:], centred[:-lag]) / centred.size / variance


def _product(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """The inner product, without BLAS: its threads would start up beside whatever is being measured."""
    return float(np.einsum("i,i->", a, b))


def _by_batches(centred: NDArray[np.float64], variance: float) -> float:
    """The variance of batch means over what it would be for independent samples."""
    batches = min(_BATCHES, centred.size // _SMALLEST_BATCH)
    if batches < 8:
        return 1.0
    size = centred.size // batches
    means = centred[: batches * size].reshape(batches, size).mean(axis=1)
    return float(means.var(ddof=1)) * size / variance
