"""A timer of the kernel with nanoseconds, which the wait for sockets can wait for too.

The wait itself (`epoll_wait`) counts whole milliseconds, which is too coarse for a token each 10 ms.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Protocol

_CLOCK_MONOTONIC = 1
_TFD_NONBLOCK, _TFD_CLOEXEC, _TFD_TIMER_ABSTIME = 0o4000, 0o2000000, 1
_SECOND_NS = 1_000_000_000


class Alarm(Protocol):
    """Becomes readable at the moment it was set to."""

    fd: int

    def set(self, at_ns: int) -> None:
        """Ring at a moment of `time.perf_counter_ns`; 0 is never. An earlier ring is taken back."""
        ...


class _Spec(ctypes.Structure):
    # struct itimerspec: interval, then first expiry, each as seconds and nanoseconds
    _fields_ = (
        ("every_s", ctypes.c_long),
        ("every_ns", ctypes.c_long),
        ("s", ctypes.c_long),
        ("ns", ctypes.c_long),
    )


class TimerFd:
    """Linux: a timerfd on the clock that `time.perf_counter_ns` reads there."""

    def __init__(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd: int = libc.timerfd_create(_CLOCK_MONOTONIC, _TFD_NONBLOCK | _TFD_CLOEXEC)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self._settime = libc.timerfd_settime
        self._spec = _Spec(0, 0, 0, 0)
        self._where = ctypes.byref(self._spec)

    def set(self, at_ns: int) -> None:
        """Ring at a moment; setting it anew also makes it unreadable, so that it is never read."""
        spec = self._spec
        spec.s, spec.ns = divmod(at_ns, _SECOND_NS)
        self._settime(self.fd, _TFD_TIMER_ABSTIME, self._where, None)


def find_alarm() -> Alarm | None:
    """The alarm of this system; None where the wait for sockets is fine enough itself, or nothing better is known."""
    if sys.platform != "linux":
        return None
    try:
        return TimerFd()
    except (OSError, AttributeError):
        return None
