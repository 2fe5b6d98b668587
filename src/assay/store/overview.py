"""Queries over everything: counts, what ended or failed last, and what rules about time and headlines need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, case, func, select, tuple_
from sqlalchemy.orm import defer

from assay.clock import SYSTEM_CLOCK
from assay.store.database import TableAccess
from assay.store.fleet.transactions import JobHistory
from assay.store.listing import campaign_summary, count_jobs, job_rows, job_summary, json_part
from assay.store.records import CampaignSummary, JobSummary
from assay.store.series import SeriesRecord, series_record
from assay.store.tables import AgentRow, AlertRow, CampaignRow, FindingRow, JobRow, PointRow, SeriesRow

_ENDED = ("done", "partial", "failed", "cancelled", "interrupted")
_FAILED = ("failed", "poisoned")
# How a job may end, in the words of its history.
_JOB_ENDED = frozenset({"result accepted", "set aside as poisoned", "deadline passed", "no agent can take it"})


@dataclass(frozen=True, slots=True)
class Waiting:
    """Jobs that have not ended."""

    pending: int
    running: int


@dataclass(frozen=True, slots=True)
class FleetHealth:
    """How many agents there are, and how they are."""

    agents: int
    healthy: int
    """Neither faulty nor silent."""
    busy: int
    """They measure now, or clean up after it."""
    draining: int
    silent: int
    """Without a heartbeat for so long that they do not count."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How much there is of everything."""

    campaigns: int
    jobs: Waiting
    findings: int
    """Open ones."""
    alerts: int
    """Open ones."""


class OverviewReader(TableAccess):
    def counts(self) -> Counts:
        jobs = select(JobRow.state, func.count()).where(JobRow.state.in_(("pending", "running")))
        with self._reading() as session:
            states = {state: count for state, count in session.execute(jobs.group_by(JobRow.state))}  # noqa: C416
            return Counts(
                campaigns=session.scalar(select(func.count()).select_from(CampaignRow)) or 0,
                jobs=Waiting(states.get("pending", 0), states.get("running", 0)),
                findings=session.scalar(select(func.count()).where(FindingRow.state == "open")) or 0,
                alerts=session.scalar(select(func.count()).where(AlertRow.state == "open")) or 0,
            )

    def fleet(self, *, silent_before: float) -> FleetHealth:
        silent = AgentRow.last_seen < silent_before
        healthy = (AgentRow.state != "faulty") & ~silent
        busy = AgentRow.state.in_(("busy", "cleanup")) & ~silent
        counts = (func.sum(case((condition, 1), else_=0)) for condition in (healthy, busy, AgentRow.draining, silent))
        (row,) = self._rows(select(func.count(), *counts).select_from(AgentRow))
        return FleetHealth(*(int(number or 0) for number in row))

    def ended(self, limit: int) -> tuple[CampaignSummary, ...]:
        query = select(CampaignRow).options(defer(CampaignRow.document)).where(CampaignRow.state.in_(_ENDED))
        query = query.order_by(CampaignRow.created_at.desc(), CampaignRow.id.desc()).limit(limit)
        with self._reading() as session:
            rows = session.scalars(query).all()
            counts = count_jobs(session, [row.id for row in rows])
            return tuple(campaign_summary(row, counts.get(row.id, {})) for row in rows)

    def failed(self, since: float, limit: int) -> tuple[JobSummary, ...]:
        """Jobs that ended without numbers at a moment or later, the newest first."""
        order = (JobRow.ended_at.desc(), JobRow.id.desc())
        failed_jobs = select(JobRow.id).where(JobRow.state.in_(_FAILED), JobRow.ended_at >= since)
        failed_jobs = failed_jobs.order_by(*order).limit(limit)
        return tuple(map(job_summary, self._rows(job_rows().where(JobRow.id.in_(failed_jobs)).order_by(*order))))


@dataclass(frozen=True, slots=True)
class LostAgent:
    """An agent without a heartbeat for a while."""

    id: str
    name: str
    last_seen: float


@dataclass(frozen=True, slots=True)
class EndedJob:
    """A job that ended, as its history tells."""

    at: float
    job: str
    campaign: str
    benchmark: str
    label: str
    """The point of the matrix in words."""
    done: bool
    reason: str
    """Why it has no result."""


@dataclass(frozen=True, slots=True)
class CampaignFile:
    """The benchmark file of a campaign."""

    benchmark: str
    created_at: str
    engine: str
    """`local`, or `fleet` for a campaign of a server."""
    document: Mapping[str, Any]


class ActivityReader(TableAccess):
    def last_results(self) -> dict[str, float]:
        """Benchmark → time of its newest result that has a value."""
        newest = (
            select(PointRow.at)
            .where(PointRow.series_id == SeriesRow.id, PointRow.value.is_not(None))
            .order_by(PointRow.at.desc())
            .limit(1)
            .correlate(SeriesRow)
            .scalar_subquery()
        )
        query = select(SeriesRow.benchmark, func.max(newest)).group_by(SeriesRow.benchmark)
        return {benchmark: at for benchmark, at in self._rows(query) if at is not None}

    def lost_agents(self, before: float) -> tuple[LostAgent, ...]:
        """Agents whose last heartbeat came before a moment; a draining one may go."""
        query = select(AgentRow.id, AgentRow.name, AgentRow.last_seen).where(
            AgentRow.last_seen < before, AgentRow.draining.is_(False)
        )
        return tuple(LostAgent(*row) for row in self._rows(query.order_by(AgentRow.name, AgentRow.id)))

    def newest_event(self) -> int:
        return JobHistory(self._engine, SYSTEM_CLOCK).last_event()

    def ended_after(self, event: int, limit: int = 500) -> tuple[tuple[EndedJob, ...], int]:
        """Jobs that ended after a line of the history, in order; and the last line that was read for it."""
        lines = JobHistory(self._engine, SYSTEM_CLOCK).events_after(event, limit=limit)
        ended = [line for line in lines if line.job is not None and line.kind in _JOB_ENDED]
        jobs = self._jobs({line.job for line in ended if line.job is not None})
        ended_jobs = tuple(
            EndedJob(
                line.at,
                line.job,
                line.campaign,
                *jobs[line.job],
                done=line.detail.get("state") == "done",
                reason=str(line.detail.get("reason") or line.kind),
            )
            for line in ended
            if line.job is not None and line.job in jobs
        )
        return ended_jobs, (lines[-1].id if lines else None) or event

    def handed_in(self, campaign: str) -> CampaignFile | None:
        """The file of a campaign; None when there is no such campaign."""
        return next(iter(self._files(CampaignRow.id == campaign)), None)

    def newest_files(self) -> tuple[CampaignFile, ...]:
        """Of each benchmark, the file of its newest campaign; the oldest first."""
        newest = select(func.max(CampaignRow.created_at)).group_by(CampaignRow.benchmark)
        return self._files(CampaignRow.created_at.in_(newest))

    def files_since(self, created_at: str) -> tuple[CampaignFile, ...]:
        """The files of the campaigns from a moment on, the oldest first."""
        return self._files(CampaignRow.created_at >= created_at)

    def _jobs(self, jobs: set[str]) -> dict[str, tuple[str, str]]:
        """Job → its benchmark and its point in words."""
        query = select(JobRow.id, CampaignRow.benchmark, JobRow.label).join(
            CampaignRow, CampaignRow.id == JobRow.campaign_id
        )
        rows = self._rows(query.where(JobRow.id.in_(jobs)))
        return {job: (benchmark, label) for job, benchmark, label in rows}

    def _files(self, which: ColumnElement[bool]) -> tuple[CampaignFile, ...]:
        columns = (CampaignRow.benchmark, CampaignRow.created_at, CampaignRow.engine, CampaignRow.document)
        query = select(*columns).where(which).order_by(CampaignRow.created_at, CampaignRow.id)
        return tuple(CampaignFile(*row) for row in self._rows(query))


@dataclass(frozen=True, slots=True)
class SeriesName:
    """A metric that a benchmark has series of."""

    benchmark: str
    metric: str
    checked: int
    """Points that the last check of its longest series has seen."""


@dataclass(frozen=True, slots=True)
class NewestPoint:
    """One of the newest points of a series."""

    at: float
    value: float | None
    standard_error: float | None
    verdict: str
    job: str | None


class HeadlineRows(TableAccess):
    def names(self, benchmarks: Sequence[str]) -> tuple[SeriesName, ...]:
        query = select(SeriesRow.benchmark, SeriesRow.metric, func.max(SeriesRow.checked))
        query = query.where(SeriesRow.benchmark.in_(benchmarks)).group_by(SeriesRow.benchmark, SeriesRow.metric)
        return tuple(SeriesName(*row) for row in self._rows(query))

    def longest(self, metrics: Sequence[tuple[str, str]]) -> dict[str, SeriesRecord]:
        """Of the series of a metric the one that had most points when it was last checked, by benchmark."""
        longest_first = (SeriesRow.checked.desc(), SeriesRow.id)
        rank = func.row_number().over(partition_by=SeriesRow.benchmark, order_by=longest_first)
        pairs = tuple_(SeriesRow.benchmark, SeriesRow.metric).in_(list(metrics))
        ranked = select(SeriesRow.id, rank.label("rank")).where(pairs).subquery()
        first = select(ranked.c.id).where(ranked.c.rank == 1)
        rows = self._scalars(select(SeriesRow).where(SeriesRow.id.in_(first)))
        return {row.benchmark: series_record(row) for row in rows}

    def newest(self, series: Sequence[str], limit: int) -> dict[str, tuple[NewestPoint, ...]]:
        """The newest points of each series, the oldest of them first."""
        columns = (PointRow.at, PointRow.value, PointRow.standard_error, PointRow.verdict, PointRow.job_id)
        order = (PointRow.at.desc(), PointRow.id.desc())
        points: dict[str, tuple[NewestPoint, ...]] = {}
        with self._reading() as session:
            for name in series:  # each query reads `limit` entries of an index, however long the series is
                query = select(*columns).where(PointRow.series_id == name).order_by(*order).limit(limit)
                points[name] = tuple(NewestPoint(*row) for row in session.execute(query))[::-1]
        return points

    def newest_campaigns(self, benchmarks: Sequence[str]) -> dict[str, str]:
        last = select(CampaignRow.benchmark, func.max(CampaignRow.created_at))
        last = last.where(CampaignRow.benchmark.in_(benchmarks)).group_by(CampaignRow.benchmark)
        with self._reading() as session:
            moments = [tuple(row) for row in session.execute(last)]
            newest = tuple_(CampaignRow.benchmark, CampaignRow.created_at).in_(moments)
            rows = session.execute(select(CampaignRow.benchmark, CampaignRow.id).where(newest).order_by(CampaignRow.id))
            return {benchmark: campaign for benchmark, campaign in rows}  # noqa: C416  (rows are no pairs to a type checker)

    def documents(self, campaigns: Sequence[str]) -> dict[str, dict[str, Any]]:
        query = select(CampaignRow.id, CampaignRow.document).where(CampaignRow.id.in_(campaigns))
        return dict(self._rows(query))

    def metrics(self, jobs: Iterable[str | None]) -> dict[str, str]:
        wanted = [job for job in jobs if job]
        query = select(JobRow.id, json_part(JobRow.result, "metrics").label("metrics"))
        query = query.where(JobRow.id.in_(wanted), JobRow.result.is_not(None))
        return {row.id: row.metrics or "" for row in self._rows(query)}
