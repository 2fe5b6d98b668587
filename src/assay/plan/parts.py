"""A load that several machines share: one point of the matrix becomes a job for each of them."""

from __future__ import annotations

from dataclasses import replace

from assay.plan.digest import content_hash
from assay.plan.job import Job
from assay.spec.benchmark import Definition
from assay.spec.matrix import Point

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
