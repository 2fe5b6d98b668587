"""Simulated campaigns whose truth is known: the answer states that truth, and noise alone is "cannot tell"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from assay.analyse.answer import MOST_DOUBTS, answer_of
from assay.analyse.records import CampaignRecord, Check, MultiRunJobResult
from assay.analyse.summary import summarise
from assay.run.records import Failure, SingleRunResult

ENVIRONMENT = {"machine": {"name": "bench-1", "cpu": "EPYC 7763", "cores": 8}}


def job(
    index: int, latency_ms: list[float], throughput: list[float] | None = None, verdict: str = "valid", **point: Any
) -> MultiRunJobResult:
    """A job of one model whose runs gave these medians."""
    by_metric = {"latency_ms": latency_ms, "throughput_per_s": throughput or [1000 / value for value in latency_ms]}
    metrics = {
        name: summarise(
            name,
            "ms" if name == "latency_ms" else "1/s",
            "lower" if name == "latency_ms" else "higher",
            {run: np.array([value]) for run, value in enumerate(values)},
        )
        for name, values in by_metric.items()
    }
    return MultiRunJobResult(
        job=f"c1-job-{index}",
        digest=f"{index:064}",
        index=index,
        point={path.replace("__", "."): value for path, value in point.items()},
        state="done",
        verdict=verdict,  # type: ignore[arg-type]
        checks=(),
        gates=(),
        metrics=metrics,
        runs=(),
        total_runs=len(latency_ms),
        successful_runs=len(latency_ms),
        failed_runs=0,
        cold_start={},
        environment=ENVIRONMENT,
        definition={"target": {"model": "squeezenet.onnx", "device": "cpu"}},
    )


def failed(index: int, code: str) -> MultiRunJobResult:
    error = Failure(code, f"it was {code}", phase="load", try_="mind it")
    run = SingleRunResult(0, True, "2026-01-01T00:00:00+00:00", "2026-01-01T00:00:01+00:00", 1.0, error=error)
    return replace(job(index, [1.0, 1.0]), state="failed", verdict="invalid", metrics={}, runs=(run,))


def campaign(*jobs: MultiRunJobResult, name: str = "c1") -> CampaignRecord:
    return CampaignRecord(name, "demo", "2026-01-01T00:00:00+00:00", "done", jobs)


Draw = Callable[[float, float], list[float]]


@pytest.fixture
def draw() -> Draw:
    """Five runs around a centre with a relative spread, from one seed."""
    rng = np.random.default_rng(7)
    return lambda centre, spread: list(centre * np.exp(spread * rng.standard_normal(5)))


def test_the_truth_of_a_clear_campaign(draw):
    """Two threads halve the time of both models, and one model takes twice as long as the other."""
    jobs = [
        job(index, draw(base / threads, 0.01), target__model=model, target__threads=threads)
        for index, (model, base, threads) in enumerate(
            [("squeezenet", 8.0, 1), ("squeezenet", 8.0, 2), ("shufflenet", 4.0, 1), ("shufflenet", 4.0, 2)]
        )
    ]
    answer = answer_of(campaign(*jobs))
    assert answer.best is not None
    assert answer.best.jobs == ("c1-job-3",)
    assert [row.index for row in answer.rows] == [3, 1, 2, 0] or [row.index for row in answer.rows] == [3, 2, 1, 0]
    model, threads = answer.effects
    assert (model.path, model.base, model.other, model.answer) == ("target.model", "squeezenet", "shufflenet", "better")
    assert (threads.base, threads.other, threads.points, threads.answer) == (1, 2, 2, "better")
    assert threads.interval is not None
    assert threads.interval.low < 2 < threads.interval.high
    assert threads.gain == pytest.approx(2, rel=0.05)
    assert threads.extremes is None


def test_throughput_stands_beside_latency(draw):
    answer = answer_of(campaign(job(0, draw(4, 0.01)), job(1, draw(5, 0.01))))
    assert [column.metric for column in answer.columns] == ["latency_ms", "throughput_per_s"]
    assert answer.rows[0].figures[1] is not None


def test_noise_alone_says_cannot_tell():
    """One in twenty campaigns may be wrong by the promise of the intervals; 200 of them hold it."""
    rng = np.random.default_rng(3)
    effects = bests = 0
    for _ in range(200):
        jobs = [
            job(index, list(5 * np.exp(0.2 * rng.standard_normal(5))), target__threads=threads, workload__size=size)
            for index, (threads, size) in enumerate([(1, 1), (1, 2), (2, 1), (2, 2)])
        ]
        answer = answer_of(campaign(*jobs))
        assert answer.best is not None
        effects += any(effect.answer != "cannot tell" for effect in answer.effects)
        bests += len(answer.best.jobs) == 1
    assert effects <= 18  # 10 are expected at most; more than 18 have a chance of one in 200
    assert bests <= 18


def test_levels_beyond_the_second_do_not_make_luck_an_effect():
    rng = np.random.default_rng(4)
    wrong = 0
    for _ in range(200):
        jobs = [job(index, list(5 * np.exp(0.1 * rng.standard_normal(5))), threads=index) for index in range(6)]
        wrong += any(effect.answer != "cannot tell" for effect in answer_of(campaign(*jobs)).effects)
    assert wrong <= 18


def test_the_interval_holds_the_truth_as_often_as_it_promises():
    rng = np.random.default_rng(5)
    held = 0
    for _ in range(300):
        a, b = (list(centre * np.exp(0.05 * rng.standard_normal(5))) for centre in (6.0, 5.0))
        (effect,) = answer_of(campaign(job(0, a, threads=1), job(1, b, threads=2))).effects
        assert effect.interval is not None
        held += effect.interval.low <= 1.2 <= effect.interval.high
    assert held >= 275  # 285 are expected


def test_effects_that_differ_between_points_are_not_hidden_in_an_average(draw):
    jobs = [
        job(index, draw(time, 0.005), target__model=model, target__threads=threads)
        for index, (model, threads, time) in enumerate([("a", 1, 8.0), ("a", 2, 4.0), ("b", 1, 8.0), ("b", 2, 8.0)])
    ]
    threads = answer_of(campaign(*jobs)).effects[1]
    assert threads.extremes is not None
    assert threads.extremes[0] == pytest.approx(1, rel=0.02)
    assert threads.extremes[1] == pytest.approx(2, rel=0.02)


def test_a_larger_batch_is_judged_by_its_throughput(draw):
    one, eight = draw(2, 0.01), draw(8, 0.01)
    jobs = (
        job(0, one, [1000 / value for value in one], workload__batch=1),
        job(1, eight, [8000 / value for value in eight], workload__batch=8),
    )
    (effect,) = answer_of(campaign(*jobs)).effects
    assert (effect.metric, effect.answer) == ("throughput_per_s", "better")
    assert effect.gain == pytest.approx(2, rel=0.05)


def test_one_run_never_tells():
    answer = answer_of(campaign(job(0, [4.0], threads=1), job(1, [2.0], threads=2)))
    assert answer.best is not None
    assert len(answer.best.jobs) == 2
    assert answer.best.because == "one run does not show how much runs differ"
    (effect,) = answer.effects
    assert (effect.answer, effect.gain) == ("cannot tell", None)


def test_a_machine_that_moved_by_as_much_explains_the_effect(draw):
    def at(control_ms: float) -> dict[str, Any]:
        state = {"fitness": {"control": {"version": 1, "integer_ms": control_ms, "memory_ms": control_ms}}}
        return {**ENVIRONMENT, "before": state, "after": state}

    slow = replace(job(0, draw(6, 0.005), threads=1), environment=at(12.0))
    fast = replace(job(1, draw(5, 0.005), threads=2), environment=at(8.0))
    answer = answer_of(campaign(slow, fast))
    assert [effect.answer for effect in answer.effects] == ["cannot tell"]
    assert "machine" in answer.effects[0].because
    assert answer.best is not None
    assert len(answer.best.jobs) == 2


def test_invalid_results_are_not_ranked(draw):
    answer = answer_of(campaign(job(0, draw(1, 0.01), verdict="invalid"), job(1, draw(5, 0.01)), job(2, draw(9, 0.01))))
    assert answer.best is not None
    assert answer.best.jobs == ("c1-job-1",)
    assert answer.verdicts == {"invalid": 1, "valid": 2}


def doubtful(index: int, *checks: Check) -> MultiRunJobResult:
    return replace(job(index, [4.0, 4.1, 4.2]), verdict="suspect", checks=checks)


def test_doubts_are_grouped_by_reason_with_the_worst_of_them():
    busy = [Check("machine quiet", False, f"other programs used {share} % (limit 10 %)") for share in (21, 66)]
    hot = Check("cool enough", False, "too warm")
    fine = Check("enough runs", True, "5 runs gave numbers")
    answer = answer_of(
        campaign(doubtful(0, busy[0], fine), doubtful(1, hot, busy[1]), doubtful(2, busy[0]), failed(3, "model"))
    )
    first, second = answer.doubts
    assert (first.check, first.severity, len(first.jobs), first.worst_job) == (
        "machine quiet",
        "suspect",
        3,
        "c1-job-1",
    )
    assert first.worst == busy[1].detail
    assert (second.check, second.jobs) == ("cool enough", ("c1-job-1",))


def test_doubts_are_at_most_ten_and_the_rest_is_counted():
    checks = [Check(f"question {number}", False, "no") for number in range(13)]
    answer = answer_of(campaign(doubtful(0, *checks)))
    assert (len(answer.doubts), answer.more_doubts) == (MOST_DOUBTS, 3)


def test_missed_objectives_come_before_doubts_and_advice_after_them():
    missed, unsure = Check("latency_ms.p99", False, "20 ms"), Check("latency_ms.p95", None, "too few samples")
    one = replace(
        doubtful(0, Check("turbo off or steady", False, "on"), Check("enough runs", False, "2 runs gave numbers")),
        gates=(missed, unsure),
    )
    assert [doubt.severity for doubt in answer_of(campaign(one)).doubts] == ["missed", "undecided", "suspect", "advice"]


def test_failures_are_grouped_by_code():
    answer = answer_of(campaign(failed(0, "model"), failed(1, "out-of-memory"), failed(2, "out-of-memory")))
    assert [(group.code, group.jobs, group.try_) for group in answer.failures] == [
        ("out-of-memory", ("c1-job-1", "c1-job-2"), "mind it"),
        ("model", ("c1-job-0",), "mind it"),
    ]
    assert (answer.columns, answer.best, answer.doubts) == ((), None, ())


def test_against_a_baseline(draw):
    before = campaign(job(0, draw(5, 0.01), threads=1), job(1, draw(5, 0.01), threads=2), name="c0")
    after = campaign(job(0, draw(4, 0.01), threads=1), job(1, draw(6, 0.01), threads=2))
    baseline = answer_of(after, before).baseline
    assert baseline is not None
    assert (baseline.campaign, baseline.better, baseline.worse, baseline.not_alike) == ("c0", 1, 1, 0)


def test_a_baseline_of_another_model_is_not_alike(draw):
    other = replace(job(0, draw(5, 0.01)), definition={"target": {"model": "other.onnx", "device": "cpu"}})
    baseline = answer_of(campaign(job(0, draw(4, 0.01))), campaign(other, name="c0")).baseline
    assert baseline is not None
    assert (baseline.better, baseline.not_alike) == (0, 1)
    assert "model" in baseline.difference


def searched(index: int, found: list[float] | None) -> MultiRunJobResult:
    base = job(index, [4.0, 4.1, 4.2])
    definition = {
        "target": {"endpoint": "http://h:1", "api": "openai-chat", "model": "m"},
        "load": {"rate": "search"},
        "objective": {"ttft_ms.p99": 500},
    }
    if found is None:
        run = SingleRunResult(0, True, "", "", 1.0, absent={"capacity_per_s": "no rate met the objective"})
        return replace(base, definition=definition, runs=(run,))
    stats = summarise("capacity_per_s", "1/s", "higher", {run: np.array([value]) for run, value in enumerate(found)})
    return replace(base, definition=definition, metrics={**base.metrics, "capacity_per_s": stats})


def test_a_search_answers_with_its_capacity():
    answer = answer_of(campaign(searched(0, [11.0, 12.0, 13.0])))
    assert answer.columns[0].metric == "capacity_per_s"
    (found,) = answer.capacities
    assert found.figure is not None
    assert found.figure.value == 12.0


def test_a_search_without_a_capacity_says_why():
    (found,) = answer_of(campaign(searched(0, None))).capacities
    assert (found.figure, found.reason) == (None, "no rate met the objective")


def test_an_empty_campaign_has_nothing_to_say():
    answer = answer_of(campaign())
    assert (answer.rows, answer.best, answer.effects, answer.doubts, answer.failures) == ((), None, (), (), ())
