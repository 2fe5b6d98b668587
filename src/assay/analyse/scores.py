"""Scores of answers, computed some time after they were measured: the same statistics, and the mean with its doubt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from assay.analyse.intervals import between_runs
from assay.analyse.records import Interval, MetricStatistics
from assay.analyse.summary import summarise
from assay.metrics import describe


@dataclass(frozen=True, slots=True)
class Quality:
    """One metric of quality over the runs of a job."""

    statistics: MetricStatistics
    """As a result has them: over all answers, with the interval of a run's median."""
    run_means: Mapping[int, float]
    """Run id → mean over its answers."""
    interval: Interval | None
    """Of the mean of a run, from the spread between runs; None for one run. Quality is told by its mean: the
    median of answers that are right or wrong says nothing."""


@dataclass(frozen=True, slots=True)
class ScoreRecord:
    """What one scorer says about the kept answers of a job."""

    job: str
    scorer: str
    version: str
    """Which code judged, in words."""
    computed_at: str
    metrics: Mapping[str, Quality]
    absent: Mapping[int, str] = field(default_factory=dict)
    """Run id → why some of its requests have no score."""
    outputs: Mapping[int, str] = field(default_factory=dict)
    """Run id → content hash of the answers that were judged."""


def qualities(by_run: Mapping[int, Mapping[str, NDArray[np.float64]]]) -> dict[str, Quality]:
    """Sum up scores: run id → metric → one value per answer, NaN where there is none."""
    names = dict.fromkeys(name for found in by_run.values() for name in found)
    return {
        name: _quality(name, {run: found[name] for run, found in by_run.items() if name in found}) for name in names
    }


def _quality(name: str, by_run: Mapping[int, NDArray[np.float64]]) -> Quality:
    known = describe(name)
    # An answer without a score is no value, here as after a run; its reason is told beside the numbers.
    finite = {run: values[np.isfinite(values)] for run, values in by_run.items() if np.isfinite(values).any()}
    means = {run: float(values.mean()) for run, values in finite.items()}
    return Quality(summarise(name, known.unit, known.better, finite), means, between_runs(list(means.values())))
