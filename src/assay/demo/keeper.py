"""The demo fleet while it is served: agents send heartbeats, and jobs advance to their end.

Only campaigns of the demo are touched, never those of a real user.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from assay.analyse.judge import judge
from assay.clock import SYSTEM_CLOCK, Clock
from assay.demo.machines import DemoMachine
from assay.demo.player import AWAY, DemoSize, Player, lasted_s
from assay.demo.runs import runs_of
from assay.demo.scenario import LABELS, STUDIES, CampaignEntry, Study
from assay.demo.scene import environment
from assay.errors import UsageError
from assay.place.fleet.protocol import Heartbeat, Held, Progress
from assay.plan.job import Job
from assay.run.records import PHASES
from assay.store.listing import JobFilter, Listing
from assay.store.records import AgentRecord, JobSummary
from assay.store.store import Store

EVERY_S = 3.0
# Steps of a job that is simulated live, whatever its real length would be.
_STEPS = 24
_NEW_AFTER_S = 600.0
_STUDIES: Mapping[str, Study] = {study.name: study for study in STUDIES}


class Keeper:
    """Keeps the agents of a store with demo data alive, and its jobs running."""

    def __init__(self, store: Store, seed: int = 2026, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._player = Player(store, DemoSize(seed=seed, now=clock.utc()))
        self._listing = Listing(store.engine)
        self._control = self._player.control
        self._number = 20_000
        self._submitted = 0
        self._begun_s = clock.monotonic_s()

    def run(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            while True:
                self.step(Path(folder))
                time.sleep(EVERY_S)

    def step(self, scratch: Path) -> None:
        """One beat of every agent, and one step of every job that one of them holds."""
        self._player.clock.at = self._clock.utc()
        try:
            busy = self._beat(scratch) + self._take()
        except UsageError as error:
            if not error.problem.code.startswith("unknown-"):
                raise
            return  # an agent or a campaign was removed in between: the next step sees what is there
        self._control.settle_campaigns()
        if not busy and self._clock.monotonic_s() - self._begun_s > _NEW_AFTER_S:
            self._submit()

    def _beat(self, scratch: Path) -> int:
        """Send every agent's heartbeat and continue its jobs; return how many they hold."""
        there = [
            record for record in self._control.agents() if record.name not in AWAY and _is_demo(record.profile.labels)
        ]
        self._player.agents = {agent.name: agent for agent in there}
        held = [(agent, self._listing.job(job)) for agent in there for job in agent.jobs]
        leases: dict[str, list[Held]] = {agent.id: [] for agent in there}
        for agent, held_job in held:
            leases[agent.id].append(Held(held_job.summary.id, held_job.summary.fence))
        self._control.heartbeats(
            [(agent, Heartbeat("busy" if jobs else "active", tuple(jobs))) for agent, jobs in leases.items()]
        )
        for agent, held_job in held:
            self._go_on(agent, held_job.job, held_job.summary, scratch)
        return len(held)

    def _go_on(self, agent: AgentRecord, job: Job, summary: JobSummary, scratch: Path) -> None:
        """Move a job one step, or end it with a result."""
        progress = dict(summary.progress or {})
        runs = job.definition.measure.least_runs
        step = 1 + round(_STEPS * (_number(progress.get("run")) + _number(progress.get("share"))) / runs)
        if step < _STEPS:
            run, share = divmod(step * runs / _STEPS, 1)
            phase = PHASES[min(int(share * len(PHASES)), len(PHASES) - 1)]
            line = f"run {int(run) + 1} of {runs}: {phase} (simulated)"
            told_now = Progress(agent.id, int(run), runs, phase, share, line, (line,))
            self._control.progress(job.id, summary.fence, told_now)
            return
        study, machine = _STUDIES.get(job.benchmark), self._player.machines.get(agent.name)
        if study is not None and machine is not None:
            self._end(agent, job, summary.fence, study, machine, scratch)

    def _end(self, agent: AgentRecord, job: Job, fence: int, study: Study, machine: DemoMachine, scratch: Path) -> None:
        """End a job with a result whose runs end now, whatever durations they record."""
        entry = CampaignEntry(study, self._player.clock.at, "running", 1.0, self._number, newest=True)
        self._number += 1
        drawn = runs_of(study.kind, self._player.scene(entry, job, machine, scratch))
        begun = self._player.clock.at - timedelta(seconds=lasted_s(drawn))
        scene = self._player.scene(entry, job, machine, scratch, begun)  # the same chance: the same runs, earlier
        outcomes = runs_of(study.kind, scene)
        self._player.deliver(job, fence, agent, judge(job, outcomes, environment(scene)), outcomes)

    def _take(self) -> int:
        """Give waiting jobs of the demo to the agents that they are for; return how many there are."""
        waiting = 0
        for summary in self._listing.jobs(JobFilter(state="pending"), limit=200).items:
            job = self._listing.job(summary.id).job
            agent = self._player.agents.get(job.definition.needs.agent or "")
            if agent is not None and _is_demo(job.labels) and job.benchmark in _STUDIES:
                self._control.claim(agent.id, job.id, summary.fence + 1)
                waiting += 1
        return waiting

    def _submit(self) -> None:
        """Begin another campaign, so that there is something to watch."""
        ready = [study for study in STUDIES if study.machines <= self._player.agents.keys()]
        self._begun_s = self._clock.monotonic_s()
        if not ready:
            return
        study = ready[self._submitted % len(ready)].by_hand("alice")
        entry = CampaignEntry(study, self._player.clock.at, "running", 1.0, self._number, newest=True)
        self._number, self._submitted = self._number + 1, self._submitted + 1
        self._player.submit(entry)


def _is_demo(labels: Mapping[str, str]) -> bool:
    return labels.get("demo") == LABELS["demo"]


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
