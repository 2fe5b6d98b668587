"""What the checks look at, gathered once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from assay.analyse.headline import is_quality
from assay.analyse.records import MetricStatistics
from assay.analyse.settling import REQUEST_TIMES, Course, course_of_samples
from assay.analyse.summary import measured_values
from assay.plan.job import Job
from assay.run.records import SampleSet, SingleRunResult, Window
from assay.spec.target import CommandTarget, DeviceTarget, EndpointTarget, ModelTarget, ServiceTarget

# A check's answer: passed, failed or undecided, and one sentence with the figures.
Finding = tuple[bool | None, str]
NOTHING_MEASURED: Finding = (None, "no run gave numbers, so there is nothing to look at")


def all_of(parts: Iterable[Finding | None], otherwise: str) -> Finding:
    """Several answers as one: the sentences of those that failed, else all; `otherwise` where there is no answer."""
    answers = [part for part in parts if part is not None]
    if not answers:
        return None, otherwise
    failed = [sentence for passed, sentence in answers if not passed]
    return not failed, "; ".join(failed or [sentence for _, sentence in answers])


@dataclass(frozen=True, slots=True, eq=False)
class CheckEvidence:
    """One job with everything that its runs left behind."""

    job: Job
    runs: Sequence[SingleRunResult]
    metrics: Mapping[str, MetricStatistics]
    samples: Mapping[int, tuple[SampleSet, ...]]
    headline: tuple[str, ...]
    environment: Mapping[str, JsonValue] = field(default_factory=dict)

    @property
    def good(self) -> tuple[SingleRunResult, ...]:
        return tuple(run for run in self.runs if run.error is None)

    @property
    def is_program(self) -> bool:
        """Whether the target is a command, which decides by itself what it does and reports."""
        return isinstance(self.job.definition.target, CommandTarget)

    @property
    def device(self) -> str | None:
        """The device that was asked for; None where the target runs elsewhere or decides by itself."""
        target = self.job.definition.target
        return target.device if isinstance(target, ModelTarget | DeviceTarget) else None

    def values(self) -> dict[tuple[int, str], NDArray[np.float64]]:
        """Run id and metric → all values of the measured phase, of runs without an error."""
        by_run = {run.run_id: measured_values(self.samples.get(run.run_id, ())) for run in self.good}
        return {(run, metric): values for run, metrics in by_run.items() for metric, values in metrics.items()}

    def measured(self) -> dict[tuple[int, str], NDArray[np.float64]]:
        """Run id and metric → the finite samples of the measured phase, of runs without an error.

        Of a service, only the times that its headline is about: a result has many sampled metrics, and most of them
        describe what was asked, or repeat the same requests.
        """
        sampled = {sample_set.metric for sets in self.samples.values() for sample_set in sets}
        names: list[str] = []
        if not self.is_program and len(sampled) >= 2:
            times = [name for name in REQUEST_TIMES if name in sampled]
            names = [name for name in times if name in self.headline] or times[:1]
        return {
            key: values[np.isfinite(values)] for key, values in self.values().items() if not names or key[1] in names
        }

    def courses(self) -> dict[tuple[int, str], Course]:
        """Run id and metric → the levels that its samples went through, those of the warm-up among them."""
        ramped = self.job.definition.load.ramp is not None
        return {
            (run, metric): course_of_samples(self.samples.get(run, ()), metric, ramped=ramped)
            for run, metric in self.measured()
        }

    @property
    def is_served(self) -> bool:
        """Whether the target answers over a network."""
        return isinstance(self.job.definition.target, ServiceTarget | EndpointTarget)

    @property
    def load_varies(self) -> bool:
        """Whether the load itself changes while it is measured, so that times must change with it."""
        load = self.job.definition.load
        return load.rate == "search" or load.trace is not None or bool(load.stages)

    @property
    def is_open_loop(self) -> bool:
        """Whether requests come by themselves, however many are open."""
        load = self.job.definition.load
        return load.rate is not None or load.trace is not None or any(stage.rate is not None for stage in load.stages)

    @property
    def speed(self) -> tuple[str, ...]:
        """The headline without what judges answers: how good an answer is does not spread like a time."""
        return tuple(name for name in self.headline if not is_quality(name))

    def facts(self, section: str) -> dict[int, Mapping[str, JsonValue]]:
        """Run id → one section of what the target read back, for the runs without an error that have it."""
        sections = {run.run_id: run.facts.get(section) for run in self.good}
        return {run: fact for run, fact in sections.items() if isinstance(fact, Mapping)}

    def worst(self, metric: str, statistic: str = "max") -> float | None:
        """The largest value of a metric, or its percentile where the samples back it; None where it is absent."""
        stats = self.metrics.get(metric)
        if stats is None:
            return None
        value: float | None = getattr(stats, statistic)
        return stats.max if value is None else value

    def windows(self, read: Callable[[Window], float | None]) -> dict[int, float]:
        figures = {run.run_id: read(run.window) for run in self.good if run.window}
        return {run: value for run, value in figures.items() if value is not None}
