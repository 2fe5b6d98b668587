"""Connections that do not get on are ended: a head that never ends, a body that stops, a head that is too long."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from assay.serve.settings import ServerSettings

LARGEST_HEAD = 64 * 2**10


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
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._wait(self.head_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
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
        """A part of the address."""
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
        """Refuse what cannot be read, or is too long."""
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


def bounded(settings: ServerSettings) -> type[BoundedProtocol]:
    """The connections of a server with these settings."""
    limits = {"head_s": settings.header_timeout_s, "body_s": settings.body_timeout_s}
    return type("SettledProtocol", (BoundedProtocol,), limits)
