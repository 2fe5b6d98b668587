"""Two jobs measured in turn: blocks of four runs, each a fresh process and kept the moment it ends, on held devices.

An experiment that stopped can be continued.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from pydantic import JsonValue

from assay.analyse.ab import ORDERS, MetricSelection, Order, Pair, RunReading, pairs_of, reading_of
from assay.analyse.judge import judge
from assay.analyse.records import MultiRunJobResult
from assay.clock import SYSTEM_CLOCK, Clock
from assay.documents import to_json
from assay.errors import AssayError
from assay.exec.machine import require_needs, surroundings
from assay.hardware.environment import UsageSample, environment, machine_state
from assay.hardware.fitness.lock import HeldLock, device_lock, mode_from
from assay.hardware.fitness.session import Fitness, occupied
from assay.place.needs import device_of
from assay.plan.job import Job, content_hash
from assay.plan.plan import Plan, refuse_parts_in_turn, refuse_unsupported
from assay.report.live import SilentView, View
from assay.run.capabilities import profile_for
from assay.run.execute import execute_job
from assay.run.inputs import plan_of
from assay.run.records import RunOutcome, SingleRunResult
from assay.run.scratch import sweep_abandoned
from assay.spec.load import Loaded
from assay.store.listing import Listing, every
from assay.store.location import cache_folder, store_folder
from assay.store.records import CampaignSummary
from assay.store.store import Store


@dataclass(slots=True)
class ExperimentSession:
    store: Store
    view: View
    clock: Clock
    held: HeldLock
    fitness: Fitness
    control: bool
    usage: UsageSample = field(default_factory=UsageSample)


@contextmanager
def experiment_session(
    jobs: Sequence[Job],
    purpose: str,
    *,
    store: str | Path | None = None,
    view: View | None = None,
    clock: Clock = SYSTEM_CLOCK,
    lock: str | None = None,
    control: bool = True,
) -> Iterator[ExperimentSession]:
    """Hold the devices of some jobs and the store while experiments with them run."""
    mode, view = mode_from(lock), view or SilentView()
    sweep_abandoned()
    open_store = Store(store_folder(store))
    try:
        devices = {device for job in jobs for device in occupied(job)}
        with device_lock(devices, purpose, mode, view.waiting) as held:
            yield ExperimentSession(open_store, view, clock, held, Fitness(cache_folder()), control)
    finally:
        view.close()
        open_store.close()


def machine_states(jobs: Sequence[Job], session: ExperimentSession, *, before: bool) -> list[dict[str, JsonValue]]:
    """The environment of each job before its runs, or the state after them; the machine is read once for both."""
    state = machine_state(session.usage if before else None)
    read = session.fitness.before if before else session.fitness.after
    readings: dict[tuple[str | None, bool], dict[str, JsonValue]] = {}
    states: list[dict[str, JsonValue]] = []
    for job in jobs:
        asked_for = (device_of(job), session.control and job.definition.measure.control)
        if asked_for not in readings:
            readings[asked_for] = read(*asked_for)
        whole: dict[str, JsonValue] = {**state, "fitness": readings[asked_for]}
        states.append(
            environment(Path(job.base)) | {"lock": session.held.record(), "before": whole} if before else whole
        )
    session.usage = UsageSample()
    return states


@dataclass(slots=True)
class _Side:
    """One side of the current part: its job under a campaign's name, and its runs."""

    job: Job
    results: list[SingleRunResult]
    readings: list[RunReading]
    facts: dict[str, JsonValue]
    seconds: float = 0.0


class Experiment:
    """Two jobs measured a block at a time; a context, so that what was measured is kept whatever happens."""

    def __init__(
        self,
        pair: JobPair,
        session: ExperimentSession,
        *,
        seed: int | None = None,
        labels: Mapping[str, str] | None = None,
        fresh: bool = False,
        parts: Sequence[ExperimentPart] = (),
        planned: int = 0,
        planned_pairs: int | None = None,
    ) -> None:
        """What to measure; nothing is begun yet.

        Args:
            planned: runs that are expected, for the view.
            planned_pairs: the pairs that the evidence is planned for; None for an open-ended experiment.
        """
        self.pair, self.session = pair, session
        self.name = parts[0].name if parts else f"ab{secrets.token_hex(5)}"
        self.seed = parts[0].seed if parts else secrets.randbits(32) if seed is None else seed
        self.before = tuple(parts)
        self.resumed = False
        self.planned = planned
        self.planned_pairs = planned_pairs
        self.results: tuple[MultiRunJobResult, MultiRunJobResult] | None = None
        """What was concluded about the jobs of the last part, once it is over."""
        self._more = dict(labels or {})
        self._fresh = fresh
        self._number = max((part.number for part in parts), default=-1) + 1
        self._sides: tuple[_Side, _Side] | None = None

    def __enter__(self) -> Experiment:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._close()
        else:
            self._interrupted()

    @property
    def parts(self) -> tuple[ExperimentPart, ...]:
        """All that was measured, the current part last."""
        if self._sides is None:
            return self.before
        a, b = self._sides
        campaigns = (a.job.campaign, b.job.campaign)
        return (*self.before, ExperimentPart(self._number, self.name, self.seed, campaigns, (a.readings, b.readings)))

    @property
    def readings(self) -> tuple[tuple[RunReading, ...], tuple[RunReading, ...]]:
        a, b = (tuple(run for part in self.parts for run in part.readings[side]) for side in (0, 1))
        return a, b

    def pairs(self, wanted: MetricSelection) -> tuple[Pair, ...]:
        return pairs_in(self.parts, wanted)

    def begin(self) -> tuple[_Side, _Side]:
        """Make sure that the two campaigns are there: those that were interrupted, or new ones."""
        if self._sides is None:
            self._sides = self._open()
        return self._sides

    def block(self) -> bool:
        """Measure one more block, or the rest of one; False where a side would only repeat its failure."""
        sides = self.begin()
        done = sum(len(side.readings) for side in sides)
        if done >= BLOCKS_OF_A_PART * BLOCK:
            self._close()
            self.before, self._sides = self.parts, None
            self._number += 1
            return self.block()
        number, begun = divmod(done, BLOCK)
        order = order_of(self.seed, self._number, number)
        return all(self._measure(sides["AB".index(letter)]) for letter in order[begun:])

    def _measure(self, side: _Side) -> bool:
        """One run of one side; False where it would only repeat a failure."""
        before = len(side.readings)
        start_s = self.session.clock.monotonic_s()
        # One more run; the digest of the job stays, since only their number differs.
        measure = side.job.definition.measure.model_copy(update={"runs": before + 1})

        def keep(outcome: RunOutcome) -> None:
            side.results.append(self.session.store.keep_run(side.job.id, outcome))
            side.readings.append(reading_of(side.job, outcome))

        execute_job(
            replace(side.job, definition=side.job.definition.model_copy(update={"measure": measure})),
            cache=cache_folder(),
            clock=self.session.clock,
            watch=_Watch(self.session.view, self._made, self.planned),
            keep=keep,
            before=side.results,
        )
        side.seconds += self.session.clock.monotonic_s() - start_s
        return len(side.readings) > before

    def _made(self) -> int:
        return sum(map(len, self.readings))

    def _open(self) -> tuple[_Side, _Side]:
        here = surroundings()
        plans = [
            replace(plan, digest=self.pair.digest(side, self._more))
            for plan, side in zip(self.pair.plans, SIDES, strict=True)
        ]
        if (taken := self._take_over(plans, here)) is None:
            submitted = [self._create(index, plan, here) for index, plan in enumerate(plans)]
        else:
            submitted = [plan.submitted_as(campaign) for plan, campaign in zip(plans, taken, strict=True)]
        jobs = [plan.jobs[0] for plan in submitted]
        a, b = map(self._side, jobs, machine_states(jobs, self.session, before=True))
        return a, b

    def _create(self, index: int, plan: Plan, here: str) -> Plan:
        tie = {
            EXPERIMENT: self.name,
            SIDE: SIDES[index],
            NAME: self.pair.names[index],
            PART: str(self._number),
            SEED: str(self.seed),
            PLACE: here[:12],
        }
        if self.planned_pairs is not None:
            tie[PLANNED] = str(self.planned_pairs)
        labels = {**self.pair.labels[index], **self._more, **tie}
        return self.session.store.create_campaign(plan, self.pair.documents[index], labels, here, self.session.clock)

    def _side(self, job: Job, facts: dict[str, JsonValue]) -> _Side:
        self.session.store.move_job(job.id, "start")
        outcomes = self.session.store.outcomes(job.id)
        results = [run_outcome.result for run_outcome in outcomes]
        readings = [reading_of(job, outcome) for outcome in outcomes]
        return _Side(job, results, readings, facts, sum(result.duration_seconds for result in results))

    def _take_over(self, plans: Sequence[Plan], here: str) -> tuple[str, str] | None:
        """The two campaigns of an interrupted experiment of the same jobs, if both are there."""
        store = self.session.store
        if self._fresh:
            for plan in plans:
                store.abandon_interrupted(plan.digest)
            return None
        a, b = (store.take_over_interrupted(plan.digest, here) for plan in plans)
        campaigns = [campaign for campaign in (a, b) if campaign is not None]
        labels = [store.campaign(campaign)[0].labels for campaign in campaigns]
        same = len({label_set[EXPERIMENT] for label_set in labels} | {self.name for _ in self.before[:1]}) == 1
        if a is not None and b is not None and same:
            self.name, self.seed, self._number = labels[0][EXPERIMENT], int(labels[0][SEED]), int(labels[0][PART])
            # The looks stay those that were planned when it began.
            self.planned_pairs = planned_pairs_in(labels[0])
            parts = parts_of(store, {EXPERIMENT: self.name})
            self.before = tuple(part for part in parts if part.campaigns != (a, b))
            self.resumed = True
            return a, b
        for campaign in campaigns:  # of another experiment, or half of one: its runs stay
            store.end_campaign(
                campaign, "interrupted" if len(campaigns) == len(plans) else "cancelled", self.session.clock
            )
        return None

    def _close(self) -> None:
        """Judge both jobs by the runs that they have, and end their campaigns."""
        if self._sides is None:
            return
        a, b = self._sides
        after = machine_states([a.job, b.job], self.session, before=False)
        self.results = (self._judged(a, after[0]), self._judged(b, after[1]))

    def _judged(self, side: _Side, after: dict[str, JsonValue]) -> MultiRunJobResult:
        store = self.session.store
        outcomes = store.outcomes(side.job.id)
        result = judge(side.job, outcomes, {**side.facts, "after": after}, planned_runs=len(outcomes))
        # Planning this file estimates from it how long a job takes, with the runs that the file asks for.
        seconds = side.seconds / max(len(outcomes), 1) * side.job.definition.measure.least_runs
        done = result.state == "done"
        store.end_job(
            side.job.id, "finish" if done else "fail", verdict=result.verdict, result=to_json(result), seconds=seconds
        )
        store.end_campaign(side.job.campaign, "done" if done else "failed", self.session.clock)
        return result

    def _interrupted(self) -> None:
        """Mark the experiment as one to continue later; if the store itself failed, nothing can be kept."""
        if self._sides is None:
            return
        try:
            for side in self._sides:
                self.session.store.end_campaign(side.job.campaign, "interrupted", self.session.clock)
        except AssayError:
            return
        self.session.view.note(f"{self.name} is interrupted; the same command continues it")


class _Watch:
    def __init__(self, view: View, made: Callable[[], int], planned: int) -> None:
        self._view, self._made, self._planned = view, made, planned

    def run(self, run_id: int, of: int) -> None:  # noqa: ARG002  (counted over both sides)
        self._view.run(self._made(), max(self._planned, self._made() + 1))

    def phase(self, name: str) -> None:
        self._view.phase(name)

    def progress(self, share: float, note: str) -> None:
        self._view.progress(share, note)

    def log(self, lines: Sequence[str]) -> None:
        self._view.log(lines)

    def run_done(self, result: SingleRunResult) -> None:
        self._view.run_done(replace(result, run_id=self._made() - 1))


SIDES = ("a", "b")
BLOCK = 4
PAIRS_OF_A_BLOCK = BLOCK // 2
# A job has at most a hundred runs; later ones are kept in two further campaigns.
BLOCKS_OF_A_PART = 50
# Labels that tie the campaigns of one experiment together.
EXPERIMENT, SIDE, NAME, PART, SEED, PLACE = "ab", "ab_side", "ab_name", "ab_part", "ab_seed", "ab_place"
# The pairs that were planned; an open-ended experiment has no such label.
PLANNED = "ab_planned"
TIES = (EXPERIMENT, SIDE, NAME, PART, SEED, PLACE, PLANNED)


@dataclass(frozen=True, slots=True)
class JobPair:
    """Two jobs that are measured in turn."""

    plans: tuple[Plan, Plan]
    """Each with one job."""
    documents: tuple[Mapping[str, Any], Mapping[str, Any]]
    """The benchmark files, as they were read."""
    labels: tuple[Mapping[str, str], Mapping[str, str]]
    names: tuple[str, str]
    """What the sides are called, for people."""

    @property
    def jobs(self) -> tuple[Job, Job]:
        return self.plans[0].jobs[0], self.plans[1].jobs[0]

    def digest(self, side: str, more: Mapping[str, str]) -> str:
        """What the campaign of an interrupted experiment must share to be continued."""
        jobs = [[job.benchmark, job.digest] for job in self.jobs]
        return content_hash(["in turn", jobs, sorted(more.items()), side])


def job_pair(sides: Sequence[Loaded], names: Sequence[str], numbers: Sequence[int] = (0, 0)) -> JobPair:
    for side in sides:
        refuse_unsupported(side.benchmark)
    plans = [plan_of(side) for side in sides]
    for plan in plans:
        refuse_parts_in_turn(plan.jobs)
    jobs = [replace(plan.jobs[number], index=0) for plan, number in zip(plans, numbers, strict=True)]
    profile = profile_for(jobs)
    for job in jobs:
        require_needs(job, profile)
    a, b = (Plan(job.benchmark, job.digest, (job,)) for job in jobs)
    first, second = sides
    return JobPair(
        (a, b),
        (first.source.document, second.source.document),
        (first.benchmark.labels, second.benchmark.labels),
        (names[0], names[1]),
    )


@dataclass(frozen=True, slots=True)
class ExperimentPart:
    """Runs of both sides that are kept in two campaigns."""

    number: int
    name: str
    """Of the experiment."""
    seed: int
    campaigns: tuple[str, str]
    readings: tuple[Sequence[RunReading], Sequence[RunReading]]
    labels: Mapping[str, str] = field(default_factory=dict)
    """Of its first campaign."""


def order_of(seed: int, part: int, block: int) -> Order:
    """The order of a block: one throw of a fair coin, the same again for the same seed."""
    return ORDERS[Random(f"{seed}/{part}/{block}").getrandbits(1)]  # noqa: S311  (a lot, no secret)


def planned_pairs_in(labels: Mapping[str, str]) -> int | None:
    """How many pairs an experiment was planned with; None for an open-ended one."""
    return int(labels[PLANNED]) if PLANNED in labels else None


def pairs_in(parts: Sequence[ExperimentPart], wanted: MetricSelection) -> tuple[Pair, ...]:
    """All pairs of an experiment, in the order in which they were measured."""
    pairs: list[Pair] = []
    blocks = 0
    for part in parts:
        a, b = part.readings
        here = -(-min(len(a), len(b)) // PAIRS_OF_A_BLOCK)
        orders = [order_of(part.seed, part.number, block) for block in range(here)]
        pairs += pairs_of(a, b, orders, wanted, block=blocks)
        blocks += here
    return tuple(pairs)


def parts_of(store: Store, labels: Mapping[str, str]) -> tuple[ExperimentPart, ...]:
    """What is kept of the experiments that carry these labels, the oldest first, whether they ended or not."""
    by_part: dict[tuple[str, int], dict[str, CampaignSummary]] = {}
    for summary in _campaigns(store, labels):
        if summary.labels.get(SIDE) in SIDES:
            by_part.setdefault((summary.labels[EXPERIMENT], int(summary.labels[PART])), {})[summary.labels[SIDE]] = (
                summary
            )
    whole = {key: sides for key, sides in by_part.items() if set(sides) == set(SIDES)}
    oldest_first = sorted(whole.items(), key=lambda item: (item[1]["a"].created_at, item[0]))
    return tuple(
        ExperimentPart(
            number,
            name,
            int(sides["a"].labels[SEED]),
            (sides["a"].id, sides["b"].id),
            (_readings(store, sides["a"].id), _readings(store, sides["b"].id)),
            sides["a"].labels,
        )
        for (name, number), sides in oldest_first
    )


def _campaigns(store: Store, labels: Mapping[str, str]) -> Iterator[CampaignSummary]:
    listing, text = Listing(store.engine), next(iter(labels.values()))
    for summary in every(lambda cursor, size: listing.campaigns(text=text, cursor=cursor, limit=size)):
        if all(summary.labels.get(name) == labels[name] for name in labels):
            yield summary


def _readings(store: Store, campaign: str) -> list[RunReading]:
    _, (stored,) = store.campaign(campaign)
    return [reading_of(stored.job, outcome) for outcome in store.outcomes(stored.job.id)]
