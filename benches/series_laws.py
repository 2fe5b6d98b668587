"""Series with a known truth: noise of several laws around a level, with and without a step."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
LEVEL, NOISE = 100.0, 0.02
POINTS, AFTER = 120, 15
# Steps of a year: place → size in deviations of the noise.
YEAR = 365
SEVERAL = {33: 3.0, 60: -3.0, 149: -5.5, 204: 2.5, 227: 4.5, 243: -4.0, 340: 3.0}


def noise(rng: np.random.Generator, law: str, count: int, points: int = POINTS) -> Values:
    """So many series of noise with standard deviation one.

    Args:
        rng: Where chance comes from.
        law: `normal`, `t3` (Student's t with three degrees of freedom) or `AR 0.6` (each point keeps that share of the
            deviation of the one before).
        count: Series.
        points: Points of each.
    """
    if law == "normal":
        return rng.standard_normal((count, points))
    if law == "t3":
        return rng.standard_t(3, (count, points)) / math.sqrt(3)
    memory = float(law.removeprefix("AR "))
    out = rng.standard_normal((count, points))
    fresh = math.sqrt(1 - memory**2)
    for point in range(1, points):
        out[:, point] = memory * out[:, point - 1] + fresh * out[:, point]
    return out


def series(rng: np.random.Generator, law: str, step: float, count: int, points: int = POINTS) -> Values:
    """Series around 100 with 2 % noise, the last 15 points of which are `step` deviations higher."""
    values = noise(rng, law, count, points)
    values[:, points - AFTER :] += step
    return LEVEL * (1 + NOISE * values)


def several(rng: np.random.Generator, law: str, count: int) -> Values:
    """Series of a year with seven steps."""
    values = noise(rng, law, count, YEAR)
    for place, size in SEVERAL.items():
        values[:, place:] += size
    return LEVEL * (1 + NOISE * values)


# A quiet part of so many points, then a level 60 % higher with more noise.
QUIET, LOUD, RAISED = 60, 30, 160.0
QUIET_PARTS = ("normal", "AR 0.6", "AR 0.9", "an old step of 1 %", "a slow drift of 3 %")


def louder(rng: np.random.Generator, first: str, spread: float, count: int) -> Values:
    """Series whose last 30 points are 60 % higher, with noise of the given spread.

    Args:
        rng: Where chance comes from.
        first: What the 60 points before are, one of `QUIET_PARTS`: noise of 1 %, or a shape with noise of 0.3 %.
        spread: Of the last points, where the level before is 100.
        count: Series.
    """
    shape = {"an old step of 1 %": np.arange(QUIET) >= QUIET // 2, "a slow drift of 3 %": np.linspace(0, 3, QUIET)}
    if first in shape:
        quiet = LEVEL + 0.3 * noise(rng, "normal", count, QUIET) + shape[first]
    else:
        quiet = LEVEL + noise(rng, first, count, QUIET)
    return np.hstack([quiet, RAISED + spread * noise(rng, "normal", count, LOUD)])
