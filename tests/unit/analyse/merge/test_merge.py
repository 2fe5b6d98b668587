"""Parts with known truth, put together: what is reported must be what all requests together say."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.analyse.merge import Overlap, PartResult, PartRun, merge_point, merge_run, overlap_of
from assay.analyse.records import MultiRunJobResult
from assay.documents import from_json, to_json
from assay.plan.job import Job
from assay.run.load.http.recording import CODE, NEVER, RequestLog
from assay.run.records import Failure, SampleSet, SingleRunResult, Window
from assay.spec.benchmark import Definition

EPOCH = 1_800_000_000_000_000_000
S = 1_000_000_000


def job(hosts=2, runs=3, **more) -> Job:
    load = {"rate": 40.0, "arrivals": "constant", "duration": 4.0, "hosts": hosts, **more.pop("load", {})}
    whole = {
        "target": {"endpoint": "http://h:1", "api": "openai-chat", "model": "m"},
        "measure": {"runs": runs},
        **more,
    }
    return Job("shared", "d" * 64, 0, Definition.model_validate({**whole, "load": load}), campaign="c1")


class Machine:
    """A machine that asks `rate` requests a second, each of which takes what `took_s` says."""

    def __init__(self, host, begin_s=0.0, rate=20.0, length_s=4.0, took_s=0.1, warmup_s=1.0, tokens=5):
        self.host, self.begin_s, self.length_s = host, begin_s, length_s
        due = np.arange(-warmup_s, length_s, 1 / rate)
        self.due = np.round(due * S).astype(np.int64)
        self.took = np.broadcast_to(np.asarray(took_s, dtype=np.float64), self.due.shape).copy()
        self.outcome = np.zeros(len(self.due), dtype=np.int8)
        self.status = np.full(len(self.due), 200, dtype=np.int16)
        self.tokens = tokens
        self.metrics = {
            "client_cpu_pct": 10.0 + host,
            "client_ceiling_pct": 5.0 + host,
            "loop_lag_ms": 0.1,
            "first_ms": 33.0,
            "goodput_per_s": 1.0,
            "cost": 1.0,
        }
        self.facts = {}

    def fail(self, at, outcome, status=0):
        """Give some requests another end."""
        self.outcome[at], self.status[at] = CODE[outcome], status
        return self

    def run(self, run_id=0, **changes) -> PartRun:
        end = self.due + (self.took * S).astype(np.int64)
        never = self.outcome == CODE["skipped"]
        ok = (self.outcome == 0) & (self.due >= 0)
        slots = np.zeros(int(self.length_s * 1000), dtype=np.int64)
        # All tokens of an answer arrive with its end.
        inside = (self.outcome == 0) & (end >= 0) & (end < self.length_s * S)
        np.add.at(slots, end[inside] // 1_000_000, self.tokens)
        requests = RequestLog(
            due_ns=self.due,
            sent_ns=np.where(never, NEVER, self.due),
            end_ns=np.where(never, NEVER, end),
            outcome=self.outcome,
            status=self.status,
            input_tokens=np.full(len(self.due), 7),
            output_tokens=np.full(len(self.due), self.tokens),
            good=(self.outcome == 0) & (self.took < 0.15),
            arrived=slots,
        )
        begin = EPOCH + round(self.begin_s * S)
        clock = {"window_begin_epoch_ns": begin, "window_end_epoch_ns": begin + round(self.length_s * S)}
        metrics = {
            **self.metrics,
            **dict.fromkeys(
                (
                    "throughput_per_s",
                    "offered_per_s",
                    "error_rate",
                    "skipped",
                    "concurrency",
                    "input_tokens_per_s",
                    "output_tokens_per_s",
                ),
                -1.0,
            ),
        }
        result = SingleRunResult(
            run_id,
            run_id == 0,
            "2026-01-01T00:00:00+00:00",
            "2026-01-01T00:00:09+00:00",
            9.0,
            metrics=metrics,
            facts={"clock": clock, "load": {"stopped": "finished"}, **self.facts},
            window=Window(self.length_s, 1.0, 0.04 * (self.host + 1) * self.length_s, 0.0, 2, 0),
        )
        samples = (
            SampleSet("e2e_ms", "measure", self.due[ok], self.took[ok] * 1e3),
            SampleSet("e2e_ms", "warmup", self.due[self.due < 0] + S, self.took[self.due < 0] * 1e3),
        )
        return PartRun(self.host, replace(result, **changes), samples, requests)


def merged(*machines, **more):
    return merge_run(job(hosts=len(machines), **more), 0, [one.run() for one in machines])


def test_two_parts_whose_windows_are_shifted_are_cut_to_what_they_share():
    """40 a second for 4 s, the second machine 1 s later: 3 s together, 120 requests due, whatever each did alone."""
    found = merged(Machine(0), Machine(1, begin_s=1.0))
    run = found.result
    assert run.error is None
    assert run.facts["merged"]["length_s"] == pytest.approx(3.0)
    assert run.facts["requests"]["due"] == 120
    assert run.metrics["offered_per_s"] == pytest.approx(40.0)
    assert run.metrics["throughput_per_s"] == pytest.approx(40.0)
    assert run.metrics["concurrency"] == pytest.approx(40.0 * 0.1, rel=0.01)
    assert run.metrics["output_tokens_per_s"] == pytest.approx(5 * 40.0, rel=0.01)
    assert run.metrics["input_tokens_per_s"] == pytest.approx(7 * 40.0, rel=0.01)
    assert run.metrics["error_rate"] == run.metrics["skipped"] == 0
    assert [part["due"] for part in run.facts["merged"]["of"]] == [60, 60]
    (samples,) = found.samples
    assert (samples.phase, len(samples.value), run.sample_counts) == ("measure", 120, {"e2e_ms": 120})
    assert (np.diff(samples.at_ns) >= 0).all()
    assert samples.at_ns.min() >= 0
    assert samples.at_ns.max() < 3 * S


def test_percentiles_are_those_of_all_samples_and_no_average_of_percentiles():
    """Four of five requests take 10 ms, one 1,000 ms: no average of two machines' percentiles says that."""
    fast, slow = Machine(0, rate=400.0, took_s=0.01), Machine(1, rate=100.0, took_s=1.0, begin_s=0.5)
    parts = [PartResult(one.host, result_of(one), tuple(one.run(run) for run in range(3))) for one in (fast, slow)]
    found, outcomes = merge_point(job(load={"rate": 500.0}), parts)
    stats = found.metrics["e2e_ms"]
    together = np.concatenate([one.samples[0].value for one in outcomes])
    assert stats.count == len(together) == 3 * (1400 + 350)
    assert (stats.p50, stats.p95) == (10.0, 1000.0)
    assert stats.p90 == pytest.approx(np.quantile(together, 0.9))
    assert stats.mean == pytest.approx((4 * 10 + 1000) / 5)
    assert found.state == "done"


@settings(max_examples=40)
@given(st.lists(st.tuples(st.floats(0, 1.9), st.floats(5, 60)), min_size=2, max_size=5), st.integers(0, 9))
def test_whatever_the_shifts_the_samples_are_the_ones_due_while_all_were_loading(parts, seed):
    rng = np.random.default_rng(seed)
    machines = [Machine(host, begin, rate) for host, (begin, rate) in enumerate(parts)]
    for one in machines:
        one.took = rng.lognormal(-2, 1, len(one.due))
    found = merged(*machines)
    low = max(round(one.begin_s * S) for one in machines)
    high = min(round(one.begin_s * S) + round(one.length_s * S) for one in machines)
    expected = []
    for one in machines:
        at = one.due + round(one.begin_s * S)
        expected += (one.took[(at >= low) & (at < high)] * 1e3).tolist()
    assert sorted(found.samples[0].value.tolist()) == pytest.approx(sorted(expected))
    assert found.result.metrics["offered_per_s"] == pytest.approx(len(expected) / ((high - low) / 1e9))


def test_failures_are_counted_where_they_happened():
    """Twenty failures of the first machine before the other began, and six while both were loading."""
    first = Machine(0).fail(slice(20, 40), "refused")  # the first second of its window
    first.fail(slice(50, 54), "status", 503).fail(slice(60, 62), "skipped")
    first.facts = {"errors": {"status 503": {"count": 4, "first": "too busy"}, "refused": {"count": 20, "first": "x"}}}
    run = merged(first, Machine(1, begin_s=1.0)).result
    assert run.facts["requests"] == {"due": 120, "ok": 114, "unfinished": 0, "skipped": 2, "failed": 4}
    assert run.metrics["error_rate"] == pytest.approx(6 / 120)
    assert run.metrics["skipped"] == 2
    assert run.facts["errors"] == {"status 503": {"count": 4, "first": "too busy"}}


def test_answers_to_requests_of_the_warm_up_count_where_they_end():
    """Answers take a second: what ends in the first second was due before, and is throughput all the same."""
    run = merged(Machine(0, took_s=1.0, warmup_s=2.0), Machine(1, took_s=1.0, warmup_s=2.0)).result
    assert run.metrics["throughput_per_s"] == pytest.approx(40.0)
    cold = merged(Machine(0, took_s=1.0, warmup_s=0.0), Machine(1, took_s=1.0, warmup_s=0.0)).result
    assert cold.metrics["throughput_per_s"] == pytest.approx(30.0)


def test_the_worst_client_and_the_busiest_machine_are_reported():
    run = merged(Machine(0), Machine(1)).result
    assert (run.metrics["client_cpu_pct"], run.metrics["client_ceiling_pct"]) == (11.0, 6.0)
    assert run.window.others_cpu_s / (run.window.wall_s * run.window.cores) == pytest.approx(0.04)
    assert run.absent["first_ms"].startswith("a number of each machine")


def test_what_a_part_could_not_count_is_absent_with_a_reason():
    one, other = Machine(0).run(), Machine(1).run()
    blind = replace(
        other.requests,
        arrived=np.zeros(0, np.int64),
        good=np.zeros(0, bool),
        input_tokens=np.full(len(other.requests), -1),
    )
    run = merge_run(job(), 0, [one, replace(other, requests=blind)]).result
    for name in ("output_tokens_per_s", "goodput_per_s", "input_tokens_per_s"):
        assert name not in run.metrics
        assert run.absent[name]


def test_goodput_and_cost_are_counted_again():
    price = {"endpoint": "http://h:1", "api": "openai-chat", "model": "m", "price": {"input": 1.0, "output": 2.0}}
    slow = Machine(1, took_s=0.2)  # above what Machine calls good
    run = merged(Machine(0), slow, target=price).result
    assert run.metrics["goodput_per_s"] == pytest.approx(20.0)
    assert run.metrics["cost"] == pytest.approx(160 * (7 * 1.0 + 5 * 2.0) / 1e6)
    assert "cost_per_million_output" not in run.metrics, "no part told it"


def test_goodput_of_all_machines_is_never_above_their_throughput():
    """Answers take longer at the end, so that more requests are due in the window than end in it."""
    due_s = np.arange(-1.0, 4.0, 1 / 20)
    rising = [Machine(host, took_s=np.where(due_s >= 3.9, 0.14, 0.01)) for host in (0, 1)]
    run = merged(*rising).result
    assert run.metrics["goodput_per_s"] == pytest.approx(run.metrics["throughput_per_s"])
    assert run.metrics["throughput_per_s"] < run.metrics["offered_per_s"]


def test_a_part_that_ended_early_is_reported():
    saturated = Machine(1, length_s=2.5)
    saturated.facts = {"load": {"stopped": "saturated: the service fell behind for good"}}
    run = merged(Machine(0), saturated).result
    assert run.facts["merged"]["length_s"] == pytest.approx(2.5)
    assert run.facts["load"]["stopped"] == "host 1: saturated: the service fell behind for good"


def test_parts_that_hardly_overlap_are_not_merged():
    run = merged(Machine(0), Machine(1, begin_s=2.5)).result
    assert run.error.code == "no-overlap"
    assert "together for 1.5 s of 4 s" in run.error.message
    assert "host 1 after 2.5 s" in run.error.message
    assert run.metrics == {}
    assert overlap_of([Machine(0).run(), Machine(1, begin_s=99.0).run()], 2, 4.0).code == "no-overlap"
    assert overlap_of([Machine(0).run(), Machine(1, begin_s=2.0).run()], 2, 4.0) == Overlap(
        EPOCH + 2 * S, EPOCH + 4 * S
    )


def test_a_missing_a_failed_and_an_old_part_are_distinguished():
    whole, failed = Machine(0).run(), Machine(1).run(error=Failure("crashed", "it crashed", try_="look"))
    assert merge_run(job(), 0, [whole]).result.error.message == "there is no run of host 1 of 2"
    error = merge_run(job(), 0, [whole, failed]).result.error
    assert (error.code, error.message) == ("crashed", "host 1: it crashed")
    old = Machine(1).run(facts={})
    assert merge_run(job(), 0, [whole, old]).result.error.code == "no-requests"
    assert merge_run(job(), 0, [whole, replace(Machine(1).run(), requests=None)]).result.error.code == "no-requests"


def result_of(machine, state="done", error=None) -> MultiRunJobResult:
    return MultiRunJobResult(
        job=f"c1-job-{machine.host}",
        digest="d",
        index=machine.host,
        point={"load.host": machine.host},
        state=state,
        verdict="valid",
        checks=(),
        gates=(),
        metrics={},
        runs=(),
        total_runs=3,
        successful_runs=3,
        failed_runs=0,
        cold_start={},
        environment={"machine": {"name": f"box-{machine.host}"}},
        definition={},
        error=error,
    )


def test_a_point_is_judged_like_any_other_job():
    machines = Machine(0), Machine(1, begin_s=0.2)
    parts = [PartResult(one.host, result_of(one), tuple(one.run(run) for run in range(3))) for one in machines]
    found, _ = merge_point(job(objective={"e2e_ms.p50": 150.0}), parts)
    checks = {check.name: check for check in found.checks}
    assert checks["load delivered"].passed, checks["load delivered"]
    assert checks["client below its own ceiling"].passed
    assert "6" in checks["client below its own ceiling"].detail
    assert [gate.passed for gate in found.gates] == [True]
    assert (found.job, found.successful_runs, found.total_runs) == ("c1-merged-0", 3, 3)
    assert "box-0, box-1" in found.environment["machine"]["name"]
    assert from_json(MultiRunJobResult, to_json(found), source="test") == found


def test_a_point_of_which_one_run_drifted_apart_keeps_the_others_and_says_so():
    near, far = Machine(1, begin_s=0.1), Machine(1, begin_s=3.0)
    parts = [
        PartResult(0, result_of(Machine(0)), tuple(Machine(0).run(run) for run in range(3))),
        PartResult(1, result_of(near), (near.run(0), near.run(1), far.run(2))),
    ]
    found, _ = merge_point(job(), parts)
    assert (found.successful_runs, found.failed_runs, found.verdict) == (2, 1, "invalid")
    assert found.runs[2].error.code == "no-overlap"


def test_a_point_without_a_part_says_what_became_of_it():
    gone = result_of(Machine(1), state="failed", error=Failure("poisoned", "4 agents in a row were lost"))
    parts = [PartResult(0, result_of(Machine(0)), (Machine(0).run(),)), PartResult(1, gone, ())]
    found, _ = merge_point(job(runs=1), parts)
    assert found.state == "failed"
    assert "host 1: 4 agents in a row were lost" in found.error.message
    assert merge_point(job(runs=2), [])[0].failed_runs == 2
