"""Which metrics of a job are shown first."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from assay.analyse.records import MultiRunJobResult
from assay.metrics import METRICS, base_name

# Numbers about the means, not about the goal: never a headline of a program that reports others.
_RESOURCES = frozenset(METRICS) - {"latency_ms", "throughput_per_s"}


def headline_of(result: MultiRunJobResult) -> tuple[str, ...]:
    """The metrics that answer the job's question, of those that it measured."""
    target = section(result.definition, "target")
    if "command" in target:
        return _of_command(result, target)
    offline = section(result.definition, "load").get("scenario") == "offline"
    wanted = ("throughput_per_s", "latency_ms") if offline else ("latency_ms", "throughput_per_s")
    found = tuple(name for name in wanted if name in result.metrics)
    return found[:1] or tuple(result.metrics)[:1]


def section(definition: Mapping[str, JsonValue], name: str) -> Mapping[str, JsonValue]:
    """A section of a job's definition, empty when it is missing."""
    part = definition.get(name)
    return part if isinstance(part, dict) else {}


def _of_command(result: MultiRunJobResult, target: Mapping[str, JsonValue]) -> tuple[str, ...]:
    patterns = target.get("metrics")
    entries = patterns if isinstance(patterns, list | tuple) else []
    names = [entry.get("name") for entry in entries if isinstance(entry, dict)]
    declared = tuple(name for name in result.metrics if base_name(name) in names)
    own = tuple(name for name in result.metrics if base_name(name) not in _RESOURCES)
    return declared or own or tuple(name for name in ("duration_s",) if name in result.metrics)
