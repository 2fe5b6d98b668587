"""This machine as a place to measure: what tells it from another, and whether it can take a job."""

from __future__ import annotations

from assay.errors import MeasureError
from assay.hardware.environment import packages
from assay.hardware.machine import machine_id
from assay.place.needs import Profile, missing
from assay.plan.job import Job, content_hash
from assay.spec.section import INSTALL, split_index
from assay.spec.target import ModelTarget


def surroundings() -> str:
    """Machine and software in one hash: runs measured in different ones are never joined into one job."""
    return content_hash([machine_id(), packages()])


def require_needs(job: Job, profile: Profile) -> None:
    """Check that a machine has what a job needs."""
    lacking = missing(job, profile)
    if lacking:
        code = "device" if any("device" in line for line in lacking) else "needs"
        raise MeasureError(
            f"this machine cannot take the job: {'; '.join(lacking)}",
            code=code,
            try_=f"run it on a machine that has this, or {_remedy(job)}",
        )


def _remedy(job: Job) -> str:
    target = job.definition.target
    if not isinstance(target, ModelTarget):
        return "lower the needs"
    return INSTALL.get(split_index(target.device)[0].partition("-")[0], "pip install 'assay-bench[onnx]'")
