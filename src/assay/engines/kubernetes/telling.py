"""How the jobs of a campaign stand on Kubernetes, as a server is told: what they wait for, where they run, how far."""

from __future__ import annotations

from datetime import datetime

from assay.engines.kubernetes.observation import Observation
from assay.engines.kubernetes.phases import phase_of, waiting_words
from assay.engines.node.progress import Progress
from assay.place.fleet.protocol import Standing
from assay.plan.job import Job


def standing(job: Job, found: Observation, far: Progress | None, now: datetime) -> Standing:
    """How a job that was submitted and has not ended stands."""
    runs = job.definition.measure.runs
    if phase_of(found) == "waiting":
        return Standing(job.index, "waiting", f"{waiting_words(found, now)} (Job {found.name})", runs=runs)
    nodes = sorted({pod.node for pod in found.pods if pod.node})
    where = f"on {', '.join(nodes)} (Job {found.name})" if nodes else f"Job {found.name}"
    if far is None:
        return Standing(job.index, "running", where, runs=runs)
    return Standing(job.index, "running", where, max(0, far.run - 1), far.of, far.phase, far.share)
