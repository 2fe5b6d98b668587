"""One job while its numbers are drawn: the machine of that day and its state; and the record of its runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from assay.analyse.records import MultiRunJobResult
from assay.clock import iso
from assay.demo.machines import DemoMachine, enrolment, machine_facts
from assay.demo.scenario import Conditions
from assay.plan.job import Job
from assay.run.derived_metrics import derived
from assay.run.probes import FILE
from assay.run.probes.columns import Rows, write
from assay.run.records import (
    DeviceProof,
    Energy,
    Failure,
    MachineTelemetry,
    RunOutcome,
    SampleSet,
    SingleRunResult,
    Window,
)
from assay.sim.history.generator import INTEGER_MS, MEMORY_MS
from assay.version import __version__

Values = NDArray[np.float64]
_CONTROL_SPREAD = 0.006
_HISTORY = 40


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """One job, about to be drawn."""

    job: Job
    moment: Conditions
    at: datetime
    draw: np.random.Generator
    scratch: Path
    """Where files lie until they are kept."""
    rich: bool = False
    """Whether samples and files are kept, and many of them."""
    busy: bool = False
    """Whether another process uses the machine meanwhile."""

    @property
    def machine(self) -> DemoMachine:
        return self.moment.machine

    @property
    def runs(self) -> int:
        return self.job.definition.measure.least_runs

    def between_runs(self) -> float:
        """By how much one run is slower than the others."""
        spread = self.machine.spread * (4 if self.busy else 1)
        return math.exp(spread * float(self.draw.normal()))

    def times(self, level: float, count: int, spread: float, tail: float = 0.01) -> Values:
        """Times around a level; a few of them far above it."""
        values = level * np.exp(spread * self.draw.normal(size=count))
        late = self.draw.random(count) < tail
        values[late] *= 1 + self.draw.exponential(0.6, int(late.sum()))
        return values

    def moments_ns(self, count: int, seconds: float) -> NDArray[np.int64]:
        """When `count` samples began, at random moments of a stretch."""
        return np.sort(self.draw.random(count) * seconds * 1e9).astype(np.int64)


def environment(scene: Scene) -> dict[str, JsonValue]:
    """What was around a job, in the words of a real environment record."""
    machine = scene.machine
    facts: dict[str, JsonValue] = {
        "simulated": "demo data: nothing of this was measured",
        "machine": machine_facts(machine.name, machine.identity, machine),
        "python": "3.11.9",
        "packages": {**machine.packages, "assay": __version__},
        "git": {"commit": scene.moment.commit, "changed": False},
        "lock": {"mode": "wait", "held": True, "devices": [machine.device or "cpu"], "waited_s": 0.0},
        "before": _state(scene),
        "after": _state(scene),
    }
    if machine.os == "linux":
        facts["governor"] = _governor(machine)
    return facts


def _governor(machine: DemoMachine) -> str:
    return "performance" if machine.kind in ("server", "gpu-server") else "ondemand"


def _state(scene: Scene) -> dict[str, JsonValue]:
    """The state of the machine before or after a job."""
    machine, draw = scene.machine, scene.draw
    slow = 1.08 if scene.moment.hot else 1.0
    spread = max(_CONTROL_SPREAD, machine.spread / 2)
    parts = {"integer": INTEGER_MS * machine.speed, "memory": MEMORY_MS * machine.speed}
    control: dict[str, JsonValue] = {"version": 1}
    history: dict[str, JsonValue] = {"entries": _HISTORY}
    for name, usual in parts.items():
        took = usual * slow * math.exp(spread * float(draw.normal()))
        control[f"{name}_ms"] = round(took, 4)
        history[name] = {
            "median_ms": round(usual, 4),
            "band_pct": round(300 * spread, 3),
            "drift_pct": round(100 * (took / usual - 1), 3),
        }
    others = 18.0 if scene.busy else float(draw.uniform(0.3, 2.5))
    warm = 91.0 if scene.moment.hot else 44.0 + float(draw.uniform(0, 6))
    available = int(0.7 * machine.memory)
    fitness: dict[str, JsonValue] = {
        "at": iso(scene.at),
        "device": machine.device or "cpu",
        "memory": {"total_bytes": machine.memory, "available_bytes": available},
        "control": {**control, "history": history},
        "load": {"average_1m": round(others / 20, 2), "others_pct": round(others, 2)},
        "heat": {"nearest": {"sensor": "package", "celsius": round(warm, 1), "headroom_c": round(95.0 - warm, 1)}},
    }
    if machine.os == "linux":
        fitness["clock"] = {"source": "arch_sys_counter" if machine.architecture == "aarch64" else "tsc"}
        fitness["processor"] = {"governors": {_governor(machine): machine.cores}, "turbo": "on"}
    if machine.device == "cuda":
        fitness["gpus"] = [
            {"index": 0, "name": machine.gpu, "temperature_c": 41.0, "headroom_c": 46.0, "throttle": [], "foreign": []}
        ]
    return {
        "load_average": [round(others / 20, 2)] * 3,
        "memory_available_bytes": available,
        "busy_processes": [{"name": "updatedb", "pid": 4211, "cpu_pct": 94.0}] if scene.busy else [],
        "fitness": fitness,
    }


def log_lines(scene: Scene, result: MultiRunJobResult) -> Iterator[str]:
    """The lines of one attempt, oldest first."""
    yield f"simulated: nothing was measured on {scene.machine.name}"
    for run in result.runs:
        yield f"run {run.run_id + 1} of {scene.runs} begins"
        for phase, seconds in run.phases.items():
            yield f"run {run.run_id + 1}: {phase} took {seconds:.2f} s"
        if run.error is not None:
            yield from run.error.log_tail
            yield f"run {run.run_id + 1} failed: {run.error.message}"
        else:
            yield f"run {run.run_id + 1} ended"


_EVERY_S = 0.1
_MOST_LOOKS = 600
# Where the clock of a machine stood when the run began; any number is as good.
_ORIGIN_NS = 7_200_000_000_000
_NO_COUNTER = "this machine has no energy counter that can be read"
_THERMAL_BIT = 0x40  # of NVML: slowed down by the software for heat
# Between two runs: the process ends, the next one starts.
_BETWEEN_S = 1.5


def telemetry_of(
    scene: Scene, phases: Mapping[str, float], work: float, rss_mb: float, spans: Mapping[str, Mapping[str, JsonValue]]
) -> MachineTelemetry:
    before = sum(seconds for name, seconds in phases.items() if name in ("prepare", "load", "first", "warmup"))
    measured = phases.get("measure", sum(phases.values()))
    begin = _ORIGIN_NS + int(before * 1e9)
    means = _levels(scene, work, rss_mb)
    statistics = {name: {"mean": level, "min": 0.94 * level, "max": 1.05 * level} for name, level in means.items()}
    energy, absent = _energy(scene, work, measured)
    held = ("slowed down for heat",) if scene.moment.hot else ()
    throttled: dict[str, tuple[str, ...]] = {"cpu": held} if scene.machine.architecture == "x86_64" else {}
    on_gpu = _on_gpu(scene)
    return MachineTelemetry(
        window_ns=(begin, begin + int(measured * 1e9)),
        every_s=_EVERY_S,
        looks=max(1, int(measured / _EVERY_S)),
        statistics=statistics,
        energy=energy,
        throttled=throttled | ({"gpu:0": ()} if on_gpu else {}),
        foreign={"gpu:0": ()} if on_gpu else {},
        spans=spans,
        cost={"cpu_s": 0.006 * measured, "cpu_pct": 0.6, "look_ms": 0.55, "slowest_look_ms": 2.1},
        absent=absent,
    )


def write_telemetry(scene: Scene, run: int, phases: Mapping[str, float], work: float, rss_mb: float) -> Path:
    """All readings of a run, as the file that is kept with it."""
    length = sum(phases.values())
    count = min(_MOST_LOOKS, max(20, int(length / _EVERY_S)))
    at_s = np.linspace(0.0, length, count)
    busy = _busy_share(at_s, phases)
    at_ns = (_ORIGIN_NS + at_s * 1e9).astype(np.int64).tolist()
    rows: list[Rows] = list(_marks(phases))
    for name, level in _levels(scene, work, rss_mb).items():
        source, _, reading = name.rpartition(".")
        values = _course(scene, reading, level, busy)
        rows.append((source, reading, "", at_ns, [round(float(value), 3) for value in values]))
    if scene.moment.hot and _on_gpu(scene):
        bits = np.where(busy > 0.5, _THERMAL_BIT, 0)
        rows.append(("gpu:0", "throttle_bits", "", at_ns, bits.astype(float).tolist()))
    path = scene.scratch / f"run-{run}-{FILE}"
    write(path, rows)
    return path


def _on_gpu(scene: Scene) -> bool:
    kind = getattr(scene.job.definition.target, "device", None)
    return scene.machine.device == "cuda" and kind != "cpu"


def _levels(scene: Scene, work: float, rss_mb: float) -> dict[str, float]:
    """Reading → its level while the clock runs."""
    machine = scene.machine
    cores = 1.0 if _on_gpu(scene) else max(1.0, 0.5 * machine.cores)
    slow = 0.82 if scene.moment.hot else 1.0
    readings = {
        "job.cpu_pct": 100 * work * cores,
        "others.cpu_pct": 18.0 * machine.cores if scene.busy else 1.4 * machine.cores,
        "job.rss_bytes": rss_mb * 1e6,
        "machine.memory_available_bytes": 0.7 * machine.memory,
    }
    if machine.os == "linux":
        readings |= {"machine.cpu_mhz": 3400 * slow / max(1.0, machine.speed / 4), "machine.temperature_c": 61 / slow}
    if _on_gpu(scene):
        readings |= {
            "gpu:0.gpu_util_pct": 100 * min(1.0, work),
            "gpu:0.gpu_mem_bytes": 0.85 * (machine.gpu_memory or 0),
            "gpu:0.power_w": _gpu_w(scene, work),
            "gpu:0.sm_mhz": 1755 * slow,
            "gpu:0.temperature_c": 58 / slow,
            "gpu:0.job_processes": 1.0,
        }
    elif machine.idle_w and machine.architecture == "x86_64" and machine.os == "linux":
        readings["rapl:package-0.power_w"] = _cpu_w(scene, work)
    return readings


def _cpu_w(scene: Scene, work: float) -> float:
    return scene.machine.idle_w + work * (scene.machine.busy_w - scene.machine.idle_w)


def _gpu_w(scene: Scene, work: float) -> float:
    return 0.8 * _cpu_w(scene, work)


def _energy(scene: Scene, work: float, seconds: float) -> tuple[tuple[Energy, ...], dict[str, str]]:
    machine = scene.machine
    if _on_gpu(scene):
        idle = 0.6 * machine.idle_w
        watts = _gpu_w(scene, work) * scene.between_runs()
        return (Energy("NVML energy counter of GPU 0", "gpu", watts * seconds, seconds, "counter", idle),), {}
    if machine.architecture == "x86_64" and machine.os == "linux":
        watts = _cpu_w(scene, work) * scene.between_runs()
        return (Energy("RAPL package-0", "package", watts * seconds, seconds, "counter", machine.idle_w),), {}
    return (), {"rapl": _NO_COUNTER}


def _marks(phases: Mapping[str, float]) -> list[Rows]:
    rows: list[Rows] = []
    at = _ORIGIN_NS
    for name, seconds in phases.items():
        end = at + int(seconds * 1e9)
        rows.append(("phase", name, "", [at, end], [1.0, 0.0]))
        at = end
    return rows


def _busy_share(at_s: Values, phases: Mapping[str, float]) -> Values:
    """How busy a run is at each moment: little while it loads, all while it is measured."""
    level = {"prepare": 0.05, "load": 0.35, "first": 0.8, "warmup": 0.95, "measure": 1.0, "score": 0.2, "cleanup": 0.05}
    busy, at = np.zeros_like(at_s), 0.0
    for name, seconds in phases.items():
        busy[(at_s >= at) & (at_s <= at + seconds)] = level.get(name, 0.5)
        at += seconds
    return busy


def _course(scene: Scene, reading: str, level: float, busy: Values) -> Values:
    """One reading over time: it follows the work, warms up slowly, or stays where it is."""
    noise = scene.draw.normal(size=busy.size)
    if reading in ("cpu_pct", "gpu_util_pct", "power_w"):
        return np.maximum(0.0, level * busy * (1 + 0.04 * noise))
    if reading == "temperature_c":
        warm = 1 - np.exp(-np.cumsum(busy) / max(1.0, busy.size / 6))
        return 38 + (level - 38) * warm + 0.3 * noise
    if reading in ("rss_bytes", "gpu_mem_bytes"):
        return level * np.minimum(1.0, 0.3 + np.maximum.accumulate(busy) * 0.7) + 0 * noise
    return level * (1 + 0.004 * noise) if reading != "job_processes" else level + 0 * noise


@dataclass(frozen=True, slots=True)
class DrawnRun:
    """One run as its kind of target draws it."""

    phases: Mapping[str, float]
    """Seconds in each."""
    metrics: Mapping[str, float]
    samples: tuple[SampleSet, ...] = ()
    facts: Mapping[str, JsonValue] = field(default_factory=dict)
    device: DeviceProof | None = None
    work: float = 0.7
    """How busy the device was, as a share."""
    rss_mb: float = 300.0
    spans: Mapping[str, Mapping[str, JsonValue]] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)
    error: Failure | None = None


def outcomes(scene: Scene, drawn: Sequence[DrawnRun]) -> list[RunOutcome]:
    run_outcomes, at = [], 0.0
    for number, drawn_run in enumerate(drawn):
        run_outcomes.append(_outcome(scene, number, drawn_run, at))
        at += sum(drawn_run.phases.values()) + _BETWEEN_S
    return run_outcomes


def _outcome(scene: Scene, number: int, drawn: DrawnRun, at_s: float) -> RunOutcome:
    length = sum(drawn.phases.values())
    observed = None if drawn.error else telemetry_of(scene, drawn.phases, drawn.work, drawn.rss_mb, drawn.spans)
    labels = {"gpu": enrolment(scene.machine).profile.labels.get("gpu", "")} if scene.machine.gpu else {}
    more, absent, facts = derived(drawn.metrics, observed, scene.job.definition, labels, scene.machine.name)
    files = dict(drawn.files)
    if scene.rich and observed is not None:
        files[FILE] = write_telemetry(scene, number, drawn.phases, drawn.work, drawn.rss_mb)
    begin = scene.at + timedelta(seconds=at_s)
    counts = {
        sample_set.metric: int(sample_set.value.size) for sample_set in drawn.samples if sample_set.phase == "measure"
    }
    result = SingleRunResult(
        run_id=number,
        is_cold_start=number == 0,
        started_at=iso(begin),
        completed_at=iso(begin + timedelta(seconds=length)),
        duration_seconds=round(length, 3),
        phases=dict(drawn.phases),
        metrics={} if drawn.error else {**drawn.metrics, **more},
        absent=absent,
        sample_counts=counts,
        facts={**drawn.facts, **facts, "simulated": True},
        device=drawn.device,
        window=None if drawn.error else _window(scene, drawn),
        error=drawn.error,
        seen=observed,
    )
    return RunOutcome(result, drawn.samples, files)


def _window(scene: Scene, drawn: DrawnRun) -> Window:
    wall, machine = drawn.phases.get("measure", 1.0), scene.machine
    others = 0.18 if scene.busy else float(scene.draw.uniform(0.002, 0.02))
    counted = machine.os == "linux" and machine.architecture == "x86_64"
    return Window(
        wall_s=wall,
        cpu_s=wall * max(0.2, drawn.work * machine.cores * 0.5),
        others_cpu_s=wall * machine.cores * others,
        steal_s=0.0,
        cores=machine.cores,
        throttle_events=(7 if scene.moment.hot else 0) if counted else None,
        harness_ns=180.0,
        load_average_before=0.2,
        load_average_after=1.1,
    )


def failed(scene: Scene, failure: Failure, phases: Mapping[str, float]) -> list[RunOutcome]:
    return outcomes(scene, [DrawnRun(phases, {}, error=failure)] * scene.runs)
