"""The demo's campaigns through the store: enrolled, submitted, leased, delivered, watched, as a server does it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from assay.alert.evaluate import act
from assay.alert.ingest import follow_jobs, observe_job
from assay.alert.records import Trigger, record_of
from assay.analyse.judge import judge
from assay.analyse.records import MultiRunJobResult
from assay.clock import Clock
from assay.demo.machines import DemoMachine, enrolment
from assay.demo.runs import runs_of
from assay.demo.scenario import LABELS, STUDIES, CampaignEntry, Study, chance, cron_of, entries, fleet, moment, shares
from assay.demo.scene import Scene, environment, failed, log_lines
from assay.documents import to_json
from assay.errors import UsageError
from assay.place.fleet.protocol import Heartbeat, Held, Progress, Submission
from assay.plan.job import Job
from assay.plan.plan import Plan, make_plan
from assay.report.wording import failure_sentence, label_of
from assay.run.records import Failure, RunOutcome
from assay.series.repository import SeriesStore
from assay.sim.history import SimulatedClock
from assay.spec.load import load
from assay.spec.schedule import Schedule
from assay.store.alerts import AlertFilter, Alerts
from assay.store.artefacts import left_by, note_left
from assay.store.catalogue import Catalogue, Draft
from assay.store.control import Control
from assay.store.database import writing
from assay.store.notices import Notices
from assay.store.prices import Prices
from assay.store.records import AgentRecord, FleetSettings
from assay.store.schedules import FiringRecord, Firings, Schedules
from assay.store.series_file import FilePoint
from assay.store.store import Store

_LOST = "the chat answered 503: try again later"
# What happens to the alerts that are open at the end, the newest first.
_DEALT_WITH: tuple[tuple[Trigger, str, str], ...] = (
    ("acknowledge", "alice", "the tokenizer is called twice: a fix is on its way"),
    ("snooze", "bob", "after the release"),
    ("expect", "carol", "the filter has to be applied twice, since rights may differ"),
)
_IMPORTED = "demo nightly build"
AWAY = frozenset({"demo-pi-03", "demo-laptop-02"})
RESTS = "demo-xeon-02"
_SILENT_S = 600.0
_SERVER = "demo-server:1"
_BETWEEN_RUNS_S = 1.5
# How long a lost attempt takes until its job goes out again: the lease runs out, then a wait.
_LEASE_S = 90.0
_WAIT_S = 30.0
# Campaigns that are under way at the end: study, and how many minutes ago it was submitted.
_UNDER_WAY = ((STUDIES[1], 20), (STUDIES[0], 9), (STUDIES[3], 5))
# Samples and files are kept of what is younger, as a share of the whole time.
_KEPT_SINCE = 0.88
_OUT_OF_MEMORY = Failure(
    "out-of-memory",
    "the process was killed: it used more memory than there is",
    phase="load",
    exit_code=-9,
    signal="SIGKILL",
    memory_mb=7921.0,
    log_tail=("loading weights", "allocating 6.2 GiB for the workspace", "Killed"),
    try_="take a smaller batch, or a machine with more memory",
)
_LOST_DEVICE = Failure(
    "target",
    "the service ended before it was ready: CUDA error: device-side assert triggered",
    phase="load",
    exit_code=1,
    log_tail=("INFO starting engine", "ERROR CUDA error: device-side assert triggered"),
    try_="look at the log of the service",
)


def notify_channels(store: Store, clock: Clock) -> None:
    """Let every channel take what waits for it; now and then one fails at first."""
    notices = Notices(store.engine, clock)
    for channel in notices.due():
        while (taken := notices.take(channel)) is not None:
            notices.sent(taken, _LOST if taken.id % 9 == 0 else "")


def deal_with(store: Store, clock: Clock) -> None:
    """Do with some open alerts what people do."""
    alerts = [record_of(row) for row in Alerts(store.engine).page(AlertFilter(states=("open",)), limit=50).items]
    for (what, by, why), alert in zip(_DEALT_WITH, alerts[1:], strict=False):
        until = (clock.utc() + timedelta(days=3)).timestamp() if what == "snooze" else None
        try:
            act(store, alert.id, what, by=by, why=why, until=until, clock=clock)
        except UsageError:  # one that has no level to stay at cannot be expected
            act(store, alert.id, "acknowledge", by=by, why=why, clock=clock)


def import_series(store: Store, clock: Clock, days: int, seed: int) -> None:
    """Points as another tool would have written them day after day; they are not results of assay."""
    series, draw, now = SeriesStore(store, clock), chance(seed, _IMPORTED), clock.utc()
    points = []
    for day in range(days):
        level = 14.2 * (1.08 if day > 0.7 * days else 1.0)
        at = (now - timedelta(days=days - day)).timestamp()
        points.append(FilePoint(f"{_IMPORTED}, minutes", at, float(level * (1 + 0.03 * draw.normal())), "lower", "min"))
    series.check(series.take(points).series)


@dataclass(frozen=True, slots=True)
class DemoSize:
    """How much demo data there is to be."""

    campaigns: int = 200
    agents: int = 20
    days: int = 365
    results: int | None = None
    """At least this many results; those of the campaigns when left out."""
    seed: int = 2026
    now: datetime = field(default_factory=lambda: datetime.now(UTC))


class Player:
    """Plays campaigns into a store, one after another."""

    def __init__(self, store: Store, settings: DemoSize) -> None:
        self.store, self.settings = store, settings
        self.clock = SimulatedClock(settings.now - timedelta(days=settings.days + 1))
        self.control = Control(store.engine, self.clock, seed=settings.seed)
        self.machines: Mapping[str, DemoMachine] = fleet(settings.agents)
        self.agents: dict[str, AgentRecord] = {}
        self._schedules: dict[str, str] = {}
        self._stored: dict[str, int | None] = {}
        self._event = 0
        self.jobs = 0

    def play(self, notify: Callable[[int, int], None] = lambda _done, _of: None) -> int:
        """Play everything; return how many jobs there were."""
        settings = self.settings
        planned = entries(settings.campaigns, settings.days, settings.now, settings.seed)
        self.enrol()
        with tempfile.TemporaryDirectory() as folder:
            for number, entry in enumerate(planned):
                self.campaign(entry, Path(folder))
                notify(number + 1, len(planned))
            self._unfinished(Path(folder))
        self.clock.at = settings.now
        import_series(self.store, self.clock, settings.days, settings.seed)
        deal_with(self.store, self.clock)
        notify_channels(self.store, self.clock)
        self._beat()
        return self.jobs

    def campaign(self, entry: CampaignEntry, scratch: Path) -> str:
        """Play one campaign as far as it gets by now; return its id."""
        self.clock.at = entry.at
        plan = self.submit(entry)
        campaign, began = plan.jobs[0].campaign, entry.at
        ended = began
        free: dict[str, datetime] = {}
        for job in plan.jobs:
            if entry.ends == "cancelled" and job.index >= len(plan.jobs) // 2:
                continue
            machine = self.machines[job.definition.needs.agent or entry.study.host]
            self.clock.at = free.get(machine.name, began) + timedelta(seconds=4)
            if self.clock.at >= self.settings.now:
                continue
            self._measure(entry, job, machine, scratch)
            free[machine.name] = self.clock.at
            ended = max(ended, self.clock.at)
        self.clock.at = min(ended + timedelta(seconds=2), self.settings.now)
        if entry.ends == "cancelled":
            self.control.cancel_campaign(campaign, "no longer needed", by=entry.study.by)
        self.control.settle_campaigns()
        _, self._event = follow_jobs(self.store, None, self.clock, self._event)
        notify_channels(self.store, self.clock)
        return campaign

    def submit(self, entry: CampaignEntry) -> Plan:
        """Submit the campaign of an entry, as its author or its schedule does."""
        study = entry.study
        firing = self._firing(entry) if study.scheduled else None
        firings = Firings(self.store.engine, self.clock)
        settings = FleetSettings(
            submitted_by=study.by, origin="schedule" if firing else "", version=self._version(study)
        )
        also = (lambda session, campaign: firings.confirm(session, firing, campaign)) if firing else None
        return self._to_fleet(self._document(study), settings, also)

    def _to_fleet(
        self,
        document: dict[str, Any],
        settings: FleetSettings,
        also: Callable[[Session, str], None] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Plan:
        loaded = load(document)
        plan, labels = make_plan(loaded, lambda _definition: {}), labels or loaded.benchmark.labels
        return self.store.submit_to_fleet(
            plan, document, labels, self.clock, settings=settings, label_of=label_of, also=also
        )

    def scene(
        self, entry: CampaignEntry, job: Job, machine: DemoMachine, scratch: Path, at: datetime | None = None
    ) -> Scene:
        """What is around a job that begins at a moment; now when left out."""
        seed = self.settings.seed
        return Scene(
            job,
            moment(entry.study, machine, entry.age, seed),
            at or self.clock.at,
            chance(seed, entry.study.name, entry.number, job.index),
            scratch,
            rich=entry.age >= _KEPT_SINCE or entry.newest,
            busy=entry.ends == "busy",
        )

    # What has not ended

    def _unfinished(self, scratch: Path) -> None:
        """Campaigns that are under way, or wait for a machine."""
        for place, (study, minutes) in enumerate(_UNDER_WAY):
            at = self.settings.now - timedelta(minutes=minutes)
            by_hand = study.by_hand("alice")
            self.campaign(CampaignEntry(by_hand, at, "running", 1.0, 10_000 + place, newest=True), scratch)
        self.clock.at = self.settings.now - timedelta(hours=5)
        document = {**STUDIES[4].file, "needs": {"gpu_model": "B200"}}
        self._to_fleet(document, FleetSettings(submitted_by="bob"), labels=LABELS)

    def _leave(self, job: Job, fence: int, agent: AgentRecord, took_s: float) -> None:
        """Leave a job as far as it is by now, when it would end later."""
        runs = job.definition.measure.least_runs
        begun, share = divmod(runs * (self.settings.now - self.clock.at).total_seconds() / took_s, 1)
        run = int(begun)
        lines = (*(f"run {number + 1} ended" for number in range(run)), f"run {run + 1} of {runs} begins")
        self.clock.at = self.settings.now
        self.control.progress(job.id, fence, Progress(agent.id, run, runs, "measure", share, "measuring", lines))

    def _beat(self) -> None:
        """Let all agents say that they are there, but for those that are away, and one that is to rest."""
        for name, record in self.agents.items():
            if name not in AWAY:
                held = tuple(Held(job, 1) for job in self.control.agent(record.id).jobs)
                self.control.heartbeat(record.id, Heartbeat("busy" if held else "active", held))
            if name == RESTS:
                self.control.patch_agent(record.id, draining=True)
        self.control.mark_silent(_SILENT_S)

    # What one campaign is made of

    def enrol(self) -> None:
        """Make all machines known, and what those cost that are paid by the hour."""
        prices = Prices(self.store.engine, self.clock)
        for machine in self.machines.values():
            record, _ = self.control.enroll(enrolment(machine))
            self.agents[machine.name] = record
            if machine.price:
                prices.put(machine.name, machine.price, "USD", "", by="alice")

    def _document(self, study: Study) -> dict[str, Any]:
        """The file of a study, without the machines that this fleet does not have."""
        document = dict(study.pinned)
        if study.names_machines:
            there = [name for name in document["matrix"]["needs.agent"] if name in self.machines]
            document["matrix"] = {**document["matrix"], "needs.agent": there}
        return document

    def _version(self, study: Study) -> int | None:
        """The version of the stored benchmark that says the same; it is stored when it is first needed.

        None where another user stored something else under its name: that version stays as it is.
        """
        if study.name not in self._stored:
            catalogue, draft = Catalogue(self.store.engine, self.clock), Draft(self._document(study), by=study.by)
            try:
                there = catalogue.versions(study.name)
            except UsageError:  # not stored so far
                first = {**self._document(study), "description": "Simulated: a first sketch."}
                catalogue.create(study.name, Draft(first, by=study.by))
                there = (catalogue.change(study.name, draft),)
            self._stored[study.name] = next((entry.version for entry in there if entry.digest == draft.digest), None)
        return self._stored[study.name]

    def _firing(self, entry: CampaignEntry) -> FiringRecord | None:
        """The firing of a schedule that is due; the schedule is made when it is first needed."""
        study = entry.study
        if study.name not in self._schedules:
            before = SimulatedClock(entry.at - timedelta(minutes=1))
            count = shares(self.settings.campaigns)[study.name]
            schedule = Schedule(cron=cron_of(study, count, self.settings.days))
            submission = Submission(document=self._document(study))
            record, _ = Schedules(self.store.engine, before).keep(study.name, schedule, submission, study.by)
            self._schedules[study.name] = record.id
        taken = Firings(self.store.engine, self.clock).take_due(self._schedules[study.name], _SERVER)
        return taken[-1] if taken else None

    def _measure(self, entry: CampaignEntry, job: Job, machine: DemoMachine, scratch: Path) -> None:
        agent, fence = self.agents[machine.name], 1
        if entry.ends == "lost once" and job.index == 0 and self._is_past(_LEASE_S + _WAIT_S):
            self.control.claim(agent.id, job.id, 1)  # an attempt that ends with its agent gone
            self.clock.forward(_LEASE_S)
            self.control.expire()
            self.clock.forward(_WAIT_S)
            fence = 2
        lease = self.control.claim(agent.id, job.id, fence)
        if lease is None:
            return
        scene = self.scene(entry, job, machine, scratch)
        if entry.ends == "all failed" or (entry.ends == "one failed" and job.index == 1):
            failure = _LOST_DEVICE if entry.study.kind in ("llm", "search") else _OUT_OF_MEMORY
            runs = failed(scene, failure, {"prepare": 0.6, "load": 7.0})
        else:
            runs = runs_of(entry.study.kind, scene)
        took_s = lasted_s(runs)
        if not self._is_past(took_s):
            self._leave(job, fence, agent, took_s)
            return
        result = judge(job, runs, environment(scene))
        if scene.rich or result.error is not None:
            log = tuple(log_lines(scene, result))
            progress = Progress(agent.id, scene.runs - 1, scene.runs, "measure", 1.0, log=log)
            self.control.progress(job.id, fence, progress)
        self.clock.forward(took_s)
        self.deliver(job, fence, agent, result, runs)
        self.jobs += 1

    def _is_past(self, seconds: float) -> bool:
        """Whether what takes so long from here on has ended by now."""
        return self.clock.at + timedelta(seconds=seconds) <= self.settings.now

    def deliver(
        self, job: Job, fence: int, agent: AgentRecord, result: MultiRunJobResult, runs: list[RunOutcome]
    ) -> None:
        """Keep a result with its samples and files, and take it into its series."""
        stored_runs = (
            replace(
                run.result,
                samples=self.store.samples.write(run.samples) if run.files else None,
                files={name: self.store.artefacts.take(path) for name, path in run.files.items()},
            )
            for run in runs
        )
        result = replace(result, runs=tuple(stored_runs))
        failure = result.failure if result.state == "failed" else None
        taken = self.control.deliver(
            job.id,
            fence,
            agent.id,
            event="finish" if result.state == "done" else "fail",
            verdict=result.verdict,
            result=to_json(result),
            runs=result.runs,
            reason=failure_sentence(failure) if failure else "",
        )
        if taken != "accepted":
            return
        if left := left_by(result.runs):
            with writing(self.store.engine) as session:
                note_left(session, self.store.artefacts, job.id, fence, left)
        observe_job(self.store, job, result, self.clock)


def lasted_s(runs: Sequence[RunOutcome]) -> float:
    return sum(run.result.duration_seconds + _BETWEEN_RUNS_S for run in runs)
