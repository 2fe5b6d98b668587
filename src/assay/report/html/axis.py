"""Axes: round numbers, and time with ticks at whole months, weeks, days or hours."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import numpy as np
from numpy.typing import NDArray

# Beyond this ratio the small values of a linear axis would all lie on one spot.
_LOG_FROM = 40.0
_HOUR = 3600.0
_DAY = 24 * _HOUR
# What lies between two ticks: a number of hours, of days or of months.
_STEPS: tuple[tuple[Literal["hours", "days", "months"], int, float], ...] = (
    ("hours", 1, _HOUR), ("hours", 6, 6 * _HOUR), ("days", 1, _DAY), ("days", 2, 2 * _DAY), ("days", 7, 7 * _DAY),
    ("days", 14, 14 * _DAY), ("months", 1, 30 * _DAY), ("months", 2, 61 * _DAY), ("months", 3, 91 * _DAY),
    ("months", 6, 182 * _DAY), ("months", 12, 365 * _DAY), ("months", 60, 5 * 365 * _DAY),
)  # fmt: skip
_MOST_TICKS = 6


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


class MomentAxis(Axis):
    """Moments in seconds since 1970, in UTC."""

    __slots__ = ()

    def label(self, tick: float) -> str:
        """A date, or a time of the day where ticks are closer than that."""
        at = datetime.fromtimestamp(tick, UTC)
        apart = self.ticks[1] - self.ticks[0] if len(self.ticks) > 1 else self.high - self.low
        if apart < _DAY:
            return f"{at:%H:%M}" if at.hour or at.minute else f"{at.day} {at:%b}"
        if apart < 28 * _DAY:
            return f"{at.day} {at:%b}"
        # The year once is enough, and leaves room on a phone.
        return f"{at:%b %Y}" if at.month == 1 or tick == self.ticks[0] else f"{at:%b}"


def moment_axis(low: float, high: float) -> MomentAxis:
    """An axis from one moment to another, with a margin at both ends so that no point lies on an edge."""
    span = max(high - low, _HOUR)
    low, high = low - 0.02 * span, low + 1.02 * span
    kind, step, _ = next((one for one in _STEPS if span / one[2] <= _MOST_TICKS), _STEPS[-1])
    ticks = tuple(at for at in _ticks(low, high, kind, step) if at >= low)
    return MomentAxis(low, high, ticks or (low, high))


def _ticks(low: float, high: float, kind: str, step: int) -> Iterator[float]:
    if kind == "months":
        first = datetime.fromtimestamp(low, UTC)
        number = first.year * 12 + first.month - 1
        number -= number % step
        while (at := datetime(number // 12, number % 12 + 1, 1, tzinfo=UTC).timestamp()) <= high:
            yield at
            number += step
        return
    # At the same days and hours wherever the axis begins; weeks begin on a Monday, as the fifth of January 1970.
    distance = step * (_DAY if kind == "days" else _HOUR)
    offset = 4 * _DAY if kind == "days" and step >= 7 else 0.0
    at = offset + distance * math.ceil((low - offset) / distance)
    while at <= high:
        yield at
        at += distance
