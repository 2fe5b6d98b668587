"""The jobs of a plan as pods get them: with the content of the files that they name, and nothing of this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from assay.errors import UsageError
from assay.hardware.environment import git_state
from assay.plan.job import Job, JobFile
from assay.run.inputs import LocalPart, files_of
from assay.run.job_files import local_paths, place_files
from assay.run.models.sources import existing, hub_name
from assay.run.services.containers.sidecar import WAITING
from assay.spec.paths import service_programs
from assay.spec.target import CommandTarget


@dataclass(frozen=True, slots=True)
class PackedJobs:
    """Jobs that can be measured anywhere, and the files that must go with them."""

    jobs: tuple[Job, ...]
    files: Mapping[str, Path]
    """SHA-256 → where the file lies here."""


def packed(jobs: Sequence[Job], base: Path, *, apart: bool = True) -> PackedJobs:
    """Make jobs fit to leave this machine.

    Raises:
        UsageError: for a file that is not there, one whose name cannot be kept, and one that a service would need.
    """
    git = git_state(base) or {}
    paths: dict[str, Path] = {}
    made = []
    for job in jobs:
        parts = files_of(job.definition, base)
        if apart:
            # Leave out what a service starts by its whole path, such as `/bin/sh`: it means the one of its image
            starts = {program.words[0] for program in service_programs(job.definition) if program.words}
            data = {*local_paths(job.definition)}
            of_image = {word for word in starts - data if Path(word).is_absolute()}
            parts = {text: several for text, several in parts.items() if text not in of_image}
            _refuse_scripts(job, parts)
        for name in local_paths(job.definition):
            if name not in parts and name != hub_name(job.definition.target):
                existing(name, base)  # says what is wrong with it, and what may have been meant
        paths |= {part.sha256: part.path for several in parts.values() for part in several}
        described = {text: tuple(map(_described, several)) for text, several in parts.items()}
        packed = replace(job, files=described, git=git, base=".")
        place_files(packed)  # bad names are refused before anything is submitted
        made.append(packed)
    return PackedJobs(tuple(made), paths)


def _refuse_scripts(job: Job, parts: Mapping[str, tuple[LocalPart, ...]]) -> None:
    """Refuse a service whose command names a file of this machine: its pod has what its image has."""
    data = {*local_paths(job.definition)}
    for program in service_programs(job.definition):
        for word in program.words:
            if word in parts and word not in data:
                message = f"the command of a service names {word!r}, a file of this machine that its pod does not have"
                remedy = "put it into the image of the service, or set place.kubernetes.services: pod"
                raise UsageError(message, code="kubernetes-option", at=program.at, try_=remedy)


def content_of(path: Path) -> bytes:
    """The content of a file that goes along.

    Raises:
        UsageError: if it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as problem:
        raise UsageError(
            f"cannot read a file of the benchmark: {problem.strerror}", code="no-file", at=str(path)
        ) from None


def digests_of(job: Job) -> tuple[str, ...]:
    """The files that a job needs, each once."""
    return tuple(dict.fromkeys(file.sha256 for several in job.files.values() for file in several))


def _described(part: LocalPart) -> JobFile:
    return JobFile(part.name, part.sha256, part.size_bytes)


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
        message = f"target.container is {target.container}, and in a pod Kubernetes itself runs the image"
        raise UsageError(message, code="kubernetes-option", at="target.container", try_="remove it")
    if target.command is None:
        raise UsageError(
            f"the image {target.image} is to run its own command, which nobody can start again for each run in a pod",
            code="kubernetes-option",
            at="target.command",
            try_="write the command of the image into target.command: `docker inspect` shows Entrypoint and Cmd",
        )
