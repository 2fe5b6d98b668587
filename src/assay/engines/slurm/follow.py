"""Following a campaign through Slurm until every job has ended and nothing is left in the queue."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from assay.clock import Clock
from assay.engines.collect import Ended, collect, has_result
from assay.engines.reporting import NullReporter, Reporter
from assay.engines.slurm.folder import SharedFolder, SlurmCampaign
from assay.engines.slurm.node.end import ask_to_end
from assay.engines.slurm.node.publication import publish_failure
from assay.engines.slurm.scheduler import BatchState, Scheduler
from assay.engines.slurm.shown import Shown
from assay.engines.slurm.states import WAITING, FailureReason, failure_of, is_final
from assay.engines.slurm.submit import read_submitted
from assay.engines.slurm.telling import standings
from assay.engines.slurm.told import Seen
from assay.errors import MeasureError, Problem
from assay.plan.job import Job
from assay.plan.lifecycle import FINAL
from assay.report.live import View
from assay.spec.clusters import MONITOR
from assay.store.store import Store

# A whole site shares the controller: it is asked often only while something happens.
_LOOK_S, _SLOWEST_S, _SLOWER = 0.5, 10.0, 1.15
# Files of other nodes appear late in shared folders: later still where the job says that it wrote one.
_LAG_S, _LAG_WRITTEN_S = 3.0, 60.0
# A result is there, but the batch job has not left: its epilogue may take long, and nobody needs to wait for it.
_LEAVING_S = 20.0
_WRITTEN, _BY_ITSELF = (0, 3), ("COMPLETED", "FAILED")
# How long the monitor may take to write out what it scraped.
_MONITOR_S = 120.0
# How often a server is told how the jobs stand.
_RELAY_S = 2.0
_PATIENT = "slurm-missing"


@dataclass(slots=True)
class Follower:
    """One process that follows one campaign."""

    store: Store
    folder: SharedFolder
    document: SlurmCampaign
    ids: Mapping[str, str]
    scheduler: Scheduler
    view: View
    clock: Clock
    jobs: tuple[Job, ...]
    relay: Reporter = field(default_factory=NullReporter)
    sleep: Callable[[float], None] = time.sleep
    _open: dict[int, Job] = field(default_factory=dict)
    _running: set[int] = field(default_factory=set)
    _final_since: dict[int, float] = field(default_factory=dict)
    _result_since: dict[int, float] = field(default_factory=dict)
    _doomed: dict[str, FailureReason] = field(default_factory=dict)
    """Key → why a job can never run, for those that were cancelled because of it."""
    _ended_groups: set[str] = field(default_factory=set)
    _ending: set[str] = field(default_factory=set)
    """Groups whose services were asked to end."""
    _last: Seen | None = None
    _relayed_s: float = -_RELAY_S
    _shown: Shown | None = None

    def follow(self) -> None:
        """Look until every job has ended.

        Raises:
            MeasureError: if Slurm's commands are not here.
            StoreError: if results cannot be kept.
        """
        self._shown = Shown(self.view, self.folder, self.document, self.clock.utc())
        _, stored = self.store.campaign(self.document.campaign)
        self._open = {one.job.index: one.job for one in stored if one.state not in FINAL}
        self._running = {one.job.index for one in stored if one.state == "running"}
        self._end_groups()
        pause_s = _LOOK_S
        while self._open:
            moved = self.step()
            pause_s = _LOOK_S if moved else min(pause_s * _SLOWER, _SLOWEST_S)
            if self._open:
                self.sleep(pause_s)

    def step(self) -> bool:
        """Look once; return whether anything moved."""
        seen = self._look()
        before = (len(self._open), len(self._running))
        cancelled = read_submitted(self.folder).cancelled
        for job in list(self._open.values()):
            self._consider(job, seen, by_us=cancelled)
        if seen is not None:
            self._care_for_services(seen)
            self._dismiss(seen)
            self._told().look(seen, list(self._open.values()), len(self.jobs), self.clock.utc())
            self._relay_standings(seen)
        self._end_groups()
        return before != (len(self._open), len(self._running))

    def wait_for_monitor(self) -> None:
        """Ask the monitor to end, and wait until it wrote out what it scraped; a lost one costs its last minute."""
        if not self.document.monitored:
            return
        ask_to_end(self.folder, MONITOR)
        monitor = next(one for one in self.document.batches if one.role == "monitor")
        until_s = time.monotonic() + _MONITOR_S
        while time.monotonic() < until_s:
            seen = self._look()
            if seen is not None and seen.is_over(monitor):
                return
            self.sleep(_LOOK_S)
        self.view.note(f"the monitor has not ended within {_MONITOR_S:g} s; what it wrote out until now is kept")

    def _relay_standings(self, seen: Seen) -> None:
        """Tell a server how the jobs stand; seldom, since how far each one is stands in a file of its own."""
        now_s = time.monotonic()
        if not isinstance(self.relay, NullReporter) and now_s - self._relayed_s >= _RELAY_S:
            self._relayed_s = now_s
            self.relay.stands(standings(seen, self._open.values(), self.clock.utc()))

    def _told(self) -> Shown:
        if self._shown is None:
            raise AssertionError("following begins with follow()")
        return self._shown

    def _look(self) -> Seen | None:
        try:
            states = self.scheduler.states(list(self.ids.values()))
        except MeasureError as problem:
            if problem.problem.code == _PATIENT:
                raise
            said = problem.problem
            self._told().once(said.message, f"{said.message}; the campaign goes on, waiting for Slurm")
            return None
        self._last = Seen(self.folder, self.document, self.ids, states)
        return self._last

    def _consider(self, job: Job, seen: Seen | None, *, by_us: bool) -> None:
        now_s = time.monotonic()
        state = seen.state_of(job) if seen is not None else None
        if has_result(self.folder, job):
            since_s = self._result_since.setdefault(job.index, now_s)
            if (seen is not None and (state is None or is_final(state.state))) or now_s - since_s > _LEAVING_S:
                self._collect(job, by_us=by_us, told=None)
            return
        if seen is None:
            return
        if state is not None and not is_final(state.state):
            self._final_since.pop(job.index, None)
            self._moved(job, state)
            return
        wrote = state is not None and state.exit_code in _WRITTEN and not state.signal and state.state in _BY_ITSELF
        if now_s - self._final_since.setdefault(job.index, now_s) > (_LAG_WRITTEN_S if wrote else _LAG_S):
            key = seen.key_of(job)
            self._collect(job, by_us=by_us, told=self._doomed.get(key) or seen.told_of(job))

    def _moved(self, job: Job, state: BatchState) -> None:
        """Note that a job began, was put back, or cannot begin."""
        waits = state.state in WAITING
        if not waits and job.index not in self._running:
            self._running.add(job.index)
            self.store.move_job(job.id, "start")
        elif waits and job.index in self._running:
            self._running.discard(job.index)
            self.store.move_job(job.id, "release")
            self._told().once(f"{state.key} {state.requeues}", f"the batch job {state.key} was put back into the queue")
        if waits:
            self._judge_waiting(state)

    def _judge_waiting(self, state: BatchState) -> None:
        """A job on hold waits for a person; one that can never run is taken out, and says why."""
        group = next((name for name, number in self.ids.items() if number == state.id), "")
        batch = next((one for one in self.document.batches if one.name == group), None)
        told = failure_of(state, batch.batch) if batch is not None else None
        if told is None:
            self._doomed.pop(state.key, None)
            return
        self._doomed[state.key] = told
        self._told().once(f"{told.code} {state.id} {state.reason}", f"{told.message}; {told.try_}")
        if told.code != "slurm-held":
            self.scheduler.cancel([state.key])

    def _collect(self, job: Job, *, by_us: bool, told: FailureReason | None) -> None:
        seen = self._last or Seen(self.folder, self.document, self.ids, {})
        ended = Ended(seen.state_of(job), told, seen.logs_of(job), seen.environment_of(job), by_us)
        result = collect(self.store, self.folder, job, ended, self.clock.utc())
        self._open.pop(job.index, None)
        self._running.discard(job.index)
        self.view.job_done(result)
        self.relay.ended(job.index)

    # Services

    def _care_for_services(self, seen: Seen) -> None:
        """A service whose batch job is gone, and that could not say so itself, must not be waited for."""
        for one in self.document.batches:
            if one.role != "service" or one.group in self._ended_groups or self.folder.stop(one.group).exists():
                continue
            for state in seen.of(one):
                if state.state in WAITING:
                    self._judge_waiting(state)
            told = self._doomed.get(self.ids.get(one.name, "")) or seen.told_of_service(one)
            there = self.folder.failed_service(one.group, one.service).is_file()
            if told is not None and seen.is_over(one) and not there:
                problem = Problem(
                    told.code, f"the service {one.service}: {told.message}", f"services.{one.service}", told.try_
                )
                publish_failure(self.folder, one.group, one.service, problem)

    def _end_groups(self) -> None:
        """Ask the services of a group to end once its jobs have: sooner than its batch job `end` may get a node."""
        for group in self.document.groups:
            if group.name in self._ended_groups or any(index in self._open for index in group.jobs):
                continue
            self._ended_groups.add(group.name)
            if group.services:
                ask_to_end(self.folder, group.name)
                self._ending.add(group.name)

    def _dismiss(self, seen: Seen) -> None:
        """Take a batch job `end` out of the queue where the services were seen to end without it."""
        for name in list(self._ending):
            if not all(seen.is_over(one) for one in self.document.services_of(name)):
                continue
            self._ending.discard(name)
            ends = [one for one in self.document.batches if one.role == "end" and one.group == name]
            self.scheduler.cancel(
                [self.ids[one.name] for one in ends if one.name in self.ids and not seen.is_over(one)]
            )
