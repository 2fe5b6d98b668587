"""The smallest change that a number of runs can show: the power of the comparison that `compare` makes.

Both sides have the same number of runs and the same true spread. Then Welch's statistic follows the noncentral t with
2n - 2 degrees of freedom, while the limit it is held against depends on the ratio of the two observed variances, which
is independent of it. So the chance to tell a change is one average over that ratio and one over the pooled variance;
both are done by quadrature, and no approximation enters.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from assay.analyse.distributions import t_quantile
from assay.analyse.intervals import LEVEL

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
