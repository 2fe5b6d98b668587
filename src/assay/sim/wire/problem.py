"""What is wrong with a request, as the client is told."""

from __future__ import annotations

from http import HTTPStatus


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
