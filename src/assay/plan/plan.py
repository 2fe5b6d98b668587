"""A benchmark becomes a plan: the matrix unfolded, each point a job with a digest; unsupported requests are refused."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import JsonValue

from assay.errors import MeasureError, Problem, SpecError
from assay.plan.digest import content_hash, digest_of
from assay.plan.job import Job, point_key, split
from assay.spec.benchmark import Benchmark, Definition
from assay.spec.limits import MAX_PROBLEMS, bounded
from assay.spec.load import Loaded, validate
from assay.spec.matrix import Matrix, Point
from assay.spec.problems import unique

MAX_POINTS = 100_000
# Characters of all jobs together, and comparisons of points with rules of `exclude`: seconds of work.
MAX_PLANNED = 100_000_000
MAX_COMPARED = 5_000_000
# What a value of a point costs at least, whatever its text.
_OF_AN_AXIS = 64


def points(matrix: Matrix, document: Mapping[str, JsonValue] | None = None, at: str = "") -> list[Point]:
    """All points: the product of the axes, less `exclude`, plus `include`.

    Raises:
        SpecError: if there are too many.
    """
    _refuse_large(matrix, document or {}, at)
    product = _product(matrix) if matrix.axes else ([] if matrix.include else [{}])
    kept = [point for point in product if not any(_matches(point, rule) for rule in matrix.exclude)]
    return _unique([*kept, *matrix.include])


def _refuse_large(matrix: Matrix, document: Mapping[str, JsonValue], at: str) -> None:
    """Refuse a matrix whose jobs would hold too much together: each has a copy of the document and its own values.

    Raises:
        SpecError: if they would.
    """
    count = _count(matrix)
    if count > MAX_POINTS:
        shown = f"{count:,}" if count < 10**18 else "more than 10^18"
        raise SpecError(
            f"the matrix has {shown} points; at most {MAX_POINTS:,} are planned at once", code="matrix", at=at
        )
    each = len(json.dumps({key: value for key, value in document.items() if key != "matrix"}))
    each += sum(_OF_AN_AXIS + max(len(json.dumps(value)) for value in values) for values in matrix.axes.values())
    planned = (count + len(matrix.include)) * each
    if planned > MAX_PLANNED:
        raise SpecError(
            f"the jobs of the matrix would hold {planned:,} characters together; at most {MAX_PLANNED:,} are planned",
            code="matrix",
            at=at,
            try_="give it fewer points, or put long texts into a file",
        )
    compared = count * len(matrix.exclude)
    if compared > MAX_COMPARED:
        raise SpecError(
            f"{count:,} points and {len(matrix.exclude):,} rules of exclude are too many to compare: "
            f"at most {MAX_COMPARED:,} pairs are",
            code="matrix",
            at=at,
            try_="list the points under include, or exclude whole values from the axes",
        )


def _count(matrix: Matrix) -> int:
    return math.prod(len(values) for values in matrix.axes.values())


def _product(matrix: Matrix) -> list[Point]:
    axes = list(matrix.axes)
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*matrix.axes.values())]


def _matches(point: Point, rule: Point) -> bool:
    return all(path in point and point[path] == value for path, value in rule.items())


def _unique(found: list[Point]) -> list[Point]:
    return list({json.dumps(point, sort_keys=True): point for point in found}.values())


_PLACES = {
    "local": "on the local machine",
    "fleet": "on the agents of a server",
    "slurm": "on a Slurm cluster",
    "kubernetes": "on a Kubernetes cluster",
}
# Engines that start services apart from the clients.
_ONCE_FOR_ALL = ("slurm", "kubernetes")


def refuse_unsupported(benchmark: Benchmark, engines: Collection[str] = ("local",)) -> None:
    """Refuse what would silently not happen.

    Raises:
        MeasureError: for an engine that is not one of these, and for monitoring where nobody starts it.
    """
    if benchmark.place.engine not in engines:
        first = next(iter(engines))
        raise MeasureError(
            f"place.engine is {benchmark.place.engine!r}; this installation runs jobs {_PLACES[first]} only",
            code="engine",
            try_=f"set place.engine: {first}, or leave place out",
        )
    if benchmark.monitoring and {"fleet", "kubernetes"} & set(engines):
        who = "agents of a server" if "fleet" in engines else "pods"
        raise MeasureError(
            f"monitoring is for runs on one machine and on a Slurm cluster; {who} start no Prometheus",
            code="monitoring",
            at="monitoring",
            try_="remove it; every job is watched from the side anyway (measure.probe)",
        )


def services_of_several(definition: Definition, engine: str, at: str) -> list[Problem]:
    """What is wrong with services under a load that several machines share: only a cluster starts them once for all."""
    if definition.load.hosts == 1 or not definition.services or engine in _ONCE_FOR_ALL:
        return []
    return [
        Problem(
            "hosts",
            f"load.hosts is {definition.load.hosts}, and each machine would start its own services",
            at,
            "name an endpoint instead, or run it on a cluster (place.engine: slurm or kubernetes): it starts them once",
        )
    ]


def refuse_parts_in_turn(jobs: Iterable[Job]) -> None:
    """Refuse parts of one load that a single machine would drive one after another: together they are no load.

    Raises:
        MeasureError: if there are two parts of the same point.
    """
    parts = [job for job in jobs if job.definition.load.hosts > 1]
    if max(Counter(point_key(job) for job in parts).values(), default=0) > 1:
        hosts = max(job.definition.load.hosts for job in parts)
        raise MeasureError(
            f"load.hosts is {hosts}, and one machine can only drive its parts one after another",
            code="hosts",
            at="load.hosts",
            try_="run it on a fleet (place.engine: fleet, `assay run FILE --server URL`), use load.clients for several "
            "processes here, or set load.host to drive one part",
        )


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
