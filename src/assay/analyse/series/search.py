"""All changes of a series: the clearest first, then each part for itself, then every one beside its neighbours.

And how large each is, where it may lie, and whether steps in one direction are better explained by a drift.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from assay.analyse.intervals import LEVEL as CONFIDENCE
from assay.analyse.intervals import t_quantile
from assay.analyse.series.confirmation import confirmed_chance, confirmed_ramp_chance, returns
from assay.analyse.series.scan import (
    FEWEST,
    HIDES_A_RAMP,
    SIDE,
    ChangeCandidate,
    Scan,
    clearest_ramp,
    clearest_step,
    levels_apart,
    louder_side,
    memory_costs,
    place_of_levels,
    scan,
)
from assay.analyse.series.spread import CLIP, MOST_LOUDER, median, middle_and_spread, standardised, without_wild
from assay.analyse.series.whitening import MEMORIES, Gain, Places, Values, Whitened, evidence, memory_with, ramps

# Beside its neighbours a step must still be about as clear as asked for; an end of a span is less clear than the span.
_STILL_CLEAR = 3.0
_END_STILL_CLEAR = 0.2
# A span that is so much clearer than any one step keeps both ends, where a piece beside one has fewer points than this.
_BY_FAR = 1e-6
_SHORT = 12
_ROUNDS = 3
# A series with more changes than this has no level to speak of.
_MOST = 100
_DRIFTS = 8
# Before a change is believed, its louder side is given less weight, this many times and down to one in this many.
_WORTH_A_DOUBT = 0.05
_QUIETED = 3
_MOST_LOUDER = 20.0
# A piece with this much more memory than the others may hide changes behind it, if the others have this many points.
_MORE_MEMORY = 0.15
_TELL_MEMORY = 40
# What is further from a change is another one.
_OTHER = 3
# Pieces that were scanned, with their clearest step.
_Known = dict[tuple[int, int], ChangeCandidate]


@dataclass(frozen=True, slots=True)
class LocatedChange:
    """A place in the points that have a value."""

    place: int
    """First point after the change."""
    chance: float
    paired: bool = False
    """Whether it is one end of a span."""
    needed: bool = False
    """Whether the span needs both of its ends: it is by far clearer than any one step."""
    apart: bool = False
    """Whether its two sides differ in level and in noise: each side then has a spread of its own."""

    @classmethod
    def all_of(cls, scanned: Scan, low: int, *, apart: bool = False) -> list[LocatedChange]:
        """The clearest change of a piece that begins at `low`: one place, or both ends of a span."""
        places, chance = scanned.clearest
        needed = chance < _BY_FAR * scanned.step.chance
        return [cls(low + place, chance, len(places) > 1, needed, apart) for place in places]


@dataclass(frozen=True, slots=True)
class SlowDrift:
    """A drift that hid behind the memory of a series."""

    drift: SeriesDrift
    before: float
    """Level before it."""
    chance: float


@dataclass(frozen=True, slots=True)
class ChangeSearch:
    """The changes of a series in order, and the chance of its clearest one."""

    changes: tuple[LocatedChange, ...]
    drifts: tuple[SlowDrift, ...]
    chance: float
    flat: Values
    """The values without the drifts."""
    weights: Values
    """How much each point counts, once louder parts were seen."""


def search(values: Values, weights: Values, level: float, *, checked: bool = True) -> ChangeSearch:
    """Find every change that chance shows in less than `level` of series without one.

    Args:
        checked: Whether a change must stand for other noise than that of the scan as well.
    """
    count = values.size
    flat, weights = values.copy(), weights.copy()
    by_place: dict[int, LocatedChange] = {}
    drifts: list[SlowDrift] = []
    costs: _Known = {}
    top = 1.0
    waiting = [(0, count)]
    while waiting and len(by_place) < _MOST:
        low, high = waiting.pop()
        seen, apart = _clearest(flat[low:high], weights[low:high], level, newest=high == count)
        if checked and not apart and seen.clearest.chance <= level:
            seen = _confirmed(flat[low:high], weights[low:high], seen, level, newest=high == count)
        clearest = seen.clearest
        costs[low, high] = seen.step
        if high - low == count:
            top = min(top, clearest.chance)
        if clearest.chance > level:
            hidden = seen.memory >= HIDES_A_RAMP and len(drifts) < _DRIFTS
            slow = _slow(values, flat, weights, (low, high), level, checked=checked) if hidden else None
            if slow is not None:
                drifts.append(slow)
                costs.clear()
                waiting.append((low, high))  # there may be steps in what is left
            continue
        new = {change.place: change for change in LocatedChange.all_of(seen, low, apart=apart)}
        by_place |= new
        edges = [low, *new, high]
        waiting += [(a, b) for a, b in pairwise(edges) if b - a >= FEWEST]
    changes = _with_hidden(flat, weights, [by_place[place] for place in sorted(by_place)], level)
    in_time = sorted(drifts, key=lambda drift: drift.drift.first)
    chance = min([top, *(drift.chance for drift in drifts)])
    return ChangeSearch(tuple(_settled(flat, weights, changes, level, costs)), tuple(in_time), chance, flat, weights)


def _slow(
    values: Values, flat: Values, weights: Values, bounds: tuple[int, int], level: float, *, checked: bool
) -> SlowDrift | None:
    """A drift of a piece without steps; it is taken out of `flat`, there and in all that follows."""
    low, high = bounds
    ramp = clearest_ramp(flat[low:high], weights[low:high])
    if ramp.chance > level:
        return None
    chance = confirmed_ramp_chance(flat[low:high], weights[low:high], ramp) if checked else ramp.chance
    if chance > level:
        return None
    drift = drift_of(flat, weights, bounds, CONFIDENCE)
    lifted = float(values[low] - flat[low])
    flat[low:] -= drift.difference * ramps(np.array([[drift.first - low, drift.last - low]]), flat.size - low)[0]
    return SlowDrift(drift, median(flat[low:high]) + lifted, chance)


def _with_hidden(values: Values, weights: Values, changes: list[LocatedChange], level: float) -> list[LocatedChange]:
    """Look again at pieces that have more memory than the others: several changes look like memory.

    The noise is taken for the same on all levels. Where no change was found there are no other pieces, so that a series
    without any is judged as before.
    """
    for _ in range(_ROUNDS):
        edges = [0, *(change.place for change in changes), values.size]
        costs = {
            (a, b): cost for a, b in pairwise(edges) if (cost := memory_costs(values[a:b], weights[a:b])) is not None
        }
        hidden: list[LocatedChange] = []
        for low, high in costs:
            others = {piece: cost for piece, cost in costs.items() if piece != (low, high)}
            if sum(b - a for a, b in others) < _TELL_MEMORY:
                continue
            elsewhere = np.sum(list(others.values()), axis=0)
            if _memory(costs[low, high]) - _memory(elsewhere) < _MORE_MEMORY:
                continue
            newest = high == values.size
            scanned = scan(values[low:high], weights[low:high], newest=newest, elsewhere=elsewhere)
            if scanned.clearest.chance <= level:
                hidden += LocatedChange.all_of(scanned, low)
        if not hidden:
            break
        changes = sorted([*changes, *hidden], key=lambda located: located.place)
    return changes


def _memory(costs: Values) -> float:
    return float(MEMORIES[costs.argmin()])


def _clearest(values: Values, weights: Values, level: float, *, newest: bool) -> tuple[Scan, bool]:
    """The clearest change; where one side of it is louder, what is clearest once that side counts less.

    The weights are changed in place: the louder points count less from then on. Where the louder side is at another
    level too, the change is kept as it was seen and only its place is found again.

    Returns:
        What was seen, and whether it is a change of level and noise.
    """
    scanned = scan(values, weights, newest=newest)
    for _ in range(_QUIETED):
        clearest = scanned.clearest
        if clearest.chance > _WORTH_A_DOUBT:
            break
        louder = louder_side(values, weights, clearest.places)
        if louder is None:
            break
        side, factor = louder
        apart = clearest.chance <= level and levels_apart(values[side], np.delete(values, side))
        weights[side] /= min(factor, _MOST_LOUDER)
        if apart:
            return _placed(scanned, values), True
        scanned = scan(values, weights, newest=newest)
    return scanned, False


def _confirmed(values: Values, weights: Values, scanned: Scan, level: float, *, newest: bool) -> Scan:
    """The same with the chance that the checks of its noise leave to the clearest change.

    Several changes look like noise to each other, so one that fails is checked once more without the others.
    """
    clearest = scanned.clearest
    chance = confirmed_chance(values, weights, clearest, newest=newest)
    if chance > level and not returns(values):
        alone = _without_others(values, weights, clearest, level)
        if alone is not None:
            chance = max(clearest.chance, confirmed_chance(alone, weights, clearest, newest=newest))
    sure = clearest._replace(chance=chance)
    if clearest is scanned.step:
        return scanned._replace(step=sure, span=scanned.span._replace(chance=max(chance, scanned.span.chance)))
    return scanned._replace(span=sure, step=scanned.step._replace(chance=max(chance, scanned.step.chance)))


def _without_others(values: Values, weights: Values, change: ChangeCandidate, level: float) -> Values | None:
    """A piece with all changes but one taken out; None where there are no others."""
    places = [seen.place for seen in search(values, weights, level, checked=False).changes]
    others = [place for place in places if min(abs(place - own) for own in change.places) > _OTHER]
    if not others:
        return None
    edges = sorted({0, *others, *change.places, values.size})
    level_of = {begin: median(values[begin:end]) for begin, end in pairwise(edges)}
    alone = values.copy()
    for before, place in pairwise(edges[:-1]):
        if place in others:
            alone[place:] -= level_of[place] - level_of[before]
    return alone


def _placed(scanned: Scan, values: Values) -> Scan:
    """The clearest change at the place that the spreads of its own two sides give."""
    first, *rest = scanned.clearest.places
    if not rest:
        return scanned._replace(step=scanned.step._replace(places=(_place(values, first),)))
    end = first + _place(values[first:], rest[0] - first)
    return scanned._replace(span=scanned.span._replace(places=(_place(values[:end], first), end)))


def _place(values: Values, about: int) -> int:
    likely = place_of_levels(values, about)[SIDE - 1 : values.size - SIDE]
    return SIDE + int(likely.argmax())


def _settled(
    values: Values, weights: Values, changes: list[LocatedChange], level: float, known: _Known
) -> list[LocatedChange]:
    """Place each change again between its neighbours, and drop what they explain."""
    if len(changes) <= 1:
        return changes  # it is what the scan of the whole found
    calm = without_wild(values, weights, [change.place for change in changes])
    if calm is not values:
        values, known = calm, {}
    for _ in range(_ROUNDS):
        again = _once_more(values, weights, changes, level, known)
        if [change.place for change in again] == [change.place for change in changes]:
            return again
        changes = again
    return changes


def _once_more(
    values: Values, weights: Values, changes: Sequence[LocatedChange], level: float, known: _Known
) -> list[LocatedChange]:
    confirmed: list[LocatedChange] = []
    for number, change in enumerate(changes):
        low = confirmed[-1].place if confirmed else 0
        high = changes[number + 1].place if number + 1 < len(changes) else values.size
        if high - low < FEWEST or change.apart:
            confirmed.append(change)
            continue
        if (low, high) not in known:
            known[low, high] = clearest_step(values[low:high], weights[low:high], newest=high == values.size)
        step = known[low, high]
        if step.chance <= (_END_STILL_CLEAR if change.paired else _STILL_CLEAR * level):
            chance = min(change.chance, step.chance) if change.paired else step.chance
            confirmed.append(replace(change, place=low + step.places[0], chance=chance))
        elif change.needed and min(change.place - low, high - change.place) < _SHORT:
            confirmed.append(change)  # a short piece alone tells less than the span did
    return confirmed


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
    fewest_points = min(place - low, high - place) if apart else piece.count
    half, size = _ends(
        piece, gain, row, score[best] - score, t_quantile(level, freedom(fewest_points, float(MEMORIES[row])))
    )
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
    drift, cost = _fitted(piece, pairs, gain, (low, unit, level))
    return drift if cost < most else None


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
    drift = SeriesDrift(low + first, low + last, size * unit, (size - half) * unit, (size + half) * unit)
    return drift, float(cost.min())


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
        np.unique(np.clip(np.linspace(centre - step, centre + step, 7).round().astype(np.intp), 0, piece.count - 1))
        for centre in best
    )
    return _tried(piece, begins, ends)


def _tried(piece: Whitened, begins: Places, ends: Places) -> tuple[Places, Gain]:
    first, last = (grid.ravel() for grid in np.meshgrid(begins, ends, indexing="ij"))
    long = last - first >= SHORTEST
    pairs = np.stack([first[long], last[long]], axis=1)
    return pairs, piece.shapes(ramps(pairs, piece.count))
