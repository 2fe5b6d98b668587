"""The seam between the run and its targets: what a target is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from pydantic import JsonValue

from assay.plan.job import Job
from assay.run.load.barrier import Meeting
from assay.run.records import DeviceProof, Phase, SampleSet, Window
from assay.run.services import RunningService
from assay.spec.benchmark import Definition

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Order:
    """The order of one child process: which run it measures, and with what."""

    job: Job
    run_id: int
    scratch: str  # folder for temporary files, removed after the run
    model: str | None = None  # local path of the model, after prepare
    model_sha256: str | None = None
    services: Mapping[str, RunningService] = field(default_factory=dict)  # those that all runs of the job share
    cache: str = ""  # folder for what may be kept from run to run
    meeting: Meeting | None = None  # where the machines that share the load meet before it begins


@dataclass(frozen=True, slots=True, eq=False)
class RateProbe:
    """What was seen while one rate was tried."""

    rate: float
    duration_s: float
    offered_per_s: float
    delivered_per_s: float
    values: Mapping[str, NDArray[np.float64]]  # metric → samples of requests that ended well, in the order of due times
    failed_share: float
    saturated: bool


class RateFinder(Protocol):
    """A search for the highest rate that meets the objective."""

    def next(self) -> tuple[float, float] | None:
        """Rate to try next and for how many seconds; None when the answer is known."""
        ...

    def tell(self, seen: RateProbe) -> None: ...

    def facts(self) -> Mapping[str, JsonValue]:
        """The record of the search; `capacity` is its answer, None where there is none."""
        ...


def _never(_story: Sequence[tuple[float, int, int, int]], _latency_s: float) -> bool:
    return False


# Whether the level of a window lasted: it did; it moved; it changed not long ago; the noise hides whether it moves.
Lasting = Literal["level", "moved", "recent", "unclear"]


def _always_level(_before: NDArray[np.int64], _window: NDArray[np.int64]) -> Lasting:
    return "level"


def _no_search(_definition: Definition) -> RateFinder:
    raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Rules:
    """Statistical decisions that a load loop asks for, between blocks and never while the clock runs."""

    steady: Callable[[NDArray[np.int64]], bool]  # durations so far (ns) → warm-up is over
    enough: Callable[[NDArray[np.int64], float], bool]  # durations so far (ns), relative width → stop
    # durations before the window and in it (ns) → whether the level of the window lasted
    lasting: Callable[[NDArray[np.int64], NDArray[np.int64]], Lasting] = _always_level
    # (seconds, in flight, due so far, done so far) over time, seconds of one answer → the service will not catch up
    falls_behind: Callable[[Sequence[tuple[float, int, int, int]], float], bool] = _never
    search: Callable[[Definition], RateFinder] = _no_search


class Stage(Protocol):
    """Where a target says how far it is; times its phases and reports progress."""

    def phase(self, name: Phase) -> AbstractContextManager[None]:
        """Time one phase. A warm-up after a measurement says that what was measured still belonged to the warm-up."""
        ...

    def progress(self, share: float, note: str = "") -> None:
        """Tell how much of the current phase is done, from 0 to 1."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """What a target gives back."""

    metrics: Mapping[str, float] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)
    samples: tuple[SampleSet, ...] = ()
    facts: Mapping[str, JsonValue] = field(default_factory=dict)
    device: DeviceProof | None = None
    window: Window | None = None
    files: Mapping[str, Path] = field(default_factory=dict)
    """Name → a file in the scratch folder that is kept with the result; see `run.scratch`."""


class Target(Protocol):
    """Measures one run. Registered by name under the entry-point group `assay.targets`."""

    def __call__(self, order: Order, stage: Stage, rules: Rules) -> Measured:
        """Go through the phases and return what was measured; raise MeasureError when it cannot be."""
        ...


class InProcessModel(Protocol):
    """A model inside our process; `run.load.in_process.drive` takes it through the phases."""

    items_per_call: int

    def load(self) -> None:
        """Load the model. Imports are done before; inputs are made after; this alone is timed as load."""
        ...

    def call(self) -> Callable[[], object]:
        """The unit of work, ready to be called with no argument. Safe to call from several threads."""
        ...

    def proof(self) -> DeviceProof:
        """Which device did the work, read back from the runtime."""
        ...

    def facts(self) -> Mapping[str, JsonValue]:
        """What was really used: inputs with shape, dtype and digest, outputs with digest, threads, versions."""
        ...

    def close(self) -> None:
        """Free everything."""
        ...
