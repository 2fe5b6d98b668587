"""What a run leaves behind: numbers, samples, proof of device, machine state, or the evidence of its failure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import JsonValue

from assay.clock import iso
from assay.errors import Problem

if TYPE_CHECKING:  # a parent reads these records before there is any sample
    import numpy as np
    from numpy.typing import NDArray

Phase = Literal["prepare", "load", "first", "warmup", "measure", "score", "cleanup"]
PHASES: tuple[Phase, ...] = ("prepare", "load", "first", "warmup", "measure", "score", "cleanup")
SamplePhase = Literal["warmup", "measure"]
# How the reason ends why a metric is absent that no run on this engine could have read.
OUT_OF_REACH = "cannot be read where the command runs"


@dataclass(frozen=True, slots=True, eq=False)
class SampleSet:
    """The samples of one metric in one phase of one run; a sample's id is its position."""

    metric: str
    phase: SamplePhase
    at_ns: NDArray[np.int64]
    """When each sample began, from the start of its phase."""
    value: NDArray[np.float64]
    """In the metric's unit; NaN where the target gave none."""


@dataclass(frozen=True, slots=True)
class DeviceProof:
    """Which device was asked for and which one the runtime says it used."""

    requested: str
    used: str
    nodes: Mapping[str, int]
    """Execution provider → nodes of the graph it ran."""
    evidence: str
    """Where this was read."""

    @property
    def honoured(self) -> bool:
        """Whether the device that was asked for did the work."""
        return self.used == self.requested


@dataclass(frozen=True, slots=True)
class Window:
    """What the machine did while the clock ran."""

    wall_s: float
    cpu_s: float
    """Of the measured process and its children."""
    others_cpu_s: float | None
    """Busy time of everything else; None where the system does not say."""
    steal_s: float | None
    """Time the hypervisor took away."""
    cores: int
    throttle_events: int | None
    """Thermal throttle count, None where not readable."""
    harness_ns: float | None = None
    """Our own cost per sample, measured on a no-op."""
    load_average_before: float | None = None
    load_average_after: float | None = None


Grade = Literal["counter", "sampled", "estimated"]


@dataclass(frozen=True, slots=True)
class Energy:
    """What one thing used over the measured window, and how far the figure can be believed."""

    source: str
    """What it was read from: `NVML energy counter of GPU 0`, `RAPL package-0`."""
    scope: Literal["gpu", "package", "dram", "system"]
    """A processor package holds its cores; memory beside it may be counted apart."""
    joules: float
    seconds: float
    """The stretch that the readings cover."""
    grade: Grade
    """Read from a counter at both ends, summed from samples of the power, or estimated."""
    idle_w: float | None = None
    """Power before the run, apart: what would have been used anyway."""
    low_j: float | None = None
    """The readings next to the ends of the window say that it was at least this; None where that was not asked."""
    high_j: float | None = None
    """And at most this."""

    @property
    def watts(self) -> float:
        """Mean power."""
        return self.joules / self.seconds


@dataclass(frozen=True, slots=True)
class MachineTelemetry:
    """What another process saw of a run and of its machine, over the measured window."""

    window_ns: tuple[int, int]
    """Begin and end, of `time.perf_counter_ns`."""
    every_s: float
    """Time between two looks, as it was asked for."""
    looks: int
    statistics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Series (`job.cpu_pct`, `others.cpu_pct`, `gpu:0.power_w` …) → its `mean`, `min` and `max`."""
    energy: tuple[Energy, ...] = ()
    throttled: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Device (`gpu:0`, `cpu`) → reasons seen for which it held its clocks down; empty where it was looked at and had
    none."""
    foreign: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """GPU (`gpu:0`) → processes of others that computed on it, as `name (pid 12)`; empty where there were none."""
    spans: Mapping[str, Mapping[str, JsonValue]] = field(default_factory=dict)
    """Part of the run, such as one test of a device → its own statistics and throttle reasons."""
    cost: Mapping[str, float] = field(default_factory=dict)
    """What looking cost: `cpu_s`, `cpu_pct` of one core, `look_ms` (mean) and `slowest_look_ms`."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """What could not be seen, and why."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a run ended without a result, and the evidence."""

    code: str
    """Crashed | timeout | out-of-memory | device | model | target | cancelled …"""
    message: str
    phase: str = ""
    exit_code: int | None = None
    signal: str | None = None
    memory_mb: float | None = None
    """At its end: the kernel's high-water mark, or the tree's when we ended it."""
    log_tail: tuple[str, ...] = ()
    try_: str = ""

    @classmethod
    def of(cls, problem: Problem, phase: str = "prepare") -> Failure:
        """A problem that kept a run from being measured at all."""
        return cls(problem.code, problem.message, phase=phase, try_=problem.try_)


@dataclass(frozen=True, slots=True)
class SingleRunResult:
    """One repetition: a fresh process, cold start included."""

    run_id: int
    is_cold_start: bool
    """The first run of the job on this machine."""
    started_at: str
    completed_at: str
    duration_seconds: float
    phases: Mapping[str, float] = field(default_factory=dict)
    """Seconds in each phase."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """One number of the whole run each."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """Metric → why it could not be measured."""
    sample_counts: Mapping[str, int] = field(default_factory=dict)
    """Measured samples by metric."""
    facts: Mapping[str, JsonValue] = field(default_factory=dict)
    """What the target read back about itself."""
    device: DeviceProof | None = None
    window: Window | None = None
    samples: str | None = None
    """Content hash of the sample file."""
    error: Failure | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    """Name → content hash (SHA-256) of each further file that the run left: answers, logs of services, telemetry."""
    seen: MachineTelemetry | None = None
    """Telemetry of job and machine; None where the probe was off."""


@dataclass(frozen=True, slots=True, eq=False)
class RunOutcome:
    """A run's record together with its samples and files."""

    result: SingleRunResult
    samples: tuple[SampleSet, ...] = ()
    files: Mapping[str, Path] = field(default_factory=dict)
    """Name → where the file lies until the run is kept."""


def unmeasured_run(
    failure: Failure, known: Collection[int], began: datetime, ended: datetime | None = None
) -> SingleRunResult:
    """The record of a run that gave nothing, under the first number that is not `known`.

    Args:
        ended: when it was over; left out for one that never began.
    """
    run_id = next(number for number in range(len(known) + 1) if number not in known)
    done = max(began, ended or began)
    return SingleRunResult(run_id, run_id == 0, iso(began), iso(done), (done - began).total_seconds(), error=failure)
