"""The store: what was submitted, what was measured, what was concluded. Every write is one short transaction."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from assay.clock import Clock, iso
from assay.documents import from_json, to_json
from assay.errors import UsageError
from assay.plan.job import Job
from assay.plan.lifecycle import Event, State, after
from assay.plan.plan import Plan
from assay.run.processes import own_start
from assay.run.records import RunOutcome, SampleSet, SingleRunResult
from assay.store.artefacts import ArtefactFiles, forget_left, left_by, note_left
from assay.store.database import open_database, reading, writing
from assay.store.fleet.submit import Also, new_id, submit
from assay.store.listing import Listing, campaign_summary, has_owner
from assay.store.records import CampaignSummary, FleetSettings, StoredJob
from assay.store.samples import SampleFiles
from assay.store.tables import CampaignRow, JobRow, RunRow

__all__ = ["DATABASE", "CampaignSummary", "FleetSettings", "Store", "StoredJob"]

DATABASE = "assay.db"


class Store:
    """Results: records in a SQLite file or another database, beside a folder of samples."""

    def __init__(
        self, folder: Path, url: str | None = None, *, migrate: Literal["auto", "check"] | None = None
    ) -> None:
        """Open a store.

        Args:
            folder: where samples and artefacts lie, and the database when no URL is given.
            url: another database.
            migrate: as `open_database` takes it.
        """
        self.folder = folder
        self.samples = SampleFiles(folder / "samples")
        self.artefacts = ArtefactFiles(folder / "artefacts")
        self.engine = open_database(url or folder / DATABASE, migrate)

    def close(self) -> None:
        """Let the database go."""
        self.engine.dispose()

    # Submitting and resuming

    def create_campaign(self, plan: Plan, document: Mapping[str, Any], labels: Mapping[str, str],
                        surroundings: str, clock: Clock, engine: str = "local") -> Plan:  # fmt: skip
        """Keep a plan as a new campaign of an engine; return it under its new name."""
        with self._writing() as session:
            campaign = new_id(session)
            submitted = plan.submitted_as(campaign)
            session.add(
                CampaignRow(
                    id=campaign, benchmark=plan.benchmark, digest=plan.digest, state="running", engine=engine,
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

    def submit_to_fleet(
        self, plan: Plan, document: Mapping[str, Any], labels: Mapping[str, str], clock: Clock, *,
        settings: FleetSettings | None = None, label_of: Callable[[Job], str] | None = None,
        also: Also | None = None,
    ) -> Plan:  # fmt: skip
        """Keep a plan as a campaign whose jobs wait for agents; return it under its new name.

        Args:
            plan: the jobs.
            document: the benchmark file as it was read.
            labels: labels of the campaign.
            clock: tells the time.
            settings: how it is to be placed.
            label_of: a job → its point in words, for people.
            also: what else to keep in the same transaction, by the id of the campaign.
        """
        return submit(self.engine, plan, document, labels, clock, settings or FleetSettings(), label_of, also)

    def take_over_interrupted(self, digest: str, surroundings: str) -> str | None:
        """Take over the newest unfinished campaign of an equal plan whose process is gone.

        Only one process can win: the claim is part of the same transaction as the look.
        """
        with self._writing() as session:
            rows = session.scalars(
                select(CampaignRow)
                .where(CampaignRow.digest == digest, CampaignRow.surroundings == surroundings)
                .where(CampaignRow.engine == "local")
                .where(CampaignRow.state.in_(("running", "interrupted")))
                .order_by(CampaignRow.created_at.desc())
            )
            for row in rows:
                if row.state == "interrupted" or not has_owner(row):
                    row.state, row.owner_pid, row.owner_started = "running", os.getpid(), own_start()
                    _release_jobs(session, row.id)
                    return row.id
        return None

    def abandon_interrupted(self, digest: str) -> int:
        """Mark unfinished campaigns of a plan whose process is gone as cancelled; return how many."""
        with self._writing() as session:
            rows = session.scalars(
                select(CampaignRow).where(
                    CampaignRow.digest == digest, CampaignRow.state.in_(("running", "interrupted")),
                    CampaignRow.engine == "local",  # others go on without a process here
                )
            )  # fmt: skip
            left = [row for row in rows if row.state == "interrupted" or not has_owner(row)]
            for row in left:
                row.state = "cancelled"
            return len(left)

    def unfinished(self, digest: str, engine: str) -> tuple[str, ...]:
        """The campaigns of a plan that an engine has not finished, newest first."""
        with self._reading() as session:
            found = select(CampaignRow.id).where(CampaignRow.digest == digest, CampaignRow.engine == engine)
            found = found.where(CampaignRow.state == "running").order_by(CampaignRow.created_at.desc())
            return tuple(session.scalars(found))

    def end_campaign(self, campaign: str, state: str, clock: Clock) -> None:
        """Record that a campaign is over, or that it was interrupted."""
        with self._writing() as session:
            row = session.get_one(CampaignRow, campaign)
            row.state, row.owner_pid, row.owner_started = state, None, None
            row.completed_at = None if state == "interrupted" else iso(clock.utc())

    # Jobs and runs

    def move_job(self, job_id: str, event: Event) -> State:
        """Take a job one step along its life."""
        with self._writing() as session:
            row = session.get_one(JobRow, job_id)
            row.state = after(cast("State", row.state), event)
            return row.state

    def end_job(self, job_id: str, event: Event, *, verdict: str | None, result: str, seconds: float) -> None:
        """Keep what was concluded about a job, with its last step."""
        with self._writing() as session:
            row = session.get_one(JobRow, job_id)
            row.state = after(cast("State", row.state), event)
            row.verdict, row.result, row.seconds = verdict, result, seconds

    def replace_result(self, job_id: str, *, verdict: str | None, result: str) -> None:
        """Keep more of what is known about a job that has ended, such as metrics that came later."""
        with self._writing() as session:
            row = session.get_one(JobRow, job_id)
            row.verdict, row.result = verdict, result

    def keep_run(self, job_id: str, outcome: RunOutcome) -> SingleRunResult:
        """Keep a run the moment it ended: samples and files first, then the record that points to them."""
        files = {name: self.artefacts.take(path) for name, path in outcome.files.items()}
        result = replace(outcome.result, samples=self.samples.write(outcome.samples), files=files)
        with self._writing() as session:
            session.merge(
                RunRow(job_id=job_id, run_id=result.run_id, started_at=result.started_at,
                       failed=result.error is not None, samples=result.samples, document=to_json(result))
            )  # fmt: skip
            note_left(session, self.artefacts, job_id, 0, left_by([result]))
        return result

    def runs(self, job_id: str) -> tuple[SingleRunResult, ...]:
        """The runs of a job that have ended."""
        with self._reading() as session:
            rows = session.scalars(select(RunRow).where(RunRow.job_id == job_id).order_by(RunRow.run_id))
            return tuple(from_json(SingleRunResult, row.document, source=f"{job_id} run {row.run_id}") for row in rows)

    def samples_of(self, job_id: str, run_id: int) -> tuple[SampleSet, ...]:
        """The samples of a run; none when it has none."""
        with self._reading() as session:
            row = session.get(RunRow, (job_id, run_id))
            digest = row.samples if row else None
        return self.samples.read(digest) if digest else ()

    def file_of(self, job_id: str, run_id: int, name: str) -> Path | None:
        """A file that a run left, by its name; None when there is none."""
        run = next((one for one in self.runs(job_id) if one.run_id == run_id), None)
        digest = run.files.get(name) if run else None
        path = self.artefacts.path(digest) if digest else None
        return path if path is not None and path.is_file() else None

    def outcomes(self, job_id: str) -> tuple[RunOutcome, ...]:
        """The runs of a job with their samples."""
        return tuple(
            RunOutcome(result, self.samples.read(result.samples) if result.samples else ())
            for result in self.runs(job_id)
        )

    def known_seconds(self, digest: str) -> float | None:
        """How long a job of this digest took when it was last measured here."""
        with self._reading() as session:
            return session.scalars(
                select(JobRow.seconds).where(JobRow.digest == digest, JobRow.state == "done").order_by(JobRow.id.desc())
            ).first()

    # Reading back

    def campaign(self, campaign: str) -> tuple[CampaignSummary, tuple[StoredJob, ...]]:
        """A campaign with its jobs."""
        with self._reading() as session:
            row = session.get(CampaignRow, campaign)
            if row is None:
                raise _unknown(campaign, self.folder)
            rows = session.scalars(select(JobRow).where(JobRow.campaign_id == campaign).order_by(JobRow.position)).all()
            jobs = tuple(
                StoredJob(from_json(Job, one.document, source=one.id), cast("State", one.state), one.result, one.reason)
                for one in rows
            )
            return campaign_summary(row, Counter(job.state for job in jobs)), jobs

    def campaigns(self, limit: int = 50) -> tuple[CampaignSummary, ...]:
        """The newest campaigns, newest first."""
        return Listing(self.engine).campaigns(limit=limit).items

    def find(self, reference: str) -> str:
        """The campaign that a reference names: an id, a unique beginning of one, `latest` or `latest~2`.

        Raises:
            UsageError: if it names none or several.
        """
        name, _, back = reference.partition("~")
        with self._reading() as session:
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
        """Forget a campaign, its runs, and the samples and files that no other run has."""
        with self._writing() as session:
            row = session.get(CampaignRow, campaign)
            if row is None:
                raise _unknown(campaign, self.folder)
            if row.engine != "local" and row.state == "running":
                raise UsageError(f"campaign {campaign} is running", code="busy", try_="cancel it first")
            if row.state == "running" and has_owner(row):
                raise UsageError(f"campaign {campaign} is running in process {row.owner_pid}", code="busy",
                                 try_="wait until it ends")  # fmt: skip
            # Jobs before their campaign, as everywhere: nobody then waits for somebody who waits for him.
            session.execute(
                select(JobRow.id).where(JobRow.campaign_id == campaign).order_by(JobRow.id).with_for_update()
            )
            mine = select(RunRow.samples).join(JobRow).where(JobRow.campaign_id == campaign)
            digests = {digest for digest in session.scalars(mine) if digest}
            forget = forget_left(session, campaign)
            session.execute(delete(CampaignRow).where(CampaignRow.id == campaign))
            files = forget()
            shared = set(session.scalars(select(RunRow.samples).where(RunRow.samples.in_(digests))))
        for digest in digests - shared:
            self.samples.path(digest).unlink(missing_ok=True)
        for digest in files:
            self.artefacts.remove(digest)

    def _writing(self) -> AbstractContextManager[Session]:
        return writing(self.engine)

    def _reading(self) -> AbstractContextManager[Session]:
        return reading(self.engine)


def _release_jobs(session: Session, campaign: str) -> None:
    """Jobs that were running when their process ended wait again; their finished runs stay."""
    session.execute(
        update(JobRow).where(JobRow.campaign_id == campaign, JobRow.state == "running").values(
            state=after("running", "interrupt")
        )
    )  # fmt: skip


def _unknown(reference: str, folder: Path) -> UsageError:
    return UsageError(f"no campaign {reference!r} in the store", code="unknown-campaign", at=str(folder),
                      try_="`assay results list` shows what is there")  # fmt: skip
