"""What the store answers with: one record per question."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import JsonValue

from assay.place.needs import Profile
from assay.plan.job import Job, State


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """How a campaign is to be placed."""

    priority: int = 0
    deadline: float | None = None
    """Moment, in seconds since 1970, at which what has not ended is given up."""
    unplaceable: Literal["wait", "fail"] = "wait"
    """What happens to jobs that no agent can take."""
    spread: Literal["any", "spread", "pack"] = "any"
    """Over as many agents as there are, or on as few as possible."""
    submitted_by: str = ""
    origin: str = ""
    version: int | None = None
    """Of the stored benchmark that it was made from."""


@dataclass(frozen=True, slots=True)
class CampaignSummary:
    """One line of a list of campaigns."""

    id: str
    benchmark: str
    state: str
    """`running`, `done`, `partial`, `failed`, `cancelled` or `interrupted`."""
    created_at: str
    completed_at: str | None
    jobs: int
    jobs_ended: int
    labels: Mapping[str, str]
    counts: Mapping[str, int]
    """State → jobs in it."""
    engine: str
    priority: int
    submitted_by: str
    deadline: float | None
    unplaceable: str
    spread: str
    origin: str
    version: int | None
    verdicts: Mapping[str, int] = field(default_factory=dict)
    """Verdict → measured jobs that have it; counted where it is asked for."""


@dataclass(frozen=True, slots=True)
class JobSummary:
    """One line of a list of jobs."""

    id: str
    campaign: str
    benchmark: str
    index: int
    """Position in its campaign."""
    label: str
    """The point of the matrix in words."""
    state: State
    verdict: str | None
    agent: str | None
    """Id of the agent that holds it or held it last."""
    agent_name: str | None
    fence: int
    """Number of its newest lease."""
    submitted_at: float
    started_at: float | None
    ended_at: float | None
    reason: str
    """Why it ended without a result."""
    progress: Mapping[str, JsonValue] | None
    """The newest word of its agent: run, runs, phase, share, note, at."""
    lost: int
    """Leases lost since it was last submitted or retried."""
    not_before: float
    """It waits until then after a lost lease."""
    point: Mapping[str, JsonValue]
    """Axis of the matrix → its value."""


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A job as the store keeps it."""

    job: Job
    state: State
    result: str | None  # the result document, once there is one
    reason: str = ""  # why it ended without a result


@dataclass(frozen=True, slots=True)
class JobDetail:
    """Everything the store has in one place about a job; its history is asked for apart."""

    summary: JobSummary
    job: Job
    result: str | None
    """The result document, once there is one."""

    @property
    def stored(self) -> StoredJob:
        return StoredJob(self.job, self.summary.state, self.result, self.summary.reason)


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A job that left a result, with the document."""

    job: JobSummary
    result: str


@dataclass(frozen=True, slots=True)
class AgentRecord:
    """A device that takes jobs."""

    id: str
    name: str
    state: str
    """`active`, `busy`, `cleanup` or `faulty`."""
    healthy: bool
    draining: bool
    """It finishes what it holds and gets nothing new."""
    profile: Profile
    """What it offers; its labels include those given on the server."""
    labels: Mapping[str, str]
    """Labels given on the server."""
    device: Mapping[str, JsonValue]
    """Facts about the machine."""
    jobs: tuple[str, ...]
    """Jobs it holds."""
    slots: int
    address: str
    version: str
    note: str
    """Why it is faulty."""
    enrolled_at: float
    last_seen: float
    seconds_since_heartbeat: float


@dataclass(frozen=True, slots=True)
class EventRecord:
    """One line of a history, and the data of a server-sent event."""

    campaign: str
    job: str | None
    kind: str
    """In words: `leased`, `result accepted`, `progress` …"""
    at: float
    """Seconds since 1970, by the server's clock."""
    detail: Mapping[str, JsonValue] = field(default_factory=dict)
    id: int | None = None
    """Counts up; null for what is sent and not stored."""


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One try at a job under one lease."""

    job: str
    fence: int
    agent: str
    state: str
    """Leased, delivered, expired, crashed, released or cancelled."""
    leased_at: float
    ended_at: float | None


@dataclass(frozen=True, slots=True)
class EvidenceRecord:
    """A result that was kept and not counted."""

    job: str
    fence: int
    agent: str
    at: float
    reason: str
    """Late, repeated, or replaced by a retry."""
    document: str


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether an agent can take jobs with certain needs."""

    agent: str
    name: str
    missing: tuple[str, ...]
    """What it lacks, in words; empty when it can take them."""
    available: bool
    """Neither faulty nor draining."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Jobs that need the same, and who can take them."""

    needs: str
    """Key of the needs."""
    in_words: str
    jobs: int
    waiting: int
    """How many of them are still to be placed."""
    agents: tuple[Fit, ...]
    """Every enrolled agent, those that can take them first."""
    machines: int = 1
    """How many agents must take them together."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a request about one job among many."""

    state: State | None
    """State of the job now; None when there is no such job."""
    changed: bool
    problem: str = ""
    """Why nothing was done."""
