"""How large a change is and where it may lie, from the points between its neighbours."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from assay.analyse.distributions import t_quantile
from assay.analyse.series.doubts import place_of_levels
from assay.analyse.series.scan import SIDE
from assay.analyse.series.spread import CLIP, MOST_LOUDER, median, middle_and_spread
from assay.analyse.series.whitening import MEMORIES, Gain, Values, Whitened, evidence, memory_with

# A place is possible if it is so little less likely than the best one (Hansen 2000, for 95 %).
_POSSIBLE = 7.35


class Size(NamedTuple):
    """The size of a change, in the unit of the values, and its place in the series' points."""

    place: int
    first: int
    """The first place that is possible."""
    last: int
    before: float
    difference: float
    low: float
    high: float
    apart: bool = False
    """Whether its two sides differ in level and in noise."""


def step_size(
    values: Values, weights: Values, bounds: tuple[int, int, int], memory: float, level: float, *, apart: bool = False
) -> Size:
    """Measure a step.

    Args:
        bounds: First point of the piece, the place of the step, and the end of the piece.
        memory: Of the whole series, around all its levels: a short piece alone sees too little of it.
        apart: Whether the two sides differ in level and in noise: the place then follows from the spread of each.
    """
    low, place, high = bounds
    own = _each_side(values[low:high], place - low) if apart else weights[low:high]
    calm, unit = held_back(values[low:high], own, place - low)
    if not unit:
        before = float(calm[0])
        difference = float(calm[-1]) - before
        return Size(place, place, place, before, difference, difference, difference)
    piece = Whitened.of((calm - calm.mean()) / unit, own)
    gain = piece.splits()
    score = place_of_levels(values[low:high], place - low) if apart else evidence(piece, gain).score
    score[: SIDE - 1] = score[score.size - SIDE + 1 :] = -np.inf
    best = int(score.argmax())
    possible = np.flatnonzero(score >= score[best] - _POSSIBLE)
    row = _row(max(memory, memory_with(piece, gain, best)))
    # Two sides with different noise do not share a spread: the one with fewer points decides how well it is known.
    known = min(place - low, high - place) if apart else piece.count
    half, size = _ends(piece, gain, row, score[best] - score, t_quantile(level, freedom(known, float(MEMORIES[row]))))
    weight = own[: best + 1] ** 2
    before = float((calm[: best + 1] * weight).sum() / weight.sum())
    return Size(
        place=low + best + 1,
        first=low + int(possible[0]) + 1,
        last=low + int(possible[-1]) + 1,
        before=before,
        difference=float(size[best]) * unit,
        low=float(np.nanmin(size - half)) * unit,
        high=float(np.nanmax(size + half)) * unit,
        apart=apart,
    )


def _each_side(values: Values, place: int) -> Values:
    """One over the spread of the side that a point is on, in units of the louder one."""
    spreads = [middle_and_spread(side)[1] for side in (values[:place], values[place:])]
    loud = max(spreads)
    ratios = [min(loud / spread, MOST_LOUDER) if spread else MOST_LOUDER for spread in spreads]
    return np.repeat(ratios, [place, values.size - place])


def held_back(values: Values, weights: Values, place: int) -> tuple[Values, float]:
    """Values with the wild ones pulled towards the median of their side, and the spread around these medians."""
    sides = (values[:place], values[place:])
    levels = np.concatenate([np.full(side.size, median(side)) for side in sides])
    away = (values - levels) * weights
    spread = middle_and_spread(away)[1]
    if not spread:
        return levels, 0.0
    return levels + np.clip(away, -CLIP * spread, CLIP * spread) / weights, spread


def freedom(count: int, memory: float) -> float:
    """Degrees of freedom of a spread that remembering points tell: fewer than there are points."""
    return max(3.0, count * (1 - memory) / (1 + memory) - 2)


def _row(memory: float) -> int:
    """The memory of the grid that is at least this one: memory is rather seen too small than too large."""
    return min(int(np.searchsorted(MEMORIES, memory - 1e-9)), MEMORIES.size - 1)


def _ends(piece: Whitened, gain: Gain, row: int, drop: Values, quantile: float) -> tuple[Values, Values]:
    """Half widths and sizes of all places that may be the true one: what a place costs narrows its interval."""
    reach = quantile**2
    variance = gain.left[row] / max(1, piece.count - 3) / gain.information[row]
    with np.errstate(invalid="ignore"):
        half = np.sqrt(variance * np.where(drop <= reach, reach - drop, np.nan))
    return half, gain.size[row]


def half_width(piece: Whitened, gain: Gain, row: int, column: int, level: float) -> float:
    """Half the interval of one change of given shape."""
    variance = float(gain.left[row, column]) / max(1, piece.count - 4) / float(gain.information[row, column])
    return t_quantile(level, freedom(piece.count, float(MEMORIES[row]))) * math.sqrt(variance)
