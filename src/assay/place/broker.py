"""The queue: who gets which job next. The store stays the record of truth; a broker can be wiped and filled again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class JobOffer:
    """A job that waits for an agent."""

    job: str
    queue: str
    """Key of its needs: only agents that meet them may take it."""
    campaign: str
    priority: int = 0
    """Higher goes first."""
    fence: int = 0
    """Number of the newest lease that the store knows of; the next one taken is higher."""
    not_before: float = 0.0
    """Not given out before this moment, in seconds since 1970 by the clock of who offers."""


@dataclass(frozen=True, slots=True)
class JobClaim:
    """A job given to an agent, until it is acknowledged or taken back."""

    job: str
    fence: int
    """Number of the lease that the agent may claim with it."""
    ticket: str
    """Names this very delivery."""


class Broker(Protocol):
    """Hands out jobs: highest priority first, then the campaign served least, in order of offering inside a campaign.

    Delivery is at least once: what was taken and never acknowledged is given out again under a higher number. Jobs that
    were acknowledged are forgotten; one that has to be measured again is offered again.
    """

    def offer(self, offers: Iterable[JobOffer]) -> int:
        """Queue jobs and return how many entered or moved; one that is known stays, unless its offer changed."""
        ...

    def take(self, agent: str, queues: Sequence[str], limit: int = 1) -> tuple[JobClaim, ...]:
        """Give an agent the next jobs of the queues that it suits, without waiting."""
        ...

    def wait(self, agent: str, queues: Sequence[str], timeout_s: float) -> tuple[JobClaim, ...]:
        """Give an agent the next job, as soon as there is one or the time is over."""
        ...

    def ack(self, *taken: JobClaim) -> tuple[JobClaim, ...]:
        """Forget jobs that were claimed; return those whose number was still the newest."""
        ...

    def put_back(self, taken: JobClaim, delay_s: float = 0.0) -> bool:
        """Queue a job again, behind the others of its campaign; False if the delivery is no longer the newest."""
        ...

    def withdraw(self, jobs: Iterable[str]) -> frozenset[str]:
        """Forget jobs in whatever state they are; return those that were known."""
        ...

    def reclaim(self, idle_s: float) -> tuple[str, ...]:
        """Queue again what was taken that long ago and never acknowledged; return the jobs."""
        ...

    def knows(self, jobs: Iterable[str]) -> frozenset[str]:
        """Those of the jobs that are queued or taken."""
        ...

    def sizes(self) -> Mapping[str, int]:
        """How many jobs could be taken now, by queue."""
        ...

    def is_fresh(self) -> bool:
        """Whether the queue may have lost jobs since it was marked, so that all have to be offered again."""
        ...

    def mark(self) -> None:
        """Note that all jobs have been offered."""
        ...
