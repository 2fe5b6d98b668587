"""Campaigns of loads as they come back from a judge: a language model over rates, a search, a vector database."""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.analyse.capacity import CapacityResult, ProbeOutcome, RateSearch
from assay.analyse.judge import judge
from assay.analyse.records import CampaignRecord
from assay.plan.job import Job
from assay.run.records import RunOutcome, SampleSet, SingleRunResult, Window
from assay.spec.benchmark import Definition
from assay.spec.workload import Search

RUNS = 3
CAPACITY = 20.0
ENDPOINT = {"endpoint": "http://llm.example.com/v1", "api": "openai-chat", "model": "smollm2-135m"}
OBJECTIVE = {"ttft_ms.p99": 500.0, "itl_ms.p99": 50.0}
TOKENS = 40


def _ttft(rate: float, n: int, rng: np.random.Generator) -> np.ndarray:
    """Waiting in front of a server that can take twenty requests a second."""
    wait = 8.0 / max(1 - rate / CAPACITY, 0.04)
    return 40 * np.exp(0.1 * rng.standard_normal(n)) + rng.exponential(wait, n)


def streamed(rate: float, run: int, seconds: float = 60.0) -> tuple[RunOutcome, dict[str, np.ndarray]]:
    """One run at a rate."""
    rng = np.random.default_rng([run, int(rate * 100)])
    n = max(int(rate * seconds), 40)
    ttft = _ttft(rate, n, rng) * (1 + 0.01 * run)
    itl = 9 * (1 + rate / 40) * np.exp(0.25 * rng.standard_normal((n, TOKENS))) + 30 * (rng.random((n, TOKENS)) < 0.004)
    e2e = ttft + itl.sum(axis=1)
    at = np.sort(rng.uniform(0, seconds * 1e9, n)).astype(np.int64)
    values = {
        "ttft_ms": ttft,
        "e2e_ms": e2e,
        "itl_ms": itl.ravel(),
        "tpot_ms": itl.mean(axis=1),
        "output_tokens": np.full(n, TOKENS + 1.0),
        "input_tokens": rng.integers(200, 900, n).astype(float),
        "schedule_delay_ms": rng.exponential(0.05, n),
        "rouge_l": np.clip(rng.normal(0.31, 0.05, n), 0, 1),
    }
    sets = [
        SampleSet(name, "measure", np.repeat(at, TOKENS) if name == "itl_ms" else at, one)
        for name, one in values.items()
    ]
    good = float((ttft < 500).mean())
    failed = 0.004 if rate > 15 else 0.0
    view = {
        "ttft_ms.p50": {"value": float(np.median(ttft)) - 2.0, "from": "vllm:time_to_first_token_seconds"},
        "output_tokens_per_s": {"value": rate * TOKENS, "from": "vllm:generation_tokens_total"},
    }
    result = SingleRunResult(
        run_id=run,
        is_cold_start=run == 0,
        started_at=f"2026-03-01T10:00:{run:02}+00:00",
        completed_at=f"2026-03-01T10:01:{run:02}+00:00",
        duration_seconds=70.0,
        phases={"load": 0.1, "first": 0.6, "warmup": 5.0, "measure": seconds},
        metrics={
            "first_ms": 900.0 + run,
            "output_tokens_per_s": rate * (TOKENS + 1) * (1 + 0.004 * run),
            "throughput_per_s": rate * (1 - failed),
            "goodput_per_s": rate * good,
            "offered_per_s": rate,
            "error_rate": failed,
            "skipped": 0.0,
            "concurrency": rate * float(e2e.mean()) / 1e3,
            "client_cpu_pct": 12.0 + rate,
            "client_ceiling_pct": 2.0 + rate / 4,
            "loop_lag_ms": 0.4,
            "cost": 0.0123 * rate,
            "start_to_ready_s": 4.2,
        },
        absent={"first_answer_ms": "no answer had reasoning before it"},
        sample_counts={name: one.size for name, one in values.items()},
        facts={
            "tokens": {
                "input": {"source": "server usage"},
                "output": {"source": "server usage"},
                "tokens_per_chunk": {"mean": 1.0, "max": 1},
                "bundled": False,
            },
            "errors": {
                "timeout": {"count": 3, "first": "no end after 120 s"},
                "status 503": {"count": 1, "first": "overloaded <b>now</b>"},
            }
            if failed
            else {},
            "finish_reasons": {"length": n - 2, "stop": 2},
            "load": {"stopped": "finished"},
            "server_view": {"service": view},
            "cost": {"currency": "USD"},
        },
        window=Window(seconds, 8.0, 1.0, 0.0, 8, 0),
        samples="ab" * 32,
    )
    return RunOutcome(result, tuple(sets)), values


def _record(name: str, judged: list) -> CampaignRecord:
    return CampaignRecord("c77", name, "2026-03-01T10:00:00+00:00", "done", tuple(judged), {"team": "llm"}, "0.1.0")


def _job(index: int, point: dict[str, Any], definition: dict[str, Any]) -> Job:
    return Job(
        f"c77-{index}", f"{index:064x}", index, Definition.model_validate(definition), point=point, campaign="c77"
    )


ENVIRONMENT = {"machine": {"name": "bench-03", "cpu": "AMD EPYC 9454P", "cores": 8, "os": "Linux"}}


def over_rates(rates: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 19.0)):
    """A matrix over load.rate of a language model, and where its samples are."""
    sets: dict[tuple[str, int], tuple[SampleSet, ...]] = {}
    judged = []
    for index, rate in enumerate(rates):
        workload = {"task": "wikipedia-summary", "output_tokens": 64}
        definition = {
            "target": ENDPOINT,
            "workload": workload,
            "load": {"rate": rate, "duration": 60.0},
            "objective": OBJECTIVE,
            "measure": {"runs": RUNS, "errors": 0.01},
        }
        job = _job(index, {"load.rate": rate}, definition)
        outcomes = [streamed(rate, run)[0] for run in range(RUNS)]
        sets |= {(job.id, one.result.run_id): one.samples for one in outcomes}
        judged.append(judge(job, outcomes, ENVIRONMENT))
    return _record("chat over rates", judged), lambda job, run: sets.get((job, run), ())


def searched():
    """A search for a rate, in three runs."""
    definition = {
        "target": ENDPOINT,
        "workload": {"task": "wikipedia-summary"},
        "load": {"rate": "search"},
        "objective": OBJECTIVE,
    }
    job = _job(0, {}, definition)
    outcomes = []
    for run in range(RUNS):
        search = RateSearch(Search(lowest=1.0, highest=500.0), OBJECTIVE)
        rng = np.random.default_rng(run)
        while not isinstance(step := search.step(), CapacityResult):
            n = max(int(min(step.rate, CAPACITY) * step.duration_s), 1)
            values = {
                "ttft_ms": _ttft(step.rate, n, rng) * (8 if step.rate > CAPACITY else 1),
                "itl_ms": 9 * np.exp(0.25 * rng.standard_normal(n * TOKENS)),
            }
            search.tell(ProbeOutcome(step.rate, step.duration_s, step.rate, min(step.rate, CAPACITY), values))
        rate = step.capacity or 1.0
        outcome, _ = streamed(min(rate, 19.0), run)
        facts = {**outcome.result.facts, "search": search.facts(), "server_view": {}}
        metrics = {**outcome.result.metrics, "capacity_per_s": rate}
        from dataclasses import replace

        outcomes.append(replace(outcome, result=replace(outcome.result, facts=facts, metrics=metrics)))
    sets = {(job.id, one.result.run_id): one.samples for one in outcomes}
    record = _record("chat capacity", [judge(job, outcomes, ENVIRONMENT)])
    return record, lambda job_id, run: sets.get((job_id, run), ())


def vectors(efs: tuple[int, ...] = (16, 32, 64, 128, 256)):
    """A matrix over a search parameter of a vector database."""
    judged, sets = [], {}
    for index, ef in enumerate(efs):
        target = {"endpoint": "http://db.example.com", "api": "qdrant", "search": {"ef": ef}}
        definition = {"target": target, "workload": {"task": "knn"}, "load": {"concurrency": 8}}
        job = _job(index, {"target.search.ef": ef}, definition)
        outcomes = []
        for run in range(RUNS):
            rng = np.random.default_rng([ef, run])
            latency = (0.6 + ef / 60) * np.exp(0.15 * rng.standard_normal(3000)) * (1 + 0.005 * run)
            recall = rng.binomial(10, 1 - 0.6 * np.exp(-ef / 30), 3000) / 10
            at = np.arange(3000, dtype=np.int64) * 10**6
            result = SingleRunResult(
                run,
                run == 0,
                "2026-03-01T10:00:00+00:00",
                "2026-03-01T10:00:09+00:00",
                9.0,
                metrics={
                    "throughput_per_s": 8000 / float(latency.mean()),
                    "insert_s": 3.0 + run / 10,
                    "index_s": 1.0,
                    "error_rate": 0.0,
                    "concurrency": 7.9,
                },
                window=Window(3.0, 1.0, 0.1, 0.0, 8, 0),
            )
            outcomes.append(
                RunOutcome(
                    result,
                    (SampleSet("latency_ms", "measure", at, latency), SampleSet("recall", "measure", at, recall)),
                )
            )
        sets |= {(job.id, one.result.run_id): one.samples for one in outcomes}
        judged.append(judge(job, outcomes, ENVIRONMENT))
    return _record("vector search", judged), lambda job, run: sets.get((job, run), ())
