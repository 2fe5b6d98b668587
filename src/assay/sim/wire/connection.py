"""One connection: each head read once, requests in, answers out in order; what the client does not take yet is kept."""

from __future__ import annotations

import socket
import ssl
import struct
from dataclasses import dataclass, field
from http import HTTPStatus
from time import perf_counter_ns
from typing import TYPE_CHECKING, TypeAlias

import httptools

from assay.sim.wire.loop import READ, WRITE, Loop

if TYPE_CHECKING:
    from collections.abc import Callable

    from assay.sim.world import SimulatedReply

MOST_HEAD = 64 * 1024
_KEPT_HEADS = 4096


class HttpError(Exception):
    def __init__(self, status: int, message: str, code: str | None = None) -> None:
        self.status, self.message, self.code = status, message, code
        super().__init__(message)


def status_line(status: int) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Unknown"
    return f"HTTP/1.1 {status} {phrase}\r\n".encode()


@dataclass(frozen=True, slots=True)
class Head:
    method: str
    path: str
    query: str
    keep_alive: bool
    old: bool
    """HTTP/1.0: answers cannot be sent in chunks."""
    length: int
    """Bytes of the body; 0 where it comes in chunks."""
    chunked: bool
    expects_continue: bool
    headers: dict[str, str] = field(default_factory=dict)


class HeadCache:
    """Reads heads. Clients repeat theirs, byte for byte, so that what was read is kept."""

    def __init__(self) -> None:
        self._kept: dict[bytes, Head] = {}

    def read(self, raw: bytes) -> Head:
        """Read a head with the empty line that ends it."""
        head = self._kept.get(raw)
        if head is None:
            head = _parse(raw)
            if len(self._kept) >= _KEPT_HEADS:
                self._kept.clear()
            self._kept[raw] = head
        return head


class _Collector:
    """Called by the parser."""

    def __init__(self) -> None:
        self.url = b""
        self.headers: dict[str, str] = {}
        self.keeps = False
        self.parser: httptools.HttpRequestParser | None = None

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        # Now: at the end of a message without a body the parser has forgotten it.
        self.keeps = self.parser is not None and self.parser.should_keep_alive()


def _parse(raw: bytes) -> Head:
    collector = _Collector()
    parser = collector.parser = httptools.HttpRequestParser(collector)
    try:
        parser.feed_data(raw)
    except httptools.HttpParserUpgrade:
        pass  # HTTP/2 is offered by the client, and not taken
    except httptools.HttpParserError as problem:
        raise HttpError(400, f"not a request of HTTP/1.1: {problem}") from None
    version = parser.get_http_version()
    if version not in ("1.0", "1.1"):
        raise HttpError(505, f"HTTP/{version} is not spoken here")
    headers = collector.headers
    chunked = "transfer-encoding" in headers
    if chunked and headers["transfer-encoding"].strip().lower() != "chunked":
        raise HttpError(501, f"transfer-encoding {headers['transfer-encoding']!r} is not known")
    target = collector.url.decode("latin-1")
    if "://" in target:  # a client that thinks it talks to a proxy
        target = "/" + target.partition("://")[2].partition("/")[2]
    path, _, query = target.partition("?")
    return Head(
        method=parser.get_method().decode("latin-1"),
        path=path,
        query=query,
        keep_alive=collector.keeps,
        old=version == "1.0",
        length=0 if chunked else int(headers.get("content-length") or 0),
        chunked=chunked,
        expects_continue=headers.get("expect", "").lower() == "100-continue",
        headers=headers,
    )


def dechunk(data: bytes, at: int, most: int) -> tuple[bytes, int] | None:
    """Join a body that came in chunks, from a place in the data; gives the place after it, None if more must come."""
    parts: list[bytes] = []
    total = 0
    while True:
        line = data.find(b"\r\n", at)
        if line < 0:
            if len(data) - at > 1024:
                raise HttpError(400, "the size of a chunk of the body is no number")
            return None
        size = _size(data[at:line])
        total += size
        if total > most:
            raise HttpError(413, f"the body has more than {most:,} bytes")
        at = line + 2
        if size == 0:
            end = _after_trailers(data, at)
            return None if end is None else (b"".join(parts), end)
        if len(data) < at + size + 2:
            return None
        if data[at + size : at + size + 2] != b"\r\n":
            raise HttpError(400, "a chunk of the body is longer than its size")
        parts.append(data[at : at + size])
        at += size + 2


def _size(line: bytes) -> int:
    text = line.partition(b";")[0].strip()
    if not text or text.strip(b"0123456789abcdefABCDEF"):
        raise HttpError(400, "the size of a chunk of the body is no number")
    return int(text, 16)


def _after_trailers(data: bytes, at: int) -> int | None:
    if data[at : at + 2] == b"\r\n":
        return at + 2
    end = data.find(b"\r\n\r\n", at)
    if end < 0 and len(data) - at > MOST_HEAD:
        raise HttpError(431, "the trailers are too long")
    return end + 4 if end >= 0 else None


MOST_BODY = 64 * 1024 * 1024
MOST_UNREAD = 64 * 1024 * 1024  # answers that a client does not take
_MOST_AHEAD = 1024 * 1024  # requests that a client sends before it has its answer
_PIECE = 256 * 1024
_FAREWELL_NS = 1_000_000_000


# Answers a request whose last byte came at a moment of `perf_counter_ns`, by `send` and in the end `finished`.
Serve: TypeAlias = "Callable[[ServerConnection, Head, bytes, int], None]"


class ServerConnection:
    """HTTP/1.1 over one socket."""

    __slots__ = (
        "_backlog", "_closing", "_consuming", "_continue_sent", "_fd", "_gone", "_heads", "_loop", "_out", "_serve",
        "_sock", "answering", "busy", "head", "number",
    )  # fmt: skip

    def __init__(self, loop: Loop, sock: socket.socket, number: int, heads: HeadCache, serve: Serve) -> None:
        self._loop, self._sock, self._heads, self._serve = loop, sock, heads, serve
        self._fd = sock.fileno()
        self._backlog, self._out = b"", bytearray()
        self._consuming = self._closing = self._gone = self._continue_sent = False
        self.number = number
        self.head: Head | None = None
        self.answering: SimulatedReply | None = None
        self.busy = False
        loop.watch(self._fd, READ, self._event)

    # What an answer does

    def send(self, data: bytes) -> bool:
        """Write to the client; False when only part of it was taken."""
        if self._gone:
            return False
        if self._out:
            self._out += data
            if len(self._out) > MOST_UNREAD:
                self.lost()
            return False
        taken = self._push(data)
        if taken == len(data):
            return True
        if taken >= 0:
            self._out += data[taken:]
            self._loop.change(self._fd, READ | WRITE)
        return False

    def finished(self, *, close: bool = False) -> None:
        """The answer is complete; the next request is taken, or the connection is closed."""
        head, self.head, self.answering = self.head, None, None
        self.busy = False
        if close or head is None or not head.keep_alive:
            self.close()
        elif self._backlog and not self._consuming and not self._gone:
            data, self._backlog = self._backlog, b""
            if len(data) > _MOST_AHEAD:
                self._loop.change(self._fd, READ | (WRITE if self._out else 0))
            self._consume(data)

    def close(self) -> None:
        """Close after all was written. What still comes is read away, as a close with unread bytes is a reset."""
        self._closing, self.busy = True, False
        self._backlog = b""
        if not self._out and not self._gone:
            self._say_farewell()
            self._loop.at(self._loop.now() + _FAREWELL_NS, self.lost)

    def reset(self) -> None:
        """Break the connection off, so that the client sees a reset."""
        if not self._gone:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.answering = None
            self.lost()

    def lost(self) -> None:
        if self._gone:
            return
        self._gone = True
        self._loop.forget(self._fd)
        self._sock.close()
        self._out.clear()
        if self.answering is not None:
            answering, self.answering = self.answering, None
            answering.abort()

    # What happens to the socket

    def _event(self, mask: int) -> None:
        if mask & WRITE and self._out:
            self._flush()
        if mask & ~WRITE and not self._gone:
            self._readable()

    def _readable(self) -> None:
        data = self._pull()
        if data is None:
            return
        if not data:
            self.lost()
        elif self._closing:
            pass
        elif self.busy:
            self._backlog += data
            if len(self._backlog) > _MOST_AHEAD:
                self._loop.change(self._fd, WRITE if self._out else 0)
        elif self._backlog:
            whole, self._backlog = self._backlog + data, b""
            self._consume(whole)
        else:
            self._consume(data)

    def _flush(self) -> None:
        taken = self._push(self._out)
        if taken > 0:
            del self._out[:taken]
        if not self._out and not self._gone:
            self._loop.change(self._fd, READ)
            if self._closing:
                self.close()

    def _pull(self) -> bytes | None:
        """Bytes that came, none of them at the end, None if there is nothing to read after all."""
        try:
            return self._sock.recv(_PIECE)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def _push(self, data: bytes | bytearray) -> int:
        """How many bytes the kernel took; -1 if the connection is over."""
        try:
            return self._sock.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            self.lost()
            return -1

    def _say_farewell(self) -> None:
        try:
            self._sock.shutdown(socket.SHUT_WR)
        except OSError:
            self.lost()

    # Requests

    def _consume(self, data: bytes) -> None:
        """Serve the requests that are complete, one after another."""
        self._consuming = True
        try:
            while data and not self.busy and not self._closing and not self._gone:
                rest = self._one(data)
                if rest is None:
                    break
                data = rest
        except HttpError as problem:
            self._refuse(problem)
            data = b""
        finally:
            self._consuming = False
        if not self._closing and not self._gone:
            self._backlog = data

    def _one(self, data: bytes) -> bytes | None:
        """Serve the first request of some bytes; gives what follows it, None if it is not complete."""
        if data[0] in b"\r\n":
            return data.lstrip(b"\r\n")
        end = data.find(b"\r\n\r\n") + 4
        if end < 4:
            if len(data) > MOST_HEAD:
                raise HttpError(431, f"the head has more than {MOST_HEAD:,} bytes")
            if b"\n\n" in data:
                raise HttpError(400, "lines of a head end in CR LF")
            return None
        if end > MOST_HEAD:
            raise HttpError(431, f"the head has more than {MOST_HEAD:,} bytes")
        head = self._heads.read(data[:end])
        if head.length > MOST_BODY:
            raise HttpError(413, f"the body has more than {MOST_BODY:,} bytes")
        if head.chunked:
            whole = dechunk(data, end, MOST_BODY)
            body, end = whole if whole is not None else (b"", 0)
        else:
            body = data[end : end + head.length]
            end = end + head.length if len(body) == head.length else 0
        if not end:
            self._invite(head)
            return None
        self._continue_sent = False
        self.head, self.busy = head, True
        self._serve(self, head, body, perf_counter_ns())
        return data[end:]

    def _invite(self, head: Head) -> None:
        if head.expects_continue and not self._continue_sent:
            self._continue_sent = True
            self.send(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _refuse(self, problem: HttpError) -> None:
        text = problem.message.encode()
        head = b"content-type: text/plain\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(text)
        self.send(status_line(problem.status) + head + text)
        self.close()


class TlsConnection(ServerConnection):
    """The same over TLS."""

    __slots__ = ("_shaken",)

    def __init__(self, loop: Loop, sock: ssl.SSLSocket, number: int, heads: HeadCache, serve: Serve) -> None:
        self._shaken = False
        super().__init__(loop, sock, number, heads, serve)

    def _pull(self) -> bytes | None:
        sock = self._sock
        assert isinstance(sock, ssl.SSLSocket)  # noqa: S101  (for the type alone)
        try:
            if not self._shaken:
                sock.do_handshake()
                self._shaken = True
            data = sock.recv(_PIECE)
            while data and sock.pending():  # the kernel no longer knows of what is decrypted already
                data += sock.recv(_PIECE)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None
        except OSError:
            return b""
        return data

    def _push(self, data: bytes | bytearray) -> int:
        try:
            return self._sock.send(data)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0
        except OSError:
            self.lost()
            return -1

    def _say_farewell(self) -> None:
        sock = self._sock
        assert isinstance(sock, ssl.SSLSocket)  # noqa: S101  (for the type alone)
        try:
            sock.unwrap()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass  # close_notify is sent; the client's is read and dropped
        except OSError:
            self.lost()
