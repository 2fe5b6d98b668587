"""Numbers about the server itself, for Prometheus; the registry is its own: two servers may share a process."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import Engine, func, select

from assay.store.database import reading
from assay.store.tables import AgentRow, JobRow
from assay.version import __version__

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
Counts = Mapping[str, Mapping[str, int]]


class ServerMetrics:
    """All metrics of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        Info("assay_build", "Version of assay and Python.", registry=self.registry).info(
            {"version": __version__, "python": platform.python_version()}
        )
        self._requests = Counter(
            "assay_http_requests", "Requests answered.", ["method", "route", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "assay_http_request_seconds",
            "Time to answer.",
            ["method", "route"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.leases = Counter("assay_leases_given", "Leases given to agents.", registry=self.registry)
        self.expired = Counter("assay_leases_expired", "Leases that ran out.", registry=self.registry)
        self.poisoned = Counter(
            "assay_jobs_poisoned", "Jobs set aside because they lost too many leases.", registry=self.registry
        )
        self.deliveries = Counter(
            "assay_deliveries", "Results delivered, by what became of them.", ["word"], registry=self.registry
        )
        self.submitted = Counter("assay_campaigns_submitted", "Campaigns submitted.", registry=self.registry)
        self.waiting = Gauge("assay_waiting_polls", "Agents that wait for a job.", registry=self.registry)
        self.listeners = Gauge("assay_event_listeners", "Open streams of server-sent events.", registry=self.registry)
        self.database_up = Gauge("assay_database_up", "1 while the database answers.", registry=self.registry)
        self.objects_waiting = Gauge(
            "assay_objects_waiting", "Files that the object store does not have yet.", registry=self.registry
        )

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Note an answered request."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)

    def watch(self, counts: Callable[[], Counts]) -> None:
        """Ask for jobs, agents and queues by state whenever somebody reads the metrics."""
        self.registry.register(_Counted(counts))

    def render(self) -> bytes:
        return generate_latest(self.registry)


def count_states(engine: Engine) -> dict[str, dict[str, int]]:
    """Jobs and agents by state."""
    found: dict[str, dict[str, int]] = {}
    with reading(engine) as session:
        for name, column in (("jobs", JobRow.state), ("agents", AgentRow.state)):
            rows = session.execute(select(column, func.count()).group_by(column))
            found[name] = {state: count for state, count in rows}  # noqa: C416  (rows are no pairs to a type checker)
    return found


def count_poisoned(engine: Engine, jobs: Sequence[str]) -> int:
    """How many of some jobs were set aside."""
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
        """The gauges as they are now."""
        counts = self._counts()
        for key, name, meaning, label in self._MEANING:
            family = GaugeMetricFamily(name, meaning, labels=[label])
            for value, count in counts.get(key, {}).items():
                family.add_metric([value], count)
            yield family
