"""The local engine: this machine, one job after another."""

from __future__ import annotations

from dataclasses import dataclass

from assay.engines import Execute
from assay.errors import MeasureError
from assay.place.needs import Profile, missing
from assay.plan.job import Job
from assay.spec.devices import INSTALL, split_index
from assay.spec.target import ModelTarget


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Runs each job here, if this machine has what it needs."""

    profile: Profile
    execute: Execute

    def place(self, job: Job) -> None:
        """Measure a job on this machine.

        Raises:
            MeasureError: if it lacks what the job needs; nothing is measured then.
        """
        lacking = missing(job, self.profile)
        if lacking:
            code = "device" if any("device" in line for line in lacking) else "needs"
            raise MeasureError(
                f"this machine cannot take the job: {'; '.join(lacking)}",
                code=code,
                try_=f"run it on a machine that has this, or {_remedy(job)}",
            )
        self.execute(job)


def _remedy(job: Job) -> str:
    target = job.definition.target
    if not isinstance(target, ModelTarget):
        return "lower the needs"
    return INSTALL.get(split_index(target.device)[0].partition("-")[0], "pip install 'assay-bench[onnx]'")
