"""A load of calls from threads: each has its own connection, and calls when it has its answer or when one is due."""

from __future__ import annotations

import math
import sys
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter_ns

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from assay.errors import MeasureError
from assay.run import window
from assay.run.contract import Rules, Stage
from assay.run.load.http.session import asked_of, reading_s
from assay.run.load.shape import shape_of
from assay.run.load.timing import quiet_collector
from assay.run.targets.vector.collection import Search, SearchLoad, ThreadCollection
from assay.run.targets.vector.report import OK, Searches
from assay.run.targets.vector.workers import RECENT, Log, SearchSchedule, SearchWorkers, working
from assay.spec.benchmark import Definition
from assay.spec.workload import Load

_LOOK_S = 0.02
_NULL_S = 0.15
# Nothing worked at all: after so many failures more of the same tells nothing new.
_HOPELESS = 20


@dataclass(frozen=True, slots=True)
class ThreadLoadPlan:
    """How long to load, warm-up and measurement."""

    warm_s: float
    """Longest time of the warm-up; 0 for none."""
    warm_calls: int | None
    detect: bool
    duration_s: float | None
    requests: int | None
    at_least_s: float
    at_most_s: float
    interval: float
    errors: float | None
    deadline_ns: int
    """When the load must be over, so that its answers can still be read."""


def plan_of(definition: Definition, began_ns: int) -> ThreadLoadPlan:
    """The plan of a definition; the same rules as for every other load."""
    asked, until, load = definition.measure.warmup, definition.measure.until, definition.load
    calls = asked if isinstance(asked, int) else None
    warm_s = asked if isinstance(asked, float) else 0.0 if asked == "none" else max(1.0, until.at_most)
    return ThreadLoadPlan(
        warm_s=math.inf if calls else warm_s,
        warm_calls=calls,
        detect=asked == "auto",
        duration_s=load.duration,
        requests=load.requests or until.samples,
        at_least_s=until.at_least,
        at_most_s=until.at_most,
        interval=until.interval,
        errors=load.errors,
        deadline_ns=began_ns + int((definition.measure.timeout - reading_s(definition.measure)) * 1e9),
    )


def drive_threads(collection: ThreadCollection, load: SearchLoad) -> Searches:
    """Search from threads until enough is known."""
    definition, queries, stage, cpu_s = load.definition, load.queries, load.stage, load.cpu_s
    refuse_other_loads(definition)
    k = definition.workload.k
    turns = SearchSchedule(shape_of(definition.load), len(queries), definition.workload.seed + load.order.run_id)
    plan = plan_of(definition, load.began_ns)
    null = _null_load(turns.users if turns.is_closed else 1, len(queries), k)
    seen = _StopRule(stage, load.rules, plan)
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
    found = _collected(workers, bounds, plan.requests)
    rate = int(found.measured().sum()) / max(1e-9, (bounds[1] - bounds[0]) / 1e9)
    return replace(
        found,
        stopped=seen.why,
        metrics={"client_ceiling_pct": 100 * rate / null.per_s},
        facts={"load": {**asked_of(definition.load), "how": "calls", "threads": turns.users, **seen.facts}},
        machine=window.between(begin, end, harness_ns=null.cost_ns),
    )


def refuse_other_loads(definition: Definition) -> None:
    """Refuse what threads cannot do, before anything is built for it."""
    load = definition.load
    for name, given in (("rate: search", load.rate == "search"), ("trace", load.trace), ("clients", load.clients > 1)):
        if given:
            raise MeasureError(
                f"load.{name} does nothing for a target that is called from threads",
                code="usage",
                at="load",
                try_="use a concurrency, a rate or stages",
            )


@dataclass(slots=True)
class _StopRule:
    """Decides when the warm-up is over and when enough was measured."""

    stage: Stage
    rules: Rules
    plan: ThreadLoadPlan
    why: str = "finished"
    facts: dict[str, JsonValue] = field(default_factory=dict)
    _next_look: int = 30

    def warm_up(self, workers: SearchWorkers, turns: SearchSchedule) -> None:
        """Load until the times are level, or as long or as often as the file says."""
        plan, steady = self.plan, False
        while not steady and not self._must_end(workers, turns):
            elapsed_s = (perf_counter_ns() - turns.begin_ns) / 1e9
            if elapsed_s >= plan.warm_s or (plan.warm_calls is not None and workers.count() >= plan.warm_calls):
                break
            time.sleep(_LOOK_S)
            self.stage.progress(elapsed_s / plan.warm_s if math.isfinite(plan.warm_s) else 0.0)
            # Asked at growing counts only: a question that is put often enough gets the answer it wants.
            if plan.detect and workers.count() >= self._next_look:
                self._next_look = int(workers.count() * 1.4) + 1
                steady = self.rules.steady(workers.durations_ns(turns.begin_ns))
        self.facts["warmup"] = {
            "how": "detected" if plan.detect else "given" if plan.warm_s else "none",
            "calls": workers.count(),
            "seconds": round((perf_counter_ns() - turns.begin_ns) / 1e9, 4),
            "steady": steady if plan.detect else None,
        }

    def measure(self, workers: SearchWorkers, turns: SearchSchedule) -> tuple[int, int]:
        """Go on without a pause until enough is known; return the measured window."""
        begin = turns.begin_ns if not self.plan.warm_s else perf_counter_ns()
        before = workers.count()
        self._next_look = 64
        while not self._must_end(workers, turns) and not self._enough(workers, begin, before, turns):
            time.sleep(_LOOK_S)
        return begin, perf_counter_ns()

    def _enough(self, workers: SearchWorkers, begin: int, before: int, turns: SearchSchedule) -> bool:
        plan, elapsed_s = self.plan, (perf_counter_ns() - begin) / 1e9
        count = workers.count() - before
        if plan.requests is not None:
            self.stage.progress(count / plan.requests)
            # Those in flight at the handover end inside the window and are not part of it.
            return count >= plan.requests + len(workers.logs)
        whole_s = plan.duration_s or plan.at_most_s
        self.stage.progress(elapsed_s / whole_s)
        if plan.duration_s is not None or turns.is_finite:
            return plan.duration_s is not None and elapsed_s >= plan.duration_s
        if elapsed_s >= plan.at_most_s:
            return count > 0
        if elapsed_s < plan.at_least_s or count < self._next_look:
            return False
        self._next_look = int(count * 1.4) + 1
        return self.rules.enough(workers.durations_ns(begin), plan.interval)

    def _must_end(self, workers: SearchWorkers, turns: SearchSchedule) -> bool:
        if turns.stopping or turns.exhausted or workers.is_over:
            return True
        if perf_counter_ns() >= self.plan.deadline_ns:
            self.why = "deadline: the time of the run was over before the load was"
        failed, of = workers.recent_failures()
        if of >= _HOPELESS and failed == of == workers.count():
            self.why = f"errors: none of the first {of} searches worked"
        elif self.plan.errors is not None and of >= RECENT and failed > self.plan.errors * of:
            self.why = f"errors: {failed} of the last {of} searches failed; {self.plan.errors:.0%} is tolerated"
        return self.why != "finished"


@dataclass(frozen=True, slots=True)
class _Null:
    """What our own loop can do where a search takes no time."""

    per_s: float
    cost_ns: float


def _null_load(users: int, queries: int, k: int) -> _Null:
    """Drive a search that does nothing with as many threads as the load has, and with one."""
    costs, rates = [], []
    for count in sorted({1, users}):
        turns = SearchSchedule(shape_of(Load(concurrency=count)), queries, 0)
        with quiet_collector(), _quick_switches(), working((), lambda: _Nothing(k), k, turns) as workers:
            time.sleep(_NULL_S)
        span_s = (perf_counter_ns() - turns.begin_ns) / 1e9
        costs.append(float(np.median(workers.durations_ns(0))))
        rates.append(workers.count() / span_s)
    return _Null(rates[-1], costs[0])


class _Nothing:
    """A search that takes no time."""

    def __init__(self, k: int) -> None:
        found = np.zeros(k, dtype=np.int64)
        self.search: Search = lambda _: found

    def close(self) -> None:
        """Nothing to let go of."""


def _collected(workers: SearchWorkers, bounds: tuple[int, int], requests: int | None) -> Searches:
    """The rows of all threads, by when they were due."""
    words = sorted({one for log in workers.logs for one in log.failures})
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
    """Let a thread that has its answer go on soon: the interpreter's own 5 ms would be part of every latency."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.0002)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
