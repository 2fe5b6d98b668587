"""Built examples: a job, a good run of it, and statistics, each with any part replaced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from assay.analyse.judge import judge
from assay.analyse.records import MetricStatistics, MultiRunJobResult
from assay.analyse.summary import summarise
from assay.plan.job import Job
from assay.run.records import DeviceProof, RunOutcome, SampleSet, SingleRunResult, Window
from assay.spec.benchmark import Definition

ENVIRONMENT = {"machine": {"name": "bench-1", "cpu": "EPYC 7763", "cores": 8}}


def make_job(digest: str = "d" * 64, index: int = 0, point: dict[str, Any] | None = None, **definition: Any) -> Job:
    whole = {"target": {"model": "squeezenet.onnx"}, **definition}
    return Job("demo", digest, index, Definition.model_validate(whole), point=point or {}, campaign="c1")


def make_outcome(
    run_id: int,
    latency_ms: Sequence[float] | np.ndarray | None = None,
    metric: str = "latency_ms",
    **changes: Any,
) -> RunOutcome:
    if latency_ms is None:
        rng = np.random.default_rng(run_id)
        latency_ms = 2.0 * (1 + 0.002 * rng.standard_normal()) * np.exp(0.03 * rng.standard_normal(2000))
    values = np.asarray(latency_ms, dtype=np.float64)
    run = SingleRunResult(
        run_id=run_id,
        is_cold_start=run_id == 0,
        started_at=f"2026-01-01T00:00:{run_id:02}+00:00",
        completed_at=f"2026-01-01T00:01:{run_id:02}+00:00",
        duration_seconds=60.0,
        metrics={"load_ms": 50.0 + run_id / 100},
        device=DeviceProof("cpu", "cpu", {"CPUExecutionProvider": 66}, "the session's profile"),
        window=Window(4.0, 4.0, 0.1, 0.0, 8, 0, harness_ns=300.0),
    )
    samples = (SampleSet(metric, "measure", np.arange(values.size, dtype=np.int64), values),)
    kept = changes.pop("samples", samples)
    return RunOutcome(replace(run, **changes), kept if changes.get("error") is None else ())


def make_stats(
    *run_values: float, better: Any = "lower", unit: str = "ms", name: str = "latency_ms"
) -> MetricStatistics:
    return summarise(name, unit, better, {run: np.array([value]) for run, value in enumerate(run_values)})


def make_result(*scales: float, environment: dict[str, Any] | None = None, **definition: Any) -> MultiRunJobResult:
    outcomes = []
    for run, scale in enumerate(scales):
        base = make_outcome(run)
        outcomes.append(make_outcome(run, base.samples[0].value * scale))
    return judge(make_job(**definition), outcomes, ENVIRONMENT if environment is None else environment)


@pytest.fixture
def job() -> Callable[..., Job]:
    return make_job


@pytest.fixture
def outcome() -> Callable[..., RunOutcome]:
    return make_outcome


@pytest.fixture
def stats() -> Callable[..., MetricStatistics]:
    return make_stats


@pytest.fixture
def result() -> Callable[..., MultiRunJobResult]:
    return make_result
