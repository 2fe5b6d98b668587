"""Quantiles of the chi-square distribution, without scipy: what a spread seen in few runs says about the true one."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

_TINY = 1e-300
_STEPS = 10_000


def chi_square_cdf(x: float, df: float) -> float:
    """The chance that chi-square with `df` degrees of freedom is at most `x`."""
    a, half = df / 2, x / 2
    if half <= 0:
        return 0.0
    log_front = a * math.log(half) - half - math.lgamma(a)
    # The series converges fast below the mean, the fraction above it.
    if half < a + 1:
        return min(1.0, math.exp(log_front) * _series(a, half))
    return max(0.0, 1 - math.exp(log_front) * _fraction(a, half))


def _series(a: float, x: float) -> float:
    term = total = 1 / a
    for n in range(1, _STEPS):
        term *= x / (a + n)
        total += term
        if term < total * 1e-16:
            break
    return total


def _fraction(a: float, x: float) -> float:
    """The continued fraction of the upper incomplete gamma function, by Lentz's method."""
    b = x + 1 - a
    c = 1 / _TINY
    d = 1 / b
    value = d
    for n in range(1, _STEPS):
        step = -n * (n - a)
        b += 2
        d = 1 / _apart_from_zero(step * d + b)
        c = _apart_from_zero(b + step / c)
        value *= d * c
        if abs(d * c - 1) < 1e-15:
            break
    return value


def _apart_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


@lru_cache(maxsize=1024)
def chi_square_quantile(p: float, df: float) -> float:
    """The value below which chi-square with `df` degrees of freedom lies with chance `p`.

    Args:
        p: Above 0 and below 1.
        df: Degrees of freedom, 1 or more.
    """
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
