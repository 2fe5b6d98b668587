"""Whether a service falls behind for good, and where its latency over rate begins to rise beyond noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from assay.analyse.distributions import incomplete_beta
from assay.analyse.records import Interval

Counts = Sequence[float] | NDArray[np.float64] | NDArray[np.int64]

# A shorter look would take a pause of the service for its end.
SHORTEST_S = 5.0
# The time that the first answers take fills the pipe: requests in flight rise and nothing is wrong.
_FILLING = 5.0
_BEHIND = 0.93
_KEEPS_UP = 0.97
_BLOCKS = 4
# Standard deviations of a Poisson count. The question is put many times in one run, so the limit is high.
_SURE = 4.0
_USUAL = 2.0
# In a pipe that only fills, completions catch up with arrivals; the deficit of a saturated service stays. And a pause
# makes its whole deficit at once, in one half of the look.
_LATE = 0.35
_EARLY = 0.25


def saturated(t: Counts, in_flight: Counts, due: Counts, done: Counts, latency_s: float = 0.0) -> bool | None:
    """Whether the service falls behind for good.

    Args:
        t: Seconds, rising, one entry per look of the load loop (some each second).
        latency_s: About how long one answer takes when nothing else is asked, where it is known.

    Returns:
        True where requests in flight grew steadily and far fewer ended than were due, longer than chance or the
        filling of the pipe explains; False where the service keeps up; None where it cannot be told yet.
    """
    at, open_, came, went = (np.asarray(series, dtype=np.float64) for series in (t, in_flight, due, done))
    if at.size < 2 * _BLOCKS:
        return None
    elapsed = float(at[-1] - at[0])
    if elapsed < SHORTEST_S + _FILLING * latency_s:
        return None
    # The longer the load goes on, the longer a pause it may have had.
    begin = int(np.searchsorted(at, at[-1] - max(SHORTEST_S, elapsed / 2)))
    middle = (begin + at.size - 1) // 2
    arrivals = float(came[-1] - came[begin])
    deficit = arrivals - float(went[-1] - went[begin])
    if deficit <= max((1 - _KEEPS_UP) * arrivals, _USUAL * math.sqrt(arrivals)):
        return False
    late = float((came[-1] - came[middle]) - (went[-1] - went[middle]))
    behind = deficit > max((1 - _BEHIND) * arrivals, _SURE * math.sqrt(arrivals))
    levels = [float(block.mean()) for block in np.array_split(open_[begin:], _BLOCKS)]
    grows = all(after > before for before, after in pairwise(levels))
    stays = _LATE * deficit <= late <= (1 - _EARLY) * deficit
    return True if behind and grows and stays else None


Values = NDArray[np.float64]

# A line has two parameters, a line with a bend four; fewer points would fit any bend.
MIN_RATES = 5
# The bend is looked for in many places, so a chance bend is more likely than its F statistic alone says; with this
# limit a straight noisy curve gets a knee in fewer than one of twenty cases (the tests measure it).
_CHANCE = 0.005
# A real bend that nobody would call a knee: the end of the curve must lie this far above the line before it.
_RISE = 1.25
_PLACES = 200


@dataclass(frozen=True, slots=True)
class Knee:
    """Where latency begins to rise with the rate."""

    rate: float
    interval: Interval
    """Rates at which the bend may lie as well, given the spread."""
    before: float
    """Power with which latency grows with the rate before it; 0 is level."""
    after: float
    """The same after it."""


def knee(rates: Sequence[float], latencies: Sequence[Sequence[float]], level: float = 0.95) -> Knee | None:
    """Find the knee of a latency curve.

    Two straight lines that meet, on logarithmic axes, are held against a single one. The bend counts when it
    explains far more than its two parameters would by chance, and when the curve rises by a quarter or more.

    Args:
        latencies: For each rate the values of its runs; several runs tell what noise is.
    """
    x, y = _points(rates, latencies)
    if np.unique(x).size < MIN_RATES:
        return None
    df = x.size - 4
    places = np.linspace(float(x.min()), float(x.max()), _PLACES + 2)[1:-1]
    fits = [_fit(x, y, float(place)) for place in places]
    rests = np.array([rest for rest, _ in fits])
    best = int(np.argmin(rests))
    straight = _residual(np.column_stack([np.ones_like(x), x]), y)[0]
    coefficients = fits[best][1]
    before, after = float(coefficients[1]), float(coefficients[1] + coefficients[2])
    rise = math.exp(float(coefficients[2]) * (float(x.max()) - float(places[best])))
    if rests[best] <= 0 < straight:
        chance = 0.0
    else:
        chance = _f_tail((straight - rests[best]) / 2 / max(rests[best] / df, 1e-300), 2, df)
    if after <= before or rise < _RISE or chance > _CHANCE:
        return None
    near = places[[_f_tail((rest - rests[best]) / max(rests[best] / df, 1e-300), 1, df) >= 1 - level for rest in rests]]
    # Real curves bend and do not break, so no bend is known more closely than the rates around it were tried.
    levels = np.unique(x)
    low = min(float(near.min()), float(levels[levels <= places[best]].max()))
    high = max(float(near.max()), float(levels[levels >= places[best]].min()))
    told = f"two lines through {x.size} values; no closer than the rates that were tried"
    interval = Interval(float(np.exp(low)), float(np.exp(high)), level, told)
    return Knee(float(np.exp(places[best])), interval, before, after)


def _points(rates: Sequence[float], latencies: Sequence[Sequence[float]]) -> tuple[Values, Values]:
    """All runs as points on logarithmic axes; what is not positive has no place there."""
    pairs = [
        (rate, value)
        for rate, values in zip(rates, latencies, strict=True)
        for value in values
        if rate > 0 and value > 0 and math.isfinite(value)
    ]
    x, y = (np.log(np.array(column, dtype=np.float64)) for column in (zip(*pairs, strict=True) if pairs else ([], [])))
    return x, y


def _fit(x: Values, y: Values, place: float) -> tuple[float, Values]:
    """The rest that two lines leave that meet at a place, and their coefficients: level, slope, change of slope."""
    return _residual(np.column_stack([np.ones_like(x), x, np.maximum(x - place, 0.0)]), y)


def _residual(columns: Values, y: Values) -> tuple[float, Values]:
    coefficients: Values = np.linalg.lstsq(columns, y, rcond=None)[0].astype(np.float64, copy=False)
    rest = y - columns @ coefficients
    return float(np.einsum("i,i->", rest, rest)), coefficients


def _f_tail(f: float, df1: int, df2: int) -> float:
    """The chance that an F statistic is larger."""
    return 1.0 if f <= 0 else incomplete_beta(df2 / (df2 + df1 * f), df2 / 2, df1 / 2)
