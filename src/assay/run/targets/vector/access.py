"""Which vector database a target names, where it is, and how it is searched: over HTTP or by calls from threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, Protocol

from assay.errors import MeasureError
from assay.plugins import find_plugin, plugin_names
from assay.run.contract import Order, Rules, Stage
from assay.run.targets.vector.collection import (
    Collection,
    DriverCollection,
    HttpCollection,
    LibraryCollection,
    SearchTask,
    ThreadCollection,
)
from assay.run.targets.vector.searches import Searches
from assay.run.targets.vector.surroundings import Surroundings
from assay.run.workloads.corpus import Floats
from assay.spec.benchmark import Definition
from assay.spec.protocols import VECTORS
from assay.spec.secrets import resolve_secrets
from assay.spec.target import EndpointTarget, LibraryTarget, ServiceTarget, Target

if TYPE_CHECKING:  # a library needs neither the HTTP loop nor a client
    from assay.run.endpoint import Endpoint
    from assay.run.targets.vector.rest import Rest


class Access(Protocol):
    """A collection, where it is, and how it is searched."""

    @property
    def collection(self) -> Collection: ...

    @property
    def around(self) -> Surroundings: ...

    def first_ms(self, queries: Floats) -> float:
        """Search once and return its milliseconds."""

    def drive(self, queries: Floats, order: Order, stage: Stage, rules: Rules, began_ns: int) -> Searches:
        """Search under load."""


@contextmanager
def opened(order: Order, stage: Stage) -> Iterator[Access]:
    """The database within reach; its collection is removed afterwards, whatever happened.

    Raises:
        MeasureError: if there is no such database, or it cannot be reached.
    """
    with _within_reach(order, stage) as access:
        try:
            yield access
        finally:
            with stage.phase("cleanup"):
                access.collection.close()


def find_collection(target: Target) -> type[Collection] | None:
    """What is registered for the vector database of a target; None where it is none."""
    name = target.library if isinstance(target, LibraryTarget) else getattr(target, "api", "")
    entry = find_plugin(name, VECTORS)
    return None if entry is None else entry.load()


def _within_reach(order: Order, stage: Stage) -> AbstractContextManager[Access]:
    target = order.job.definition.target
    kind = find_collection(target)
    if kind is not None and isinstance(target, LibraryTarget) and issubclass(kind, LibraryCollection):
        return nullcontext(Calls(kind(_task(order.job.definition), target.threads), Surroundings()))
    if kind is not None and isinstance(target, EndpointTarget | ServiceTarget):
        if issubclass(kind, HttpCollection):
            return _over_http(kind, order, stage)
        if issubclass(kind, DriverCollection):
            return _through_driver(kind, target, order, stage)
    raise MeasureError(
        "this target is no vector database",
        code="target",
        at="target",
        try_=f"use one of {', '.join(plugin_names(VECTORS))}: target.library or target.api",
    )


@contextmanager
def _through_driver(
    kind: type[DriverCollection], target: EndpointTarget | ServiceTarget, order: Order, stage: Stage
) -> Iterator[Access]:
    from assay.run.endpoint import metrics_headers, started_services
    from assay.run.policy import pinned

    with started_services(order, stage) as services:
        service = None
        if isinstance(target, EndpointTarget):
            url = kind.checked_url(resolve_secrets(target.endpoint))
        else:
            service = services[target.service]
            url = kind.service_url(service.host, service.port, target.path)
        collection = kind(url, _task(order.job.definition), target.timeout)
        pid = service.pid if service is not None else collection.local_pid()
        metrics = target.metrics
        address = pinned(metrics, "target.metrics") if metrics is not None and "://" in metrics else None
        headers = metrics_headers(target, url, metrics)
        yield Calls(collection, Surroundings(service, pid, order.services, metrics, address, headers, target.tls))


@contextmanager
def _over_http(kind: type[HttpCollection], order: Order, stage: Stage) -> Iterator[Access]:
    from assay.run.endpoint import reached
    from assay.run.targets.vector.rest import Rest

    with reached(order, stage) as place:
        target, definition = place.target, order.job.definition
        rest = Rest(
            kind.name,
            place.url,
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
        yield Requests(kind(rest, _task(definition), definition.measure.timeout), around, rest, place)


@dataclass(frozen=True, slots=True)
class Calls:
    """A collection that is searched by calls from threads."""

    collection: ThreadCollection
    around: Surroundings

    def first_ms(self, queries: Floats) -> float:
        """Search once."""
        searcher = self.collection.searcher(queries)
        try:
            start = perf_counter_ns()
            searcher.search(0)
            return (perf_counter_ns() - start) / 1e6
        except self.collection.failures as problem:
            first = next(iter(str(problem).strip().splitlines()), type(problem).__name__)
            raise MeasureError(
                f"{self.collection.name} refuses a search: {first}", code="search-option", at="target.search"
            ) from None
        finally:
            searcher.close()

    def drive(self, queries: Floats, order: Order, stage: Stage, rules: Rules, began_ns: int) -> Searches:
        from assay.run.targets.vector.in_threads import drive_threads

        return drive_threads(self.collection, queries, order, stage, rules, began_ns, cpu_s=self.around.cpu_s)


@dataclass(frozen=True, slots=True)
class Requests:
    """A collection that is searched over HTTP."""

    collection: HttpCollection
    around: Surroundings
    rest: Rest
    place: Endpoint

    def first_ms(self, queries: Floats) -> float:
        """Search once."""
        from assay.run.targets.vector.over_http import first_over_http

        return first_over_http(self.collection, self.rest, queries[0])

    def drive(self, queries: Floats, order: Order, stage: Stage, rules: Rules, began_ns: int) -> Searches:
        """Search through the load loop for HTTP."""
        from assay.run.targets.vector.over_http import drive_http

        path = self.rest.url.removeprefix(f"{self.place.origin.scheme}://").partition("/")[2]
        return drive_http(
            self.collection,
            self.place.origin,
            f"/{path}" if path else "",
            queries,
            order,
            stage,
            rules,
            began_ns,
            cpu_s=self.around.cpu_s,
        )


def _task(definition: Definition) -> SearchTask:
    target, workload = definition.target, definition.workload
    if not isinstance(target, EndpointTarget | ServiceTarget | LibraryTarget):
        raise MeasureError("this target is no vector database", code="target", at="target")
    return SearchTask(workload.corpus, workload.k, workload.filter is not None, target.index, target.search)
