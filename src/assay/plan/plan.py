"""A benchmark becomes a plan: the matrix unfolded, each point a job with a digest, and how long each will take."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import JsonValue

from assay.errors import MeasureError, Problem, SpecError
from assay.plan.job import Job, content_hash, digest_of, point_key, split
from assay.spec.benchmark import Benchmark, Definition, Measure
from assay.spec.kubernetes import Kubernetes
from assay.spec.limits import MAX_PROBLEMS, bounded
from assay.spec.load import Loaded, validate
from assay.spec.matrix import Matrix, Point
from assay.spec.problems import unique
from assay.spec.slurm import Slurm
from assay.spec.target import CommandTarget, DeviceTarget, EndpointTarget, Served
from assay.spec.workload import Load
from assay.units import show_seconds

MAX_POINTS = 100_000
# Characters of all jobs together, and comparisons of points with rules of `exclude`: seconds of work.
MAX_PLANNED = 100_000_000
MAX_COMPARED = 5_000_000
# The least that one value of a point costs, in characters.
_OF_AN_AXIS = 64


def points(matrix: Matrix, document: Mapping[str, JsonValue] | None = None, at: str = "") -> list[Point]:
    """All points: the product of the axes, less `exclude`, plus `include`."""
    _refuse_large(matrix, document or {}, at)
    values = itertools.product(*matrix.axes.values()) if matrix.axes or not matrix.include else ()
    product: list[Point] = [dict(zip(matrix.axes, point, strict=True)) for point in values]
    points = [point for point in product if not any(rule.items() <= point.items() for rule in matrix.exclude)]
    return list({json.dumps(point, sort_keys=True): point for point in [*points, *matrix.include]}.values())


def _refuse_large(matrix: Matrix, document: Mapping[str, JsonValue], at: str) -> None:
    """Refuse a matrix whose jobs would be too large together: each has a copy of the document and its own values."""
    count = math.prod(len(values) for values in matrix.axes.values())
    if count > MAX_POINTS:
        shown = f"{count:,}" if count < 10**18 else "more than 10^18"
        raise SpecError(
            f"the matrix has {shown} points; at most {MAX_POINTS:,} can be planned",
            code="matrix",
            at=at,
            try_="name fewer values, or only the points that matter under matrix.include",
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


_PLACES = {
    "local": "on the local machine",
    "fleet": "on the agents of a server",
    "slurm": "on a Slurm cluster",
    "kubernetes": "on a Kubernetes cluster",
}
# Engines that start services apart from the clients.
_ONCE_FOR_ALL = ("slurm", "kubernetes")


def most_at_once(section: Slurm | Kubernetes, jobs: Sequence[Job]) -> int | None:
    """How many jobs of a cluster may run concurrently: loads on one server never, unless the file says so."""
    if section.at_once is not None:
        return section.at_once
    on_a_server = any(isinstance(job.definition.target, EndpointTarget) for job in jobs)
    return 1 if on_a_server and not section.parallel else None


def refuse_unsupported(benchmark: Benchmark, engines: Collection[str] = ("local",)) -> None:
    """Refuse what this installation would silently skip."""
    if benchmark.place.engine not in engines:
        first = next(iter(engines))
        message = f"place.engine is {benchmark.place.engine!r}; this installation runs jobs {_PLACES[first]} only"
        raise MeasureError(message, code="engine", try_=f"set place.engine: {first}, or leave place out")
    if benchmark.monitoring and {"fleet", "kubernetes"} & set(engines):
        who = "agents of a server" if "fleet" in engines else "pods"
        message = f"monitoring is for runs on one machine and on a Slurm cluster; {who} start no Prometheus"
        remedy = "remove it; every job records telemetry anyway (measure.probe)"
        raise MeasureError(message, code="monitoring", at="monitoring", try_=remedy)


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
    """Refuse parts of one load that a single machine would drive one after another: together they are no load."""
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
    """Expand a benchmark into jobs."""
    problems: list[Problem] = []
    jobs: list[Job] = []
    at = loaded.source.at(("matrix",))
    for point in points(loaded.matrix, loaded.source.document, at):
        if len(problems) > MAX_PROBLEMS:
            break
        definition, new_problems = validate(Definition, loaded.source, point)
        problems += new_problems
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
    return _plan(loaded.benchmark.benchmark, {job.digest: job for job in jobs}.values())


def combine(plans: Sequence[Plan]) -> Plan:
    """Join plans into one, under the name of the first: their jobs in order, renumbered; equal jobs stay separate."""
    if not plans:
        raise SpecError("there is nothing to plan", code="matrix")
    return _plan(plans[0].benchmark, (job for plan in plans for job in plan.jobs))


def _plan(name: str, jobs: Iterable[Job]) -> Plan:
    numbered = tuple(replace(job, index=index) for index, job in enumerate(jobs))
    return Plan(name, content_hash([name, *(job.digest for job in numbered)]), numbered)


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


# A fresh Python process with its libraries, on an ordinary machine; the model's own load comes on top.
START_S = 1.0
# Warm-up is detected; this is the cap that the load loop keeps.
WARMUP_CAP_SHARE = 1.0
# Tests of a device and sizes of each, where the file names none, and what making and checking the data adds.
USUAL_TESTS = 10
USUAL_SIZES = 6
AROUND_A_SIZE = 1.5
# A search takes at most this many times `probes × probe`, and each probe this share of its length to settle.
SEARCH_IN_ALL = 3.0
SEARCH_SETTLE = 0.15


@dataclass(frozen=True, slots=True)
class Estimate:
    """A span of time and where it comes from."""

    expected_s: float | None  # None where nothing says; with `least_s`, the longest that is expected
    at_most_s: float  # the deadlines, if everything goes as slowly as it may
    source: str
    least_s: float | None = None  # the shortest that is expected, where that is a range; 0 where only its end is known


@dataclass(frozen=True, slots=True)
class _Span:
    """Seconds of a part of one run, between two ends."""

    least: float
    most: float


def estimate(definition: Definition, known_s: float | None, *, trace_s: float | None = None) -> Estimate:
    """Estimate one job.

    Args:
        known_s: how long the same digest took before on this machine, if it is known.
    """
    longest = definition.longest_s
    if known_s is not None:
        return Estimate(known_s, longest, "an earlier result of the same job here")
    known = _of_least_runs(definition, longest, trace_s)
    if not definition.adds_runs or known.expected_s is None:
        return known
    most_s = max(known.expected_s, definition.measure.budget)
    least_s = known.expected_s if known.least_s is None else known.least_s
    more = f"; {definition.measure.least_runs} runs, and more for up to {show_seconds(definition.measure.budget)}"
    return replace(known, expected_s=most_s, least_s=least_s, source=known.source + more)


def _of_least_runs(definition: Definition, longest: float, trace_s: float | None) -> Estimate:
    """The time of the runs that there are in any case."""
    measure = definition.measure
    if isinstance(definition.target, CommandTarget):
        return Estimate(None, longest, "no earlier result; the command decides")
    if isinstance(definition.target, DeviceTarget):
        sizes = max(len(definition.target.sizes), len(definition.target.shapes)) or USUAL_SIZES
        once = (len(definition.target.tests) or USUAL_TESTS) * sizes * definition.target.each * AROUND_A_SIZE
        expected_s = measure.least_runs * (START_S + once * (2 if definition.target.compare else 1))
        return Estimate(expected_s, longest, "the time for each size, with the sizes that tests usually have")
    load = definition.load
    ends = bool(load.duration or load.requests or load.stages or load.trace or load.rate == "search")
    if isinstance(definition.target, Served) and ends:
        return _of_load(definition, longest, trace_s)
    return Estimate(
        measure.least_runs * _run_s(measure), longest, "the stop rule, if each run measures as long as it may"
    )


def _of_load(definition: Definition, longest_s: float, trace_s: float | None) -> Estimate:
    load, measure = definition.load, definition.measure
    loaded = _loaded_s(load, trace_s)
    if loaded is None:
        asked = "its trace was not read" if load.trace else f"the server decides how long {load.requests} requests take"
        return Estimate(None, longest_s, f"no earlier result; {asked}")
    warm = _warmup_s(load, measure)
    least, most = (
        measure.least_runs * min(START_S + span, measure.timeout)
        for span in (loaded.least + warm.least, loaded.most + warm.most)
    )
    source = "the load that is asked for"
    if load.rate == "search":
        source = "the longest search that load.search allows; it may end much earlier"
    elif warm.least < warm.most:
        source += ", without and with the longest warm-up"
    if definition.services:
        source += "; the start of services comes on top"
    if not loaded.least:
        return Estimate(most, longest_s, source, 0.0)
    return Estimate(most, longest_s, source, least if least < most else None)


def _loaded_s(load: Load, trace_s: float | None) -> _Span | None:
    """How long one run loads its target after the warm-up; None where that depends on the target alone."""
    if load.rate == "search":
        # Every probe begins with a while that is not judged.
        return _Span(0.0, SEARCH_IN_ALL * load.search.probes * load.search.probe * (1 + SEARCH_SETTLE))
    ends = [load.duration] if load.duration is not None else []
    if load.trace is not None and trace_s is not None:
        ends.append(trace_s)
    if load.stages:
        ends.append(sum(stage.duration for stage in load.stages))
    if load.requests is not None and load.rate:
        ends.append(load.requests / load.rate)
    if not ends:
        return None
    may_end_sooner = load.requests is not None and not load.rate
    return _Span(0.0 if may_end_sooner else min(ends), min(ends))


def _warmup_s(load: Load, measure: Measure) -> _Span:
    """How long the target is loaded before that; requests of a closed loop take a while that nothing says."""
    ramp, asked = load.ramp or 0.0, measure.warmup
    if isinstance(asked, float):
        return _Span(asked + ramp, asked + ramp)
    if isinstance(asked, int):
        given = asked / load.rate if isinstance(load.rate, float) else ramp
        return _Span(given, given)
    if asked == "none" or load.trace or load.stages:
        return _Span(ramp, ramp)
    return _Span(ramp, ramp + max(1.0, load.duration or measure.until.at_most))


def _run_s(measure: Measure) -> float:
    warmup = measure.warmup if isinstance(measure.warmup, float) else WARMUP_CAP_SHARE * measure.until.at_most
    return START_S + warmup + max(measure.until.at_most, measure.until.at_least)
