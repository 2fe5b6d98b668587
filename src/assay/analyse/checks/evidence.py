"""What the checks look at, gathered once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.analyse.records import MetricStatistics
from assay.analyse.summary import measured_values
from assay.plan.job import Job
from assay.run.records import SampleSet, SingleRunResult, Window
from assay.spec.target import CommandTarget, ModelTarget

# A check's answer: passed, failed or cannot be told, and one plain sentence with the figures.
Finding = tuple[bool | None, str]
NOTHING_MEASURED: Finding = (None, "no run gave numbers, so there is nothing to look at")


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """One job with everything that its runs left behind."""

    job: Job
    runs: Sequence[SingleRunResult]
    metrics: Mapping[str, MetricStatistics]
    samples: Mapping[int, tuple[SampleSet, ...]]
    headline: tuple[str, ...]

    @property
    def good(self) -> tuple[SingleRunResult, ...]:
        """The runs that ended without an error."""
        return tuple(run for run in self.runs if run.error is None)

    @property
    def is_program(self) -> bool:
        """Whether the target is a command, which decides by itself what it does and reports."""
        return isinstance(self.job.definition.target, CommandTarget)

    @property
    def device(self) -> str | None:
        """The device that was asked for; None where the target runs elsewhere or decides by itself."""
        target = self.job.definition.target
        return target.device if isinstance(target, ModelTarget) else None

    def values(self) -> dict[tuple[int, str], NDArray[np.float64]]:
        """Run id and metric → all values of the measured phase, of runs without an error."""
        by_run = {run.run_id: measured_values(self.samples.get(run.run_id, ())) for run in self.good}
        return {(run, metric): values for run, metrics in by_run.items() for metric, values in metrics.items()}

    def measured(self) -> dict[tuple[int, str], NDArray[np.float64]]:
        """Run id and metric → the finite samples of the measured phase, of runs without an error."""
        return {key: values[np.isfinite(values)] for key, values in self.values().items()}

    def windows(self, read: Callable[[Window], float | None]) -> dict[int, float]:
        """Run id → one figure of its measured window, for the runs that have it."""
        seen = {run.run_id: read(run.window) for run in self.good if run.window}
        return {run: value for run, value in seen.items() if value is not None}
