"""Vector databases over HTTP: plain JSON outside the load, and searches that the load loop sends."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from assay.errors import MeasureError
from assay.run import window
from assay.run.load.http.driver import Repeat
from assay.run.load.http.origin import Origin
from assay.run.load.http.recording import OUTCOMES, LoadRecording, client_metrics
from assay.run.load.http.session import asked_of, drive_watched, load_of
from assay.run.models.transport import client_options
from assay.run.records import Window
from assay.run.targets.vector.collection import HttpCollection, SearchLoad
from assay.run.targets.vector.report import OK, Searches
from assay.run.workloads.corpus import Floats
from assay.spec.benchmark import Definition
from assay.spec.target import Tls

_TELL = 600  # characters of a server's complaint that are passed on
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
            self._client = httpx.Client(headers=self.headers, timeout=timeout_s, trust_env=False, **options)
        except (OSError, ssl.SSLError, ValueError) as problem:
            raise MeasureError(
                f"cannot prepare a connection to {self.url}: {problem}",
                code="endpoint",
                at="target",
                try_="check target.tls and target.proxy",
            ) from None

    def ask(self, method: str, path: str, body: object = None, *, code: str = "vector-engine", at: str = "") -> Any:  # noqa: ANN401
        """Send one request and return its JSON.

        Raises:
            MeasureError: with the server's own words if it refuses, or why it could not be reached.
        """
        answer = self.send(method, path, encoded(body))
        if answer.status_code >= 400:
            raise self.refusal(answer, code=code, at=at)
        try:
            return answer.json() if answer.content else None
        except ValueError:
            raise MeasureError(
                f"{self.name} answered {method} {path} with something that is not JSON",
                code=code,
                at=self.url,
                try_="check that this is the right kind of server",
            ) from None

    def timed(self, method: str, path: str, body: bytes, *, code: str = "vector-engine", at: str = "") -> float:
        """Send one request that was made before; return how long it took in seconds."""
        start = perf_counter_ns()
        answer = self.send(method, path, body)
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
            raise MeasureError(
                f"{self.name} at {self.url} did not answer {method} {path} in time",
                code="timeout",
                at="target",
                try_="raise target.timeout, or look at what the server does",
            ) from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as problem:
            raise MeasureError(
                f"{self.name} at {self.url} cannot be reached: {problem or type(problem).__name__}",
                code="unreachable",
                at="target",
                try_="check the address and that the server runs, or start it under services",
            ) from None

    def refusal(self, answer: httpx.Response, *, code: str, at: str) -> MeasureError:
        """The server's own words."""
        said = _words(answer)
        if answer.status_code in (401, 403):
            return MeasureError(
                f"{self.name} at {self.url} refuses: {said}",
                code="auth",
                at="target.headers",
                try_="give the key as a header, such as api-key: ${env:NAME}",
            )
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
    return text[:_TELL] or "no words"


def drive_http(collection: HttpCollection, origin: Origin, root: str, load: SearchLoad) -> Searches:
    """Search over HTTP until enough is known.

    Args:
        root: path of the database's API, before the path of a search.
    """
    definition = load.definition
    refuse_other_loads(definition)
    sent = load_of(load.order, origin)
    sent = replace(sent, requests=sent.requests or definition.measure.until.samples)
    supply = Repeat([_wire(collection, origin, root, query) for query in load.queries])
    begin = window.read(load.cpu_s())
    recording = drive_watched(sent, supply, load.order, load.stage, load.rules, load.began_ns)
    machine = window.between(begin, window.read(load.cpu_s()))
    with load.stage.phase("score"):
        found = _read(collection, recording, len(load.queries), definition.workload.k, machine)
    return replace(found, facts={"load": {**asked_of(definition.load), **_about(recording)}})


def first_over_http(collection: HttpCollection, rest: JsonClient, query: Floats) -> float:
    """Send one search by itself and return its milliseconds."""
    method, path, body = collection.search_request(query)
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


def _wire(collection: HttpCollection, origin: Origin, root: str, query: Floats) -> bytes:
    method, path, body = collection.search_request(query)
    return origin.request(method, root + path, collection.headers(), body)


def _read(collection: HttpCollection, recording: LoadRecording, queries: int, k: int, machine: Window) -> Searches:
    """What the clients saw, with the answers read."""
    outcome = recording.outcome.astype(np.int16)
    ids: NDArray[np.int64] = np.full((len(recording), k), -1, dtype=np.int64)
    examples: dict[str, str] = {}
    for row in range(len(recording)):
        kind = _KINDS[outcome[row]]
        if kind == OK:
            try:
                found = collection.read_ids(bytes(recording.body_of(row)))[:k]
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


def _about(recording: LoadRecording) -> dict[str, JsonValue]:
    warm = int((recording.due_ns < recording.window[0]).sum())
    return {"how": "HTTP", "clients": len(recording.clients), "warmup": {"calls": warm}}
