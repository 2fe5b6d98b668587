"""A small reverse proxy that shows a server under a sub-path, as nginx or Caddy would: streams pass as they come."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

_HOP = {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "proxy-connection"}


class _Handler(BaseHTTPRequestHandler):
    """Hands on what is below the path, and refuses everything else."""

    protocol_version = "HTTP/1.0"  # an answer ends with its connection
    prefix = ""
    host = ""
    asked: list[str]

    def hand_on(self) -> None:
        self.asked.append(self.path)
        if not self.path.startswith(f"{self.prefix}/"):
            self.send_error(404, "not below the path")
            return
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {key: value for key, value in self.headers.items() if key.lower() not in _HOP}
        behind = HTTPConnection(self.host, timeout=60)
        with contextlib.closing(behind), contextlib.suppress(BrokenPipeError, ConnectionResetError):
            behind.request(self.command, self.path.removeprefix(self.prefix), body or None, headers)
            answer = behind.getresponse()
            self.send_response(answer.status)
            for key, value in answer.getheaders():
                if key.lower() not in _HOP:
                    self.send_header(key, value)
            self.end_headers()
            while part := answer.read1(65_536):
                self.wfile.write(part)
                self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def shown_under(prefix: str, url: str) -> Iterator[tuple[str, list[str]]]:
    """Show a server under a path; the address of that, and every path that was asked for."""
    asked: list[str] = []
    methods = {f"do_{one}": _Handler.hand_on for one in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")}
    about = {"prefix": prefix, "host": urlsplit(url).netloc, "asked": asked}
    handler = type("Handler", (_Handler,), {**about, **methods})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}{prefix}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
