"""Slurm as an engine: a campaign is submitted as a whole, and the shared folder brings the results."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from assay.clock import Clock
from assay.engines.base import (
    FailureReason,
    FinishedJob,
    JobStatus,
    LogChunk,
    Progress,
    RunningJob,
    RunOptions,
    Snapshot,
    WaitingJob,
)
from assay.engines.collect import Termination, has_result
from assay.engines.folder import unfollowed
from assay.engines.ledger import StoreLedger
from assay.engines.node import read_progress
from assay.engines.slurm.batches import CampaignBatches, job_logs, join_metrics
from assay.engines.slurm.folder import (
    BatchPlan,
    SharedFolder,
    SlurmCampaign,
    folder_of,
    is_on_cluster,
    remove_folder,
)
from assay.engines.slurm.node.end import request_end
from assay.engines.slurm.node.publication import publish_failure, read_published
from assay.engines.slurm.scheduler import (
    WAITING,
    BatchState,
    Scheduler,
    failure_of,
    is_final,
    scheduler_for,
    waiting_words,
)
from assay.engines.slurm.submission import note_cancelled, read_submitted, submit_all, tear_down
from assay.errors import AssayError, MeasureError, Problem
from assay.plan.job import Job
from assay.plan.plan import Plan
from assay.report.live import View
from assay.spec.load import Loaded
from assay.spec.slurm import MONITOR
from assay.store.store import Store

if TYPE_CHECKING:
    from assay.engines.slurm.draft import SlurmDraft

# A whole site shares the controller: it is asked often only while something happens.
_POLL_S, _SLOWEST_S, _SLOWER = 0.5, 10.0, 1.15
# Files of other nodes appear late in shared folders: later still where the job says that it wrote one.
_LAG_S, _LAG_WRITTEN_S = 3.0, 60.0
# A result is there, but the batch job has not left: its epilogue may take long, and waiting for it is no use.
_LEAVING_S = 20.0
_WRITTEN, _BY_ITSELF = (0, 3), ("COMPLETED", "FAILED")
# How long the monitor may take to write out what it scraped.
_MONITOR_S = 120.0
# How often the files are read in which jobs say how far they are.
_PROGRESS_S = 2.0


@dataclass(slots=True)
class SlurmEngine:
    """One campaign on Slurm."""

    NAME: ClassVar[str] = "slurm"
    TITLE: ClassVar[str] = "Slurm"
    TRANSIENT: ClassVar[Collection[str]] = ("slurm-silent", "slurm-refused", "slurm-answer", "slurm-token")
    RESUMABLE: ClassVar[Collection[str]] = ("slurm-silent", "slurm-missing", "shared-folder")
    REQUEUES: ClassVar[bool] = True
    OUTLIVES: ClassVar[bool] = True
    IS_SERVED: ClassVar[bool] = False

    ledger: StoreLedger
    folder: SharedFolder
    document: SlurmCampaign
    scheduler: Scheduler
    clock: Clock
    notify: Callable[[str], None]
    where: str
    sleep: Callable[[float], None] = time.sleep
    _ids: dict[str, str] = field(init=False)
    """Name of the sbatch → its number."""
    _last: CampaignBatches = field(init=False)
    _final_since: dict[int, float] = field(default_factory=dict)
    _result_since: dict[int, float] = field(default_factory=dict)
    _doomed: dict[str, FailureReason] = field(default_factory=dict)
    """Key → why a batch job can never run, for those that were cancelled because of it."""
    _ended_groups: set[str] = field(default_factory=set)
    _ending: set[str] = field(default_factory=set)
    """Groups whose services were asked to end."""
    _announced: set[str] = field(default_factory=set)
    """Batch jobs of services, and the monitor, that are known to be ready or to have failed."""
    _progress: dict[int, Progress] = field(default_factory=dict)
    _progress_s: float = -_PROGRESS_S
    _pause_s: float = _POLL_S
    _monitor_until_s: float | None = None

    def __post_init__(self) -> None:
        self._ids = read_submitted(self.folder).ids
        self._last = CampaignBatches(self.folder, self.document, self._ids, {}, self.document.places())

    @classmethod
    def resume(cls, home: Store, plan: Plan, view: View, clock: Clock) -> SlurmEngine | None:
        campaign = unfollowed(cls, home, plan.digest, view)
        return None if campaign is None else cls.open(home, campaign, view, clock)

    @classmethod
    def check(cls, loaded: Loaded, plan: Plan, home: Store, options: RunOptions) -> SlurmDraft:
        from assay.engines.slurm.draft import draft

        return draft(loaded, plan, home, options)

    @classmethod
    def folder_of(cls, store: Path, campaign: str) -> SharedFolder | None:
        return folder_of(store, campaign) if is_on_cluster(store, campaign) else None

    @classmethod
    def open(cls, home: Store, campaign: str, view: View, clock: Clock) -> SlurmEngine:
        folder = folder_of(home.folder, campaign)
        document = folder.read_campaign(SlurmCampaign)
        ledger = StoreLedger(home, campaign, clock, folder, folder)
        where = f"in {folder.path}"
        return cls(ledger, folder, document, scheduler_for(document.slurm), clock, view.note, where)

    @classmethod
    def remove(cls, store: Path, campaign: str) -> str:
        return remove_folder(store, campaign)

    @classmethod
    def logs(cls, home: Store, job: Job, service: str = "", *, follow: bool = False) -> Iterator[LogChunk]:
        return job_logs(home, job, service, follow=follow)

    @property
    def is_cancelled(self) -> bool:
        return read_submitted(self.folder).cancelled

    # Submitting and ending

    def submit(self) -> None:
        """Submit every batch job that has not been submitted."""
        try:
            submit_all(self.folder, self.document, self.scheduler, self.notify)
        finally:
            self._ids = read_submitted(self.folder).ids

    def advance(self, jobs: Collection[int]) -> int:
        """Ask the services of a group to end once its jobs have: sooner than its batch job `end` may get a node."""
        for group in self.document.groups:
            if group.name in self._ended_groups or any(index in jobs for index in group.jobs):
                continue
            self._ended_groups.add(group.name)
            if group.services:
                request_end(self.folder, group.name)
                self._ending.add(group.name)
        return 0

    def wait(self, *, moved: bool) -> None:
        self._pause_s = _POLL_S if moved else min(self._pause_s * _SLOWER, _SLOWEST_S)
        self.sleep(self._pause_s)

    def cancel(self) -> None:
        note_cancelled(self.folder)

    def finish(self) -> bool:
        """Ask the monitor to end, and wait until it wrote out what it scraped; a lost one costs its last minute."""
        self.advance(())
        if not self.document.monitored:
            return True
        if self._monitor_until_s is None:
            request_end(self.folder, MONITOR)
            self._monitor_until_s = time.monotonic() + _MONITOR_S
        if time.monotonic() >= self._monitor_until_s:
            self.notify(f"the monitor has not ended within {_MONITOR_S:g} s; what it wrote out until now is kept")
            return True
        monitor = next(batch for batch in self.document.batches if batch.role == "monitor")
        return self._snapshot().is_over(monitor)

    def tear_down(self) -> str:
        return tear_down(self.folder, self.document, self._ids, self.scheduler)

    def settle(self) -> None:
        """Put the metrics that the monitor scraped to the runs."""
        join_metrics(self.ledger.store, self.folder, self.document, self.notify)

    def close(self) -> None:
        """Nothing is held open."""

    # Looking

    def snapshot(self, jobs: Mapping[int, Job]) -> Snapshot:
        """How jobs stand; where Slurm is silent, those whose result is here count as ended anyway."""
        silence, batches = "", None
        try:
            batches = self._snapshot()
        except MeasureError as problem:
            if problem.problem.code not in self.TRANSIENT:
                raise
            silence = problem.problem.message
        self._read_progress(jobs)
        notes: dict[str, str] = {}
        statuses = {index: self._status(job, batches, notes) for index, job in jobs.items()}
        if batches is not None:
            self._care_for_services(batches, notes)
            # Take a batch job `end` out of the queue where the services were seen to end without it
            for name in list(self._ending):
                if not all(batches.is_over(batch) for batch in self.document.services_of(name)):
                    continue
                self._ending.discard(name)
                ends = [batch for batch in self.document.batches if batch.role == "end" and batch.group == name]
                self.scheduler.cancel(
                    [self._ids[batch.name] for batch in ends if batch.name in self._ids and not batches.is_over(batch)]
                )
        return Snapshot({index: status for index, status in statuses.items() if status is not None}, notes, silence)

    def fetch(self, job: Job, ended: FinishedJob) -> Termination:
        """The shared folder has the files already."""
        last = self._last
        return Termination(last.state_of(job), ended.reason, last.logs_of(job), last.environment_of(job))

    def _snapshot(self) -> CampaignBatches:
        states = self.scheduler.states(list(self._ids.values()))
        self._last = CampaignBatches(self.folder, self.document, self._ids, states, self._last.places)
        return self._last

    def _read_progress(self, jobs: Collection[int]) -> None:
        """Read how far the jobs are that ran at the last look."""
        if time.monotonic() - self._progress_s < _PROGRESS_S:
            return
        self._progress_s = time.monotonic()
        read = {index: read_progress(self.folder.progress(index)) for index in jobs if self._last.is_running(index)}
        self._progress = {index: progress for index, progress in read.items() if progress is not None}

    def _status(self, job: Job, batches: CampaignBatches | None, notes: dict[str, str]) -> JobStatus | None:
        now_s = time.monotonic()
        state = batches.state_of(job) if batches is not None else None
        going = state is not None and not is_final(state.state)
        if has_result(self.folder, job):
            since_s = self._result_since.setdefault(job.index, now_s)
            if (batches is not None and not going) or now_s - since_s > _LEAVING_S:
                return FinishedJob()
            return None if state is None else self._running(job, state)
        if batches is None:
            return None
        if state is not None and going:
            self._final_since.pop(job.index, None)
            return self._waiting(state, notes) if state.state in WAITING else self._running(job, state)
        wrote = state is not None and state.exit_code in _WRITTEN and not state.signal and state.state in _BY_ITSELF
        if now_s - self._final_since.setdefault(job.index, now_s) <= (_LAG_WRITTEN_S if wrote else _LAG_S):
            return None
        return FinishedJob(self._doomed.get(batches.key_of(job)) or batches.failure_reason(job))

    def _running(self, job: Job, state: BatchState) -> RunningJob:
        nodes = (state.node,) if state.node else ()
        return RunningJob(f"batch job {state.key}", nodes, self._progress.get(job.index))

    def _waiting(self, state: BatchState, notes: dict[str, str]) -> WaitingJob:
        self._judge_waiting(state, notes)
        reason = state.reason.partition(",")[0]
        why = waiting_words(state, self.clock.utc())
        return WaitingJob(f"batch job {state.key}", why, reason, state.estimated_start)

    def _judge_waiting(self, state: BatchState, notes: dict[str, str]) -> None:
        """A job on hold waits for a person; one that can never run is taken out, and says why."""
        batch = next((plan for plan in self.document.batches if self._ids.get(plan.name) == state.id), None)
        reason = failure_of(state, batch.batch) if batch is not None else None
        if reason is None:
            self._doomed.pop(state.key, None)
            return
        self._doomed[state.key] = reason
        notes[f"{reason.code} {state.id} {state.reason}"] = f"{reason.message}; {reason.try_}"
        if reason.code != "slurm-held":
            self.scheduler.cancel([state.key])

    # Services

    def _care_for_services(self, batches: CampaignBatches, notes: dict[str, str]) -> None:
        """Say which services are ready; one whose batch job is gone, and that could not say so, is not waited for."""
        for batch in self.document.batches:
            if batch.role != "service":
                continue
            if batch.name not in self._announced and (note := _service_note(self.folder, batch, self._ids)):
                self._announced.add(batch.name)
                notes[batch.name] = note
            if batch.group in self._ended_groups or self.folder.stop(batch.group).exists():
                continue
            for state in batches.of(batch):
                if state.state in WAITING:
                    self._judge_waiting(state, notes)
            reason = self._doomed.get(self._ids.get(batch.name, "")) or batches.service_failure(batch)
            there = self.folder.failed_service(batch.group, batch.service).is_file()
            if reason is not None and batches.is_over(batch) and not there:
                problem = Problem(
                    reason.code,
                    f"the service {batch.service}: {reason.message}",
                    f"services.{batch.service}",
                    reason.try_,
                )
                publish_failure(self.folder, batch.group, batch.service, problem)
        path = self.folder.service(MONITOR, MONITOR)
        if self.document.monitored and MONITOR not in self._announced and path.is_file():
            self._announced.add(MONITOR)
            notes[MONITOR] = _monitor_note(path.read_bytes(), self.folder)


def _service_note(folder: SharedFolder, plan: BatchPlan, ids: Mapping[str, str]) -> str:
    """What a service says about itself; empty while it is not ready."""
    try:
        record = read_published(folder, plan.group, plan.service)
    except AssayError as failure:
        return f"the service {plan.service} failed: {failure.problem.message}"
    if record is None:
        return ""
    at = f"{record.node}, {record.base_url}" if record.node else record.base_url
    lasted, number = f"{record.start_to_ready_s:.1f} s after its start", ids.get(plan.name, "?")
    return f"the service {plan.service} is ready on {at}, {lasted} (batch job {number})"


def _monitor_note(content: bytes, folder: SharedFolder) -> str:
    try:
        document = json.loads(content)
        where = f"{document['node']}, port {document['port']}"
    except (ValueError, KeyError, TypeError):
        where = "its node"
    return f"Prometheus watches on {where}; `assay monitoring tunnel LOGIN {folder.path}` prints the way there"
