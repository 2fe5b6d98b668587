"""What the API answers with, where it is not a record of the store or of an earlier stage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from pydantic import JsonValue

from assay.analyse.answer import Reason
from assay.analyse.records import MultiRunJobResult
from assay.place.fleet.protocol import Submission
from assay.plan.job import Job, JobFile, State
from assay.plan.schedule import next_times, start_of
from assay.spec.schedule import Schedule
from assay.store.artefacts import JobArtefact
from assay.store.listing import Page
from assay.store.records import AttemptRecord, CampaignSummary, EventRecord, JobSummary, Placement
from assay.store.schedules import FiringRecord, Outcome, ScheduleRecord

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


_SHOWN = 5
T = TypeVar("T")


def _shared(record: DataclassInstance, kind: type[DataclassInstance]) -> dict[str, Any]:
    """The values of a record that another kind of record has too, by name."""
    names = {field.name for field in fields(kind)}
    return {field.name: getattr(record, field.name) for field in fields(record) if field.name in names}


@dataclass(frozen=True, slots=True)
class NextTime:
    """A time at which a schedule will be due."""

    due: float
    local: str
    """The same as a clock of the schedule's zone shows it."""
    starts: float
    """When it begins: later by its share of the jitter."""


@dataclass(frozen=True, slots=True)
class FiringView:
    """One due time of a schedule, and its outcome."""

    id: int
    due: float
    local: str
    """The due time as a clock of the schedule's zone shows it."""
    outcome: Outcome
    """`submitted`, `skipped` (another run was in the way), `missed` (no server ran), `failed`; `waiting` and `taken`
    still continue."""
    fired_at: float | None
    campaign: str | None
    campaign_state: str | None
    """State of the campaign now; null when it was removed."""
    reason: str
    """Why it was late, left out or failed."""
    server: str
    """Who dealt with it."""

    @classmethod
    def of(cls, firing: FiringRecord, schedule: Schedule) -> FiringView:
        return cls(**_shared(firing, cls), local=local_time(schedule, firing.due))


@dataclass(frozen=True, slots=True)
class ScheduleView:
    """A benchmark that runs by itself."""

    id: str
    name: str
    """Name of the benchmark."""
    state: Literal["active", "paused"]
    schedule: Mapping[str, JsonValue]
    """Its section `schedule`, with every key."""
    next: tuple[NextTime, ...]
    """The next five times; none while it is paused."""
    last: FiringView | None
    """Its newest firing."""
    created_at: float
    changed_at: float
    submitted_by: str

    @classmethod
    def of(cls, record: ScheduleRecord, last: FiringRecord | None, now: datetime) -> ScheduleView:
        """A schedule as the store knows it, seen now."""
        coming = upcoming(record.schedule, record.name, now, _SHOWN) if record.state == "active" else ()
        values = _shared(record, cls) | {"schedule": record.schedule.model_dump(mode="json")}
        return cls(**values, next=coming, last=None if last is None else FiringView.of(last, record.schedule))


@dataclass(frozen=True, slots=True)
class ScheduleFull:
    """A schedule with what it submits."""

    summary: ScheduleView
    submission: Submission
    """What is submitted each time: the benchmark file and the files that it names."""


def upcoming(schedule: Schedule, name: str, after: datetime, count: int) -> tuple[NextTime, ...]:
    return tuple(
        NextTime(due.timestamp(), local_time(schedule, due.timestamp()), start_of(schedule, name, due).timestamp())
        for due in next_times(schedule, after, count)
    )


def local_time(schedule: Schedule, moment: float) -> str:
    """A moment as a clock of the schedule's zone shows it, with its distance from UTC."""
    return datetime.fromtimestamp(moment, UTC).astimezone(schedule.zone).isoformat(timespec="seconds")


@dataclass(frozen=True, slots=True)
class Listed(Generic[T]):
    """One page of a list."""

    items: tuple[T, ...]
    next: str | None = None
    """Pass it as `cursor` to get the next page; null on the last one."""

    @classmethod
    def of(cls, page: Page[T]) -> Listed[T]:
        return cls(page.items, page.next)


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

    summary: JobSummary
    document: Job
    """The job document as agents get it."""
    result: MultiRunJobResult
    """Its result, or what is known so far."""
    reasons: tuple[Reason, ...]
    """What speaks against its result, the main reason of its verdict first."""
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
    """How many agents must take them together: more than one for the parts of a shared load."""


@dataclass(frozen=True, slots=True)
class PlacementView:
    """Where the jobs of a campaign can run."""

    placeable: bool
    """Every job has at least one agent that can take it."""
    says: str
    """The same in one sentence."""
    groups: tuple[PlacementGroup, ...]

    @classmethod
    def of(cls, placements: Iterable[Placement]) -> PlacementView:
        """What the store found, with its conclusion."""
        groups = tuple(map(_group, placements))
        stuck = [group for group in groups if len(group.agents) < group.machines]
        if not stuck:
            return cls(True, "every job has an agent that can take it", groups)
        jobs = sum(group.jobs for group in stuck)
        needs = "; ".join(group.needs for group in stuck[:3])
        reason = "no agent is enrolled" if not any(group.missing for group in stuck) else "no agent can take them now"
        reason = "too few agents can take them together" if any(group.agents for group in stuck) else reason
        return cls(False, f"{jobs} job{'' if jobs == 1 else 's'} cannot be placed ({needs}): {reason}", groups)


def _group(placement: Placement) -> PlacementGroup:
    lacks = {
        fit.name: fit.missing or ("it is faulty or draining",)
        for fit in placement.agents
        if fit.missing or not fit.available
    }
    can = tuple(fit.name for fit in placement.agents if not fit.missing and fit.available)
    return PlacementGroup(
        placement.in_words, placement.needs, placement.jobs, placement.waiting, can, lacks, placement.machines
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignDetail(CampaignSummary):
    """A campaign and how far it is."""

    runs: int
    """Runs of all jobs together."""
    job_list: tuple[JobSummary, ...]
    """The first 500 jobs in their order; `GET /jobs?campaign=…` pages through all."""

    @classmethod
    def of(cls, summary: CampaignSummary, runs: int, jobs: tuple[JobSummary, ...]) -> CampaignDetail:
        return cls(**_shared(summary, cls), runs=runs, job_list=jobs)


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
class JobBatch:
    """The same for many jobs."""

    action: Literal["cancel", "retry"]
    jobs: tuple[str, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """The outcome of one job of a batch."""

    job: str
    done: bool
    state: State | None
    """Null when there is no such job."""
    reason: str
    """Why nothing was done."""


@dataclass(frozen=True, slots=True)
class BatchOutcomes:
    """The outcome of every job of a batch."""

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
