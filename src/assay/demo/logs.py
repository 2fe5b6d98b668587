"""What an attempt would have written while it measured."""

from __future__ import annotations

from collections.abc import Iterator

from assay.analyse.records import MultiRunJobResult
from assay.demo.scene import Scene


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
