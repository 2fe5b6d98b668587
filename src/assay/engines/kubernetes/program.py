"""What the pod of a program in an image of its own needs beside its documents."""

from __future__ import annotations

from assay.errors import UsageError
from assay.plan.job import Job
from assay.run.services.containers.beside import WAITING
from assay.spec.target import CommandTarget


def program_files(job: Job) -> dict[str, str]:
    """Further files for the pod of a job, by name: the lines that wait in the program's own image for its runs."""
    target = job.definition.target
    return {"program.sh": WAITING} if isinstance(target, CommandTarget) and target.is_boxed else {}


def refuse_program(job: Job) -> None:
    """Refuse a program in an image that a pod could not start: it runs again for each run, and not by another program.

    Raises:
        UsageError: with where to write it.
    """
    target = job.definition.target
    if not isinstance(target, CommandTarget) or not target.is_boxed:
        return
    if target.container != "auto":
        raise UsageError(
            f"target.container is {target.container}, and in a pod Kubernetes itself runs the image",
            code="kubernetes-option",
            at="target.container",
            try_="remove it",
        )
    if target.command is None:
        raise UsageError(
            f"the image {target.image} is to run its own command, which nobody can start again for each run in a pod",
            code="kubernetes-option",
            at="target.command",
            try_="write the command of the image into target.command: `docker inspect` shows Entrypoint and Cmd",
        )
