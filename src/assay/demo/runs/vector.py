"""A vector database: latency, queries a second and recall, by how hard it looks."""

from __future__ import annotations

import numpy as np
from pydantic import JsonValue

from assay.demo.runs.record import Drawn, outcomes
from assay.demo.scene import Scene, Values
from assay.run.records import RunOutcome, SampleSet

_SECONDS = 20.0
_WITHIN = 0.09


def vector_runs(scene: Scene) -> list[RunOutcome]:
    return outcomes(scene, [_run(scene) for _ in range(scene.runs)])


def _run(scene: Scene) -> Drawn:
    point = scene.job.point
    ef, users = float(str(point.get("target.search.ef", 64))), int(str(point.get("load.concurrency", 1)))
    level = (0.55 + 0.011 * ef) * (1 + 0.11 * (users - 1)) * scene.machine.speed * scene.moment.slower
    level *= scene.between_runs()
    count = 1200 if scene.rich else 300
    values = scene.times(level, count, _WITHIN, tail=0.015)
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
    return Drawn(phases, metrics, samples, facts, work=min(1.0, 0.12 * users), rss_mb=2400 * scene.moment.heavier)
