"""An A/A study: the same thing measured again and again, and what the differences say about this machine.

Positive values are taken on the log scale, as comparisons do: a spread is then a share of the value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from assay.analyse.compare import compare_metric
from assay.analyse.headline import is_quality
from assay.analyse.intervals import (
    LEVEL,
    POWER,
    chi_square_quantile,
    median_interval_of_run,
    median_of_runs,
    normal_quantile,
    smallest_effect,
    variance_inflation,
)
from assay.analyse.records import Comparison, Interval, MetricStatistics
from assay.metrics import Better

RUNS = (3, 5, 10, 20, 50)
# Two on each side of a comparison.
FEWEST = 4
SPLITS = 200
_FEWEST_SAMPLES = 5
_FEWEST_FOR_MEMORY = 10
_SEED = 20_260_101

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class WithinRunSpread:
    """How samples differ inside a run."""

    spread: float
    """Coefficient of variation of the samples, over all runs."""
    samples: int
    """Of the middle run."""
    independent: float
    """How many of them say as much as all do, since neighbours resemble each other."""
    share: float | None
    """Share of the variance between runs that it explains, at most: memory between samples is rather seen too large."""


@dataclass(frozen=True, slots=True)
class StudyDrift:
    """Whether values moved one way during the study (Mann and Kendall's test)."""

    change: float
    """From the first run to the last, relative; the middle of all slopes between two runs (Theil and Sen)."""
    chance: float
    """How often as clear an order comes by luck where nothing drifts."""
    found: bool
    """Whether that is less often than one in twenty."""


@dataclass(frozen=True, slots=True)
class SelfComparison:
    """The runs compared with themselves; any difference is a false alarm."""

    interleaved: Comparison
    """Every second run against the others: what an alternating comparison would say."""
    in_turn: Comparison
    """The first half against the second: what two campaigns one after the other would say."""
    splits: int
    """Random halves."""
    told: int
    """In how many of them the comparison says better or worse."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """The smallest change that a number of runs can show."""

    runs: int
    """On each side."""
    change: float
    """Relative; detected in four of five comparisons."""
    at_most: float
    """The same, if the spread between runs is as large as its interval allows."""


@dataclass(frozen=True, slots=True)
class NoiseStudy:
    """What an A/A study says about one metric."""

    metric: str
    unit: str
    better: Better | None
    value: float
    """Median over runs."""
    runs: int
    within: WithinRunSpread | None
    """None where a run gives one number."""
    between: float
    """Coefficient of variation of the runs' values."""
    interval: Interval
    """Of `between`."""
    drift: StudyDrift
    against: SelfComparison
    resolves: tuple[Resolution, ...]


def noise_of(
    name: str,
    stats: MetricStatistics,
    samples: Mapping[int, Values],
    *,
    level: float = LEVEL,
    runs: Sequence[int] = RUNS,
) -> NoiseStudy | None:
    """Study one metric; None where fewer than four runs gave it, or its values have no size to relate a spread to."""
    in_order = {run: stats.run_values[run] for run in sorted(stats.run_values)}
    values = np.array(list(in_order.values()), dtype=np.float64)
    if values.size < FEWEST or not np.isfinite(values).all() or not (values.mean() or (values > 0).all()):
        return None
    scale = _Scale.of(values)
    spread = float(scale.take(values).std(ddof=1))
    spread = 0.0 if spread < 1e-12 else spread  # equal values, but for rounding
    ends = spread_interval(spread, values.size, level)
    return NoiseStudy(
        metric=name,
        unit=stats.unit,
        better=stats.better,
        value=float(np.median(values)),
        runs=values.size,
        within=_within(name, samples, scale, spread),
        between=scale.variation(spread),
        interval=Interval(
            scale.variation(ends[0]), scale.variation(ends[1]), level, f"chi-square of {values.size} runs"
        ),
        drift=drift_of(scale.take(values), scale),
        against=_against(name, stats, in_order, level),
        resolves=tuple(
            Resolution(
                number,
                *(smallest_change(s, number, logarithmic=scale.logarithmic, level=level) for s in (spread, ends[1])),
            )
            for number in runs
        ),
    )


@dataclass(frozen=True, slots=True)
class _Scale:
    """How values are compared: by their logarithm, or relative to their mean."""

    logarithmic: bool
    base: float

    @classmethod
    def of(cls, values: Values) -> _Scale:
        return cls(bool((values > 0).all()), abs(float(values.mean())))

    def take(self, values: Values) -> Values:
        return np.log(values) if self.logarithmic else values / self.base

    def variation(self, spread: float) -> float:
        return math.sqrt(math.expm1(min(spread * spread, 700.0))) if self.logarithmic else spread

    def relative(self, change: float) -> float:
        return math.expm1(min(change, 700.0)) if self.logarithmic else change


def spread_interval(spread: float, runs: int, level: float = LEVEL) -> tuple[float, float]:
    """Where the true spread lies if `runs` normal values showed this one."""
    df = runs - 1
    tail = (1 - level) / 2
    return (
        spread * math.sqrt(df / chi_square_quantile(1 - tail, df)),
        spread * math.sqrt(df / chi_square_quantile(tail, df)),
    )


def smallest_change(
    spread: float, runs: int, *, logarithmic: bool = True, level: float = LEVEL, chance: float = POWER
) -> float:
    """The relative change that `runs` runs on each side show with that chance.

    Args:
        spread: Standard deviation of the runs' values on the scale of the comparison.
    """
    return _Scale(logarithmic, 1.0).relative(spread * smallest_effect(runs, level=level, chance=chance))


def _within(name: str, samples: Mapping[int, Values], scale: _Scale, spread: float) -> WithinRunSpread | None:
    """The spread inside runs, as far as there are samples on the scale of the study."""
    usable = [values[np.isfinite(values)] for values in samples.values()]
    usable = [
        scale.take(values) for values in usable if values.size > 1 and (not scale.logarithmic or (values > 0).all())
    ]
    if not usable:
        return None
    variance = float(np.mean([values.var(ddof=1) for values in usable]))
    independent = [values.size / variance_inflation(values) for values in usable]
    errors = [_error(values, mean=is_quality(name)) for values in usable]
    known_errors = [error for error in errors if error is not None]
    explained = float(np.mean(np.square(known_errors))) if len(known_errors) == len(errors) and spread else None
    return WithinRunSpread(
        spread=scale.variation(math.sqrt(variance)),
        samples=int(np.median([values.size for values in usable])),
        independent=float(np.median(independent)),
        share=None if explained is None else min(1.0, explained / spread**2),
    )


def _error(values: Values, *, mean: bool) -> float | None:
    """By how much the value of a run would differ from run to run through its samples alone."""
    interval = None if mean else median_interval_of_run(values)
    if interval is not None:
        return interval.half_width / normal_quantile(interval.level)
    if values.size < _FEWEST_SAMPLES:
        return None
    error = float(values.std(ddof=1)) * math.sqrt(variance_inflation(values) / values.size)
    # Too few for order statistics: a median of normal samples differs by so much more than their mean.
    return error if mean else error * math.sqrt(math.pi / 2)


def drift_of(values: Values, scale: _Scale | None = None) -> StudyDrift:
    """Whether values, in the order they were measured, move one way."""
    n = values.size
    first, second = np.triu_indices(n, 1)
    steps = values[second] - values[first]
    score = int(np.sign(steps).sum())
    slope = float(np.median(steps / (second - first)))
    chance = _chance_of_order(score, values)
    change = slope * (n - 1)
    return StudyDrift(scale.relative(change) if scale else change, chance, chance < 1 - LEVEL)


def memory_chance(values: Values) -> float:
    """How often independent values resemble their predecessors as much (Bartels' rank version of von Neumann's ratio).

    1 for fewer than ten values, where the test tells nothing.
    """
    n = values.size
    if n < _FEWEST_FOR_MEMORY:
        return 1.0
    ranks = np.argsort(np.argsort(values, kind="stable"), kind="stable").astype(np.float64)
    ratio = float((np.diff(ranks) ** 2).sum() / ((ranks - ranks.mean()) ** 2).sum())
    deviation = math.sqrt(4 * (n - 2) * (5 * n * n - 2 * n - 9) / (5 * n * (n + 1) * (n - 1) ** 2))
    return math.erfc((2 - ratio) / deviation / math.sqrt(2)) / 2


def _chance_of_order(score: int, values: Values) -> float:
    """How often the ranks of unordered values agree or disagree as much: exact, but for equal values."""
    n = values.size
    _, counts = np.unique(values, return_counts=True)
    if (counts == 1).all():
        inversions = np.ones(1)
        for size in range(2, n + 1):  # a further value makes 0 to size - 1 new inversions, each equally often
            inversions = np.convolve(inversions, np.full(size, 1 / size))
        scores = n * (n - 1) // 2 - 2 * np.arange(inversions.size)
        return min(1.0, float(inversions[np.abs(scores) >= abs(score)].sum()))
    variance = (n * (n - 1) * (2 * n + 5) - float((counts * (counts - 1) * (2 * counts + 5)).sum())) / 18
    if variance <= 0:
        return 1.0  # all are equal
    z = max(0, abs(score) - 1) / math.sqrt(variance)
    return math.erfc(z / math.sqrt(2))


def _against(name: str, stats: MetricStatistics, values: Mapping[int, float], level: float) -> SelfComparison:
    """Compare the runs with themselves, in the order they came and in random order."""
    runs = list(values)
    half = len(runs) // 2
    rng = np.random.default_rng(_SEED)

    def compared(first: Iterable[int], second: Iterable[int]) -> Comparison:
        return compare_metric(name, _part(stats, first), _part(stats, second), level=level)

    drawn = (rng.permutation(runs).tolist() for _ in range(SPLITS))
    told_apart = sum(compared(order[:half], order[half:]).answer != "cannot tell" for order in drawn)
    return SelfComparison(compared(runs[::2], runs[1::2]), compared(runs[:half], runs[half:]), SPLITS, told_apart)


def _part(stats: MetricStatistics, runs: Iterable[int]) -> MetricStatistics:
    """The statistics of some of the runs, as far as a comparison asks for them."""
    values = {run: stats.run_values[run] for run in runs}
    # An undeclared direction would hide every false alarm.
    return replace(
        stats,
        better=stats.better or "lower",
        run_values=values,
        runs=len(values),
        interval=median_of_runs(list(values.values())),
    )
