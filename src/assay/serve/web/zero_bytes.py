"""Zero bytes end at the edge: PostgreSQL keeps none, and one in a document makes every list that shows it fail."""

from __future__ import annotations

import re

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assay.serve.web.problems import RequestProblem, answer

# `\u0000` in JSON; a backslash that is itself escaped begins no escape.
_ZERO = re.compile(rb"(?<!\\)((?:\\\\)*+)\\u0000")
_BODIES = ("POST", "PUT", "PATCH")
_UPLOAD = re.compile(r"/artefacts/[^/]+$")
# What machines and programs say is kept without them: a result must not be lost for what a program printed.
_OF_MACHINES = re.compile(
    r"/api/v1/(jobs/[^/]+/attempts/|agents$|agents/[^/]+/heartbeat$|elsewhere/[^/]+/(standings|jobs/[^/]+/result)$)"
    r"|/api/(register|workers/)"
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
