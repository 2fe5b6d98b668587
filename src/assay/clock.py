"""The clocks: a monotonic one for measuring, a calendar one for records."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What code that decides by time asks for the time."""

    def monotonic_s(self) -> float:
        """Seconds that never run backwards."""
        ...

    def utc(self) -> datetime:
        """The calendar time, aware, in UTC."""
        ...


class SystemClock:
    """The clocks of this machine."""

    def monotonic_s(self) -> float:
        """Seconds that never run backwards."""
        return time.monotonic()

    def utc(self) -> datetime:
        """The calendar time, aware, in UTC."""
        return datetime.now(UTC)


SYSTEM_CLOCK = SystemClock()


def iso(moment: datetime) -> str:
    """Write a moment as ISO 8601 with milliseconds and `+00:00`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds")


def wall_time(local: str) -> str:
    """Write an ISO 8601 time as people read a clock: the weekday, the minute, and the distance from UTC."""
    return datetime.fromisoformat(local).strftime("%a %Y-%m-%d %H:%M %z")
