"""No answer to a request that may change something before what it changed is on disk."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assay.errors import StoreError
from assay.serve.logs import tell_failure
from assay.serve.state import ServerState
from assay.serve.web.problems import answer, document, status_of

_READING = frozenset({"GET", "HEAD", "OPTIONS"})


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
