"""Whether steps in one direction are better explained by a slow drift."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from assay.analyse.series.sizes import half_width
from assay.analyse.series.spread import standardised
from assay.analyse.series.whitening import Gain, Places, Values, Whitened, ramps

# What is over in fewer points is a step.
SHORTEST = 6
_GRID = 12
# A coarse look that misses by this much more than a free place costs will not be made good by a closer one.
_HOPELESS = 3.0


class Drift(NamedTuple):
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
) -> Drift | None:
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


def drift_of(values: Values, weights: Values, bounds: tuple[int, int], level: float) -> Drift:
    """The drift that explains a piece best; the piece must vary."""
    low, high = bounds
    standard, unit = standardised(values[low:high], weights[low:high])
    piece = Whitened.of(standard, weights[low:high])
    return _fitted(piece, *_coarse(piece), (low, unit, level))[0]


def _fitted(piece: Whitened, pairs: Places, gain: Gain, scale: tuple[int, float, float]) -> tuple[Drift, float]:
    """The best drift of a piece, in the unit of the values, and its cost."""
    low, unit, level = scale
    pairs, gain = _closely(piece, pairs[int(piece.cost(gain).min(axis=0).argmin())])
    cost = piece.cost(gain)
    row, column = (int(number) for number in np.unravel_index(int(cost.argmin()), cost.shape))
    size, half = float(gain.size[row, column]), half_width(piece, gain, row, column, level)
    first, last = (int(number) for number in pairs[column])
    found = Drift(low + first, low + last, size * unit, (size - half) * unit, (size + half) * unit)
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
