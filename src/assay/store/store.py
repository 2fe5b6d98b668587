"""The store: what was submitted, what was measured, what was concluded. Every write is one short transaction."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from sqlalchemy import Integer, delete, func, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DatabaseError
from sqlalchemy.orm import Session

from assay.clock import Clock, iso
from assay.documents import from_json, to_json
from assay.errors import StoreError, UsageError
from assay.place.leasing import needs_key
from assay.plan.job import Job
from assay.plan.lifecycle import FINAL, Event, State, after
from assay.plan.plan import Plan
from assay.run.processes import is_alive, own_start
from assay.run.records import RunOutcome, SampleSet, SingleRunResult
from assay.store.database import open_database
from assay.store.samples import SampleFiles
from assay.store.tables import CampaignRow, JobRow, NeedsRow, RunRow

DATABASE = "assay.db"


@dataclass(frozen=True, slots=True)
class CampaignSummary:
    """One line of a list of campaigns."""

    id: str
    benchmark: str
    state: str
    created_at: str
    completed_at: str | None
    jobs: int
    jobs_ended: int
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A job as the store keeps it."""

    job: Job
    state: State
    result: str | None  # the result document, once there is one


class Store:
    """Results: records in a SQLite file or another database, beside a folder of samples."""

    def __init__(self, folder: Path, url: str | None = None) -> None:
        self.folder = folder
        self.samples = SampleFiles(folder / "samples")
        self.engine = open_database(url or folder / DATABASE)

    def close(self) -> None:
        """Let the database go."""
        self.engine.dispose()

    # Submitting and resuming

    def create_campaign(self, plan: Plan, document: Mapping[str, Any], labels: Mapping[str, str],
                        surroundings: str, clock: Clock) -> Plan:  # fmt: skip
        """Keep a plan as a new campaign; return it under its new name."""
        with self._session() as session:
            campaign = _new_id(session)
            submitted = plan.submitted_as(campaign)
            session.add(
                CampaignRow(
                    id=campaign, benchmark=plan.benchmark, digest=plan.digest, state="running",
                    created_at=iso(clock.utc()), labels=dict(labels), document=dict(document),
                    surroundings=surroundings, owner_pid=os.getpid(), owner_started=own_start(),
                )
            )  # fmt: skip
            session.flush()
            session.add_all(
                JobRow(id=job.id, campaign_id=campaign, position=job.index, digest=job.digest, state="pending",
                       document=to_json(job))
                for job in submitted.jobs
            )  # fmt: skip
        return submitted

    def submit_to_fleet(self, plan: Plan, document: Mapping[str, Any], labels: Mapping[str, str], clock: Clock,
                        *, priority: int = 0) -> Plan:  # fmt: skip
        """Keep a plan as a campaign whose jobs wait for agents; return it under its new name."""
        with self._session() as session:
            campaign = _new_id(session)
            submitted = plan.submitted_as(campaign)
            session.add(
                CampaignRow(
                    id=campaign, benchmark=plan.benchmark, digest=plan.digest, state="running", engine="fleet",
                    created_at=iso(clock.utc()), labels=dict(labels), document=dict(document), surroundings="",
                    priority=priority,
                )
            )  # fmt: skip
            session.flush()
            session.add_all(
                JobRow(id=job.id, campaign_id=campaign, position=job.index, digest=job.digest, state="pending",
                       document=to_json(job), needs=needs_key(job))
                for job in submitted.jobs
            )  # fmt: skip
            _know_needs(session, submitted)
        return submitted

    def take_over_interrupted(self, digest: str, surroundings: str) -> str | None:
        """Take over the newest unfinished campaign of an equal plan whose process is gone.

        Only one process can win: the claim is part of the same transaction as the look.
        """
        with self._session() as session:
            rows = session.scalars(
                select(CampaignRow)
                .where(CampaignRow.digest == digest, CampaignRow.surroundings == surroundings)
                .where(CampaignRow.engine == "local")
                .where(CampaignRow.state.in_(("running", "interrupted")))
                .order_by(CampaignRow.created_at.desc())
            )
            for row in rows:
                if row.state == "interrupted" or not _has_owner(row):
                    row.state, row.owner_pid, row.owner_started = "running", os.getpid(), own_start()
                    _release_jobs(session, row.id)
                    return row.id
        return None

    def abandon_interrupted(self, digest: str) -> int:
        """Mark unfinished campaigns of a plan whose process is gone as cancelled; return how many."""
        with self._session() as session:
            rows = session.scalars(
                select(CampaignRow).where(
                    CampaignRow.digest == digest, CampaignRow.state.in_(("running", "interrupted"))
                )
            )
            left = [row for row in rows if row.state == "interrupted" or not _has_owner(row)]
            for row in left:
                row.state = "cancelled"
            return len(left)

    def end_campaign(self, campaign: str, state: str, clock: Clock) -> None:
        """Record that a campaign is over, or that it was interrupted."""
        with self._session() as session:
            row = session.get_one(CampaignRow, campaign)
            row.state, row.owner_pid, row.owner_started = state, None, None
            row.completed_at = None if state == "interrupted" else iso(clock.utc())

    # Jobs and runs

    def move_job(self, job_id: str, event: Event) -> State:
        """Take a job one step along its life."""
        with self._session() as session:
            row = session.get_one(JobRow, job_id)
            row.state = after(cast("State", row.state), event)
            return row.state

    def end_job(self, job_id: str, event: Event, *, verdict: str | None, result: str, seconds: float) -> None:
        """Keep what was concluded about a job, with its last step."""
        with self._session() as session:
            row = session.get_one(JobRow, job_id)
            row.state = after(cast("State", row.state), event)
            row.verdict, row.result, row.seconds = verdict, result, seconds

    def keep_run(self, job_id: str, outcome: RunOutcome) -> SingleRunResult:
        """Keep a run the moment it ended: samples first, then the record that points to them."""
        result = replace(outcome.result, samples=self.samples.write(outcome.samples))
        with self._session() as session:
            session.merge(
                RunRow(job_id=job_id, run_id=result.run_id, started_at=result.started_at,
                       failed=result.error is not None, samples=result.samples, document=to_json(result))
            )  # fmt: skip
        return result

    def runs(self, job_id: str) -> tuple[SingleRunResult, ...]:
        """The runs of a job that have ended."""
        with self._session() as session:
            rows = session.scalars(select(RunRow).where(RunRow.job_id == job_id).order_by(RunRow.run_id))
            return tuple(from_json(SingleRunResult, row.document, source=f"{job_id} run {row.run_id}") for row in rows)

    def samples_of(self, job_id: str, run_id: int) -> tuple[SampleSet, ...]:
        """The samples of a run; none when it has none."""
        with self._session() as session:
            row = session.get(RunRow, (job_id, run_id))
            digest = row.samples if row else None
        return self.samples.read(digest) if digest else ()

    def outcomes(self, job_id: str) -> tuple[RunOutcome, ...]:
        """The runs of a job with their samples."""
        return tuple(
            RunOutcome(result, self.samples.read(result.samples) if result.samples else ())
            for result in self.runs(job_id)
        )

    def known_seconds(self, digest: str) -> float | None:
        """How long a job of this digest took when it was last measured here."""
        with self._session() as session:
            return session.scalars(
                select(JobRow.seconds).where(JobRow.digest == digest, JobRow.state == "done").order_by(JobRow.id.desc())
            ).first()

    # Reading back

    def campaign(self, campaign: str) -> tuple[CampaignSummary, tuple[StoredJob, ...]]:
        """A campaign with its jobs."""
        with self._session() as session:
            row = session.get(CampaignRow, campaign)
            if row is None:
                raise _unknown(campaign, self.folder)
            rows = session.scalars(select(JobRow).where(JobRow.campaign_id == campaign).order_by(JobRow.position)).all()
            jobs = tuple(
                StoredJob(from_json(Job, one.document, source=one.id), cast("State", one.state), one.result)
                for one in rows
            )
            return _summary(row, len(jobs), sum(job.state in FINAL for job in jobs)), jobs

    def campaigns(self, limit: int = 50) -> tuple[CampaignSummary, ...]:
        """The newest campaigns, newest first."""
        counts = (
            select(JobRow.campaign_id, func.count().label("jobs"),
                   func.sum(JobRow.state.in_(tuple(FINAL)).cast(Integer)).label("ended"))
            .group_by(JobRow.campaign_id).subquery()
        )  # fmt: skip
        with self._session() as session:
            rows = session.execute(
                select(CampaignRow, counts.c.jobs, counts.c.ended)
                .outerjoin(counts, counts.c.campaign_id == CampaignRow.id)
                .order_by(CampaignRow.created_at.desc(), CampaignRow.id.desc())
                .limit(limit)
            )
            return tuple(_summary(row, jobs or 0, ended or 0) for row, jobs, ended in rows)

    def find(self, reference: str) -> str:
        """The campaign that a reference names: an id, a unique beginning of one, `latest` or `latest~2`.

        Raises:
            UsageError: if it names none or several.
        """
        name, _, back = reference.partition("~")
        with self._session() as session:
            if name == "latest" and (back.isdigit() or not back):
                newest = select(CampaignRow.id).order_by(CampaignRow.created_at.desc(), CampaignRow.id.desc())
                found = session.scalars(newest.offset(int(back or 0)).limit(1)).all()
            else:
                found = session.scalars(
                    select(CampaignRow.id).where(CampaignRow.id.startswith(reference, autoescape=True)).limit(5)
                ).all()
        if not found:
            raise _unknown(reference, self.folder)
        if len(found) > 1 and reference not in found:
            raise UsageError(f"{reference!r} begins several campaigns: {', '.join(found)}", code="ambiguous",
                             try_="give more of the id")  # fmt: skip
        return reference if reference in found else found[0]

    def remove(self, campaign: str) -> None:
        """Forget a campaign, its runs, and the samples that no other run has."""
        with self._session() as session:
            row = session.get_one(CampaignRow, campaign)
            if row.state == "running" and _has_owner(row):
                raise UsageError(f"campaign {campaign} is running in process {row.owner_pid}", code="busy",
                                 try_="wait until it ends")  # fmt: skip
            mine = select(RunRow.samples).join(JobRow).where(JobRow.campaign_id == campaign)
            digests = {digest for digest in session.scalars(mine) if digest}
            session.execute(delete(CampaignRow).where(CampaignRow.id == campaign))
            shared = set(session.scalars(select(RunRow.samples).where(RunRow.samples.in_(digests))))
        for digest in digests - shared:
            self.samples.path(digest).unlink(missing_ok=True)

    @contextmanager
    def _session(self) -> Iterator[Session]:
        try:
            with Session(self.engine) as session, session.begin():
                yield session
        except DatabaseError as problem:
            raise StoreError(f"the store did not answer: {problem.orig}", at=str(self.folder / DATABASE),
                             try_="check space and permissions, or set another with --store") from None  # fmt: skip


def _know_needs(session: Session, plan: Plan) -> None:
    """Keep each distinct set of needs once; another process may keep the same one at this very moment."""
    rows = {needs_key(job): {"id": needs_key(job), "document": to_json(job)} for job in plan.jobs}
    insert = postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert
    session.execute(insert(NeedsRow).values(list(rows.values())).on_conflict_do_nothing())


def _new_id(session: Session) -> str:
    """A short id that is not taken; letters first, so that it is never read as a number."""
    while True:
        candidate = "c" + secrets.token_hex(4)
        if session.get(CampaignRow, candidate) is None:
            return candidate


def _has_owner(row: CampaignRow) -> bool:
    return row.owner_pid is not None and row.owner_started is not None and is_alive(row.owner_pid, row.owner_started)


def _release_jobs(session: Session, campaign: str) -> None:
    """Jobs that were running when their process ended wait again; their finished runs stay."""
    session.execute(
        update(JobRow).where(JobRow.campaign_id == campaign, JobRow.state == "running").values(
            state=after("running", "interrupt")
        )
    )  # fmt: skip


def _summary(row: CampaignRow, jobs: int, ended: int) -> CampaignSummary:
    state = row.state
    if state == "running" and row.engine == "local" and not _has_owner(row):
        state = "interrupted"
    return CampaignSummary(row.id, row.benchmark, state, row.created_at, row.completed_at, jobs, int(ended), row.labels)


def _unknown(reference: str, folder: Path) -> UsageError:
    return UsageError(f"no campaign {reference!r} in the store", code="unknown-campaign", at=str(folder),
                      try_="`assay results list` shows what is there")  # fmt: skip
