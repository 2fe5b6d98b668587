"""How much a series that remembers its past tells less than independent samples would."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Lags beyond this are left to the batches, which see them all at once.
_LAGS = 100
_BATCHES = 32
_SMALLEST_BATCH = 16
# Longer series are folded into so many means first: millions of token times must not take seconds to look at.
_LONGEST = 100_000


def variance_inflation(series: NDArray[np.float64]) -> float:
    """By how much the variance of the series' mean exceeds that of independent samples; 1 or more.

    Two estimators see different things: the sum of autocorrelations sees short memory even in short series,
    batch means see long memory. The larger one counts, since a too wide interval is the smaller lie.
    """
    if series.size < 4:
        return 1.0
    centred = series - series.mean()
    variance = _product(centred, centred) / series.size
    if variance <= 0:
        return 1.0
    if series.size > 2 * _LONGEST:
        return max(1.0, _folded(centred, variance))
    return max(1.0, _by_autocorrelation(centred, variance), _by_batches(centred, variance))


def _folded(centred: NDArray[np.float64], variance: float) -> float:
    """The inflation of a long series: that of neighbours within a fold, times that of the folds' means."""
    size = centred.size // _LONGEST
    means = centred[: size * _LONGEST].reshape(_LONGEST, size).mean(axis=1)
    return size * float(means.var()) / variance * variance_inflation(means)


def _by_autocorrelation(centred: NDArray[np.float64], variance: float) -> float:
    """One plus twice the sum of autocorrelations, up to the first pair that is not positive (Geyer 1992)."""
    n = centred.size
    total = 1.0
    for lag in range(1, min(_LAGS, n // 4), 2):
        pair = _autocorrelation(centred, lag, variance) + _autocorrelation(centred, lag + 1, variance)
        if pair <= 0:
            break
        total += 2 * pair
    # Removing the mean makes every autocorrelation about total / n too small.
    return total / max(1 - total / n, 0.1)


def _autocorrelation(centred: NDArray[np.float64], lag: int, variance: float) -> float:
    return _product(centred[lag:], centred[:-lag]) / centred.size / variance


def _product(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """The inner product, without BLAS: its threads would start up beside whatever is being measured."""
    return float(np.einsum("i,i->", a, b))


def _by_batches(centred: NDArray[np.float64], variance: float) -> float:
    """The variance of batch means over what it would be for independent samples."""
    batches = min(_BATCHES, centred.size // _SMALLEST_BATCH)
    if batches < 8:
        return 1.0
    size = centred.size // batches
    means = centred[: batches * size].reshape(batches, size).mean(axis=1)
    return float(means.var(ddof=1)) * size / variance
