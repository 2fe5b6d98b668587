"""The event loop: waits for sockets and for the next moment, with a nanosecond timer of the kernel; can pause."""

from __future__ import annotations

import ctypes
import heapq
import os
import select
import selectors
import sys
from collections.abc import Callable
from time import perf_counter_ns, sleep

_CLOCK_MONOTONIC = 1
_TFD_NONBLOCK, _TFD_CLOEXEC, _TFD_TIMER_ABSTIME = 0o4000, 0o2000000, 1
_SECOND_NS = 1_000_000_000
READ, WRITE = 1, 4  # the numbers of EPOLLIN and EPOLLOUT
OnEvent = Callable[[int], None]


class _Spec(ctypes.Structure):
    # struct itimerspec: interval, then first expiry, each as seconds and nanoseconds
    _fields_ = (("every_s", ctypes.c_long), ("every_ns", ctypes.c_long), ("s", ctypes.c_long), ("ns", ctypes.c_long))


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
        """Become readable at a moment, 0 is never; setting it again makes it unreadable, so that it is never read."""
        spec = self._spec
        spec.s, spec.ns = divmod(at_ns, _SECOND_NS)
        self._settime(self.fd, _TFD_TIMER_ABSTIME, self._where, None)


def find_alarm() -> TimerFd | None:
    """The alarm of this system; None where the wait for sockets is fine enough itself, or nothing better is known."""
    if sys.platform != "linux":
        return None
    try:
        return TimerFd()
    except (OSError, AttributeError):
        return None


class SelectorPoll:
    """Where there is no epoll: the selector of the system, kqueue on macOS, which waits with nanoseconds."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def register(self, fd: int, mask: int, /) -> None:
        self._selector.register(fd, _events(mask))

    def modify(self, fd: int, mask: int, /) -> None:
        self._selector.modify(fd, _events(mask))

    def unregister(self, fd: int, /) -> None:
        self._selector.unregister(fd)

    def poll(self, timeout: float | None = None, /) -> list[tuple[int, int]]:
        ready = self._selector.select(timeout)
        return [(key.fd, (READ if mask & 1 else 0) | (WRITE if mask & 2 else 0)) for key, mask in ready]


def _events(mask: int) -> int:
    return (selectors.EVENT_READ if mask & READ else 0) | (selectors.EVENT_WRITE if mask & WRITE else 0)


class Loop:
    """Sockets and moments, in one thread.

    Moments are nanoseconds of the *world's* clock: `time.perf_counter_ns` less the time for which the world
    was stopped, so that whatever waits while it is stopped waits that much longer.
    """

    def __init__(self, poll: SelectorPoll | None = None) -> None:
        own = poll is None and hasattr(select, "epoll")
        self._poll: select.epoll | SelectorPoll = poll or (select.epoll() if own else SelectorPoll())
        self._alarm = find_alarm() if own else None
        self._set_ns = 0
        self._watched: dict[int, OnEvent] = {}
        self._waiting: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self.stopped_ns = 0
        if self._alarm is not None:
            self.watch(self._alarm.fd, READ, _ignore)

    def now(self) -> int:
        """The world's clock."""
        return perf_counter_ns() - self.stopped_ns

    def at(self, moment_ns: int, action: Callable[[], None]) -> None:
        """Do something at a moment of the world's clock; what is due at the same moment keeps its order."""
        self._count += 1
        heapq.heappush(self._waiting, (moment_ns, self._count, action))

    def watch(self, fd: int, mask: int, on_event: OnEvent) -> None:
        self._watched[fd] = on_event
        self._poll.register(fd, mask)

    def change(self, fd: int, mask: int) -> None:
        self._poll.modify(fd, mask)

    def forget(self, fd: int) -> None:
        if self._watched.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def stop_the_world(self, for_s: float) -> tuple[int, int]:
        """Do nothing at all for a while: accept nothing, read nothing, write nothing. Says from when to when."""
        begin = perf_counter_ns()
        sleep(for_s)
        end = perf_counter_ns()
        self.stopped_ns += end - begin
        return begin, end

    def run(self) -> None:
        """Run until something raises."""
        waiting, watched, poll = self._waiting, self._watched, self._poll.poll
        while True:
            for fd, mask in poll(self._until_next()):
                on_event = watched.get(fd)  # one event can end the connection of another
                if on_event is not None:
                    on_event(mask)
            if waiting:
                now = perf_counter_ns() - self.stopped_ns
                while waiting and waiting[0][0] <= now:
                    heapq.heappop(waiting)[2]()

    def _until_next(self) -> float | None:
        """Seconds to wait at most, None for any time; an alarm is set instead where there is one."""
        moment = self._waiting[0][0] + self.stopped_ns if self._waiting else 0
        if self._alarm is not None:
            if moment != self._set_ns:
                self._alarm.set(moment)
                self._set_ns = moment
            return None
        return max(0.0, (moment - perf_counter_ns()) / 1e9) if moment else None


def _ignore(mask: int) -> None:
    """The alarm says no more than that it is time to look."""
