"""The load from threads against engines whose truth is known: pace, failures, open loops, stages, ends."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest
from tests.unit.run.targets.vector.conftest import Stage

from assay.analyse.steady_state import enough, steady
from assay.errors import MeasureError
from assay.plan.job import Job
from assay.run.contract import Order, Rules
from assay.run.targets.vector.collection import SearchLoad
from assay.run.targets.vector.threads import drive_threads
from assay.spec.benchmark import Definition

pytestmark = pytest.mark.simulated


class Slow:
    """An engine whose every search takes a known time; some of them fail."""

    name = "slow"
    failures = (RuntimeError,)

    def __init__(self, seconds: float, fail_every: int = 0, breaks: Exception | None = None) -> None:
        self.seconds, self.fail_every, self.breaks = seconds, fail_every, breaks
        self.made = self.closed = self.calls = 0

    def searcher(self, queries):
        self.made += 1
        if self.breaks is not None and self.made == 2:
            raise self.breaks
        engine = self

        class Searcher:
            def search(self, query):
                engine.calls += 1
                time.sleep(engine.seconds)
                if engine.fail_every and engine.calls % engine.fail_every == 0:
                    raise RuntimeError("no room\nat all")
                return np.array([query, query + 1])

            def close(self):
                engine.closed += 1

        return Searcher()


def drive(engine, load, measure=None, queries=10, k=3):
    document = {"target": {"endpoint": "postgresql://x", "api": "pgvector"}, "workload": {"k": k}, "load": load}
    document["measure"] = measure or {"warmup": "none"}
    definition = Definition.model_validate_json(json.dumps(document))
    order = Order(Job("b", "0", 0, definition), 0, ".")
    asked = np.zeros((queries, 4), dtype=np.float32)
    return drive_threads(engine, SearchLoad(asked, order, Stage(), Rules(steady, enough), time.perf_counter_ns()))


@pytest.mark.quiet
def test_a_closed_loop_keeps_its_concurrency():
    engine = Slow(0.01)
    found = drive(engine, {"concurrency": 4, "duration": "500ms"})
    inside = found.measured()
    assert 100 < inside.sum() <= 204
    assert np.median((found.end_ns - found.due_ns)[inside]) / 1e6 == pytest.approx(10, abs=3)
    assert engine.made == engine.closed == 4
    assert (found.sent_ns == found.due_ns).all()


def test_every_query_is_asked_in_turn_and_keeps_its_own_answer():
    found = drive(Slow(0.0), {"concurrency": 3, "requests": 500})
    assert found.measured().sum() == 500
    assert np.array_equal(found.ids[:, 0], found.query)
    assert (found.ids[:, 2] == -1).all()
    counts = np.bincount(found.query, minlength=10)
    assert counts.max() - counts.min() <= 1


@pytest.mark.quiet
def test_warmup_goes_over_into_measurement_without_a_gap():
    found = drive(Slow(0.002), {"concurrency": 2, "duration": "300ms"}, {"warmup": 60})
    assert found.warmup().sum() >= 60
    due = np.sort(found.due_ns)
    around = due[(due > found.window[0] - 30_000_000) & (due < found.window[0] + 30_000_000)]
    assert np.diff(around).max() < 20_000_000


@pytest.mark.quiet
def test_an_open_loop_counts_from_the_due_time():
    # One search takes 20 ms and 100 a second are due: they overlap, and none may wait for another.
    found = drive(Slow(0.02), {"rate": 100, "arrivals": "constant", "duration": "600ms"})
    inside = found.measured()
    assert inside.sum() == pytest.approx(60, abs=3)
    assert np.median(np.diff(found.due_ns[inside])) == pytest.approx(10e6, rel=0.01)
    assert np.median((found.end_ns - found.due_ns)[inside]) / 1e6 == pytest.approx(20, abs=4)
    assert (found.sent_ns >= found.due_ns).all()


def test_an_overloaded_pool_shows_in_the_latency(monkeypatch):
    from assay.run.targets.vector import threads

    monkeypatch.setattr(threads, "POOL", 1)
    found = drive(Slow(0.02), {"rate": 100, "arrivals": "constant", "duration": "600ms"})
    inside = found.measured()
    waited = (found.sent_ns - found.due_ns)[inside] / 1e6
    assert waited.max() > 200  # half of the requests are served, the others queue


@pytest.mark.quiet
def test_think_time():
    found = drive(Slow(0.001), {"concurrency": 2, "think": "50ms", "duration": "800ms"})
    assert 8 < found.measured().sum() < 70


@pytest.mark.quiet
def test_stages_of_a_closed_loop():
    stages = [{"duration": "300ms", "concurrency": 1}, {"duration": "300ms", "concurrency": 6}]
    found = drive(Slow(0.01), {"stages": stages})
    half = found.window[0] + 300_000_000
    early, late = (found.due_ns < half).sum(), (found.due_ns >= half).sum()
    assert late > 3 * early
    assert (found.due_ns.max() - found.window[0]) / 1e9 == pytest.approx(0.6, abs=0.1)


def test_failures_are_counted_and_the_load_continues():
    found = drive(Slow(0.0005, fail_every=4), {"concurrency": 2, "requests": 400})
    failed = found.outcome[found.measured()] == 1
    assert failed.mean() == pytest.approx(0.25, abs=0.03)
    assert found.examples == {"error": "RuntimeError: no room"}
    assert (found.ids[found.outcome == 1] == -1).all()


def test_a_load_that_never_works_ends_soon():
    begin = time.monotonic()
    found = drive(Slow(0.001, fail_every=1), {"concurrency": 2, "duration": "30s"})
    assert time.monotonic() - begin < 5
    assert found.stopped.startswith("errors: none of the first")


def test_too_many_errors_end_a_load():
    found = drive(Slow(0.001, fail_every=2), {"concurrency": 1, "duration": "30s", "errors": "20%"})
    assert found.stopped.startswith("errors: 5")


def test_a_thread_that_cannot_begin_ends_all():
    engine = Slow(0.001, breaks=MeasureError("too many clients", code="unreachable"))
    with pytest.raises(MeasureError, match="too many clients"):
        drive(engine, {"concurrency": 4, "duration": "30s"})
    assert engine.closed == engine.made - 1


def test_an_error_that_is_not_of_the_engine_is_not_swallowed():
    engine = Slow(0.001, fail_every=3)
    engine.failures = (KeyError,)
    with pytest.raises(RuntimeError, match="no room"):
        drive(engine, {"concurrency": 2, "duration": "30s"})


def test_the_deadline_of_the_run_ends_a_load():
    found = drive(Slow(0.001), {"duration": "60s"}, {"warmup": "none", "timeout": "2.5s"})
    assert found.stopped.startswith("deadline")


@pytest.mark.parametrize("load", [{"trace": "t.csv"}, {"clients": 2}])
def test_loads_that_threads_cannot_drive(load):
    with pytest.raises(MeasureError, match="threads"):
        drive(Slow(0.001), load)
