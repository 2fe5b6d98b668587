"""Around every request: an id, one log event, the metrics, and an answer even when our own code fails."""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import MutableMapping
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assay.serve.logs import tell
from assay.serve.metrics import ServerMetrics
from assay.serve.web.problems import unexpected

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
