"""Heads of requests: read by a maintained parser, and each distinct head only once."""

from __future__ import annotations

from dataclasses import dataclass, field
from http import HTTPStatus

import httptools

MOST_HEAD = 64 * 1024
_KEPT_HEADS = 4096


class HttpError(Exception):
    """A request that cannot be served."""

    def __init__(self, status: int, message: str, code: str | None = None) -> None:
        self.status, self.message, self.code = status, message, code
        super().__init__(message)


def status_line(status: int) -> bytes:
    """The first line of an answer."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Unknown"
    return f"HTTP/1.1 {status} {phrase}\r\n".encode()


@dataclass(frozen=True, slots=True)
class Head:
    """What the head of a request says."""

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
        """Read a head with the empty line that ends it.

        Raises:
            HttpError: if it is not HTTP/1.
        """
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
    found = _Collector()
    parser = found.parser = httptools.HttpRequestParser(found)
    try:
        parser.feed_data(raw)
    except httptools.HttpParserUpgrade:
        pass  # HTTP/2 is offered by the client, and not taken
    except httptools.HttpParserError as problem:
        raise HttpError(400, f"not a request of HTTP/1.1: {problem}") from None
    version = parser.get_http_version()
    if version not in ("1.0", "1.1"):
        raise HttpError(505, f"HTTP/{version} is not spoken here")
    headers = found.headers
    chunked = "transfer-encoding" in headers
    if chunked and headers["transfer-encoding"].strip().lower() != "chunked":
        raise HttpError(501, f"transfer-encoding {headers['transfer-encoding']!r} is not known")
    target = found.url.decode("latin-1")
    if "://" in target:  # a client that thinks it talks to a proxy
        target = "/" + target.partition("://")[2].partition("/")[2]
    path, _, query = target.partition("?")
    return Head(
        method=parser.get_method().decode("latin-1"),
        path=path,
        query=query,
        keep_alive=found.keeps,
        old=version == "1.0",
        length=0 if chunked else int(headers.get("content-length") or 0),
        chunked=chunked,
        expects_continue=headers.get("expect", "").lower() == "100-continue",
        headers=headers,
    )


def dechunk(data: bytes, at: int, most: int) -> tuple[bytes, int] | None:
    """Join a body that came in chunks, from a place in the data; gives the place after it, None if more must come.

    Raises:
        HttpError: if a size is no number, or the body is longer than allowed.
    """
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
