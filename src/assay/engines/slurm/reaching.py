"""The way to Slurm that a section asks for."""

from __future__ import annotations

from assay.engines.slurm.scheduler import Scheduler
from assay.spec.clusters import Slurm
from assay.spec.secrets import resolve_secrets


def scheduler_for(slurm: Slurm) -> Scheduler:
    """Slurm's own commands, or slurmrestd where the section names one.

    Raises:
        MeasureError: if the variable with its token is not set.
    """
    if slurm.rest is None:
        from assay.engines.slurm.commands import CommandLine

        return CommandLine()
    from assay.engines.slurm.rest import Rest

    return Rest(slurm.rest, resolve_secrets(slurm.rest_token) if slurm.rest_token else "")
