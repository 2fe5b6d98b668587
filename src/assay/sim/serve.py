"""Puts a simulated server together and runs it until it is stopped."""

from __future__ import annotations

import errno
import gc
import os
import signal
import socket
import ssl
import sys
from types import FrameType
from typing import NoReturn

from assay.errors import UsageError
from assay.sim.apis.llm import LlmServer
from assay.sim.apis.site import PlainServer
from assay.sim.script import ListenOptions, Server, SimScript, build, read_file
from assay.sim.wire.connection import HeadCache, Serve, ServerConnection, TlsConnection
from assay.sim.wire.loop import READ, Loop
from assay.sim.world import World

_BACKLOG = 4096


def run(server: Server, values: dict[str, object]) -> NoReturn:
    """Serve with settings as a user wrote them, until SIGTERM or SIGINT."""
    own = {name: value for name, value in values.items() if name in ListenOptions.__dataclass_fields__}
    listening = build(ListenOptions, own, server)
    file_values = {} if listening.script is None else read_file(listening.script)
    source = "" if listening.script is None else str(listening.script)
    build(SimScript, file_values, server, source)  # a problem in the file is reported with the file's name
    flags = {name: value for name, value in values.items() if name not in own}
    build(SimScript, flags, server)
    script = build(SimScript, {**file_values, **flags}, server, source)
    if listening.cpu is not None:
        _pin(listening.cpu)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    _serve(listening, script, server)


def _serve(listening: ListenOptions, script: SimScript, server: Server) -> NoReturn:
    loop = Loop()
    world = World(script, loop)
    site = LlmServer(world).site if server == "llm" else PlainServer(world).site
    tls = _tls(listening)
    sock = _listen(listening.host, listening.port)
    _Door(loop, sock, tls, site)
    if listening.lifeline:
        loop.watch(sys.stdin.fileno(), READ, _cut)
    host, port = sock.getsockname()[:2]
    scheme = "https" if tls else "http"
    shown = f"[{host}]" if ":" in host else host
    sys.stdout.write(f"listening on {scheme}://{shown}:{port}\n")
    sys.stdout.flush()
    gc.freeze()  # what lives as long as the server is never looked at again
    loop.run()
    raise AssertionError  # the loop ends by an exception alone


class _Door:
    """Takes new connections."""

    def __init__(self, loop: Loop, sock: socket.socket, tls: ssl.SSLContext | None, serve: Serve) -> None:
        self._loop, self._sock, self._tls, self._serve = loop, sock, tls, serve
        self._heads = HeadCache()
        self._count = 0
        loop.watch(sock.fileno(), READ, self._open)

    def _open(self, mask: int) -> None:  # noqa: ARG002  (OnEvent's signature)
        while True:
            try:
                sock, _ = self._sock.accept()
            except OSError:
                return  # closed, or too many open files: open connections continue
            try:
                self._welcome(sock)
            except OSError:  # it has gone again
                sock.close()
            self._count += 1

    def _welcome(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is None:
            ServerConnection(self._loop, sock, self._count, self._heads, self._serve)
        else:
            secure = self._tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
            TlsConnection(self._loop, secure, self._count, self._heads, self._serve)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        sock = socket.socket(family, kind, protocol)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
    except OSError as problem:
        message, advice = (
            f"cannot listen on {host}: {problem.strerror or problem}",
            "give --host an address of this machine",
        )
        if problem.errno == errno.EADDRINUSE:
            message, advice = "another program uses this port", "choose another --port, or 0 for a free one"
        elif problem.errno == errno.EACCES:
            advice = "choose a --port above 1023, or 0 for a free one"
        raise UsageError(message, code="address", at=f"{host}:{port}", try_=advice) from None
    sock.listen(_BACKLOG)
    sock.setblocking(False)
    return sock


def _tls(listening: ListenOptions) -> ssl.SSLContext | None:
    if listening.tls_cert is None:
        if listening.tls_key is not None:
            raise UsageError("--tls-key is of no use without --tls-cert", try_="give both, or none")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(listening.tls_cert, listening.tls_key)
    except (OSError, ssl.SSLError) as problem:
        raise UsageError(f"cannot use the certificate {listening.tls_cert}: {problem}", code="certificate") from None
    return context


def _pin(cpu: int) -> None:
    if sys.platform != "linux":
        raise UsageError("--cpu works on Linux alone", try_="leave it out")
    try:
        os.sched_setaffinity(0, {cpu})
    except OSError:
        cores = ", ".join(str(core) for core in sorted(os.sched_getaffinity(0)))
        raise UsageError(f"there is no core {cpu}", try_=f"use one of {cores}") from None


def _cut(mask: int) -> None:  # noqa: ARG001  (OnEvent's signature)
    if not os.read(sys.stdin.fileno(), 4096):
        raise SystemExit(0)


def _end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  (signal's signature)
    """Exit without waiting for answers in progress."""
    raise SystemExit(0)
