"""Which jobs share a batch job, an array or services: the groups of a campaign on a cluster. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from assay.engines.slurm.script import directives, largest
from assay.errors import UsageError
from assay.plan.job import Job, point_key
from assay.plan.plan import most_at_once
from assay.spec.benchmark import Benchmark, Needs
from assay.spec.slurm import Batch, Clients, Slurm, merged

# Tasks of one array where the cluster does not say how many it takes (MaxArraySize of Slurm's own is 1001).
USUAL_ARRAY = 1000


@dataclass(frozen=True, slots=True)
class GroupService:
    """A service of a group, and the batch job that holds it."""

    name: str
    batch: Batch
    needs: Needs


@dataclass(frozen=True, slots=True)
class Group:
    """Jobs that are submitted together."""

    name: str
    kind: Literal["array", "clients", "services", "steps"]
    """`array`: jobs of one shape, each for itself. `clients`: jobs that share a load, and meet before each run.
    `services`: the same with services in batch jobs of their own. `steps`: services and clients in one allocation."""
    jobs: tuple[int, ...]
    """Indexes of the jobs; the place in here is the index in the array."""
    batch: Batch
    """What each job (or client) asks for; the whole allocation for `steps`."""
    needs: Needs
    """The most that any of them needs."""
    services: tuple[GroupService, ...] = ()
    at_once: int | None = None
    """How many of its jobs may run at the same time; None for no limit."""
    after: str = ""
    """Group that must have ended before this one begins; empty for none."""

    @property
    def array(self) -> str | None:
        """The indexes of its array; None where it is a single batch job."""
        if self.kind == "steps":
            return None
        limit = f"%{self.at_once}" if self.at_once is not None and self.at_once < len(self.jobs) else ""
        return f"0-{len(self.jobs) - 1}{limit}"

    @property
    def meets(self) -> bool:
        """Whether its jobs must be there together."""
        return self.kind != "array" and len(self.jobs) > 1


def group(jobs: Sequence[Job], benchmark: Benchmark, *, most: int = USUAL_ARRAY) -> tuple[Group, ...]:
    """Put the jobs of a plan into groups, in the order in which they are submitted.

    Points with services and points whose load several clients share run one after another, unless the file says
    `parallel: true`: at the same time they would disturb each other.
    """
    slurm = benchmark.place.slurm or Slurm()
    alone = [job for job in jobs if not _is_shared(job, slurm)]
    points: dict[str, list[Job]] = {}
    for job in jobs:
        if _is_shared(job, slurm):
            points.setdefault(point_key(job), []).append(job)
    made = [_point(slurm, members) for members in points.values()]
    shared = made if slurm.parallel else _in_turn(made)
    return (*_arrays(slurm, alone, most), *shared)


def _is_shared(job: Job, slurm: Slurm) -> bool:
    definition = job.definition
    if definition.services and slurm.services == "node" and definition.load.hosts > 1:
        raise UsageError(
            f"place.slurm.services is node and {definition.load.hosts} clients share the load: each would start "
            "its own services",
            code="slurm-option",
            at="place.slurm.services",
            try_="set place.slurm.services to jobs or steps, or clients to 1",
        )
    return definition.load.hosts > 1 or bool(definition.services and slurm.services != "node")


def _in_turn(groups: Sequence[Group]) -> list[Group]:
    before = ["", *(group.name for group in groups)]
    return [replace(group, after=name) for group, name in zip(groups, before, strict=False)]


def _arrays(slurm: Slurm, jobs: Sequence[Job], most: int) -> Iterable[Group]:
    shapes: dict[tuple[object, ...], list[Job]] = {}
    for job in jobs:
        batch, needs = _job_batch(slurm), largest([_whole_needs(job, slurm)])
        shapes.setdefault((*directives(batch, needs), batch.modules, batch.prologue, batch.container), []).append(job)
    parts = [members[begin : begin + most] for members in shapes.values() for begin in range(0, len(members), most)]
    for number, members in enumerate(parts):
        yield Group(
            name=f"jobs-{number}",
            kind="array",
            jobs=tuple(job.index for job in members),
            batch=_job_batch(slurm),
            needs=largest(_whole_needs(job, slurm) for job in members),
            at_once=most_at_once(slurm, members),
        )


def _point(slurm: Slurm, members: Sequence[Job]) -> Group:
    first = members[0]
    hosts, clients = first.definition.load.hosts, len(members)
    if slurm.client_count not in (None, hosts):
        message = f"place.slurm.clients is {slurm.client_count} and load.hosts is {hosts}"
        remedy = "keep one of them: both say how many clients share the load"
        raise UsageError(message, code="slurm-option", at="place.slurm.clients", try_=remedy)
    if slurm.at_once is not None and slurm.at_once < clients:
        raise UsageError(
            f"place.slurm.at_once is {slurm.at_once}, and {clients} clients must run concurrently: they would wait "
            "for ever",
            code="slurm-option",
            at="place.slurm.at_once",
            try_="raise or remove at_once",
        )
    own = slurm.services != "node"
    services = tuple(_service(slurm, first, name) for name in first.definition.services) if own else ()
    needs = largest(job.definition.needs for job in members)
    made = Group(
        f"point-{first.index:04}",
        "services" if services else "clients",
        tuple(job.index for job in members),
        _job_batch(slurm),
        needs,
        services,
    )
    directives(made.batch, made.needs)
    return _as_steps(slurm, made) if services and slurm.services == "steps" else made


def _service(slurm: Slurm, job: Job, name: str) -> GroupService:
    batch = merged(_plain(slurm), slurm.each.get(name, Batch()))
    needs = largest([job.definition.services[name].needs])
    directives(batch, needs)  # refused before anything is submitted
    return GroupService(name, batch, needs)


def _as_steps(slurm: Slurm, group: Group) -> Group:
    """One allocation for all: a node for each service and client, or as many as the file says."""
    nodes = slurm.nodes or len(group.services) + len(group.jobs)
    batch = _plain(slurm).model_copy(update={"nodes": nodes, "tasks": slurm.tasks or nodes})
    # Any step may come to any node, so that each node must have what the largest of them asks for.
    steps = [(group.batch, group.needs), *((service.batch, service.needs) for service in group.services)]
    needs = largest(need for own, needed in steps for need in (needed, _needs_of(own)))
    directives(batch, needs)
    return replace(group, kind="steps", batch=batch, needs=needs)


def _needs_of(batch: Batch) -> Needs:
    counted = {"cpus": batch.cpus, "memory": batch.memory, "gpus": batch.gpu_count or None}
    return Needs().model_copy(update=counted)


def _whole_needs(job: Job, slurm: Slurm) -> Needs:
    """What a job needs together with the services that it starts on its own node."""
    own = [job.definition.needs]
    if slurm.services == "node":
        own += [service.needs for service in job.definition.services.values()]
    return largest(own)


def _job_batch(slurm: Slurm) -> Batch:
    return _plain(merged(slurm, slurm.clients)) if isinstance(slurm.clients, Clients) else _plain(slurm)


def _plain(section: Batch) -> Batch:
    """A section's options as those of one batch job, whatever else the section says."""
    return merged(section, Batch())
