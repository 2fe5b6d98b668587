"""Two levels in one result: threads that are placed in two ways, two boost states, memory near and far, a neighbour.

A mean of two levels is a value that hardly ever occurs, and more runs do not make it one. So both are named, with how
often each occurs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Runs → how many standard deviations of the two groups the gap between them must span. In at most one of a hundred
# sets of runs with one level it does: the largest of the limits for normal, uniform, exponential, lognormal (0.5) and
# Student t3 values, each simulated 60,000 times.
_LIMITS = {4: 23.0, 5: 14.3, 6: 10.5, 7: 8.8, 8: 7.9, 9: 7.3, 10: 6.6, 12: 5.9, 14: 5.5, 16: 5.1, 20: 4.7, 25: 4.2}
_LIMIT_OF_MANY = 4.0
# One run apart is no level: a bad run is an outlier, and flagged as such.
_LEAST_RUNS = 2
# Levels nearer to each other than this change no decision.
_LEAST_APART = 0.02

# Samples: bins of the histogram between the outermost percentiles, the smallest share of a level, and how much emptier
# the valley must be than the lower of both hills.
_BINS = 40
_LEAST_SAMPLES = 200
_LEAST_SHARE = 0.05
_VALLEY = 0.4
_APART = 0.05
_ERRORS = 3.0


@dataclass(frozen=True, slots=True)
class Levels:
    """Values on two levels."""

    low: float
    """Median of the lower level."""
    high: float
    share: float
    """Of the values on the upper level."""

    @property
    def apart(self) -> float:
        """By how much the upper level lies above the lower one, relative to it."""
        return self.high / self.low - 1


def levels_of_runs(values: Sequence[float] | NDArray[np.float64]) -> Levels | None:
    """Both levels of some runs; None where one level explains them."""
    array = np.sort(np.asarray(values, dtype=np.float64))
    if array.size < min(_LIMITS) or array[0] <= 0:
        return None
    ordered = np.log(array)
    split, gap, deviation = _best_split(ordered)
    levels = _split_at(array, split)
    if gap <= _limit(array.size) * deviation or levels.apart < _LEAST_APART:
        return None
    return levels


def _best_split(ordered: NDArray[np.float64]) -> tuple[int, float, float]:
    """Where two groups differ most, the gap there, and the standard deviation within the groups."""
    n = ordered.size
    centred = ordered - ordered.mean()
    sizes = np.arange(_LEAST_RUNS, n - _LEAST_RUNS + 1)
    below = np.cumsum(centred)[sizes - 1]
    between = below**2 * n / (sizes * (n - sizes))  # the sum of all is zero, so one side tells both
    best = int(between.argmax())
    split = int(sizes[best])
    within = max(float((centred**2).sum() - between[best]), 0.0)
    return split, float(ordered[split] - ordered[split - 1]), math.sqrt(within / (n - 2))


def _limit(runs: int) -> float:
    """The limit for a number of runs, between those that were simulated."""
    known = sorted(_LIMITS)
    return float(np.interp(runs, known, [_LIMITS[n] for n in known])) if runs <= known[-1] else _LIMIT_OF_MANY


def levels_of_samples(values: NDArray[np.float64]) -> Levels | None:
    """Both levels of a run's samples: two hills with a valley between them; None where there is one hill."""
    if values.size < _LEAST_SAMPLES:
        return None
    low, high = np.quantile(values, (0.005, 0.995))
    if low <= 0 or high <= low * (1 + _APART):
        return None
    logs = np.log(values)
    counts, edges = np.histogram(logs, bins=_BINS, range=(math.log(low), math.log(high)))
    # A clock that counts in coarse steps leaves empty bins between its values: they are filled from their neighbours.
    smooth = np.convolve(counts, np.ones(5) / 5, mode="same")
    first = int(smooth.argmax())
    valley, second = max(
        (_hill_beyond(smooth, first, step) for step in (-1, 1)), key=lambda found: smooth[found[1]] - smooth[found[0]]
    )
    depth = _VALLEY * smooth[second] - smooth[valley]
    if depth * 5 <= _ERRORS * math.sqrt(5 * (smooth[second] * _VALLEY**2 + smooth[valley])):
        return None
    levels = _split_at(np.sort(values), int((logs < edges[valley] + (edges[1] - edges[0]) / 2).sum()))
    is_level = _LEAST_SHARE <= levels.share <= 1 - _LEAST_SHARE and levels.apart >= _APART
    return levels if is_level else None


def _hill_beyond(smooth: NDArray[np.float64], top: int, step: int) -> tuple[int, int]:
    """The second hill on one side of the highest one, and the valley before it, by the deepest fall and rise."""
    best = (top, top)
    lowest = top
    at = top + step
    while 0 <= at < smooth.size:
        if smooth[at] < smooth[lowest]:
            lowest = at
        if smooth[at] * _VALLEY - smooth[lowest] > smooth[best[1]] * _VALLEY - smooth[best[0]]:
            best = (lowest, at)
        at += step
    return best


def _split_at(ordered: NDArray[np.float64], split: int) -> Levels:
    split = min(max(split, 1), ordered.size - 1)
    low, high = ordered[:split], ordered[split:]
    return Levels(float(np.median(low)), float(np.median(high)), high.size / ordered.size)
