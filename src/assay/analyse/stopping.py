"""How many runs a job needs: they are added until its headline is as precise as asked, or the budget is spent.

The spread of the runs decides when they stop, so runs that agree by luck would stop early and promise too much. The
intervals of such a job are therefore wider by the factor WIDENED, which keeps 95 % for the noises of the calibration.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray

from assay.analyse.headline import headline, is_quality
from assay.analyse.intervals import median_of_runs, relative_half_width
from assay.analyse.records import MetricStatistics
from assay.analyse.summary import measured_values
from assay.plan.job import Job
from assay.run.records import RunOutcome, SingleRunResult
from assay.spec.benchmark import Definition

WIDENED = 1.2
# Beyond twice the runs that every job has, and where the budget buys less than a quarter of those that are missing,
# more of them would take time and bring nothing that was asked for.
_HOPELESS_AFTER = 2
_HOPELESS_SHARE = 4
# From here on the interval lies between ranks, and narrows with the root of the number of runs.
_RANKS_FROM = 6
# Half the interval of the median of n normal values, times the root of n, over their deviation.
_OF_A_MEDIAN = WIDENED * 1.96 * 1.2533
_MAD_TO_DEVIATION = 1.4826


def widening(definition: Definition) -> float:
    """The factor on the intervals of a job."""
    return WIDENED if definition.adds_runs else 1.0


def precise_metric(definition: Definition, metrics: Sequence[str]) -> str | None:
    """The metric whose interval decides: the first of the headline that is no score; a search is judged elsewhere."""
    return next((name for name in headline(definition, metrics) if not is_quality(name)), None)


@dataclass(frozen=True, slots=True)
class Precision:
    """How well a job's headline metric is known, and what it takes to know it as well as asked."""

    metric: str
    width: float
    """Half the interval, relative to the value."""
    asked: float
    runs: int
    """Runs that gave the metric."""
    run_s: float
    """Seconds that a run takes."""
    spent_s: float
    """Seconds that all runs took."""
    spread: float
    """Standard deviation of a run, relative to the value, by the middle of the distances from the middle run."""

    @property
    def reached(self) -> bool:
        return self.width <= self.asked

    @property
    def runs_needed(self) -> int:
        """How many runs in all would probably do, from the spread of those that there are.

        The interval of few runs reaches over all of them, also over one that is far off and would not count among many.
        """
        if self.runs < _RANKS_FROM:
            runs = (_OF_A_MEDIAN * self.spread / self.asked) ** 2
            return math.ceil(min(max(runs, self.runs + 1), 1e6))
        ratio = self.width / self.asked
        return math.ceil(min(self.runs * ratio * ratio, 1e6))

    def more(self, definition: Definition) -> bool:
        """Whether another run is worth its time."""
        budget_s, least = definition.measure.budget, definition.measure.least_runs
        left_s = budget_s - self.spent_s
        if self.reached or left_s < self.run_s:
            return False
        missing_s = (self.runs_needed - self.runs) * self.run_s
        return self.runs < _HOPELESS_AFTER * least or missing_s <= _HOPELESS_SHARE * left_s


def precision_of(
    definition: Definition, metrics: Mapping[str, MetricStatistics], runs: Sequence[SingleRunResult]
) -> Precision | None:
    """How well the headline of a result is known; None where that decided nothing, or nothing was measured."""
    name = precise_metric(definition, tuple(metrics)) if definition.adds_runs else None
    interval = metrics[name].interval if name is not None else None
    if name is None or interval is None:
        return None
    values = list(metrics[name].run_values.values())
    return _precision(definition, name, relative_half_width(interval), values, runs)


def _precision(
    definition: Definition, name: str, width: float, values: Sequence[float], runs: Sequence[SingleRunResult]
) -> Precision:
    seconds = [run.duration_seconds for run in runs]
    centre = float(np.median(values))
    spread = (
        _MAD_TO_DEVIATION * float(np.median(np.abs(np.array(values) - centre))) / abs(centre) if centre else math.inf
    )
    return Precision(name, width, definition.measure.precision, len(values), median(seconds), sum(seconds), spread)


class RunsUntilPrecise:
    """The runs of one job as they end, and whether there should be another."""

    def __init__(self, job: Job) -> None:
        self._definition = job.definition
        self._runs: list[SingleRunResult] = []
        self._values: dict[str, list[float]] = {}

    def add(self, outcome: RunOutcome) -> None:
        self._runs.append(outcome.result)
        if outcome.result.error is not None or not self._definition.adds_runs:
            return
        sampled = measured_values(outcome.samples)
        single = {name: np.array([value]) for name, value in outcome.result.metrics.items() if name not in sampled}
        given = {**sampled, **single}
        name = precise_metric(self._definition, tuple(given))
        if name is not None and (value := _middle(given[name])) is not None:
            self._values.setdefault(name, []).append(value)

    def more(self) -> bool:
        """Whether another run should be made, beside those that every job has."""
        if not self._definition.adds_runs or not self._values or len(self._runs) >= self._definition.most_runs:
            return False
        name = max(self._values, key=lambda key: len(self._values[key]))
        values = self._values[name]
        interval = median_of_runs(values, widened=WIDENED)
        width = math.inf if interval is None else relative_half_width(interval)
        return _precision(self._definition, name, width, values, self._runs).more(self._definition)


def _middle(values: NDArray[np.float64]) -> float | None:
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if finite.size else None
