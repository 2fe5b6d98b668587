"""The objectives of a benchmark file, held against what was measured: met, missed or cannot tell."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from assay.analyse.capacity.probe import ALPHA, share_held
from assay.analyse.headline import is_quality
from assay.analyse.intervals import TAILS, samples_needed
from assay.analyse.records import Check, Interval, MetricStatistics
from assay.analyse.text import number, percent, quantity
from assay.plan.job import Job

# Metric → run id → the values that it gave.
ByRun = Mapping[str, Mapping[int, NDArray[np.float64]]]


def gates_of(job: Job, metrics: Mapping[str, MetricStatistics], values: ByRun | None = None) -> tuple[Check, ...]:
    """One check per objective; what was not measured is neither met nor missed.

    Args:
        values: What each run gave, where it is known: a percentile that is too close to its limit cannot be told.
    """
    objective = job.definition.objective
    # Each of several limits is one more chance to be missed by luck.
    alpha = ALPHA / max(len(objective), 1)
    return tuple(_gate(name, limit, metrics, values or {}, alpha) for name, limit in objective.items())


def _gate(name: str, limit: float, metrics: Mapping[str, MetricStatistics], values: ByRun, alpha: float) -> Check:
    metric, _, statistic = name.rpartition(".")
    found = _matching(metric, metrics)
    if not found:
        return Check(name, None, f"{metric} was not measured")
    # A program may report one metric under several labels; the objective holds for each of them.
    parts = [_held(label, statistic, limit, stats, values.get(label), alpha) for label, stats in found.items()]
    answers = [passed for passed, _ in parts]
    passed = False if False in answers else None if None in answers else True
    return Check(name, passed, "; ".join(sentence for _, sentence in parts))


def _matching(metric: str, metrics: Mapping[str, MetricStatistics]) -> dict[str, MetricStatistics]:
    return {name: stats for name, stats in metrics.items() if name == metric or name.startswith(f"{metric}{{")}


def _held(
    label: str,
    statistic: str,
    limit: float,
    stats: MetricStatistics,
    by_run: Mapping[int, NDArray[np.float64]] | None,
    alpha: float,
) -> tuple[bool | None, str]:
    """Whether one metric keeps to a limit, in its own direction."""
    value: float | None = getattr(stats, statistic)
    name = f"{label}.{statistic}"
    if value is None:
        return None, _not_given(name, statistic, stats)
    if stats.better is None:
        return None, f"{name} is {quantity(value, stats.unit)}, and which direction is better was not declared"
    met = value <= limit if stats.better == "lower" else value >= limit
    word = "at most" if stats.better == "lower" else "at least"
    sentence = f"{name} is {quantity(value, stats.unit)}; {word} {number(limit)} was asked for"
    if statistic in TAILS and by_run:
        answer, told = _tail(TAILS[statistic], limit, by_run, higher=stats.better == "higher", alpha=alpha)
        return answer, sentence + told
    return met, sentence + _doubt(_interval(label, statistic, stats), limit)


def _not_given(name: str, statistic: str, stats: MetricStatistics) -> str:
    if statistic not in TAILS:
        return f"{name} needs more than {stats.count:,} value"
    return f"{name} is not given: it needs {samples_needed(TAILS[statistic]):,} samples and {stats.count:,} were taken"


def _tail(
    share: float, limit: float, by_run: Mapping[int, NDArray[np.float64]], *, higher: bool, alpha: float
) -> tuple[bool | None, str]:
    """Whether a percentile keeps its limit, by the samples beyond it; None where these are too close to what may be."""
    parts = [values[np.isfinite(values)] for values in by_run.values()]
    held = share_held(parts, share, limit, higher=higher, alpha=alpha)
    samples = sum(values.size for values in parts)
    told = f" ({percent(held.beyond)} of {samples:,} samples beyond it, {percent(held.allowed)} may be)"
    close = ": too close to tell, by the samples and the spread between runs"
    return held.meets, told + (close if held.meets is None else "")


def _interval(label: str, statistic: str, stats: MetricStatistics) -> Interval | None:
    """The interval of a statistic itself, from what each run gave of it; None where it has none."""
    if statistic == "mean":
        return stats.interval if is_quality(label) else stats.mean_interval
    return stats.interval if statistic in ("median", "p50") and not is_quality(label) else None


def _doubt(interval: Interval | None, limit: float) -> str:
    """Say so where the runs spread across the limit."""
    if interval is not None and interval.low <= limit <= interval.high:
        return ", which lies inside the interval between runs, so another measurement may end on the other side"
    return ""
