"""A cheap HTTP client: one kept connection, one request at a time, as little work as possible for each."""

import asyncio
import json
from urllib.parse import urlsplit


class WireError(Exception):
    """The connection broke while an answer was awaited."""


class _Lines(asyncio.Protocol):
    def __init__(self):
        self.transport = None
        self.waiting = None
        self.received = b""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.received += data
        head, gap, body = self.received.partition(b"\r\n\r\n")
        if not gap:
            return
        status = int(head[9:12])
        size = 0 if status == 204 else _size(head)
        if len(body) >= size:
            self.received = b""
            if self.waiting is not None and not self.waiting.done():
                self.waiting.set_result((status, body))

    def connection_lost(self, _problem):
        self.transport = None
        if self.waiting is not None and not self.waiting.done():
            self.waiting.set_exception(WireError("the connection was closed"))


class Wire:
    """One connection to a server, opened when it is needed."""

    def __init__(self, url, token):
        parts = urlsplit(url)
        self.host, self.port = parts.hostname, parts.port
        self.head = f"Host: {parts.netloc}\r\nAuthorization: Bearer {token}\r\n"
        self.head += "Content-Type: application/json\r\nContent-Length: "
        self.lines = None

    async def ask(self, method, path, body=b""):
        """Send a request; the status and the body of its answer."""
        if self.lines is None or self.lines.transport is None:
            loop = asyncio.get_running_loop()
            _, self.lines = await loop.create_connection(_Lines, self.host, self.port)
        lines = self.lines
        lines.waiting = asyncio.get_running_loop().create_future()
        lines.transport.write(f"{method} /api/v1{path} HTTP/1.1\r\n{self.head}{len(body)}\r\n\r\n".encode() + body)
        return await lines.waiting

    async def json(self, method, path, document=None):
        """Send a document; the status and the document that came back."""
        status, body = await self.ask(method, path, b"" if document is None else json.dumps(document).encode())
        return status, json.loads(body) if body else None

    def close(self):
        """Hang up."""
        if self.lines is not None and self.lines.transport is not None:
            self.lines.transport.abort()


def _size(head):
    at = head.lower().index(b"\r\ncontent-length:") + 17
    end = head.find(b"\r\n", at)
    return int(head[at : end if end >= 0 else None])
