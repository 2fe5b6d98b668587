"""The local engine: a campaign on this machine, one job after another, in this process."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from assay.clock import Clock
from assay.engines.base import FinishedJob, LogChunk, RunOptions, Snapshot
from assay.engines.collect import Termination
from assay.engines.ledger import StoreLedger, new_campaign
from assay.engines.logs import stored_logs
from assay.errors import UsageError
from assay.exec.folder import ResultFolder
from assay.exec.machine import surroundings
from assay.exec.runner import JobHooks, JobRunner
from assay.hardware.fitness.lock import mode_from
from assay.hardware.fitness.session import DeviceSession
from assay.monitoring.monitor import Monitor, monitored
from assay.place.needs import Profile
from assay.plan.job import FINAL, Job
from assay.plan.plan import Plan, refuse_parts_in_turn, refuse_unsupported
from assay.report.live import View
from assay.report.result import read_job
from assay.report.wording import label_of
from assay.run.capabilities import profile_for
from assay.run.records import RunOutcome, SingleRunResult
from assay.run.scratch import scratch_folder, sweep_abandoned
from assay.spec.load import Loaded
from assay.store.location import cache_folder
from assay.store.store import Store


@dataclass(frozen=True, slots=True)
class LocalDraft:
    """A campaign that this machine can take."""

    loaded: Loaded
    plan: Plan
    store: Store
    options: RunOptions

    def begin(self, view: View, clock: Clock) -> LocalEngine:
        """Continue an interrupted campaign of the same plan, or begin a new one."""
        store = self.store
        runner = _runner(self.options, view, clock)  # now: it looks at other processes while the campaign is recorded
        sweep_abandoned()
        if self.options.fresh:
            store.abandon_interrupted(self.plan.digest)
        elif (campaign := store.take_over_interrupted(self.plan.digest, surroundings())) is not None:
            plan = self.plan.submitted_as(campaign)
            where = "resumed: what was measured before the interruption is kept"
            return LocalEngine(store, plan, self.loaded, runner, view, clock, where, is_new=False)
        with new_campaign(store, self.loaded, self.plan, LocalEngine.NAME, clock) as plan:
            return LocalEngine(store, plan, self.loaded, runner, view, clock, "", is_new=True)


class LocalEngine(JobHooks):
    """One campaign on this machine. A job is measured in `advance`, through the door of `exec`."""

    NAME: ClassVar[str] = "local"
    TITLE: ClassVar[str] = "this machine"
    TRANSIENT: ClassVar[Collection[str]] = ()
    RESUMABLE: ClassVar[Collection[str]] = ()
    REQUEUES: ClassVar[bool] = False
    OUTLIVES: ClassVar[bool] = False
    IS_SERVED: ClassVar[bool] = False

    def __init__(
        self,
        store: Store,
        plan: Plan,
        loaded: Loaded,
        runner: JobRunner,
        view: View,
        clock: Clock,
        where: str,
        *,
        is_new: bool,
    ) -> None:
        self.where = where
        self.is_cancelled = False
        self._store, self._plan, self._loaded, self._view, self._clock = store, plan, loaded, view, clock
        self._runner = runner
        self._jobs: deque[Job] = deque()
        self._profile: Profile
        self._monitor: Monitor
        self._held = ExitStack()
        """Monitoring, and the scratch folder of the job that was measured last."""
        self._scratch = ExitStack()
        self._folder = Path()
        self._began_s: float | None = None
        self._ended: Job | None = None
        campaign = plan.jobs[0].campaign
        self.ledger = StoreLedger(store, campaign, clock, self, new=plan if is_new else None)

    @classmethod
    def resume(cls, home: Store, plan: Plan, view: View, clock: Clock) -> LocalEngine | None:  # noqa: ARG003
        """A local campaign is taken over where it begins, in one transaction with the look."""
        return None

    @classmethod
    def check(cls, loaded: Loaded, plan: Plan, home: Store, options: RunOptions) -> LocalDraft:
        refuse_unsupported(loaded.benchmark)
        refuse_parts_in_turn(plan.jobs)
        return LocalDraft(loaded, plan, home, options)

    @classmethod
    def open(cls, home: Store, campaign: str, view: View, clock: Clock) -> LocalEngine:  # noqa: ARG003
        message = f"campaign {campaign} was not submitted to a cluster from this store"
        remedy = "give the store that it was submitted with, by --store or ASSAY_STORE"
        raise UsageError(message, code="no-cluster", at=str(home.folder), try_=remedy)

    @classmethod
    def logs(cls, home: Store, job: Job, service: str = "", *, follow: bool = False) -> Iterator[LogChunk]:  # noqa: ARG003
        return stored_logs(home, job, service)

    @classmethod
    def folder_of(cls, store: Path, campaign: str) -> None:  # noqa: ARG003
        return None

    @classmethod
    def remove(cls, store: Path, campaign: str) -> str:  # noqa: ARG003
        return ""

    def submit(self) -> None:
        """Begin to scrape, and show the jobs that an earlier process has ended."""
        plan = self._plan
        self._profile = profile_for(plan.jobs)
        self._monitor = self._held.enter_context(monitored(self._loaded.benchmark, plan.jobs, self._view.note))
        for job in plan.jobs:
            if self.where and self._store.job_state(job.id) in FINAL:
                self._begin(job)
                self._view.job_done(read_job(self._store.job(job.id), self._store.runs))
            else:
                self._jobs.append(job)

    def advance(self, jobs: Collection[int]) -> int:  # noqa: ARG002  (they are in the queue)
        """Measure the next job."""
        if not self._jobs:
            return 0
        job = self._jobs.popleft()
        self._begin(job)
        self._scratch.close()
        self._folder = self._scratch.enter_context(scratch_folder())
        # Samples and files go where they will stay; the folder itself holds documents alone, and may be lost.
        folder = ResultFolder(self._folder, self._store.samples, self._store.artefacts, durable=False)
        if self.where:
            folder.restore(self._store.runs(job.id))
        self._began_s = None
        self._runner.measure(job, folder, self._profile, hooks=self)
        self._ended = job
        return 0

    def _begin(self, job: Job) -> None:
        self._view.job(job.id, label_of(job), job.index, len(self._plan.jobs))

    def snapshot(self, jobs: Mapping[int, Job]) -> Snapshot:  # noqa: ARG002
        """The job that was measured since the last look."""
        ended, self._ended = self._ended, None
        return Snapshot({} if ended is None else {ended.index: FinishedJob()})

    def fetch(self, job: Job, ended: FinishedJob) -> Termination:  # noqa: ARG002  (its folder is here)
        elapsed_s = None if self._began_s is None else self._clock.monotonic_s() - self._began_s  # None: refused
        return Termination(None, None, {}, {}, elapsed_s=elapsed_s)

    def out(self, index: int) -> Path:  # noqa: ARG002  (there is one at a time)
        """The result folder of the job that was measured last."""
        return self._folder

    def wait(self, *, moved: bool) -> None:
        """Measuring is the wait."""

    def cancel(self) -> None:
        self.is_cancelled = True

    def finish(self) -> bool:
        self._held.close()
        return True

    def tear_down(self) -> str:
        return ""

    def settle(self) -> None:
        """Results are whole when they are collected."""

    def close(self) -> None:
        self._scratch.close()
        self._held.close()

    # Called while a job is measured

    @contextmanager
    def measuring(self, job: Job) -> Iterator[None]:
        self._began_s = self._clock.monotonic_s()
        self._store.move_job(job.id, "start")
        with self._monitor.job(job):
            yield

    def enrich(self, job: Job, outcome: RunOutcome) -> RunOutcome:
        return self._monitor.joined(job, outcome)

    def kept(self, job: Job, run: SingleRunResult) -> None:
        """Take a run into the store as soon as it has ended."""
        self._store.record_run(job.id, run)


def _runner(options: RunOptions, view: View, clock: Clock) -> JobRunner:
    devices = DeviceSession(mode_from(options.lock), cache_folder(), view.waiting, control=options.control)
    return JobRunner(view, devices, clock)
