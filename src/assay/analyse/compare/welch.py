"""The change between two sets of runs with Welch's interval, and how many runs would settle it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.analyse.distributions import t_quantile, t_tail
from assay.analyse.records import Interval

# More runs than this are not worth naming.
MOST_RUNS = 1000
# The runs named must show a change of the observed size four times in five, not only if luck holds.
_POWER = 0.8


@dataclass(frozen=True, slots=True)
class Change:
    """The change from a to b with its error, on the scale on which it was compared."""

    estimate: float
    error: float
    df: float
    logarithmic: bool
    base: float  # what a plain difference is relative to
    method: str = "Welch's t"

    def interval(self, level: float) -> Interval:
        """The relative change, as far as the spread tells it."""
        half = t_quantile(level, self.df) * self.error if self.error else 0.0
        ends = (self.estimate - half, self.estimate + half)
        return Interval(
            self.relative(ends[0]), self.relative(ends[1]), level, f"{self.method}, {self.df:.1f} degrees of freedom"
        )

    def relative(self, value: float) -> float:
        """A change on the compared scale as a share of a."""
        return math.expm1(min(value, 700.0)) if self.logarithmic else value / self.base

    def chance(self, sign: int) -> float:
        """How often luck alone shows as clear a change in this direction (1 up, -1 down) where there is none."""
        ahead = sign * self.estimate
        if not self.error:
            return 0.0 if ahead > 0 else 1.0
        tail = t_tail(abs(ahead) / self.error, self.df) / 2
        return tail if ahead > 0 else 1 - tail


def change_between(a: NDArray[np.float64], b: NDArray[np.float64]) -> Change:
    """Compare two sets of two or more run values, on a log scale where all are positive.

    On a log scale the change is a ratio, which is what is asked for, and run effects that multiply add up.
    """
    logarithmic = bool((a > 0).all() and (b > 0).all())
    base = abs(float(a.mean()))
    if logarithmic:
        a, b = np.log(a), np.log(b)
    parts = (float(a.var(ddof=1)) / a.size, float(b.var(ddof=1)) / b.size)
    total = sum(parts)
    df = total**2 / (parts[0] ** 2 / (a.size - 1) + parts[1] ** 2 / (b.size - 1)) if matters(total, a, b) else 1.0
    error = math.sqrt(total) if matters(total, a, b) else 0.0
    return Change(float(b.mean() - a.mean()), error, max(df, 1.0), logarithmic, base)


def matters(variance: float, a: NDArray[np.float64], b: NDArray[np.float64]) -> bool:
    """Whether a variance is more than the rounding of equal values."""
    size = max(float(np.abs(a).max()), float(np.abs(b).max()))
    return variance > (4e-16 * size) ** 2


def runs_to_tell(change: Change, runs: int, level: float) -> int | None:
    """Runs on each side that would show a change of the observed size; None for more than a thousand."""
    spread = change.error * math.sqrt(runs)  # error of a set of one run on each side
    if not _told_by(MOST_RUNS, change, spread, level):
        return None
    # More runs always tell more, so halving finds the first number that is enough.
    low, high = runs, MOST_RUNS
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _told_by(middle, change, spread, level) else (middle, high)
    return high


def _told_by(runs: int, change: Change, spread: float, level: float) -> bool:
    """Whether that many runs on each side would show a change of the observed size."""
    df = 2 * runs - 2
    need = t_quantile(level, df) + t_quantile(2 * _POWER - 1, df)
    return need * spread / math.sqrt(runs) <= abs(change.estimate)
