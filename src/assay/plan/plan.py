"""A benchmark becomes a plan: its jobs, each with a digest, checked point by point."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from assay.errors import Problem, SpecError
from assay.plan.digest import content_hash, digest_of
from assay.plan.expand import points
from assay.plan.job import Job
from assay.plan.parts import split
from assay.plan.support import services_of_several
from assay.spec.benchmark import Definition
from assay.spec.limits import MAX_PROBLEMS, bounded
from assay.spec.load import Loaded, validate
from assay.spec.matrix import Point
from assay.spec.problems import unique

# A definition → text in it → SHA-256 of the content behind it. Reading files is the caller's work: plan does no I/O.
Fingerprint = Callable[[Definition], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Plan:
    """All jobs of one benchmark, in the order in which they run."""

    benchmark: str
    digest: str  # of the whole set: equal plans may continue each other
    jobs: tuple[Job, ...]

    def submitted_as(self, campaign: str) -> Plan:
        """The same plan under a campaign's name."""
        return replace(self, jobs=tuple(replace(job, campaign=campaign) for job in self.jobs))


def make_plan(loaded: Loaded, fingerprint: Fingerprint) -> Plan:
    """Expand a benchmark into jobs.

    Raises:
        SpecError: with the problems of every point, each once.
    """
    problems: list[Problem] = []
    jobs: list[Job] = []
    at = loaded.source.at(("matrix",))
    for point in points(loaded.matrix, loaded.source.document, at):
        if len(problems) > MAX_PROBLEMS:
            break
        definition, found = validate(Definition, loaded.source, point)
        problems += found
        if definition is not None:
            problems += services_of_several(
                definition, loaded.benchmark.place.engine, loaded.source.at(("load", "hosts"))
            )
        if definition is not None and not problems:
            files = fingerprint(definition)
            jobs += [_job(loaded, len(jobs), part, where, files) for part, where in split(definition, point)]
    if problems:
        raise SpecError.of(bounded(unique(problems)))
    if not jobs:
        raise SpecError(
            "the matrix has no point left: exclude removes all of them", code="matrix", at=loaded.source.name
        )
    distinct = tuple({job.digest: job for job in jobs}.values())
    name = loaded.benchmark.benchmark
    jobs = [replace(job, index=index) for index, job in enumerate(distinct)]
    return Plan(name, content_hash([name, *(job.digest for job in jobs)]), tuple(jobs))


def combine(plans: Sequence[Plan]) -> Plan:
    """Join plans into one, under the name of the first: their jobs in order, renumbered.

    Equal jobs are kept apart: whoever asks for the same job twice wants it measured twice.

    Raises:
        SpecError: if there is no plan.
    """
    if not plans:
        raise SpecError("there is nothing to plan", code="matrix")
    name = plans[0].benchmark
    jobs = tuple(replace(job, index=index) for index, job in enumerate(job for plan in plans for job in plan.jobs))
    return Plan(name, content_hash([name, *(job.digest for job in jobs)]), jobs)


def _job(loaded: Loaded, index: int, definition: Definition, point: Point, files: Mapping[str, str]) -> Job:
    return Job(
        benchmark=loaded.benchmark.benchmark,
        digest=digest_of(definition, files),
        index=index,
        definition=definition,
        point=dict(point),
        labels=dict(loaded.benchmark.labels),
        base=str(loaded.base),
    )
