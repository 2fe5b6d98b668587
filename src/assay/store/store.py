"""The store of results: campaigns, jobs, runs and scores in a database, samples and files beside it."""

from __future__ import annotations

import difflib
import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

from sqlalchemy import Engine, Select, delete, select, update

from assay.clock import Clock, iso
from assay.documents import from_json
from assay.errors import AssayError, UsageError
from assay.files import make_private_folder
from assay.plan.job import Event, Job, State, after
from assay.plan.plan import Plan
from assay.run.processes import own_start
from assay.run.records import RunOutcome, SampleSet, SingleRunResult
from assay.store.artefacts import ArtefactFiles, forget_left, left_by, note_left
from assay.store.database import TableAccess, is_read_only, open_database, reading, writing
from assay.store.fleet.campaigns import Also, campaign_row, job_columns, new_id, submit
from assay.store.fleet.leases import run_values
from assay.store.listing import Listing, ambiguous, campaign_summary, has_owner, unknown_job
from assay.store.objects.backing import Backing, Kind, chosen
from assay.store.objects.transfer import Shelves, TransferReport, join, tried, trim, wanted, work_off
from assay.store.records import CampaignSummary, FleetSettings, StoredJob
from assay.store.samples import SampleFiles
from assay.store.tables import REPORTED, CampaignRow, JobRow, RunRow, ScoreRow

DATABASE = "assay.db"
_log = logging.getLogger("assay.store")


def keep_score(engine: Engine, job_id: str, *, scorer: str, version: str, computed_at: float, document: str) -> None:
    with writing(engine) as session:
        session.add(
            ScoreRow(
                job_id=job_id, scorer=scorer[:100], version=version[:200], computed_at=computed_at, document=document
            )
        )


def scores_of(engine: Engine, jobs: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Job → the documents of its scores, oldest first; jobs without any are left out."""
    scores: dict[str, tuple[str, ...]] = {}
    with reading(engine) as session:
        for job in jobs:
            query = select(ScoreRow.document).where(ScoreRow.job_id == job).order_by(ScoreRow.id)
            if documents := tuple(session.scalars(query)):
                scores[job] = documents
    return scores


class Store(TableAccess):
    """Results: records in a SQLite file or another database; samples and files in a folder or an object store."""

    def __init__(
        self,
        folder: Path,
        url: str | None = None,
        *,
        migrate: Literal["auto", "check"] | None = None,
        objects: str | None = None,
        cache_bytes: int | None = None,
        prompt: bool = True,
    ) -> None:
        """Open a store.

        Args:
            objects: the object store that samples and artefacts also go to, such as `s3://bucket/prefix`; from
                ASSAY_OBJECTS, else as the folder remembers it, when None.
            prompt: send files when a campaign ends, and delete objects when one goes; a server does both by itself.
        """
        self.folder = folder
        settings, is_new = chosen(folder, objects, cache_bytes)
        self.backing = None if settings is None else Backing(folder, settings)
        self.samples = SampleFiles(folder / "samples", self.backing)
        self.artefacts = ArtefactFiles(folder / "artefacts", self.backing)
        if self.backing is not None and is_new:
            if prompt:  # fails before anything is measured; a server has to start while its bucket is away
                tried(self.backing, folder)
            join(folder, self.backing, self.shelves)
        if url is not None:
            with suppress(OSError):  # reported when something is written there
                make_private_folder(folder)
        super().__init__(open_database(url or folder / DATABASE, migrate))
        self.engine = self._engine
        self._prompt = prompt

    @property
    def is_read_only(self) -> bool:
        """Whether results can be read here and none can be kept."""
        return self.engine.dialect.name == "sqlite" and is_read_only(self.folder / DATABASE)

    def close(self) -> None:
        self.engine.dispose()

    # The object store

    @property
    def shelves(self) -> Shelves:
        return {"samples": self.samples, "artefacts": self.artefacts}

    def work_off(
        self, *, sends: bool = True, settled_s: float = 0.0, stop: threading.Event | None = None
    ) -> TransferReport | None:
        """Do what waits for the object store, as `sending.work_off` says; None when there is no object store."""
        if self.backing is None:
            return None
        return work_off(self.backing, self.shelves, self._wanted, sends=sends, settled_s=settled_s, stop=stop)

    def trim(self) -> int:
        """Take copies away that the object store has, where they take too much room; return how many."""
        return 0 if self.backing is None else trim(self.backing, self.shelves, self._wanted)

    def _wanted(self, kind: Kind, digests: Collection[str]) -> set[str]:
        with self._reading() as session:
            return wanted(session, self.samples, kind, digests)

    def _promptly(self, *, sends: bool) -> None:
        """Transfer what waits, where no server does; what cannot be done now waits on disk, and that is reported."""
        if self.backing is None or not self._prompt:
            return
        done = self.work_off(sends=sends)
        with suppress(AssayError):  # room is made the next time
            self.trim()
        if done is not None and done.problems:
            count = "1 file is" if done.waiting == 1 else f"{done.waiting} files are"
            _log.warning(
                "%s: %s; it is tried again with the next campaign, or now by `assay objects send`",
                f"{count} on this disk alone" if sends else f"objects are still in {self.backing.url}",
                done.problems[0].message,
            )

    # Submitting and resuming

    def create_campaign(
        self,
        plan: Plan,
        document: Mapping[str, Any],
        labels: Mapping[str, str],
        surroundings: str,
        clock: Clock,
        engine: str = "local",
    ) -> Plan:
        """Keep a plan as a new campaign of an engine; return it under its new name."""
        with self._writing() as session:
            campaign = new_id(session)
            submitted = plan.submitted_as(campaign)
            columns = {"engine": engine, "created_at": iso(clock.utc()), "surroundings": surroundings}
            owner = {"owner_pid": os.getpid(), "owner_started": own_start()}
            session.add(campaign_row(plan, campaign, document, labels, **columns, **owner))
            session.flush()
            session.add_all(JobRow(**job_columns(job)) for job in submitted.jobs)
        return submitted

    def submit_to_fleet(
        self,
        plan: Plan,
        document: Mapping[str, Any],
        labels: Mapping[str, str],
        clock: Clock,
        *,
        settings: FleetSettings | None = None,
        label_of: Callable[[Job], str] | None = None,
        also: Also | None = None,
    ) -> Plan:
        """Keep a plan as a campaign whose jobs wait for agents; return it under its new name."""
        return submit(self.engine, plan, document, labels, clock, settings or FleetSettings(), label_of, also)

    def take_over_interrupted(self, digest: str, surroundings: str) -> str | None:
        """Take over the newest unfinished campaign of an equal plan whose process is gone.

        Only one process can win: the claim is part of the same transaction as the look.
        """
        query = _left_here(digest).where(CampaignRow.surroundings == surroundings)
        with self._writing() as session:
            for row in session.scalars(query.order_by(CampaignRow.created_at.desc())):
                if row.state == "interrupted" or not has_owner(row):
                    row.state, row.owner_pid, row.owner_started = "running", os.getpid(), own_start()
                    # Jobs that were running when their process ended wait again; their finished runs stay.
                    running = (JobRow.campaign_id == row.id, JobRow.state == "running")
                    session.execute(update(JobRow).where(*running).values(state=after("running", "interrupt")))
                    return row.id
        return None

    def abandon_interrupted(self, digest: str) -> int:
        """Mark unfinished campaigns of a plan whose process is gone as cancelled; return how many."""
        with self._writing() as session:
            rows = session.scalars(_left_here(digest))
            left = [row for row in rows if row.state == "interrupted" or not has_owner(row)]
            for row in left:
                row.state = "cancelled"
            return len(left)

    def unfinished(self, digest: str, engine: str) -> tuple[str, ...]:
        """The campaigns of a plan that an engine has not finished, newest first."""
        unfinished = (CampaignRow.digest == digest, CampaignRow.engine == engine, CampaignRow.state == "running")
        return tuple(self._scalars(select(CampaignRow.id).where(*unfinished).order_by(CampaignRow.created_at.desc())))

    def end_campaign(self, campaign: str, state: str, clock: Clock) -> None:
        """Record that a campaign is over, or that it was interrupted."""
        with self._writing() as session:
            row = session.get_one(CampaignRow, campaign)
            row.state, row.owner_pid, row.owner_started = state, None, None
            row.completed_at = None if state == "interrupted" else iso(clock.utc())
        if state != "interrupted":  # an interrupt must not wait
            self._promptly(sends=True)

    # Jobs and runs

    def move_job(self, job_id: str, event: Event) -> State:
        with self._writing() as session:
            row = session.get_one(JobRow, job_id)
            row.state = after(cast("State", row.state), event)
            if row.state == "running":
                row.started_at = self._now()
            return row.state

    def end_job(self, job_id: str, event: Event, *, verdict: str | None, result: str, seconds: float) -> None:
        with self._writing() as session:
            row = session.get_one(JobRow, job_id)
            row.state = after(cast("State", row.state), event)
            row.verdict, row.result, row.seconds = verdict, result, seconds
            row.ended_at = self._now()

    def replace_result(self, job_id: str, *, verdict: str | None, result: str) -> None:
        """Keep more of what is known about a job that has ended, such as metrics that came later."""
        with self._writing() as session:
            row = session.get_one(JobRow, job_id)
            row.verdict, row.result = verdict, result

    def keep_run(self, job_id: str, outcome: RunOutcome) -> SingleRunResult:
        """Keep a run the moment it ended: samples and files first, then the record that points to them."""
        files = {name: self.artefacts.take(path) for name, path in outcome.files.items()}
        result = replace(outcome.result, samples=self.samples.write(outcome.samples), files=files)
        self.record_run(job_id, result)
        return result

    def record_run(self, job_id: str, result: SingleRunResult) -> None:
        """Keep the record of a run whose samples and files are in the store already."""
        with self._writing() as session:
            session.merge(RunRow(**run_values(job_id, result)))
            note_left(session, self.artefacts, job_id, 0, left_by([result]))

    def runs(self, job_id: str) -> tuple[SingleRunResult, ...]:
        rows = self._scalars(select(RunRow).where(RunRow.job_id == job_id).order_by(RunRow.run_id))
        return tuple(from_json(SingleRunResult, row.document, source=f"{job_id} run {row.run_id}") for row in rows)

    def samples_of(self, job_id: str, run_id: int) -> tuple[SampleSet, ...]:
        digest = self._scalar(select(RunRow.samples).where(RunRow.job_id == job_id, RunRow.run_id == run_id))
        return self.samples.read(digest) if digest else ()

    def file_of(self, job_id: str, run_id: int, name: str) -> Path | None:
        """A file that a run left, by its name; None when there is none."""
        digest = next((run.files.get(name) for run in self.runs(job_id) if run.run_id == run_id), None)
        return self.artefacts.find(digest) if digest else None

    def outcomes(self, job_id: str) -> tuple[RunOutcome, ...]:
        return tuple(
            RunOutcome(result, self.samples.read(result.samples) if result.samples else ())
            for result in self.runs(job_id)
        )

    def known_seconds(self, digest: str) -> float | None:
        """How long a job of this digest took when it was last measured here."""
        query = select(JobRow.seconds).where(JobRow.digest == digest, JobRow.state == "done")
        seconds: float | None = self._scalar(query.order_by(JobRow.id.desc()).limit(1))
        return seconds

    # Reading back

    def campaign(self, campaign: str) -> tuple[CampaignSummary, tuple[StoredJob, ...]]:
        with self._reading() as session:
            row = session.get(CampaignRow, campaign)
            if row is None:
                raise _unknown(campaign, self.folder)
            rows = session.scalars(select(JobRow).where(JobRow.campaign_id == campaign).order_by(JobRow.position)).all()
            jobs = tuple(_stored(job_row) for job_row in rows)
            return campaign_summary(row, Counter(job.state for job in jobs)), jobs

    def job_state(self, job_id: str) -> State:
        state = self._scalar(select(JobRow.state).where(JobRow.id == job_id))
        if state is None:
            raise unknown_job(job_id)
        return cast("State", state)

    def job(self, job_id: str) -> StoredJob:
        row = self._scalar(select(JobRow).where(JobRow.id == job_id))
        if row is None:
            raise unknown_job(job_id)
        return _stored(row)

    def campaigns(self, limit: int = 50) -> tuple[CampaignSummary, ...]:
        """The newest campaigns, newest first."""
        return Listing(self.engine).campaigns(limit=limit).items

    def find(self, reference: str) -> str:
        """The campaign that a reference names: an id, a unique beginning of one, `latest` or `latest~2`."""
        name, _, back = reference.partition("~")
        with self._reading() as session:
            if name == "latest" and (back.isdigit() or not back):
                newest = select(CampaignRow.id).order_by(CampaignRow.created_at.desc(), CampaignRow.id.desc())
                ids = session.scalars(newest.offset(int(back or 0)).limit(1)).all()
            else:
                ids = session.scalars(
                    select(CampaignRow.id).where(CampaignRow.id.startswith(reference, autoescape=True)).limit(5)
                ).all()
            if not ids:
                newest = select(CampaignRow.id).order_by(CampaignRow.created_at.desc()).limit(_SEARCHED)
                raise _not_found(reference, self.folder, session.scalars(newest).all())
        if len(ids) > 1 and reference not in ids:
            raise ambiguous(reference, "campaigns", ids)
        return reference if reference in ids else ids[0]

    def remove(self, campaign: str) -> None:
        """Forget a campaign, its runs, and the samples and files that no other run has."""
        with self._writing() as session:
            row = session.get(CampaignRow, campaign)
            if row is None:
                raise _unknown(campaign, self.folder)
            if row.engine != "local" and row.state == "running" and row.origin != REPORTED:
                raise UsageError(f"campaign {campaign} is running", code="busy", try_="cancel it first")
            if row.state == "running" and has_owner(row):
                raise UsageError(
                    f"campaign {campaign} is running in process {row.owner_pid}", code="busy", try_="wait until it ends"
                )
            # Jobs before their campaign, as everywhere, against deadlocks.
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
            self.samples.remove(digest)
        for digest in files:
            self.artefacts.remove(digest)
        self._promptly(sends=False)


def _left_here(digest: str) -> Select[CampaignRow]:
    """Campaigns of a plan that a process of this machine began and did not end; other engines continue without one."""
    unfinished = CampaignRow.state.in_(("running", "interrupted"))
    return select(CampaignRow).where(CampaignRow.digest == digest, CampaignRow.engine == "local", unfinished)


def _stored(row: JobRow) -> StoredJob:
    return StoredJob(from_json(Job, row.document, source=row.id), cast("State", row.state), row.result, row.reason)


_LIST = "`assay results list` shows what is there"
_SEARCHED = 1000  # campaigns, the newest, among which one was perhaps meant


def _unknown(reference: str, folder: Path, advice: str = _LIST) -> UsageError:
    return UsageError(f"no campaign {reference!r} in the store", code="unknown-campaign", at=str(folder), try_=advice)


def _not_found(reference: str, folder: Path, known: Sequence[str]) -> UsageError:
    if not known:
        return _unknown(reference, folder, "nothing was measured here yet: `assay run` begins")
    near = difflib.get_close_matches(reference, ["latest", *known], 1, 0.7) if "~" not in reference else []
    return _unknown(reference, folder, f"did you mean {near[0]}? {_LIST}" if near else _LIST)
