"""One run of a vector search: load the vectors, index them, search under load, compare with the truth."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter_ns

from pydantic import JsonValue

from assay.errors import MeasureError
from assay.run.contract import Measured, Order, Rules, Stage
from assay.run.processes import peak_mb, reset_peak, resident_mb
from assay.run.targets.vector.access import find_collection, opened
from assay.run.targets.vector.collection import Collection, DriverCollection, SearchLoad
from assay.run.targets.vector.oracle import Neighbours, known_neighbours
from assay.run.targets.vector.report import Findings, report
from assay.run.workloads.corpus import VectorSet, vector_set
from assay.spec.benchmark import Definition
from assay.spec.target import EndpointTarget, LibraryTarget, ServiceTarget

# Keys of a served target that say nothing to a vector database.
_OF_LANGUAGE_MODELS = ("model", "body", "options", "tokenizer", "price", "stream", "method")


def measure(order: Order, stage: Stage, rules: Rules) -> Measured:
    """Measure one run of a vector search.

    Raises:
        MeasureError: when the database cannot be reached, refuses an option, or answers nothing.
    """
    began_ns = perf_counter_ns()
    definition = order.job.definition
    _refuse_meaningless(definition)
    found = Findings()
    vectors = vector_set(definition.workload)
    with opened(order, stage) as access:
        access.around.describe(found)
        # What the database refuses it should refuse before the truth is computed, which can take minutes.
        with stage.phase("load"):
            access.collection.create()
        with stage.phase("prepare"):
            cache = Path(order.cache) if order.cache else None
            truth = known_neighbours(vectors, definition.workload.k, cache, stage.progress)
        with access.around.watched(order) as probe:
            _load(access.collection, vectors, definition, stage, found)
            with stage.phase("first"):
                found.metrics["first_ms"] = access.first_ms(vectors.queries)
            searches = access.drive(SearchLoad(vectors.queries, order, stage, rules, began_ns, access.around.cpu_s))
            with stage.phase("score"):
                access.around.keep(probe, searches.window, found)
        with stage.phase("score"):
            report(searches, vectors, truth, definition.objective, found)
            found.facts["engine"] = {"name": access.collection.name, **access.collection.facts()}
            found.facts["corpus"] = _about(definition, vectors, truth)
    if isinstance(definition.target, LibraryTarget):
        _keep_peak("peak_run_rss_mb", found)
    return Measured(
        found.metrics, found.absent, tuple(found.samples), found.facts, window=searches.machine, files=found.files
    )


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
            raise MeasureError(
                f"target.{given[0]} does nothing for {target.api}",
                code="usage",
                at=f"target.{given[0]}",
                try_="remove it",
            )


def _takes_path(target: EndpointTarget | ServiceTarget) -> bool:
    """Whether a path means anything: it names the database of a server that a driver connects to."""
    kind = find_collection(target)
    return kind is not None and issubclass(kind, DriverCollection)


def _load(collection: Collection, vectors: VectorSet, definition: Definition, stage: Stage, found: Findings) -> None:
    """Load and index all vectors; only what the database itself does is timed."""
    library = isinstance(definition.target, LibraryTarget)
    if library:
        found.metrics["baseline_rss_mb"] = resident_mb()
        reset_peak()
    with stage.phase("load"):
        insert_s: float | None = 0.0
        for block in vectors.blocks():
            taken = collection.insert(block)
            insert_s = None if taken is None or insert_s is None else insert_s + taken
            stage.progress((block.first + len(block)) / vectors.corpus.vectors, "vectors loaded")
        found.metrics["index_s"] = collection.finish()
    if insert_s is None:
        found.absent["insert_s"] = "the vectors are in this process already; nothing is sent"
    else:
        found.metrics["insert_s"] = insert_s
    size = collection.index_mb()
    if isinstance(size, str):
        found.absent["index_mb"] = size
    else:
        found.metrics["index_mb"] = size
    if library:
        _keep_peak("peak_load_rss_mb", found)
        reset_peak()


def _keep_peak(name: str, found: Findings) -> None:
    peak = peak_mb()
    if peak is None:
        found.absent[name] = "this system keeps no high-water mark of memory"
    else:
        found.metrics[name] = peak


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
