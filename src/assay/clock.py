"""The clocks: a monotonic one for measuring, a calendar one for records."""

from __future__ import annotations

import threading
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


class SteadyClock:
    """Calendar time without its steps: for spans that end at a moment, such as leases.

    It follows a drifting calendar. When the calendar is set, or the machine slept, it continues by the monotonic clock.
    """

    STEP_S = 1.0
    """The calendar was set if it moved this much against the monotonic clock between two looks."""

    def __init__(self, clock: Clock, ahead_s: float = 0.0) -> None:
        """Begin at the calendar time."""
        self._clock = clock
        self._lock = threading.Lock()
        self._left_out_s = -ahead_s
        self._distance_s = self._distance()
        self.steps = 0
        """How often the calendar was set so far."""

    def now_s(self) -> float:
        """Seconds since 1970, without the steps."""
        with self._lock:
            distance_s = self._distance()
            moved_s = distance_s - self._distance_s
            if abs(moved_s) >= self.STEP_S:
                self._left_out_s += moved_s
                self.steps += 1
            self._distance_s = distance_s
            return self._clock.monotonic_s() + distance_s - self._left_out_s

    def _distance(self) -> float:
        """How far the calendar is ahead of the monotonic clock."""
        return self._clock.utc().timestamp() - self._clock.monotonic_s()


def iso(moment: datetime) -> str:
    """Write a moment as ISO 8601 with milliseconds and `+00:00`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds")


def wall_time(local: str) -> str:
    """Write an ISO 8601 time as people read a clock: the weekday, the minute, and the distance from UTC."""
    return datetime.fromisoformat(local).strftime("%a %Y-%m-%d %H:%M %z")
