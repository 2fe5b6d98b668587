"""Monitoring of a campaign on this machine: Prometheus before the first job, its metrics with every run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from assay.errors import MeasureError
from assay.monitoring.discovery import lives
from assay.monitoring.joined import Whose, joined, window_of, without
from assay.monitoring.nodes import announcing, watched_node
from assay.monitoring.scraping import Scraping, scraping
from assay.plan.job import Job
from assay.run.records import RunOutcome
from assay.run.scratch import scratch_folder
from assay.run.services.discovery import ServiceDiscovery, living
from assay.spec.benchmark import Benchmark
from assay.spec.monitoring import monitoring_of
from assay.spec.secrets import references
from assay.spec.target import EndpointTarget, ServiceTarget

ENDPOINT = "endpoint"
"""The name under which an endpoint that nobody here started is watched."""
Tell = Callable[[str], None]


class Monitor(Protocol):
    """Whoever watches a campaign."""

    def job(self, job: Job) -> AbstractContextManager[None]:
        """Watch the services that one job starts."""
        ...

    def joined(self, job: Job, outcome: RunOutcome) -> RunOutcome:
        """A run with what was scraped meanwhile."""
        ...


class Nobody:
    """Watches nothing."""

    def job(self, job: Job) -> AbstractContextManager[None]:  # noqa: ARG002  (there is nothing to do)
        return nullcontext()

    def joined(self, job: Job, outcome: RunOutcome) -> RunOutcome:  # noqa: ARG002
        return outcome


@contextmanager
def monitored(benchmark: Benchmark, jobs: Sequence[Job], tell: Tell) -> Iterator[Monitor]:
    """Watch this machine and the services of some jobs for as long as the body runs.

    Raises:
        MeasureError: if monitoring is asked for and required, and cannot be had.
    """
    settings = monitoring_of(benchmark.monitoring)
    if settings is None:
        yield Nobody()
        return
    with ExitStack() as stack:
        scratch = stack.enter_context(scratch_folder())
        try:
            prometheus = stack.enter_context(scraping(settings, scratch / "discovery", scratch / "prometheus"))
            where = stack.enter_context(
                watched_node(
                    settings,
                    scratch / "discovery",
                    scratch / "node",
                    {"campaign": jobs[0].campaign},
                    who="here",
                    services=_names(jobs),
                    tell=tell,
                )
            )
        except MeasureError as problem:
            if settings.required:
                raise
            tell(f"this campaign is not monitored: {problem.problem.message}")
            stack.close()
            yield Nobody()
            return
        tell(f"monitoring: Prometheus {prometheus.api.version()} at {prometheus.api.url} while the campaign runs")
        yield _Here(prometheus, where, scratch, tell)


class _Here:
    """A Prometheus on this machine that watches it."""

    def __init__(self, prometheus: Scraping, where: ServiceDiscovery, scratch: Path, tell: Tell) -> None:
        self._prometheus, self._where, self._scratch, self._tell = prometheus, where, scratch, tell
        self._told = False
        # Both clocks, read together: the phases of a run are on the one, scrapes on the other.
        self._offset_s = time.time() - time.perf_counter_ns() / 1e9

    @contextmanager
    def job(self, job: Job) -> Iterator[None]:
        """Announce the services that the job starts, and the endpoint that it loads."""
        target = job.definition.target
        given = getattr(target, "metrics", None)
        paths = {target.service: given} if isinstance(target, ServiceTarget) and given else {}
        where = replace(self._where, labels={**self._where.labels, "job": job.id}, paths=paths)
        url = _endpoint_metrics(target) if isinstance(target, EndpointTarget) else None
        with announcing(where), living(where, {ENDPOINT: url} if url else {}):
            yield

    def joined(self, job: Job, outcome: RunOutcome) -> RunOutcome:
        """The run with its metrics; a Prometheus that is gone costs them, and nothing else."""
        whose = Whose(job.id, secrets=tuple(references(job.definition.model_dump())))
        folder = self._scratch / "joined"
        folder.mkdir(exist_ok=True)
        try:
            metrics = self._prometheus.export({"campaign": job.campaign}, *window_of(outcome.result))
        except MeasureError as problem:
            if not self._told:
                self._told = True
                self._tell(f"monitoring: {problem.problem.message}; runs from here on have no metrics")
            return without(outcome, problem.problem.message)
        there = lives(self._prometheus.discovery)
        return joined(outcome, metrics, whose, folder, lives=there, offset_s=self._offset_s)


def _names(jobs: Sequence[Job]) -> list[str]:
    """Everything that may come up while the campaign runs."""
    found = dict.fromkeys(name for job in jobs for name in job.definition.services)
    if any(
        isinstance(job.definition.target, EndpointTarget) and _endpoint_metrics(job.definition.target) for job in jobs
    ):
        found[ENDPOINT] = None
    return list(found)


def _endpoint_metrics(target: EndpointTarget) -> str | None:
    """Where an endpoint's own metrics are; None where it has none, or where the address is a secret."""
    from assay.run.services.discovery import metrics_url

    if target.metrics is None or any(references([target.metrics, target.endpoint])):
        return None
    return metrics_url(target.metrics, target.endpoint)
