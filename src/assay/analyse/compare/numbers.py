"""Numbers by name: a metric (`ttft_ms`), or a statistic of one (`ttft_ms.p99`), and what a result has of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from assay.analyse.compare.results import Reading
from assay.analyse.percentiles import TAILS, backed, samples_needed
from assay.analyse.quality import is_quality
from assay.analyse.readings import split_statistic
from assay.analyse.records import MetricStatistics, MultiRunJobResult
from assay.analyse.summary import measured_values
from assay.metrics import base_name
from assay.run.records import SampleSet

# A job, one of its metrics and a statistic → what each run gave, where its samples can still be read.
ByRun = Callable[[MultiRunJobResult, str, str], Mapping[int, float]]


def no_samples(_job: MultiRunJobResult, _metric: str, _statistic: str) -> Mapping[int, float]:
    """What each run gave, where no samples can be read: nothing is known."""
    return {}


def short_name(name: str) -> str:
    """A number without the context that a program gave it: `speed{batch=8}.p99` is `speed.p99`."""
    metric, statistic = split_statistic(name)
    return f"{base_name(metric)}{f'.{statistic}' if statistic else ''}"


def names_in(name: str, job: MultiRunJobResult) -> tuple[str, ...]:
    """A number by the names that a job has for it, of which a program may give several; none where it has none."""
    metric, statistic = split_statistic(name)
    dot = f".{statistic}" if statistic else ""
    return tuple(f"{one}{dot}" for one in job.metrics if metric in (one, base_name(one)))


def reading_of(
    job: MultiRunJobResult, stats: MetricStatistics, metric: str, statistic: str, by_run: ByRun = no_samples
) -> Reading | None:
    """One number of one result; None where its samples do not back it."""
    if statistic in (("", "mean") if is_quality(metric) else ("", "median", "p50")):
        runs = tuple(stats.run_values.values())
        return Reading(float(np.median(runs)), runs)
    value: float | None = getattr(stats, statistic)
    return None if value is None else Reading(value, tuple(by_run(job, metric, statistic).values()))


def statistic_of_run(samples: Sequence[SampleSet], metric: str, statistic: str) -> float | None:
    """A statistic of the samples of one run; None where they are too few to speak of it."""
    values = measured_values(samples).get(metric, np.empty(0))
    values = values[np.isfinite(values)]
    if not values.size or (statistic == "std" and values.size < 2):
        return None
    if statistic in TAILS:
        return float(np.quantile(values, TAILS[statistic])) if backed(values.size, TAILS[statistic]) else None
    known: dict[str, Callable[..., np.float64]] = {"mean": np.mean, "min": np.min, "max": np.max}
    return float(values.std(ddof=1) if statistic == "std" else known.get(statistic, np.median)(values))


def not_backed(name: str, counts: Sequence[int]) -> str:
    """Why a result does not give a number, as a sentence."""
    _, statistic = split_statistic(name)
    if statistic not in TAILS:
        return f"{name} needs more than one value"
    return f"{name} is not given: it needs {samples_needed(TAILS[statistic]):,} samples and {min(counts):,} were taken"


def unknown_spread(statistic: str) -> str:
    """Why one result does not tell how much a statistic differs by itself, as a sentence."""
    tail = f", {samples_needed(TAILS[statistic]):,} or more in each" if statistic in TAILS else ""
    need = f"it needs the samples of the runs{tail}, or a baseline of several results"
    return f"how much {statistic} differs from run to run is not known; {need}"
