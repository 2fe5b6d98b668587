"""Which numbers of a result answer its question: the headline, quality, and those that become points of series."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from statistics import stdev

from pydantic import ValidationError

from assay.analyse.records import MetricStatistics, MultiRunJobResult, section
from assay.metrics import METRICS, Better, base_name
from assay.run.records import SingleRunResult
from assay.spec.benchmark import Definition
from assay.spec.target import CommandTarget, DeviceTarget, ModelTarget

# In the order in which one of them speaks for all.
_RANKED = ("recall", "rouge_l", "rouge_lsum", "rouge_1", "rouge_2", "exact_match", "contains", "json_valid")
QUALITY = frozenset(_RANKED)


def is_quality(name: str) -> bool:
    """Whether a metric judges answers."""
    return base_name(name) in QUALITY


def centre_of(stats: MetricStatistics, name: str) -> float:
    """The number that speaks for a metric: its median, of a score its mean."""
    return stats.mean if is_quality(name) else stats.median


def foremost(names: Iterable[str]) -> tuple[str, ...]:
    """The one quality metric that stands for the others, where there is any."""
    present = set(names)
    return tuple(name for name in _RANKED if name in present)[:1]


def scored_metrics(run: SingleRunResult) -> dict[str, tuple[str, ...]]:
    """Scorer → the metrics that it gave in a run, ours and those of others."""
    scorers = {**section(run.facts, "scores"), **section(section(run.facts, "answers"), "scorers")}
    given = {scorer: facts.get("metrics") for scorer, facts in scorers.items() if isinstance(facts, Mapping)}
    return {name: tuple(map(str, metrics)) for name, metrics in given.items() if isinstance(metrics, list | tuple)}


def scores_of_result(result: MultiRunJobResult) -> tuple[str, ...]:
    """How good the answers of a job were: the metric that speaks for all, then one of each scorer."""
    by_scorer: dict[str, tuple[str, ...]] = {}
    for run in result.runs:
        by_scorer |= scored_metrics(run)
    given = [[name for name in names if name in result.metrics] for names in by_scorer.values()]
    each = [foremost(names) or tuple(names)[:1] for names in given]
    return tuple(dict.fromkeys([*foremost(result.metrics), *(name for names in each for name in names)]))


# Streams of tokens: how long until the first, how evenly the others come, how many come in all.
_OF_A_STREAM = ("ttft_ms", "itl_ms", "output_tokens_per_s")
# Whatever else answers requests.
_OF_A_REQUEST = ("e2e_ms", "latency_ms", "ttft_ms")
_OF_A_DEVICE = ("_gb_per_s", "_tflops", "_tops")
_OF_A_GENERATOR = ("prefill_ms", "decode_ms")


def headline(definition: Definition, metrics: Collection[str]) -> tuple[str, ...]:
    """The metrics that answer the job's question, of those that it measured."""
    target = definition.target
    if isinstance(target, CommandTarget):
        return _of_command(definition, metrics)
    if isinstance(target, ModelTarget):
        return _of_model(definition, metrics)
    if isinstance(target, DeviceTarget):
        return tuple(name for name in metrics if name.endswith(_OF_A_DEVICE))
    return _of_service(definition, metrics)


def _of_model(definition: Definition, metrics: Collection[str]) -> tuple[str, ...]:
    """Latency or, offline, throughput; prefill and decoding where the model writes text."""
    if definition.load.scenario == "offline":
        return _present(("throughput_per_s",), metrics) or _present(("output_tokens_per_s",), metrics)
    generator_metrics = _present(_OF_A_GENERATOR, metrics) or _present(("latency_ms",), metrics)
    return (*generator_metrics, *foremost(metrics)) if generator_metrics else ()


def _of_service(definition: Definition, metrics: Collection[str]) -> tuple[str, ...]:
    """What was searched for, then what a user feels, then how good the answers were."""
    load = definition.load
    first = ["capacity_per_s"] if load.rate == "search" else []
    first += ["goodput_per_s"] if definition.objective else []
    if "itl_ms" in metrics:
        felt = _present(_OF_A_STREAM, metrics)
    else:
        felt = _present(_OF_A_REQUEST, metrics)[:1]
        # In an open loop the throughput is what was offered, and says nothing.
        closed = load.rate is None and load.trace is None and not any(stage.rate is not None for stage in load.stages)
        felt += _present(("throughput_per_s",), metrics) if closed or not felt else ()
    return (*_present(first, metrics), *felt, *foremost(metrics))


def headline_or_first(definition: Definition, metrics: Collection[str]) -> tuple[str, ...]:
    """The headline, else the first metric that there is; nothing takes the place of metrics that a file declares."""
    return headline(definition, metrics) or (() if declared(definition) else tuple(metrics)[:1])


def declared(definition: Definition) -> tuple[str, ...]:
    """The names of the metrics that a file declares for a program, in its order."""
    target = definition.target
    return tuple(dict.fromkeys(metric.name for metric in target.metrics)) if isinstance(target, CommandTarget) else ()


def _of_command(definition: Definition, metrics: Collection[str]) -> tuple[str, ...]:
    """The declared metrics in the order of the file; where it declares none, what was reported, else the duration."""
    if names := declared(definition):
        return tuple(metric for name in names for metric in metrics if base_name(metric) == name)
    # What assay measures of every program says what the work cost, not how well it went.
    reported = tuple(name for name in metrics if base_name(name) not in METRICS)
    return reported or _present(("duration_s",), metrics)


def _present(names: Iterable[str], metrics: Collection[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name in metrics)


STATISTICS = frozenset({"mean", "median", "min", "max", "p50", "p90", "p95", "p99", "p99_9", "std"})
_MEDIAN = frozenset({"median", "p50"})


@dataclass(frozen=True, slots=True)
class SeriesReading:
    """One number of a result."""

    metric: str
    """A metric, or a statistic of one such as `ttft_ms.p99`."""
    unit: str
    better: Better | None
    value: float | None
    """None where it could not be measured."""
    standard_error: float | None = None
    """How far the value may be off by itself, from the spread between runs; None where that is not known."""


def readings(
    result: MultiRunJobResult, named: Iterable[str] = (), known: Iterable[str] = ()
) -> tuple[SeriesReading, ...]:
    """The numbers of a result that make points, each once.

    Args:
        named: metrics and statistics to watch on request, beside those of the job itself.
        known: metrics of the series that the job has already; one that it did not give this time has no value.
    """
    by_metric: dict[str, SeriesReading] = {}
    if result.state == "done":
        objective = result.definition.get("objective")
        names = [*headline_of_result(result), *(objective if isinstance(objective, Mapping) else ()), *named]
        for name in names:
            for reading in _matching(str(name), result.metrics):
                by_metric.setdefault(reading.metric, reading)
    for name in known:
        if name not in by_metric:
            exact = (match for match in _matching(name, result.metrics) if match.metric == name)
            by_metric[name] = next(exact, SeriesReading(name, "", None, None))
    return tuple(by_metric.values())


def split_statistic(name: str, metrics: Iterable[str] = ()) -> tuple[str, str]:
    """A name as metric and statistic; the statistic is empty where the metric itself is meant."""
    head, _, tail = name.rpartition(".")
    return (name, "") if name in metrics or not head or tail not in STATISTICS else (head, tail)


def headline_of_result(result: MultiRunJobResult) -> tuple[str, ...]:
    """The metrics that answer a job's question, from its result alone; the most important one first."""
    try:
        definition = Definition.model_validate_json(json.dumps(result.definition))
    except ValidationError:  # written by another version: its first metric is still one
        return tuple(result.metrics)[:1]
    return headline_or_first(definition, result.metrics)


def _matching(name: str, metrics: Mapping[str, MetricStatistics]) -> Iterator[SeriesReading]:
    """The readings of a name, in which `*` stands for any text; one metric may have several labels."""
    metric, statistic = split_statistic(name, metrics)
    for label, stats in metrics.items():
        if label == metric or ("{" not in metric and fnmatchcase(base_name(label), metric)):
            yield _reading(label, statistic, stats)


def _reading(metric: str, statistic: str, stats: MetricStatistics) -> SeriesReading:
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
    return SeriesReading(name, stats.unit, better, value if finite else None, error if finite else None)


def _standard_error(stats: MetricStatistics, statistic: str, quality: bool) -> float | None:
    """How far a statistic may be off, from the runs' values of the same statistic; None where these are not known."""
    if statistic == "mean" and not quality:
        from assay.analyse.intervals import t_quantile  # it brings numpy, which texts about a job do not need

        interval = stats.mean_interval
        return None if interval is None else interval.half_width / t_quantile(interval.level, stats.runs - 1)
    if statistic not in (("mean",) if quality else _MEDIAN):
        return None
    values = [value for value in stats.run_values.values() if math.isfinite(value)]
    return None if len(values) < 2 else stdev(values) / math.sqrt(len(values))
