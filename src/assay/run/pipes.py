"""Pipes between a process and the child it starts: handed over, waited for, and progress written to them."""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.run.records import Phase

_RECHECK_S = 0.02


def hand_over(*ends: int) -> tuple[dict[str, Any], list[str]]:
    """What starts a child that inherits some pipe ends, and the words by which it finds them."""
    if sys.platform == "win32":
        import msvcrt
        import subprocess

        handles = [msvcrt.get_osfhandle(end) for end in ends]
        for handle in handles:
            os.set_handle_inheritable(handle, True)
        startup = subprocess.STARTUPINFO(lpAttributeList={"handle_list": handles})
        options = {"startupinfo": startup, "creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        return options, [str(handle) for handle in handles]
    return {"pass_fds": ends, "start_new_session": True}, [str(end) for end in ends]


def take_over(word: str, *, writing: bool) -> int:
    """The pipe end that a child was given, by its word."""
    if sys.platform == "win32":
        import msvcrt

        return msvcrt.open_osfhandle(int(word), os.O_WRONLY if writing else os.O_RDONLY)
    return int(word)


def readable(end: int, wait_s: float) -> bool:
    """Whether something can be read from a pipe, or its other end is closed, within some time."""
    if sys.platform == "win32":
        return _peeked(end, wait_s)
    # Unlike select, poll knows no largest number of a file.
    poll = select.poll()
    poll.register(end, select.POLLIN)
    return bool(poll.poll(wait_s * 1000))


def _peeked(end: int, wait_s: float) -> bool:
    """The same where pipes cannot be waited for: look now and then."""
    if sys.platform != "win32":
        raise NotImplementedError
    import _winapi
    import msvcrt

    until = time.monotonic() + wait_s
    while True:
        try:
            if _winapi.PeekNamedPipe(msvcrt.get_osfhandle(end), 0)[0]:
                return True
        except OSError:  # closed: reading says so
            return True
        if time.monotonic() >= until:
            return False
        time.sleep(_RECHECK_S)


# A line of progress costs microseconds; more than this per second would still disturb for nothing.
PROGRESS_EVERY_NS = 500_000_000


class PipeStage:
    """A stage that writes its events as JSON lines to a pipe."""

    def __init__(self, fd: int) -> None:
        self.seconds: dict[str, float] = {}
        self.marks: list[tuple[str, int, int]] = []  # phase, begin and end (perf_counter_ns), by their ends
        self.where = "start"  # the last phase of the work itself: a failure that is cleaned up did not happen there
        self._fd = fd
        self._last_ns = 0

    @contextmanager
    def phase(self, name: Phase) -> Iterator[None]:
        self.where = self.where if name == "cleanup" else name
        self._send({"phase": name})
        self._last_ns = 0  # the first word about a phase is never left out
        if name == "warmup":
            self._was_warmup()
        start = perf_counter_ns()
        try:
            yield
        finally:
            end = perf_counter_ns()
            self.marks.append((name, start, end))
            self.seconds[name] = self.seconds.get(name, 0.0) + (end - start) / 1e9

    def _was_warmup(self) -> None:
        """The warm-up continues: what was measured so far belonged to it."""
        self.marks = [("warmup" if name == "measure" else name, begin, end) for name, begin, end in self.marks]
        if "measure" in self.seconds:
            self.seconds["warmup"] = self.seconds.get("warmup", 0.0) + self.seconds.pop("measure")

    def progress(self, share: float, note: str = "") -> None:
        """Tell how much of the current phase is done, a few times a second at most."""
        now = perf_counter_ns()
        if now - self._last_ns >= PROGRESS_EVERY_NS:
            self._last_ns = now
            self._send({"share": min(1.0, max(0.0, share)), "note": note})

    def _send(self, event: dict[str, object]) -> None:
        try:
            os.write(self._fd, json.dumps(event).encode() + b"\n")
        except OSError:
            # The parent no longer reads; the lifeline decides what follows, not the progress line.
            return
