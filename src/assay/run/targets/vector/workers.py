"""The threads of a load: whose turn it is, and what each of them saw, in columns of its own."""

from __future__ import annotations

import itertools
import math
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter_ns

import numpy as np
from numpy.typing import NDArray

from assay.run.load.shape import ClosedShape, OpenShape, Shape, level_at
from assay.run.targets.vector.collection import Searcher

# Connections of an open loop, as a pool of an application has them; a request that finds none free waits its turn.
POOL = 64
_ROWS = 4096
RECENT = 100


class SearchSchedule:
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
        if isinstance(self._shape, OpenShape):
            blocks = self._shape.due(self._seed)
            self._due = (self.begin_ns + int(at) for block in blocks for at in block.at_ns)

    @property
    def users(self) -> int:
        """Threads that this load needs."""
        return self._shape.most if isinstance(self._shape, ClosedShape) else POOL

    @property
    def is_closed(self) -> bool:
        """Whether users wait for their answers."""
        return isinstance(self._shape, ClosedShape)

    @property
    def is_finite(self) -> bool:
        """Whether the shape itself says when it is over."""
        if isinstance(self._shape, OpenShape) and self._shape.times is not None:
            return True
        return math.isfinite(sum(level.duration_s for level in self._shape.levels))

    def take(self, user: int, chance: np.random.Generator) -> tuple[int, int] | None:
        """Wait for the next turn of a thread: a query and when it was due (0: now); None when the load is over."""
        return self._asked(user, chance) if isinstance(self._shape, ClosedShape) else self._arrived()

    def _asked(self, user: int, chance: np.random.Generator) -> tuple[int, int] | None:
        shape = self._shape
        if not isinstance(shape, ClosedShape):
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


class Log:
    """What one thread saw, in columns of its own."""

    def __init__(self, k: int) -> None:
        self.query, self.due, self.sent, self.end = array("q"), array("q"), array("q"), array("q")
        self.failed = array("b")
        self.failures: list[str] = []
        self._k = k
        self._chunks: list[NDArray[np.int64]] = []

    def keep(self, query: int, due: int, sent: int, end: int, found: NDArray[np.int64] | None) -> None:
        """Note one search; called between two searches, never while one is timed."""
        row = len(self.query) % _ROWS
        if row == 0:
            self._chunks.append(np.full((_ROWS, self._k), -1, dtype=np.int64))
        if found is not None:
            self._chunks[-1][row, : len(found)] = found[: self._k]
        self.query.append(query)
        self.due.append(due)
        self.sent.append(sent)
        self.failed.append(found is None)
        self.end.append(end)  # last: a count of the ends counts whole rows

    def ids(self) -> NDArray[np.int64]:
        """The answers, one row each."""
        if not self._chunks:
            return np.zeros((0, self._k), dtype=np.int64)
        return np.concatenate(self._chunks)[: len(self.query)]


class SearchWorkers:
    """The threads of a load and what they saw."""

    def __init__(
        self,
        failures: tuple[type[Exception], ...],
        make: Callable[[], Searcher],
        users: int,
        k: int,
        turns: SearchSchedule,
    ) -> None:
        self.logs = [Log(k) for _ in range(users)]
        self.broken: BaseException | None = None
        self._failures, self._turns, self._make = failures, turns, make
        self._gate = threading.Event()
        self._ready = threading.Barrier(users + 1)
        self._threads = [threading.Thread(target=self._live, args=(user,), daemon=True) for user in range(users)]

    def gather(self) -> None:
        """Start the threads and wait until each can search.

        Raises:
            BaseException: what kept one of them from it.
        """
        for thread in self._threads:
            thread.start()
        self._ready.wait()
        if self.broken is not None:
            self.join()

    def go(self) -> None:
        """Let them begin."""
        self._turns.begin()
        self._gate.set()

    def join(self) -> None:
        """Wait until each has its last answer."""
        self._gate.set()
        for thread in self._threads:
            thread.join()
        if self.broken is not None:
            raise self.broken

    @property
    def is_over(self) -> bool:
        """Whether every thread has ended."""
        return not any(thread.is_alive() for thread in self._threads)

    def count(self) -> int:
        """Searches that have ended."""
        return sum(len(log.end) for log in self.logs)

    def durations_ns(self, since_ns: int) -> NDArray[np.int64]:
        """How long each search since a moment took, in the order of their ends; those that failed are left out."""
        parts = []
        for log in self.logs:
            count = len(log.end)
            # Copies: a column that is looked at cannot grow.
            end, due = np.frombuffer(log.end[:count], np.int64), np.frombuffer(log.due[:count], np.int64)
            fine = (np.frombuffer(log.failed[:count], np.int8) == 0) & (due >= since_ns)
            parts.append(np.stack([end[fine], end[fine] - due[fine]]))
        both = np.concatenate(parts, axis=1)
        return np.asarray(both[1][np.argsort(both[0], kind="stable")], dtype=np.int64)

    def recent_failures(self) -> tuple[int, int]:
        """How many of the last searches of all threads failed, and of how many."""
        share = -(-RECENT // len(self.logs))
        last = [flag for log in self.logs for flag in log.failed[-share:]]
        return sum(last), len(last)

    def _live(self, user: int) -> None:
        searcher: Searcher | None = None
        try:
            # Here and not before: some settings of a library belong to the thread that makes them.
            searcher = self._make()
        except BaseException as problem:  # handed to the thread that waits
            self._break(problem)
        self._ready.wait()
        if searcher is None:
            return
        self._gate.wait()
        try:
            self._work(user, searcher)
        except BaseException as problem:
            self._break(problem)
        finally:
            searcher.close()

    def _break(self, problem: BaseException) -> None:
        self.broken = self.broken or problem
        self._turns.stopping = True

    def _work(self, user: int, searcher: Searcher) -> None:
        take, search, keep, clock = self._turns.take, searcher.search, self.logs[user].keep, perf_counter_ns
        said = self.logs[user].failures
        chance = np.random.default_rng([user, 0x7417])
        while (turn := take(user, chance)) is not None:
            query, due = turn
            sent = clock()
            try:
                found: NDArray[np.int64] | None = search(query)
            except self._failures as problem:
                found = None
                said.append(_words(problem))
            end = clock()
            keep(query, due or sent, sent, end, found)


@contextmanager
def working(
    failures: tuple[type[Exception], ...], make: Callable[[], Searcher], k: int, turns: SearchSchedule
) -> Iterator[SearchWorkers]:
    """Threads at work; they have ended when this is left."""
    workers = SearchWorkers(failures, make, turns.users, k, turns)
    workers.gather()
    try:
        workers.go()
        yield workers
    finally:
        turns.stopping = True
        workers.join()


def _words(problem: Exception) -> str:
    return f"{type(problem).__name__}: {next(iter(str(problem).strip().splitlines()), 'no message')}"
