"""The numbers of a result that are watched over time: one reading makes one point of one series.

Watched are the headline metrics of a job, the statistics that its objective names, and those that alerts name. Not
every metric: a job has dozens, most follow from others, and each more would make a real change harder to believe.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np
from pydantic import ValidationError

from assay.analyse.distributions import t_quantile
from assay.analyse.headline import headline_or_first
from assay.analyse.quality import is_quality
from assay.analyse.records import MetricStatistics, MultiRunJobResult
from assay.metrics import Better, base_name
from assay.spec.benchmark import Definition

STATISTICS = frozenset({"mean", "median", "min", "max", "p50", "p90", "p95", "p99", "p99_9", "std"})
_MEDIAN = frozenset({"median", "p50"})


@dataclass(frozen=True, slots=True)
class Reading:
    """One number of a result."""

    metric: str
    """A metric, or a statistic of one such as `ttft_ms.p99`."""
    unit: str
    better: Better | None
    value: float | None
    """None where it could not be measured."""
    standard_error: float | None = None
    """How far the value may be off by itself, from the spread between runs; None where that is not known."""


def readings(result: MultiRunJobResult, named: Iterable[str] = (), known: Iterable[str] = ()) -> tuple[Reading, ...]:
    """The numbers of a result that make points, each once.

    Args:
        named: metrics and statistics that somebody asked to watch, beside those of the job itself.
        known: metrics of the series that the job has already; one that it did not give this time has no value.
    """
    found: dict[str, Reading] = {}
    if result.state == "done":
        objective = result.definition.get("objective")
        asked = [*_headline(result), *(objective if isinstance(objective, Mapping) else ()), *named]
        for name in asked:
            for reading in _matching(str(name), result.metrics):
                found.setdefault(reading.metric, reading)
    for name in known:
        if name not in found:
            exact = (one for one in _matching(name, result.metrics) if one.metric == name)
            found[name] = next(exact, Reading(name, "", None, None))
    return tuple(found.values())


def split_statistic(name: str, metrics: Iterable[str] = ()) -> tuple[str, str]:
    """A name as metric and statistic; the statistic is empty where the metric itself is meant."""
    head, _, tail = name.rpartition(".")
    return (name, "") if name in metrics or not head or tail not in STATISTICS else (head, tail)


def _headline(result: MultiRunJobResult) -> tuple[str, ...]:
    try:
        definition = Definition.model_validate_json(json.dumps(result.definition))
    except ValidationError:  # written by another version: its first metric is still one
        return tuple(result.metrics)[:1]
    return headline_or_first(definition, result.metrics)


def _matching(name: str, metrics: Mapping[str, MetricStatistics]) -> Iterator[Reading]:
    """The readings of a name, in which `*` stands for any text; one metric may have several labels."""
    metric, statistic = split_statistic(name, metrics)
    for label, stats in metrics.items():
        if label == metric or ("{" not in metric and fnmatchcase(base_name(label), metric)):
            yield _reading(label, statistic, stats)


def _reading(metric: str, statistic: str, stats: MetricStatistics) -> Reading:
    # Of a score the mean speaks, of anything else the median; the same as every report shows. A reader who asks for the
    # median by name gets that series, and no second one of the same numbers.
    if statistic in _MEDIAN and not is_quality(metric):
        statistic = ""
    name = f"{metric}.{statistic}" if statistic else metric
    chosen = statistic or ("mean" if is_quality(metric) else "median")
    value: float | None = getattr(stats, chosen)
    better: Better | None = "lower" if statistic == "std" else stats.better
    error = _standard_error(stats, chosen, is_quality(metric))
    finite = value is not None and math.isfinite(value)
    return Reading(name, stats.unit, better, value if finite else None, error if finite else None)


def _standard_error(stats: MetricStatistics, statistic: str, quality: bool) -> float | None:
    """How far a statistic may be off, from the runs' values of the same statistic; None where these are not known."""
    if statistic == "mean" and not quality:
        interval = stats.mean_interval
        return None if interval is None else interval.half_width / t_quantile(interval.level, stats.runs - 1)
    if statistic not in (("mean",) if quality else _MEDIAN):
        return None
    values = np.array(list(stats.run_values.values()), dtype=np.float64)
    values = values[np.isfinite(values)]
    if values.size < 2:
        return None
    return float(values.std(ddof=1) / math.sqrt(values.size))
