"""Runs of hardware tests, of a model file in our own process, of a program and of a vector database."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping

import numpy as np
from pydantic import JsonValue

from assay.demo.llm import conversation_run, llm_run, search_run
from assay.demo.machines import DemoMachine
from assay.demo.scenario import Kind
from assay.demo.scene import DrawnRun, Scene, Values, outcomes
from assay.metrics import describe
from assay.run.records import DeviceProof, RunOutcome, SampleSet
from assay.spec.target import ModelTarget

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


def _device_run(scene: Scene, _number: int) -> DrawnRun:
    device = str(getattr(scene.job.definition.target, "device", "cpu"))
    tests = {name: figure for name, figure in _tests(scene.machine, device).items() if figure[1] > 0}
    slow = scene.moment.slower * scene.between_runs()
    tests_by_name: dict[str, JsonValue] = {}
    bare: dict[str, JsonValue] = {}
    samples: list[SampleSet] = []
    spans: dict[str, Mapping[str, JsonValue]] = {}
    for place, (name, (metric, best)) in enumerate(tests.items()):
        level = best / slow
        values = level * np.exp(0.004 * scene.draw.normal(size=_BLOCKS))
        begin = int(place * _EACH_S * 1e9)
        samples.append(SampleSet(metric, "measure", begin + scene.moments_ns(_BLOCKS, _EACH_S), values))
        tests_by_name[name] = _curve(scene, name, metric, level, begin)
        ratio = 0.994 + 0.003 * float(scene.draw.normal())
        bare[name] = {"ratio": ratio, "low": ratio - 0.006, "high": ratio + 0.006}
        spans[name] = {} if device == "cpu" else _span(scene)
    metrics = {sample_set.metric: float(np.median(sample_set.value)) for sample_set in samples}
    facts: dict[str, JsonValue] = {"device": {"name": scene.machine.gpu or scene.machine.cpu}, "tests": tests_by_name}
    if device != "cpu":
        facts["bare"] = bare
    proof = DeviceProof(device, device, {device: 24}, "devices of 24 result tensors, read after each size")
    phases = {"prepare": 0.1, "load": 1.4, "measure": _EACH_S * len(tests), "score": 0.1, "cleanup": 0.1}
    return DrawnRun(phases, metrics, tuple(samples), facts, proof, work=0.97, rss_mb=900.0, spans=spans)


def _tests(machine: DemoMachine, device: str) -> Mapping[str, tuple[str, float]]:
    """What a machine can do, beside those that are known best."""
    if device == "cpu":
        cores = machine.cores / 48
        return {
            name: (metric, best * (cores**0.8 if metric.endswith("gb_per_s") else cores) / machine.speed**0.6)
            for name, (metric, best) in _PROCESSOR.items()
        }
    gpu = machine.gpu or ""
    memory = {"NVIDIA H100 80GB HBM3": 1.0, "NVIDIA A100-SXM4-80GB": 0.58, "NVIDIA L4": 0.084}.get(gpu, 0.31)
    new = any(name in gpu for name in ("H100", "L4", "4090"))
    figures = {}
    for name, (metric, best) in _BOARD.items():
        slow_fp64 = name == "fp64" and not any(name in gpu for name in ("H100", "A100"))
        share = memory if describe(metric).unit == "GB/s" and "device" not in name else machine.gpu_speed
        share = 0.5 if "device" in name and machine.gpu_speed < 1 else share
        value = 0.0 if name == "fp8" and not new else best * share * (0.03 if slow_fp64 else 1.0)
        figures[name] = (metric, value)
    return figures


def _curve(scene: Scene, name: str, metric: str, level: float, begin_ns: int) -> JsonValue:
    """A test as a result keeps it: a curve over sizes that becomes level, and the size that speaks for it."""
    by, powers = ("bytes", range(20, 31, 2)) if metric.endswith("gb_per_s") else ("n", range(9, 15))
    sizes = [2.0**power for power in powers]
    shares = 1 - np.exp(-np.arange(1, len(sizes) + 1) / 1.4)
    values = [float(level * share / shares[-1] * (1 + 0.003 * scene.draw.normal())) for share in shares]
    points: list[JsonValue] = [
        {by: size, "value": value, "blocks": _BLOCKS, "spread": 0.012}
        for size, value in zip(sizes, [*values[:-1], level], strict=True)
    ]
    return {
        "metric": metric,
        "begin_ns": begin_ns,
        "end_ns": begin_ns + int(_EACH_S * 1e9),
        "curve": points,
        "best": {by: sizes[-1], "value": level},
        "reported": points[-1],
        "plateau": {by: [*sizes[-3:]], "within": 0.1},
        "how": {"test": name},
    }


def _span(scene: Scene) -> Mapping[str, JsonValue]:
    watts = 0.8 * scene.machine.busy_w
    return {
        "statistics": {
            "gpu:0.power_w": {"mean": watts, "min": watts, "max": watts},
            "gpu:0.sm_mhz": {"mean": 1740.0, "min": 1710.0, "max": 1755.0},
            "gpu:0.temperature_c": {"mean": 61.0, "min": 55.0, "max": 64.0},
        },
        "throttled": {"gpu:0": []},
    }


# Milliseconds of one item with one thread of a server, megabytes of the model.
_MODELS = {"squeezenet": (21.0, 5.0), "mobilenet": (9.5, 9.0), "resnet50": (68.0, 98.0)}
_MODEL_WITHIN = 0.018
_MEASURE_S, _RICH_S = 6.0, 10.0
_IMAGES_PER_S = 9200.0
_SECONDS = 20.0
_VECTOR_WITHIN = 0.09


def _model_run(scene: Scene, number: int) -> DrawnRun:
    target, batch = scene.job.definition.target, scene.job.definition.workload.batch or 1
    if not isinstance(target, ModelTarget):
        raise TypeError(target)
    each_ms, model_mb = next(figures for name, figures in _MODELS.items() if name in target.model)
    on_gpu = target.device.startswith("cuda")
    if on_gpu:
        level = (0.7 + each_ms / 640 * batch) / max(scene.machine.gpu_speed, 0.01) * scene.moment.slower
    else:
        threads = min(target.threads or scene.machine.cores // 2, scene.machine.cores)
        level = each_ms * batch**0.94 / threads**0.78 * scene.machine.speed * scene.moment.slower
    level *= scene.between_runs()
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
    if on_gpu:
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
    provider = "CUDAExecutionProvider" if on_gpu else "CPUExecutionProvider"
    proof = DeviceProof(target.device, target.device, {provider: 66}, "nodes by provider, as the runtime tells them")
    return DrawnRun(phases, metrics, samples, facts, proof, work=0.85, rss_mb=memory)


def _program_run(scene: Scene, _number: int) -> DrawnRun:
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


def _vector_run(scene: Scene, _number: int) -> DrawnRun:
    point = scene.job.point
    ef, users = float(str(point.get("target.search.ef", 64))), int(str(point.get("load.concurrency", 1)))
    level = (0.55 + 0.011 * ef) * (1 + 0.11 * (users - 1)) * scene.machine.speed * scene.moment.slower
    level *= scene.between_runs()
    count = 1200 if scene.rich else 300
    values = scene.times(level, count, _VECTOR_WITHIN, tail=0.015)
    truth = 1 - 0.34 * (16 / ef) ** 0.9
    recalls: Values = np.round(np.clip(scene.draw.normal(truth, 0.08, count), 0, 1), 1).astype(np.float64)
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
    samples = (SampleSet("latency_ms", "measure", at, values), SampleSet("recall", "measure", at, recalls))
    facts: dict[str, JsonValue] = {
        "engine": {"name": "Qdrant", "version": "1.13.4"},
        "load": {"stopped": "finished", "warmup": {"steady": True}},
        "corpus": {"sha256": "5f1c0e7d9a" * 6 + "abcd", "vectors": 1_000_000},
    }
    phases = {"prepare": 3.0, "load": 96.0 + 41.0, "warmup": 3.0, "measure": _SECONDS, "score": 1.0, "cleanup": 1.0}
    return DrawnRun(phases, metrics, samples, facts, work=min(1.0, 0.12 * users), rss_mb=2400 * scene.moment.heavier)


_DRAWN: Mapping[Kind, Callable[[Scene, int], DrawnRun]] = {
    "model": _model_run,
    "llm": llm_run,
    "search": search_run,
    "conversation": conversation_run,
    "vector": _vector_run,
    "program": _program_run,
    "device": _device_run,
}


def runs_of(kind: Kind, scene: Scene) -> list[RunOutcome]:
    """The runs of a job: samples, metrics and facts, as runs of that kind of target leave them."""
    return outcomes(scene, [_DRAWN[kind](scene, number) for number in range(scene.runs)])
