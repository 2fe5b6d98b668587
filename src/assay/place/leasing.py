"""Leases: how long one lasts, what follows when one is lost, and how long to wait before the next try. Pure.

The store is the record of truth; a queue beside it (`redis_broker`) can be wiped and filled again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from assay.plan.job import Job, content_hash, is_part, point_key


@dataclass(frozen=True, slots=True)
class LeasePolicy:
    """The rules of delivery: at least once to an agent, exactly once into the store."""

    lease_s: float = 60.0
    """How long a lease lasts without a heartbeat."""
    tries: int = 4
    """How many leases a job may lose before it is set aside."""
    backoff_s: float = 1.0
    """Wait before the second try; it doubles with each further one."""
    longest_backoff_s: float = 300.0
    """No wait is longer than this."""
    jitter: float = 0.25
    """Share by which a wait may be longer, so that jobs lost together do not come back together."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to measure a job, until it runs out."""

    job: Job
    fence: int
    """Number of this lease among all of the job; a result under an older number is not counted."""
    agent: str
    lasts_s: float
    """How long it lasts from now, without a heartbeat; a span, because clocks of two machines differ."""


Delivery = Literal["accepted", "repeated", "late", "unknown"]


def after_loss(policy: LeasePolicy, lost: int) -> Literal["expire", "poison"]:
    """What follows a lost lease: another try, or setting the job aside because it seems to kill its agents."""
    return "poison" if lost >= policy.tries else "expire"


def backoff_s(policy: LeasePolicy, lost: int, chance: float) -> float:
    """How long a job waits after it lost its lease."""
    plain = min(policy.backoff_s * 2.0 ** (lost - 1), policy.longest_backoff_s)
    return min(plain * (1 + policy.jitter * chance), policy.longest_backoff_s)


def delivery(state: str, current_fence: int, fence: int, attempt: str | None) -> Delivery:
    """How a result is taken: by its lease number, once."""
    if attempt is None or fence > current_fence:
        return "unknown"
    if attempt == "delivered":
        return "repeated"
    return "accepted" if state == "running" and fence == current_fence and attempt == "leased" else "late"


def needs_key(job: Job) -> str:
    """The set of needs of a job, as a hash: jobs that need the same share it.

    The parts of one load also need each other, so they share it with no other job.
    """
    target = job.definition.target
    settings = target.model_dump(mode="json", include={"runtime", "device"})
    kind = type(target).__name__
    needs = [job.definition.needs.model_dump(mode="json", exclude_defaults=True), kind, settings]
    return content_hash([*needs, point_key(job)] if is_part(job.definition) else needs)


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
