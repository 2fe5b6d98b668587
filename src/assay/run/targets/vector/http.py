"""Vector databases over HTTP: plain JSON outside the load, and searches that the load loop sends."""

from __future__ import annotations

import json
import ssl
from abc import abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from assay.errors import MeasureError
from assay.http import failure_words, http_client
from assay.run import window
from assay.run.load.http.driver import Repeat
from assay.run.load.http.origin import Origin
from assay.run.load.http.recording import OUTCOMES, LoadRecording, client_metrics
from assay.run.load.http.session import drive_watched, load_facts, load_of
from assay.run.models.transport import client_options
from assay.run.records import Window
from assay.run.targets.vector.collection import HttpCollection, SearchLoad, SearchTask, refuse_loads
from assay.run.targets.vector.report import OK, Searches
from assay.run.workloads.corpus import Block, Floats
from assay.spec.target import Tls

_MOST_QUOTED = 600  # characters of a server's complaint that are passed on
_KINDS = (OK, *OUTCOMES[1:])
_CONTENT = OUTCOMES.index("content")


class JsonClient:
    """One server that speaks JSON."""

    def __init__(
        self,
        name: str,
        url: str,
        *,
        headers: Mapping[str, str],
        timeout_s: float,
        tls: Tls | None = None,
        proxy: str | None = None,
        base: Path | None = None,
        own: bool = False,
    ) -> None:
        self.name, self.url = name, url.rstrip("/")
        self.headers = dict(headers)
        try:
            verify = _verify(tls or Tls(), base)
            options = client_options(self.url, verify=verify, proxy=proxy, own=own)
            self._client = http_client(timeout_s=timeout_s, headers=self.headers, **options)
        except (OSError, ssl.SSLError, ValueError) as problem:
            message = f"cannot prepare a connection to {self.url}: {problem}"
            try_ = "check target.tls and target.proxy"
            raise MeasureError(message, code="endpoint", at="target", try_=try_) from None

    def send_json(
        self, method: str, path: str, body: object = None, *, code: str = "vector-engine", at: str = ""
    ) -> Any:  # noqa: ANN401
        """Send one request and return its JSON."""
        answer = self.send(method, path, encoded(body))
        if answer.status_code >= 400:
            raise self.refusal(answer, code=code, at=at)
        try:
            return answer.json() if answer.content else None
        except ValueError:
            message = f"{self.name} answered {method} {path} with something that is not JSON"
            try_ = "check that this is the right kind of server"
            raise MeasureError(message, code=code, at=self.url, try_=try_) from None

    def timed(self, method: str, path: str, body: object, *, code: str = "vector-engine", at: str = "") -> float:
        """Send one request and return how long it took in seconds, without the time to write its JSON."""
        wire = encoded(body)
        start = perf_counter_ns()
        answer = self.send(method, path, wire)
        taken = (perf_counter_ns() - start) / 1e9
        if answer.status_code >= 400:
            raise self.refusal(answer, code=code, at=at)
        return taken

    def send(self, method: str, path: str, body: bytes | None) -> httpx.Response:
        """Send one request; whatever status comes back is for the caller to judge."""
        headers = {"Content-Type": "application/json"} if body is not None else {}
        try:
            return self._client.request(method, self.url + path, content=body, headers=headers)
        except httpx.TimeoutException:
            message = f"{self.name} at {self.url} did not answer {method} {path} in time"
            try_ = "raise target.timeout, or look at what the server does"
            raise MeasureError(message, code="timeout", at="target", try_=try_) from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as problem:
            message = f"{self.name} at {self.url} cannot be reached: {failure_words(problem)}"
            try_ = "check the address and that the server runs, or start it under services"
            raise MeasureError(message, code="unreachable", at="target", try_=try_) from None

    def refusal(self, answer: httpx.Response, *, code: str, at: str) -> MeasureError:
        said = _words(answer)
        if answer.status_code in (401, 403):
            message = f"{self.name} at {self.url} refuses: {said}"
            try_ = "give the key as a header, such as api-key: ${env:NAME}"
            return MeasureError(message, code="auth", at="target.headers", try_=try_)
        return MeasureError(f"{self.name} answered {answer.status_code}: {said}", code=code, at=at or self.url)

    def close(self) -> None:
        self._client.close()


def encoded(body: object) -> bytes | None:
    if body is None or isinstance(body, bytes):
        return body
    return json.dumps(body, separators=(",", ":")).encode()


def _verify(tls: Tls, base: Path | None) -> ssl.SSLContext | bool:
    if not tls.verify:
        return False
    return True if tls.ca is None else ssl.create_default_context(cafile=str((base or Path()) / tls.ca))


def _words(answer: httpx.Response) -> str:
    """What a server says about a refusal, without the wrapping that it comes in."""
    try:
        said: Any = answer.json()
    except ValueError:
        said = answer.text.strip()
    for key in ("status", "error", "message"):
        if isinstance(said, dict) and isinstance(said.get(key), str | dict):
            # Chroma has a kind under `error` and the words under `message`; Qdrant wraps `error` in `status`.
            said = said["message"] if isinstance(said.get("message"), str) else said[key]
    text = said if isinstance(said, str) else json.dumps(said)
    return text[:_MOST_QUOTED] or "no words"


class RestCollection(HttpCollection):
    """A collection that is filled by requests of JSON with some vectors each."""

    def __init__(self, rest: JsonClient, task: SearchTask, patience_s: float) -> None:
        super().__init__(rest, task, patience_s)
        self._batch = 1000
        self._created = False
        self._inserted = 0
        self._last_ns = 0  # when the last vectors were taken

    @abstractmethod
    def insert_request(self, numbers: list[int], vectors: Floats, tags: list[int] | None) -> tuple[str, str, object]:
        """Method, path and body of a request that loads some vectors; tags only where searches are filtered."""

    @abstractmethod
    def drop(self) -> None:
        """Remove the collection from the server."""

    def insert(self, block: Block) -> float:
        taken = 0.0
        for begin in range(0, len(block), self._batch):
            part = slice(begin, begin + self._batch)
            vectors, first = block.vectors[part], block.first + begin
            tags = block.tags[part].tolist() if self._task.filtered else None
            taken += self.timed_insert(*self.insert_request(list(range(first, first + len(vectors))), vectors, tags))
        self._inserted += len(block)
        self._last_ns = perf_counter_ns()
        return taken

    def timed_insert(self, method: str, path: str, body: object) -> float:
        """Send some vectors and return how many seconds the server took."""
        return self._rest.timed(method, path, body, code="insert", at="workload.corpus")

    def since_insert_s(self) -> float:
        return (perf_counter_ns() - self._last_ns) / 1e9

    def refuse_lost(self, count: object) -> None:
        """Make sure that the server holds as many vectors as it took."""
        if count != self._inserted:
            message = f"{self.name} holds {count} of the {self._inserted} vectors that it took"
            raise MeasureError(message, code="insert")

    def close(self) -> None:
        if self._created:
            with suppress(MeasureError):
                self.drop()
        self._rest.close()


def searched_by(indexed: int | None, held: int | None, least: str) -> str:
    """Whether searches use the index: servers scan segments that are too small for one.

    Args:
        least: the setting that says how large a segment must be.
    """
    if not indexed:
        return f"a scan of all vectors: its segments are below {least}"
    if held is not None and indexed < held:
        return f"the index for {indexed} of {held} vectors, a scan for the others"
    return "the index"


def drive_http(collection: HttpCollection, origin: Origin, root: str, load: SearchLoad) -> Searches:
    """Search over HTTP until enough is known.

    Args:
        root: path of the database's API, before the path of a search.
    """
    definition = load.definition
    refuse_loads(
        definition, "is not for a vector search", "use a matrix over load.rate or load.concurrency", shared=True
    )
    sent = load_of(load.order, origin)
    sent = replace(sent, requests=sent.requests or definition.measure.until.samples)
    supply = Repeat([_wire(collection, origin, root, query) for query in load.queries])
    begin = window.read(load.cpu_s())
    recording = drive_watched(sent, supply, load.order, load.stage, load.rules, load.began_ns)
    machine = window.between(begin, window.read(load.cpu_s()))
    with load.stage.phase("score"):
        searches = _read(collection, recording, len(load.queries), definition.workload.k, machine)
    return replace(searches, facts={"load": {**load_facts(definition.load), **_about(recording)}})


def _wire(collection: HttpCollection, origin: Origin, root: str, query: Floats) -> bytes:
    method, path, body = collection.search_request(query)
    return origin.request(method, root + path, collection.headers(), body)


def _read(collection: HttpCollection, recording: LoadRecording, queries: int, k: int, machine: Window) -> Searches:
    outcome = recording.outcome.astype(np.int16)
    ids: NDArray[np.int64] = np.full((len(recording), k), -1, dtype=np.int64)
    examples: dict[str, str] = {}
    for row in range(len(recording)):
        kind = _KINDS[outcome[row]]
        if kind == OK:
            try:
                neighbours = collection.read_ids(bytes(recording.body_of(row)))[:k]
            except ValueError as problem:
                outcome[row] = _CONTENT
                examples.setdefault("content", str(problem))
            else:
                ids[row, : len(neighbours)] = neighbours
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


def _about(recording: LoadRecording) -> dict[str, JsonValue]:
    warm = int((recording.due_ns < recording.window[0]).sum())
    return {"how": "HTTP", "clients": len(recording.clients), "warmup": {"calls": warm}}
