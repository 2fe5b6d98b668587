"""Answers as bytes: heads, chunks, and what fits the request that asked."""

from __future__ import annotations

import json

from assay.sim.answer import NUMBER_MARK
from assay.sim.wire.heads import Head
from assay.sim.wire.problem import HttpError, status_line

JSON = b"application/json"
EVENTS = b"text/event-stream; charset=utf-8"
LINES = b"application/x-ndjson"
_ID = b"x-request-id: sim-" + NUMBER_MARK + b"\r\n"
LAST_CHUNK = b"0\r\n\r\n"
_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


def reply(body: bytes, status: int = 200, kind: bytes = JSON, more: bytes = b"", length: int | None = None) -> bytes:
    """A whole answer with its length; `more` is further header lines."""
    size = len(body) if length is None else length
    head = b"content-type: %b\r\n%b%bcontent-length: %d\r\n\r\n" % (kind, _ID, more, size)
    return status_line(status) + head + body


def stream_head(kind: bytes, *, chunked: bool = True) -> bytes:
    """The head of an answer whose length nobody knows."""
    how = b"transfer-encoding: chunked\r\n" if chunked else b""
    return status_line(200) + b"content-type: %b\r\ncache-control: no-cache\r\n%b%b\r\n" % (kind, _ID, how)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def fitted(data: bytes, head: Head) -> bytes:
    """Say how the connection goes on where the request does not want the usual, and leave the body of a HEAD away."""
    if head.method == "HEAD":
        data = data[: data.index(b"\r\n\r\n") + 4]
    if head.keep_alive and not head.old:
        return data
    how = b"keep-alive" if head.keep_alive else b"close"
    return data.replace(_ID, _ID + b"connection: %b\r\n" % how, 1)


def packed(value: object) -> bytes:
    """JSON without needless spaces."""
    return _ENCODER.encode(value).encode()


def asked(body: bytes) -> dict[str, object]:
    """The JSON object of a request.

    Raises:
        HttpError: if it is none.
    """
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as problem:
        raise HttpError(400, f"the body is not JSON: {problem}", "invalid_json") from None
    if not isinstance(value, dict):
        raise HttpError(400, "the body is not a JSON object", "invalid_json")
    return value
