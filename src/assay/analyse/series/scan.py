"""The clearest change in a piece of a series, a step or a span between two, and how often chance shows as much.

The tables are simulated by `benches/series_thresholds.py`: the score that the clearest change of a series without any
exceeds in one of a hundred, per length and memory, for normal and heavy-tailed noise and noise with memory alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from assay.analyse.intervals import incomplete_beta, t_tail
from assay.analyse.series.spread import CLIP, OUTLIER, Burst, median, middle_and_spread, standardised
from assay.analyse.series.whitening import (
    Gain,
    Places,
    Values,
    Whitened,
    evidence,
    evidence_memory,
    memory_with,
    ramps,
    seeded,
)

# Below this there is no finding: too few points to know what is usual.
FEWEST = 8
# A step needs this many points on each side, a span between two steps this many inside.
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
    step: ChangeCandidate
    span: ChangeCandidate
    memory: float
    """The memory that a series without change would have."""

    @property
    def clearest(self) -> ChangeCandidate:
        return min(self.step, self.span, key=lambda change: change.chance)


NOTHING = Scan(ChangeCandidate((), 1.0), ChangeCandidate((), 1.0), 0.0)


class ShapeScore(NamedTuple):
    """How clear the clearest change of one shape is."""

    score: float
    places: tuple[int, ...] = ()
    """The first points after a step, the begin and the end of a span or of a ramp; none where none was looked at."""
    memory: float = 0.0
    """That a series without change would have; beside a ramp, what is left without it."""


NO_SHAPE = ShapeScore(-math.inf)


def scan(values: Values, weights: Values, *, newest: bool = True, elsewhere: Values | None = None) -> Scan:
    """Look for the clearest change.

    Args:
        elsewhere: What other pieces of the series say of its memory, as `memory_costs` tells it.
    """
    piece = piece_of(values, weights)
    if piece is None:
        return NOTHING
    steps = step_score(piece, newest=newest, elsewhere=elsewhere)
    step = _step_candidate(values, steps, newest=newest)
    clear = _CLEAR_IN_SHORT if piece.count <= _SHORT else _CLEAR
    spans = NO_SHAPE if step.chance <= clear else span_score(piece, elsewhere)
    if not spans.places:
        return Scan(step, ChangeCandidate((), 1.0), steps.memory)
    score = min(spans.score, counted(values, spans.places)) if mostly_equal(values) else spans.score
    span = ChangeCandidate(spans.places, chance_of(score, spans.places, piece.count, steps.memory))
    return Scan(step, span, steps.memory)


def clearest_step(values: Values, weights: Values, *, newest: bool) -> ChangeCandidate:
    """The clearest single step of a piece: the cheap half of a scan."""
    piece = piece_of(values, weights)
    if piece is None:
        return ChangeCandidate((), 1.0)
    return _step_candidate(values, step_score(piece, newest=newest), newest=newest)


def memory_costs(values: Values, weights: Values) -> Values | None:
    """Minus twice the log-likelihood of each memory for a piece without a change; None where it is too short."""
    piece = piece_of(values, weights)
    return None if piece is None else piece.unchanged - piece.unchanged.min()


def step_score(piece: Whitened, *, newest: bool, elsewhere: Values | None = None) -> ShapeScore:
    found_evidence = evidence(piece, piece.splits(), elsewhere)
    scored = found_evidence.score - penalty(piece.count, newest=newest)
    best = int(scored.argmax())
    return ShapeScore(float(scored[best]), (best + 1,), found_evidence.memory)


def span_score(piece: Whitened, elsewhere: Values | None = None) -> ShapeScore:
    first, end = seeded(piece.count, INSIDE)
    if not first.size:
        return NO_SHAPE
    likely = piece.likely_spans(first, end, _LIKELY)
    pairs = piece.step_pairs(_PEAKS)
    inside = (pairs[0] >= INSIDE) & (pairs[1] - pairs[0] >= INSIDE) & (pairs[1] <= piece.count - SIDE)
    first, end = (np.concatenate([a[likely], b[inside]]) for a, b in zip((first, end), pairs, strict=True))
    scored = evidence(piece, piece.spans(first, end), elsewhere).score
    scored = scored - _few_inside(first, end)
    best = int(scored.argmax())
    return ShapeScore(float(scored[best]), (int(first[best]), int(end[best])))


def clearest_ramp(values: Values, weights: Values) -> ChangeCandidate:
    """The clearest slow change of a piece; none where the piece wanders without it too."""
    piece = piece_of(values, weights)
    if piece is None:
        return ChangeCandidate((), 1.0)
    memory = evidence_memory(piece)
    score = ramp_score(piece)
    if not score.places or score.memory > _WANDERS:
        return ChangeCandidate((), 1.0)  # what wanders this way will wander that way
    return ChangeCandidate(score.places, chance_of_ramp(score.score, piece.count, memory))


def ramp_score(piece: Whitened) -> ShapeScore:
    if piece.count < _RAMP_POINTS:
        return NO_SHAPE
    pairs, columns = _ramps(piece.count)
    gain = piece.shapes(columns)
    scored = evidence(piece, gain).score
    best = int(scored.argmax())
    first, last = pairs[best].tolist()
    return ShapeScore(float(scored[best]), (first, last), memory_with(piece, gain, best))


@lru_cache(maxsize=32)
def _ramps(count: int) -> tuple[Places, Values]:
    grid = np.unique(np.linspace(0, count - 1, _RAMP_GRID).round().astype(np.intp))
    first, last = (side.ravel() for side in np.meshgrid(grid, grid, indexing="ij"))
    slow = last - first >= count // 5
    pairs = np.stack([first[slow], last[slow]], axis=1)
    return pairs, ramps(pairs, count)


def near(piece: Whitened, places: Sequence[int], reach: int, *, newest: bool) -> tuple[Values, Gain, Values]:
    """Changes of the same kind as one that was seen, a step up to `reach` points aside of it.

    Returns:
        The shape of each, what it explains, and by how much clearer it must be than the easiest.
    """
    at = np.arange(piece.count)
    if len(places) == 1:
        steps = np.arange(max(SIDE, places[0] - reach), min(piece.count - SIDE, places[0] + reach) + 1)
        gain = Gain(*(part[:, steps - 1] for part in piece.splits()))
        return (at >= steps[:, None]).astype(np.float64), gain, penalty(piece.count, newest=newest)[steps - 1]
    first, end = (np.array([place]) for place in places)
    shape = (at >= first[:, None]) & (at < end[:, None])
    return shape.astype(np.float64), piece.spans(first, end), _few_inside(first, end)


def chance_of(score: float, places: Sequence[int], count: int, memory: float) -> float:
    """How often the clearest step, or span, of a series without any has at least this score."""
    if len(places) == 1:
        return _chance(SPLITS, score, count, memory, _SHARE_OF_STEPS)
    return _chance(SPANS, score, count, memory, _SHARE_OF_SPANS)


def chance_of_ramp(score: float, count: int, memory: float) -> float:
    return _chance(RAMPS, score, count, memory, _SHARE_OF_RAMPS)


def _few_inside(first: Places, end: Places) -> Values:
    """A short span must be clearer than a long one."""
    return np.asarray(1.5 * np.clip(5 - (end - first), 0, None).astype(np.float64))


def _step_candidate(values: Values, seen: ShapeScore, *, newest: bool) -> ChangeCandidate:
    score = seen.score
    if mostly_equal(values):
        score = min(score, counted(values, seen.places) - penalty(values.size, newest=newest)[seen.places[0] - 1])
    return ChangeCandidate(seen.places, chance_of(score, seen.places, values.size, seen.memory))


def piece_of(values: Values, weights: Values) -> Whitened | None:
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


def _chance(limits: ChanceTable, score: float, count: int, memory: float, share: float) -> float:
    return min(1.0, limits.chance(score, count, memory) / share)


# The chance that the tables are made for.
AT = 0.01
# A row is the score at each of these memories, and then the growth of the score that makes it e times rarer.
MEMORY_STEPS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


@dataclass(frozen=True, slots=True)
class ChanceTable:
    """Limits of one kind of change."""

    rows: Mapping[int, tuple[float, ...]]
    """Length of the series → its row."""

    def chance(self, score: float, count: int, memory: float) -> float:
        """How often the clearest change of a series without any has at least this score.

        Args:
            count: Points of the series; between lengths of the table the logarithm of the length counts.
        """
        if not math.isfinite(score):
            return 1.0 if score < 0 else 0.0
        lengths = sorted(self.rows)
        upper = next((number for number, length in enumerate(lengths) if length >= count), len(lengths) - 1)
        low, high = lengths[max(upper, 1) - 1], lengths[max(upper, 1)]
        share = math.log(count / low) / math.log(high / low)
        inside = min(1.0, max(0.0, share))
        first, second = self.rows[low], self.rows[high]
        row = [a + inside * (b - a) for a, b in zip(first, second, strict=True)]
        # Beyond the last length the limit grows on as it did on average.
        beyond = max(0.0, share - 1) * (sum(second[:-1]) - sum(first[:-1])) / len(MEMORY_STEPS)
        edge = float(np.interp(memory, MEMORY_STEPS, row[:-1])) + beyond
        return AT * math.exp(min((edge - score) / row[-1], -math.log(AT)))


SPLITS = ChanceTable(
    {
        10: (3.59, 3.59, 3.59, 4.83, 7.50, 10.70, 13.92, 17.15, 20.62, 23.97, 1.77),
        15: (2.42, 2.87, 5.24, 7.57, 9.56, 11.19, 12.98, 14.96, 17.43, 19.67, 1.72),
        20: (5.10, 5.38, 6.84, 8.67, 10.35, 12.06, 13.85, 15.54, 16.79, 18.26, 1.89),
        30: (6.31, 6.69, 8.07, 9.87, 11.56, 13.16, 14.32, 15.53, 16.79, 18.04, 2.46),
        60: (7.48, 9.11, 10.72, 11.61, 12.17, 12.73, 13.54, 14.63, 15.79, 16.93, 2.35),
        120: (9.22, 10.34, 11.10, 11.58, 12.05, 12.54, 13.16, 14.04, 15.13, 16.13, 2.25),
        250: (9.95, 11.15, 11.64, 11.95, 12.15, 12.45, 12.87, 13.22, 13.57, 13.92, 2.59),
        500: (10.66, 10.83, 11.01, 11.13, 11.45, 11.96, 12.57, 13.06, 13.41, 13.83, 2.35),
        1000: (11.00, 11.00, 11.00, 11.26, 11.73, 12.30, 12.80, 13.40, 14.30, 15.06, 2.11),
    }
)
SPANS = ChanceTable(
    {
        10: (3.02, 3.02, 5.92, 9.24, 12.30, 14.66, 15.73, 15.73, 15.73, 15.73, 2.37),
        15: (5.34, 5.99, 9.74, 13.00, 15.58, 17.63, 18.80, 19.48, 19.68, 20.10, 2.05),
        20: (7.29, 8.23, 11.16, 14.09, 16.88, 18.79, 20.17, 20.17, 20.17, 20.17, 2.19),
        30: (10.34, 11.29, 13.74, 15.58, 17.36, 18.68, 19.98, 21.02, 21.02, 21.51, 1.96),
        60: (13.74, 14.80, 16.64, 18.48, 19.66, 20.83, 22.53, 23.80, 25.05, 26.30, 2.48),
        120: (14.88, 17.08, 18.82, 19.68, 20.09, 20.79, 21.86, 23.35, 25.05, 26.66, 2.70),
        250: (18.55, 19.40, 19.71, 20.15, 21.05, 21.14, 22.11, 23.44, 25.27, 26.86, 2.82),
        500: (20.20, 20.20, 20.20, 20.23, 20.26, 20.86, 21.81, 23.58, 25.02, 26.63, 2.52),
        1000: (22.35, 22.35, 22.35, 22.35, 22.35, 22.35, 22.81, 23.36, 25.16, 26.36, 2.31),
    }
)
RAMPS = ChanceTable(
    {
        30: (6.44, 6.97, 8.51, 10.39, 12.20, 13.88, 15.72, 17.66, 19.76, 21.79, 2.44),
        60: (7.15, 8.59, 10.11, 11.23, 12.10, 12.74, 13.54, 14.77, 16.47, 17.95, 2.71),
        120: (8.30, 9.37, 10.21, 10.51, 10.68, 10.96, 11.41, 12.36, 13.57, 14.67, 2.47),
        250: (8.94, 9.62, 9.91, 9.95, 10.11, 10.25, 10.50, 10.76, 11.01, 11.27, 2.17),
        500: (9.61, 10.16, 10.35, 10.53, 10.71, 10.82, 10.85, 10.90, 11.28, 11.50, 2.41),
        1000: (10.14, 10.15, 10.16, 10.17, 10.19, 10.20, 10.21, 10.21, 10.21, 10.21, 2.05),
    }
)


# A side is louder if equal noise looks so different in one of a hundred cases, and it is by this much.
_CLEARLY_LOUDER = 0.01
_LOUDER = 1.5
# The louder side may hold at most this share of the points: else it is the other one that is quiet, which does no harm.
_LARGEST_SHARE = 0.7
# Two levels are apart if this share of all pairs of their points is in the same order, and the louder noise alone moves
# a mean as far in one of a thousand cases.
_IN_ORDER = 0.95
_BY_NOISE = 0.001
# Fewer points have no spread of their own to speak of.
_FEWEST_APART = 4
# A share of the largest value this small is rounding.
_NOTHING = 1e-12


def louder_side(values: Values, weights: Values, places: Sequence[int]) -> tuple[slice, float] | None:
    """The part of a piece whose noise is clearly larger than that of the rest, and how much larger.

    Differences of neighbours are compared: they show the noise alone, whatever the levels are.

    Args:
        places: The change that was seen: one place for a step, two for a span.
    """
    inside = slice(places[0], places[1] if len(places) > 1 else values.size)
    steps = np.diff(values) * weights[1:]
    apart = np.ones(steps.size, dtype=bool)
    apart[[place - 1 for place in places if place <= steps.size]] = False
    within = np.zeros(steps.size, dtype=bool)
    within[inside.start : inside.stop - 1] = True
    limit = CLIP * 2 * middle_and_spread(steps)[1]
    parts = [np.minimum(np.abs(steps[mask & apart]), limit) for mask in (within, ~within)]
    if min(part.size for part in parts) < 2:
        return None
    squares = [float((part**2).mean()) for part in parts]
    for loud, quiet, side in ((0, 1, inside), (1, 0, slice(0, inside.start))):
        if loud and len(places) > 1:
            break  # all but a span: the rest of the piece decides what is usual
        size = parts[loud].size
        if size > _LARGEST_SHARE * steps.size or squares[loud] <= _LOUDER**2 * squares[quiet]:
            continue
        if not squares[quiet] or _tail(squares[loud] / squares[quiet], size, parts[quiet].size) < _CLEARLY_LOUDER:
            return side, math.sqrt(squares[loud] / squares[quiet]) if squares[quiet] else math.inf
    return None


def levels_apart(loud: Values, quiet: Values) -> bool:
    """Whether two parts are at different levels, whatever the noise of each is.

    Ranks need no common spread and no memory. Loud noise alone can put a few points on one side of a quiet level, so
    the mean of the loud part must also be far from it in units of its own spread (Welch).
    """
    if min(loud.size, quiet.size) < _FEWEST_APART:
        return False
    if _in_order(loud, quiet) < _IN_ORDER:
        return False
    error = math.sqrt(float(loud.var(ddof=1)) / loud.size + float(quiet.var(ddof=1)) / quiet.size)
    gap = abs(float(loud.mean() - quiet.mean()))
    return gap > 0 and (not error or t_tail(gap / error, loud.size - 1) < _BY_NOISE)


def in_order(values: Values, places: Sequence[int]) -> float:
    """Of all pairs of a point inside a change and one outside, the share that is in the same order; at least a half."""
    inside = np.zeros(values.size, dtype=bool)
    inside[places[0] : places[1] if len(places) > 1 else None] = True
    return _in_order(values[inside], values[~inside])


def _in_order(some: Values, others: Values) -> float:
    ranked = np.sort(others)
    below = np.searchsorted(ranked, some, "left") + np.searchsorted(ranked, some, "right")
    share = float(below.mean()) / (2 * others.size)
    return max(share, 1 - share)


def another_level(values: Values, burst: Burst) -> bool:
    """Whether a time of noise is at another level than what comes before or after it.

    The ends of a burst are vague, so only its middle is compared.
    """
    edge = max(2, (burst.last + 1 - burst.first) // 6)
    core = values[burst.first + edge : burst.last + 1 - edge]
    return any(levels_apart(core, beside) for beside in (values[: burst.first], values[burst.last + 1 :]))


def place_of_levels(values: Values, place: int) -> Values:
    """How likely each place is for a step between two levels of different noise: twice the log-likelihood.

    Each side has its own middle and spread, so a few loud points near the quiet level do not move the place, and small
    moves of the quiet side do not either.

    Returns:
        One number for each place from 1 on.
    """
    sides = [middle_and_spread(values[:place]), middle_and_spread(values[place:])]
    least = max(max(spread for _, spread in sides) / OUTLIER**2, _NOTHING * float(np.abs(values).max()))
    before, after = (
        -2 * math.log(max(spread, least)) - np.minimum(((values - middle) / max(spread, least)) ** 2, OUTLIER**2)
        for middle, spread in sides
    )
    return np.asarray(np.cumsum(before - after)[:-1])


def _tail(ratio: float, above: int, below: int) -> float:
    """How often two equal noises differ as much (Fisher's F); differences share points, so two of three count."""
    a, b = above * 2 / 3, below * 2 / 3
    return incomplete_beta(b / (b + a * ratio), b / 2, a / 2)


def mostly_equal(values: Values) -> bool:
    """Whether more than half of the values are the same."""
    return median(np.abs(values - median(values))) == 0.0


def counted(values: Values, places: Sequence[int]) -> float:
    """How clearly values that are mostly equal differ in number: twice the log of the ratio of likelihoods.

    Where most values are the same, a spread says little: two odd ones side by side look like a step. How many are odd
    on each side does not deceive.
    """
    odd = values != median(values)
    end = places[1] if len(places) > 1 else values.size
    inside = odd[places[0] : end]
    whole, part = int(odd.sum()), int(inside.sum())
    return 2 * (
        _likelihood(part, inside.size)
        + _likelihood(whole - part, odd.size - inside.size)
        - _likelihood(whole, odd.size)
    )


def _likelihood(hits: int, tries: int) -> float:
    if not 0 < hits < tries:
        return 0.0
    return hits * math.log(hits / tries) + (tries - hits) * math.log1p(-hits / tries)
