"""The relative change between two sets of runs or results, with Welch's interval, and how many runs would settle it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from assay.analyse.distributions import t_quantile, t_tail
from assay.analyse.records import Interval

# More runs than this are not worth naming.
MOST_RUNS = 1000
# The runs named must show a change of the observed size four times in five, not only if luck holds.
_POWER = 0.8


@dataclass(frozen=True, slots=True)
class RelativeChange:
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


def change_between(a: NDArray[np.float64], b: NDArray[np.float64]) -> RelativeChange:
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
    return RelativeChange(float(b.mean() - a.mean()), error, max(df, 1.0), logarithmic, base)


def matters(variance: float, a: NDArray[np.float64], b: NDArray[np.float64]) -> bool:
    """Whether a variance is more than the rounding of equal values."""
    size = max(float(np.abs(a).max()), float(np.abs(b).max()))
    return variance > (4e-16 * size) ** 2


def runs_to_tell(change: RelativeChange, runs: int, level: float) -> int | None:
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


def _told_by(runs: int, change: RelativeChange, spread: float, level: float) -> bool:
    """Whether that many runs on each side would show a change of the observed size."""
    df = 2 * runs - 2
    need = t_quantile(level, df) + t_quantile(2 * _POWER - 1, df)
    return need * spread / math.sqrt(runs) <= abs(change.estimate)


Values = NDArray[np.float64]
MIN_RUNS = 2
# Up to so many results the spread between them is hardly known ...
_FEW = 3
# ... and its variance is taken to be at least so many times what the runs let expect, with so many degrees of freedom.
_AT_LEAST = 3.0
_FREEDOM = 4


@dataclass(frozen=True, slots=True)
class ResultReading:
    """One number of one result."""

    value: float
    runs: tuple[float, ...] = ()
    """What each run gave; empty where only the number over all runs is known, as of a percentile."""


def change_between_results(a: Sequence[ResultReading], b: Sequence[ResultReading]) -> RelativeChange | None:
    """The change from some results to others; None where a single result on each side lacks two runs."""
    if any(not one.runs for one in (*a, *b)):  # a percentile over all runs is not the mean of those of the runs
        a, b = ([replace(one, runs=()) for one in side] for side in (a, b))
    if len(a) == len(b) == 1:
        left, right = (np.array(side[0].runs, dtype=np.float64) for side in (a, b))
        return change_between(left, right) if min(left.size, right.size) >= MIN_RUNS else None
    logarithmic = all(value > 0 for one in (*a, *b) for value in _values(one))
    first, second = (_Side.of(side, logarithmic=logarithmic) for side in (a, b))
    variance, df, method = _error(first, second)
    known = matters(variance, first.means, second.means)
    return RelativeChange(
        estimate=float(second.means.mean() - first.means.mean()),
        error=math.sqrt(variance) if known else 0.0,
        df=max(df, 1.0) if known else 1.0,
        logarithmic=logarithmic,
        base=abs(float(np.mean([np.mean(_values(one)) for one in a]))),
        method=method,
    )


def _values(one: ResultReading) -> tuple[float, ...]:
    return one.runs or (one.value,)


@dataclass(frozen=True, slots=True)
class _Side:
    """The results of one side, on the compared scale."""

    means: Values
    counts: Values
    """Runs of each result."""
    within: float | None
    """Variance between the runs of a result, over all results; None where none has two."""
    freedom: int
    """Degrees of freedom of `within`."""

    @classmethod
    def of(cls, readings: Sequence[ResultReading], *, logarithmic: bool) -> _Side:
        values = [np.array(_values(one), dtype=np.float64) for one in readings]
        taken = [np.log(one) for one in values] if logarithmic else values
        freedom = sum(one.size - 1 for one in taken)
        squares = sum(float(((one - one.mean()) ** 2).sum()) for one in taken)
        return cls(
            means=np.array([one.mean() for one in taken]),
            counts=np.array([one.size for one in taken], dtype=np.float64),
            within=squares / freedom if freedom else None,
            freedom=freedom,
        )

    def spread(self) -> tuple[float, float]:
        """Variance of one of two or more results, and its degrees of freedom."""
        results = self.means.size
        seen = float(self.means.var(ddof=1))
        expected = (self.within or 0.0) * float((1 / self.counts).mean())
        if results <= _FEW and seen < _AT_LEAST * expected:
            return _AT_LEAST * expected, _FREEDOM
        return max(seen, expected), results - 1


def _error(a: _Side, b: _Side) -> tuple[float, float, str]:
    """Variance of the change, its degrees of freedom, and how they were found."""
    sizes = a.means.size, b.means.size
    if min(sizes) == 1:
        one, many = (a, b) if sizes[0] == 1 else (b, a)
        variance, df = _one_against_many(one, many)
        return variance, df, f"prediction of one result from {max(sizes)}"
    parts = [(variance / side.means.size, df) for side in (a, b) for variance, df in (side.spread(),)]
    return sum(part for part, _ in parts), _welch(parts), f"Welch's t between {sizes[0]} and {sizes[1]} results"


def _one_against_many(one: _Side, many: _Side) -> tuple[float, float]:
    results = many.means.size
    usual, df = many.spread()
    # The new result may have fewer runs, or runs that differ more, than those it is held against.
    freedom, within = max(
        ((side.freedom, side.within) for side in (one, many) if side.within is not None),
        key=lambda pair: pair[1],
        default=(0, 0.0),
    )
    own = within / float(one.counts[0])
    if own <= usual:
        return usual * (1 + 1 / results), df
    return own + usual / results, min(df, _welch([(own, freedom), (usual / results, df)]))


def _welch(parts: Sequence[tuple[float, float]]) -> float:
    """Degrees of freedom of a sum of variances, each with its own."""
    total = sum(part for part, _ in parts)
    below = sum(part * part / df for part, df in parts if df)
    return total * total / below if below else 1.0
