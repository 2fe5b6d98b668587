"""Quantiles of Student's t and tails of the binomial, without scipy.

Both rest on the regularised incomplete beta function. scipy would give them too, but it is larger than the
rest of the base install together; the tests hold these functions against it.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

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
    value = back = _inverse(1 - (a + b) * x / (a + 1))
    for m in range(1, _STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            back = _inverse(1 + term * back)
            front = 1 + term / front
            front = front if abs(front) > _TINY else _TINY
            value *= back * front
        if abs(back * front - 1) < 1e-15:
            break
    return value


def _inverse(value: float) -> float:
    return 1 / (value if abs(value) > _TINY else _TINY)


def t_tail(t: float, df: float) -> float:
    """The chance that Student's t with `df` degrees of freedom lies outside ±t."""
    return incomplete_beta(df / (df + t * t), df / 2, 0.5)


@lru_cache(maxsize=4096)
def t_quantile(level: float, df: float) -> float:
    """The t that holds Student's distribution within ±t with probability `level`.

    Args:
        level: Probability between the two ends, above 0 and below 1.
        df: Degrees of freedom, 1 or more; need not be whole.
    """
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


_TINY_chi_square = 1e-300
_STEPS_chi_square = 10_000


def chi_square_cdf(x: float, df: float) -> float:
    """The chance that chi-square with `df` degrees of freedom is at most `x`."""
    a, half = df / 2, x / 2
    if half <= 0:
        return 0.0
    log_front = a * math.log(half) - half - math.lgamma(a)
    # The series converges fast below the mean, the fraction above it.
    if half < a + 1:
        return min(1.0, math.exp(log_front) * _series(a, half))
    return max(0.0, 1 - math.exp(log_front) * _fraction_chi_square(a, half))


def _series(a: float, x: float) -> float:
    term = total = 1 / a
    for n in range(1, _STEPS_chi_square):
        term *= x / (a + n)
        total += term
        if term < total * 1e-16:
            break
    return total


def _fraction_chi_square(a: float, x: float) -> float:
    """The continued fraction of the upper incomplete gamma function, by Lentz's method."""
    b = x + 1 - a
    c = 1 / _TINY_chi_square
    d = 1 / b
    value = d
    for n in range(1, _STEPS_chi_square):
        step = -n * (n - a)
        b += 2
        d = 1 / _apart_from_zero(step * d + b)
        c = _apart_from_zero(b + step / c)
        value *= d * c
        if abs(d * c - 1) < 1e-15:
            break
    return value


def _apart_from_zero(value: float) -> float:
    return value if abs(value) > _TINY_chi_square else _TINY_chi_square


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


# Lags beyond this are left to the batches, which see them all at once.
_LAGS = 100
_BATCHES = 32
_SMALLEST_BATCH = 16
# Longer series are folded into so many means first: millions of token times must not take seconds to look at.
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
