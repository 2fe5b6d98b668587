"""The change between sets of results: where a side has several, the spread between them is the error term.

Each result is one number on the compared scale, the mean of its runs. Results differ more than their runs let expect
(another day, another placement in memory, another neighbour), so that with several results on a side

    s²     = max( variance between its results, variance between runs / runs ), with k - 1 degrees of freedom
    error² = s² + s²/k                    one new result against k earlier ones
    error² = s²(a)/k(a) + s²(b)/k(b)      several on each side

A new result whose own runs tell of a larger error keeps that. Two or three results hardly tell how much results differ:
of them s² is taken to be at least three times what the runs let expect, with four degrees of freedom. This finds most
of what is plain to see, and still calls equal things worse in less than one of twenty cases, whatever the true spread
between results. With one result on each side nothing is known about that spread, and Welch's interval between runs is
all that can be said.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from assay.analyse.compare.welch import Change, change_between, matters

Values = NDArray[np.float64]
MIN_RUNS = 2
# Up to so many results the spread between them is hardly known ...
_FEW = 3
# ... and its variance is taken to be at least so many times what the runs let expect, with so many degrees of freedom.
_AT_LEAST = 3.0
_FREEDOM = 4


@dataclass(frozen=True, slots=True)
class Reading:
    """One number of one result."""

    value: float
    runs: tuple[float, ...] = ()
    """What each run gave; empty where only the number over all runs is known, as of a percentile."""


def change_between_results(a: Sequence[Reading], b: Sequence[Reading]) -> Change | None:
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
    return Change(
        estimate=float(second.means.mean() - first.means.mean()),
        error=math.sqrt(variance) if known else 0.0,
        df=max(df, 1.0) if known else 1.0,
        logarithmic=logarithmic,
        base=abs(float(np.mean([np.mean(_values(one)) for one in a]))),
        method=method,
    )


def _values(one: Reading) -> tuple[float, ...]:
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
    def of(cls, readings: Sequence[Reading], *, logarithmic: bool) -> _Side:
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
