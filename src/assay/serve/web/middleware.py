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
from assay.serve.observability import ServerMetrics, tell, tell_failure
from assay.serve.settings import MB, ServerSettings
from assay.serve.state import ServerState
from assay.serve.web.problems import RequestProblem, answer, document, status_of, unexpected

_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_ARTEFACT = re.compile(r"/artefacts/[^/]+$")
_DOCUMENT = re.compile(r"/(benchmarks(/[^/]+)?|campaigns|schedules)$")
# A benchmark document has at most 500,000 characters; the rest is for the files that it names.
_LARGEST_DOCUMENT = 4 * MB
_RESULT = re.compile(r"/(attempts|elsewhere/[^/]+/jobs)/[^/]+/result$")
# `\u0000` in JSON; a backslash that is itself escaped begins no escape.
_ZERO = re.compile(rb"(?<!\\)((?:\\\\)*+)\\u0000")
_BODIES = ("POST", "PUT", "PATCH")
_UPLOAD = re.compile(r"/artefacts/[^/]+$")
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
                    await _refuse(scope, receive, send, problem)
            if not refused:
                await send(message)

        await self.app(scope, receive, acknowledge)


async def _refuse(scope: Scope, receive: Receive, send: Send, problem: StoreError) -> None:
    tell_failure("not on disk", problem, path=scope["path"])
    said, status = problem.problem, status_of(problem)
    await answer(document(status, said.message, code=said.code, try_=said.try_))(scope, receive, send)


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
        if method == "PUT" and "/attempts/" not in path and _ARTEFACT.search(path):
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
        if _announced(scope) > limit:
            refused = _too_large(limit)
            await answer(refused.body, {"Connection": "close"})(scope, receive, send)
            return
        await self.app(scope, _counting(receive, limit), send)


def _announced(scope: Scope) -> int:
    value = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    return int(value) if value.isdigit() else 0


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
    shown = f"{limit / MB:g} MB"
    return RequestProblem(
        413,
        f"the body is larger than the {shown} that are allowed",
        code="too-large",
        try_="send less, or have the server's limit raised",
    )


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
        if scope["type"] != "http" or scope["method"] not in _BODIES or _is_upload(scope):
            await self.app(scope, receive, send)
            return
        try:
            messages = await _whole(receive)
        except RequestProblem as problem:  # too large
            await answer(problem.body, {"Connection": "close"})(scope, receive, send)
            return
        body = b"".join(message.get("body", b"") for message in messages)
        if holds_zero(body):
            if not _OF_MACHINES.search(scope["path"]):
                await answer(_refused().body)(scope, receive, send)
                return
            messages = [{"type": "http.request", "body": without_zero(body), "more_body": False}]
        await self.app(scope, _again(messages, receive), send)


def _is_upload(scope: Scope) -> bool:
    return scope["method"] == "PUT" and "/attempts/" not in scope["path"] and bool(_UPLOAD.search(scope["path"]))


async def _whole(receive: Receive) -> list[Message]:
    messages = [await receive()]
    while messages[-1].get("more_body"):
        messages.append(await receive())
    return messages


def _again(messages: list[Message], receive: Receive) -> Receive:
    waiting = list(reversed(messages))

    async def received() -> Message:
        return waiting.pop() if waiting else await receive()

    return received


def _refused() -> RequestProblem:
    return RequestProblem(
        422, "the request holds a zero byte (\\u0000), which no database can keep", code="zero-byte", try_="remove it"
    )


class Observe:
    """ASGI middleware; the outermost of ours."""

    def __init__(self, app: ASGIApp, metrics: ServerMetrics, root_path: str = "") -> None:
        self.app = app
        self.metrics = metrics
        self.root_path = root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope["request_id"] = _request_id(scope)
        if self.root_path:  # whether or not the proxy takes it off the path
            scope["root_path"] = self.root_path
        answer = _Answer(scope, send)
        begin = time.perf_counter()
        try:
            await self.app(scope, receive, answer.send)
        except ClientDisconnect:  # nobody is there to be answered
            answer.status = answer.status or _CLIENT_LEFT
        except Exception as problem:  # our own mistake: the client gets an answer, the log gets the place
            if answer.status:
                raise  # too late to answer; the server closes the connection
            await unexpected(scope, problem)(scope, receive, answer.send)
        finally:
            self._note(scope, answer.status, time.perf_counter() - begin)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        template = route_template(scope)
        self.metrics.request(scope["method"], template, status, seconds)
        quiet = _QUIET.search(scope["path"]) and status < 400
        level = logging.DEBUG if quiet else logging.INFO
        tell(
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


def _request_id(scope: Scope) -> str:
    given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"").decode("latin-1")
    return given if _ID.match(given) else secrets.token_hex(8)


class _Answer:
    """What is sent, with our headers on top."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope = scope
        self._send = send
        self.status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            present = {name.lower() for name, _ in message.get("headers", ())}
            extra = [(name, value) for name, value in _SECURITY if name not in present]
            extra.append((b"x-request-id", self._scope["request_id"].encode("ascii")))
            message = {**message, "headers": [*message.get("headers", ()), *extra]}
        await self._send(message)
