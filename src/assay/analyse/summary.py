"""Everything known about one metric of one job: location, spread, tails, interval, outliers; and later scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from assay.analyse.headline import is_quality
from assay.analyse.intervals import LEVEL, TAILS, backed, between_runs, median_of_runs, stretched
from assay.analyse.records import Interval, MetricStatistics, Outlier
from assay.analyse.tails import tail_interval
from assay.metrics import Better, describe
from assay.run.records import SampleSet

KEPT = 20
# Iglewicz and Hoaglin's limit for many values. The MAD of few values is often small by luck, so that limit
# would flag something in one of five sets of five normal values; the second term brings it to one in fifteen or fewer.
_LIMIT = 3.5
_SMALL_SET = 110.0
# Closer than this to the median no value is odd, however well the others agree.
_NEAREST = 0.01
_MAD_TO_DEVIATION = 1.4826  # both make the scale a standard deviation for normal values
_MEAN_TO_DEVIATION = 1.2533


@dataclass(frozen=True, slots=True, eq=False)
class SamplePool:
    """The finite values of all runs in one row, and where each came from."""

    values: NDArray[np.float64]
    positions: tuple[NDArray[np.int64] | None, ...]  # of a run's values in that run; None where all of them are here
    starts: NDArray[np.int64]  # where each run's values begin
    runs: tuple[int, ...]
    whole_run: bool  # one number per run: it has no sample id


def _outliers(
    pool: SamplePool, median: float, mad: float, deviations: NDArray[np.float64]
) -> tuple[int, tuple[Outlier, ...]]:
    """How many values are far from the median, and the most extreme of them."""
    if pool.values.size < 3:
        return 0, ()
    scale, limit = mad * _MAD_TO_DEVIATION, _LIMIT + _SMALL_SET / deviations.size**2
    if mad <= 0:
        # More than half of the values are equal, so the MAD is blind; the mean distance still sees the others.
        scale, limit = float(deviations.mean()) * _MEAN_TO_DEVIATION, _LIMIT
    nearest = max(limit * scale, _NEAREST * abs(median))
    indices = np.flatnonzero(deviations > nearest)
    if not indices.size or scale <= 0:
        return 0, ()
    # Ties are broken by position, so that the same values always give the same list.
    order = np.lexsort((indices, -deviations[indices]))[:KEPT]
    return int(indices.size), tuple(_outlier(pool, int(i), float(deviations[i]) / scale) for i in indices[order])


def _outlier(pool: SamplePool, index: int, score: float) -> Outlier:
    place = int(np.searchsorted(pool.starts, index, side="right")) - 1
    within = index - int(pool.starts[place])
    positions = pool.positions[place]
    sample = None if pool.whole_run else within if positions is None else int(positions[within])
    return Outlier(pool.runs[place], sample, float(pool.values[index]), score)


def measured_values(samples: Iterable[SampleSet]) -> dict[str, NDArray[np.float64]]:
    """Metric → the values of one run's measured phase, in the order they were taken."""
    parts: dict[str, list[NDArray[np.float64]]] = {}
    for sample_set in samples:
        if sample_set.phase == "measure":
            parts.setdefault(sample_set.metric, []).append(sample_set.value)
    return {metric: values[0] if len(values) == 1 else np.concatenate(values) for metric, values in parts.items()}


def summarise(
    metric_name: str,
    unit: str,
    better: Better | None,
    by_run: Mapping[int, NDArray[np.float64]],
    *,
    level: float = LEVEL,
    widened: float = 1.0,
) -> MetricStatistics:
    """Summarise one metric over the runs of a job.

    Samples are pooled for the shape; centre and interval come from the medians of the runs alone (of scores, from their
    means).

    Args:
        widened: factor on the intervals, where the spread between the runs decided how many there are.
    """
    finite = {run: np.isfinite(values) for run, values in by_run.items()}
    pool = _pool(by_run, finite)
    if not pool.values.size:
        raise ValueError(f"{metric_name} has no finite value to summarise")
    values, n = pool.values, pool.values.size
    quantiles = _quantiles(values)
    deviations = np.abs(values - quantiles["p50"])
    mad = _median(deviations)
    flagged, extreme = _outliers(pool, quantiles["p50"], mad, deviations)
    # A score is a share of answers that were right: half of them say nothing, their mean says all.
    quality = is_quality(metric_name)
    run_means = _run_values(pool, _mean)
    run_values = run_means if quality else _run_values(pool, _median)
    centres = np.array(list(run_values.values()))
    mean_interval = stretched(between_runs(list(run_means.values()), level), widened)
    return MetricStatistics(
        unit=unit,
        better=better,
        count=n,
        mean=_mean(values),
        std=float(values.std(ddof=1)) if n > 1 else None,
        median=quantiles["p50"] if quality else _median(centres),
        min=float(values.min()),
        max=float(values.max()),
        mad=mad,
        p50=quantiles["p50"],
        p90=quantiles.get("p90"),
        p95=quantiles.get("p95"),
        p99=quantiles.get("p99"),
        p99_9=quantiles.get("p99_9"),
        interval=mean_interval if quality else median_of_runs(centres, level, widened=widened),
        runs=len(run_values),
        run_values=run_values,
        outliers=extreme,
        outlier_count=flagged,
        non_finite=sum(values.size for values in by_run.values()) - n,
        mean_interval=mean_interval,
        tails=_tails(pool, quantiles, level),
        widened=widened,
    )


def _pool(by_run: Mapping[int, NDArray[np.float64]], finite: Mapping[int, NDArray[np.bool_]]) -> SamplePool:
    """Put the finite values of all runs in one row."""
    runs = tuple(sorted(run for run in by_run if finite[run].any()))
    whole = {run: bool(finite[run].all()) for run in runs}
    values = [by_run[run] if whole[run] else by_run[run][finite[run]] for run in runs]
    return SamplePool(
        values=np.concatenate(values).astype(np.float64, copy=False) if values else np.empty(0),
        positions=tuple(None if whole[run] else np.flatnonzero(finite[run]) for run in runs),
        starts=np.cumsum([0, *(part.size for part in values[:-1])]).astype(np.int64),
        runs=runs,
        whole_run=all(values.size <= 1 for values in by_run.values()),
    )


def _run_values(pool: SamplePool, value: Callable[[NDArray[np.float64]], float]) -> dict[int, float]:
    parts = np.split(pool.values, pool.starts[1:])
    return {run: value(part) for run, part in zip(pool.runs, parts, strict=True)}


def _tails(pool: SamplePool, quantiles: Mapping[str, float], level: float) -> dict[str, Interval]:
    """The intervals of the percentiles that are given."""
    parts = np.split(pool.values, pool.starts[1:])
    found = {name: tail_interval(parts, TAILS[name], quantiles[name], level) for name in TAILS if name in quantiles}
    return {name: interval for name, interval in found.items() if interval is not None}


def _mean(values: NDArray[np.float64]) -> float:
    """The mean, held between the smallest and largest value, which rounding can leave by one digit."""
    return float(np.clip(values.mean(), values.min(), values.max()))


def _median(values: NDArray[np.float64]) -> float:
    return _interpolate(np.partition(values, _ranks(values.size, 0.5)), 0.5)


def _quantiles(values: NDArray[np.float64]) -> dict[str, float]:
    """The median and every tail percentile that the number of values backs."""
    shares = {"p50": 0.5, **{name: p for name, p in TAILS.items() if backed(values.size, p)}}
    # One pass that puts all ranks in place costs little more than the median alone.
    ranks = sorted({rank for p in shares.values() for rank in _ranks(values.size, p)})
    ordered = np.partition(values, ranks)
    return {name: _interpolate(ordered, p) for name, p in shares.items()}


def _ranks(n: int, p: float) -> list[int]:
    """The two ranks between which the quantile lies."""
    rank = int((n - 1) * p)
    return [rank, min(rank + 1, n - 1)]


def _interpolate(ordered: NDArray[np.float64], p: float) -> float:
    low, high = (float(ordered[rank]) for rank in _ranks(ordered.size, p))
    part = (ordered.size - 1) * p % 1
    return min(max(low * (1 - part) + high * part, low), high)


@dataclass(frozen=True, slots=True)
class Quality:
    """One metric of quality over the runs of a job."""

    statistics: MetricStatistics
    """As a result has them: over all answers, with the interval of a run's median."""
    run_means: Mapping[int, float]
    """Run id → mean over its answers."""
    interval: Interval | None
    """Of the mean of a run, from the spread between runs; None for one run. Quality is given by its mean: the
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
    names = dict.fromkeys(name for scores in by_run.values() for name in scores)
    return {
        name: _quality(name, {run: scores[name] for run, scores in by_run.items() if name in scores}) for name in names
    }


def _quality(name: str, by_run: Mapping[int, NDArray[np.float64]]) -> Quality:
    description = describe(name)
    # An answer without a score is no value, here as after a run; its reason is shown beside the numbers.
    finite = {run: values[np.isfinite(values)] for run, values in by_run.items() if np.isfinite(values).any()}
    means = {run: float(values.mean()) for run, values in finite.items()}
    return Quality(
        summarise(name, description.unit, description.better, finite), means, between_runs(list(means.values()))
    )
