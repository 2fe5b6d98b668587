"""Runs of a model file in our own process, of a program with its own metrics, and of a vector database."""

from __future__ import annotations

import hashlib

import numpy as np
from pydantic import JsonValue

from assay.demo.runs.record import DrawnRun, outcomes
from assay.demo.scene import Scene, Values
from assay.run.records import DeviceProof, RunOutcome, SampleSet
from assay.spec.target import ModelTarget

# Milliseconds of one item with one thread of a server, megabytes of the model.
_MODELS = {"squeezenet": (21.0, 5.0), "mobilenet": (9.5, 9.0), "resnet50": (68.0, 98.0)}
_MODEL_WITHIN = 0.018
_MEASURE_S, _RICH_S = 6.0, 10.0
_IMAGES_PER_S = 9200.0
_SECONDS = 20.0
_VECTOR_WITHIN = 0.09


def model_runs(scene: Scene) -> list[RunOutcome]:
    return outcomes(scene, [_model_run(scene, number) for number in range(scene.runs)])


def level_ms(scene: Scene) -> float:
    """What one call takes here at this time."""
    target, batch = _target(scene), scene.job.definition.workload.batch or 1
    each, _ = _model(target)
    if target.device.startswith("cuda"):
        return (0.7 + each / 640 * batch) / max(scene.machine.gpu_speed, 0.01) * scene.moment.slower
    threads = min(target.threads or scene.machine.cores // 2, scene.machine.cores)
    return float(each * batch**0.94 / threads**0.78 * scene.machine.speed * scene.moment.slower)


def _model_run(scene: Scene, number: int) -> DrawnRun:
    target, batch = _target(scene), scene.job.definition.workload.batch or 1
    _, model_mb = _model(target)
    level = level_ms(scene) * scene.between_runs()
    seconds = _RICH_S if scene.rich else _MEASURE_S
    count = int(np.clip(seconds * 1000 / level, 120, 900 if scene.rich else 160))
    values = scene.times(level, count, _MODEL_WITHIN)
    warm = level * (1 + 0.8 * np.exp(-np.arange(24) / 5)) * np.exp(_MODEL_WITHIN * scene.draw.normal(size=24))
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
    return DrawnRun(phases, metrics, samples, facts, proof, work=0.85, rss_mb=memory)


def _target(scene: Scene) -> ModelTarget:
    target = scene.job.definition.target
    if not isinstance(target, ModelTarget):
        raise TypeError(target)
    return target


def _model(target: ModelTarget) -> tuple[float, float]:
    return next(figures for name, figures in _MODELS.items() if name in target.model)


def program_runs(scene: Scene) -> list[RunOutcome]:
    return outcomes(scene, [_program_run(scene) for _ in range(scene.runs)])


def _program_run(scene: Scene) -> DrawnRun:
    fast = max(scene.machine.gpu_speed, 0.05) ** 0.7
    speed = _IMAGES_PER_S * fast / scene.moment.slower / scene.between_runs()
    seconds = 1_281_167 / speed / 4
    metrics = {
        "images_per_s": speed,
        "accuracy": 0.712 + 0.002 * float(scene.draw.normal()),
        "duration_s": seconds,
        "cpu_s": 6.4 * seconds,
        "cpu_pct": 640.0,
        "peak_run_rss_mb": 5100.0 * scene.moment.heavier,
    }
    facts: dict[str, JsonValue] = {"command": ["python", "train.py", "--epochs", "1"], "output_lines": 312}
    return DrawnRun({"prepare": 0.4, "measure": seconds, "score": 0.1}, metrics, facts=facts, work=0.93, rss_mb=5100.0)


def vector_runs(scene: Scene) -> list[RunOutcome]:
    return outcomes(scene, [_vector_run(scene) for _ in range(scene.runs)])


def _vector_run(scene: Scene) -> DrawnRun:
    point = scene.job.point
    ef, users = float(str(point.get("target.search.ef", 64))), int(str(point.get("load.concurrency", 1)))
    level = (0.55 + 0.011 * ef) * (1 + 0.11 * (users - 1)) * scene.machine.speed * scene.moment.slower
    level *= scene.between_runs()
    count = 1200 if scene.rich else 300
    values = scene.times(level, count, _VECTOR_WITHIN, tail=0.015)
    truth = 1 - 0.34 * (16 / ef) ** 0.9
    found: Values = np.round(np.clip(scene.draw.normal(truth, 0.08, count), 0, 1), 1).astype(np.float64)
    metrics = {
        "throughput_per_s": users * 1000 / float(values.mean()),
        "offered_per_s": users * 1000 / float(values.mean()),
        "error_rate": 0.0,
        "skipped": 0.0,
        "concurrency": 0.995 * users,
        "insert_s": 96.0 * scene.between_runs(),
        "index_s": 41.0 * scene.between_runs() * scene.moment.slower,
        "index_mb": 1730.0 * scene.moment.heavier,
        "start_to_ready_s": 2.6 * scene.between_runs(),
        "client_ceiling_pct": 6.0 * users,
        "client_cpu_pct": 9.0 * users,
    }
    at = scene.moments_ns(count, _SECONDS)
    samples = (SampleSet("latency_ms", "measure", at, values), SampleSet("recall", "measure", at, found))
    facts: dict[str, JsonValue] = {
        "engine": {"name": "Qdrant", "version": "1.13.4"},
        "load": {"stopped": "finished", "warmup": {"steady": True}},
        "corpus": {"sha256": "5f1c0e7d9a" * 6 + "abcd", "vectors": 1_000_000},
    }
    phases = {"prepare": 3.0, "load": 96.0 + 41.0, "warmup": 3.0, "measure": _SECONDS, "score": 1.0, "cleanup": 1.0}
    return DrawnRun(phases, metrics, samples, facts, work=min(1.0, 0.12 * users), rss_mb=2400 * scene.moment.heavier)
