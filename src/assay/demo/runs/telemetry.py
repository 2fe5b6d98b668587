"""What another process would have seen of a run: statistics of each reading, energy, and the readings themselves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from pydantic import JsonValue

from assay.demo.scene import Scene, Values
from assay.run.probes.columns import Rows, write
from assay.run.probes.job import FILE
from assay.run.records import Energy, MachineTelemetry

__all__ = ["FILE", "seen_of", "write_telemetry"]

_EVERY_S = 0.1
_MOST_LOOKS = 600
# Where the clock of a machine stood when the run began; any number is as good.
_ORIGIN_NS = 7_200_000_000_000
_NO_COUNTER = "this machine has no energy counter that can be read"
_THERMAL_BIT = 0x40  # of NVML: slowed down by the software for heat


def seen_of(
    scene: Scene, phases: Mapping[str, float], work: float, rss_mb: float, spans: Mapping[str, Mapping[str, JsonValue]]
) -> MachineTelemetry:
    """What was seen of the measured window."""
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
    busy = _busy(at_s, phases)
    at_ns = (_ORIGIN_NS + at_s * 1e9).astype(np.int64).tolist()
    rows: list[Rows] = list(_marks(phases))
    for name, level in _levels(scene, work, rss_mb).items():
        source, _, reading = name.rpartition(".")
        values = _course(scene, reading, level, busy)
        rows.append((source, reading, "", at_ns, [round(float(one), 3) for one in values]))
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
    found = {
        "job.cpu_pct": 100 * work * cores,
        "others.cpu_pct": 18.0 * machine.cores if scene.busy else 1.4 * machine.cores,
        "job.rss_bytes": rss_mb * 1e6,
        "machine.memory_available_bytes": 0.7 * machine.memory_gib * 2**30,
    }
    if machine.os == "linux":
        found |= {"machine.cpu_mhz": 3400 * slow / max(1.0, machine.speed / 4), "machine.temperature_c": 61 / slow}
    if _on_gpu(scene):
        found |= {
            "gpu:0.gpu_util_pct": 100 * min(1.0, work),
            "gpu:0.gpu_mem_bytes": 0.85 * machine.gpu_gib * 2**30,
            "gpu:0.power_w": _gpu_w(scene, work),
            "gpu:0.sm_mhz": 1755 * slow,
            "gpu:0.temperature_c": 58 / slow,
            "gpu:0.job_processes": 1.0,
        }
    elif machine.idle_w and machine.architecture == "x86_64" and machine.os == "linux":
        found["rapl:package-0.power_w"] = _cpu_w(scene, work)
    return found


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


def _busy(at_s: Values, phases: Mapping[str, float]) -> Values:
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
