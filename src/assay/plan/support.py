"""What a benchmark may ask for here: said before anything is planned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from assay.errors import MeasureError, Problem
from assay.plan.job import Job
from assay.plan.parts import point_key
from assay.spec.benchmark import Benchmark, Definition

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
