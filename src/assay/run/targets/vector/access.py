"""Which vector database a target names, how it is reached and searched, and what is watched around it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, Protocol

import psutil

from assay.errors import MeasureError
from assay.plugins import find_plugin, plugin_names
from assay.run.contract import Order, Stage
from assay.run.probes import ServiceProbe, service_probe
from assay.run.services import RunningService, refuse_ended
from assay.run.targets.vector.collection import (
    Collection,
    DriverCollection,
    HttpCollection,
    LibraryCollection,
    SearchLoad,
    SearchTask,
    ThreadCollection,
)
from assay.run.targets.vector.report import Findings, Searches
from assay.run.workloads.corpus import Floats
from assay.spec.benchmark import Definition
from assay.spec.protocols import VECTORS
from assay.spec.secrets import resolve_secrets
from assay.spec.target import EndpointTarget, LibraryTarget, ServiceTarget, Target, Tls

if TYPE_CHECKING:
    from assay.run.endpoint import ServedEndpoint
    from assay.run.targets.vector.http import JsonClient


@dataclass(frozen=True, slots=True)
class ServiceContext:
    """Where a search is answered. A library is answered in this process and has none of this."""

    service: RunningService | None = None
    """The service that is measured, where we started it."""
    pid: int | None = None
    """First process of what answers, where it runs on this machine."""
    shared: Mapping[str, RunningService] = field(default_factory=dict)
    """Services that all runs of the job share."""
    metrics_url: str | None = None
    metrics_address: str | None = None
    """Where the metrics are read, where that was checked."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """As they stand in the file: secrets are references."""
    tls: Tls = field(default_factory=Tls)

    def cpu_s(self) -> float:
        """Processor time of this process and of what answers: both belong to the measurement."""
        own = time.process_time()
        if self.pid is None:
            return own
        try:
            first = psutil.Process(self.pid)
            return own + sum(sum(one.cpu_times()[:2]) for one in (first, *first.children(recursive=True)))
        except psutil.Error:
            return own

    def describe(self, found: Findings) -> None:
        """Note how the service came up."""
        if self.service is None:
            return
        shared = self.service.name in self.shared
        found.facts["service"] = {
            "name": self.service.name,
            "how": self.service.how,
            **dict(self.service.facts),
            "shared": shared,
        }
        if shared:
            found.absent["start_to_ready_s"] = "all runs of the job share the service, so its start is not theirs"
        else:
            found.metrics["start_to_ready_s"] = self.service.start_to_ready_s

    @contextmanager
    def watched(self, order: Order) -> Iterator[ServiceProbe | None]:
        """Watch a service of ours, or the metrics that it shows; a plain endpoint is left alone."""
        scrapes = {} if self.metrics_url is None else {"service": self.metrics_url}
        pids = {"service": self.service.pid} if self.service is not None and self.service.pid else {}
        if not scrapes and not pids:
            yield None
            return
        ca = None if self.tls.ca is None else str(Path(order.job.base) / self.tls.ca)
        addresses = {} if self.metrics_address is None else {"service": self.metrics_address}
        with service_probe(
            scratch=Path(order.scratch),
            scrapes=scrapes,
            pids=pids,
            headers=self.headers,
            verify=self.tls.verify,
            ca=ca,
            addresses=addresses,
        ) as probe:
            yield probe

    def keep(self, probe: ServiceProbe | None, window: tuple[int, int], found: Findings) -> None:
        """Keep what a probe saw in the measured window.

        Raises:
            MeasureError: if the service has ended by itself meanwhile.
        """
        refuse_ended([self.service] if self.service is not None else [])
        if probe is None:
            return
        seen = probe.finish(window)
        found.facts["telemetry"] = dict(seen.facts)
        if seen.server_view:
            found.facts["server_view"] = {source: dict(view) for source, view in seen.server_view.items()}
        found.absent |= dict(seen.absent)
        if seen.file is not None:
            found.files[seen.file.name] = seen.file


class Access(Protocol):
    """A collection, where it is, and how it is searched."""

    @property
    def collection(self) -> Collection: ...

    @property
    def around(self) -> ServiceContext: ...

    def first_ms(self, queries: Floats) -> float:
        """Search once and return its milliseconds."""

    def drive(self, load: SearchLoad) -> Searches:
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
        return nullcontext(ThreadAccess(kind(_task(order.job.definition), target.threads), ServiceContext()))
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
        yield ThreadAccess(
            collection, ServiceContext(service, pid, order.services, metrics, address, headers, target.tls)
        )


@contextmanager
def _over_http(kind: type[HttpCollection], order: Order, stage: Stage) -> Iterator[Access]:
    from assay.run.endpoint import reached
    from assay.run.targets.vector.http import JsonClient

    with reached(order, stage) as place:
        target, definition = place.target, order.job.definition
        rest = JsonClient(
            kind.name,
            place.url,
            headers=place.headers,
            timeout_s=target.timeout,
            tls=target.tls,
            proxy=target.proxy and resolve_secrets(target.proxy),
            base=Path(order.job.base),
            own=place.service is not None,
        )
        around = ServiceContext(
            place.service,
            place.local_pid,
            order.services,
            place.metrics_url,
            place.metrics_address,
            place.metrics_headers,
            target.tls,
        )
        yield HttpAccess(kind(rest, _task(definition), definition.measure.timeout), around, rest, place)


@dataclass(frozen=True, slots=True)
class ThreadAccess:
    """A collection that is searched by calls from threads."""

    collection: ThreadCollection
    around: ServiceContext

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

    def drive(self, load: SearchLoad) -> Searches:
        from assay.run.targets.vector.threads import drive_threads

        return drive_threads(self.collection, load)


@dataclass(frozen=True, slots=True)
class HttpAccess:
    """A collection that is searched over HTTP."""

    collection: HttpCollection
    around: ServiceContext
    rest: JsonClient
    place: ServedEndpoint

    def first_ms(self, queries: Floats) -> float:
        """Search once."""
        from assay.run.targets.vector.http import first_over_http

        return first_over_http(self.collection, self.rest, queries[0])

    def drive(self, load: SearchLoad) -> Searches:
        """Search through the load loop for HTTP."""
        from assay.run.targets.vector.http import drive_http

        path = self.rest.url.removeprefix(f"{self.place.origin.scheme}://").partition("/")[2]
        return drive_http(self.collection, self.place.origin, f"/{path}" if path else "", load)


def _task(definition: Definition) -> SearchTask:
    target, workload = definition.target, definition.workload
    if not isinstance(target, EndpointTarget | ServiceTarget | LibraryTarget):
        raise MeasureError("this target is no vector database", code="target", at="target")
    return SearchTask(workload.corpus, workload.k, workload.filter is not None, target.index, target.search)
