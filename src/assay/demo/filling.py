"""How a store is filled with demo data: a year through the real code, and as many more as are asked for in bulk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from assay.demo.playing import Player, Settings
from assay.store.store import Store

# More campaigns than this are not played one by one: they are copies of those that were.
PLAYED = 300
Tell = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Amount:
    """How much demo data there is to be."""

    campaigns: int = 200
    agents: int = 20
    days: int = 365
    results: int | None = None
    """At least so many results; those of the campaigns when left out."""
    seed: int = 2026


@dataclass(frozen=True, slots=True)
class Filled:
    """What was put into a store."""

    campaigns: int
    jobs: int
    days: int

    @property
    def in_words(self) -> str:
        """One line for people."""
        return f"{self.campaigns:,} simulated campaigns with {self.jobs:,} results over {self.days} days"


def fill(store: Store, amount: Amount, tell: Tell | None = None) -> Filled:
    played = min(amount.campaigns, PLAYED) if amount.results is None else min(amount.campaigns, PLAYED // 2)
    player = Player(store, Settings(played, amount.agents, amount.days, amount.seed))
    jobs = player.play(tell or (lambda _done, _of: None))
    made = played
    if amount.campaigns > played or (amount.results or 0) > jobs:
        from assay.demo.bulk import Bulk

        more = Bulk(store, amount.days, amount.seed).copy(
            max(amount.campaigns - played, 1), max((amount.results or 0) - jobs, 0), tell
        )
        made, jobs = made + more.campaigns, jobs + more.jobs
    return Filled(made, jobs, amount.days)
