"""Servers that say exactly the bytes that a test wants, good or bad."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


def request_of(connection: socket.socket) -> bytes:
    """Read one request with its body; empty when the client has gone."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(65536)
        if not part:
            return b""
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        (int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")), 0
    )
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


@contextmanager
def raw_server(
    answer: Callable[[socket.socket, bytes, int], object], tls: ssl.SSLContext | None = None
) -> Iterator[tuple[str, list[bytes]]]:
    """A server whose every request is handed to `answer(connection, request, number)`; it may write, wait or close.

    `answer` returns False to end the connection. Yields the URL and the requests that came.
    """
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    seen: list[bytes] = []
    lock = threading.Lock()

    def serve(connection: socket.socket) -> None:
        with suppress(OSError, ValueError), connection:
            if tls is not None:
                connection = tls.wrap_socket(connection, server_side=True)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while request := request_of(connection):
                with lock:
                    number = len(seen)
                    seen.append(request)
                if answer(connection, request, number) is False:
                    connection.close()
                    return

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    scheme = "https" if tls is not None else "http"
    try:
        yield f"{scheme}://127.0.0.1:{listener.getsockname()[1]}", seen
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def plain(body: bytes, status: str = "200 OK", headers: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body


def chunked(parts: list[bytes], trailers: str = "") -> bytes:
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n" + trailers.encode() + b"\r\n"
