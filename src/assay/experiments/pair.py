"""The two sides of an experiment: what is measured, and what two campaigns with common labels hold of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from assay.analyse.ab import ORDERS, MetricSelection, Order, Pair, RunReading, pairs_of, reading_of
from assay.exec.machine import require_needs
from assay.plan.digest import content_hash
from assay.plan.job import Job
from assay.plan.plan import Plan, refuse_parts_in_turn, refuse_unsupported
from assay.run.capabilities import profile_for
from assay.run.inputs import plan_of
from assay.spec.load import Loaded
from assay.store.listing import Listing
from assay.store.records import CampaignSummary
from assay.store.store import Store

SIDES = ("a", "b")
BLOCK = 4
PAIRS_OF_A_BLOCK = BLOCK // 2
# A job has a hundred runs at most; what goes on after that is kept in two further campaigns.
BLOCKS_OF_A_PART = 50
# Labels that tie the campaigns of one experiment together.
EXPERIMENT, SIDE, NAME, PART, SEED, PLACE = "ab", "ab_side", "ab_name", "ab_part", "ab_seed", "ab_place"
TIES = (EXPERIMENT, SIDE, NAME, PART, SEED, PLACE)


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
    """Two benchmarks as the two sides of an experiment.

    Raises:
        AssayError: if one asks for something that this machine cannot do; nothing is begun then.
    """
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


def pairs_in(parts: Sequence[ExperimentPart], wanted: MetricSelection) -> tuple[Pair, ...]:
    """All pairs of an experiment, in the order in which they were measured."""
    found: list[Pair] = []
    blocks = 0
    for part in parts:
        a, b = part.readings
        here = -(-min(len(a), len(b)) // PAIRS_OF_A_BLOCK)
        orders = [order_of(part.seed, part.number, block) for block in range(here)]
        found += pairs_of(a, b, orders, wanted, block=blocks)
        blocks += here
    return tuple(found)


def parts_of(store: Store, labels: Mapping[str, str]) -> tuple[ExperimentPart, ...]:
    """What is kept of the experiments that carry these labels, the oldest first, whether they ended or not."""
    found: dict[tuple[str, int], dict[str, CampaignSummary]] = {}
    for one in _campaigns(store, labels):
        if one.labels.get(SIDE) in SIDES:
            found.setdefault((one.labels[EXPERIMENT], int(one.labels[PART])), {})[one.labels[SIDE]] = one
    whole = {key: sides for key, sides in found.items() if set(sides) == set(SIDES)}
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
    listing, cursor = Listing(store.engine), None
    while True:
        page = listing.campaigns(text=next(iter(labels.values())), cursor=cursor, limit=200)
        yield from (one for one in page.items if all(one.labels.get(name) == labels[name] for name in labels))
        cursor = page.next
        if cursor is None:
            return


def _readings(store: Store, campaign: str) -> list[RunReading]:
    _, (stored,) = store.campaign(campaign)
    return [reading_of(stored.job, outcome) for outcome in store.outcomes(stored.job.id)]
