"""A program that prints its own metrics: one epoch of training."""

from __future__ import annotations

from pydantic import JsonValue

from assay.demo.runs.record import Drawn, outcomes
from assay.demo.scene import Scene
from assay.run.records import RunOutcome

_IMAGES_PER_S = 9200.0


def program_runs(scene: Scene) -> list[RunOutcome]:
    return outcomes(scene, [_run(scene) for _ in range(scene.runs)])


def _run(scene: Scene) -> Drawn:
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
    return Drawn({"prepare": 0.4, "measure": seconds, "score": 0.1}, metrics, facts=facts, work=0.93, rss_mb=5100.0)
