"""Campaigns of the fleet: submitted to this server, or measured by another engine that reports them here."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, cast

from pydantic import JsonValue
from sqlalchemy import Engine, delete, insert, select
from sqlalchemy.orm import Session

from assay.clock import Clock, iso
from assay.documents import to_json
from assay.errors import UsageError
from assay.place.fleet.protocol import DeliveryWord, Elsewhere, JobProgress
from assay.place.leasing import needs_key
from assay.plan.job import FINAL, Event, Job, State, after, content_hash
from assay.plan.plan import Plan
from assay.run.records import SingleRunResult
from assay.store.database import insert_into, parts_of, writing
from assay.store.fleet.endings import Endings
from assay.store.fleet.leases import progress_detail, run_values
from assay.store.fleet.transactions import CHUNK, LOCK, WITHOUT_DOCUMENTS
from assay.store.listing import unknown_campaign, unknown_job
from assay.store.records import FleetSettings
from assay.store.tables import REPORTED, CampaignRow, EventRow, JobRow, NeedsRow, RunRow

_LONGEST_LABEL = 500
# What else is kept in the transaction that keeps a campaign, by its id; if it raises, there is no campaign.
Also = Callable[[Session, str], None]
Change = tuple[str, Mapping[str, JsonValue]]  # job, what is known of it now


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
        row = campaign_row(plan, campaign, document, labels, engine="fleet", created_at=iso(now), **asdict(settings))
        session.add(row)
        session.flush()
        _insert_jobs(session, rows)
        _know_needs(session, rows)
        facts = {"jobs": len(rows), "by": settings.submitted_by, "priority": settings.priority}
        detail = {name: value for name, value in facts.items() if value}
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


def campaign_row(
    plan: Plan, campaign: str, document: Mapping[str, Any], labels: Mapping[str, str], **columns: object
) -> CampaignRow:
    """The row of a plan that begins to run under the name of a campaign."""
    return CampaignRow(
        id=campaign,
        benchmark=plan.benchmark,
        digest=plan.digest,
        state="running",
        labels=dict(labels),
        document=dict(document),
        **{"surroundings": "", **columns},
    )


def job_columns(job: Job) -> dict[str, Any]:
    return {
        "id": job.id,
        "campaign_id": job.campaign,
        "position": job.index,
        "digest": job.digest,
        "state": "pending",
        "document": to_json(job),
    }


def _insert_jobs(session: Session, rows: Sequence[dict[str, Any]]) -> None:
    for chunk in parts_of(rows, CHUNK):
        session.execute(insert(JobRow), chunk)


def _job_values(job: Job, label_of: Callable[[Job], str] | None, now: float) -> dict[str, Any]:
    return {
        **job_columns(job),
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


class ExternalCampaigns(Endings):
    """What others say about campaigns of their own."""

    def know(
        self, campaign: str, external: Elsewhere, *, by: str = "", label_of: Callable[[Job], str] | None = None
    ) -> bool:
        """Keep a campaign that is measured elsewhere; False where it was known already."""
        now, digest = self._now(), content_hash([external.benchmark, *(job.digest for job in external.jobs)])
        with self._writing() as session:
            added = session.execute(
                insert_into(session, CampaignRow)
                .values(
                    id=campaign,
                    benchmark=external.benchmark,
                    digest=digest,
                    state="running",
                    engine=external.engine,
                    created_at=external.created_at,
                    labels=dict(external.labels),
                    document=dict(external.document),
                    surroundings="",
                    submitted_by=by,
                    origin=REPORTED,
                )
                .on_conflict_do_nothing()
                .returning(CampaignRow.id)
            ).scalar_one_or_none()
            if added is None:
                _refuse_another(session, campaign, digest)
                return False
            rows = [{**_job_values(job, label_of, now), "needs": ""} for job in external.jobs]
            _insert_jobs(session, rows)
            self._log_event(
                session, campaign, None, "submitted", {"jobs": len(rows), "by": by, "engine": external.engine}
            )
            return True

    def stand(self, campaign: str, standings: Sequence[JobProgress]) -> tuple[Change, ...]:
        """Note how jobs stand; one that has ended stays as it ended. Return those that were noted."""
        wanted = {job.index: job for job in standings}
        with self._writing() as session:
            if not _is_reported(session, campaign):
                raise unknown_campaign(campaign)
            rows = session.scalars(
                select(JobRow)
                .where(JobRow.campaign_id == campaign, JobRow.position.in_(wanted))
                .where(JobRow.state.not_in(FINAL))
                .order_by(JobRow.id)
                .options(*WITHOUT_DOCUMENTS)
                .with_for_update(key_share=True)
            ).all()
            return tuple((row.id, self._keep_progress(session, row, wanted[row.position])) for row in rows)

    def keep_reported(
        self,
        job_id: str,
        *,
        event: Event,
        verdict: str | None,
        result: str,
        runs: Sequence[SingleRunResult],
        reason: str = "",
    ) -> DeliveryWord:
        """Take the result of a job that was measured elsewhere; the same once more changes nothing."""
        now = self._now()
        with self._writing() as session:
            row = session.get(JobRow, job_id, with_for_update=LOCK)
            if row is None or not _is_reported(session, row.campaign_id):
                raise unknown_job(job_id)
            if row.result == result:
                return "repeated"
            word: DeliveryWord = "replaced" if row.state in FINAL else "accepted"
            row.state, row.verdict, row.result, row.reason = after("running", event), verdict, result, reason
            row.seconds, row.progress = sum(run.duration_seconds for run in runs), None
            row.started_at, row.ended_at = row.started_at or now, row.ended_at or now
            session.execute(delete(RunRow).where(RunRow.job_id == job_id))
            if runs:
                session.execute(insert(RunRow), [run_values(job_id, run) for run in runs])
            detail = {"state": row.state, "verdict": verdict, "reason": reason}
            self._log_event(
                session, row.campaign_id, row.id, f"result {REPORTED if word == 'accepted' else word}", detail
            )
            session.flush()
            self._settle(session, row.campaign_id)
            return word

    def _keep_progress(self, session: Session, row: JobRow, report: JobProgress) -> dict[str, JsonValue]:
        before, state = row.progress or {}, cast("State", row.state)
        if report.state == "running" and state == "pending":
            row.state, row.started_at = after(state, "start"), row.started_at or self._now()
            self._log_event(session, row.campaign_id, row.id, "began", {"note": report.note})
        elif report.state == "waiting" and state == "running":
            row.state, before = after(state, "release"), {}
            self._log_event(session, row.campaign_id, row.id, "waits again", {"note": report.note})
        if report.phase and report.runs and (before.get("phase") in (None, "") or before.get("run") != report.run):
            self._log_event(session, row.campaign_id, row.id, "run began", {"run": report.run + 1, "of": report.runs})
        detail = progress_detail(report)
        row.progress = {**detail, "at": self._now()}
        return {**detail, "state": row.state}


def _refuse_another(session: Session, campaign: str, digest: str) -> None:
    row = session.get_one(CampaignRow, campaign)
    if row.origin != REPORTED:
        raise UsageError(
            f"campaign {campaign} is this server's own",
            code="conflict",
            try_="a server that works on this very store shows it by itself",
        )
    if row.digest != digest:
        raise UsageError(f"another campaign is called {campaign} here", code="conflict", try_="run it again")


def _is_reported(session: Session, campaign: str) -> bool:
    return session.scalar(select(CampaignRow.origin).where(CampaignRow.id == campaign)) == REPORTED
