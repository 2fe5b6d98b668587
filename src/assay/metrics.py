"""Every metric that assay itself measures: its name, unit, direction and meaning, defined once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Better = Literal["lower", "higher"]
Access = Literal["white box", "gray box", "black box", "program"]


@dataclass(frozen=True, slots=True)
class Metric:
    """A named number with a unit and a direction."""

    name: str
    unit: str
    better: Better | None
    meaning: str
    access: Access = "white box"


_KNOWN = (
    Metric("load_ms", "ms", "lower", "from a fresh process with its libraries imported to a model ready to run"),
    Metric("first_ms", "ms", "lower", "the first inference after the load"),
    Metric("latency_ms", "ms", "lower", "one warm call, from the moment it was due to its last output"),
    Metric("throughput_per_s", "1/s", "higher", "items (calls × batch) finished per second of the measured window"),
    Metric("peak_load_rss_mb", "MB", "lower", "highest resident memory while loading, the kernel's high-water mark"),
    Metric("peak_run_rss_mb", "MB", "lower", "highest resident memory while running, the kernel's high-water mark"),
    Metric("baseline_rss_mb", "MB", "lower", "resident memory before the load: interpreter and libraries"),
    Metric("cpu_pct", "%", "lower", "CPU time of the measured process over the measured window; 100 is one core"),
    Metric("cpu_ms", "ms", "lower", "CPU time of one call, all threads together, over the measured window"),
    Metric("cpu_s", "s", "lower", "CPU time of a command and the processes it waited for", "program"),
    Metric("duration_s", "s", "lower", "wall time of a command from its start to its end", "program"),
)  # fmt: skip

METRICS = {metric.name: metric for metric in _KNOWN}

_UNIT_BY_SUFFIX = {
    "_per_s": "1/s", "_ns": "ns", "_us": "µs", "_ms": "ms", "_s": "s", "_pct": "%",
    "_mb": "MB", "_gb": "GB", "_w": "W", "_j": "J",
}  # fmt: skip


def describe(name: str) -> Metric:
    """The definition of a metric, or what its name alone tells when it is not ours."""
    bare = base_name(name)
    if bare in METRICS:
        return METRICS[bare]
    unit = next((unit for suffix, unit in _UNIT_BY_SUFFIX.items() if bare.endswith(suffix)), "")
    return Metric(bare, unit, None, "reported by the program; direction not declared", "program")


def base_name(name: str) -> str:
    """A metric's name without the context that a program gave it: `speed{batch=8}` is `speed`."""
    return name.partition("{")[0]
