"""Drives a campaign on an engine: submits it, follows it, collects what it leaves, and comes back to it after a crash.

Ctrl-C leaves the campaign to its engine, as people expect of a cluster, and says how to come back; only while it is
being submitted does Ctrl-C take everything back.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from assay.analyse.records import CampaignRecord, MultiRunJobResult
from assay.clock import Clock
from assay.engines.base import (
    CANCELLED,
    Engine,
    FailureReason,
    FinishedJob,
    FollowOptions,
    JobStatus,
    RunningJob,
    RunOptions,
    Snapshot,
    engine_holding,
    engine_named,
    engines,
)
from assay.engines.collect import Termination, collect
from assay.engines.node import NOT_KEPT
from assay.engines.reporting import NullReporter, Reporter, reporting_to
from assay.engines.status import StatusPrinter, note_findings, note_unused, standings
from assay.errors import MeasureError, UsageError
from assay.exec.machine import surroundings
from assay.place.fleet.client import FleetClient
from assay.plan.job import Job
from assay.plan.lifecycle import FINAL, campaign_state
from assay.plan.plan import refuse_unsupported
from assay.report.live import View
from assay.report.reading import read_campaign
from assay.run.inputs import plan_of
from assay.run.scratch import held, is_held
from assay.spec.load import Loaded
from assay.store.store import Store

# How often a server learns how the jobs stand.
_REPORT_S = 2.0


def run(loaded: Loaded, store: Store, view: View, clock: Clock, options: RunOptions | None = None) -> CampaignRecord:
    """Submit a benchmark to the engine that it names, follow it to its end and return its results.

    A campaign of the same plan that no process follows is followed instead, unless `fresh`.

    Raises:
        SpecError: if the benchmark is wrong.
        UsageError: if it cannot run on the engine as it is.
        MeasureError: if the engine refuses it or does not answer.
    """
    options = options or RunOptions()
    benchmark = loaded.benchmark
    engine_type = engine_named(benchmark.place.engine)
    refuse_unsupported(benchmark, (engine_type.NAME,))
    plan = plan_of(loaded)
    if not options.fresh and (campaign := _unfollowed(engine_type, store, plan.digest)) is not None:
        view.note(
            f"campaign {campaign} of the same plan goes on in {engine_type.TITLE}; "
            "following it (--fresh submits a new one)"
        )
        return attach(store, campaign, view, clock, options.follow)
    draft = engine_type.check(loaded, plan, store.folder, options)
    document = loaded.source.document
    plan = store.create_campaign(plan, document, benchmark.labels, surroundings(), clock, engine_type.NAME)
    campaign = plan.jobs[0].campaign
    try:
        engine = draft.write(plan, store, clock, view.note)
    except BaseException:
        store.end_campaign(campaign, "failed", clock)
        raise
    runs = sum(job.definition.measure.runs for job in plan.jobs)
    view.campaign(campaign, len(plan.jobs), runs, engine.where)
    note_unused(benchmark, view, f"a run on {engine.TITLE}")
    return CampaignDriver(engine, store, view, clock, options.follow).run()


def attach(
    store: Store, campaign: str, view: View, clock: Clock, options: FollowOptions | None = None
) -> CampaignRecord:
    """Follow a campaign to its end, from wherever the process before was lost, and return its results.

    Raises:
        UsageError: if it was not submitted to an engine from this store.
        MeasureError: if the engine refuses what is still to be submitted, or cannot be reached from here.
    """
    engine = _opened(store, campaign, view, clock)
    _, stored = store.campaign(campaign)
    view.campaign(campaign, len(stored), sum(one.job.definition.measure.runs for one in stored), engine.where)
    return CampaignDriver(engine, store, view, clock, options or FollowOptions()).run()


def cancel(store: Store, campaign: str, view: View, clock: Clock, server: FleetClient | None = None) -> CampaignRecord:
    """End every job of a campaign, keep what was measured, and return it.

    Raises:
        UsageError: if it was not submitted to an engine from this store.
        MeasureError: if the engine does not answer.
    """
    engine = _opened(store, campaign, view, clock)
    driver = CampaignDriver(engine, store, view, clock, FollowOptions(server=server))
    if store.campaign(campaign)[0].state == "running":
        engine.cancel()
    driver.tear_down()
    return driver.run()


def remove(store: Store, campaign: str) -> tuple[str, ...]:
    """Remove a campaign from the store, and what its engine left beside it; return what became of that in words.

    Raises:
        UsageError: `busy` if a process follows it.
    """
    refuse_followed(store.folder, campaign)
    store.remove(campaign)
    return tuple(said for engine in engines() if (said := engine.remove(store.folder, campaign)))


def refuse_followed(store: Path, campaign: str) -> None:
    """Refuse to remove what a process still follows.

    Raises:
        UsageError: `busy` if one does.
    """
    engine = engine_holding(store, campaign)
    folder = engine.folder_of(store, campaign).path if engine is not None else None
    if folder is not None and folder.is_dir() and is_held(folder):
        raise UsageError(f"a process follows campaign {campaign}", code="busy", try_="wait until it ends")


def _opened(store: Store, campaign: str, view: View, clock: Clock) -> Engine:
    engine_type = engine_holding(store.folder, campaign)
    if engine_type is None:
        raise UsageError(
            f"campaign {campaign} was not submitted to a cluster from this store",
            code="no-cluster",
            at=str(store.folder),
            try_="give the store that it was submitted with, by --store or ASSAY_STORE",
        )
    return engine_type.open(store, campaign, clock, view.note)


def _unfollowed(engine: type[Engine], store: Store, digest: str) -> str | None:
    """The newest campaign of a plan that the engine still has and that no process follows."""
    for campaign in store.unfinished(digest, engine.NAME):
        if engine.holds(store.folder, campaign):
            folder = engine.folder_of(store.folder, campaign)
            if folder.campaign.is_file() and not is_held(folder.path):
                return campaign
    return None


@dataclass(slots=True)
class CampaignDriver:
    """One process and one campaign."""

    engine: Engine
    store: Store
    view: View
    clock: Clock
    options: FollowOptions = field(default_factory=FollowOptions)
    _reporter: Reporter = field(default_factory=NullReporter)
    _reported_s: float = -_REPORT_S
    _printer: StatusPrinter = field(init=False)
    _open: dict[int, Job] = field(default_factory=dict)
    """Jobs that have not ended."""
    _running: set[int] = field(default_factory=set)
    _total: int = 0

    def __post_init__(self) -> None:
        self._printer = StatusPrinter(self.view, self.engine.TITLE)

    def run(self) -> CampaignRecord:
        """Submit what is missing, follow, collect, tear down."""
        campaign, folder = self.engine.campaign, self.engine.folder.path
        try:
            with (
                held(folder, lambda: self.view.note("another process follows this campaign; waiting for it")),
                reporting_to(self.options.server, self.store, campaign, folder, self.view.note) as self._reporter,
            ):
                if self.store.campaign(campaign)[0].state != "running":
                    return read_campaign(self.store, campaign)
                return self._driven()
        finally:
            self.engine.close()
            self.view.close()

    def _driven(self) -> CampaignRecord:
        try:
            self._submit()
            try:
                if self.options.detach and not self.engine.is_cancelled:
                    return self._detached()
                self._follow()
            except KeyboardInterrupt:
                self._interrupted()
                raise
        except MeasureError as problem:
            self._refused(problem)
            raise
        return self._finished()

    # Beginning

    def _submit(self) -> None:
        self._read_open()
        if self.engine.is_cancelled:
            self.tear_down()
            return
        try:
            self.engine.submit()
        except KeyboardInterrupt:
            self.view.note("not all of it was submitted: taking it back")
            why = "the campaign was interrupted while it was submitted"
            self._take_back(FailureReason(CANCELLED, why, "run it again"))
            raise
        except MeasureError as problem:
            if problem.problem.code != CANCELLED:
                raise

    def _read_open(self) -> None:
        _, stored = self.store.campaign(self.engine.campaign)
        self._open = {one.job.index: one.job for one in stored if one.state not in FINAL}
        self._running = {one.job.index for one in stored if one.state == "running"}
        self._total = len(stored)

    def _detached(self) -> CampaignRecord:
        """Hand over all that may be there at once, and leave."""
        if later := self.engine.advance(self._open):
            self.view.note(f"{later} jobs are submitted when those before them have ended, by `assay campaigns attach`")
        self._leave()
        return read_campaign(self.store, self.engine.campaign)

    # Following

    def _follow(self) -> None:
        """Look until every job has ended and what they shared has too.

        Raises:
            MeasureError: if the engine refuses for good what is asked of it.
            StoreError: if results cannot be kept.
        """
        self._read_open()
        while self._open:
            moved = self._patiently(self._step)
            if self._open:
                self.engine.wait(moved=moved)
        while not self._patiently(self.engine.finish):
            self.engine.wait(moved=True)

    def _patiently(self, act: Callable[[], bool]) -> bool:
        """Do one thing; an engine that is silent now is waited for."""
        try:
            return act()
        except MeasureError as problem:
            if problem.problem.code not in (*self.engine.TRANSIENT, CANCELLED):
                raise
            if problem.problem.code != CANCELLED:
                self._printer.silent(problem.problem.message)
            return False

    def _step(self) -> bool:
        """Look once; return whether anything moved."""
        before = (len(self._open), len(self._running))
        cancelled = self.engine.is_cancelled
        snapshot = self.engine.snapshot(self._open)
        self._printer.silent(snapshot.silence)
        for index, status in snapshot.jobs.items():
            self._apply(self._open[index], status, cancelled=cancelled)
        self.engine.advance(self._open)
        if not snapshot.silence:
            self._printer.show(snapshot, self._total - len(self._open), self._total)
            self._report(snapshot)
        return before != (len(self._open), len(self._running))

    def _apply(self, job: Job, status: JobStatus, *, cancelled: bool) -> None:
        """Note that a job began, was put back, or ended."""
        if isinstance(status, FinishedJob):
            termination = self.engine.fetch(job, status)
            if termination is not None:
                self._collect(job, replace(termination, cancelled=cancelled))
        elif isinstance(status, RunningJob):
            if job.index not in self._running:
                self._running.add(job.index)
                self.store.move_job(job.id, "start")
        elif self.engine.REQUEUES and job.index in self._running:
            self._running.discard(job.index)
            self.store.move_job(job.id, "release")
            self.view.note(f"the {status.handle} was put back into the queue")

    def _collect(self, job: Job, termination: Termination) -> None:
        result = collect(self.store, self.engine.folder, job, termination, self.clock.utc())
        self._open.pop(job.index, None)
        self._running.discard(job.index)
        self.view.job_done(result)
        self._reporter.ended(job.index)

    def _report(self, snapshot: Snapshot) -> None:
        """Tell a server how the jobs stand; seldom, since nobody reads faster."""
        now_s = time.monotonic()
        if not isinstance(self._reporter, NullReporter) and now_s - self._reported_s >= _REPORT_S:
            self._reported_s = now_s
            self._reporter.stands(standings(snapshot, self._open))

    # Ending

    def _leave(self) -> None:
        engine, campaign = self.engine, self.engine.campaign
        self._reporter.left(f"left to {engine.TITLE}: nobody follows it for now")
        self.view.note(
            f"campaign {campaign} goes on in {engine.TITLE} without this process; `assay campaigns attach {campaign}` "
            f"follows it and collects its results, `assay campaigns cancel {campaign}` ends it"
        )

    def _interrupted(self) -> None:
        if not self.options.cancel_on_interrupt:
            self._leave()
            return
        self.view.note(f"cancelling campaign {self.engine.campaign}; what was measured is kept")
        self.engine.cancel()
        self.tear_down()
        self._follow()
        self._finished()

    def _refused(self, problem: MeasureError) -> None:
        """Leave a campaign to a later process where the engine is silent; take it back where it refuses a part."""
        said, campaign = problem.problem, self.engine.campaign
        if said.code in (*self.engine.RESUMABLE, *NOT_KEPT):
            self.view.note(
                f"campaign {campaign} is left as it is; `assay campaigns attach {campaign}` goes on with it, "
                f"`assay campaigns cancel {campaign}` ends it"
            )
            return
        self._take_back(FailureReason(said.code, said.message, said.try_))

    def _take_back(self, why: FailureReason) -> None:
        self.engine.cancel()
        self.tear_down()
        self._read_open()
        ended = Termination(None, why, {}, {}, cancelled=why.code == CANCELLED, final=True)
        for job in self._open.values():
            collect(self.store, self.engine.folder, job, ended, self.clock.utc())
        _, stored = self.store.campaign(self.engine.campaign)
        state = campaign_state(Counter(one.state for one in stored))
        self.store.end_campaign(self.engine.campaign, state, self.clock)
        self._reporter.all_ended()

    def tear_down(self) -> None:
        """End whatever is left of the campaign on its engine, and say so where something will not go."""
        if left := self.engine.tear_down():
            self.view.note(left)

    def _finished(self) -> CampaignRecord:
        self.tear_down()
        self.engine.settle(self.store)
        record = read_campaign(self.store, self.engine.campaign)
        cancelled = self.engine.is_cancelled
        state = campaign_state(Counter(_ended_as(job, cancelled=cancelled) for job in record.jobs))
        self.store.end_campaign(self.engine.campaign, state, self.clock)
        record = replace(record, state=state)
        note_findings(self.store, record, self.view, self.clock)
        self._reporter.all_ended()  # some results may have been completed at the end
        return record


def _ended_as(job: MultiRunJobResult, *, cancelled: bool) -> str:
    """How a job ended; one that a cancel cut short kept the runs that it had, and is cancelled all the same."""
    return CANCELLED if cancelled and job.failed_runs else job.state
