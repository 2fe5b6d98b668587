"""Monitoring of a campaign: Prometheus before the first job, and what was scraped joined to every run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from assay.errors import AssayError, MeasureError
from assay.monitoring.discovery import Life, announcing, lives, watched_node
from assay.monitoring.prometheus import JOB
from assay.monitoring.scraper import RunningPrometheus, scraping
from assay.plan.job import Job
from assay.run.probes import FILE as TELEMETRY
from assay.run.records import RunOutcome, SingleRunResult
from assay.run.scratch import scratch_folder
from assay.run.services.discovery import ServiceDiscovery, living, metrics_url
from assay.spec.benchmark import Benchmark, monitoring_of
from assay.spec.references import redact, references
from assay.spec.target import EndpointTarget, ServiceTarget
from assay.store.telemetry import FILE, Metrics, ScrapedSeries, cut, encode, read_telemetry

FACT = "monitoring"
"""The fact of a run that holds the figures."""


@dataclass(frozen=True, slots=True)
class MetricsOwner:
    """What belongs to a run."""

    job: str
    group: str = ""
    """The group of the cluster that its services were started for."""
    node: str = ""
    """The node on which it ran, where that is known; another one belongs to it by its job or group alone."""
    secrets: tuple[str, ...] = ()
    """Names of the environment variables whose values nothing that is kept may show."""

    def has(self, labels: Mapping[str, str]) -> bool:
        """Whether a series belongs to the run: it is of its job, of its group, or of none in particular."""
        job, group = labels.get("job", JOB), labels.get("group", "")
        if job not in (JOB, self.job):
            return False
        if group:
            return not self.group or group == self.group
        return job == self.job or not self.node or labels.get("node", self.node) == self.node


def window_of(result: SingleRunResult) -> tuple[float, float]:
    """Begin and end of a run on the clock of the day."""
    begin, end = (datetime.fromisoformat(at).timestamp() for at in (result.started_at, result.completed_at))
    return begin, max(begin, end)


def phases_of(
    result: SingleRunResult, telemetry: bytes | None, offset_s: float | None = None
) -> tuple[tuple[str, float, float], ...]:
    """The phases of a run on the clock of the day, from the telemetry of it.

    Args:
        offset_s: the clock of the day less that clock, where both could be read together. Without it the first reading
            of the telemetry stands for the start of the run, which is true to some tenths of a second.
    """
    if telemetry is None:
        return ()
    try:
        recording = read_telemetry(telemetry)
    except AssayError:
        return ()
    if offset_s is None:
        first = min((int(track.at_ns[0]) for track in recording.tracks if track.at_ns.size), default=None)
        if first is None:
            return ()
        offset_s = window_of(result)[0] - first / 1e9
    return tuple(
        (phase.name, offset_s + phase.begin_ns / 1e9, offset_s + phase.end_ns / 1e9) for phase in recording.phases
    )


def of_run(
    metrics: Metrics,
    result: SingleRunResult,
    whose: MetricsOwner,
    lives: Sequence[Life] | None = None,
    phases: tuple[tuple[str, float, float], ...] = (),
) -> Metrics:
    """The part of a campaign's metrics that belongs to one run.

    Args:
        lives: from when to when services ran; what was scraped of one outside of that is left out, since none was
            there to answer. None where that is not known.
    """
    part = cut(metrics, *window_of(result), lambda metric: whose.has(metric.labels))
    series = [_alive(_labelled(metric, whose), lives) for metric in part.series]
    return replace(part, series=tuple(metric for metric in series if metric.value.size), phases=phases)


def joined(
    outcome: RunOutcome,
    metrics: Metrics,
    whose: MetricsOwner,
    folder: Path,
    *,
    lives: Sequence[Life] | None = None,
    offset_s: float | None = None,
) -> RunOutcome:
    """A run with what was scraped meanwhile: the file `metrics.parquet`, and its figures among the facts."""
    from assay.analyse.telemetry import summary  # it brings numpy, which a campaign without runs yet does not need

    telemetry = None
    with suppress(OSError):
        path = outcome.files.get(TELEMETRY)
        telemetry = path.read_bytes() if path is not None else None
    part = of_run(metrics, outcome.result, whose, lives, phases_of(outcome.result, telemetry, offset_s))
    if not part.scrapes:
        return without(outcome, "nothing was scraped during the run")
    path = folder / f"{outcome.result.run_id}-{FILE}"
    path.write_bytes(encode(part))
    result = replace(outcome.result, facts={**outcome.result.facts, FACT: summary(part)})
    return replace(outcome, result=result, files={**outcome.files, FILE: path})


def without(outcome: RunOutcome, why: str) -> RunOutcome:
    return replace(outcome, result=replace(outcome.result, absent={**outcome.result.absent, FILE: why}))


def _alive(series: ScrapedSeries, lives: Sequence[Life] | None) -> ScrapedSeries:
    """A series of a service without the moments at which it did not run."""
    import numpy as np

    if "service" not in series.labels or lives is None:
        return series
    inside = np.zeros(series.at_ms.size, dtype=bool)
    for life in (life for life in lives if life.belongs(series.labels)):
        end_s = np.inf if life.end_s is None else life.end_s
        inside |= (series.at_ms >= life.begin_s * 1e3) & (series.at_ms <= end_s * 1e3)
    return replace(series, at_ms=series.at_ms[inside], value=series.value[inside])


def _labelled(series: ScrapedSeries, whose: MetricsOwner) -> ScrapedSeries:
    """A series with the job it belongs to, and without secrets that a service may have said back."""
    labels = {**series.labels, "job": whose.job}
    if whose.secrets:
        labels = {name: redact(value, whose.secrets) for name, value in labels.items()}
    return replace(series, labels=labels)


ENDPOINT = "endpoint"
"""The name under which an endpoint that was not started here is watched."""
Notify = Callable[[str], None]


class Monitor:
    """What watches a campaign; this one watches nothing."""

    def job(self, job: Job) -> AbstractContextManager[None]:  # noqa: ARG002  (there is nothing to do)
        """Watch the services that one job starts."""
        return nullcontext()

    def joined(self, job: Job, outcome: RunOutcome) -> RunOutcome:  # noqa: ARG002
        """A run with what was scraped meanwhile."""
        return outcome


@contextmanager
def monitored(benchmark: Benchmark, jobs: Sequence[Job], notify: Notify) -> Iterator[Monitor]:
    """Watch this machine and the services of some jobs for as long as the body runs."""
    settings = monitoring_of(benchmark.monitoring)
    if settings is None:
        yield Monitor()
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
                    notify=notify,
                )
            )
        except MeasureError as problem:
            if settings.required:
                raise
            notify(f"this campaign is not monitored: {problem.problem.message}")
            stack.close()
            yield Monitor()
            return
        notify(f"monitoring: Prometheus {prometheus.api.version()} at {prometheus.api.url} while the campaign runs")
        yield _Here(prometheus, where, scratch, notify)


class _Here(Monitor):
    """A Prometheus on this machine that watches it."""

    def __init__(self, prometheus: RunningPrometheus, where: ServiceDiscovery, scratch: Path, notify: Notify) -> None:
        self._prometheus, self._where, self._scratch, self._notify = prometheus, where, scratch, notify
        self._notified = False
        # Both clocks, read together: the phases of a run are on the one, scrapes on the other.
        self._offset_s = time.time() - time.perf_counter_ns() / 1e9

    @contextmanager
    def job(self, job: Job) -> Iterator[None]:
        """Announce the services that the job starts, and the endpoint that it loads."""
        target = job.definition.target
        given = getattr(target, "metrics", None)
        paths = {target.service: given} if isinstance(target, ServiceTarget) and given else {}
        where = replace(self._where, labels={**self._where.labels, "job": job.id}, paths=paths)
        url = _endpoint_metrics(target)
        with announcing(where), living(where, {ENDPOINT: url} if url else {}):
            yield

    def joined(self, job: Job, outcome: RunOutcome) -> RunOutcome:
        """The run with its metrics; a Prometheus that is gone costs them, and nothing else."""
        whose = MetricsOwner(job.id, secrets=tuple(references(job.definition.model_dump())))
        folder = self._scratch / "joined"
        folder.mkdir(exist_ok=True)
        try:
            metrics = self._prometheus.export({"campaign": job.campaign}, *window_of(outcome.result))
        except MeasureError as problem:
            if not self._notified:
                self._notified = True
                self._notify(f"monitoring: {problem.problem.message}; runs from here on have no metrics")
            return without(outcome, problem.problem.message)
        there = lives(self._prometheus.discovery)
        return joined(outcome, metrics, whose, folder, lives=there, offset_s=self._offset_s)


def _names(jobs: Sequence[Job]) -> list[str]:
    """Everything that may come up while the campaign runs."""
    names = dict.fromkeys(name for job in jobs for name in job.definition.services)
    if any(_endpoint_metrics(job.definition.target) for job in jobs):
        names[ENDPOINT] = None
    return list(names)


def _endpoint_metrics(target: object) -> str | None:
    """Where an endpoint's own metrics are; None where it has none, or where the address is a secret."""
    if (
        not isinstance(target, EndpointTarget)
        or target.metrics is None
        or any(references([target.metrics, target.endpoint]))
    ):
        return None
    return metrics_url(target.metrics, target.endpoint)
