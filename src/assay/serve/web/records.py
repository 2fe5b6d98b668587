"""What the API answers with, where it is not a record of an earlier stage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from pydantic import JsonValue

from assay.analyse.records import MultiRunJobResult
from assay.place.needs import Profile
from assay.plan.job import Job, JobFile
from assay.plan.lifecycle import State
from assay.serve.web.schedules import ScheduleView
from assay.store.artefacts import JobArtefact
from assay.store.records import AgentRecord, AttemptRecord, CampaignSummary, EventRecord, JobSummary, Placement

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Listed(Generic[T]):
    """One page of a list."""

    items: tuple[T, ...]
    next: str | None = None
    """Pass it as `cursor` to get the next page; null on the last one."""


@dataclass(frozen=True, slots=True)
class AgentView:
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

    @classmethod
    def of(cls, record: AgentRecord, now: float) -> AgentView:
        """An agent as the store knows it, seen now."""
        return cls(
            id=record.id,
            name=record.name,
            state=record.state,
            healthy=record.healthy,
            draining=record.draining,
            profile=record.profile,
            labels=record.labels,
            device=record.device,
            jobs=record.jobs,
            slots=record.slots,
            address=record.address,
            version=record.version,
            note=record.note,
            enrolled_at=record.enrolled_at,
            last_seen=record.last_seen,
            seconds_since_heartbeat=max(0.0, now - record.last_seen),
        )


@dataclass(frozen=True, slots=True)
class AgentChange:
    """What to change about an agent; what is left out stays."""

    labels: Mapping[str, str | None] | None = None
    """Labels to set beside those it has; null or an empty value removes one."""
    draining: bool | None = None


@dataclass(frozen=True, slots=True)
class AgentAddress:
    """Where an agent listens that is to be enrolled."""

    url: str
    token: str = ""
    """Bearer token that the agent asks for."""
    server: str = ""
    """URL at which the agent reaches this server; as this request reached it when left out."""


@dataclass(frozen=True, slots=True)
class Queues:
    """The queues that hold jobs for an agent."""

    queues: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JobView:
    """One job as lists show it."""

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
    lost: int
    """Leases lost since it was last submitted or retried."""
    reason: str
    """Why it ended without numbers."""
    progress: Mapping[str, JsonValue] | None
    """The newest word of its agent: run, runs, phase, share, note, at."""
    submitted_at: float
    started_at: float | None
    ended_at: float | None
    not_before: float
    """It waits until then after a lost lease."""
    point: Mapping[str, JsonValue]
    """Axis of the matrix → its value."""

    @classmethod
    def of(cls, one: JobSummary) -> JobView:
        """A job as the store lists it."""
        return cls(
            id=one.id,
            campaign=one.campaign,
            benchmark=one.benchmark,
            index=one.position,
            label=one.label,
            state=one.state,
            verdict=one.verdict,
            agent=one.agent,
            agent_name=one.agent_name,
            fence=one.fence,
            lost=one.lost,
            reason=one.reason,
            progress=one.progress,
            submitted_at=one.submitted_at,
            started_at=one.started_at,
            ended_at=one.ended_at,
            not_before=one.not_before,
            point=one.point,
        )


@dataclass(frozen=True, slots=True)
class EvidenceView:
    """A result that was kept and not counted."""

    fence: int
    agent: str
    at: float
    reason: str
    """`late`, `repeated`, or `replaced` by a retry."""


@dataclass(frozen=True, slots=True)
class JobFull:
    """Everything about one job."""

    summary: JobView
    document: Job
    """The job document as agents get it."""
    result: MultiRunJobResult
    """Its result, or what is known so far."""
    advice: tuple[str, ...]
    """Names of the checks that failed and change no verdict."""
    attempts: tuple[AttemptRecord, ...]
    history: tuple[EventRecord, ...]
    evidence: tuple[EvidenceView, ...]
    artefacts: tuple[JobArtefact, ...]


@dataclass(frozen=True, slots=True)
class PlacementGroup:
    """Jobs that need the same, and who can take them."""

    needs: str
    """In words."""
    key: str
    jobs: int
    waiting: int
    """How many of them are still to be placed."""
    agents: tuple[str, ...]
    """Names of the agents that can take them now."""
    missing: Mapping[str, tuple[str, ...]]
    """Name of every other agent → what it lacks, in words."""
    machines: int = 1
    """How many agents must take them at once: more than one for the parts of a shared load."""


@dataclass(frozen=True, slots=True)
class PlacementView:
    """Where the jobs of a campaign can run."""

    placeable: bool
    """Every job has at least one agent that can take it."""
    says: str
    """The same in one sentence."""
    groups: tuple[PlacementGroup, ...]

    @classmethod
    def of(cls, found: Iterable[Placement]) -> PlacementView:
        """What the store found, with its conclusion."""
        groups = tuple(_group(one) for one in found)
        stuck = [group for group in groups if len(group.agents) < group.machines]
        if not stuck:
            return cls(True, "every job has an agent that can take it", groups)
        jobs = sum(group.jobs for group in stuck)
        needs = "; ".join(group.needs for group in stuck[:3])
        nobody = "no agent is enrolled" if not any(group.missing for group in stuck) else "no agent can take them now"
        nobody = "too few agents can take them at once" if any(group.agents for group in stuck) else nobody
        return cls(False, f"{jobs} job{'' if jobs == 1 else 's'} cannot be placed ({needs}): {nobody}", groups)


def _group(one: Placement) -> PlacementGroup:
    lacks = {
        fit.name: fit.missing or ("it is faulty or draining",) for fit in one.agents if fit.missing or not fit.available
    }
    can = tuple(fit.name for fit in one.agents if not fit.missing and fit.available)
    return PlacementGroup(one.in_words, one.needs, one.jobs, one.waiting, can, lacks, one.machines)


@dataclass(frozen=True, slots=True)
class CampaignFull:
    """A campaign and how far it is."""

    id: str
    benchmark: str
    state: str
    """`running`, `done`, `partial`, `failed`, `cancelled` or `interrupted`."""
    created_at: str
    completed_at: str | None
    jobs: int
    jobs_ended: int
    counts: Mapping[str, int]
    """State → jobs in it."""
    runs: int
    """Runs of all jobs together."""
    labels: Mapping[str, str]
    engine: str
    priority: int
    submitted_by: str
    deadline: float | None
    unplaceable: str
    spread: str
    version: int | None
    job_list: tuple[JobView, ...]
    """The first 500 jobs in their order; `GET /jobs?campaign=…` pages through all."""

    @classmethod
    def of(cls, one: CampaignSummary, runs: int, jobs: Iterable[JobSummary]) -> CampaignFull:
        """A campaign as the store knows it."""
        return cls(
            id=one.id,
            benchmark=one.benchmark,
            state=one.state,
            created_at=one.created_at,
            completed_at=one.completed_at,
            jobs=one.jobs,
            jobs_ended=one.jobs_ended,
            counts=one.counts,
            runs=runs,
            labels=one.labels,
            engine=one.engine,
            priority=one.priority,
            submitted_by=one.submitted_by,
            deadline=one.deadline,
            unplaceable=one.unplaceable,
            spread=one.spread,
            version=one.version,
            job_list=tuple(map(JobView.of, jobs)),
        )


@dataclass(frozen=True, slots=True)
class CampaignSubmitted:
    """The answer to a submission."""

    id: str
    benchmark: str
    state: str
    jobs: int
    placement: PlacementView
    schedule: ScheduleView | None = None
    """The schedule by which it is submitted again, if its file has one."""


@dataclass(frozen=True, slots=True)
class CampaignChanged:
    """What a request about a whole campaign did."""

    id: str
    state: str
    jobs: tuple[str, ...]
    """The jobs that changed."""


@dataclass(frozen=True, slots=True)
class JobChanged:
    """What a request about one job did."""

    job: str
    state: State


@dataclass(frozen=True, slots=True)
class Batch:
    """The same for many jobs."""

    action: Literal["cancel", "retry"]
    jobs: tuple[str, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """What became of one job of a batch."""

    job: str
    done: bool
    state: State | None
    """Null when there is no such job."""
    reason: str
    """Why nothing was done."""


@dataclass(frozen=True, slots=True)
class BatchOutcomes:
    """What became of every job of a batch."""

    outcomes: tuple[BatchOutcome, ...]


@dataclass(frozen=True, slots=True)
class BenchmarkInput:
    """A benchmark to be kept."""

    document: Mapping[str, JsonValue]
    """The benchmark file as it was read."""
    files: Mapping[str, tuple[JobFile, ...]] = field(default_factory=dict)
    """Text of the document that names a local file → the file, then files beside it; uploaded before."""


@dataclass(frozen=True, slots=True)
class JobPreview:
    """A job that a benchmark would have."""

    index: int
    label: str
    digest: str
    needs: str
    """In words."""
    runs: int


@dataclass(frozen=True, slots=True)
class BenchmarkPreview:
    """What would happen if this were submitted."""

    benchmark: str
    digest: str
    jobs: int
    job_list: tuple[JobPreview, ...]
    """The first 500."""
    placement: PlacementView
    files_missing: tuple[str, ...]
    """SHA-256 of files that would have to be uploaded first."""


@dataclass(frozen=True, slots=True)
class TokenInput:
    """A token to be made."""

    name: str
    role: Literal["admin", "user", "reader", "agent"]
    expires_in_s: float | None = None
    """It ends after this long; never when left out."""


@dataclass(frozen=True, slots=True)
class Health:
    """Whether the process lives."""

    status: Literal["ok"]
    version: str
    service: Literal["assay"] = "assay"
    """What answers here: clients know a wrong address by it."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether the server can do its work now."""

    ready: bool
    database: str
    """`ok`, or that it is away."""
    queue: str
    """`sql`, `redis`, or that it is away."""
