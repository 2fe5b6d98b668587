"""Which metrics answer the question that a job asks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from assay.analyse.records import MetricStatistics
from assay.metrics import METRICS, base_name
from assay.spec.benchmark import Definition
from assay.spec.target import CommandTarget, ModelTarget

# Services answer with one of these; the first that was measured is the headline.
_OF_A_SERVICE = ("e2e_ms", "latency_ms", "ttft_ms", "throughput_per_s")


def headline(definition: Definition, metrics: Mapping[str, MetricStatistics]) -> tuple[str, ...]:
    """The metrics that answer the job's question, of those that it measured."""
    target = definition.target
    if isinstance(target, CommandTarget):
        return _of_command(target, metrics)
    if isinstance(target, ModelTarget):
        offline = definition.load.scenario == "offline"
        return _present(("throughput_per_s" if offline else "latency_ms",), metrics)
    return _present(_OF_A_SERVICE, metrics)[:1]


def _of_command(target: CommandTarget, metrics: Mapping[str, MetricStatistics]) -> tuple[str, ...]:
    """The declared metrics, else all that the program reported, else how long it took."""
    names = {pattern.name for pattern in target.metrics}
    declared = tuple(name for name in metrics if base_name(name) in names)
    # What assay measures of every program says what the work cost, not how well it went.
    reported = tuple(name for name in metrics if base_name(name) not in METRICS)
    return declared or reported or _present(("duration_s",), metrics)


def _present(names: Iterable[str], metrics: Mapping[str, MetricStatistics]) -> tuple[str, ...]:
    return tuple(name for name in names if name in metrics)
