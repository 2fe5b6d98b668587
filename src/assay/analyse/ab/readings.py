"""What one run of an experiment says: its numbers by metric and statistic, or why there are none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from assay.analyse.headline import headline_or_first
from assay.analyse.judge import metrics_of
from assay.analyse.percentiles import TAILS, samples_needed
from assay.analyse.records import MetricStatistics
from assay.metrics import Better
from assay.plan.job import Job
from assay.run.records import RunOutcome

_STATISTICS = ("mean", "median", "min", "max", "std", "p50", *TAILS)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A statistic of a metric, as `latency_ms.p99` names it."""

    metric: str
    statistic: str = ""
    """Empty for the value that speaks for a run: the median of its samples, of a score the mean."""

    def __str__(self) -> str:
        return f"{self.metric}.{self.statistic}" if self.statistic else self.metric


@dataclass(frozen=True, slots=True)
class Reading:
    """One run: the statistics of its own samples, or the sentence that says why it failed."""

    run: int
    stats: Mapping[str, MetricStatistics]
    failure: str = ""
    code: str = ""
    """Of the failure."""
    seconds: float = 0.0
    """How long the run took, from start to end of its process."""

    def value(self, wanted: Wanted) -> float | None:
        """The number that is asked for; None where the run did not give it."""
        stats = self.stats.get(wanted.metric)
        if stats is None:
            return None
        if not wanted.statistic:
            return next(iter(stats.run_values.values()), None)
        found: float | None = getattr(stats, wanted.statistic)
        return found

    def why_absent(self, wanted: Wanted) -> str:
        """Why there is no such number, in words; empty where there is one."""
        if self.failure:
            return self.failure
        if self.value(wanted) is not None:
            return ""
        stats = self.stats.get(wanted.metric)
        if stats is None:
            return f"it gave no {wanted.metric}"
        if wanted.statistic in TAILS:
            need = samples_needed(TAILS[wanted.statistic])
            return f"{wanted} needs {need:,} samples in each run, and it took {stats.count:,}"
        return f"{wanted} needs more than {stats.count:,} value"


def wanted_from(text: str) -> Wanted:
    """Read `latency_ms` or `latency_ms.p99`; a dot inside the labels of a program's metric divides nothing."""
    metric, _, statistic = text.strip().rpartition(".")
    return Wanted(metric, statistic) if metric and statistic in _STATISTICS else Wanted(text.strip())


def reading_of(job: Job, outcome: RunOutcome) -> Reading:
    """Sum up one run by itself.

    A run on another device than the one asked for counts as failed: its numbers answer another question.
    """
    result = outcome.result
    seconds = result.duration_seconds
    if result.error is not None:
        said = f"error[{result.error.code}]: {result.error.message}"
        return Reading(result.run_id, {}, said, result.error.code, seconds)
    if result.device is not None and not result.device.honoured:
        said = f"{result.device.requested} was asked for and {result.device.used} was used"
        return Reading(result.run_id, {}, f"error[device]: {said}", "device", seconds)
    return Reading(result.run_id, metrics_of(job, (outcome,)), seconds=seconds)


def headline_in(job: Job, reading: Reading) -> tuple[str, ...]:
    """The metrics of a run that answer its job's question; else the first that there is."""
    return headline_or_first(job.definition, reading.stats)


def direction_in(wanted: Wanted, readings: tuple[Reading, ...]) -> tuple[str, Better | None]:
    """Unit and direction of a metric, as the runs that gave it say."""
    known = [reading.stats[wanted.metric] for reading in readings if wanted.metric in reading.stats]
    unit = next((stats.unit for stats in known if stats.unit), "")
    return unit, next((stats.better for stats in known if stats.better), None)
