"""How things stand: a few numbers about everything, each from an index, and the newest of what ended."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Engine, case, func, select
from sqlalchemy.orm import defer

from assay.store.database import reading
from assay.store.listing import campaign_summary, count_jobs, job_rows, job_summary
from assay.store.records import CampaignSummary, JobSummary
from assay.store.tables import AgentRow, CampaignRow, JobRow
from assay.store.watch_tables import AlertRow, FindingRow

_ENDED = ("done", "partial", "failed", "cancelled", "interrupted")
_FAILED = ("failed", "poisoned")


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
    """Not heard of for so long that nobody counts on them."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How much there is of everything."""

    campaigns: int
    jobs: Waiting
    findings: int
    """Open ones."""
    alerts: int
    """Open ones."""


class Standing:
    """Reading how things stand."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def counts(self) -> Counts:
        """How many campaigns there are, and what is open of the rest."""
        jobs = select(JobRow.state, func.count()).where(JobRow.state.in_(("pending", "running")))
        with reading(self._engine) as session:
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
        each = (func.sum(case((one, 1), else_=0)) for one in (healthy, busy, AgentRow.draining, silent))
        with reading(self._engine) as session:
            row = session.execute(select(func.count(), *each).select_from(AgentRow)).one()
        return FleetHealth(*(int(number or 0) for number in row))

    def ended(self, limit: int) -> tuple[CampaignSummary, ...]:
        """The newest campaigns that do not run any more."""
        query = select(CampaignRow).options(defer(CampaignRow.document)).where(CampaignRow.state.in_(_ENDED))
        query = query.order_by(CampaignRow.created_at.desc(), CampaignRow.id.desc()).limit(limit)
        with reading(self._engine) as session:
            rows = session.scalars(query).all()
            counts = count_jobs(session, [row.id for row in rows])
            return tuple(campaign_summary(row, counts.get(row.id, {})) for row in rows)

    def failed(self, since: float, limit: int) -> tuple[JobSummary, ...]:
        """Jobs that ended without numbers at a moment or later, the newest first."""
        order = (JobRow.ended_at.desc(), JobRow.id.desc())
        these = select(JobRow.id).where(JobRow.state.in_(_FAILED), JobRow.ended_at >= since)
        these = these.order_by(*order).limit(limit)
        with reading(self._engine) as session:
            rows = session.execute(job_rows().where(JobRow.id.in_(these)).order_by(*order)).all()
        return tuple(map(job_summary, rows))
