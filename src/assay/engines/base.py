"""The seam of the engines: what an engine must be able to do, and the records that it and the driver exchange."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeVar

from assay.errors import UsageError
from assay.plugins import find_plugin, plugin_names

if TYPE_CHECKING:
    from assay.analyse.records import CampaignRecord, MultiRunJobResult
    from assay.clock import Clock
    from assay.engines.collect import Termination
    from assay.engines.folder import CampaignFolder
    from assay.place.fleet.client import FleetClient
    from assay.place.fleet.protocol import JobProgress
    from assay.plan.plan import Plan
    from assay.report.live import View
    from assay.report.result import CampaignResult
    from assay.spec.load import Loaded

# Code of the problem that a cancelled campaign is; also the state of its jobs.
CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class FollowOptions:
    """How a campaign is followed."""

    detach: bool = False
    """Leave once everything is submitted."""
    cancel_on_interrupt: bool = False
    """End the campaign on Ctrl-C, instead of leaving it to the cluster."""
    server: FleetClient | None = None
    """A server that progress is reported to; it ends nothing, and nothing waits for it."""


@dataclass(frozen=True, slots=True)
class PlacementOptions:
    """How a fleet should place a campaign, beside what its file says."""

    priority: int | None = None
    deadline_s: float | None = None
    agent: str = ""
    spread: Literal["any", "spread", "pack"] | None = None
    unplaceable: Literal["wait", "fail"] | None = None


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How `assay run` was called, as far as an engine acts on it."""

    fresh: bool = False
    """Measure everything again, even where a campaign of the same plan could be continued."""
    lock: str | None = None
    """What jobs do about a device that another measurement holds."""
    control: bool = True
    """Whether the control workload is timed."""
    follow: FollowOptions = field(default_factory=FollowOptions)
    placement: PlacementOptions = field(default_factory=PlacementOptions)


@dataclass(frozen=True, slots=True)
class FailureReason:
    """Why a job gave no result, in the words of the engine that ran it."""

    code: str
    message: str
    try_: str


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a running job is."""

    run: int
    """Number of the run, from 1."""
    of: int
    phase: str = ""
    share: float = 0.0
    """Of the phase, from 0 to 1."""

    def __str__(self) -> str:
        words = [f"run {self.run}/{self.of}", self.phase, f"{self.share:.0%}" if self.share > 0 else ""]
        return " ".join(word for word in words if word)


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A job that was submitted and has not begun."""

    handle: str
    """What the engine calls it, such as `batch job 17_3`."""
    why: str
    """What it waits for, in words, with times."""
    reason: str
    """The same without anything that changes by itself: another reason is worth a line."""
    starts_at: datetime | None = None
    """When the engine means to start it."""


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job that is being measured."""

    handle: str
    nodes: tuple[str, ...] = ()
    progress: Progress | None = None


@dataclass(frozen=True, slots=True)
class FinishedJob:
    """A job from which nothing more will come."""

    reason: FailureReason | None = None
    """Why it gave no result; None where it left one, or the engine finds that out when the job is fetched."""


JobStatus = WaitingJob | RunningJob | FinishedJob


@dataclass(frozen=True, slots=True)
class Snapshot:
    """How the jobs of a campaign stand at one moment."""

    jobs: Mapping[int, JobStatus]
    """Index → status; a job of which the engine knows nothing is left out."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Key → something that a person should know, said once."""
    silence: str = ""
    """Why the engine does not answer now; `jobs` then holds what is known without it."""


@dataclass(frozen=True, slots=True)
class LogChunk:
    """A piece of what a job or a service wrote: one or more lines of one source."""

    source: str
    text: str


@dataclass(frozen=True, slots=True)
class CampaignSize:
    """How much a campaign measures."""

    jobs: int
    runs: int


class JobRef(Protocol):
    """A job, as far as following it needs."""

    @property
    def index(self) -> int: ...

    @property
    def id(self) -> str: ...


J = TypeVar("J", bound=JobRef)
Home = TypeVar("Home", contravariant=True)
"""Where campaigns are recorded: a store here, or a server."""


@dataclass(slots=True)
class OpenJobs(Generic[J]):
    """The jobs of a campaign that have not ended."""

    jobs: dict[int, J]
    running: set[int]
    total: int
    """Jobs of the campaign, ended ones included."""


class Reporter(Protocol):
    """Learns how the jobs of a campaign stand and end. No call waits for anything."""

    def progressed(self, standings: Iterable[JobProgress]) -> None:
        """How jobs stand now; those that are left out stand as before."""

    def ended(self, index: int) -> None:
        """The store has the result of a job."""

    def all_ended(self) -> None:
        """Every result is final: those that have changed since they were reported are sent again."""

    def left(self, words: str) -> None:
        """Nothing more will be reported for now, and why."""


class NullReporter:
    """No server was named."""

    def progressed(self, standings: Iterable[JobProgress]) -> None: ...

    def ended(self, index: int) -> None: ...

    def all_ended(self) -> None: ...

    def left(self, words: str) -> None: ...


class Ledger(Protocol[J]):
    """The record of one campaign: the state of its jobs, and their results."""

    @property
    def campaign(self) -> str: ...

    def following(self, server: FleetClient | None, note: Callable[[str], None]) -> AbstractContextManager[Reporter]:
        """Follow the campaign from this process alone, and report its progress to a server."""
        ...

    def state(self) -> str: ...

    def size(self) -> CampaignSize: ...

    def open_jobs(self) -> OpenJobs[J]: ...

    def started(self, job: J) -> None: ...

    def released(self, job: J) -> None:
        """A job that ran waits again."""
        ...

    def collect(self, job: J, ended: Termination) -> MultiRunJobResult:
        """Take in what an ended job left, and end it.

        Raises:
            StoreError: if it cannot be kept; nothing is lost then.
        """
        ...

    def end(self, state: str) -> None:
        """Record that the campaign has ended, or was interrupted."""
        ...

    def findings(self, record: CampaignRecord, view: View) -> None:
        """Take results into their series, and say what changed."""
        ...

    def result(self) -> CampaignResult:
        """The results as they are now."""
        ...


class CampaignDraft(Protocol[J, Home]):
    """A campaign that an engine can take, before anything of it is kept."""

    def begin(self, view: View, clock: Clock) -> Engine[J, Home]:
        """Write everything down that machines and later processes need; nothing is measured yet."""
        ...


class Engine(Protocol[J, Home]):
    """One campaign on one engine. What is done to it is in drive.py, once for all engines.

    Class methods take the home of campaigns: the store, or for a fleet the client of its server.
    """

    NAME: ClassVar[str]
    """As `place.engine` and the store spell it."""
    TITLE: ClassVar[str]
    """As people do."""
    TRANSIENT: ClassVar[Collection[str]]
    """Codes of problems that pass by themselves: following continues."""
    RESUMABLE: ClassVar[Collection[str]]
    """Codes of problems after which a later process can continue the campaign."""
    REQUEUES: ClassVar[bool]
    """Whether a job that ran may wait again."""
    OUTLIVES: ClassVar[bool]
    """Whether a campaign continues without the process that follows it."""
    IS_SERVED: ClassVar[bool]
    """Whether a server collects the results and ends the campaign; following it only watches then."""

    # Campaigns

    @classmethod
    def resume(cls, home: Home, plan: Plan, view: View, clock: Clock) -> Engine[J, Home] | None:
        """The newest campaign of an equal plan that can continue and that no process follows; None if there is none."""
        ...

    @classmethod
    def check(cls, loaded: Loaded, plan: Plan, home: Home, options: RunOptions) -> CampaignDraft[J, Home]:
        """See whether the engine can take a plan: a problem is reported before anything is kept.

        Raises:
            UsageError: if the file asks for what the engine cannot do.
            MeasureError: if the engine does not answer.
        """
        ...

    @classmethod
    def open(cls, home: Home, campaign: str, view: View, clock: Clock) -> Engine[J, Home]:
        """A campaign that an earlier process began.

        Raises:
            UsageError: if it is not on this engine.
        """
        ...

    @classmethod
    def logs(cls, home: Home, job: J, service: str = "", *, follow: bool = False) -> Iterator[LogChunk]:
        """What a job or one of its services wrote; with `follow`, until it has ended.

        Raises:
            UsageError: if it has no such service.
            MeasureError: if the engine must be asked and does not answer.
        """
        ...

    @classmethod
    def folder_of(cls, store: Path, campaign: str) -> CampaignFolder | None:
        """What it keeps of a campaign beside the store; None where it keeps nothing."""
        ...

    @classmethod
    def remove(cls, store: Path, campaign: str) -> str:
        """Remove what a campaign left beside the store; return the outcome in words, empty if there was nothing."""
        ...

    # One campaign

    @property
    def ledger(self) -> Ledger[J]: ...

    @property
    def where(self) -> str:
        """Where it runs, in words."""
        ...

    @property
    def is_cancelled(self) -> bool: ...

    def submit(self) -> None:
        """Hand over what can be handed over before the first look; crash-safe, and idempotent.

        Raises:
            MeasureError: if the engine refuses or does not answer; with the code CANCELLED if the campaign is.
        """
        ...

    def advance(self, jobs: Collection[int]) -> int:
        """Submit or measure what has become due, and release what none of the open jobs needs.

        Returns:
            how many jobs wait for later.
        """
        ...

    def snapshot(self, jobs: Mapping[int, J]) -> Snapshot:
        """How open jobs stand now."""
        ...

    def fetch(self, job: J, ended: FinishedJob) -> Termination | None:
        """Bring the result folder of an ended job here, and say how it ended; None where that needs another look."""
        ...

    def wait(self, *, moved: bool) -> None:
        """Wait until the next look is worth it; `moved` says whether the last one showed a change."""
        ...

    def cancel(self) -> None:
        """Write down that the campaign is to end: nothing more is submitted from now on."""
        ...

    def finish(self) -> bool:
        """Let what the jobs shared end in good order, once all have ended; whether that is done."""
        ...

    def tear_down(self) -> str:
        """Remove whatever is left of the campaign; return what would not go in words, empty for nothing."""
        ...

    def settle(self) -> None:
        """Complete the results, before the campaign is ended in the store."""
        ...

    def close(self) -> None:
        """Stop looking."""
        ...


GROUP = "assay.engines"
# Ours are found without reading what every installed package registers; pyproject.toml names them too.
OURS = {
    "local": "assay.engines.local:LocalEngine",
    "kubernetes": "assay.engines.kubernetes.engine:KubernetesEngine",
    "slurm": "assay.engines.slurm.engine:SlurmEngine",
    "fleet": "assay.engines.fleet:FleetEngine",
}


def engine_named(name: str) -> type[Engine[Any, Any]]:
    """The engine that `place.engine` names.

    Raises:
        UsageError: if no package has it.
    """
    entry = EntryPoint(name, OURS[name], GROUP) if name in OURS else find_plugin(name, GROUP)
    if entry is None:
        raise UsageError(
            f"there is no engine {name!r}", code="no-engine", at="place.engine", try_=f"use one of {', '.join(OURS)}"
        )
    engine: type[Engine[Any, Any]] = entry.load()
    return engine


def engine_in(store: Path, campaign: str) -> type[Engine[Any, Any]]:
    """The engine that a campaign of a store was submitted to: the one that keeps a folder of it, else this machine."""
    return next(
        (engine for engine in engines() if engine.folder_of(store, campaign) is not None), engine_named("local")
    )


def engines() -> Iterator[type[Engine[Any, Any]]]:
    """Every engine that is installed, ours first."""
    return map(engine_named, dict.fromkeys([*OURS, *plugin_names(GROUP)]))
