"""Around every request: size, zero bytes, an id, a log event, metrics, and no answer before its change is on disk."""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assay.errors import StoreError
from assay.serve.observability import ServerMetrics, log_event, log_failure
from assay.serve.settings import MB, ServerSettings
from assay.serve.state import ServerState
from assay.serve.web.problems import RequestProblem, status_of, unexpected

_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_ARTEFACT = re.compile(r"/artefacts/[^/]+$")
_DOCUMENT = re.compile(r"/(benchmarks(/[^/]+)?|campaigns|schedules)$")
# A benchmark document has at most 500,000 characters; the rest is for the files that it names.
_LARGEST_DOCUMENT = 4 * MB
_RESULT = re.compile(r"/(attempts|elsewhere/[^/]+/jobs)/[^/]+/result$")
# `\u0000` in JSON; a backslash that is itself escaped begins no escape.
_ZERO = re.compile(rb"(?<!\\)((?:\\\\)*+)\\u0000")
_BODIES = ("POST", "PUT", "PATCH")
# What machines and programs say is kept without them: a result must not be lost for what a program printed.
_OF_MACHINES = re.compile(
    r"/api/v1/(jobs/[^/]+/attempts/|agents$|agents/[^/]+/heartbeat$|elsewhere/[^/]+/(standings|jobs/[^/]+/result)$)"
    r"|/api/(register|workers/)"
)
_ID = re.compile(r"^[\w.-]{1,64}$")
# Asked every few seconds by machines: an event each would bury the others.
# What others write down, too, for a client that did not wait for its answer.
_CLIENT_LEFT = 499
_QUIET = re.compile(r"(/heartbeat|/lease|/progress|/health|/ready|/metrics)$")
_SECURITY = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)


class Durable:
    """ASGI middleware: waits for the disk between the work of a request and its answer."""

    def __init__(self, app: ASGIApp, state: ServerState) -> None:
        self.app = app
        self.state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in _READING:
            await self.app(scope, receive, send)
            return
        refused = False

        async def acknowledge(message: Message) -> None:
            nonlocal refused
            if message["type"] == "http.response.start":
                try:
                    await self.state.durable()
                except StoreError as problem:
                    refused = True
                    log_failure("not on disk", problem, path=scope["path"])
                    said = problem.problem
                    answer = RequestProblem(status_of(problem), said.message, code=said.code, try_=said.try_).answer()
                    await answer(scope, receive, send)
            if not refused:
                await send(message)

        await self.app(scope, receive, acknowledge)


@dataclass(frozen=True, slots=True)
class SizeLimits:
    """Largest bodies, in bytes."""

    body: int
    result: int
    artefact: int

    @classmethod
    def of(cls, settings: ServerSettings) -> SizeLimits:
        sizes = (settings.max_body_mb, settings.max_result_mb, settings.max_artefact_mb)
        return cls(*(int(size * MB) for size in sizes))

    def for_request(self, method: str, path: str) -> int:
        if _is_upload(method, path):
            return self.artefact
        if method == "PUT" and _RESULT.search(path):
            return self.result
        return min(self.body, _LARGEST_DOCUMENT) if _DOCUMENT.search(path) else self.body


class Limit:
    """ASGI middleware that refuses bodies beyond the limits with 413."""

    def __init__(self, app: ASGIApp, limits: SizeLimits) -> None:
        self.app = app
        self.limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        limit = self.limits.for_request(scope["method"], scope["path"])
        announced = _header(scope, b"content-length")
        if announced.isdecimal() and int(announced) > limit:
            await _too_large(limit).answer(Connection="close")(scope, receive, send)
            return
        await self.app(scope, _counting(receive, limit), send)


def _counting(receive: Receive, limit: int) -> Receive:
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            raise _too_large(limit)
        return message

    return counted


def _too_large(limit: int) -> RequestProblem:
    said = f"the body is larger than the {limit / MB:g} MB that are allowed"
    return RequestProblem(413, said, code="too-large", try_="send less, or have the server's limit raised")


def holds_zero(body: bytes) -> bool:
    """Whether a JSON text has a zero byte in one of its strings."""
    return b"\\u0000" in body and _ZERO.search(body) is not None


def without_zero(body: bytes) -> bytes:
    """A JSON text with a replacement character in place of each zero byte."""
    return _ZERO.sub(rb"\1\\ufffd", body) if b"\\u0000" in body else body


class ZeroBytes:
    """ASGI middleware that refuses JSON with zero bytes, or takes them out of what machines say."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in _BODIES or _is_upload(scope["method"], scope["path"]):
            await self.app(scope, receive, send)
            return
        try:
            messages = [await receive()]
            while messages[-1].get("more_body"):
                messages.append(await receive())
        except RequestProblem as problem:  # too large
            await problem.answer(Connection="close")(scope, receive, send)
            return
        body = b"".join(message.get("body", b"") for message in messages)
        if holds_zero(body):
            if not _OF_MACHINES.search(scope["path"]):
                said = "the request holds a zero byte (\\u0000), which no database can keep"
                await RequestProblem(422, said, code="zero-byte", try_="remove it").answer()(scope, receive, send)
                return
            messages = [{"type": "http.request", "body": without_zero(body), "more_body": False}]
        waiting = list(reversed(messages))

        async def received() -> Message:
            return waiting.pop() if waiting else await receive()

        await self.app(scope, received, send)


def _is_upload(method: str, path: str) -> bool:
    return method == "PUT" and "/attempts/" not in path and bool(_ARTEFACT.search(path))


class Observe:
    """ASGI middleware; the outermost one."""

    def __init__(self, app: ASGIApp, metrics: ServerMetrics, root_path: str = "") -> None:
        self.app = app
        self.metrics = metrics
        self.root_path = root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = _header(scope, b"x-request-id")
        scope["request_id"] = given if _ID.match(given) else secrets.token_hex(8)
        if self.root_path:  # whether or not the proxy takes it off the path
            scope["root_path"] = self.root_path
        begin, status = time.perf_counter(), 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                present = {name.lower() for name, _ in message.get("headers", ())}
                extra = [(name, value) for name, value in _SECURITY if name not in present]
                extra.append((b"x-request-id", scope["request_id"].encode("ascii")))
                message = {**message, "headers": [*message.get("headers", ()), *extra]}
            await send(message)

        try:
            await self.app(scope, receive, send_with_headers)
        except ClientDisconnect:  # the client has gone
            status = status or _CLIENT_LEFT
        except Exception as problem:  # our own mistake: the client gets an answer, the log gets the place
            if status:
                raise  # too late to answer; the server closes the connection
            await unexpected(scope, problem)(scope, receive, send_with_headers)
        finally:
            self._note(scope, status, time.perf_counter() - begin)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        template = route_template(scope)
        self.metrics.request(scope["method"], template, status, seconds)
        quiet = _QUIET.search(scope["path"]) and status < 400
        level = logging.DEBUG if quiet else logging.INFO
        log_event(
            "request",
            level=level,
            method=scope["method"],
            path=scope["path"],
            status=status,
            ms=round(seconds * 1000, 1),
            request=scope["request_id"],
            who=scope.get("principal", ""),
        )


def route_template(scope: MutableMapping[str, Any]) -> str:
    """The path of the route with its parameters by name; one word for all paths that are none."""
    route = scope.get("route")
    return str(getattr(route, "path", "")) or "unmatched"


def _header(scope: Scope, name: bytes) -> str:
    return next((value.decode("latin-1") for given, value in scope["headers"] if given == name), "")
