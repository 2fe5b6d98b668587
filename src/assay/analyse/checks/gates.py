"""The objectives of a benchmark file, held against what was measured: met, missed or cannot tell."""

from __future__ import annotations

from collections.abc import Mapping

from assay.analyse.percentiles import TAILS, samples_needed
from assay.analyse.records import Check, MetricStatistics
from assay.analyse.words import number, quantity
from assay.plan.job import Job

# Statistics whose uncertainty the interval between runs describes.
_CENTRES = frozenset({"mean", "median", "p50"})


def gates_of(job: Job, metrics: Mapping[str, MetricStatistics]) -> tuple[Check, ...]:
    """One check per objective; what was not measured is neither met nor missed."""
    return tuple(_gate(name, limit, metrics) for name, limit in job.definition.objective.items())


def _gate(name: str, limit: float, metrics: Mapping[str, MetricStatistics]) -> Check:
    metric, _, statistic = name.rpartition(".")
    found = _matching(metric, metrics)
    if not found:
        return Check(name, None, f"{metric} was not measured")
    # A program may report one metric under several labels; the objective holds for each of them.
    parts = [_held(label, statistic, limit, stats) for label, stats in found.items()]
    answers = [passed for passed, _ in parts]
    passed = False if False in answers else None if None in answers else True
    return Check(name, passed, "; ".join(sentence for _, sentence in parts))


def _matching(metric: str, metrics: Mapping[str, MetricStatistics]) -> dict[str, MetricStatistics]:
    return {name: stats for name, stats in metrics.items() if name == metric or name.startswith(f"{metric}{{")}


def _held(label: str, statistic: str, limit: float, stats: MetricStatistics) -> tuple[bool | None, str]:
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
    return met, sentence + _doubt(statistic, limit, stats)


def _not_given(name: str, statistic: str, stats: MetricStatistics) -> str:
    if statistic not in TAILS:
        return f"{name} needs more than {stats.count:,} value"
    return f"{name} is not given: it needs {samples_needed(TAILS[statistic]):,} samples and {stats.count:,} were taken"


def _doubt(statistic: str, limit: float, stats: MetricStatistics) -> str:
    """Say so where the runs spread across the limit."""
    interval = stats.interval
    if statistic in _CENTRES and interval is not None and interval.low <= limit <= interval.high:
        return ", which lies inside the interval between runs, so another measurement may end on the other side"
    return ""
