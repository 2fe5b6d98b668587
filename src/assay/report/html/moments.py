"""An axis of time: ticks at whole months, weeks, days or hours, written as people write them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Literal

from assay.report.html.axis import Axis

_HOUR = 3600.0
_DAY = 24 * _HOUR
# What lies between two ticks: a number of hours, of days or of months.
_STEPS: tuple[tuple[Literal["hours", "days", "months"], int, float], ...] = (
    ("hours", 1, _HOUR), ("hours", 6, 6 * _HOUR), ("days", 1, _DAY), ("days", 2, 2 * _DAY), ("days", 7, 7 * _DAY),
    ("days", 14, 14 * _DAY), ("months", 1, 30 * _DAY), ("months", 2, 61 * _DAY), ("months", 3, 91 * _DAY),
    ("months", 6, 182 * _DAY), ("months", 12, 365 * _DAY), ("months", 60, 5 * 365 * _DAY),
)  # fmt: skip
_MOST_TICKS = 6


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
