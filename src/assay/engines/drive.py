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
from typing import TYPE_CHECKING, Any, Generic

from assay.analyse.records import MultiRunJobResult
from assay.clock import Clock
from assay.engines.base import (
    CANCELLED,
    Engine,
    FailureReason,
    FinishedJob,
    FollowOptions,
    J,
    JobStatus,
    NullReporter,
    OpenJobs,
    Reporter,
    RunningJob,
    RunOptions,
    engine_in,
    engines,
)
from assay.engines.collect import Termination
from assay.engines.status import StatusPrinter, note_unused, standings
from assay.errors import NOT_KEPT, AssayError, MeasureError, UsageError
from assay.plan.job import campaign_state
from assay.report.live import View
from assay.report.result import CampaignResult
from assay.run.inputs import plan_of
from assay.run.scratch import is_held
from assay.spec.load import Loaded

if TYPE_CHECKING:
    from assay.place.fleet.client import FleetClient
    from assay.store.store import Store


# How often a server learns how the jobs stand.
_REPORT_S = 2.0


def run(
    engine_type: type[Engine[Any, Any]],
    loaded: Loaded,
    home: Store | FleetClient,
    view: View,
    clock: Clock,
    options: RunOptions | None = None,
) -> CampaignResult:
    """Submit a benchmark to an engine, follow it to its end and return its results.

    A campaign of the same plan that can continue is continued instead, unless `fresh`.

    Args:
        home: where the campaign is recorded: the store, for a fleet the client of its server.
    """
    options = options or RunOptions()
    plan = plan_of(loaded)
    engine = None if options.fresh else engine_type.resume(home, plan, view, clock)
    if engine is None:
        engine = engine_type.check(loaded, plan, home, options).begin(view, clock)
        if not engine.IS_SERVED:
            note_unused(loaded.benchmark, view, f"a run on {engine.TITLE}")
    return CampaignDriver(engine, view, options.follow).run()


def attach(engine: Engine[Any, Any], view: View, options: FollowOptions | None = None) -> CampaignResult:
    """Follow a campaign to its end, from wherever the process before was lost, and return its results."""
    return CampaignDriver(engine, view, options or FollowOptions()).run()


def cancel(engine: Engine[Any, Any], view: View, server: FleetClient | None = None) -> str:
    """End every job of a campaign, keep what was measured, and return the state that it then has."""
    driver = CampaignDriver(engine, view, FollowOptions(server=server))
    if engine.IS_SERVED or engine.ledger.state() == "running":
        engine.cancel()
    if engine.IS_SERVED:
        return engine.ledger.state()
    driver.tear_down()
    return driver.run().record.state


def remove(store: Store, campaign: str) -> tuple[str, ...]:
    """Remove a campaign from the store, and what its engine left beside it; return the outcome in words.

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
    folder = engine_in(store, campaign).folder_of(store, campaign)
    if folder is not None and folder.path.is_dir() and is_held(folder.path):
        raise UsageError(f"a process follows campaign {campaign}", code="busy", try_="wait until it ends")


@dataclass(slots=True)
class CampaignDriver(Generic[J]):
    """One process and one campaign."""

    engine: Engine[J, Any]
    view: View
    options: FollowOptions = field(default_factory=FollowOptions)
    _reporter: Reporter = field(default_factory=NullReporter)
    _reported_s: float = -_REPORT_S
    _printer: StatusPrinter = field(init=False)
    _jobs: OpenJobs[J] = field(default_factory=lambda: OpenJobs({}, set(), 0))

    def __post_init__(self) -> None:
        self._printer = StatusPrinter(self.view, self.engine.TITLE)

    def run(self) -> CampaignResult:
        """Submit what is missing, follow, collect, tear down."""
        ledger = self.engine.ledger
        try:
            size = ledger.size()
            self.view.campaign(ledger.campaign, size.jobs, size.runs, self.engine.where)
            with ledger.following(self.options.server, self.view.note) as self._reporter:
                if ledger.state() != "running":
                    return ledger.result()
                return self._driven() if self.engine.OUTLIVES else self._measured_here()
        finally:
            self.engine.close()
            self.view.close()

    def _driven(self) -> CampaignResult:
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

    def _measured_here(self) -> CampaignResult:
        """A campaign that this process measures itself; another process can continue from what it leaves."""
        try:
            self._jobs = self.engine.ledger.open_jobs()
            self.engine.submit()
            self._follow()
        except BaseException:
            self._suspend()
            raise
        return self._finished()

    # Beginning

    def _submit(self) -> None:
        self._jobs = self.engine.ledger.open_jobs()
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

    def _detached(self) -> CampaignResult:
        """Submit every job that may be in the engine at the same time, and leave."""
        if later := self.engine.advance(self._jobs.jobs):
            self.view.note(f"{later} jobs are submitted when those before them have ended, by `assay campaigns attach`")
        self._leave()
        return self.engine.ledger.result()

    # Following

    def _follow(self) -> None:
        """Look until every job has ended and what they shared has too."""
        while self._jobs.jobs:
            moved = self._patiently(self._step)
            if self._jobs.jobs:
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
        jobs = self._jobs
        before = (len(jobs.jobs), len(jobs.running))
        cancelled = self.engine.is_cancelled
        snapshot = self.engine.snapshot(jobs.jobs)
        self._printer.silent(snapshot.silence)
        for index, status in snapshot.jobs.items():
            self._apply(jobs.jobs[index], status, cancelled=cancelled)
        self.engine.advance(jobs.jobs)
        if not snapshot.silence:
            self._printer.show(snapshot, jobs.total - len(jobs.jobs), jobs.total)
            # Report the state of the jobs to a server; seldom, since no one reads faster
            now_s = time.monotonic()
            if not isinstance(self._reporter, NullReporter) and now_s - self._reported_s >= _REPORT_S:
                self._reported_s = now_s
                self._reporter.progressed(standings(snapshot, self._jobs.jobs))
        return before != (len(jobs.jobs), len(jobs.running))

    def _apply(self, job: J, status: JobStatus, *, cancelled: bool) -> None:
        """Note that a job began, was put back, or ended."""
        ledger, running = self.engine.ledger, self._jobs.running
        if isinstance(status, FinishedJob):
            termination = self.engine.fetch(job, status)
            if termination is not None:
                self._collect(job, replace(termination, cancelled=cancelled))
        elif isinstance(status, RunningJob):
            if job.index not in running:
                running.add(job.index)
                ledger.started(job)
        elif self.engine.REQUEUES and job.index in running:
            running.discard(job.index)
            ledger.released(job)
            self.view.note(f"the {status.handle} was put back into the queue")

    def _collect(self, job: J, termination: Termination) -> None:
        result = self.engine.ledger.collect(job, termination)
        self._jobs.jobs.pop(job.index, None)
        self._jobs.running.discard(job.index)
        self.view.job_done(result)
        self._reporter.ended(job.index)

    # Ending

    def _leave(self) -> None:
        title, campaign = self.engine.TITLE, self.engine.ledger.campaign
        self._reporter.left(f"left to {title}: no process follows it for now")
        self.view.note(
            f"campaign {campaign} continues in {title} without this process; `assay campaigns attach {campaign}` "
            f"follows it and collects its results, `assay campaigns cancel {campaign}` ends it"
        )

    def _suspend(self) -> None:
        """Record that the campaign can continue later; if the store itself failed, nothing can be recorded."""
        try:
            self.engine.ledger.end("interrupted")
        except AssayError:
            return
        self.view.note(f"campaign {self.engine.ledger.campaign} is interrupted; the same command continues it")

    def _interrupted(self) -> None:
        if not self.options.cancel_on_interrupt:
            self._leave()
            return
        self.view.note(f"cancelling campaign {self.engine.ledger.campaign}; what was measured is kept")
        self.engine.cancel()
        self.tear_down()
        self._follow()
        self._finished()

    def _refused(self, problem: MeasureError) -> None:
        """Leave a campaign to a later process where the engine is silent; take it back where it refuses a part."""
        reason, campaign = problem.problem, self.engine.ledger.campaign
        if reason.code in (*self.engine.RESUMABLE, *NOT_KEPT):
            self.view.note(
                f"campaign {campaign} is left as it is; `assay campaigns attach {campaign}` continues it, "
                f"`assay campaigns cancel {campaign}` ends it"
            )
            return
        self._take_back(FailureReason(reason.code, reason.message, reason.try_))

    def _take_back(self, why: FailureReason) -> None:
        ledger = self.engine.ledger
        self.engine.cancel()
        self.tear_down()
        if self.engine.IS_SERVED:
            return
        self._jobs = ledger.open_jobs()
        ended = Termination(None, why, {}, {}, cancelled=why.code == CANCELLED, final=True)
        for job in self._jobs.jobs.values():
            ledger.collect(job, ended)
        ledger.end(campaign_state(Counter(job.state for job in ledger.result().jobs)))
        self._reporter.all_ended()

    def tear_down(self) -> None:
        """End whatever is left of the campaign on its engine, and say so where something will not go."""
        if left := self.engine.tear_down():
            self.view.note(left)

    def _finished(self) -> CampaignResult:
        ledger = self.engine.ledger
        self.tear_down()
        self.engine.settle()
        result = ledger.result()
        if self.engine.IS_SERVED:
            return result
        cancelled = self.engine.is_cancelled
        state = campaign_state(Counter(_ended_as(job, cancelled=cancelled) for job in result.jobs))
        ledger.end(state)
        result = replace(result, record=replace(result.record, state=state))
        ledger.findings(result.record, self.view)
        self._reporter.all_ended()  # some results may have been completed at the end
        return result


def _ended_as(job: MultiRunJobResult, *, cancelled: bool) -> str:
    """How a job ended; one that a cancel cut short keeps the runs that it had, but counts as cancelled."""
    return CANCELLED if cancelled and job.failed_runs else job.state
