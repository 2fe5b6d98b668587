"""A load of searches over HTTP: the load loop sends requests that were made before, answers are read after."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from assay.errors import MeasureError
from assay.run import window
from assay.run.contract import Order, Rules, Stage
from assay.run.load.http.driver import Repeat
from assay.run.load.http.origin import Origin
from assay.run.load.http.recording import OUTCOMES, Recording, client_metrics
from assay.run.load.http.session import asked_of, drive_watched, load_of
from assay.run.records import Window
from assay.run.targets.vector.collection import HttpCollection
from assay.run.targets.vector.rest import Rest
from assay.run.targets.vector.searches import OK, Searches
from assay.run.workloads.corpus import Floats
from assay.spec.benchmark import Definition

_KINDS = (OK, *OUTCOMES[1:])
_CONTENT = OUTCOMES.index("content")


def drive_http(
    engine: HttpCollection,
    origin: Origin,
    root: str,
    queries: Floats,
    order: Order,
    stage: Stage,
    rules: Rules,
    began_ns: int,
    *,
    cpu_s: Callable[[], float] = time.process_time,
) -> Searches:
    """Search over HTTP until enough is known."""
    definition = order.job.definition
    refuse_other_loads(definition)
    load = load_of(order, origin)
    load = replace(load, requests=load.requests or definition.measure.until.samples)
    supply = Repeat([_wire(engine, origin, root, query) for query in queries])
    begin = window.read(cpu_s())
    recording = drive_watched(load, supply, order, stage, rules, began_ns)
    machine = window.between(begin, window.read(cpu_s()))
    with stage.phase("score"):
        found = _read(engine, recording, len(queries), definition.workload.k, machine)
    return replace(found, facts={"load": {**asked_of(definition.load), **_about(recording)}})


def first_over_http(engine: HttpCollection, rest: Rest, query: Floats) -> float:
    """Send one search by itself and return its milliseconds."""
    method, path, body = engine.search_request(query)
    return 1e3 * rest.timed(method, path, body, code="search-option", at="target.search")


def refuse_other_loads(definition: Definition) -> None:
    """Refuse what a search has no use for, before anything is built for it."""
    for name, given in (("rate: search", definition.load.rate == "search"), ("trace", definition.load.trace)):
        if given:
            raise MeasureError(
                f"load.{name} is not for a vector search",
                code="usage",
                at="load",
                try_="use a matrix over load.rate or load.concurrency",
            )


def _wire(engine: HttpCollection, origin: Origin, root: str, query: Floats) -> bytes:
    method, path, body = engine.search_request(query)
    return origin.request(method, root + path, engine.headers(), body)


def _read(engine: HttpCollection, recording: Recording, queries: int, k: int, machine: Window) -> Searches:
    """What the clients saw, with the answers read."""
    outcome = recording.outcome.astype(np.int16)
    ids: NDArray[np.int64] = np.full((len(recording), k), -1, dtype=np.int64)
    examples: dict[str, str] = {}
    for row in range(len(recording)):
        kind = _KINDS[outcome[row]]
        if kind == OK:
            try:
                found = engine.read_ids(bytes(recording.body_of(row)))[:k]
            except ValueError as problem:
                outcome[row] = _CONTENT
                examples.setdefault("content", str(problem))
            else:
                ids[row, : len(found)] = found
        elif kind not in examples:
            body = bytes(recording.body_of(row)[:300]).decode("utf-8", "replace").strip()
            status = int(recording.status[row])
            examples[kind] = f"{status}: {body}" if status else kind
    order = np.argsort(recording.due_ns, kind="stable")
    return Searches(
        query=(recording.session % queries)[order],
        due_ns=recording.due_ns[order],
        sent_ns=recording.sent_ns[order],
        end_ns=recording.end_ns[order],
        outcome=outcome[order],
        ids=ids[order],
        kinds=_KINDS,
        window=recording.window,
        examples=examples,
        stopped=recording.stopped,
        metrics=client_metrics(recording.clients),
        machine=machine,
    )


def _about(recording: Recording) -> dict[str, JsonValue]:
    warm = int((recording.due_ns < recording.window[0]).sum())
    return {"how": "HTTP", "clients": len(recording.clients), "warmup": {"calls": warm}}
