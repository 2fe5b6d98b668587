"""A running Prometheus: held while something is watched, or on a cluster node until stopped; scrapes written out."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from assay.documents import from_json, to_json
from assay.errors import AssayError, MeasureError, StoreError, UsageError
from assay.files import write_whole
from assay.monitoring.discovery import LIVES, names, note_scraped, seen
from assay.monitoring.prometheus import NAME, PrometheusApi, export, prometheus_service
from assay.spec.benchmark import Benchmark, Monitoring, monitoring_of
from assay.store.telemetry import FILE, Metrics, decode, encode, merged

# Only while a target is new; afterwards Prometheus is left in peace.
_POLL_S = 0.25


class RunningPrometheus:
    """A Prometheus that runs."""

    def __init__(self, api: PrometheusApi, port: int, settings: Monitoring, discovery: Path) -> None:
        self.api, self.port, self.settings, self.discovery = api, port, settings, discovery
        self.kinds: dict[str, str] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def start(self) -> None:
        """Begin to note which targets were scraped."""
        self._thread.start()

    def end(self) -> None:
        """Stop noting."""
        self._stop.set()
        self._thread.join(timeout=5.0)

    def export(self, labels: Mapping[str, str], begin_s: float, end_s: float) -> Metrics:
        """What was scraped in a stretch of time."""
        return export(self.api, labels, begin_s, end_s, self.settings, self.kinds)

    def _follow(self) -> None:
        seen_names = seen(self.discovery)
        while not self._stop.wait(_POLL_S):
            if names(self.discovery) <= seen_names:
                continue
            try:
                reached = scraped(self.api)
                if reached - seen_names:
                    seen_names |= reached
                    self.kinds |= self.api.kinds()
                    note_scraped(self.discovery, seen_names)
            except (MeasureError, OSError):
                continue  # it is asked again; waiting for it is bounded


def scraped(api: PrometheusApi) -> set[str]:
    """The targets, by the name of their file, that were scraped at least once."""
    targets = [target for target in api.targets() if target.get("health") in ("up", "down")]
    return {Path(target["discoveredLabels"].get("__meta_filepath", "")).stem for target in targets}


@contextmanager
def scraping(
    settings: Monitoring, discovery: Path, scratch: Path, notify: Callable[[str], None] | None = None
) -> Iterator[RunningPrometheus]:
    """Start Prometheus, and end it with the body."""
    from assay.run.services import held

    for folder in (discovery, discovery / LIVES, scratch):
        folder.mkdir(parents=True, exist_ok=True)
    service = prometheus_service(settings, scratch, discovery)
    with held({NAME: service}, scratch, scratch, notify=notify) as running:
        server = RunningPrometheus(PrometheusApi(running[NAME].base_url), running[NAME].port, settings, discovery)
        server.start()
        try:
            yield server
        finally:
            server.end()


ORDER = "order.json"
WINDOW = "window.json"
_PARTS = "part-*.parquet"
_PART_EVERY_S = 60.0
_POLL_S = 0.5
_MODE = 0o644


@dataclass(frozen=True, slots=True)
class MonitorOrder:
    """What the monitor of a campaign is to do."""

    campaign: str
    settings: Monitoring


def order_for(campaign: str, benchmark: Benchmark) -> MonitorOrder | None:
    """What the monitor of a campaign on a cluster is to do; None where the file does not ask for one."""
    settings = monitoring_of(benchmark.monitoring)
    slurm = benchmark.place.slurm
    if settings is not None and settings.node_exporter is None and slurm is not None:
        settings = settings.model_copy(update={"node_exporter": slurm.node_exporter})
    return None if settings is None else MonitorOrder(campaign, settings)


def write_order(metrics: Path, order: MonitorOrder) -> None:
    """Write what the monitor is to do into the campaign's folder for metrics; without it nothing is monitored."""
    write_whole(metrics / ORDER, to_json(order, indent=2).encode(), mode=_MODE)


def read_order(metrics: Path) -> MonitorOrder | None:
    """What the monitor is to do; None where the campaign is not monitored."""
    try:
        return from_json(MonitorOrder, (metrics / ORDER).read_bytes(), source=str(metrics / ORDER))
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise UsageError(f"cannot read what to monitor: {problem.strerror}", code="no-file", at=str(metrics)) from None


def hold(
    order: MonitorOrder,
    discovery: Path,
    metrics: Path,
    scratch: Path,
    *,
    publish: Callable[[RunningPrometheus], None],
    stopped: Callable[[], bool],
    part_every_s: float = _PART_EVERY_S,
) -> Metrics | None:
    """Watch a campaign until asked to stop.

    Args:
        discovery: folder of target files, shared with the nodes.
        metrics: where what was scraped is written, shared with the login node.

    Returns:
        Everything that was scraped; None where nothing was.
    """
    begin_s = time.time()
    with scraping(order.settings, discovery, scratch) as prometheus:
        publish(prometheus)
        done_s, due = begin_s, time.monotonic() + part_every_s
        while not stopped():
            time.sleep(_POLL_S)
            if time.monotonic() >= due:
                done_s = _write_part(prometheus, order, metrics, done_s)
                due = time.monotonic() + part_every_s
        _write_part(prometheus, order, metrics, done_s)
    scraped = read_parts(metrics)
    if scraped is not None:
        write_whole(metrics / FILE, encode(scraped), mode=_MODE)
    window = {"begin_s": begin_s, "end_s": time.time(), "interval_s": order.settings.interval}
    write_whole(metrics / WINDOW, json.dumps(window).encode(), mode=_MODE)
    return scraped


def _write_part(prometheus: RunningPrometheus, order: MonitorOrder, metrics: Path, begin_s: float) -> float:
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
    """What a monitor wrote so far: all of it, or the parts of one that was killed; None where there is nothing."""
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
