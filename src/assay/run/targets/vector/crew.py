"""The threads of a load: each searches in a way of its own and notes what it saw in columns of its own."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter_ns

import numpy as np
from numpy.typing import NDArray

from assay.run.targets.vector.collection import Searcher
from assay.run.targets.vector.turns import Turns

_ROWS = 4096
RECENT = 100


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
        self.end.append(end)  # last: whoever counts the ends sees whole rows

    def ids(self) -> NDArray[np.int64]:
        """The answers, one row each."""
        if not self._chunks:
            return np.zeros((0, self._k), dtype=np.int64)
        return np.concatenate(self._chunks)[: len(self.query)]


class Crew:
    """The threads of a load and what they saw."""

    def __init__(
        self,
        failures: tuple[type[Exception], ...],
        make: Callable[[], Searcher],
        users: int,
        k: int,
        turns: Turns,
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
        """Whether no thread works any more."""
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
    failures: tuple[type[Exception], ...], make: Callable[[], Searcher], k: int, turns: Turns
) -> Iterator[Crew]:
    """Threads at work; they have ended when this is left."""
    crew = Crew(failures, make, turns.users, k, turns)
    crew.gather()
    try:
        crew.go()
        yield crew
    finally:
        turns.stopping = True
        crew.join()


def _words(problem: Exception) -> str:
    return f"{type(problem).__name__}: {next(iter(str(problem).strip().splitlines()), 'no message')}"
