"""Axes with round numbers on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Beyond this ratio the small values of a linear axis would all lie on one spot.
_LOG_FROM = 40.0


@dataclass(frozen=True, slots=True)
class Axis:
    """A scale from values to a share of the axis' length, with its ticks."""

    low: float
    high: float
    ticks: tuple[float, ...]
    log: bool = False

    def share(self, value: float) -> float:
        """Where a value lies, 0 at the low end and 1 at the high end; values beyond stick to the ends."""
        position, low, high = (math.log10(v) if self.log else v for v in (max(value, self.low), self.low, self.high))
        return min(max((position - low) / (high - low), 0.0), 1.0)

    def shares(self, values: NDArray[np.float64]) -> list[float]:
        """Where many values lie."""
        low, high = (math.log10(end) if self.log else end for end in (self.low, self.high))
        position = np.log10(np.maximum(values, self.low)) if self.log else values
        return list(np.clip((position - low) / (high - low), 0.0, 1.0).tolist())

    def percent(self, value: float) -> str:
        """Where a value lies, as SVG wants it."""
        return f"{100 * self.share(value):.2f}%"

    def label(self, tick: float) -> str:
        """A tick's number, with as many decimals as its neighbours need."""
        if self.log or len(self.ticks) < 2:
            return f"{tick:,.10g}"
        step = self.ticks[1] - self.ticks[0]
        if max(abs(self.low), abs(self.high)) >= 1e7 or step < 1e-5:
            return f"{tick:.3g}"
        return f"{tick:,.{_decimals(step)}f}"


def axis_for(values: Sequence[float], *, zero: bool = False, count: int = 5, may_log: bool = False) -> Axis:
    """An axis that holds all values, from zero on when asked, logarithmic when allowed and needed."""
    low, high = min(values), max(values)
    if may_log and low > 0 and high / low > _LOG_FROM:
        return _log_axis(low, high)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if high <= low:
        margin = abs(high) * 0.05 or 1.0
        low, high = (low if zero else low - margin), high + margin
    step = _nice_step((high - low) / count)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return Axis(first * step, last * step, tuple(_clean(i * step, step) for i in range(first, last + 1)))


def close_axis(low: float, high: float, count: int = 5) -> Axis:
    """An axis that ends exactly at the values given, with round ticks between them."""
    if high <= low:
        return axis_for((low,), count=count)
    step = _nice_step((high - low) / count)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return Axis(low, high, tuple(_clean(i * step, step) for i in range(first, last + 1)))


def _log_axis(low: float, high: float) -> Axis:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    every = max(1, math.ceil((last - first) / 6))
    return Axis(10.0**first, 10.0**last, tuple(10.0**i for i in range(first, last + 1, every)), log=True)


def _nice_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * (1 - 1e-9))


def _decimals(step: float) -> int:
    exact = min(-math.floor(math.log10(step)), 300)  # a larger power of ten overflows a float
    return max(exact + (1 if abs(step * 10**exact - 2.5) < 1e-6 else 0), 0)


def _clean(value: float, step: float) -> float:
    return round(value, _decimals(step) + 3)
