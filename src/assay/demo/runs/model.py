"""A model file in our own process: latency, throughput and memory over batch and threads."""

from __future__ import annotations

import hashlib

import numpy as np
from pydantic import JsonValue

from assay.demo.runs.record import Drawn, outcomes
from assay.demo.scene import Scene
from assay.run.records import DeviceProof, RunOutcome, SampleSet
from assay.spec.target import ModelTarget

# Milliseconds of one item with one thread of a server, megabytes of the model.
_MODELS = {"squeezenet": (21.0, 5.0), "mobilenet": (9.5, 9.0), "resnet50": (68.0, 98.0)}
_WITHIN = 0.018
_MEASURE_S, _RICH_S = 6.0, 10.0


def model_runs(scene: Scene) -> list[RunOutcome]:
    return outcomes(scene, [_run(scene, number) for number in range(scene.runs)])


def level_ms(scene: Scene) -> float:
    """What one call takes here at this time."""
    target, batch = _target(scene), scene.job.definition.workload.batch or 1
    each, _ = _model(target)
    if target.device.startswith("cuda"):
        return (0.7 + each / 640 * batch) / max(scene.machine.gpu_speed, 0.01) * scene.moment.slower
    threads = min(target.threads or scene.machine.cores // 2, scene.machine.cores)
    return float(each * batch**0.94 / threads**0.78 * scene.machine.speed * scene.moment.slower)


def _run(scene: Scene, number: int) -> Drawn:
    target, batch = _target(scene), scene.job.definition.workload.batch or 1
    _, model_mb = _model(target)
    level = level_ms(scene) * scene.between_runs()
    seconds = _RICH_S if scene.rich else _MEASURE_S
    count = int(np.clip(seconds * 1000 / level, 120, 900 if scene.rich else 160))
    values = scene.times(level, count, _WITHIN)
    warm = level * (1 + 0.8 * np.exp(-np.arange(24) / 5)) * np.exp(_WITHIN * scene.draw.normal(size=24))
    cold = 2.6 if number == 0 else 1.0
    memory = (70 + 3.2 * model_mb + 1.1 * batch) * scene.moment.heavier
    metrics = {
        "load_ms": (40 + 3 * model_mb) * cold * scene.machine.speed * scene.between_runs(),
        "first_ms": level * 4.2 * (1.5 if number == 0 else 1.0) * scene.between_runs(),
        "throughput_per_s": batch * 1000 / float(values.mean()),
        "baseline_rss_mb": 71.5 + float(scene.draw.normal(0, 0.2)),
        "peak_load_rss_mb": 71.5 + 2.1 * model_mb + float(scene.draw.normal(0, 0.4)),
        "peak_run_rss_mb": memory * (1 + 0.002 * float(scene.draw.normal())),
        "cpu_pct": 96.0 * min(target.threads or 4, scene.machine.cores),
        "cpu_ms": level * min(target.threads or 4, scene.machine.cores),
    }
    if target.device.startswith("cuda"):
        metrics["gpu_mem_mb"] = 420 + 9.0 * batch
    phases = {
        "prepare": 0.2,
        "load": metrics["load_ms"] / 1000,
        "first": metrics["first_ms"] / 1000,
        "warmup": 1.8,
        "measure": seconds,
        "score": 0.1,
        "cleanup": 0.2,
    }
    samples = (
        SampleSet("latency_ms", "warmup", (np.cumsum(warm) * 1e6).astype(np.int64), warm),
        SampleSet("latency_ms", "measure", (np.linspace(0, seconds, count) * 1e9).astype(np.int64), values),
    )
    digest = hashlib.sha256(f"{target.model}/{scene.moment.heavier:.3f}".encode()).hexdigest()
    facts: dict[str, JsonValue] = {
        "model": {"file": target.model, "sha256": digest, "size_bytes": int(model_mb * 1e6)},
        "warmup": {"steady": True, "calls": 24},
    }
    provider = "CUDAExecutionProvider" if target.device.startswith("cuda") else "CPUExecutionProvider"
    proof = DeviceProof(target.device, target.device, {provider: 66}, "nodes by provider, as the runtime tells them")
    return Drawn(phases, metrics, samples, facts, proof, work=0.85, rss_mb=memory)


def _target(scene: Scene) -> ModelTarget:
    target = scene.job.definition.target
    if not isinstance(target, ModelTarget):
        raise TypeError(target)
    return target


def _model(target: ModelTarget) -> tuple[float, float]:
    return next(figures for name, figures in _MODELS.items() if name in target.model)
