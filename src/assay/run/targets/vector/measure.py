"""One run of a vector search: load the vectors, index them, search under load, compare with the truth."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING

from pydantic import JsonValue

from assay.errors import MeasureError, first_line
from assay.plugins import find_plugin, plugin_names
from assay.run.contract import Measured, Order, Rules, Stage
from assay.run.probes import ServiceProbe
from assay.run.processes import peak_mb, reset_peak, resident_mb
from assay.run.services import RunningService, refuse_ended
from assay.run.targets.telemetry import keep_telemetry, tree_cpu_s, watched
from assay.run.targets.vector.collection import (
    Collection,
    DriverCollection,
    HttpCollection,
    LibraryCollection,
    SearchLoad,
    SearchTask,
    ThreadCollection,
)
from assay.run.targets.vector.oracle import Neighbours, known_neighbours
from assay.run.targets.vector.report import Findings, Searches, report
from assay.run.workloads.corpus import Floats, VectorSet, vector_set
from assay.spec.benchmark import Definition
from assay.spec.references import resolve_secrets
from assay.spec.target import VECTORS, EndpointTarget, LibraryTarget, ServiceTarget, Target, Tls

if TYPE_CHECKING:
    from assay.run.endpoint import ServedEndpoint
    from assay.run.targets.vector.http import JsonClient


# Keys of a served target that say nothing to a vector database.
_OF_LANGUAGE_MODELS = ("model", "body", "options", "tokenizer", "price", "stream", "method")


def measure(order: Order, stage: Stage, rules: Rules) -> Measured:
    """Measure one run of a vector search."""
    began_ns = perf_counter_ns()
    definition = order.job.definition
    _refuse_meaningless(definition)
    findings = Findings()
    vectors = vector_set(definition.workload)
    with _within_reach(order, stage) as access, closing(access, stage):
        around = access.around
        around.describe(findings)
        # What the database refuses it should refuse before the truth is computed, which can take minutes.
        with stage.phase("load"):
            access.collection.create()
        with stage.phase("prepare"):
            cache = Path(order.cache) if order.cache else None
            truth = known_neighbours(vectors, definition.workload.k, cache, stage.progress)
        with around.watched(order) as probe:
            _load(access.collection, vectors, definition, stage, findings)
            with stage.phase("first"):
                findings.metrics["first_ms"] = access.first_ms(vectors.queries)
            searches = access.drive(SearchLoad(vectors.queries, order, stage, rules, began_ns, around.cpu_s))
            with stage.phase("score"):
                refuse_ended([around.service] if around.service is not None else [])
                keep_telemetry(probe, searches.window, findings.facts, findings.absent, findings.files)
        with stage.phase("score"):
            report(searches, vectors, truth, definition.objective, findings)
            findings.facts["engine"] = {"name": access.collection.name, **access.collection.facts()}
            findings.facts["corpus"] = _about(definition, vectors, truth)
    if isinstance(definition.target, LibraryTarget):
        _keep_peak("peak_run_rss_mb", findings)
    return Measured(
        findings.metrics,
        findings.absent,
        tuple(findings.samples),
        findings.facts,
        window=searches.machine,
        files=findings.files,
    )


@contextmanager
def closing(access: Access, stage: Stage) -> Iterator[None]:
    """Remove the collection afterwards, whatever happened."""
    try:
        yield
    finally:
        with stage.phase("cleanup"):
            access.collection.close()


def _refuse_meaningless(definition: Definition) -> None:
    """Refuse keys that would look decisive and do nothing."""
    task = definition.workload.task
    if task not in (None, "knn"):
        raise MeasureError(f"a vector database has no task {task!r}", code="usage", at="workload.task", try_="use knn")
    target = definition.target
    if isinstance(target, EndpointTarget | ServiceTarget):
        fields = type(target).model_fields
        given = [name for name in _OF_LANGUAGE_MODELS if getattr(target, name) != fields[name].default]
        given += ["path"] if target.path is not None and not _takes_path(target) else []
        if given:
            message = f"target.{given[0]} does nothing for {target.api}"
            raise MeasureError(message, code="usage", at=f"target.{given[0]}", try_="remove it")


def _takes_path(target: EndpointTarget | ServiceTarget) -> bool:
    """Whether a path means anything: it names the database of a server that a driver connects to."""
    kind = find_collection(target)
    return kind is not None and issubclass(kind, DriverCollection)


def _load(collection: Collection, vectors: VectorSet, definition: Definition, stage: Stage, findings: Findings) -> None:
    """Load and index all vectors; only what the database itself does is timed."""
    library = isinstance(definition.target, LibraryTarget)
    if library:
        findings.metrics["baseline_rss_mb"] = resident_mb()
        reset_peak()
    with stage.phase("load"):
        insert_s: float | None = 0.0
        for block in vectors.blocks():
            taken = collection.insert(block)
            insert_s = None if taken is None or insert_s is None else insert_s + taken
            stage.progress((block.first + len(block)) / vectors.corpus.vectors, "vectors loaded")
        findings.metrics["index_s"] = collection.finish()
    if insert_s is None:
        findings.absent["insert_s"] = "the vectors are in this process already; nothing is sent"
    else:
        findings.metrics["insert_s"] = insert_s
    size = collection.index_mb()
    if isinstance(size, str):
        findings.absent["index_mb"] = size
    else:
        findings.metrics["index_mb"] = size
    if library:
        _keep_peak("peak_load_rss_mb", findings)
        reset_peak()


def _keep_peak(name: str, findings: Findings) -> None:
    peak = peak_mb()
    if peak is None:
        findings.absent[name] = "this system keeps no high-water mark of memory"
    else:
        findings.metrics[name] = peak


def _about(definition: Definition, vectors: VectorSet, truth: Neighbours) -> dict[str, JsonValue]:
    corpus = definition.workload.corpus
    about: dict[str, JsonValue] = {
        **corpus.model_dump(mode="json"),
        "seed": vectors.seed,
        "queries": vectors.asked,
        "sha256": truth.digest,
    }
    if vectors.share is not None:
        about["filter"] = {"share": vectors.share, "vectors_left": vectors.left}
    return about


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
    headers: Mapping[str, str] = field(default_factory=dict)
    """As they stand in the file: secrets are references."""
    tls: Tls = field(default_factory=Tls)

    def cpu_s(self) -> float:
        """Processor time of this process and of what answers: both belong to the measurement."""
        return time.process_time() + tree_cpu_s(self.pid)

    def describe(self, findings: Findings) -> None:
        if self.service is None:
            return
        shared = self.service.name in self.shared
        findings.facts["service"] = {
            "name": self.service.name,
            "how": self.service.how,
            **dict(self.service.facts),
            "shared": shared,
        }
        if shared:
            findings.absent["start_to_ready_s"] = "all runs of the job share the service, so its start is not theirs"
        else:
            findings.metrics["start_to_ready_s"] = self.service.start_to_ready_s

    def watched(self, order: Order) -> AbstractContextManager[ServiceProbe | None]:
        return watched(order, self.service, self.metrics_url, self.metrics_address, self.headers, self.tls)


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
    message = "this target is no vector database"
    try_ = f"use one of {', '.join(plugin_names(VECTORS))}: target.library or target.api"
    raise MeasureError(message, code="target", at="target", try_=try_)


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
        metrics = (place.metrics_url, place.metrics_address, place.metrics_headers)
        around = ServiceContext(place.service, place.local_pid, order.services, *metrics, target.tls)
        yield HttpAccess(kind(rest, _task(definition), definition.measure.timeout), around, rest, place)


@dataclass(frozen=True, slots=True)
class ThreadAccess:
    collection: ThreadCollection
    around: ServiceContext

    def first_ms(self, queries: Floats) -> float:
        """Search once and return its milliseconds."""
        searcher = self.collection.searcher(queries)
        try:
            start = perf_counter_ns()
            searcher.search(0)
            return (perf_counter_ns() - start) / 1e6
        except self.collection.failures as problem:
            message = f"{self.collection.name} refuses a search: {first_line(problem)}"
            raise MeasureError(message, code="search-option", at="target.search") from None
        finally:
            searcher.close()

    def drive(self, load: SearchLoad) -> Searches:
        from assay.run.targets.vector.threads import drive_threads

        return drive_threads(self.collection, load)


@dataclass(frozen=True, slots=True)
class HttpAccess:
    collection: HttpCollection
    around: ServiceContext
    rest: JsonClient
    place: ServedEndpoint

    def first_ms(self, queries: Floats) -> float:
        """Search once and return its milliseconds."""
        method, path, body = self.collection.search_request(queries[0])
        return 1e3 * self.rest.timed(method, path, body, code="search-option", at="target.search")

    def drive(self, load: SearchLoad) -> Searches:
        from assay.run.targets.vector.http import drive_http

        path = self.rest.url.removeprefix(f"{self.place.origin.scheme}://").partition("/")[2]
        return drive_http(self.collection, self.place.origin, f"/{path}" if path else "", load)


Access = ThreadAccess | HttpAccess


def _task(definition: Definition) -> SearchTask:
    target, workload = definition.target, definition.workload
    if not isinstance(target, EndpointTarget | ServiceTarget | LibraryTarget):
        raise MeasureError("this target is no vector database", code="target", at="target")
    return SearchTask(workload.corpus, workload.k, workload.filter is not None, target.index, target.search)
