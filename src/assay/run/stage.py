"""Phases of a run, timed where they happen and told to the process that watches."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter_ns

from assay.run.records import Phase

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
        self._tell({"phase": name})
        start = perf_counter_ns()
        try:
            yield
        finally:
            end = perf_counter_ns()
            self.marks.append((name, start, end))
            self.seconds[name] = self.seconds.get(name, 0.0) + (end - start) / 1e9

    def progress(self, share: float, note: str = "") -> None:
        """Tell how much of the current phase is done, a few times a second at most."""
        now = perf_counter_ns()
        if now - self._last_ns >= PROGRESS_EVERY_NS:
            self._last_ns = now
            self._tell({"share": min(1.0, max(0.0, share)), "note": note})

    def _tell(self, event: dict[str, object]) -> None:
        try:
            os.write(self._fd, json.dumps(event).encode() + b"\n")
        except OSError:
            # Nobody watches any more; the lifeline decides what follows, not the progress line.
            return
