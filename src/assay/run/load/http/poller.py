"""Waiting for the network or for a moment, whichever comes first, with the system's own precision."""

from __future__ import annotations

import ctypes
import os
import selectors
import sys
from time import perf_counter_ns
from typing import Protocol

READ, WRITE = 1, 4  # the numbers of EPOLLIN and EPOLLOUT
_ABSOLUTE = 1
_MONOTONIC = 1
_TFD_NONBLOCK = 0o4000
_TFD_CLOEXEC = 0o2000000
# Where no precise timer is available, the last stretch before a due time is a busy wait.
_SPIN_NS = 1_200_000


class Poller(Protocol):
    """Waits for sockets and for one moment."""

    def watch(self, fd: int, events: int) -> None:
        """Begin to wait for a socket."""

    def change(self, fd: int, events: int) -> None:
        """Wait for something else of it."""

    def forget(self, fd: int) -> None:
        """Wait for it no more."""

    def wait(self, until_ns: int) -> list[tuple[int, int]]:
        """Sockets that are ready, with what for; empty when the moment (of perf_counter_ns) came first."""

    def close(self) -> None:
        """Let go of everything."""


def make_poller() -> Poller:
    """The best poller of this system."""
    if sys.platform == "linux":
        timer = _timerfd()
        if timer is not None:
            return _Epoll(*timer)
    return _Portable()


class _ITimerSpec(ctypes.Structure):
    _fields_ = (
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("value_s", ctypes.c_long),
        ("value_ns", ctypes.c_long),
    )


def _timerfd() -> tuple[int, ctypes.CDLL] | None:
    """A timer of the kernel that fires at an absolute moment: epoll's own timeout is rounded to milliseconds."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        fd = libc.timerfd_create(_MONOTONIC, _TFD_NONBLOCK | _TFD_CLOEXEC)
    except (OSError, AttributeError):
        return None
    return (fd, libc) if fd >= 0 else None


class _Epoll:
    """Linux: epoll with a timerfd among its sockets."""

    def __init__(self, timer: int, libc: ctypes.CDLL) -> None:
        import select

        self._epoll = select.epoll()
        self._poll = self._epoll.poll
        self._timer = timer
        self._settime = libc.timerfd_settime
        self._spec = _ITimerSpec()
        self._reference = ctypes.byref(self._spec)
        self._armed = 0
        self._epoll.register(timer, READ)

    def watch(self, fd: int, events: int) -> None:
        self._epoll.register(fd, events)

    def change(self, fd: int, events: int) -> None:
        self._epoll.modify(fd, events)

    def forget(self, fd: int) -> None:
        self._epoll.unregister(fd)

    def wait(self, until_ns: int) -> list[tuple[int, int]]:
        # A timer that would fire later than the moment is moved; one that fires earlier costs one idle turn.
        if until_ns != self._armed:
            self._arm(until_ns)
        ready = self._poll()
        for index, (fd, _) in enumerate(ready):
            if fd == self._timer:
                del ready[index]
                self._drain()
                break
        return ready

    def close(self) -> None:
        self._epoll.close()
        os.close(self._timer)

    def _arm(self, until_ns: int) -> None:
        self._armed = until_ns
        # A moment of zero would disarm it; one in the past fires immediately.
        self._spec.value_s, self._spec.value_ns = divmod(max(1, until_ns), 1_000_000_000)
        self._settime(self._timer, _ABSOLUTE, self._reference, None)

    def _drain(self) -> None:
        self._armed = 0
        try:
            os.read(self._timer, 8)
        except BlockingIOError:  # it was moved after it had fired
            return


class _Portable:
    """Elsewhere: the standard selector, and open eyes for the last millisecond."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def watch(self, fd: int, events: int) -> None:
        self._selector.register(fd, _to_selector(events))

    def change(self, fd: int, events: int) -> None:
        self._selector.modify(fd, _to_selector(events))

    def forget(self, fd: int) -> None:
        self._selector.unregister(fd)

    def wait(self, until_ns: int) -> list[tuple[int, int]]:
        while True:
            left_ns = until_ns - perf_counter_ns()
            ready = self._selector.select(max(0.0, (left_ns - _SPIN_NS) / 1e9))
            if ready or left_ns <= 0:
                return [(key.fd, _from_selector(mask)) for key, mask in ready]

    def close(self) -> None:
        self._selector.close()


def _to_selector(events: int) -> int:
    return (selectors.EVENT_READ if events & READ else 0) | (selectors.EVENT_WRITE if events & WRITE else 0)


def _from_selector(mask: int) -> int:
    return (READ if mask & selectors.EVENT_READ else 0) | (WRITE if mask & selectors.EVENT_WRITE else 0)
