"""Quantiles of Student's t and tails of the binomial, without scipy.

Both rest on the regularised incomplete beta function. scipy would give them too, but it is larger than the
rest of the base install together; the tests hold these functions against it.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

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
