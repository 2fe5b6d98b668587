"""Whose turn it is in a load from threads: users that wait for their answer, or requests that fall due."""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Iterator
from time import perf_counter_ns

import numpy as np

from assay.run.load.arrivals import level_at
from assay.run.load.shape import Closed, Open, Shape

# Connections of an open loop, as a pool of an application has them; a request that finds none free waits its turn.
POOL = 64


class Turns:
    """Whose turn it is: which query is next, and when it is due."""

    def __init__(self, shape: Shape, queries: int, seed: int) -> None:
        self._shape, self._queries, self._seed = shape, queries, seed
        self._next = itertools.count()
        self._due: Iterator[int] = iter(())
        self._lock = threading.Lock()
        self.stopping = self.exhausted = False
        self.begin_ns = 0

    def begin(self) -> None:
        """Start the clock of the load."""
        self.begin_ns = perf_counter_ns()
        if isinstance(self._shape, Open):
            blocks = self._shape.due(self._seed)
            self._due = (self.begin_ns + int(at) for block in blocks for at in block.at_ns)

    @property
    def users(self) -> int:
        """Threads that this load needs."""
        return self._shape.most if isinstance(self._shape, Closed) else POOL

    @property
    def is_closed(self) -> bool:
        """Whether users wait for their answers."""
        return isinstance(self._shape, Closed)

    @property
    def is_finite(self) -> bool:
        """Whether the shape itself says when it is over."""
        if isinstance(self._shape, Open) and self._shape.times is not None:
            return True
        return math.isfinite(sum(level.duration_s for level in self._shape.levels))

    def take(self, user: int, chance: np.random.Generator) -> tuple[int, int] | None:
        """Wait for the next turn of a thread: a query and when it was due (0: now); None when the load is over."""
        return self._asked(user, chance) if isinstance(self._shape, Closed) else self._arrived()

    def _asked(self, user: int, chance: np.random.Generator) -> tuple[int, int] | None:
        shape = self._shape
        if not isinstance(shape, Closed):
            raise TypeError("an open loop has no users")
        if shape.think_s:
            self._sleep_until(perf_counter_ns() + int(chance.exponential(shape.think_s) * 1e9))
        # One level for ever is the usual case and needs no look at the clock.
        while len(shape.levels) > 1 or math.isfinite(shape.levels[0].duration_s):
            at_s = (perf_counter_ns() - self.begin_ns) / 1e9
            if at_s >= sum(level.duration_s for level in shape.levels):
                self.exhausted = True
                return None
            if self.stopping or user < int(level_at(shape.levels, at_s) + 0.5):
                break
            time.sleep(0.002)
        return None if self.stopping else (next(self._next) % self._queries, 0)

    def _arrived(self) -> tuple[int, int] | None:
        with self._lock:
            due = next(self._due, None)
            number = next(self._next)
        if due is None:
            self.exhausted = True
            return None
        self._sleep_until(due)
        return None if self.stopping else (number % self._queries, due)

    def _sleep_until(self, moment_ns: int) -> None:
        while not self.stopping and (left := moment_ns - perf_counter_ns()) > 0:
            time.sleep(min(left / 1e9, 0.05))
