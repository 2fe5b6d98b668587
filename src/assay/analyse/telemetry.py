"""What Prometheus scraped of nodes and services as a few quantities over time; counters as rates, resets counted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import JsonValue

from assay.run.probes.series import ALIASES
from assay.store.telemetry import Metrics, ScrapedSeries

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Scrapes come late now and then; more than this many intervals apart, at least one is missing.
GAP = 2.5


@dataclass(frozen=True, slots=True, eq=False)
class CounterCourse:
    """A quantity over time. NaN stands where a gap begins, so that a line through it is broken there."""

    at_s: NDArray[np.float64]
    value: NDArray[np.float64]
    resets: int = 0
    """How often the counter began again."""
    gaps: int = 0
    """How often readings are missing."""

    @property
    def finite(self) -> NDArray[np.float64]:
        return self.value[np.isfinite(self.value)]


def rate(at_s: NDArray[np.float64], value: NDArray[np.float64], interval_s: float) -> CounterCourse:
    """How much a counter rose in a second, at the end of each step.

    A counter that fell has begun again at some moment within the step, and what it had counted until then is lost:
    that step has no rate. The same holds for a step in which readings are missing: its mean would hide them.
    """
    seconds, risen = np.diff(at_s), np.diff(value)
    late = seconds > GAP * interval_s
    fell = risen < 0
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = np.where((seconds > 0) & ~late & ~fell, risen / seconds, np.nan)
    return CounterCourse(at_s[1:], rates, int(np.count_nonzero(fell)), int(np.count_nonzero(late)))


def broken(at_s: NDArray[np.float64], value: NDArray[np.float64], interval_s: float) -> CounterCourse:
    """A gauge with NaN put into the middle of every gap."""
    late = np.flatnonzero(np.diff(at_s) > GAP * interval_s)
    if not late.size:
        return CounterCourse(at_s, value)
    middle = (at_s[late] + at_s[late + 1]) / 2
    return CounterCourse(np.insert(at_s, late + 1, middle), np.insert(value, late + 1, np.nan), gaps=int(late.size))


def total(courses: list[CounterCourse]) -> CounterCourse:
    """Several quantities added up, at the moments that all of them have."""
    if not courses:
        return CounterCourse(np.empty(0), np.empty(0))
    at_s = courses[0].at_s
    for other in courses[1:]:
        at_s = np.intersect1d(at_s, other.at_s)
    parts = [course.value[np.isin(course.at_s, at_s)] for course in courses]
    return CounterCourse(
        at_s, np.sum(parts, axis=0), max(course.resets for course in courses), max(course.gaps for course in courses)
    )


Whose = Literal["node", "gpu", "service"]
HAS_METRICS = "assay_service_has_metrics"
_BUSY = ("user", "nice", "system", "irq", "softirq", "steal")
# Not the network of the node, and not disks of their own: what goes through them is counted below them again.
_NO_NETWORK = re.compile(r"lo")
_NO_DISK = re.compile(r"(dm-|md|loop|z?ram|sr|fd)\d+")


@dataclass(frozen=True, slots=True)
class Quantity:
    """One thing that is measured on a node, a GPU or a service."""

    key: str
    title: str
    unit: str
    whose: Whose


@dataclass(frozen=True, slots=True, eq=False)
class QuantityCourse:
    """One quantity of one thing over time."""

    quantity: Quantity
    of: str
    """Whose it is, in words: `n1`, `n1 GPU 0`, `llm`."""
    course: CounterCourse
    """Moments are seconds on the clock of the day."""


CPU = Quantity("cpu_busy_pct", "Processors busy", "%", "node")
MEMORY = Quantity("memory_used_bytes", "Memory used", "B", "node")
NETWORK_IN = Quantity("net_in_bytes_per_s", "Network, in", "B/s", "node")
NETWORK_OUT = Quantity("net_out_bytes_per_s", "Network, out", "B/s", "node")
DISK_READ = Quantity("disk_read_bytes_per_s", "Disk, read", "B/s", "node")
DISK_WRITTEN = Quantity("disk_write_bytes_per_s", "Disk, written", "B/s", "node")
_GPU = (
    (Quantity("gpu_util_pct", "GPU utilisation", "%", "gpu"), "DCGM_FI_DEV_GPU_UTIL", 1.0),
    (Quantity("gpu_mem_bytes", "GPU memory used", "B", "gpu"), "DCGM_FI_DEV_FB_USED", float(2**20)),
    (Quantity("gpu_power_w", "GPU power", "W", "gpu"), "DCGM_FI_DEV_POWER_USAGE", 1.0),
    (Quantity("gpu_temperature_c", "GPU temperature", "°C", "gpu"), "DCGM_FI_DEV_GPU_TEMP", 1.0),
)
# The server's own numbers, by the names under which `run.probes.series` finds them; the share of a cache is no sum.
_SERVICE = (
    (Quantity("requests_per_s", "Requests ended", "1/s", "service"), "throughput_per_s"),
    (Quantity("running", "Requests running", "", "service"), "concurrency"),
    (Quantity("waiting", "Requests waiting", "", "service"), "waiting"),
    (Quantity("output_tokens_per_s", "Tokens out", "1/s", "service"), "output_tokens_per_s"),
    (Quantity("input_tokens_per_s", "Tokens in", "1/s", "service"), "input_tokens_per_s"),
    (Quantity("cache_used_pct", "KV cache used", "%", "service"), "cache_used_share"),
)
_FALLBACK = {"throughput_per_s": ("http_requests_total", "http_request_duration_seconds_count")}
_PROCESS_CPU = Quantity("process_cpu_pct", "Processor of the service", "% of a core", "service")
_PROCESS_MEMORY = Quantity("process_memory_bytes", "Memory of the service", "B", "service")


def watched(metrics: Metrics) -> list[QuantityCourse]:
    """Every quantity that there is something of, nodes first, then GPUs, then services."""
    courses = [*_nodes(metrics), *_gpus(metrics), *_services(metrics)]
    return [course for course in courses if course.course.finite.size]


def summary(metrics: Metrics) -> dict[str, JsonValue]:
    """The quantities as mean and highest value over what was measured, and how the scrapes went, as facts of a run."""
    low, high = metrics.measured or (metrics.begin_s, metrics.end_s)
    silent = [_target(series.labels) for series in metrics.named(HAS_METRICS) if not series.value.any()]
    figures: list[JsonValue] = []
    for course in watched(metrics):
        values = course.course.value[(course.course.at_s >= low) & (course.course.at_s <= high)]
        values = values[np.isfinite(values)]
        if values.size:
            figures.append(
                {
                    "what": course.quantity.key,
                    "title": course.quantity.title,
                    "unit": course.quantity.unit,
                    "whose": course.quantity.whose,
                    "of": course.of,
                    "mean": float(values.mean()),
                    "max": float(values.max()),
                    "readings": int(values.size),
                    "gaps": course.course.gaps,
                    "resets": course.course.resets,
                }
            )
    return {
        "interval_s": metrics.interval_s,
        "over": "the measured window" if metrics.measured else "the whole run",
        "seconds": high - low,
        "targets": _targets(metrics),
        "figures": figures,
        "absent": {**dict(metrics.notes), **dict.fromkeys(silent, "the service answers, and has no metrics there")},
    }


def together(parts: Sequence[JsonValue]) -> dict[str, JsonValue] | None:
    """What was scraped of several clients of one load: each node and service once; None where nothing was.

    Args:
        parts: the facts `monitoring` of the same run of each client, as `summary` made them.
    """
    with_figures = [part for part in parts if isinstance(part, dict) and isinstance(part.get("figures"), list)]
    if not with_figures:
        return None
    figures: dict[tuple[str, str], JsonValue] = {}
    targets: dict[str, JsonValue] = {}
    absent: dict[str, JsonValue] = {}
    for part in with_figures:
        rows = part["figures"]
        for figure in rows if isinstance(rows, list) else ():
            if isinstance(figure, dict):
                figures.setdefault((str(figure.get("of")), str(figure.get("what"))), figure)
        for collected, name in ((targets, "targets"), (absent, "absent")):
            section = part.get(name)
            collected |= {
                key: value
                for key, value in (section.items() if isinstance(section, dict) else ())
                if key not in collected
            }
    return {**with_figures[0], "figures": list(figures.values()), "targets": targets, "absent": absent}


def _targets(metrics: Metrics) -> dict[str, JsonValue]:
    """How often each thing was scraped over the run, how often that failed, and how often scrapes are missing."""
    tallies: dict[str, list[int]] = {}
    for series in metrics.named("up"):
        row = tallies.setdefault(_target(series.labels), [0, 0, 0])
        row[0] += int(series.value.size)
        row[1] += int(np.count_nonzero(series.value == 0))
        row[2] += broken(series.at_ms / 1e3, series.value, metrics.interval_s).gaps
    return {name: {"scrapes": row[0], "failed": row[1], "gaps": row[2]} for name, row in tallies.items()}


def _target(labels: Mapping[str, str]) -> str:
    service = labels.get("service")
    return f"service {service}" if service else f"node {labels.get('node') or labels.get('instance', '')}"


def _nodes(metrics: Metrics) -> Iterator[QuantityCourse]:
    plain = {
        NETWORK_IN: ("node_network_receive_bytes_total", _NO_NETWORK),
        NETWORK_OUT: ("node_network_transmit_bytes_total", _NO_NETWORK),
        DISK_READ: ("node_disk_read_bytes_total", _NO_DISK),
        DISK_WRITTEN: ("node_disk_written_bytes_total", _NO_DISK),
    }
    for node, series in _by(metrics, lambda row: row.labels.get("node", ""), "node_").items():
        yield from _processors(node, series, metrics.interval_s)
        yield from _memory(node, series, metrics.interval_s)
        for quantity, (name, but) in plain.items():
            rows = [row for row in series if row.name == name and not but.fullmatch(row.labels.get("device", ""))]
            if rows:
                yield QuantityCourse(quantity, node, total([_rate(row, metrics.interval_s) for row in rows]))


def _processors(node: str, series: Sequence[ScrapedSeries], interval_s: float) -> Iterator[QuantityCourse]:
    rows = [row for row in series if row.name == "node_cpu_seconds_total" and row.labels.get("mode") in _BUSY]
    count = len({row.labels.get("cpu") for row in rows})
    if count:
        busy = total([_rate(row, interval_s) for row in rows])
        yield QuantityCourse(CPU, node, _scaled(busy, 100 / count))


def _memory(node: str, series: Sequence[ScrapedSeries], interval_s: float) -> Iterator[QuantityCourse]:
    rows = {row.name: row for row in series}
    try:
        whole, free = (rows[f"node_memory_{name}_bytes"] for name in ("MemTotal", "MemAvailable"))
    except KeyError:
        return
    _, left, right = np.intersect1d(whole.at_ms, free.at_ms, return_indices=True)
    used = whole.value[left] - free.value[right]
    yield QuantityCourse(MEMORY, node, broken(whole.at_ms[left] / 1e3, used, interval_s))


def _gpus(metrics: Metrics) -> Iterator[QuantityCourse]:
    for quantity, name, scale in _GPU:
        rows = {
            f"{scraped.labels.get('node', '')} GPU {scraped.labels.get('gpu', '')}".strip(): scraped
            for scraped in metrics.named(name)
        }
        for of, series in rows.items():
            yield QuantityCourse(quantity, of, _scaled(_gauge(series, metrics.interval_s), scale))


def _services(metrics: Metrics) -> Iterator[QuantityCourse]:
    for service, series in _by(metrics, lambda row: row.labels.get("service", "")).items():
        if not service:
            continue
        names = {row.name for row in series}
        for quantity, metric in _SERVICE:
            course = _known(metric, series, names, metrics.interval_s)
            if course is not None:
                yield QuantityCourse(quantity, service, _scaled(course, 100.0 if quantity.unit == "%" else 1.0))
        for quantity, name, scale in (
            (_PROCESS_CPU, "process_cpu_seconds_total", 100.0),
            (_PROCESS_MEMORY, "process_resident_memory_bytes", 1.0),
        ):
            rows = [row for row in series if row.name == name]
            if rows:
                yield QuantityCourse(quantity, service, _scaled(_summed(rows, metrics.interval_s), scale))


def _known(metric: str, series: Sequence[ScrapedSeries], names: set[str], interval_s: float) -> CounterCourse | None:
    """One of the server's own numbers, by the first of its known names that the server has."""
    aliases = [alias.name for alias in ALIASES if alias.metric == metric and alias.how in ("rate", "mean")]
    name = next((candidate for candidate in (*aliases, *_FALLBACK.get(metric, ())) if candidate in names), None)
    if name is None:
        return None
    rows = [row for row in series if row.name == name]
    course = _summed(rows, interval_s)
    return _scaled(course, 1 / len(rows)) if metric.endswith("_share") else course


def _summed(rows: Sequence[ScrapedSeries], interval_s: float) -> CounterCourse:
    return total([_rate(row, interval_s) if row.is_counter else _gauge(row, interval_s) for row in rows])


def _by(metrics: Metrics, key: Callable[[ScrapedSeries], str], prefix: str = "") -> dict[str, list[ScrapedSeries]]:
    """Series by whom they are of; where two exporters cover the same node, the one with more series counts."""
    by_owner: dict[str, dict[str, list[ScrapedSeries]]] = {}
    for scraped in metrics.series:
        if scraped.name.startswith(prefix) and key(scraped):
            by_owner.setdefault(key(scraped), {}).setdefault(scraped.labels.get("instance", ""), []).append(scraped)
    return {
        name: max(parts.values(), key=lambda rows: sum(row.value.size for row in rows))
        for name, parts in sorted(by_owner.items())
    }


def _rate(series: ScrapedSeries, interval_s: float) -> CounterCourse:
    return rate(series.at_ms / 1e3, series.value, interval_s)


def _gauge(series: ScrapedSeries, interval_s: float) -> CounterCourse:
    return broken(series.at_ms / 1e3, series.value, interval_s)


def _scaled(course: CounterCourse, scale: float) -> CounterCourse:
    return replace(course, value=course.value * scale)
