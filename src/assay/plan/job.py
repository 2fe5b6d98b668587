"""The job: one point of a benchmark's matrix, for one machine, as engines move it; and the parts of a shared load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from pydantic import JsonValue

from assay.plan.digest import content_hash
from assay.spec.benchmark import Definition
from assay.spec.matrix import Point

JOB_SCHEMA = "assay.job/1"


@dataclass(frozen=True, slots=True)
class JobFile:
    """A file that travels with a job: its name without folder, and its content."""

    name: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Job:
    """One point of the matrix, complete: whoever holds this document can measure it."""

    benchmark: str
    digest: str
    index: int
    definition: Definition
    point: Mapping[str, JsonValue] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    base: str = "."
    """Folder that relative paths of the definition start from."""
    campaign: str = ""
    files: Mapping[str, tuple[JobFile, ...]] = field(default_factory=dict)
    """Text of the definition that names a file → that file and those beside it, by content; empty where the
    files lie on this very machine."""
    git: Mapping[str, JsonValue] = field(default_factory=dict)
    """Commit of the folder that its files came from, where they are measured elsewhere."""
    schema: Literal["assay.job/1"] = "assay.job/1"

    @property
    def id(self) -> str:
        """Name of this job inside its campaign's history."""
        return f"{self.campaign or 'adhoc'}-job-{self.index}"


# The key of a point that says which of the machines a job is for.
HOST = "load.host"


def split(definition: Definition, point: Point) -> tuple[tuple[Definition, Point], ...]:
    """The jobs of one point: one, or one for each machine that shares its load."""
    hosts = definition.load.hosts
    if hosts == 1 or definition.load.host is not None:
        return ((definition, point),)
    return tuple((_for_host(definition, host), {**point, HOST: host}) for host in range(hosts))


def is_part(definition: Definition) -> bool:
    """Whether a job drives only its share of a load."""
    return definition.load.hosts > 1 and definition.load.host is not None


def whole(job: Job) -> Job:
    """The job of all machines together: what the parts are parts of."""
    point = {path: value for path, value in job.point.items() if path != HOST}
    return replace(job, definition=_for_host(job.definition, None), point=point)


def point_key(job: Job) -> str:
    """A hash that the parts of one point share, and no other job has."""
    known = whole(job)
    return content_hash([known.definition.model_dump(mode="json", exclude_defaults=True), dict(known.point)])


def _for_host(definition: Definition, host: int | None) -> Definition:
    return definition.model_copy(update={"load": definition.load.model_copy(update={"host": host})})
