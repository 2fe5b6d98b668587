"""Receivers on real sockets: they keep what they are sent, and behave as badly as they are told to."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session
from tests.support.ports import free_port


@dataclass(frozen=True)
class Received:
    """One request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    at: float

    def document(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    """How a request is answered."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b"ok"


Behaviour = Reply | str | Callable[[Received], Reply]
"""An answer; `hang`, `close`, `close after reading`, `trickle`; or something that finds the answer."""


class Receiver:
    """An HTTP server; the first behaviours are for the first requests, the last one for all others."""

    def __init__(self, *behaviours: Behaviour, port: int = 0, tls: tuple[Path, Path] | None = None) -> None:
        self.behaviours = list(behaviours) or [Reply()]
        self.received: list[Received] = []
        self.arrived = threading.Condition()
        self.ending = threading.Event()
        self._server = _Server(("127.0.0.1", port), _Handler, self)
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = int(self._server.server_address[1])
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def take(self, request: Received) -> Behaviour:
        with self.arrived:
            number = len(self.received)
            self.received.append(request)
            self.arrived.notify_all()
        return self.behaviours[min(number, len(self.behaviours) - 1)]

    def wait(self, count: int, seconds: float = 120.0) -> list[Received]:
        """Wait until so many requests have come."""
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.received) >= count, seconds), (
                f"only {len(self.received)} of {count} requests came"
            )
            return list(self.received)

    def close(self) -> None:
        self.ending.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, address: Any, handler: Any, receiver: Receiver) -> None:
        self.receiver = receiver
        super().__init__(address, handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is nothing to talk about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def _any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Received(self.command, self.path, headers, body, time.time())
        behaviour = self.server.receiver.take(request)
        if isinstance(behaviour, str):
            self._misbehave(behaviour)
            return
        reply = behaviour(request) if callable(behaviour) else behaviour
        if reply.status == 0:  # it was done, and the answer is lost
            self._misbehave("close")
            return
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        self.wfile.write(reply.body)

    do_GET = do_POST = do_PUT = do_PATCH = _any  # noqa: N815  (the library's names)

    def _misbehave(self, how: str) -> None:
        ending = self.server.receiver.ending
        if how == "trickle":
            with contextlib.suppress(OSError):
                for letter in b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 100_000:
                    self.wfile.write(bytes([letter]))
                    self.wfile.flush()
                    if ending.wait(0.05):
                        break
        elif how == "hang":
            ending.wait()
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *_: Any) -> None:
        """Silent."""


@contextlib.contextmanager
def receiving(*behaviours: Behaviour, **more: Any) -> Iterator[Receiver]:
    receiver = Receiver(*behaviours, **more)
    try:
        yield receiver
    finally:
        receiver.close()


@dataclass
class Mail:
    """What an SMTP server took."""

    sender: str
    to: list[str]
    content: bytes
    user: str | None
    encrypted: bool


class MailServer:
    """A real SMTP server; what it answers to a command can be set for the next ones."""

    def __init__(
        self,
        *,
        tls: tuple[Path, Path] | None = None,
        implicit: bool = False,
        users: dict[str, str] | None = None,
        port: int = 0,
    ) -> None:
        self.mails: list[Mail] = []
        self.users, self.implicit = users or {}, implicit
        self.recipients: list[str] = []
        self.refused: dict[str, str] = {}
        """Recipient → answer."""
        self.data_answers: list[str] = []
        """Answers to the next mails, before they are taken."""
        self.sender_answers: list[str] = []
        context = None
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
        options: dict[str, Any] = {}
        if self.users:
            options |= {"authenticator": self._check, "auth_required": True, "auth_require_tls": context is not None}
        if implicit:
            options |= {"ssl_context": context, "auth_require_tls": False} if self.users else {"ssl_context": context}
        elif context is not None:
            options |= {"tls_context": context, "require_starttls": True}
        self._controller = Controller(self, hostname="127.0.0.1", port=port or free_port(), **options)
        self._controller.start()
        self.port = self._controller.port

    def _check(self, _: Any, __: Session, ___: Any, ____: str, data: Any) -> AuthResult:
        user, password = data.login.decode(), data.password.decode()
        return AuthResult(success=self.users.get(user) == password, handled=False, auth_data=user)

    async def handle_MAIL(self, _: SMTP, __: Session, envelope: Envelope, address: str, options: list[str]) -> str:  # noqa: N802
        if self.sender_answers:
            return self.sender_answers.pop(0)
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return "250 OK"

    async def handle_RCPT(self, _: SMTP, __: Session, envelope: Envelope, address: str, ___: list[str]) -> str:  # noqa: N802
        self.recipients.append(address)
        if address in self.refused:
            return self.refused[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        if self.data_answers:
            return self.data_answers.pop(0)
        content, protected = bytes(envelope.original_content or b""), session.ssl is not None or self.implicit
        to = list(envelope.rcpt_tos)
        self.mails.append(Mail(str(envelope.mail_from), to, content, session.auth_data, protected))
        return "250 OK"

    def close(self) -> None:
        self._controller.stop()


@contextlib.contextmanager
def mail_server(**more: Any) -> Iterator[MailServer]:
    server = MailServer(**more)
    try:
        yield server
    finally:
        server.close()


@contextlib.contextmanager
def silent_port() -> Iterator[int]:
    """A port that takes connections and never says anything."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(8)
        yield int(listener.getsockname()[1])
