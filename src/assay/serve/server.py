"""The server process: its address, its first tokens, limits on connections, and an end that loses nothing."""

from __future__ import annotations

import asyncio
import errno
import gc
import socket
import sys
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from assay.clock import SYSTEM_CLOCK, Clock
from assay.errors import StoreError, UsageError
from assay.serve.app import begin_close, create_app
from assay.serve.observability import log_event, set_up_logs
from assay.serve.settings import ServerSettings
from assay.serve.state import ServerState
from assay.serve.web.dashboard import is_built

if TYPE_CHECKING:
    from fastapi import FastAPI

LARGEST_HEAD = 64 * 2**10
# Longer than a long poll and than the time agents keep a connection.
_KEEP_ALIVE_S = 75
_END_WITHIN_S = 10
_BACKLOG = 2048
# The event loop gets its turn back from a thread that computes after this long; Python's own 5 ms add up in every wait.
_SWITCH_S = 0.0005
# How seldom Python looks for garbage that refers to itself, from young to old. By its own numbers a server that holds a
# thousand requests looks through everything every few seconds; that takes 0.2 s, and no request is answered meanwhile.
_COLLECT_AFTER = (10_000, 20, 50)
Say = Callable[[str], None]


class _HeadTooLargeError(Exception):
    """Ends the parsing of a request."""


class BoundedProtocol(HttpToolsProtocol):
    """Uvicorn's connection, with an end to waiting. Who is answered is not hurried: only who has to send is."""

    head_s: float = 20.0
    """How long the head of a request may take, from the connection or the first byte on."""
    body_s: float = 60.0
    """How long nothing of a body may come."""

    def __init__(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401  (uvicorn's own)
        super().__init__(*arguments, **named)
        self._timer: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._too_large = False
        self._in_body = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait(self.head_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on; every part of a body gives it more time."""
        if self._in_body:
            self._wait(self.body_s)
        super().data_received(data)

    # What the parser finds

    def on_message_begin(self) -> None:
        self._head_bytes = 0
        self._wait(self.head_s)
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is whole: a body may follow."""
        self._in_body = True
        self._wait(self.body_s)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request is whole: from here on the server has to do something."""
        self._in_body = False
        self._stop_waiting()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        if self._too_large:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        else:
            super().send_400_response(msg)

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > LARGEST_HEAD:
            self._too_large = True
            raise _HeadTooLargeError

    def _wait(self, seconds: float) -> None:
        self._stop_waiting()
        self._timer = self.loop.call_later(seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        if self._in_body and self.flow.read_paused:  # the server itself does not read on
            self._wait(self.body_s)
        elif self._in_body:
            self.transport.abort()  # what reads the body learns that its client is gone
        else:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT)

    def _refuse(self, status: HTTPStatus) -> None:
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        self.transport.write(head.encode("ascii"))
        self.transport.close()


class AssayServer(uvicorn.Server):
    """Uvicorn, with held requests answered before it waits for them."""

    def __init__(self, app: FastAPI, settings: ServerSettings) -> None:
        super().__init__(_config(app, settings))
        self.app = app

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End: answer what is held, finish what runs, then stop."""
        begin_close(self.app)
        await super().shutdown(sockets)


def run(settings: ServerSettings, say: Say, clock: Clock = SYSTEM_CLOCK) -> None:
    """Serve until interrupted."""
    set_up_logs(settings.log_format, settings.log_level)
    sys.setswitchinterval(_SWITCH_S)
    app = create_app(settings, clock)
    state: ServerState = app.state.assay
    with listen(settings) as listener:
        _prepare(state, say)
        for line in welcome(settings, listener.getsockname()[1], open_=bool(state.is_open)):
            say(line)
        # Leave what was loaded so far out of the search for garbage, and search less often.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*_COLLECT_AFTER)
        try:
            AssayServer(app, settings).run(sockets=[listener])
        except KeyboardInterrupt:
            pass
        finally:
            state.close()
    say("stopped")


def listen(settings: ServerSettings) -> socket.socket:
    """Take the address."""
    at = f"{settings.host}:{settings.port}"

    def refused(message: str, try_: str = "use --host 127.0.0.1 or --host 0.0.0.0") -> UsageError:
        return UsageError(message, code="address", at=at, try_=try_)

    try:
        addresses = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = addresses[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
    except OSError as problem:
        raise refused(f"{settings.host!r} is no address of this machine: {problem.strerror}") from None
    try:
        if sys.platform != "win32":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as problem:
        listener.close()
        if problem.errno == errno.EADDRINUSE:
            advice = "stop it, or choose another port: assay serve --port 8081"
            raise refused(f"the address {at} is taken by another program", advice) from None
        if problem.errno in (errno.EACCES, errno.EPERM):
            raise refused(f"this user may not listen on {at}", "use a port above 1023") from None
        raise refused(f"cannot listen on {at}: {problem.strerror}") from None
    listener.setblocking(False)
    return listener


def welcome(settings: ServerSettings, port: int, *, open_: bool) -> list[str]:
    """What a person must know to continue."""
    scheme = "https" if settings.tls_cert else "http"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    shown = socket.gethostname() if settings.host in ("0.0.0.0", "::") else host  # noqa: S104  (compared, not bound)
    url = f"{scheme}://{shown}:{port}{settings.root_path}"
    who = (
        "everybody on this machine is admin"
        if open_
        else "a token is needed: ASSAY_TOKEN=…; `assay tokens create` makes one"
    )
    queue = "Redis" if settings.redis_url else "SQL"
    return [
        f"listening on {scheme}://{host}:{port}{settings.root_path}",
        f"database  {settings.database_shown}, queue {queue}",
        *([f"files     {settings.objects}"] if settings.objects else []),
        f"access    {who}",
        f"agent     assay agent start --server {url}",
        f"measure   assay run bench.yaml --server {url}",
        f"dashboard {url}/" if is_built(settings.dashboard) else "dashboard not built: run `make web` in the checkout",
        f"api       {url}/api/v1/docs",
    ]


def _prepare(state: ServerState, say: Say) -> None:
    """Open the store, and make the first tokens of a server that others can reach."""
    settings = state.settings
    try:
        state.ensure_open()
    except StoreError as problem:
        if problem.problem.code != "store" or settings.database_url is None:
            raise
        log_event("starting without the database", database=settings.database_shown)
        return
    if settings.on_loopback or settings.token is not None or state.kept.tokens.count():
        return
    _, admin = state.kept.tokens.create("first admin", "admin")
    _, agent = state.kept.tokens.create("agents", "agent")
    say("these tokens are shown once; `assay tokens create` makes others")
    say(f"admin token  {admin}")
    say(f"agent token  {agent}")


def _config(app: FastAPI, settings: ServerSettings) -> uvicorn.Config:
    tls: dict[str, Any] = {}
    if settings.tls_cert is not None and settings.tls_key is not None:
        for path in (settings.tls_cert, settings.tls_key):
            if not path.is_file():
                raise UsageError("this file of the certificate is not there", code="tls", at=str(path))
        tls = {"ssl_certfile": str(settings.tls_cert), "ssl_keyfile": str(settings.tls_key)}
    limits = {"head_s": settings.header_timeout_s, "body_s": settings.body_timeout_s}
    bounded: type[BoundedProtocol] = type("SettledProtocol", (BoundedProtocol,), limits)
    return uvicorn.Config(
        app,
        loop="asyncio" if sys.platform == "win32" else "uvloop",
        http=bounded,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=_BACKLOG,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_END_WITHIN_S,
        **tls,
    )
