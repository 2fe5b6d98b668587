"""A against B on this machine: runs in turn until the difference is clear, or until the budget is spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from assay.analyse.ab import ABDecision, MetricSelection, PairPlan, RunReading, decide, headline_in
from assay.analyse.ab.decision import order_note
from assay.analyse.ab.pairs import direction_in
from assay.analyse.records import MultiRunJobResult
from assay.analyse.text import listed, percent
from assay.clock import SYSTEM_CLOCK, Clock
from assay.errors import UsageError
from assay.exec.machine import surroundings
from assay.experiments.interleave import (
    EXPERIMENT,
    NAME,
    PAIRS_OF_A_BLOCK,
    PLACE,
    TIES,
    Experiment,
    ExperimentPart,
    JobPair,
    experiment_session,
    parts_of,
    planned_pairs_in,
)
from assay.plan.job import Job, digest_of
from assay.plan.plan import Plan
from assay.report.live import SilentView, View
from assay.run.inputs import fingerprints
from assay.store.listing import Listing
from assay.store.location import store_folder
from assay.store.store import Store

Stopped = Literal["told", "pairs", "time", "failed"]


@dataclass(frozen=True, slots=True)
class ABQuestion:
    """What is asked about two sides."""

    wanted: MetricSelection | None = None
    """The number that decides; the first headline metric when left out."""
    smallest: float = 0.01
    """The smallest relative difference of interest."""


@dataclass(frozen=True, slots=True)
class ABBudget:
    """How much may be measured, and whether more may follow."""

    pairs: int = 40
    seconds: float | None = None
    open_ended: bool = False
    """Look after every block and allow more pairs later, instead of a few looks planned for these pairs."""


@dataclass(frozen=True, slots=True)
class ABResult:
    """What came of an experiment."""

    name: str
    """Of the experiment; the label `ab` of its campaigns."""
    seed: int
    sides: tuple[str, str]
    decision: ABDecision
    """About the metric that decides."""
    others: tuple[ABDecision, ...]
    """About the other headline metrics; each has its own chance of one in twenty."""
    parts: tuple[ExperimentPart, ...]
    results: tuple[MultiRunJobResult, MultiRunJobResult] | None
    """The jobs of the last part; None where nothing had to be measured."""
    order: str
    """Whether run order matters; empty where it does not show."""
    looks: tuple[int, ...]
    """After how many pairs a look was planned; empty for an open-ended experiment."""
    stopped: Stopped
    seconds: float
    """How long this took, this time."""


def run_ab(
    pair: JobPair,
    question: ABQuestion,
    budget: ABBudget,
    *,
    store: str | Path | None = None,
    view: View | None = None,
    clock: Clock = SYSTEM_CLOCK,
    lock: str | None = None,
    control: bool = True,
    seed: int | None = None,
    fresh: bool = False,
    parts: Sequence[ExperimentPart] = (),
) -> ABResult:
    """Measure two jobs in turn until their difference is clear or the budget is spent.

    Args:
        seed: decides the order of runs; drawn at random when left out, and kept.
    """
    view = view or SilentView()
    names = " against ".join(pair.names)
    pairs_so_far = sum(min(map(len, part.readings)) for part in parts)
    # Blocks are measured whole.
    most = pairs_so_far + -(-budget.pairs // PAIRS_OF_A_BLOCK) * PAIRS_OF_A_BLOCK
    began_s = clock.monotonic_s()
    with experiment_session(
        pair.jobs, names, store=store, view=view, clock=clock, lock=lock, control=control
    ) as session:
        with Experiment(
            pair,
            session,
            seed=seed,
            fresh=fresh,
            parts=parts,
            planned=most * PAIRS_OF_A_BLOCK,
            planned_pairs=None if budget.open_ended or parts else most,
        ) as experiment:
            experiment.begin()
            most = experiment.planned_pairs or most
            campaigns = " and ".join(experiment.parts[-1].campaigns)
            note = f"up to {most} pairs" + (", resumed: what was measured before is kept" if experiment.resumed else "")
            view.campaign(campaigns, 2, experiment.planned, note)
            view.job(experiment.name, names, 0, 1)
            stopped = _until(experiment, question, most, budget.seconds, clock)
        return _compared(experiment, question, stopped, clock.monotonic_s() - began_s)


def _until(experiment: Experiment, question: ABQuestion, most: int, at_most_s: float | None, clock: Clock) -> Stopped:
    """Measure block after block; say why it ended."""
    began_s, blocks = clock.monotonic_s(), 0
    while True:
        # Nothing is decided while no run has ended.
        if (wanted := _deciding(experiment, question)) is not None:
            refuse_absent(wanted, [run for side in experiment.readings for run in side if not run.failure])
            if _is_look(experiment, wanted) and _look(experiment, wanted, question.smallest, note=blocks > 0).is_final:
                return "told"
        if min(map(len, experiment.readings)) >= most:
            return "pairs"
        spent_s = clock.monotonic_s() - began_s
        # A block that would not end in time is not begun; the first one is, or there would be nothing to tell.
        if at_most_s is not None and blocks and spent_s * (blocks + 1) / blocks > at_most_s:
            return "time"
        if not experiment.block():
            return "failed"
        blocks += 1


def _is_look(experiment: Experiment, wanted: MetricSelection) -> bool:
    """Whether the evidence may be looked at now."""
    plan = _plan(experiment)
    return plan is None or len({pair.block for pair in experiment.pairs(wanted) if pair.complete}) in plan.looks


def _look(experiment: Experiment, wanted: MetricSelection, smallest: float, *, note: bool) -> ABDecision:
    decision = _decided(experiment, wanted, smallest)
    if note and decision.interval is not None and decision.change is not None:
        low, high = (percent(end, signed=True) for end in (decision.interval.low, decision.interval.high))
        shown = f"{decision.metric} {percent(decision.change, signed=True)} [{low}, {high}]"
        experiment.session.view.note(f"{decision.pairs} pairs: {shown}: {decision.answer}")
    return decision


def _plan(experiment: Experiment) -> PairPlan | None:
    pairs = experiment.planned_pairs
    return None if pairs is None else PairPlan(pairs // PAIRS_OF_A_BLOCK)


def _decided(experiment: Experiment, wanted: MetricSelection, smallest: float, *, ended: bool = False) -> ABDecision:
    """What the pairs say about one number.

    Args:
        ended: the experiment is over for another reason than what they say.
    """
    both = experiment.readings
    unit, better = direction_in(wanted, (*both[0], *both[1]))
    plan, pairs = _plan(experiment), experiment.pairs(wanted)
    return decide(str(wanted), unit, better, pairs, smallest=smallest, plan=plan, ended=ended)


def _deciding(experiment: Experiment, question: ABQuestion) -> MetricSelection | None:
    return question.wanted or next((MetricSelection(name) for name in _headlines(experiment)), None)


def _headlines(experiment: Experiment) -> tuple[str, ...]:
    """The metrics that answer the question of the jobs, as the first good run of either side gave them."""
    for job, runs in zip(experiment.pair.jobs, experiment.readings, strict=True):
        for run in runs:
            if not run.failure and (names := headline_in(job, run)):
                return names
    return ()


def refuse_absent(wanted: MetricSelection, good: Sequence[RunReading]) -> None:
    """Refuse a number that no run gives: more runs would not bring it."""
    if not good or any(run.value(wanted) is not None for run in good):
        return
    names = list(dict.fromkeys(name for run in good for name in run.stats))
    remedy = f"one of {listed(names, most=12)}, or with a statistic such as {names[0] if names else 'latency_ms'}.p50"
    raise UsageError(f"no run gives {wanted}: {good[0].why_absent(wanted)}", code="metric", at="--metric", try_=remedy)


def _compared(experiment: Experiment, question: ABQuestion, stopped: Stopped, seconds: float) -> ABResult:
    wanted = _deciding(experiment, question) or MetricSelection("duration_s")
    ended = stopped in ("pairs", "time", "failed")
    decision = _decided(experiment, wanted, question.smallest, ended=ended)
    names = [name for name in _headlines(experiment) if name != wanted.metric]
    plan = _plan(experiment)
    return ABResult(
        name=experiment.name,
        seed=experiment.seed,
        sides=experiment.pair.names,
        decision=decision,
        others=tuple(_decided(experiment, MetricSelection(name), question.smallest, ended=ended) for name in names),
        parts=experiment.parts,
        results=experiment.results,
        order=order_note(experiment.pairs(wanted)),
        looks=() if plan is None else tuple(blocks * PAIRS_OF_A_BLOCK for blocks in plan.looks),
        stopped=stopped,
        seconds=seconds,
    )


def stored_experiment(name: str, store: str | Path | None = None) -> tuple[JobPair, tuple[ExperimentPart, ...]]:
    open_store = Store(store_folder(store))
    try:
        parts = parts_of(open_store, {EXPERIMENT: name})
        if not parts:
            remedy = "`assay results list` shows what is there; `ab` ends with the name"
            message = f"no experiment {name!r} in the store"
            raise UsageError(message, code="unknown-experiment", at=str(open_store.folder), try_=remedy)
        _refuse_planned(name, parts[0].labels)
        sides = []
        for campaign in parts[-1].campaigns:
            summary, (stored,) = open_store.campaign(campaign)
            sides.append((stored.job, summary.labels))
        documents = [Listing(open_store.engine).campaign_document(campaign) for campaign in parts[-1].campaigns]
    finally:
        open_store.close()
    jobs = [job for job, _ in sides]
    for job, labels in sides:
        _refuse_changed(job, labels)
    a, b = (Plan(job.benchmark, job.digest, (job,)) for job in jobs)
    own = [{key: value for key, value in labels.items() if key not in TIES} for _, labels in sides]
    names = [labels.get(NAME, side) for (_, labels), side in zip(sides, "ab", strict=True)]
    return JobPair((a, b), (documents[0], documents[1]), (own[0], own[1]), (names[0], names[1])), parts


def _refuse_planned(name: str, labels: Mapping[str, str]) -> None:
    """Refuse to add runs to an experiment that has used up its chance of a false answer."""
    pairs = planned_pairs_in(labels)
    if pairs is None:
        return
    message = (
        f"{name} was planned with {pairs} pairs; more of them would call equal things different more often than once "
        "in twenty"
    )
    remedy = "plan a new one with more --pairs, or begin one with --open-ended, which may be continued"
    raise UsageError(message, code="planned", at="--continue", try_=remedy)


def _refuse_changed(job: Job, labels: Mapping[str, str]) -> None:
    """Refuse to add runs of something else to an experiment."""
    if digest_of(job.definition, fingerprints(job.definition, Path(job.base))) != job.digest:
        changed, at = f"the files of {job.benchmark!r}", job.base
    elif labels.get(PLACE) != surroundings()[: len(labels.get(PLACE, ""))]:
        changed, at = "this machine or its packages", ""
    else:
        return
    message = f"{changed} are not what they were when the experiment began"
    raise UsageError(message, code="changed", at=at, try_="begin a new experiment")
