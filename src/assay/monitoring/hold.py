"""Prometheus on a node of a cluster: held until it is told to stop, what it scraped written out again and again.

Its own data lie on a disk of the node, as Prometheus needs it, and are gone with the job. So the scrapes go to the
shared folder in parts while it runs: a monitor that is killed loses the last minute and nothing else.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from assay.documents import from_json, to_json
from assay.errors import AssayError, MeasureError, StoreError, UsageError
from assay.files import write_whole
from assay.monitoring.scraping import Scraping, scraping
from assay.spec.benchmark import Benchmark
from assay.spec.monitoring import Monitoring, monitoring_of
from assay.store.telemetry import FILE, Metrics, decode, encode, merged

ORDER = "order.json"
WINDOW = "window.json"
_PARTS = "part-*.parquet"
_PART_EVERY_S = 60.0
_LOOK_EVERY_S = 0.5
_MODE = 0o644


@dataclass(frozen=True, slots=True)
class Order:
    """What the monitor of a campaign is to do."""

    campaign: str
    settings: Monitoring


def order_for(campaign: str, benchmark: Benchmark) -> Order | None:
    """What the monitor of a campaign on a cluster is to do; None where the file does not ask for one."""
    settings = monitoring_of(benchmark.monitoring)
    slurm = benchmark.place.slurm
    if settings is not None and settings.node_exporter is None and slurm is not None:
        settings = settings.model_copy(update={"node_exporter": slurm.node_exporter})
    return None if settings is None else Order(campaign, settings)


def write_order(metrics: Path, order: Order) -> None:
    """Write what the monitor is to do into the campaign's folder for metrics; without it nothing is monitored."""
    write_whole(metrics / ORDER, to_json(order, indent=2).encode(), mode=_MODE)


def read_order(metrics: Path) -> Order | None:
    """What the monitor is to do; None where the campaign is not monitored.

    Raises:
        UsageError: if it is no such document.
    """
    try:
        return from_json(Order, (metrics / ORDER).read_bytes(), source=str(metrics / ORDER))
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise UsageError(f"cannot read what to monitor: {problem.strerror}", code="no-file", at=str(metrics)) from None


def hold(
    order: Order,
    discovery: Path,
    metrics: Path,
    scratch: Path,
    *,
    publish: Callable[[Scraping], None],
    stopped: Callable[[], bool],
    part_every_s: float = _PART_EVERY_S,
) -> Metrics | None:
    """Watch a campaign until told to stop.

    Args:
        discovery: folder of target files, shared with the nodes.
        metrics: where what was scraped is written, shared with the login node.

    Returns:
        Everything that was scraped; None where nothing was.

    Raises:
        MeasureError: if Prometheus cannot be started.
    """
    begin_s = time.time()
    with scraping(order.settings, discovery, scratch) as prometheus:
        publish(prometheus)
        done_s, due = begin_s, time.monotonic() + part_every_s
        while not stopped():
            time.sleep(_LOOK_EVERY_S)
            if time.monotonic() >= due:
                done_s = _write_part(prometheus, order, metrics, done_s)
                due = time.monotonic() + part_every_s
        _write_part(prometheus, order, metrics, done_s)
    found = read_parts(metrics)
    if found is not None:
        write_whole(metrics / FILE, encode(found), mode=_MODE)
    told = {"begin_s": begin_s, "end_s": time.time(), "interval_s": order.settings.interval}
    write_whole(metrics / WINDOW, json.dumps(told).encode(), mode=_MODE)
    return found


def _write_part(prometheus: Scraping, order: Order, metrics: Path, begin_s: float) -> float:
    """Write what came since the last part; return until when it was written. One that fails is written next time."""
    end_s = time.time()
    try:
        part = prometheus.export({"campaign": order.campaign}, begin_s, end_s)
    except MeasureError:
        return begin_s
    if part.series:
        number = len(list(metrics.glob(_PARTS)))
        write_whole(metrics / f"part-{number:05}.parquet", encode(part), mode=_MODE)
    return end_s + 1e-3  # moments are whole milliseconds, and this one is written


def read_parts(metrics: Path) -> Metrics | None:
    """What a monitor wrote so far: all of it, or the parts of one that was killed; None where there is nothing.

    Raises:
        StoreError: if a file is damaged.
    """
    whole = metrics / FILE
    paths = [whole] if whole.is_file() else sorted(metrics.glob(_PARTS))
    try:
        parts = [decode(path.read_bytes()) for path in paths]
    except OSError as problem:
        raise StoreError(f"cannot read metrics: {problem.strerror}", code="metrics", at=str(metrics)) from None
    return merged(parts) if parts else None


def failure_document(problem: AssayError) -> bytes:
    """Why a monitor could not begin, as it is left for those who wait for it."""
    said = problem.problem
    return json.dumps({"code": said.code, "message": said.message, "at": said.at, "try_": said.try_}).encode()
