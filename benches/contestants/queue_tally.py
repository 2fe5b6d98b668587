"""What the contestants of the queue bench share: no-op tasks are counted, and the last one ends the process."""

import json
import os
from time import perf_counter


class Tally:
    """Counts tasks done; the clock of the work runs from when it begins, at the latest with the first task."""

    def __init__(self, tasks: int) -> None:
        self._tasks, self._done = tasks, 0
        self._begin = perf_counter()
        self._enqueue_s = self._first = 0.0

    def enqueued(self) -> None:
        """All tasks are queued; now they are worked off."""
        self._enqueue_s = perf_counter() - self._begin

    def begin(self) -> None:
        """The worker runs: the first task is about to be fetched."""
        self._first = perf_counter()

    def done(self, count: int = 1) -> None:
        """Some tasks are done; prints the figures after the last."""
        if not self._first:  # peers do not say when their worker runs: its start costs them nothing
            self.begin()
        self._done += count
        if self._done >= self._tasks:
            work_s = perf_counter() - self._first
            figures = {"enqueue_s": self._enqueue_s, "work_s": work_s, "tasks": self._done}
            print(json.dumps(figures), flush=True)
            os._exit(0 if self._done == self._tasks else 1)
