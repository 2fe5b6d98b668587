"""Runs of an A/B experiment: what each says, put together in pairs and blocks, and the difference of each block.

A block is A B B A or B A A B; a fair coin decides which. Whatever moves steadily while a block runs (a machine that
gets warm) takes as much from one side as from the other.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from assay.analyse.headline import headline_or_first
from assay.analyse.intervals import TAILS, samples_needed
from assay.analyse.judge import metrics_of
from assay.analyse.records import MetricStatistics
from assay.metrics import Better
from assay.plan.job import Job
from assay.run.records import RunOutcome

_STATISTICS = ("mean", "median", "min", "max", "std", "p50", *TAILS)


@dataclass(frozen=True, slots=True)
class MetricSelection:
    """A statistic of a metric, as `latency_ms.p99` names it."""

    metric: str
    statistic: str = ""
    """Empty for the value that speaks for a run: the median of its samples, of a score the mean."""

    def __str__(self) -> str:
        return f"{self.metric}.{self.statistic}" if self.statistic else self.metric


@dataclass(frozen=True, slots=True)
class RunReading:
    """One run: the statistics of its own samples, or the sentence that says why it failed."""

    run: int
    stats: Mapping[str, MetricStatistics]
    failure: str = ""
    code: str = ""
    """Of the failure."""
    seconds: float = 0.0
    """How long the run took, from start to end of its process."""

    def value(self, wanted: MetricSelection) -> float | None:
        """The number that is asked for; None where the run did not give it."""
        stats = self.stats.get(wanted.metric)
        if stats is None:
            return None
        if not wanted.statistic:
            return next(iter(stats.run_values.values()), None)
        value: float | None = getattr(stats, wanted.statistic)
        return value

    def why_absent(self, wanted: MetricSelection) -> str:
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


def wanted_from(text: str) -> MetricSelection:
    """Read `latency_ms` or `latency_ms.p99`; a dot inside the labels of a program's metric divides nothing."""
    metric, _, statistic = text.strip().rpartition(".")
    return MetricSelection(metric, statistic) if metric and statistic in _STATISTICS else MetricSelection(text.strip())


def reading_of(job: Job, outcome: RunOutcome) -> RunReading:
    """Sum up one run by itself.

    A run on another device than the one asked for counts as failed: its numbers answer another question.
    """
    result = outcome.result
    seconds = result.duration_seconds
    if result.error is not None:
        message = f"error[{result.error.code}]: {result.error.message}"
        return RunReading(result.run_id, {}, message, result.error.code, seconds)
    if result.device is not None and not result.device.honoured:
        message = f"{result.device.requested} was asked for and {result.device.used} was used"
        return RunReading(result.run_id, {}, f"error[device]: {message}", "device", seconds)
    return RunReading(result.run_id, metrics_of(job, (outcome,)), seconds=seconds)


def headline_in(job: Job, reading: RunReading) -> tuple[str, ...]:
    """The metrics of a run that answer its job's question; else the first that there is."""
    return headline_or_first(job.definition, reading.stats)


def direction_in(wanted: MetricSelection, readings: tuple[RunReading, ...]) -> tuple[str, Better | None]:
    """Unit and direction of a metric, as the runs that gave it say."""
    statistics = [reading.stats[wanted.metric] for reading in readings if wanted.metric in reading.stats]
    unit = next((stats.unit for stats in statistics if stats.unit), "")
    return unit, next((stats.better for stats in statistics if stats.better), None)


Order = Literal["ABBA", "BAAB"]
# Heads and tails.
ORDERS: tuple[Order, Order] = ("ABBA", "BAAB")
# Of one side in a block.
RUNS = 2

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Pair:
    """The run of each side that were measured one right after the other."""

    block: int
    a_first: bool
    a: float | None
    """None where the run failed or did not give the number."""
    b: float | None
    why: str = ""
    """Why the pair does not count, with the run that is to blame; empty for a good one."""

    @property
    def complete(self) -> bool:
        """Whether both runs gave their number."""
        return self.a is not None and self.b is not None


@dataclass(frozen=True, slots=True)
class Scale:
    """How a difference is expressed: as a ratio where all numbers are positive, else relative to the first side."""

    logarithmic: bool
    base: float
    """What a plain difference is relative to; 0 where nothing can be."""

    def take(self, value: float) -> float:
        """A number on the scale on which sides are subtracted."""
        return math.log(value) if self.logarithmic else value

    def relative(self, difference: float) -> float:
        """A difference on that scale as a share of the first side."""
        return math.expm1(min(difference, 700.0)) if self.logarithmic else difference / self.base

    def difference(self, share: float) -> float:
        """A share of the first side as a difference on that scale; minus infinity for all of it or more."""
        if not self.logarithmic:
            return share * self.base
        return math.log1p(share) if share > -1 else -math.inf


def pairs_of(
    a: Sequence[RunReading],
    b: Sequence[RunReading],
    orders: Sequence[Order],
    wanted: MetricSelection,
    *,
    block: int = 0,
) -> tuple[Pair, ...]:
    """Put the i-th run of one side beside the i-th run of the other, as far as both were made."""
    pairs = []
    for index, (first, right) in enumerate(zip(a, b, strict=False)):
        inside, second = divmod(index, RUNS)
        # Of A B B A the first pair begins with A and the second with B.
        a_first = (orders[inside] == "ABBA") != bool(second)
        blamed = [
            f"{side} run {run.run + 1}: {why}"
            for side, run in (("a", first), ("b", right))
            if (why := _why(run, wanted))
        ]
        pairs.append(Pair(block + inside, a_first, _finite(first, wanted), _finite(right, wanted), "; ".join(blamed)))
    return tuple(pairs)


def _finite(run: RunReading, wanted: MetricSelection) -> float | None:
    value = run.value(wanted)
    return value if value is not None and math.isfinite(value) else None


def _why(run: RunReading, wanted: MetricSelection) -> str:
    return run.why_absent(wanted) or ("" if _finite(run, wanted) is not None else f"its {wanted} is no finite number")


def scale_of(pairs: Sequence[Pair]) -> Scale:
    """The scale on which the numbers of an experiment are compared."""
    first = [pair.a for pair in pairs if pair.a is not None]
    values = [*first, *(pair.b for pair in pairs if pair.b is not None)]
    base = abs(sum(first) / len(first)) if first else 0.0
    return Scale(bool(values) and min(values) > 0, base)


def differences(pairs: Sequence[Pair], scale: Scale) -> Values:
    """What each block says about b against a: the mean over its pairs; blocks without a complete pair are left out."""
    return _means((pair.block, change) for pair, change in _changes(pairs, scale))


def second_against_first(pairs: Sequence[Pair], scale: Scale) -> Values:
    """By how much the second run of a pair differs from the first, in blocks whose pairs are both complete.

    The two pairs of a block begin with different sides, so what the sides differ by falls out.
    """
    complete = Counter(pair.block for pair in pairs if pair.complete)
    whole = [pair for pair in pairs if complete[pair.block] == RUNS]
    return _means((pair.block, change if pair.a_first else -change) for pair, change in _changes(whole, scale))


def _changes(pairs: Sequence[Pair], scale: Scale) -> Iterator[tuple[Pair, float]]:
    for pair in pairs:
        if pair.a is not None and pair.b is not None:
            yield pair, scale.take(pair.b) - scale.take(pair.a)


def _means(entries: Iterable[tuple[int, float]]) -> Values:
    blocks: dict[int, list[float]] = {}
    for block, change in entries:
        blocks.setdefault(block, []).append(change)
    return np.array([sum(changes) / len(changes) for _, changes in sorted(blocks.items())], dtype=np.float64)
