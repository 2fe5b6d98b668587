"""A plan becomes a campaign whose jobs wait for agents: thousands of rows in a few statements."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Engine, insert
from sqlalchemy.orm import Session

from assay.clock import Clock, iso
from assay.documents import to_json
from assay.place.leasing import needs_key
from assay.plan.job import Job
from assay.plan.plan import Plan
from assay.store.database import insert_into, writing
from assay.store.fleet.transactions import CHUNK
from assay.store.records import FleetSettings
from assay.store.tables import CampaignRow, EventRow, JobRow, NeedsRow

_LONGEST_LABEL = 500
# What else is kept in the transaction that keeps a campaign, by its id; if it raises, there is no campaign.
Also = Callable[[Session, str], None]


def submit(
    engine: Engine,
    plan: Plan,
    document: Mapping[str, Any],
    labels: Mapping[str, str],
    clock: Clock,
    settings: FleetSettings,
    label_of: Callable[[Job], str] | None,
    also: Also | None = None,
) -> Plan:
    """Keep a plan as a campaign of the fleet; return it under its new name."""
    now = clock.utc()
    with writing(engine) as session:
        campaign = new_id(session)
        submitted = plan.submitted_as(campaign)
        # Documents are written before the first row is: the transaction stays short.
        rows = [_job_values(job, label_of, now.timestamp()) for job in submitted.jobs]
        session.add(_campaign(plan, campaign, document, labels, iso(now), settings))
        session.flush()
        for start in range(0, len(rows), CHUNK):
            session.execute(insert(JobRow), rows[start : start + CHUNK])
        _know_needs(session, rows)
        told = {"jobs": len(rows), "by": settings.submitted_by, "priority": settings.priority}
        detail = {name: value for name, value in told.items() if value}
        session.add(EventRow(at=now.timestamp(), campaign_id=campaign, job_id=None, kind="submitted", detail=detail))
        if also is not None:
            also(session, campaign)
    return submitted


def new_id(session: Session) -> str:
    """A short id that is not taken; letters first, so that it is never read as a number."""
    while True:
        candidate = "c" + secrets.token_hex(4)
        if session.get(CampaignRow, candidate) is None:
            return candidate


def _campaign(
    plan: Plan,
    campaign: str,
    document: Mapping[str, Any],
    labels: Mapping[str, str],
    created_at: str,
    settings: FleetSettings,
) -> CampaignRow:
    return CampaignRow(
        id=campaign,
        benchmark=plan.benchmark,
        digest=plan.digest,
        state="running",
        engine="fleet",
        created_at=created_at,
        labels=dict(labels),
        document=dict(document),
        surroundings="",
        priority=settings.priority,
        deadline=settings.deadline,
        unplaceable=settings.unplaceable,
        spread=settings.spread,
        submitted_by=settings.submitted_by,
        origin=settings.origin,
        version=settings.version,
    )


def _job_values(job: Job, label_of: Callable[[Job], str] | None, now: float) -> dict[str, Any]:
    return {
        "id": job.id,
        "campaign_id": job.campaign,
        "position": job.index,
        "digest": job.digest,
        "state": "pending",
        "document": to_json(job),
        "needs": needs_key(job),
        "submitted_at": now,
        "label": label_of(job)[:_LONGEST_LABEL] if label_of else "",
    }


def _know_needs(session: Session, rows: list[dict[str, Any]]) -> None:
    """Keep each distinct set of needs once; another process may keep the same one at this very moment."""
    distinct = {row["needs"]: {"id": row["needs"], "document": row["document"]} for row in rows}
    # By key, so that two submissions with the same needs do not wait for each other.
    values = [distinct[key] for key in sorted(distinct)]
    session.execute(insert_into(session, NeedsRow).on_conflict_do_nothing(), values)
