"""Structured logs, as JSON or as lines for people, and the server's own metrics for Prometheus."""

from __future__ import annotations

import json
import logging
import platform
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import Engine, func, select

from assay.store.database import reading
from assay.store.tables import AgentRow, JobRow
from assay.version import __version__

LOGGER = "assay.serve"
_log = logging.getLogger(LOGGER)
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
Counts = Mapping[str, Mapping[str, int]]


def log_event(event: str, *, level: int = logging.INFO, **fields: object) -> None:
    """Log one decision: what happened, and to whom."""
    if _log.isEnabledFor(level):
        _log.log(level, event, extra={"fields": fields})


def log_failure(event: str, problem: BaseException, **fields: object) -> None:
    """Log something that should not have happened, with where in the code it did."""
    _log.error(event, exc_info=problem, extra={"fields": fields})


def set_up_logs(form: Literal["console", "json"], level: str) -> None:
    """Send the events of the server, and the warnings of its libraries, to standard error."""
    stream = logging.StreamHandler(sys.stderr)
    stream.setFormatter(JsonLines() if form == "json" else PlainLines())
    _log.handlers[:] = [stream]
    _log.setLevel(level.upper())
    _log.propagate = False
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        library = logging.getLogger(name)
        library.handlers[:] = [stream]
        library.setLevel(logging.WARNING)
        library.propagate = False


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[1]:
            line["trace"] = _trace(record.exc_info[1])
        return json.dumps(line, default=str, ensure_ascii=False)


class PlainLines(logging.Formatter):
    """One line for people: time, level when it matters, event, fields."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).astimezone().strftime("%H:%M:%S")
        fields = getattr(record, "fields", {})
        shown = " ".join(f"{name}={_plain(value)}" for name, value in fields.items() if value not in ("", None))
        level = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
        line = f"{at}  {level}{record.getMessage()}  {shown}".rstrip()
        if record.exc_info and record.exc_info[1]:
            line += "\n" + "\n".join(f"  {trace_line}" for trace_line in _trace(record.exc_info[1]))
        return line


def _plain(value: object) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    # A line stays a line, whatever a client sent.
    text = text.replace("\r", "\\r").replace("\n", "\\n").replace("\x1b", "\\e")
    return json.dumps(text, ensure_ascii=False) if " " in text or not text else text


def _trace(problem: BaseException) -> list[str]:
    """Where in the code it happened and of what kind; not its text, which may hold what a client sent."""
    frames = traceback.extract_tb(problem.__traceback__)
    kinds = [f"{type(problem).__module__}.{type(problem).__qualname__}"]
    cause = problem.__cause__ or problem.__context__
    if cause is not None:
        kinds.append(f"after {type(cause).__module__}.{type(cause).__qualname__}")
    return [*kinds, *(f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames[-12:])]


class ServerMetrics:
    """All metrics of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        Info("assay_build", "Version of assay and Python.", registry=self.registry).info(
            {"version": __version__, "python": platform.python_version()}
        )
        counter, gauge = partial(Counter, registry=self.registry), partial(Gauge, registry=self.registry)
        self._requests = counter("assay_http_requests", "Requests answered.", ["method", "route", "status"])
        seconds = partial(Histogram, buckets=_BUCKETS, registry=self.registry)
        self._seconds = seconds("assay_http_request_seconds", "Time to answer.", ["method", "route"])
        self.leases = counter("assay_leases_given", "Leases given to agents.")
        self.expired = counter("assay_leases_expired", "Leases that ran out.")
        self.poisoned = counter("assay_jobs_poisoned", "Jobs set aside because they lost too many leases.")
        self.deliveries = counter("assay_deliveries", "Results delivered, by outcome.", ["word"])
        self.submitted = counter("assay_campaigns_submitted", "Campaigns submitted.")
        self.waiting = gauge("assay_waiting_polls", "Agents that wait for a job.")
        self.listeners = gauge("assay_event_listeners", "Open streams of server-sent events.")
        self.database_up = gauge("assay_database_up", "1 while the database answers.")
        self.objects_waiting = gauge("assay_objects_waiting", "Files that the object store does not have yet.")

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)

    def watch(self, counts: Callable[[], Counts]) -> None:
        """Ask for jobs, agents and queues by state whenever the metrics are read."""
        self.registry.register(_Counted(counts))

    def render(self) -> bytes:
        return generate_latest(self.registry)


def count_states(engine: Engine) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    with reading(engine) as session:
        for name, column in (("jobs", JobRow.state), ("agents", AgentRow.state)):
            rows = session.execute(select(column, func.count()).group_by(column))
            counts[name] = {state: count for state, count in rows}  # noqa: C416  (rows are no pairs to a type checker)
    return counts


def count_poisoned(engine: Engine, jobs: Sequence[str]) -> int:
    with reading(engine) as session:
        query = select(func.count()).select_from(JobRow).where(JobRow.id.in_(jobs), JobRow.state == "poisoned")
        return session.scalar(query) or 0


class _Counted(Collector):
    """Gauges whose truth lies in the database."""

    _MEANING = (
        ("jobs", "assay_jobs", "Jobs by state.", "state"),
        ("agents", "assay_agents", "Agents by state.", "state"),
        ("ready", "assay_queue_ready", "Jobs that wait for an agent, by their needs.", "needs"),
    )

    def __init__(self, counts: Callable[[], Counts]) -> None:
        self._counts = counts

    def describe(self) -> Iterator[Metric]:
        """Nothing, so that registering asks the database for nothing."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        counts = self._counts()
        for key, name, meaning, label in self._MEANING:
            family = GaugeMetricFamily(name, meaning, labels=[label])
            for value, count in counts.get(key, {}).items():
                family.add_metric([value], count)
            yield family
