"""The clearest change in a piece of a series, a step or a span between two, and how often chance shows as much."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from assay.analyse.series.significance import RAMPS, SPANS, SPLITS, ChanceTable, counted, mostly_equal
from assay.analyse.series.spread import standardised
from assay.analyse.series.whitening import (
    Growing,
    Places,
    Values,
    Whitened,
    evidence,
    evidence_memory,
    memory_with,
    ramps,
    seeded,
)

# Below this nothing is said: too few points to know what is usual.
FEWEST = 8
# A step needs so many points on each side, a span between two steps so many inside.
SIDE = 2
INSIDE = 3
# How the chance of a false alarm is spent: most of it on single steps, a little on spans and drifts; the rest is
# reserve, because the tables are simulated and series are not.
_SHARE_OF_STEPS = 0.81
_SHARE_OF_SPANS = 0.08
_SHARE_OF_RAMPS = 0.04
# A slow drift looks like memory; where there is less of it than this, a drift would be seen as a step.
HIDES_A_RAMP = 0.3
# With more memory than this left over, what looks like a drift is a series that wanders.
_WANDERS = 0.7
_RAMP_POINTS = 24
_RAMP_GRID = 11
# Spans that are looked at closely, of the many that are tried.
_LIKELY = 16
# Places where steps alone look clear, of which each two may be the ends of a span.
_PEAKS = 12
# Beside so clear a step no span is looked for yet.
# In a long piece the other end is found afterwards, beside the points that are left; a short one has too few of them.
_CLEAR = 1e-4
_CLEAR_IN_SHORT = 1e-8
_SHORT = 120
# What is new matters most: an old change was new once. Steps before the last points must be clearer.
_RECENT = 30
_OLD = 6.5
_FADE = 10


class ChangeCandidate(NamedTuple):
    """The clearest change of a piece."""

    places: tuple[int, ...]
    """First points after the change: one for a step, two for a span; positions in the piece."""
    chance: float
    """How often the clearest change of a series without any would be as clear."""


class Scan(NamedTuple):
    """What a piece shows."""

    step: ChangeCandidate
    span: ChangeCandidate
    memory: float
    """The memory that a series without change would have."""

    @property
    def clearest(self) -> ChangeCandidate:
        """The change that chance shows less often."""
        return min(self.step, self.span, key=lambda one: one.chance)


NOTHING = Scan(ChangeCandidate((), 1.0), ChangeCandidate((), 1.0), 0.0)


class StepScore(NamedTuple):
    """How clear the clearest step is, and where."""

    score: float
    place: int
    memory: float
    """That a series without change would have."""


class SpanScore(NamedTuple):
    """How clear the clearest span is, and where."""

    score: float
    first: int
    end: int


class RampScore(NamedTuple):
    """How clear the clearest ramp is, and between which points it lies."""

    score: float
    first: int
    last: int
    memory: float
    """That is left without it."""


NO_RAMP = RampScore(-math.inf, 0, 0, 0.0)
NO_SPAN = SpanScore(-math.inf, 0, 0)


def scan(values: Values, weights: Values, *, newest: bool = True, elsewhere: Values | None = None) -> Scan:
    """Look for the clearest change.

    Args:
        elsewhere: What other pieces of the series say of its memory, as `memory_costs` tells it.
    """
    piece = _piece(values, weights)
    if piece is None:
        return NOTHING
    steps = step_score(piece, newest=newest, elsewhere=elsewhere)
    step = _step_candidate(values, steps, newest=newest)
    clear = _CLEAR_IN_SHORT if piece.count <= _SHORT else _CLEAR
    spans = NO_SPAN if step.chance <= clear else span_score(piece, elsewhere)
    if not spans.end:
        return Scan(step, ChangeCandidate((), 1.0), steps.memory)
    ends = (spans.first, spans.end)
    score = min(spans.score, counted(values, ends)) if mostly_equal(values) else spans.score
    span = ChangeCandidate(ends, _chance(SPANS, score, piece.count, steps.memory, _SHARE_OF_SPANS))
    return Scan(step, span, steps.memory)


def clearest_step(values: Values, weights: Values, *, newest: bool) -> ChangeCandidate:
    """The clearest single step of a piece: the cheap half of a scan."""
    piece = _piece(values, weights)
    if piece is None:
        return ChangeCandidate((), 1.0)
    return _step_candidate(values, step_score(piece, newest=newest), newest=newest)


def step_chance_of_last(piece: Growing, places: int) -> float:
    """The chance of the clearest step among the newest places."""
    whole, gain = piece.newest(places)
    seen = evidence(whole, gain)
    scored = seen.score - penalty(whole.count, newest=True)[-seen.score.size :]
    return _chance(SPLITS, float(scored.max()), whole.count, seen.memory, _SHARE_OF_STEPS)


def memory_costs(values: Values, weights: Values) -> Values | None:
    """Minus twice the log-likelihood of each memory for a piece without a change; None where it is too short."""
    piece = _piece(values, weights)
    return None if piece is None else piece.unchanged - piece.unchanged.min()


def step_score(piece: Whitened, *, newest: bool, elsewhere: Values | None = None) -> StepScore:
    seen = evidence(piece, piece.splits(), elsewhere)
    scored = seen.score - penalty(piece.count, newest=newest)
    best = int(scored.argmax())
    return StepScore(float(scored[best]), best + 1, seen.memory)


def span_score(piece: Whitened, elsewhere: Values | None = None) -> SpanScore:
    first, end = seeded(piece.count, INSIDE)
    if not first.size:
        return NO_SPAN
    likely = piece.likely_spans(first, end, _LIKELY)
    pairs = piece.step_pairs(_PEAKS)
    inside = (pairs[0] >= INSIDE) & (pairs[1] - pairs[0] >= INSIDE) & (pairs[1] <= piece.count - SIDE)
    first, end = (np.concatenate([a[likely], b[inside]]) for a, b in zip((first, end), pairs, strict=True))
    scored = evidence(piece, piece.spans(first, end), elsewhere).score - _short(end - first)
    best = int(scored.argmax())
    return SpanScore(float(scored[best]), int(first[best]), int(end[best]))


def clearest_ramp(values: Values, weights: Values) -> ChangeCandidate:
    """The clearest slow change of a piece; none where the piece wanders without it too."""
    piece = _piece(values, weights)
    if piece is None:
        return ChangeCandidate((), 1.0)
    memory = evidence_memory(piece)
    seen = ramp_score(piece)
    if not seen.last or seen.memory > _WANDERS:
        return ChangeCandidate((), 1.0)  # what wanders this way will wander that way
    return ChangeCandidate((seen.first, seen.last), _chance(RAMPS, seen.score, piece.count, memory, _SHARE_OF_RAMPS))


def ramp_score(piece: Whitened) -> RampScore:
    if piece.count < _RAMP_POINTS:
        return NO_RAMP
    pairs, columns = _ramps(piece.count)
    gain = piece.shapes(columns)
    scored = evidence(piece, gain).score
    best = int(scored.argmax())
    return RampScore(float(scored[best]), int(pairs[best, 0]), int(pairs[best, 1]), memory_with(piece, gain, best))


@lru_cache(maxsize=32)
def _ramps(count: int) -> tuple[Places, Values]:
    grid = np.unique(np.linspace(0, count - 1, _RAMP_GRID).round().astype(np.intp))
    first, last = (side.ravel() for side in np.meshgrid(grid, grid, indexing="ij"))
    slow = last - first >= count // 5
    pairs = np.stack([first[slow], last[slow]], axis=1)
    return pairs, ramps(pairs, count)


def _step_candidate(values: Values, seen: StepScore, *, newest: bool) -> ChangeCandidate:
    score = seen.score
    if mostly_equal(values):
        score = min(score, counted(values, (seen.place,)) - penalty(values.size, newest=newest)[seen.place - 1])
    return ChangeCandidate((seen.place,), _chance(SPLITS, score, values.size, seen.memory, _SHARE_OF_STEPS))


def _piece(values: Values, weights: Values) -> Whitened | None:
    """Values ready to be looked at; None where they are too few or all equal."""
    if values.size < FEWEST:
        return None
    standard, spread = standardised(values, weights)
    return Whitened.of(standard, weights) if spread else None


@lru_cache(maxsize=256)
def penalty(count: int, *, newest: bool) -> Values:
    """By how much clearer than the easiest a step must be at each place."""
    before = np.arange(1, count)
    after = count - before
    recent = min(_RECENT, count // 4)
    old = np.clip((after - recent) / _FADE, 0, 1) * _OLD if newest else np.full(before.size, _OLD)
    # A few points on one side are easily wild together; more so where the tails are heavy.
    few = 1.5 * np.clip(5 - after, 0, None) + 0.5 * np.clip(8 - before, 0, None)
    return np.where(np.minimum(before, after) < SIDE, np.inf, old + few)


def _short(length: Places) -> Values:
    """By how much clearer than a long one a span must be."""
    return 1.5 * np.clip(5 - length, 0, None).astype(np.float64)


def _chance(limits: ChanceTable, score: float, count: int, memory: float, share: float) -> float:
    return min(1.0, limits.chance(score, count, memory) / share)
