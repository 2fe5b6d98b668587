"""Jobs that were looked at from the side, with readings whose values are known: a GPU job, a processor, a device."""

from __future__ import annotations

import csv
import gzip
import io
from dataclasses import replace

import numpy as np
from tests.unit.report import conftest as build

from assay.analyse.records import MultiRunJobResult
from assay.run.probes import FILE
from assay.run.records import Energy, MachineTelemetry

S = 1_000_000_000
BEGIN = 1000 * S  # of the measured window of run 0, on a clock that nobody knows the zero of
PHASES = (
    ("load", -4.0, -3.0),
    ("first", -3.0, -2.98),
    ("warmup", -2.98, 0.0),
    ("measure", 0.0, 10.0),
    ("score", 10.0, 11.0),
)
POWER_CAP, IDLE = 0x4, 0x1


def readings(run: int = 0) -> dict[tuple[str, str], tuple[np.ndarray, np.ndarray]]:
    """What was read, ten times a second from five seconds before the window to one after it."""
    at = np.round(np.arange(-5.0, 11.0, 0.1), 1)
    measured = (at >= 0) & (at <= 10)
    throttled = (at >= 6) & (at < 8)
    power = np.where(measured, 600.0 + run, 80.0)
    return {
        ("job", "cpu_pct"): (at, np.where(measured, 100.0, 20.0)),
        ("others", "cpu_pct"): (at, np.full(at.size, 5.0)),
        ("job", "rss_bytes"): (at, np.linspace(1e9, 3e9, at.size)),
        ("gpu:0", "gpu_util_pct"): (at, np.where(measured, 98.0, 0.0)),
        ("gpu:0", "gpu_mem_bytes"): (at, np.full(at.size, 40e9)),
        ("gpu:0", "power_w"): (at, power),
        ("gpu:0", "energy_j"): (at, np.cumsum(power) / 10),
        ("gpu:0", "sm_mhz"): (at, np.where(throttled, 1200.0, 1980.0)),
        ("gpu:0", "temperature_c"): (at, np.linspace(40.0, 70.0, at.size)),
        ("gpu:0", "throttle_bits"): (at, np.where(throttled, POWER_CAP, np.where(measured, 0, IDLE))),
        ("rapl:package-0", "energy_j"): (at, 120.0 * (at + 5)),
    }


def recorded(run: int = 0, more=None, phases=PHASES) -> bytes:
    """The file that a probe would have left."""
    origin = BEGIN + run * 60 * S
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("source", "name", "labels", "at_ns", "value"))
    for (source, name), (at, value) in {**readings(run), **(more or {})}.items():
        moments = (at * S).round().astype(np.int64) + origin
        writer.writerows((source, name, "", a, v) for a, v in zip(moments.tolist(), value.tolist(), strict=True))
    for name, begin, end in phases:
        writer.writerows(
            (("phase", name, "", origin + round(begin * S), 1), ("phase", name, "", origin + round(end * S), 0))
        )
    return gzip.compress(text.getvalue().encode())


def seen(run: int = 0, **more) -> MachineTelemetry:
    energy = (
        Energy("NVML energy counter of GPU 0", "gpu", 6000.0 + 10 * run, 10.0, "counter", 81.0),
        Energy("RAPL counter of package-0", "package", 1200.0, 10.0, "counter", 40.0),
    )
    told = {
        "statistics": {
            "job.cpu_pct": {"mean": 100.0, "min": 90.0, "max": 105.0 + run},
            "others.cpu_pct": {"mean": 5.0, "min": 5.0, "max": 5.0},
            "gpu:0.power_w": {"mean": 600.0 + run, "min": 590.0, "max": 610.0},
            "gpu:0.temperature_c": {"mean": 58.0, "min": 49.0, "max": 68.0},
            "job.rss_bytes": {"mean": 2 * 2.0**30, "min": 2.0**30, "max": 3 * 2.0**30},
            "machine.net_in_bytes_per_s": {"mean": 2.5e6, "min": 0.0, "max": 5e6},
        },
        "energy": energy,
        "throttled": {"gpu:0": ("power cap",) if run == 0 else ()},
        "foreign": {"gpu:0": ("other (pid 12)",) if run == 1 else ()},
        "cost": {"cpu_s": 0.05, "cpu_pct": 0.42, "look_ms": 0.31, "slowest_look_ms": 4.2},
        "absent": {"machine.cpu_mhz": "no core tells its clock"},
    }
    return MachineTelemetry((BEGIN, BEGIN + 10 * S), 0.1, 100, **{**told, **more})


ENERGY = {
    "energy_j": 7200.0,
    "power_w": 720.0,
    "energy_per_item_j": 12.3,
    "items_per_j": 0.0813,
    "items_per_cost": 91_000.0,
}


def energy_facts(grade: str = "counter", *sources: str, idle_w: float | None = 121.0) -> dict:
    """What a run tells of the energy of its job, as `run.derived` does."""
    named = sources or ("NVML energy counter of GPU 0", "RAPL counter of package-0")
    return {"grade": grade, "joules": 7200.0, "seconds": 10.0, "watts": 720.0, "idle_w": idle_w, "sources": list(named)}


def fitness(drift: float, warm: float) -> dict:
    """A state of the machine as it is read before and after a job."""
    usual = {"median_ms": 20.0, "band_pct": 3.0, "drift_pct": drift}
    return {
        "at": "2026-02-03T10:00:00+00:00",
        "device": "cuda",
        "processor": {"governors": {"performance": 16}, "turbo": "on", "held_down": []},
        "heat": {
            "sensors": 2,
            "hottest": {"sensor": "coretemp", "celsius": warm},
            "nearest": {"sensor": "coretemp", "celsius": warm, "limit_c": 100.0, "headroom_c": 100.0 - warm},
        },
        "memory": {"total_bytes": 2**34, "available_bytes": 2**33, "swap_used_bytes": 0},
        "clock": {"source": "tsc", "available": ["tsc"]},
        "gpus": [
            {
                "index": 0,
                "name": "A board",
                "temperature_c": warm - 10,
                "headroom_c": 30.0,
                "throttle": [],
                "foreign": [{"pid": 99, "name": "other"}],
            }
        ],
        "control": {"version": 1, "integer_ms": 20.4, "memory_ms": 8.0, "history": {"entries": 9, "integer": usual}},
        "load": {"average_1m": 0.4, "others_pct": 1.25, "steal_pct": 0.0},
        "absent": {"thermal headroom": "<b>no</b> sensor tells"},
    }


def job(index: int = 0, **more) -> MultiRunJobResult:
    """A job on a GPU, watched in all its runs."""
    plain = build.done_job(index)
    runs = tuple(
        replace(
            run,
            seen=seen(run.run_id),
            files={FILE: f"{run.run_id:064x}"},
            absent={},
            metrics={**run.metrics, **{name: value + run.run_id / 1e4 for name, value in ENERGY.items()}},
            facts={
                **run.facts,
                "energy": energy_facts(),
                "price": {"per_hour": 2.5, "currency": "USD", "date": "2026-01-30", "matched": "*"},
            },
        )
        for run in plain.runs
    )
    metrics = {
        name: build.statistics(name, {run.run_id: np.array([run.metrics[name]]) for run in runs}) for name in ENERGY
    }
    states = {"before": {"fitness": fitness(1.5, 50.0)}, "after": {"fitness": fitness(-0.4, 62.0)}}
    told = {"runs": runs, "metrics": {**plain.metrics, **metrics}, "environment": {**plain.environment, **states}}
    return replace(plain, **{**told, **more})


def files(job_id: str, run: int, name: str) -> bytes | None:
    return recorded(run) if name == FILE else None


def unseen_job(reason: str = "/sys/class/powercap is not there", index: int = 1) -> MultiRunJobResult:
    """A job that was watched on a machine without any counter."""
    plain = build.done_job(index)
    blind = seen(energy=(), throttled={}, foreign={}, absent={"rapl": reason})
    return replace(plain, runs=tuple(replace(run, seen=blind, absent={"energy_j": reason}) for run in plain.runs))


SIZES = tuple(2**power for power in range(20, 31))
SHAPES = (512, 1024, 2048, 4096, 8192, 16384)
PEAKS = {"fp64": 60.0, "fp32": 52.0, "bf16": 800.0}


def _curve(run: int, name: str) -> list[dict]:
    scale = 1 + run / 1000
    if name in PEAKS:
        return [
            {"n": n, "value": PEAKS[name] * scale * (1 - 1 / (n / 256)), "blocks": 9, "spread": 0.01} for n in SHAPES
        ]
    return [
        {"bytes": size, "value": 4000.0 * scale if size >= 2**26 else 1000.0 * scale, "blocks": 9, "spread": 0.02}
        for size in SIZES
    ]


def _test(run: int, name: str, place: int) -> dict:
    curve = _curve(run, name)
    by = "n" if name in PEAKS else "bytes"
    metric = f"{name}_tflops" if name in PEAKS else f"{name}_gb_per_s"
    best = max(curve, key=lambda point: point["value"])
    told = {
        "metric": metric,
        "begin_ns": BEGIN + place * S,
        "end_ns": BEGIN + (place + 1) * S,
        "curve": curve,
        "best": {by: best[by], "value": best["value"]},
        "how": {},
    }
    if by == "n":
        return {**told, "reported": best, "check": {"largest_error": 1e-3, "tolerance": 1e-2, "sizes": 6}}
    level = [size for size in SIZES if size >= 2**26]
    return {**told, "reported": curve[-2], "plateau": {"bytes": level, "value": curve[-2]["value"], "within": 0.05}}


def device_job(index: int = 0, tests=("copy", "read", "fp64", "fp32", "bf16")) -> MultiRunJobResult:
    """A device benchmark: known curves, one test throttled, one that could not be measured."""
    plain = build.done_job(index)
    runs, values = [], {}
    for run in plain.runs[:3]:
        told = {name: _test(run.run_id, name, place) for place, name in enumerate(tests)}
        told["fp8"] = {"metric": "fp8_tflops", "begin_ns": 1, "end_ns": 2, "absent": "this board has no FP8", "how": {}}
        spans = {
            name: {
                "statistics": {
                    "gpu:0.sm_mhz": {"mean": 1980.0},
                    "gpu:0.power_w": {"mean": 650.0},
                    "gpu:0.temperature_c": {"mean": 61.0},
                },
                "throttled": {"gpu:0": ["power cap"] if name == "bf16" else []},
            }
            for name in told
        }
        metrics = {one["metric"]: one["reported"]["value"] for one in told.values() if "reported" in one}
        for name, value in metrics.items():
            values.setdefault(name, {})[run.run_id] = np.array([value])
        bare = {"bf16": {"ratio": 0.991, "low": 0.985, "high": 0.997, "pairs": 9}}
        facts = {"tests": told, "bare": bare}
        runs.append(replace(run, metrics=metrics, absent={}, facts=facts, seen=seen(spans=spans), sample_counts={}))
    statistics = {name: build.statistics(name, found) for name, found in values.items()}
    definition = {"target": {"device": "cuda"}, "measure": {"runs": 3}}
    return replace(
        plain,
        runs=tuple(runs),
        metrics=statistics,
        definition=definition,
        point={},
        gates=(),
        cold_start={},
        total_runs=3,
        successful_runs=3,
    )
