"""Whether a change stands where the noise is not what the scan takes it for.

The scan weighs a change against normal noise with the memory of one point. Noise of real machines falls on two levels,
has heavy tails and memory together, swells, or remembers for long, and then looks like a change. For each there
is a check here. It asks for less than the scan does: it is to reject what the scan believes for its assumption alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from assay.analyse.series.scan import (
    AT,
    ChangeCandidate,
    chance_of,
    chance_of_ramp,
    clearest_ramp,
    clearest_step,
    in_order,
    mostly_equal,
    near,
    piece_of,
)
from assay.analyse.series.spread import median
from assay.analyse.series.whitening import Gain, Values, Whitened, averaged_ratio, evidence, evidence_memory, ramps

Flags = NDArray[np.bool_]

# In shorter pieces ranks and memory tell too little: the price would be most of the changes.
_LONG_ENOUGH = 60
# Where this share of all pairs is in the same order there are two levels, whatever the noise is.
_APART = 0.98
# All points of a level are at least, and at most, this share of its height.
_LEVEL_FROM, _LEVEL_TO = 0.6, 1.6
# What the scan finds so rare is no matter of tails or of memory; levels that come and go are as rare for it.
_BEYOND_DOUBT = 1e-12
# On normal noise a check that may be this much less certain than the scan rejects next to nothing.
_LESS_CERTAIN = 0.03
_LESS_CERTAIN_OF_SPANS = 0.15
# Beyond this variance of values in units of their spread, wild ones held back, ranks are asked as well.
_WILD = 1.1


def confirmed_chance(values: Values, weights: Values, change: ChangeCandidate, *, newest: bool) -> float:
    """The chance of a step or a span, by the scan or by the check that is least certain of it.

    Args:
        values: The piece in which the change was seen.
        weights: One over the relative spread of each point.
        change: What the scan found.
        newest: Whether the piece ends with the newest point.
    """
    if mostly_equal(values) or _another_level(values, change.places):
        return change.chance
    levels = _by_two_levels(values, weights, change, newest=newest)
    if change.chance < _BEYOND_DOUBT:
        return levels
    varies = spread_varies(values, change.places)
    chances = [change.chance * (_STRICTER if varies else 1.0), levels]
    piece = piece_of(values, weights) if values.size >= _LONG_ENOUGH and max(chances) <= AT else None
    if piece is not None:
        if wild(piece):
            ranked = _again(normal_scores(values), weights, change, newest=newest)
            lenient = _LESS_CERTAIN if len(change.places) == 1 else _LESS_CERTAIN_OF_SPANS
            chances.append(_lenient(ranked, AT if varies else lenient))
        shapes, gain, penalty = near(piece, change.places, _NEAR, newest=newest)
        score = _beside_long_memory(piece, shapes, gain, penalty)
        chances.append(_slowly(chance_of(score, change.places, values.size, evidence_memory(piece)), values.size))
    if varies and max(chances) <= AT:
        evened = weights / local_spread(values, change.places)
        chances.append(_again(values, evened, change, newest=newest))
    return min(1.0, max(chances))


def confirmed_ramp_chance(values: Values, weights: Values, ramp: ChangeCandidate) -> float:
    """The chance of a slow change, by the scan or by the check that is least certain of it."""
    piece = piece_of(values, weights)
    if piece is None or values.size < _LONG_ENOUGH:
        return ramp.chance
    chances = [ramp.chance]
    if wild(piece):
        chances.append(_lenient(clearest_ramp(normal_scores(values), weights).chance, _LESS_CERTAIN))
    shapes = ramps(np.array([ramp.places]), values.size)
    score = _beside_long_memory(piece, shapes, piece.shapes(shapes), np.zeros(1))
    chances.append(_slowly(chance_of_ramp(score, values.size, evidence_memory(piece)), values.size))
    if spread_varies(values, ()):
        chances.append(clearest_ramp(values, weights / local_spread(values, ())).chance * _STRICTER)
    return min(1.0, max(chances))


def _another_level(values: Values, places: Sequence[int]) -> bool:
    """Whether the points of a change are at a level that no noise around it has.

    A span must be a level: one large shock that fades is also above all others for a while.
    """
    if in_order(values, places) < _APART:
        return False
    if len(places) == 1:
        return True
    inside = values[places[0] : places[1]]
    heights = inside - median(np.delete(values, np.arange(*places)))
    low, high = sorted((_LEVEL_FROM * median(heights), _LEVEL_TO * median(heights)))
    return bool(((low <= heights) & (heights <= high)).all())


def _lenient(chance: float, limit: float) -> float:
    """A chance for which up to `limit` is enough, on the scale where `AT` is."""
    return chance * AT / limit


def _again(values: Values, weights: Values, change: ChangeCandidate, *, newest: bool) -> float:
    """The chance of a change of the same kind, with other values or weights."""
    if len(change.places) == 1:
        return clearest_step(values, weights, newest=newest).chance
    piece = piece_of(values, weights)
    if piece is None:
        return 1.0
    _, gain, penalty = near(piece, change.places, 0, newest=newest)
    seen = evidence(piece, gain)
    return chance_of(float((seen.score - penalty).max()), change.places, values.size, seen.memory)


@lru_cache(maxsize=256)
def _quantiles(count: int) -> Values:
    """Normal quantiles of half ranks: of one and a half of `count` at place three."""
    inverse = NormalDist().inv_cdf
    return np.array([0.0, *(inverse(half / (2 * count + 2)) for half in range(1, 2 * count + 1))])


def wild(piece: Whitened) -> bool:
    """Whether more lies far from the middle than the spread tells: a second level, or heavy tails."""
    return float(piece.values[0].var()) > _WILD


def normal_scores(values: Values) -> Values:
    """Each value as the normal quantile that belongs to its rank (van der Waerden); equal ones have the same."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray(_quantiles(values.size)[2 * np.cumsum(counts) - counts + 1][place])


# Spread that varies shows in averages of sizes: long windows for one that moves slowly, short ones for clusters.
_FEWEST_FOR_SPREAD = 30
_CLUSTER = 18
_SLOW = 0.4
_SURROUNDINGS = 0.125
# Averages of equal noise differ this many times as much as they should in about one of thirty series.
_VARIES = 3.0
# A line through the sizes rises by this many of its errors in one of about a hundred.
_TREND = 2.6
# A spread that had to be found in the same points costs certainty.
_STRICTER = 4.0
_LEAST_SPREAD = 0.1
_BOUND = 3 * 1.4826


def spread_varies(values: Values, places: Sequence[int]) -> bool:
    """Whether the noise is clearly larger at some times than at others."""
    if values.size < _FEWEST_FOR_SPREAD:
        return False
    sizes = _sizes(values, places)
    away = sizes - sizes.mean()
    variance = float(away.var())
    trend = float(np.linspace(-1, 1, sizes.size) @ away)
    # The sum of squares of the line is a third of the number of points.
    if trend**2 > _TREND**2 * variance * sizes.size / 3 > 0:
        return True
    return any(
        float((_averages(away, window) ** 2).mean()) * window > _VARIES * variance > 0
        for window in {_CLUSTER, max(_CLUSTER, round(values.size * _SLOW))}
    )


def local_spread(values: Values, places: Sequence[int]) -> Values:
    """How large the noise is around each point, beside what is usual."""
    around = _averages(_sizes(values, places), max(_CLUSTER, round(values.size * _SURROUNDINGS)))
    edge = values.size - around.size
    spread = np.concatenate([np.full(edge // 2, around[0]), around, np.full(edge - edge // 2, around[-1])])
    usual = median(spread)
    return np.asarray(np.maximum(spread / usual, _LEAST_SPREAD)) if usual else np.ones(values.size)


def _sizes(values: Values, places: Sequence[int]) -> Values:
    """How far neighbours are from each other, the wild ones held back and the change itself left out."""
    sizes = np.delete(np.abs(np.diff(values)), [place - 1 for place in places if place < values.size])
    return np.asarray(np.minimum(sizes, _BOUND * median(sizes)))


def _averages(sizes: Values, window: int) -> Values:
    totals = np.concatenate([[0.0], np.cumsum(sizes)])
    return np.asarray((totals[window:] - totals[:-window]) / window)


# Two levels are this many deviations around them apart, and visited again and again.
_LEVELS_APART = 5.0
_FEWEST_RETURNS = 4
_OFTEN = 20
# A level has at least this share of the points: fewer are outliers.
_RARER = 0.1
# How much better two chains of levels must be than one, before and after a change: twice the log of the likelihoods.
# The change was looked for at every place, so each place costs the logarithm of the number of points.
_OTHER_CHAIN = 12.0
_SAME_PLACE = 3


def _by_two_levels(values: Values, weights: Values, change: ChangeCandidate, *, newest: bool) -> float:
    """The chance of a change where results fall on two levels: both must move, or be visited in another way."""
    high = upper_level(values)
    if high is None:
        return change.chance
    if _chain_gain(high, change.places) > _OTHER_CHAIN + (2 * len(change.places) - 1) * math.log(values.size):
        return change.chance
    if len(change.places) > 1:
        return 1.0
    flat = np.where(high, values - float(values[high].mean()), values - float(values[~high].mean()))
    step = clearest_step(flat, weights, newest=newest)
    return step.chance if step.places and abs(step.places[0] - change.places[0]) <= _SAME_PLACE else 1.0


def returns(values: Values) -> bool:
    """Whether results fall on two levels, again and again."""
    return upper_level(values) is not None


def upper_level(values: Values) -> Flags | None:
    """Which points are on the upper one of two levels that come and go; None where there are no such levels.

    A step makes two levels as well, and a step down again: only what returns often is the machine's habit.
    """
    ordered = np.sort(values)
    below = np.arange(1, values.size)
    totals, squares = np.cumsum(ordered), np.cumsum(ordered**2)
    above = values.size - below
    low, top = totals[:-1] / below, (totals[-1] - totals[:-1]) / above
    best = int((below * above * (top - low) ** 2).argmax())
    within = float(squares[-1]) - float(below[best] * low[best] ** 2 + above[best] * top[best] ** 2)
    spread = math.sqrt(max(within, 0.0) / values.size)
    high: Flags = values > (ordered[best] + ordered[best + 1]) / 2
    rarer = min(int(np.count_nonzero(high)), int(np.count_nonzero(~high)))
    moves = int(np.count_nonzero(high[1:] != high[:-1]))
    if (
        rarer < _RARER * values.size
        or moves < max(_FEWEST_RETURNS, values.size / _OFTEN)
        or float(top[best] - low[best]) < _LEVELS_APART * spread
    ):
        return None
    return high


def _chain_gain(high: Flags, places: Sequence[int]) -> float:
    """How much better two Markov chains explain the levels, one inside a change and one outside, than one chain."""
    inside = np.zeros(high.size - 1, dtype=bool)
    inside[places[0] - 1 : places[1] - 1 if len(places) > 1 else None] = True
    kind = 2 * high[:-1] + high[1:]
    counts = [np.bincount(kind[part], minlength=4).reshape(2, 2).astype(float) for part in (inside, ~inside)]
    return 2 * (_chain(counts[0]) + _chain(counts[1]) - _chain(counts[0] + counts[1]))


def _chain(moves: Values) -> float:
    """The log-likelihood of a chain with the best probabilities for these moves."""
    total = moves.sum(axis=1, keepdims=True)
    share = np.divide(moves, total, out=np.ones_like(moves), where=moves > 0)
    return float((moves * np.log(share)).sum())


# Orders of fractional noise (Granger and Joyeux 1980, Hosking 1981).
_ORDERS = (0.15, 0.3, 0.45)
_NEAR = 2
# With the change taken out, long memory must not explain the rest much worse: twice the log of the likelihoods.
_NOT_EXCLUDED = 4.0
# A long piece can afford to be asked for more.
_LONG = 200
_MORE_CERTAIN = 0.01
_NOTHING = 1e-9


def _beside_long_memory(piece: Whitened, shapes: Values, gain: Gain, penalty: Values) -> float:
    """The score of the clearest of some changes where memory may fade slowly; infinite where that is excluded."""
    # The values of the first memory, which is none, are those of the piece itself.
    without, slowly = _fractional(piece.values[0], piece.weights, shapes * piece.weights)
    fast = piece.cost(gain)
    if float(fast.min()) + _NOT_EXCLUDED < float(slowly.min()):
        return math.inf
    scored = averaged_ratio(np.concatenate([piece.unchanged, without]), np.vstack([fast, slowly])) - penalty
    return float(scored.max())


def _slowly(chance: float, count: int) -> float:
    return _lenient(chance, _MORE_CERTAIN if count >= _LONG else _LESS_CERTAIN)


def _fractional(values: Values, level: Values, shapes: Values) -> tuple[Values, Values]:
    """Minus twice the log-likelihood for each order of long memory: with a level alone, and with each shape (columns).

    Each point is predicted from all before it by the first terms of the autoregression of infinite length. At the
    begin, where there are few, the prediction is worse, by as much as the partial correlations that are missing.
    """
    count = values.size
    spectra = np.fft.rfft(np.vstack([values, level, shapes]), 2 * count, axis=1)
    without, with_shape = [], []
    for order in _ORDERS:
        terms, error = _prediction(count, order)
        y, u, *rest = np.fft.irfft(spectra * terms, 2 * count, axis=1)[:, :count] / error
        left, columns = y - u * (y @ u / (u @ u)), np.array(rest)
        columns -= np.outer(columns @ u / (u @ u), u)
        explained = (columns @ left) ** 2 / np.maximum((columns**2).sum(axis=1), _NOTHING)
        price = 2 * float(np.log(error).sum())
        squares = float(left @ left)
        without.append(count * math.log(max(squares, _NOTHING)) + price)
        with_shape.append(count * np.log(np.maximum(squares - explained, _NOTHING)) + price)
    return np.array(without), np.array(with_shape)


@lru_cache(maxsize=64)
def _prediction(count: int, order: float) -> tuple[NDArray[np.complex128], Values]:
    """The terms of the autoregression as a spectrum, and the error of each point's prediction beside the last one's."""
    lags = np.arange(1, count)
    terms = np.concatenate([[1.0], np.cumprod((lags - 1 - order) / lags)])
    variance = np.concatenate([[1.0], np.cumprod(1 - (order / (lags - order)) ** 2)])
    return np.fft.rfft(terms, 2 * count), np.sqrt(variance / variance[-1])
