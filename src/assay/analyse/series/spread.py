"""What is usual in a series: its level, its spread, points that stand alone, and times of more noise than else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from assay.analyse.series.whitening import Places, Values

# A value further than this many spreads from the middle, and from what is usual around it, counts as being just there:
# a few wild nights must not be a step. Four of seven at another level are no accident, and keep their height.
CLIP = 3.0
# One point this far from its neighbours is reported as an outlier.
OUTLIER = 6.0
_NORMAL_MAD = 1.4826
_NORMAL_MEAN = 1.2533
_WINDOW = 7
# Standard errors come from few runs and are unsure themselves: this much of a variance is taken from the point, the
# rest is what is usual. A point counts as at most this much more exact, or vaguer, than a usual one.
_OWN = 0.2
_EXACT, _VAGUE = 0.5, 3.0
_EQUAL = 1e-12

# Times of noise: at least so long, so clear (in deviations of the mean of bounded sizes), and so much louder.
_BURST_POINTS = 6
_BURST_SCORE = 6.5
_BURST_FACTOR = 1.8
_BURSTS = 4
_SIZE_LIMIT = 3.0
_LEAST_VARIANCE = 0.36
MOST_LOUDER = 1000.0
# Beyond this an error cannot be squared, and says nothing.
_LARGEST_ERROR = 1e140


@dataclass(frozen=True, slots=True)
class Burst:
    """A time in which the noise was larger than else."""

    first: int
    last: int
    factor: float
    """Its spread over the spread of the rest."""


def median(values: Values) -> float:
    """The middle value; several times as fast as numpy's on short rows."""
    half = values.size // 2
    if values.size % 2:
        return float(np.partition(values, half)[half])
    parts = np.partition(values, (half - 1, half))
    return float(parts[half - 1] + parts[half]) / 2


def middle_and_spread(values: Values) -> tuple[float, float]:
    """Median and robust deviation; a spread of zero means that all values are equal but for rounding."""
    middle = median(values)
    away = np.abs(values - middle)
    largest = float(away.max(initial=0.0))
    if largest <= _EQUAL * float(np.abs(values).max(initial=0.0)):
        return middle, 0.0
    spread = _NORMAL_MAD * median(away)
    # More than half of the values are equal: the others still say what is usual.
    return middle, spread if spread > _EQUAL * largest else _NORMAL_MEAN * float(away.mean())


def standardised(values: Values, weights: Values) -> tuple[Values, float]:
    """Values around their middle in units of their spread, the wild ones held back; and the spread."""
    middle, spread = middle_and_spread(values)
    if not spread:
        return np.zeros_like(values), 0.0
    spread = middle_and_spread((values - middle) * weights)[1] or spread
    limit = CLIP / weights
    away = (values - middle) / spread
    far = np.abs(away) > limit
    if np.count_nonzero(far) <= _WINDOW // 2:
        return np.clip(away, -limit, limit), spread
    around = running_median(away, _WINDOW)
    around[np.abs(around) <= limit] = 0.0
    return np.clip(away, np.minimum(around, 0) - limit, np.maximum(around, 0) + limit), spread


def without_wild(values: Values, weights: Values, places: Sequence[int]) -> Values:
    """Values between known changes, those far from their level and from their neighbours drawn near; often the same.

    A short piece with a wild point or two tells little of its own spread; all pieces together do.
    """
    parts = np.split(values, list(places))
    levels = np.concatenate([np.full(part.size, median(part)) for part in parts])
    reach = OUTLIER * middle_and_spread((values - levels) * weights)[1] / weights
    around = running_median(values, _WINDOW)
    calm = np.clip(values, np.minimum(levels, around) - reach, np.maximum(levels, around) + reach)
    return values if (calm == values).all() else calm


def relative_spreads(values: Values, errors: Values | None) -> Values:
    """How much each point may be off beside the others, from its own standard error; about 1 in the middle.

    Points differ for two reasons: their own error, which few runs tell, and what differs from result to result, which
    is the spread of the series beyond the errors.
    """
    if errors is None or not values.size:
        return np.ones(values.size)
    plausible = np.where((errors >= 0) & (errors <= _LARGEST_ERROR), errors, np.nan)
    if np.isnan(plausible).all():
        return np.ones(values.size)
    usual = float(np.nanmedian(plausible))
    squares = usual**2 + _OWN * (np.where(np.isnan(plausible), usual, plausible) ** 2 - usual**2)
    beyond = max(0.0, differences_spread(values) ** 2 - usual**2)
    total = np.sqrt(beyond + squares)
    centre = median(total)
    return np.clip(total / centre, _EXACT, _VAGUE) if centre > 0 else np.ones(values.size)


def differences_spread(values: Values) -> float:
    """The spread as neighbours show it: a step touches only one difference."""
    if values.size < 3:
        return 0.0
    return _NORMAL_MAD * median(np.abs(np.diff(values))) / math.sqrt(2)


def residuals(values: Values) -> Values:
    """Distances from the running median, which follows steps and drifts."""
    return values - running_median(values, _WINDOW)


def running_median(values: Values, window: int) -> Values:
    """The middle value around each point; at the ends that of the first and the last window."""
    if values.size < window:
        return np.full(values.size, median(values))
    half = window // 2
    inside = np.partition(sliding_window_view(values, window), half, axis=1)[:, half]
    return np.concatenate([np.full(half, inside[0]), inside, np.full(half, inside[-1])])


def bursts(values: Values, weights: Values) -> tuple[Burst, ...]:
    """Times of more noise, the clearest first found, in order of time."""
    if values.size < 4 * _BURST_POINTS:
        return ()
    # Neighbours show the noise whatever the level does: a step touches one difference, a drift hardly any.
    steps = np.abs(np.diff(values, prepend=values[1]))
    away = steps * weights
    loud_bursts: list[Burst] = []
    for _ in range(_BURSTS):
        loudest = _loudest(away)
        if loudest is None:
            break
        loud_bursts.append(loudest)
        away = away.copy()
        away[loudest.first : loudest.last + 1] /= loudest.factor
    return tuple(sorted(loud_bursts, key=lambda burst: burst.first))


def _loudest(away: Values) -> Burst | None:
    """The span whose distances are most clearly larger than the others."""
    usual = median(away)
    if usual <= 0:
        return None
    sizes = np.minimum(away / (_NORMAL_MAD * usual), _SIZE_LIMIT)
    first, end = _spans(sizes.size)
    totals, squares = (np.concatenate([[0.0], np.cumsum(row)]) for row in (sizes, sizes**2))
    inside, count = totals[end] - totals[first], end - first
    rest = sizes.size - count
    outside = (totals[-1] - inside) / rest
    variance = (squares[-1] - squares[end] + squares[first]) / rest - outside**2
    # Never below what normal noise has: a few equal values must not make the rest look loud.
    score = (inside / count - outside) / np.sqrt(np.maximum(variance, _LEAST_VARIANCE) * (1 / count + 1 / rest))
    best = int(score.argmax())
    if score[best] < _BURST_SCORE:
        return None
    low, high = int(first[best]), int(end[best])
    quiet = median(np.concatenate([away[:low], away[high:]])) or usual
    factor = min(median(away[low:high]) / quiet, MOST_LOUDER)
    return _with_edges(low, high, factor, away.size) if factor >= _BURST_FACTOR else None


def _with_edges(low: int, high: int, factor: float, count: int) -> Burst:
    """A burst with the points beside it, which may belong to it; up to the end of the series if that is near."""
    beside = max(2, (high - low) // 8)
    low, high = low - beside, high + beside
    return Burst(low if low > 2 * beside else 0, min(high if high < count - 2 * beside else count, count) - 1, factor)


@lru_cache(maxsize=64)
def _spans(count: int) -> tuple[Places, Places]:
    """Where a time of noise may lie: any begin, lengths that grow by a fifth, up to half of the series."""
    first, end = [], []
    length = float(_BURST_POINTS)
    while length <= count / 2:
        size = int(length)
        starts = np.arange(0, count - size + 1, max(1, size // 8))
        first.append(starts)
        end.append(starts + size)
        length = max(length + 1, length * 1.2)
    return np.concatenate(first).astype(np.intp), np.concatenate(end).astype(np.intp)


def noise_weights(count: int, bursts: tuple[Burst, ...]) -> Values:
    """One over how much louder each point is than else."""
    weights = np.ones(count)
    for burst in bursts:
        weights[burst.first : burst.last + 1] /= burst.factor
    return weights


def outliers(values: Values, weights: Values) -> tuple[int, ...]:
    """Points that stand alone, far from their neighbours."""
    if values.size < _WINDOW:
        return ()
    away = np.abs(residuals(values)) * weights
    usual = _NORMAL_MAD * median(away)
    return tuple(int(place) for place in np.flatnonzero(away > OUTLIER * usual)) if usual > 0 else ()
