"""Values far from the others, by median and MAD: flagged with run and sample id, never dropped."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.analyse.records import Outlier

KEPT = 20
# Iglewicz and Hoaglin's limit for many values. The MAD of few values is often small by luck, so that limit
# would flag something in one of five sets of five normal values; the second term brings it to one in fifteen or fewer.
_LIMIT = 3.5
_SMALL_SET = 110.0
# Closer than this to the median nobody calls a value odd, however well the others agree.
_NEAREST = 0.01
_MAD_TO_DEVIATION = 1.4826  # both make the scale a standard deviation for normal values
_MEAN_TO_DEVIATION = 1.2533


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """The finite values of all runs in one row, and where each came from."""

    values: NDArray[np.float64]
    positions: tuple[NDArray[np.int64] | None, ...]  # of a run's values in that run; None where all of them are here
    starts: NDArray[np.int64]  # where each run's values begin
    runs: tuple[int, ...]
    whole_run: bool  # one number per run: it has no sample id


@dataclass(frozen=True, slots=True)
class Flagged:
    """How many values are outliers, and the most extreme of them."""

    count: int
    extreme: tuple[Outlier, ...]


def limit_for(n: int) -> float:
    """How many robust deviations from the median make a value an outlier among n."""
    return _LIMIT + _SMALL_SET / n**2


def find_outliers(pool: Pool, median: float, mad: float, deviations: NDArray[np.float64]) -> Flagged:
    """Flag the values far from the median."""
    if pool.values.size < 3:
        return Flagged(0, ())
    scale, limit = _scale(mad, deviations)
    nearest = max(limit * scale, _NEAREST * abs(median))
    indices = np.flatnonzero(deviations > nearest)
    if not indices.size or scale <= 0:
        return Flagged(0, ())
    # Ties are broken by position, so that the same values always give the same list.
    order = np.lexsort((indices, -deviations[indices]))[:KEPT]
    extreme = tuple(_outlier(pool, int(i), float(deviations[i]) / scale) for i in indices[order])
    return Flagged(int(indices.size), extreme)


def _scale(mad: float, deviations: NDArray[np.float64]) -> tuple[float, float]:
    """One robust deviation, and the limit that goes with it."""
    if mad > 0:
        return mad * _MAD_TO_DEVIATION, limit_for(deviations.size)
    # More than half of the values are equal, so the MAD is blind; the mean distance still sees the others.
    return float(deviations.mean()) * _MEAN_TO_DEVIATION, _LIMIT


def _outlier(pool: Pool, index: int, score: float) -> Outlier:
    place = int(np.searchsorted(pool.starts, index, side="right")) - 1
    within = index - int(pool.starts[place])
    positions = pool.positions[place]
    sample = None if pool.whole_run else within if positions is None else int(positions[within])
    return Outlier(pool.runs[place], sample, float(pool.values[index]), score)
