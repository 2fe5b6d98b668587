"""Where the dispatcher takes jobs from: the database alone, or Redis in front of it.

The database is the truth in both cases: what Redis hands out counts only when it was claimed there.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from assay.errors import StoreError
from assay.place.broker import Broker
from assay.place.leasing import Lease
from assay.serve.logs import tell
from assay.store.control import Control

# A job that Redis handed out and nobody claimed is handed out again after this long.
_UNCLAIMED_S = 30.0
_AT_ONCE = 10_000
# How many jobs of Redis that turn out to be gone are passed over before the agent is asked to wait again.
_GONE_AT_MOST = 8


@dataclass(frozen=True, slots=True)
class SqlQueue:
    """Jobs straight from the database."""

    control: Control
    is_apart: ClassVar[bool] = False
    """Whether jobs have to be offered to somebody."""

    def ready(self) -> Mapping[str, int]:
        """Jobs that are due, by the key of their needs."""
        return self.control.ready()

    def suitable(self, agent: str, device: str) -> Collection[str]:
        """The keys of the needs that an agent meets."""
        return self.control.suitable(agent, device)

    def take(self, agent: str, device: str) -> Lease | None:
        """Give the agent its next job."""
        return self.control.take(agent, device)

    def offer(self) -> int:
        """Nothing to do: what is pending in the database is on offer."""
        return 0

    def claimed(self, job: str) -> None:
        """Nothing to do: the claim itself took the job off."""

    def withdraw(self, jobs: Iterable[str]) -> None:
        """Nothing to do: what is not pending is not on offer."""

    def reconcile(self) -> int:
        """Nothing to compare with."""
        return 0


@dataclass(slots=True)
class RedisQueue:
    """Jobs in the order of Redis, each claimed in the database before it is given out."""

    control: Control
    broker: Broker
    is_apart: ClassVar[bool] = True
    """Whether jobs have to be offered to somebody."""

    def ready(self) -> Mapping[str, int]:
        """Jobs that could be taken now, by the key of their needs."""
        return self.broker.sizes()

    def suitable(self, agent: str, device: str) -> Collection[str]:
        """The keys of the needs that an agent meets."""
        return self.control.suitable(agent, device)

    def take(self, agent: str, device: str) -> Lease | None:
        """Give the agent its next job: from Redis, if the database agrees."""
        queues = self.control.suitable(agent, device)
        for _ in range(_GONE_AT_MOST):
            taken = self.broker.take(agent, queues)
            if not taken:
                return None
            try:
                lease = self.control.claim(agent, taken[0].job, taken[0].fence)
            except Exception:
                self.broker.put_back(taken[0])
                raise
            # Claimed or gone, Redis may forget it: what is still to be done is offered again from the database.
            self.withdraw([taken[0].job])
            if lease is not None:
                return lease
            tell("offer was stale", level=logging.DEBUG, job=taken[0].job, agent=agent)
        return None

    def offer(self) -> int:
        """Offer all jobs that are due; Redis keeps those that it knows."""
        return self.broker.offer(self.control.offers(_AT_ONCE))

    def claimed(self, job: str) -> None:
        """Take a job off that an agent claimed itself."""
        self.withdraw([job])

    def withdraw(self, jobs: Iterable[str]) -> None:
        """Take jobs off that are no longer to be done; without Redis they are refused when they are claimed."""
        try:
            self.broker.withdraw(jobs)
        except StoreError as problem:
            tell("redis away", level=logging.DEBUG, because=problem.problem.message)

    def reconcile(self) -> int:
        """Offer what Redis does not know, and hand out again what nobody claimed; return how many were offered."""
        fresh = self.broker.is_fresh()
        self.broker.reclaim(_UNCLAIMED_S)
        offered = self.offer()
        if fresh:
            self.broker.mark()
            tell("offered all jobs to redis", jobs=offered, because="it was emptied or started anew")
        return offered
