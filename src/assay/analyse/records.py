"""What analysis concludes: statistics with intervals, checks, a verdict; and the result documents built of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import JsonValue

from assay.metrics import Better
from assay.plan.job import Job
from assay.run.records import Failure, SingleRunResult

Verdict = Literal["valid", "suspect", "invalid"]
JobState = Literal["pending", "running", "done", "failed", "cancelled", "poisoned"]
Answer = Literal["better", "worse", "cannot tell"]


def section(tree: Mapping[str, JsonValue], name: str) -> Mapping[str, JsonValue]:
    """A part of a record; empty where it is missing."""
    part = tree.get(name)
    return part if isinstance(part, Mapping) else {}


@dataclass(frozen=True, slots=True)
class Interval:
    """Where the true value lies, with a promise."""

    low: float
    high: float
    level: float
    """The promise: how often such an interval holds the truth."""
    method: str
    """How it was made, in words."""

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


@dataclass(frozen=True, slots=True)
class Outlier:
    """A value far from the others by median and MAD; flagged, never dropped."""

    run: int
    sample: int | None
    """Position in the run, None for a number of the whole run."""
    value: float
    score: float
    """Distance from the median in robust deviations."""


@dataclass(frozen=True, slots=True)
class MetricStatistics:
    """Everything that is known about one metric of one job."""

    unit: str
    better: Better | None
    count: int
    """Finite values."""
    mean: float
    std: float | None
    """Sample deviation; None for one value."""
    median: float
    """Of the runs' medians: the middle run. The median of all samples together is `p50`."""
    min: float
    max: float
    mad: float
    p50: float
    p90: float | None
    """Percentiles are None where the sample size does not back them."""
    p95: float | None
    p99: float | None
    p99_9: float | None
    interval: Interval | None
    """Of the median run, of scores of their mean, from the spread between runs; None for one run."""
    runs: int
    """Runs that gave this metric."""
    run_values: Mapping[int, float]
    """Run id → its median."""
    outliers: tuple[Outlier, ...] = ()
    """The most extreme ones."""
    outlier_count: int = 0
    non_finite: int = 0
    """NaN and infinite values, left out of the statistics."""
    mean_interval: Interval | None = None
    """Of the mean of a run, from the spread between runs; None for one run, and in results of older versions."""
    tails: Mapping[str, Interval] = field(default_factory=dict)
    """Percentile, such as `p99` → its interval; one that reaches beyond the samples has none."""
    widened: float = 1.0
    """Factor on the intervals, above one where the spread between the runs decided how many there are."""


@dataclass(frozen=True, slots=True)
class Check:
    """One reason to believe, or not to believe, a result."""

    name: str
    passed: bool | None
    """None: does not apply or is undecided."""
    detail: str
    """One plain sentence with its figures."""


@dataclass(frozen=True, slots=True)
class MultiRunJobResult:
    """Everything known about one job: its runs, their statistics, checks and verdict."""

    job: str
    digest: str
    index: int
    point: Mapping[str, JsonValue]
    state: JobState
    verdict: Verdict | None
    """None while the job has not ended; a failed job is invalid."""
    checks: tuple[Check, ...]
    gates: tuple[Check, ...]
    """Objectives of the benchmark file."""
    metrics: Mapping[str, MetricStatistics]
    runs: tuple[SingleRunResult, ...]
    total_runs: int
    successful_runs: int
    failed_runs: int
    cold_start: Mapping[str, float]
    """The numbers of the first run, which found nothing warm."""
    environment: Mapping[str, JsonValue]
    definition: Mapping[str, JsonValue]
    started_at: str | None = None
    completed_at: str | None = None
    error: Failure | None = None

    @property
    def failure(self) -> Failure | None:
        """Why the job has no numbers: its own error, or that of its first failed run."""
        return self.error or next((run.error for run in self.runs if run.error), None)


def unmeasured_result(
    job: Job,
    state: JobState,
    error: Failure | None,
    *,
    verdict: Verdict | None = None,
    runs: tuple[SingleRunResult, ...] = (),
    at: str | None = None,
) -> MultiRunJobResult:
    """What is known of a job about which nothing was concluded: not yet, or never."""
    return MultiRunJobResult(
        job=job.id,
        digest=job.digest,
        index=job.index,
        point=dict(job.point),
        state=state,
        verdict=verdict,
        checks=(),
        gates=(),
        metrics={},
        runs=runs,
        total_runs=job.definition.measure.least_runs,
        successful_runs=sum(run.error is None for run in runs),
        failed_runs=sum(run.error is not None for run in runs),
        cold_start={},
        environment={},
        definition=job.definition.model_dump(mode="json", exclude_defaults=True),
        started_at=at,
        completed_at=at,
        error=error,
    )


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two sets of runs say about one metric."""

    metric: str
    unit: str
    better: Better | None
    a: float
    """Median over runs."""
    b: float
    a_interval: Interval | None
    b_interval: Interval | None
    change: Interval | None
    """Relative, of b against a, from the between-run spread."""
    answer: Answer
    because: tuple[str, ...] = field(default_factory=tuple)
    """One plain sentence per reason."""
    chance: float | None = None
    """How often luck alone shows as clear a change; None where nothing can be judged, and in older documents."""


RESULT_SCHEMA = "assay.result/1"


@dataclass(frozen=True, slots=True)
class CampaignRecord:
    """The result document: one submission of a benchmark with all its jobs."""

    campaign: str
    benchmark: str
    created_at: str
    state: str
    jobs: tuple[MultiRunJobResult, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    assay_version: str = ""
    schema: Literal["assay.result/1"] = "assay.result/1"
