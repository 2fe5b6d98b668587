"""The hardware itself: bandwidth over sizes, arithmetic by precision, beside a bare loop."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from pydantic import JsonValue

from assay.demo.machines import DemoMachine
from assay.demo.runs.record import DrawnRun, outcomes
from assay.demo.scene import Scene
from assay.metrics import describe
from assay.run.records import DeviceProof, RunOutcome, SampleSet

# Of an H100: test → its metric and value.
_BOARD = {
    "copy": ("copy_gb_per_s", 2900.0), "read": ("read_gb_per_s", 3010.0), "write": ("write_gb_per_s", 2840.0),
    "triad": ("triad_gb_per_s", 2920.0), "to_device_pinned": ("to_device_pinned_gb_per_s", 54.0),
    "from_device_pinned": ("from_device_pinned_gb_per_s", 52.0), "fp64": ("fp64_tflops", 58.0),
    "fp32": ("fp32_tflops", 51.0), "tf32": ("tf32_tflops", 410.0), "fp16": ("fp16_tflops", 780.0),
    "bf16": ("bf16_tflops", 770.0), "int8": ("int8_tops", 1480.0), "fp8": ("fp8_tflops", 1390.0),
}  # fmt: skip
# Of a server's processor.
_PROCESSOR = {
    "copy": ("copy_gb_per_s", 310.0), "read": ("read_gb_per_s", 360.0), "write": ("write_gb_per_s", 240.0),
    "triad": ("triad_gb_per_s", 300.0), "fp64": ("fp64_tflops", 1.9), "fp32": ("fp32_tflops", 3.9),
    "storage": ("storage_read_gb_per_s", 5.6),
}  # fmt: skip
_BLOCKS = 24
_EACH_S = 3.0


def device_runs(scene: Scene) -> list[RunOutcome]:
    return outcomes(scene, [_run(scene) for _ in range(scene.runs)])


def _run(scene: Scene) -> DrawnRun:
    asked = str(getattr(scene.job.definition.target, "device", "cpu"))
    tests = {name: figure for name, figure in _tests(scene.machine, asked).items() if figure[1] > 0}
    slow = scene.moment.slower * scene.between_runs()
    told: dict[str, JsonValue] = {}
    bare: dict[str, JsonValue] = {}
    samples: list[SampleSet] = []
    spans: dict[str, Mapping[str, JsonValue]] = {}
    for place, (name, (metric, best)) in enumerate(tests.items()):
        level = best / slow
        values = level * np.exp(0.004 * scene.draw.normal(size=_BLOCKS))
        begin = int(place * _EACH_S * 1e9)
        samples.append(SampleSet(metric, "measure", begin + scene.moments_ns(_BLOCKS, _EACH_S), values))
        told[name] = _curve(scene, name, metric, level, begin)
        bare[name] = _ratio(scene)
        spans[name] = _span(scene, asked)
    metrics = {one.metric: float(np.median(one.value)) for one in samples}
    facts: dict[str, JsonValue] = {"device": {"name": scene.machine.gpu or scene.machine.cpu}, "tests": told}
    if asked != "cpu":
        facts["bare"] = bare
    proof = DeviceProof(asked, asked, {asked: 24}, "devices of 24 result tensors, read after each size")
    phases = {"prepare": 0.1, "load": 1.4, "measure": _EACH_S * len(tests), "score": 0.1, "cleanup": 0.1}
    return DrawnRun(phases, metrics, tuple(samples), facts, proof, work=0.97, rss_mb=900.0, spans=spans)


def _tests(machine: DemoMachine, asked: str) -> Mapping[str, tuple[str, float]]:
    """What a machine can do, beside those that are known best."""
    if asked == "cpu":
        cores = machine.cores / 48
        return {
            name: (metric, best * (cores**0.8 if metric.endswith("gb_per_s") else cores) / machine.speed**0.6)
            for name, (metric, best) in _PROCESSOR.items()
        }
    memory = {"NVIDIA H100 80GB HBM3": 1.0, "NVIDIA A100-SXM4-80GB": 0.58, "NVIDIA L4": 0.084}.get(machine.gpu, 0.31)
    new = any(name in machine.gpu for name in ("H100", "L4", "4090"))
    found = {}
    for name, (metric, best) in _BOARD.items():
        slow_fp64 = name == "fp64" and not any(one in machine.gpu for one in ("H100", "A100"))
        share = memory if describe(metric).unit == "GB/s" and "device" not in name else machine.gpu_speed
        share = 0.5 if "device" in name and machine.gpu_speed < 1 else share
        value = 0.0 if name == "fp8" and not new else best * share * (0.03 if slow_fp64 else 1.0)
        found[name] = (metric, value)
    return found


def _curve(scene: Scene, name: str, metric: str, level: float, begin_ns: int) -> JsonValue:
    """A test as a result keeps it: a curve over sizes that becomes level, and the size that speaks for it."""
    by, powers = ("bytes", range(20, 31, 2)) if metric.endswith("gb_per_s") else ("n", range(9, 15))
    sizes = [2.0**power for power in powers]
    shares = 1 - np.exp(-np.arange(1, len(sizes) + 1) / 1.4)
    points: list[JsonValue] = [
        {
            by: size,
            "value": float(level * share / shares[-1] * (1 + 0.003 * scene.draw.normal())),
            "blocks": _BLOCKS,
            "spread": 0.012,
        }
        for size, share in zip(sizes, shares, strict=True)
    ]
    last: JsonValue = {by: sizes[-1], "value": level, "blocks": _BLOCKS, "spread": 0.012}
    return {
        "metric": metric,
        "begin_ns": begin_ns,
        "end_ns": begin_ns + int(_EACH_S * 1e9),
        "curve": [*points[:-1], last],
        "best": {by: sizes[-1], "value": level},
        "reported": last,
        "plateau": {by: [*sizes[-3:]], "within": 0.1},
        "how": {"test": name},
    }


def _ratio(scene: Scene) -> JsonValue:
    ratio = 0.994 + 0.003 * float(scene.draw.normal())
    return {"ratio": ratio, "low": ratio - 0.006, "high": ratio + 0.006}


def _span(scene: Scene, asked: str) -> Mapping[str, JsonValue]:
    if asked == "cpu":
        return {}
    watts = 0.8 * scene.machine.busy_w
    return {
        "statistics": {
            "gpu:0.power_w": {"mean": watts, "min": watts, "max": watts},
            "gpu:0.sm_mhz": {"mean": 1740.0, "min": 1710.0, "max": 1755.0},
            "gpu:0.temperature_c": {"mean": 61.0, "min": 55.0, "max": 64.0},
        },
        "throttled": {"gpu:0": []},
    }
