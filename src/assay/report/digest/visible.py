"""The smallest change that a series can show: what lies below is hidden by its noise."""

from __future__ import annotations

import math
from functools import lru_cache

from assay.analyse.power import smallest_effect
from assay.analyse.series import LEVEL
from assay.analyse.series.thresholds import SPLITS

# So many results after a change; a week of nights.
WITHIN = 7
# The detector looks for spans and drifts too, holds wild points back and must learn spread and memory from the series
# itself. All of that costs a little: so much of the chance that is left for a step, as simulation shows.
_SHARE = 0.4
_SCORES = (10.8, 60.0)  # where it ends; the lower end is for short series, whose own spread is hardly known
# Lengths are rounded to powers of this, and memories to a twentieth: what is known of one series is good for its like.
_STEP = 1.25


def smallest_change(spread: float, memory: float, points: int, within: int = WITHIN) -> float:
    """The step, as a share, that the detector tells in about four of five series after so many further results.

    A comparison of two halves of the series would need a known shift of its statistic to be told. The same shift is
    needed here, but the information is that of a few points after the step against all before it; where points resemble
    the one before (memory), each further one says less.
    """
    shift = _shift(round(_STEP ** round(math.log(max(points, 4), _STEP))), round(20 * memory) / 20)
    known = 1 / (1 / _information(within, memory) + 1 / _information(max(points - within, 2), memory))
    return math.expm1(spread * shift / math.sqrt(known))


@lru_cache(maxsize=1024)
def _shift(points: int, memory: float) -> float:
    """The shift of a comparison's statistic that is told in four of five cases."""
    half = points // 2
    return smallest_effect(half, level=_level(points, memory)) * math.sqrt(half / 2)


def _level(points: int, memory: float) -> float:
    """How sure one place must be, for the clearest of all places to be told."""
    low, high = _SCORES
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (middle, high) if SPLITS.chance(middle, points, memory) > _SHARE * LEVEL else (low, middle)
    return math.erf(math.sqrt(high / 2))


def _information(count: int, memory: float) -> float:
    """What so many points say about their level, in points that do not resemble each other.

    The first one after a step says more than itself where the level before is known: the part that it should have
    taken over from its neighbour is missing.
    """
    return (1 + (count - 1) * (1 - memory) ** 2) / (1 - memory**2)
