"""How much a request may send: told by its header or found out while reading, also when it is sent in chunks."""

from __future__ import annotations

import re
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assay.serve.settings import MB, ServerSettings
from assay.serve.web.problems import RequestProblem, answer

_ARTEFACT = re.compile(r"/artefacts/[^/]+$")
_DOCUMENT = re.compile(r"/(benchmarks(/[^/]+)?|campaigns|schedules)$")
# A benchmark document has at most 500,000 characters; the rest is for the files that it names.
_LARGEST_DOCUMENT = 4 * MB
_RESULT = re.compile(r"/(attempts|elsewhere/[^/]+/jobs)/[^/]+/result$")


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
