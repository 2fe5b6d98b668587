"""What Prometheus scraped, taken out of it: every scrape with its own moment, nothing filled in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from assay.monitoring.api import Api
from assay.store.telemetry import Metrics, ScrapedSeries, merged

if TYPE_CHECKING:
    from assay.spec.monitoring import Monitoring

# One answer holds some megabytes of text at most: 500 series of a node at 1 Hz are 1 MB a minute.
_CHUNK_MS = 120_000
_SUFFIXES = ("_bucket", "_sum", "_count")
# Of a node, what says how busy it was. Services, GPUs and the state of the scrapes are kept whole.
CHOSEN = (
    "node_cpu_seconds_total", "node_load1", "node_load5", "node_memory_MemTotal_bytes",
    "node_memory_MemAvailable_bytes", "node_memory_MemFree_bytes", "node_memory_Cached_bytes",
    "node_memory_Buffers_bytes", "node_memory_SwapTotal_bytes", "node_memory_SwapFree_bytes",
    "node_disk_read_bytes_total", "node_disk_written_bytes_total", "node_disk_io_time_seconds_total",
    "node_network_receive_bytes_total", "node_network_transmit_bytes_total", "node_network_receive_drop_total",
    "node_network_transmit_drop_total", "node_network_receive_errs_total", "node_network_transmit_errs_total",
    "node_pressure_cpu_waiting_seconds_total", "node_pressure_io_waiting_seconds_total",
    "node_pressure_memory_waiting_seconds_total", "node_context_switches_total", "node_procs_running",
    "node_boot_time_seconds",
)  # fmt: skip


def selector(labels: Mapping[str, str], keep: str) -> str:
    """The series that are taken out, as Prometheus selects them."""
    told = [f"{name}={json.dumps(value)}" for name, value in labels.items()]
    if keep == "chosen":
        told.append(f'__name__=~"{"|".join(CHOSEN)}|[^n].*|n[^o].*|no[^d].*|nod[^e].*|node[^_].*"')
    else:
        told.append('__name__=~".+"')
    return f"{{{','.join(told)}}}"


def export(
    api: Api, labels: Mapping[str, str], begin_s: float, end_s: float, settings: Monitoring, kinds: Mapping[str, str]
) -> Metrics:
    """Everything that was scraped of some labels in a stretch of time.

    Raises:
        MeasureError: if Prometheus does not answer.
    """
    wanted = selector(labels, settings.keep)
    parts = [
        _metrics(api.raw(wanted, high - low + 1, high), low, high, settings.interval, kinds)
        for low, high in _chunks(round(begin_s * 1e3), round(end_s * 1e3))
    ]
    return merged(parts)


def _chunks(begin_ms: int, end_ms: int) -> Iterator[tuple[int, int]]:
    while begin_ms <= end_ms:
        yield begin_ms, min(begin_ms + _CHUNK_MS, end_ms)
        begin_ms += _CHUNK_MS + 1


def _metrics(rows: list[dict[str, Any]], low: int, high: int, interval_s: float, kinds: Mapping[str, str]) -> Metrics:
    import numpy as np

    series = []
    for row in rows:
        labels = {name: str(value) for name, value in row["metric"].items() if name != "__name__"}
        name = str(row["metric"].get("__name__", ""))
        at_ms = np.array([round(at * 1e3) for at, _ in row["values"]], dtype=np.int64)
        value = np.array([float(text) for _, text in row["values"]], dtype=np.float64)
        inside = (at_ms >= low) & (at_ms <= high)  # what counts as the edge of a range differs between versions
        if inside.any():
            series.append(ScrapedSeries(name, labels, kind_of(name, kinds), at_ms[inside], value[inside]))
    return Metrics(tuple(series), interval_s, low / 1e3, high / 1e3)


def kind_of(name: str, kinds: Mapping[str, str]) -> str:
    """The kind of a series; empty where nobody told."""
    owner: Callable[[str], str] = lambda family: kinds.get(family, "")  # noqa: E731
    if owner(name) not in ("", "unknown", "untyped"):
        return owner(name)
    family = next((name.removesuffix(one) for one in _SUFFIXES if name.endswith(one)), name)
    return owner(family) if owner(family) in ("histogram", "summary") else ""
