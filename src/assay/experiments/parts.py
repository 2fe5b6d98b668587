"""What an experiment has measured: runs of both sides, in two campaigns whose labels tie them together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from assay.analyse.ab import ORDERS, Order, Pair, Reading, Wanted, pairs_of, reading_of
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
class Part:
    """Runs of both sides that are kept in two campaigns."""

    number: int
    name: str
    """Of the experiment."""
    seed: int
    campaigns: tuple[str, str]
    readings: tuple[Sequence[Reading], Sequence[Reading]]
    labels: Mapping[str, str] = field(default_factory=dict)
    """Of its first campaign."""


def order_of(seed: int, part: int, block: int) -> Order:
    """The order of a block: one throw of a fair coin, the same again for the same seed."""
    return ORDERS[Random(f"{seed}/{part}/{block}").getrandbits(1)]  # noqa: S311  (a lot, no secret)


def pairs_in(parts: Sequence[Part], wanted: Wanted) -> tuple[Pair, ...]:
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


def parts_of(store: Store, labels: Mapping[str, str]) -> tuple[Part, ...]:
    """What is kept of the experiments that carry these labels, the oldest first, whether they ended or not."""
    found: dict[tuple[str, int], dict[str, CampaignSummary]] = {}
    for one in _campaigns(store, labels):
        if one.labels.get(SIDE) in SIDES:
            found.setdefault((one.labels[EXPERIMENT], int(one.labels[PART])), {})[one.labels[SIDE]] = one
    whole = {key: sides for key, sides in found.items() if set(sides) == set(SIDES)}
    oldest_first = sorted(whole.items(), key=lambda item: (item[1]["a"].created_at, item[0]))
    return tuple(
        Part(
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


def _readings(store: Store, campaign: str) -> list[Reading]:
    _, (stored,) = store.campaign(campaign)
    return [reading_of(stored.job, outcome) for outcome in store.outcomes(stored.job.id)]
