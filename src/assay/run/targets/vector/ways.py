"""Which engine a target names, where it is, and how it is searched: over HTTP or by calls from threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, Protocol

from assay.errors import MeasureError
from assay.run.contract import Order, Rules, Stage
from assay.run.targets.vector.engine import Engine, HttpEngine, Task, ThreadEngine
from assay.run.targets.vector.searches import Searches
from assay.run.targets.vector.surroundings import Surroundings
from assay.run.workloads.corpus import Floats
from assay.spec.benchmark import Definition
from assay.spec.secrets import resolve_secrets
from assay.spec.target import EndpointTarget, LibraryTarget, ServiceTarget

if TYPE_CHECKING:  # a library needs neither the HTTP loop nor a client
    from assay.run.targets.served.reaching import Reached
    from assay.run.targets.vector.rest import Rest

OVER_HTTP = ("qdrant", "chroma", "milvus")
CALLED = ("pgvector",)


class Way(Protocol):
    """An engine, where it is, and how it is searched."""

    @property
    def engine(self) -> Engine:
        """The engine."""

    @property
    def around(self) -> Surroundings:
        """What answers."""

    def first_ms(self, queries: Floats) -> float:
        """Search once and return its milliseconds."""

    def drive(self, queries: Floats, order: Order, stage: Stage, rules: Rules, began_ns: int) -> Searches:
        """Search under load."""


@contextmanager
def opened(order: Order, stage: Stage) -> Iterator[Way]:
    """The engine within reach; its collection is removed afterwards, whatever happened.

    Raises:
        MeasureError: if there is no such engine, or it cannot be reached.
    """
    with _within_reach(order, stage) as way:
        try:
            yield way
        finally:
            with stage.phase("cleanup"):
                way.engine.close()


def _within_reach(order: Order, stage: Stage) -> AbstractContextManager[Way]:
    target = order.job.definition.target
    if isinstance(target, LibraryTarget):
        return _in_this_process(order.job.definition, target)
    if isinstance(target, EndpointTarget | ServiceTarget) and target.api in OVER_HTTP:
        return _over_http(order, stage)
    if isinstance(target, EndpointTarget | ServiceTarget) and target.api in CALLED:
        return _called(order, target, stage)
    raise MeasureError(
        "this target is no vector database",
        code="target",
        at="target",
        try_=f"use library: faiss, or api: {', '.join((*OVER_HTTP, *CALLED))}",
    )


@contextmanager
def _in_this_process(definition: Definition, target: LibraryTarget) -> Iterator[Way]:
    from assay.run.targets.vector.faiss_index import FaissIndex

    yield Calls(FaissIndex(_task(definition), target.threads), Surroundings())


@contextmanager
def _called(order: Order, target: EndpointTarget | ServiceTarget, stage: Stage) -> Iterator[Way]:
    from assay.run.policy import pinned
    from assay.run.services import started
    from assay.run.targets.served.reaching import metrics_headers
    from assay.run.targets.vector.dsn import checked_dsn
    from assay.run.targets.vector.pgvector import Pgvector

    definition = order.job.definition
    own = {
        name: service
        for name, service in definition.services.items()
        if service.fresh == "run" and name not in order.services
    }
    told: Callable[[str], None] = lambda note: stage.progress(0.0, note)  # noqa: E731
    with started(own, Path(order.job.base), Path(order.scratch), known=order.services, tell=told) as fresh:
        service = None
        if isinstance(target, EndpointTarget):
            url = checked_dsn(resolve_secrets(target.endpoint))
        else:
            service = {**order.services, **fresh}[target.service]
            url = f"postgresql://postgres@{service.host}:{service.port}{target.path or '/postgres'}"
        engine = Pgvector(url, _task(definition), target.timeout)
        pid = service.pid if service is not None else engine.local_pid()
        metrics = target.metrics
        address = pinned(metrics, "target.metrics") if metrics is not None and "://" in metrics else None
        headers = metrics_headers(target, url, metrics)
        yield Calls(engine, Surroundings(service, pid, order.services, metrics, address, headers, target.tls))


@contextmanager
def _over_http(order: Order, stage: Stage) -> Iterator[Way]:
    from assay.run.targets.served.reaching import reached

    with reached(order, stage) as place:
        yield _requests(order, place)


def _requests(order: Order, place: Reached) -> Requests:
    from assay.run.targets.vector.chroma import Chroma, split_url
    from assay.run.targets.vector.milvus import Milvus
    from assay.run.targets.vector.qdrant import Qdrant
    from assay.run.targets.vector.rest import Rest

    target, definition = place.target, order.job.definition
    root, database = split_url(place.url) if target.api == "chroma" else (place.url.rstrip("/"), "")
    rest = Rest(
        target.api.capitalize(),
        root,
        headers=place.headers,
        timeout_s=target.timeout,
        tls=target.tls,
        proxy=target.proxy and resolve_secrets(target.proxy),
        base=Path(order.job.base),
        own=place.service is not None,
    )
    around = Surroundings(
        place.service,
        place.local_pid,
        order.services,
        place.metrics_url,
        place.metrics_address,
        place.metrics_headers,
        target.tls,
    )
    patience_s = definition.measure.timeout
    if target.api == "chroma":
        return Requests(Chroma(rest, database, _task(definition), patience_s), around, rest, place)
    if target.api == "milvus":
        return Requests(Milvus(rest, _task(definition), patience_s), around, rest, place)
    return Requests(Qdrant(rest, _task(definition), patience_s), around, rest, place)


@dataclass(frozen=True, slots=True)
class Calls:
    """An engine that is called from threads."""

    engine: ThreadEngine
    around: Surroundings

    def first_ms(self, queries: Floats) -> float:
        """Search once."""
        searcher = self.engine.searcher(queries)
        try:
            start = perf_counter_ns()
            searcher.search(0)
            return (perf_counter_ns() - start) / 1e6
        except self.engine.failures as problem:
            first = next(iter(str(problem).strip().splitlines()), type(problem).__name__)
            raise MeasureError(
                f"{self.engine.name} refuses a search: {first}", code="search-option", at="target.search"
            ) from None
        finally:
            searcher.close()

    def drive(self, queries: Floats, order: Order, stage: Stage, rules: Rules, began_ns: int) -> Searches:
        from assay.run.targets.vector.in_threads import drive_threads

        return drive_threads(self.engine, queries, order, stage, rules, began_ns, cpu_s=self.around.cpu_s)


@dataclass(frozen=True, slots=True)
class Requests:
    """An engine that is asked over HTTP."""

    engine: HttpEngine
    around: Surroundings
    rest: Rest
    place: Reached

    def first_ms(self, queries: Floats) -> float:
        """Search once."""
        from assay.run.targets.vector.over_http import first_over_http

        return first_over_http(self.engine, self.rest, queries[0])

    def drive(self, queries: Floats, order: Order, stage: Stage, rules: Rules, began_ns: int) -> Searches:
        """Search through the load loop for HTTP."""
        from assay.run.targets.vector.over_http import drive_http

        path = self.rest.url.removeprefix(f"{self.place.origin.scheme}://").partition("/")[2]
        return drive_http(
            self.engine,
            self.place.origin,
            f"/{path}" if path else "",
            queries,
            order,
            stage,
            rules,
            began_ns,
            cpu_s=self.around.cpu_s,
        )


def _task(definition: Definition) -> Task:
    target, workload = definition.target, definition.workload
    if not isinstance(target, EndpointTarget | ServiceTarget | LibraryTarget):
        raise MeasureError("this target is no vector database", code="target", at="target")
    return Task(workload.corpus, workload.k, workload.filter is not None, target.index, target.search)
