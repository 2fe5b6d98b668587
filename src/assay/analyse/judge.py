"""The one entry of analysis: from the runs of a job to its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from assay.analyse.checks import checks_of, gates_of, verdict_of
from assay.analyse.records import MetricStatistics, MultiRunJobResult
from assay.analyse.stopping import widening
from assay.analyse.summary import measured_values, summarise
from assay.analyse.text import all_of, run_name
from assay.metrics import Metric, base_name, describe
from assay.plan.job import Job
from assay.run.records import Failure, RunOutcome, SingleRunResult
from assay.spec.target import CommandTarget


def judge(
    job: Job, outcomes: Sequence[RunOutcome], environment: Mapping[str, JsonValue], *, planned_runs: int | None = None
) -> MultiRunJobResult:
    """Turn the runs of a job into statistics, checks, a verdict and the job's result."""
    runs = tuple(outcome.result for outcome in outcomes)
    error = _device_failure(runs) or _failure(runs)
    values = {} if error else _values_by_run(outcomes)
    metrics = _summarised(job, values)
    checks = checks_of(
        job, runs, metrics, {outcome.result.run_id: outcome.samples for outcome in outcomes}, environment
    )
    good = sum(run.error is None for run in runs)
    cancelled = bool(runs) and all(run.error is not None and run.error.code == "cancelled" for run in runs)
    return MultiRunJobResult(
        job=job.id,
        digest=job.digest,
        index=job.index,
        point=dict(job.point),
        state="done" if error is None else "cancelled" if cancelled else "failed",
        verdict="invalid" if error else verdict_of(checks),
        checks=checks,
        gates=gates_of(job, metrics, values),
        metrics=metrics,
        runs=runs,
        total_runs=max(planned_runs or 0, len(runs)),
        successful_runs=good,
        failed_runs=len(runs) - good,
        # Empty where the first run failed, since any later one found something warm.
        cold_start=next((dict(run.metrics) if run.error is None else {} for run in runs if run.is_cold_start), {}),
        environment=dict(environment),
        definition=job.definition.model_dump(mode="json", exclude_defaults=True),
        started_at=min((run.started_at for run in runs), default=None),
        completed_at=max((run.completed_at for run in runs), default=None),
        error=error,
    )


def metrics_of(job: Job, outcomes: Sequence[RunOutcome]) -> dict[str, MetricStatistics]:
    """Statistics of every metric that the runs without an error gave, sampled ones first."""
    return _summarised(job, _values_by_run(outcomes))


def _values_by_run(outcomes: Sequence[RunOutcome]) -> dict[str, dict[int, NDArray[np.float64]]]:
    """Metric → run → what it gave, of the runs without an error; sampled metrics first."""
    by_metric: dict[str, dict[int, NDArray[np.float64]]] = {}
    good = [outcome for outcome in outcomes if outcome.result.error is None]
    for outcome in good:
        for name, values in measured_values(outcome.samples).items():
            by_metric.setdefault(name, {})[outcome.result.run_id] = values
    sampled = set(by_metric)
    for outcome in good:
        for name, value in outcome.result.metrics.items():
            if name not in sampled:
                by_metric.setdefault(name, {})[outcome.result.run_id] = np.array([value], dtype=np.float64)
    return by_metric


def _summarised(job: Job, by_metric: Mapping[str, Mapping[int, NDArray[np.float64]]]) -> dict[str, MetricStatistics]:
    widened = widening(job.definition)
    return {
        name: summarise(name, description.unit, description.better, by_run, widened=widened)
        for name, by_run in by_metric.items()
        if (description := describe_for(job, name)) and any(np.isfinite(values).any() for values in by_run.values())
    }


def describe_for(job: Job, name: str) -> Metric:
    """Unit and direction of a metric: as the benchmark file declares them, else as its name tells."""
    description = describe(name)
    target = job.definition.target
    patterns = target.metrics if isinstance(target, CommandTarget) else ()
    declared = next((pattern for pattern in patterns if pattern.name == base_name(name)), None)
    if declared is None:
        return description
    return replace(description, unit=declared.unit or description.unit, better=declared.better or description.better)


def _device_failure(runs: Sequence[SingleRunResult]) -> Failure | None:
    """The failure of a job of which any run worked on another device than the one asked for."""
    for run in runs:
        if run.error is None and run.device is not None and not run.device.honoured:
            wanted, used = run.device.requested, run.device.used
            message = f"{wanted} was asked for and {run_name(run.run_id)} used {used} ({run.device.evidence})"
            return Failure("device", message, phase="measure", try_=f"set target.device to {used}, or install {wanted}")
    return None


def _failure(runs: Sequence[SingleRunResult]) -> Failure | None:
    """The failure of a job without one good run: that of its first run, saying how many there were."""
    if any(run.error is None for run in runs):
        return None
    first = next((run for run in runs if run.error is not None), None)
    if first is None or first.error is None:
        return Failure("no-runs", "no run was made")
    if len(runs) == 1:
        return first.error
    every = all_of(len(runs), "run")
    return replace(first.error, message=f"{every} failed; {run_name(first.run_id)}: {first.error.message}")
