"""What server and agents say to each other: one record per message, the same on both ends.

Spans travel, never moments: the clocks of two machines differ.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import JsonValue

from assay.place.needs import Profile
from assay.plan.job import Job, JobFile

AgentState = Literal["active", "busy", "cleanup", "faulty"]

# The header by which an agent proves that it is the one whose id it names.
AGENT_KEY = "Assay-Agent-Key"


def agent_key(identity: str) -> str:
    """What an agent sends with every request; made of its identity, which no answer of a server shows."""
    return hashlib.sha256(f"assay agent key {identity}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Enrolment:
    """A device makes itself known."""

    identity: str
    """What the device itself keeps for ever; equal machines have different ones."""
    name: str
    profile: Profile
    device: Mapping[str, JsonValue] = field(default_factory=dict)
    """Facts about the machine, for people to read."""
    address: str = ""
    """Where the device can be asked, if it listens."""
    version: str = ""
    """Version of assay on the device."""
    slots: int = 1
    """How many jobs it may run concurrently; more than one only with a device for each."""


@dataclass(frozen=True, slots=True)
class Enrolled:
    """The answer to an enrolment."""

    agent: str
    action: Literal["created", "updated", "recovered"]
    heartbeat_s: float
    """How often to send a heartbeat."""
    lease_s: float
    """How long a lease lasts without one."""


@dataclass(frozen=True, slots=True)
class Held:
    """A lease that an agent believes it holds."""

    job: str
    fence: int


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """I am here, and this is what I hold."""

    state: AgentState
    held: tuple[Held, ...] = ()
    note: str = ""
    """Why the agent is faulty, for people to read."""


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """What the agent must know now."""

    lost: tuple[Held, ...] = ()
    """Leases that are no longer its own: it must stop them."""
    draining: bool = False
    """It will get no further jobs."""
    leave: bool = False
    """It was removed: it should enrol again or stop."""


@dataclass(frozen=True, slots=True)
class LeaseRequest:
    """I could measure something now."""

    wait_s: float = 0.0
    """How long the server may hold the request until there is a job."""
    device: str = ""
    """Only jobs for this kind of device, such as `cuda`; any when empty."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A job number taken from the queue directly, to be confirmed by the server."""

    job: str
    fence: int


@dataclass(frozen=True, slots=True)
class LeaseGiven:
    """The right to measure a job until it runs out."""

    job: Job
    fence: int
    lasts_s: float


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an attempt is."""

    agent: str
    run: int = 0
    """Counts from 0."""
    runs: int = 0
    phase: str = ""
    share: float = 0.0
    note: str = ""
    log: tuple[str, ...] = ()
    """Lines since the last message."""


@dataclass(frozen=True, slots=True)
class Release:
    """A lease given back unfinished."""

    agent: str
    reason: str
    crashed: bool = False
    """The attempt took its agent down or was lost with it: counts against the job."""


DeliveryWord = Literal["accepted", "repeated", "late", "unknown", "replaced"]


@dataclass(frozen=True, slots=True)
class Delivered:
    """How a result was taken: `accepted` counts, the others are kept as evidence; the agent may forget it either way.

    A result measured elsewhere may be sent again with more in it: then it was `replaced`.
    """

    delivery: DeliveryWord


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A campaign that is measured elsewhere, such as on a cluster: the server gives out none of its jobs."""

    engine: str
    """What measures it, as `place.engine` names it."""
    benchmark: str
    created_at: str
    document: Mapping[str, JsonValue]
    """The benchmark file as it was read."""
    jobs: tuple[Job, ...]
    """All of them, in their order, under the ids that they have there."""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobProgress:
    """How one job stands that is measured elsewhere."""

    index: int
    state: Literal["waiting", "running"]
    note: str = ""
    """What it waits for, or where it runs."""
    run: int = 0
    """Counts from 0."""
    runs: int = 0
    phase: str = ""
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class JobProgressReport:
    """How jobs of one campaign stand; those that are left out have not changed."""

    jobs: tuple[JobProgress, ...]


@dataclass(frozen=True, slots=True)
class Known:
    """The answer to a campaign that is measured elsewhere."""

    campaign: str
    new: bool
    """False where the server knew it already."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A benchmark to be measured by the fleet."""

    document: Mapping[str, JsonValue] | None = None
    """The benchmark file as it was read; or name a stored one."""
    benchmark: str = ""
    """Name of a stored benchmark, in place of `document`."""
    version: int | None = None
    """Version of the stored benchmark; the newest when left out."""
    files: Mapping[str, tuple[JobFile, ...]] = field(default_factory=dict)
    """Text of the document that names a local file → the file, then files that lie beside it; uploaded before."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels beside those of the document."""
    priority: int | None = None
    deadline_s: float | None = None
    """Give up this long after submission."""
    unplaceable: Literal["wait", "fail"] | None = None
    """What happens to jobs that no agent can take."""
    spread: Literal["any", "spread", "pack"] | None = None
    agent: str = ""
    """Only this agent, by name or id."""
    git: Mapping[str, JsonValue] = field(default_factory=dict)
    """Commit of the folder that the benchmark was read from, and whether anything in it was changed since."""
