"""A load of calls from threads: each has its own connection, and calls when it has its answer or when one is due."""

from __future__ import annotations

import itertools
import math
import sys
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter_ns

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from assay.run import window
from assay.run.contract import Rules, Stage
from assay.run.load.http.session import deadline_ns, load_facts
from assay.run.load.shape import ClosedShape, OpenShape, Shape, level_at, shape_of
from assay.run.load.timing import quiet_collector
from assay.run.targets.vector.collection import Search, Searcher, SearchLoad, ThreadCollection, refuse_loads
from assay.run.targets.vector.report import OK, Searches
from assay.spec.benchmark import Definition
from assay.spec.workload import Load

_POLL_S = 0.02
_NULL_S = 0.15
# Nothing worked at all: after this many failures, another attempt gives no new information.
_HOPELESS = 20


def drive_threads(collection: ThreadCollection, load: SearchLoad) -> Searches:
    """Search from threads until enough is known."""
    definition, queries, stage, cpu_s = load.definition, load.queries, load.stage, load.cpu_s
    refuse_loads(
        definition, "does nothing for a target that is called from threads", "use a concurrency, a rate or stages"
    )
    k = definition.workload.k
    turns = SearchSchedule(shape_of(definition.load), len(queries), definition.workload.seed + load.order.run_id)
    null_per_s, null_ns = _null_load(turns.users if turns.is_closed else 1, len(queries), k)
    seen = _StopRule(stage, load.rules, definition, load.began_ns)
    with (
        quiet_collector(),
        _quick_switches(),
        working(collection.failures, lambda: collection.searcher(queries), k, turns) as workers,
    ):
        with stage.phase("warmup"):
            seen.warm_up(workers, turns)
        with stage.phase("measure"):
            begin = window.read(cpu_s())
            bounds = seen.measure(workers, turns)
            end = window.read(cpu_s())
    searches = _collected(workers, bounds, seen.requests)
    rate = int(searches.measured().sum()) / max(1e-9, (bounds[1] - bounds[0]) / 1e9)
    return replace(
        searches,
        stopped=seen.why,
        metrics={"client_ceiling_pct": 100 * rate / null_per_s},
        facts={"load": {**load_facts(definition.load), "how": "calls", "threads": turns.users, **seen.facts}},
        machine=window.between(begin, end, harness_ns=null_ns),
    )


@dataclass(slots=True)
class _StopRule:
    """Decides when the warm-up is over and when enough was measured."""

    stage: Stage
    rules: Rules
    definition: Definition
    began_ns: int
    """When the run began."""
    why: str = "finished"
    facts: dict[str, JsonValue] = field(default_factory=dict)
    _next_check: int = 30

    @property
    def requests(self) -> int | None:
        """Searches to measure."""
        return self.definition.load.requests or self.definition.measure.until.samples

    @property
    def warm_s(self) -> float:
        """Longest time of the warm-up; 0 for none."""
        asked, until = self.definition.measure.warmup, self.definition.measure.until
        if isinstance(asked, int) and asked:
            return math.inf
        return asked if isinstance(asked, float) else 0.0 if asked == "none" else max(1.0, until.at_most)

    def warm_up(self, workers: SearchWorkers, turns: SearchSchedule) -> None:
        """Load until the times are level, or as long or as often as the file says."""
        asked, warm_s, steady = self.definition.measure.warmup, self.warm_s, False
        while not steady and not self._must_end(workers, turns):
            elapsed_s = (perf_counter_ns() - turns.begin_ns) / 1e9
            if elapsed_s >= warm_s or (isinstance(asked, int) and workers.count() >= asked):
                break
            time.sleep(_POLL_S)
            self.stage.progress(elapsed_s / warm_s if math.isfinite(warm_s) else 0.0)
            # Asked at growing counts only: a question that is put often enough gets the answer it wants.
            if asked == "auto" and workers.count() >= self._next_check:
                self._next_check = int(workers.count() * 1.4) + 1
                steady = self.rules.steady(workers.durations_ns(turns.begin_ns))
        self.facts["warmup"] = {
            "how": "detected" if asked == "auto" else "given" if warm_s else "none",
            "calls": workers.count(),
            "seconds": round((perf_counter_ns() - turns.begin_ns) / 1e9, 4),
            "steady": steady if asked == "auto" else None,
        }

    def measure(self, workers: SearchWorkers, turns: SearchSchedule) -> tuple[int, int]:
        """Continue without a pause until enough is known; return the measured window."""
        begin = turns.begin_ns if not self.warm_s else perf_counter_ns()
        before = workers.count()
        self._next_check = 64
        while not self._must_end(workers, turns) and not self._enough(workers, begin, before, turns):
            time.sleep(_POLL_S)
        return begin, perf_counter_ns()

    def _enough(self, workers: SearchWorkers, begin: int, before: int, turns: SearchSchedule) -> bool:
        until, duration_s = self.definition.measure.until, self.definition.load.duration
        elapsed_s = (perf_counter_ns() - begin) / 1e9
        count = workers.count() - before
        if self.requests is not None:
            self.stage.progress(count / self.requests)
            # Those in flight at the handover end inside the window and are not part of it.
            return count >= self.requests + len(workers.logs)
        self.stage.progress(elapsed_s / (duration_s or until.at_most))
        if duration_s is not None or turns.is_finite:
            return duration_s is not None and elapsed_s >= duration_s
        if elapsed_s >= until.at_most:
            return count > 0
        if elapsed_s < until.at_least or count < self._next_check:
            return False
        self._next_check = int(count * 1.4) + 1
        return self.rules.enough(workers.durations_ns(begin), until.interval)

    def _must_end(self, workers: SearchWorkers, turns: SearchSchedule) -> bool:
        if turns.stopping or turns.exhausted or workers.is_over:
            return True
        errors = self.definition.load.errors
        if perf_counter_ns() >= deadline_ns(self.definition.measure, self.began_ns):
            self.why = "deadline: the time of the run was over before the load was"
        failed, of = workers.recent_failures()
        if of >= _HOPELESS and failed == of == workers.count():
            self.why = f"errors: none of the first {of} searches worked"
        elif errors is not None and of >= RECENT and failed > errors * of:
            self.why = f"errors: {failed} of the last {of} searches failed; {errors:.0%} is tolerated"
        return self.why != "finished"


def _null_load(users: int, queries: int, k: int) -> tuple[float, float]:
    """Searches a second and cost of one (ns) where a search does nothing: by all threads of the load, and by one."""
    costs, rates = [], []
    for count in sorted({1, users}):
        turns = SearchSchedule(shape_of(Load(concurrency=count)), queries, 0)
        with quiet_collector(), _quick_switches(), working((), lambda: _Nothing(k), k, turns) as workers:
            time.sleep(_NULL_S)
        span_s = (perf_counter_ns() - turns.begin_ns) / 1e9
        costs.append(float(np.median(workers.durations_ns(0))))
        rates.append(workers.count() / span_s)
    return rates[-1], costs[0]


class _Nothing:
    def __init__(self, k: int) -> None:
        answer = np.zeros(k, dtype=np.int64)
        self.search: Search = lambda _: answer

    def close(self) -> None:
        """Nothing to let go of."""


def _collected(workers: SearchWorkers, bounds: tuple[int, int], requests: int | None) -> Searches:
    """The rows of all threads, by when they were due."""
    words = sorted({failure for log in workers.logs for failure in log.failures})
    kinds = (OK, "error") if words else (OK,)
    due = _column(workers, lambda log: log.due)
    order = np.argsort(due, kind="stable")
    if requests is not None:
        inside = np.flatnonzero(due[order] >= bounds[0])[:requests]
        bounds = (bounds[0], int(due[order][inside[-1]]) + 1 if inside.size == requests else bounds[1])
    return Searches(
        query=_column(workers, lambda log: log.query)[order],
        due_ns=due[order],
        sent_ns=_column(workers, lambda log: log.sent)[order],
        end_ns=_column(workers, lambda log: log.end)[order],
        outcome=np.concatenate([np.frombuffer(log.failed, np.int8) for log in workers.logs]).astype(np.int16)[order],
        ids=np.concatenate([log.ids() for log in workers.logs])[order],
        kinds=kinds,
        window=bounds,
        examples={"error": words[0]} if words else {},
    )


def _column(workers: SearchWorkers, of: Callable[[Log], array[int]]) -> NDArray[np.int64]:
    return np.concatenate([np.frombuffer(of(log), np.int64) for log in workers.logs])


@contextmanager
def _quick_switches() -> Iterator[None]:
    """Let a thread that has its answer continue soon: the interpreter's own 5 ms would be part of every latency."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.0002)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


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
        self.begin_ns = perf_counter_ns()
        if isinstance(self._shape, OpenShape):
            blocks = self._shape.due(self._seed)
            self._due = (self.begin_ns + int(at) for block in blocks for at in block.at_ns)

    @property
    def users(self) -> int:
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
        return self._drawn_shape(user, chance) if isinstance(self._shape, ClosedShape) else self._arrived()

    def _drawn_shape(self, user: int, chance: np.random.Generator) -> tuple[int, int] | None:
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
    def __init__(self, k: int) -> None:
        self.query, self.due, self.sent, self.end = array("q"), array("q"), array("q"), array("q")
        self.failed = array("b")
        self.failures: list[str] = []
        self._k = k
        self._chunks: list[NDArray[np.int64]] = []

    def keep(self, query: int, due: int, sent: int, end: int, neighbours: NDArray[np.int64] | None) -> None:
        """Note one search; called between two searches, never while one is timed."""
        row = len(self.query) % _ROWS
        if row == 0:
            self._chunks.append(np.full((_ROWS, self._k), -1, dtype=np.int64))
        if neighbours is not None:
            self._chunks[-1][row, : len(neighbours)] = neighbours[: self._k]
        self.query.append(query)
        self.due.append(due)
        self.sent.append(sent)
        self.failed.append(neighbours is None)
        self.end.append(end)  # last: a count of the ends counts whole rows

    def ids(self) -> NDArray[np.int64]:
        if not self._chunks:
            return np.zeros((0, self._k), dtype=np.int64)
        return np.concatenate(self._chunks)[: len(self.query)]


class SearchWorkers:
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
        """Start the threads and wait until each can search."""
        for thread in self._threads:
            thread.start()
        self._ready.wait()
        if self.broken is not None:
            self.join()

    def go(self) -> None:
        self._turns.begin()
        self._gate.set()

    def join(self) -> None:
        self._gate.set()
        for thread in self._threads:
            thread.join()
        if self.broken is not None:
            raise self.broken

    @property
    def is_over(self) -> bool:
        return not any(thread.is_alive() for thread in self._threads)

    def count(self) -> int:
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
                neighbours: NDArray[np.int64] | None = search(query)
            except self._failures as problem:
                neighbours = None
                said.append(_words(problem))
            end = clock()
            keep(query, due or sent, sent, end, neighbours)


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
