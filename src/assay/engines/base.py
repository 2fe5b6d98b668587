"""The seam of the engines: what an engine must be able to do, and the records that it and the driver exchange."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

from assay.errors import UsageError

if TYPE_CHECKING:
    from assay.clock import Clock
    from assay.engines.collect import Termination
    from assay.engines.folder import CampaignFolder
    from assay.place.fleet.client import FleetClient
    from assay.plan.job import Job
    from assay.plan.plan import Plan
    from assay.spec.load import Loaded
    from assay.store.store import Store

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
class RunOptions:
    """How `assay run` was called, as far as an engine acts on it."""

    fresh: bool = False
    """Submit again, even where a campaign of the same plan could be followed."""
    lock: str | None = None
    """What jobs do about a device that another measurement holds."""
    control: bool = True
    """Whether the control workload is timed."""
    follow: FollowOptions = field(default_factory=FollowOptions)


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


class CampaignDraft(Protocol):
    """A campaign that an engine can take, before anything of it is kept."""

    def write(self, plan: Plan, store: Store, clock: Clock, tell: Callable[[str], None]) -> Engine:
        """Write everything down that machines and later processes need; nothing is submitted.

        Args:
            plan: with the ids that the store gave to the campaign and its jobs.
        """
        ...


class Engine(Protocol):
    """One campaign on one engine. What is done to it is in drive.py, once for all engines."""

    NAME: ClassVar[str]
    """As `place.engine` and the store spell it."""
    TITLE: ClassVar[str]
    """As people do."""
    TRANSIENT: ClassVar[Collection[str]]
    """Codes of problems that pass by themselves: following goes on."""
    RESUMABLE: ClassVar[Collection[str]]
    """Codes of problems after which a later process can go on."""
    REQUEUES: ClassVar[bool]
    """Whether a job that ran may wait again."""

    # Campaigns

    @classmethod
    def check(cls, loaded: Loaded, plan: Plan, store: Path, options: RunOptions) -> CampaignDraft:
        """See whether the engine can take a plan: what is wrong is said before anything is kept.

        Raises:
            UsageError: if the file asks for what the engine cannot do.
            MeasureError: if the engine does not answer.
        """
        ...

    @classmethod
    def holds(cls, store: Path, campaign: str) -> bool:
        """Whether a campaign of a store was submitted to this engine."""
        ...

    @classmethod
    def folder_of(cls, store: Path, campaign: str) -> CampaignFolder:
        """The folder of a campaign that it holds."""
        ...

    @classmethod
    def open(cls, store: Store, campaign: str, clock: Clock, tell: Callable[[str], None]) -> Engine:
        """A campaign that an earlier process began.

        Raises:
            UsageError: if it was not submitted from this store.
        """
        ...

    @classmethod
    def remove(cls, store: Path, campaign: str) -> str:
        """Remove what a campaign left beside the store; return what became of it in words, empty for nothing."""
        ...

    @classmethod
    def logs(cls, store: Store, job: Job, service: str = "", *, follow: bool = False) -> Iterator[LogChunk]:
        """What a job or one of its services wrote; with `follow`, until it has ended.

        Raises:
            UsageError: if it has no such service.
            MeasureError: if the engine must be asked and does not answer.
        """
        ...

    # One campaign

    @property
    def campaign(self) -> str: ...

    @property
    def folder(self) -> CampaignFolder: ...

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
        """Submit what has become due, and release what none of the open jobs needs; return how many wait for later."""
        ...

    def snapshot(self, jobs: Mapping[int, Job]) -> Snapshot:
        """How open jobs stand now."""
        ...

    def fetch(self, job: Job, ended: FinishedJob) -> Termination | None:
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

    def settle(self, store: Store) -> None:
        """Complete the results, before the campaign is ended in the store."""
        ...

    def close(self) -> None:
        """Stop looking."""
        ...


GROUP = "assay.engines"
# Ours are found without reading what every installed package registers; pyproject.toml names them too.
OURS = {
    "kubernetes": "assay.engines.kubernetes.engine:KubernetesEngine",
    "slurm": "assay.engines.slurm.engine:SlurmEngine",
}


def engine_named(name: str) -> type[Engine]:
    """The engine that `place.engine` names.

    Raises:
        UsageError: if no package has it.
    """
    if name in OURS:
        return _loaded(EntryPoint(name, OURS[name], GROUP))
    entry = next(iter(entry_points(group=GROUP, name=name)), None)
    if entry is None:
        raise UsageError(
            f"there is no engine {name!r}", code="no-engine", at="place.engine", try_=f"use one of {', '.join(OURS)}"
        )
    return _loaded(entry)


def engines() -> Iterator[type[Engine]]:
    """Every engine that is installed, ours first."""
    yield from map(engine_named, OURS)
    yield from (_loaded(entry) for entry in entry_points(group=GROUP) if entry.name not in OURS)


def engine_holding(store: Path, campaign: str) -> type[Engine] | None:
    """The engine that a campaign of a store was submitted to; None where no engine but this machine has it."""
    return next((engine for engine in engines() if engine.holds(store, campaign)), None)


def _loaded(entry: EntryPoint) -> type[Engine]:
    engine: type[Engine] = entry.load()
    return engine
