"""All that is said about one metric of one job: location, spread, tails, interval and outliers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from assay.analyse.intervals import LEVEL, between_runs
from assay.analyse.outliers import Pool, find_outliers
from assay.analyse.percentiles import TAILS, backed
from assay.analyse.quality import is_quality
from assay.analyse.records import MetricStatistics
from assay.metrics import Better
from assay.run.records import SampleSet


def measured_values(samples: Iterable[SampleSet]) -> dict[str, NDArray[np.float64]]:
    """Metric → the values of one run's measured phase, in the order they were taken."""
    parts: dict[str, list[NDArray[np.float64]]] = {}
    for one in samples:
        if one.phase == "measure":
            parts.setdefault(one.metric, []).append(one.value)
    return {metric: values[0] if len(values) == 1 else np.concatenate(values) for metric, values in parts.items()}


def summarise(
    metric_name: str,
    unit: str,
    better: Better | None,
    by_run: Mapping[int, NDArray[np.float64]],
    *,
    level: float = LEVEL,
) -> MetricStatistics:
    """Summarise one metric over the runs of a job.

    Samples are pooled for the shape; the interval comes from the medians of the runs alone (of scores, their means).

    Raises:
        ValueError: if there is no finite value.
    """
    finite = {run: np.isfinite(values) for run, values in by_run.items()}
    pool = _pool(by_run, finite)
    if not pool.values.size:
        raise ValueError(f"{metric_name} has no finite value to summarise")
    values, n = pool.values, pool.values.size
    quantiles = _quantiles(values)
    deviations = np.abs(values - quantiles["p50"])
    mad = _median(deviations)
    flagged = find_outliers(pool, quantiles["p50"], mad, deviations)
    # A score is a share of answers that were right: half of them say nothing, their mean says all.
    run_values = _run_values(pool, _mean if is_quality(metric_name) else _median)
    run_means = _run_values(pool, _mean)
    return MetricStatistics(
        unit=unit,
        better=better,
        count=n,
        mean=_mean(values),
        std=float(values.std(ddof=1)) if n > 1 else None,
        median=quantiles["p50"],
        min=float(values.min()),
        max=float(values.max()),
        mad=mad,
        p50=quantiles["p50"],
        p90=quantiles.get("p90"),
        p95=quantiles.get("p95"),
        p99=quantiles.get("p99"),
        p99_9=quantiles.get("p99_9"),
        interval=between_runs(list(run_values.values()), level),
        runs=len(run_values),
        run_values=run_values,
        outliers=flagged.extreme,
        outlier_count=flagged.count,
        non_finite=sum(values.size for values in by_run.values()) - n,
        mean_interval=between_runs(list(run_means.values()), level),
    )


def _pool(by_run: Mapping[int, NDArray[np.float64]], finite: Mapping[int, NDArray[np.bool_]]) -> Pool:
    """Put the finite values of all runs in one row."""
    runs = tuple(sorted(run for run in by_run if finite[run].any()))
    whole = {run: bool(finite[run].all()) for run in runs}
    values = [by_run[run] if whole[run] else by_run[run][finite[run]] for run in runs]
    return Pool(
        values=np.concatenate(values).astype(np.float64, copy=False) if values else np.empty(0),
        positions=tuple(None if whole[run] else np.flatnonzero(finite[run]) for run in runs),
        starts=np.cumsum([0, *(part.size for part in values[:-1])]).astype(np.int64),
        runs=runs,
        whole_run=all(values.size <= 1 for values in by_run.values()),
    )


def _run_values(pool: Pool, value: Callable[[NDArray[np.float64]], float]) -> dict[int, float]:
    parts = np.split(pool.values, pool.starts[1:])
    return {run: value(part) for run, part in zip(pool.runs, parts, strict=True)}


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
