"""All changes of a series: the clearest first, then each part for itself, then every one beside its neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from assay.analyse.intervals import LEVEL as CONFIDENCE
from assay.analyse.series.scan import (
    FEWEST,
    HIDES_A_RAMP,
    SIDE,
    ChangeCandidate,
    Scan,
    clearest_ramp,
    clearest_step,
    memory_costs,
    scan,
)
from assay.analyse.series.significance import levels_apart, louder_side, place_of_levels
from assay.analyse.series.size import SeriesDrift, drift_of
from assay.analyse.series.spread import median, without_wild
from assay.analyse.series.whitening import MEMORIES, Values, ramps

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
# Before a change is believed, its louder side is given less weight, up to so many times and down to one in so many.
_WORTH_A_DOUBT = 0.05
_QUIETED = 3
_MOST_LOUDER = 20.0
# A piece with so much more memory than the others may hide changes behind it, if the others have so many points.
_MORE_MEMORY = 0.15
_TELL_MEMORY = 40
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
    def all_of(cls, seen: Scan, low: int, *, apart: bool = False) -> list[LocatedChange]:
        """The clearest change of a piece that begins at `low`: one place, or both ends of a span."""
        places, chance = seen.clearest
        needed = chance < _BY_FAR * seen.step.chance
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


def search(values: Values, weights: Values, level: float) -> ChangeSearch:
    """Find every change that chance shows in less than `level` of series without one."""
    count = values.size
    flat, weights = values.copy(), weights.copy()
    found: dict[int, LocatedChange] = {}
    drifts: list[SlowDrift] = []
    known: _Known = {}
    top = 1.0
    waiting = [(0, count)]
    while waiting and len(found) < _MOST:
        low, high = waiting.pop()
        seen, apart = _seen(flat[low:high], weights[low:high], level, newest=high == count)
        clearest = seen.clearest
        known[low, high] = seen.step
        if high - low == count:
            top = min(top, clearest.chance)
        if clearest.chance > level:
            hidden = seen.memory >= HIDES_A_RAMP and len(drifts) < _DRIFTS
            slow = _slow(values, flat, weights, (low, high), level) if hidden else None
            if slow is not None:
                drifts.append(slow)
                known.clear()
                waiting.append((low, high))  # there may be steps in what is left
            continue
        new = {change.place: change for change in LocatedChange.all_of(seen, low, apart=apart)}
        found |= new
        edges = [low, *new, high]
        waiting += [(a, b) for a, b in pairwise(edges) if b - a >= FEWEST]
    changes = _with_hidden(flat, weights, [found[place] for place in sorted(found)], level)
    in_time = sorted(drifts, key=lambda one: one.drift.first)
    chance = min([top, *(one.chance for one in drifts)])
    return ChangeSearch(tuple(_settled(flat, weights, changes, level, known)), tuple(in_time), chance, flat, weights)


def _slow(values: Values, flat: Values, weights: Values, bounds: tuple[int, int], level: float) -> SlowDrift | None:
    """A drift of a piece without steps; it is taken out of `flat`, there and in all that follows."""
    low, high = bounds
    chance = clearest_ramp(flat[low:high], weights[low:high]).chance
    if chance > level:
        return None
    found = drift_of(flat, weights, bounds, CONFIDENCE)
    lifted = float(values[low] - flat[low])
    flat[low:] -= found.difference * ramps(np.array([[found.first - low, found.last - low]]), flat.size - low)[0]
    return SlowDrift(found, median(flat[low:high]) + lifted, chance)


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
            seen = scan(values[low:high], weights[low:high], newest=newest, elsewhere=elsewhere)
            if seen.clearest.chance <= level:
                hidden += LocatedChange.all_of(seen, low)
        if not hidden:
            break
        changes = sorted([*changes, *hidden], key=lambda one: one.place)
    return changes


def _memory(costs: Values) -> float:
    return float(MEMORIES[costs.argmin()])


def _seen(values: Values, weights: Values, level: float, *, newest: bool) -> tuple[Scan, bool]:
    """The clearest change; where one side of it is louder, what is clearest once that side counts less.

    The weights are changed in place: the louder points count less from then on. Where the louder side is at another
    level too, the change is kept as it was seen and only its place is found again.

    Returns:
        What was seen, and whether it is a change of level and noise.
    """
    seen = scan(values, weights, newest=newest)
    for _ in range(_QUIETED):
        clearest = seen.clearest
        if clearest.chance > _WORTH_A_DOUBT:
            break
        louder = louder_side(values, weights, clearest.places)
        if louder is None:
            break
        side, factor = louder
        apart = clearest.chance <= level and levels_apart(values[side], np.delete(values, side))
        weights[side] /= min(factor, _MOST_LOUDER)
        if apart:
            return _placed(seen, values), True
        seen = scan(values, weights, newest=newest)
    return seen, False


def _placed(seen: Scan, values: Values) -> Scan:
    """The clearest change at the place that the spreads of its own two sides give."""
    first, *rest = seen.clearest.places
    if not rest:
        return seen._replace(step=seen.step._replace(places=(_place(values, first),)))
    end = first + _place(values[first:], rest[0] - first)
    return seen._replace(span=seen.span._replace(places=(_place(values[:end], first), end)))


def _place(values: Values, about: int) -> int:
    likely = place_of_levels(values, about)[SIDE - 1 : values.size - SIDE]
    return SIDE + int(likely.argmax())


def _settled(
    values: Values, weights: Values, changes: list[LocatedChange], level: float, known: _Known
) -> list[LocatedChange]:
    """Place each change anew between its neighbours, and drop what they explain."""
    if len(changes) <= 1:
        return changes  # it is what the scan of the whole found
    calm = without_wild(values, weights, [one.place for one in changes])
    if calm is not values:
        values, known = calm, {}
    for _ in range(_ROUNDS):
        again = _once_more(values, weights, changes, level, known)
        if [one.place for one in again] == [one.place for one in changes]:
            return again
        changes = again
    return changes


def _once_more(
    values: Values,
    weights: Values,
    changes: Sequence[LocatedChange],
    level: float,
    known: _Known,
) -> list[LocatedChange]:
    kept: list[LocatedChange] = []
    for number, change in enumerate(changes):
        low = kept[-1].place if kept else 0
        high = changes[number + 1].place if number + 1 < len(changes) else values.size
        if high - low < FEWEST or change.apart:
            kept.append(change)
            continue
        if (low, high) not in known:
            known[low, high] = clearest_step(values[low:high], weights[low:high], newest=high == values.size)
        step = known[low, high]
        if step.chance <= (_END_STILL_CLEAR if change.paired else _STILL_CLEAR * level):
            chance = min(change.chance, step.chance) if change.paired else step.chance
            kept.append(replace(change, place=low + step.places[0], chance=chance))
        elif change.needed and min(change.place - low, high - change.place) < _SHORT:
            kept.append(change)  # a short piece alone tells less than the span did
    return kept
