"""What is around one job while its numbers are drawn: the machine of that day, its state, and its log."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from assay.analyse.records import MultiRunJobResult
from assay.clock import iso
from assay.demo.machines import GIB, DemoMachine, machine_facts
from assay.demo.scenario import Conditions
from assay.plan.job import Job
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
    """Whether somebody else uses the machine meanwhile."""

    @property
    def machine(self) -> DemoMachine:
        """The machine, with the software of the day."""
        return self.moment.machine

    @property
    def runs(self) -> int:
        """How many runs the job asks for."""
        return self.job.definition.measure.runs

    def between_runs(self) -> float:
        """By how much one run is slower than the others."""
        spread = self.machine.spread * (4 if self.busy else 1)
        return math.exp(spread * float(self.draw.normal()))

    def times(self, level: float, count: int, spread: float, tail: float = 0.01) -> Values:
        """So many times around a level; a few of them far above it."""
        values = level * np.exp(spread * self.draw.normal(size=count))
        late = self.draw.random(count) < tail
        values[late] *= 1 + self.draw.exponential(0.6, int(late.sum()))
        return values

    def moments_ns(self, count: int, seconds: float) -> NDArray[np.int64]:
        """When so many samples began, at random moments of a stretch."""
        return np.sort(self.draw.random(count) * seconds * 1e9).astype(np.int64)


def environment(scene: Scene) -> dict[str, JsonValue]:
    """What was around a job, in the words of a real environment record."""
    machine = scene.machine
    facts: dict[str, JsonValue] = {
        "simulated": "demo data: nothing of this was measured",
        "machine": machine_facts(machine),
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
    fitness: dict[str, JsonValue] = {
        "at": iso(scene.at),
        "device": machine.device or "cpu",
        "memory": {"total_bytes": machine.memory_gib * GIB, "available_bytes": int(0.7 * machine.memory_gib * GIB)},
        "control": {**control, "history": history},
        "load": {"average_1m": round(others / 20, 2), "others_pct": round(others, 2)},
        "heat": _heat(scene),
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
        "memory_available_bytes": int(0.7 * machine.memory_gib * GIB),
        "busy_processes": _busy(scene),
        "fitness": fitness,
    }


def _heat(scene: Scene) -> dict[str, JsonValue]:
    warm = 91.0 if scene.moment.hot else 44.0 + float(scene.draw.uniform(0, 6))
    return {"nearest": {"sensor": "package", "celsius": round(warm, 1), "headroom_c": round(95.0 - warm, 1)}}


def _busy(scene: Scene) -> list[JsonValue]:
    return [{"name": "updatedb", "pid": 4211, "cpu_pct": 94.0}] if scene.busy else []


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
