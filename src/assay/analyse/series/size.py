"""How large a change is and where it may lie, and whether steps in one direction are better explained by a drift."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from assay.analyse.distributions import t_quantile
from assay.analyse.series.scan import SIDE
from assay.analyse.series.significance import place_of_levels
from assay.analyse.series.spread import CLIP, MOST_LOUDER, median, middle_and_spread, standardised
from assay.analyse.series.whitening import MEMORIES, Gain, Places, Values, Whitened, evidence, memory_with, ramps

# A place is possible if it is so little less likely than the best one (Hansen 2000, for 95 %).
_POSSIBLE = 7.35


class ChangeSize(NamedTuple):
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
) -> ChangeSize:
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
        return ChangeSize(place, place, place, before, difference, difference, difference)
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
    return ChangeSize(
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


# What is over in fewer points is a step.
SHORTEST = 6
_GRID = 12
# A coarse look that misses by this much more than a free place costs will not be made good by a closer one.
_HOPELESS = 3.0


class SeriesDrift(NamedTuple):
    """A level that moves from one point to another and then stays."""

    first: int
    """The last point on the old level."""
    last: int
    """The first point on the new level."""
    difference: float
    low: float
    high: float


def drift_instead(
    values: Values, weights: Values, bounds: tuple[int, int], places: Sequence[int], level: float
) -> SeriesDrift | None:
    """A drift that explains a piece better than steps do, if there is one.

    Both are weighed by likelihood, and every free place and size costs the logarithm of the number of points.
    """
    low, high = bounds
    count = high - low
    if count < 2 * SHORTEST:
        return None
    own = weights[low:high]
    standard, unit = standardised(values[low:high], own)
    if not unit:
        return None
    piece = Whitened.of(standard, own)
    stepped = Whitened.of(_without_steps(standard, [place - low for place in places]), own)
    price = math.log(count)
    most = float(stepped.unchanged.min()) + (2 * len(places) - 3) * price
    pairs, gain = _coarse(piece)
    if float(piece.cost(gain).min()) > most + _HOPELESS * price:
        return None
    found, cost = _fitted(piece, pairs, gain, (low, unit, level))
    return found if cost < most else None


def drift_of(values: Values, weights: Values, bounds: tuple[int, int], level: float) -> SeriesDrift:
    """The drift that explains a piece best; the piece must vary."""
    low, high = bounds
    standard, unit = standardised(values[low:high], weights[low:high])
    piece = Whitened.of(standard, weights[low:high])
    return _fitted(piece, *_coarse(piece), (low, unit, level))[0]


def _fitted(piece: Whitened, pairs: Places, gain: Gain, scale: tuple[int, float, float]) -> tuple[SeriesDrift, float]:
    """The best drift of a piece, in the unit of the values, and its cost."""
    low, unit, level = scale
    pairs, gain = _closely(piece, pairs[int(piece.cost(gain).min(axis=0).argmin())])
    cost = piece.cost(gain)
    row, column = (int(number) for number in np.unravel_index(int(cost.argmin()), cost.shape))
    size, half = float(gain.size[row, column]), half_width(piece, gain, row, column, level)
    first, last = (int(number) for number in pairs[column])
    found = SeriesDrift(low + first, low + last, size * unit, (size - half) * unit, (size + half) * unit)
    return found, float(cost.min())


def _without_steps(values: Values, places: Sequence[int]) -> Values:
    parts = np.split(values, list(places))
    return np.concatenate([part - part.mean() for part in parts])


def _coarse(piece: Whitened) -> tuple[Places, Gain]:
    """Ramps all over a piece, and what they explain."""
    places = np.unique(np.linspace(0, piece.count - 1, _GRID).round().astype(np.intp))
    return _tried(piece, places, places)


def _closely(piece: Whitened, best: Places) -> tuple[Places, Gain]:
    """Ramps around the best one of a coarse grid."""
    step = max(1, piece.count // _GRID)
    begins, ends = (
        np.unique(np.clip(np.linspace(one - step, one + step, 7).round().astype(np.intp), 0, piece.count - 1))
        for one in best
    )
    return _tried(piece, begins, ends)


def _tried(piece: Whitened, begins: Places, ends: Places) -> tuple[Places, Gain]:
    first, last = (grid.ravel() for grid in np.meshgrid(begins, ends, indexing="ij"))
    long = last - first >= SHORTEST
    pairs = np.stack([first[long], last[long]], axis=1)
    return pairs, piece.shapes(ramps(pairs, piece.count))
