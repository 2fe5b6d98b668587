"""Which of many things no other one exceeds in two respects together, and how certain that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.metrics import Better

Ends = tuple[float, float]
_Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class FrontierCandidate:
    """One thing between two numbers, with how far each may be off; None where that is not known."""

    x: float
    y: float
    x_ends: Ends | None = None
    y_ends: Ends | None = None


@dataclass(frozen=True, slots=True)
class FrontierStatus:
    """How one thing stands among the others."""

    on_front: bool
    """No other is at least as good in both and better in one, by the numbers themselves."""
    surely: bool
    """The same, wherever in their intervals the true numbers lie. A number whose doubt is not known may lie anywhere:
    nothing that depends on it is sure."""


def frontier(spots: Sequence[FrontierCandidate], x_better: Better, y_better: Better) -> list[FrontierStatus]:
    """How each of some things stands among them all."""
    if not spots:
        return []
    x, x_worst, x_best = _sides([(spot.x, spot.x_ends) for spot in spots], x_better)
    y, y_worst, y_best = _sides([(spot.y, spot.y_ends) for spot in spots], y_better)
    beaten = _beats(x, y)
    # Row i, column j: i at its best is nowhere worse than j at its worst, so that it may well beat it.
    may_beat = (x_best[:, None] >= x_worst[None, :]) & (y_best[:, None] >= y_worst[None, :])
    np.fill_diagonal(may_beat, False)
    bounded = np.array([spot.x_ends is not None and spot.y_ends is not None for spot in spots])
    on_front = np.logical_not(beaten.any(axis=0))
    certain = on_front & bounded & np.logical_not(may_beat.any(axis=0))
    return [FrontierStatus(front, sure) for front, sure in zip(on_front.tolist(), certain.tolist(), strict=True)]


def _sides(values: Sequence[tuple[float, Ends | None]], better: Better) -> tuple[_Values, _Values, _Values]:
    """The numbers, their worst and their best ends, all turned so that more is better."""
    sign = 1.0 if better == "higher" else -1.0
    centre = sign * np.array([value for value, _ in values], dtype=np.float64)
    ends = sign * np.array([ends or (-np.inf, np.inf) for _, ends in values], dtype=np.float64)
    return centre, ends.min(axis=1), ends.max(axis=1)


def _beats(x: _Values, y: _Values) -> NDArray[np.bool_]:
    """Row i, column j: i is at least as good as j in both, and better in one."""
    dx, dy = x[:, None] - x[None, :], y[:, None] - y[None, :]
    better: NDArray[np.bool_] = (dx >= 0) & (dy >= 0) & ((dx > 0) | (dy > 0))
    return better
