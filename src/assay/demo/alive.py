"""The demo fleet while somebody looks: agents say that they are there, and jobs go on to their end.

Only campaigns of the demo are touched, never those of a real user.
"""

from __future__ import annotations

import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from assay.analyse.judge import judge
from assay.clock import SYSTEM_CLOCK
from assay.demo.calendar import Entry
from assay.demo.playing import AWAY, Player, Settings
from assay.demo.runs import RUNS
from assay.demo.scene import environment
from assay.demo.studies import LABELS, STUDIES
from assay.place.engines.fleet.protocol import Heartbeat, Held, Progress
from assay.plan.job import Job
from assay.run.records import PHASES
from assay.store.listing import JobFilter, Listing
from assay.store.records import AgentRecord, JobSummary
from assay.store.store import Store

EVERY_S = 3.0
# Steps of a job that is simulated live, whatever its real length would be.
_STEPS = 24
_NEW_AFTER_S = 600.0


class Keeper:
    """Keeps the agents of a demo store alive, and lets its jobs go on.

    Args:
        store: a store that was filled with demo data.
        seed: of the numbers that are drawn.
    """

    def __init__(self, store: Store, seed: int = 2026) -> None:
        self._player = Player(store, Settings(seed=seed))
        self._player.clock.at = datetime.now(UTC)
        self._listing = Listing(store.engine)
        self._control = self._player.control
        self._number = 20_000
        self._begun_s = time.monotonic()

    def run(self) -> None:
        """Go on until it is interrupted."""
        with tempfile.TemporaryDirectory() as folder:
            while True:
                self.step(Path(folder))
                time.sleep(EVERY_S)

    def step(self, scratch: Path) -> None:
        """One beat of every agent, and one step of every job that one of them holds."""
        self._player.clock.at = SYSTEM_CLOCK.utc()
        held = 0
        for agent in self._control.agents():
            if agent.name in AWAY or agent.profile.labels.get("demo") != LABELS["demo"]:
                continue
            self._player.agents[agent.name] = agent
            jobs = [self._listing.job(one) for one in agent.jobs]
            leases = tuple(Held(one.summary.id, one.summary.fence) for one in jobs)
            self._control.heartbeat(agent.id, Heartbeat("busy" if leases else "active", leases))
            for one in jobs:
                self._go_on(agent, one.job, one.summary, scratch)
            held += len(jobs)
        held += self._take()
        self._control.settle_campaigns()
        if not held and time.monotonic() - self._begun_s > _NEW_AFTER_S:
            self._submit()

    def _go_on(self, agent: AgentRecord, job: Job, summary: JobSummary, scratch: Path) -> None:
        """Move a job one step, or end it with a result."""
        told = dict(summary.progress or {})
        runs = job.definition.measure.runs
        step = 1 + round(_STEPS * (_number(told.get("run")) + _number(told.get("share"))) / runs)
        if step < _STEPS:
            run, share = divmod(step * runs / _STEPS, 1)
            phase = PHASES[min(int(share * len(PHASES)), len(PHASES) - 1)]
            line = f"run {int(run) + 1} of {runs}: {phase} (simulated)"
            told_now = Progress(agent.id, int(run), runs, phase, share, line, (line,))
            self._control.progress(job.id, summary.fence, told_now)
            return
        study = next((one for one in STUDIES if one.name == job.benchmark), None)
        if study is None:
            return
        machine = self._player.machines.get(agent.name)
        if machine is None:
            return
        entry = Entry(study, self._player.clock.at, "running", 1.0, self._number, newest=True)
        self._number += 1
        scene = self._player.scene(entry, job, machine, scratch)
        outcomes = list(RUNS[study.kind](scene))
        self._player.deliver(job, summary.fence, agent, judge(job, outcomes, environment(scene)), outcomes)

    def _take(self) -> int:
        """Give waiting jobs of the demo to the agents that they are for; return how many were taken."""
        taken = 0
        for summary in self._listing.jobs(JobFilter(state="pending"), limit=200).items:
            job = self._listing.job(summary.id).job
            agent = self._player.agents.get(job.definition.needs.agent or "")
            if agent is not None and job.labels.get("demo") == LABELS["demo"]:
                taken += self._control.claim(agent.id, job.id, summary.fence + 1) is not None
        return taken

    def _submit(self) -> None:
        """Begin another campaign, so that there is something to watch."""
        from dataclasses import replace

        self._begun_s = time.monotonic()
        study = replace(STUDIES[self._number % len(STUDIES)], scheduled=False, by="alice")
        entry = Entry(study, self._player.clock.at, "running", 1.0, self._number, newest=True)
        self._number += 1
        self._player.submit(entry)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
