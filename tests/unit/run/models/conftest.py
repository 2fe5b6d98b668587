"""A server on this machine that misbehaves on request, and small model files."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest


@dataclass
class Site:
    """What the server serves, how it misbehaves, and what it was asked."""

    content: bytes = b""
    etag: str | None = '"v1"'
    cuts: list[int] = field(default_factory=list)  # bytes after which each next answer is cut
    statuses: list[int] = field(default_factory=list)  # codes of the next answers
    redirects: dict[str, str] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    declares_length: bool = True
    ranges: bool = True
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    base: str = ""

    @property
    def url(self) -> str:
        return f"{self.base}/model.onnx"


class Handler(BaseHTTPRequestHandler):
    """Serves one site."""

    site: Site

    def log_message(self, *_):
        pass

    def do_GET(self):
        site = self.site
        site.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
        if site.statuses:
            return self._short(site.statuses.pop(0))
        if self.path in site.redirects:
            return self._short(302, Location=site.redirects[self.path])
        if self.path == "/gone":
            return self._short(404)
        if site.etag and self.headers.get("If-None-Match") == site.etag:
            return self._short(304)
        return self._send(site.files.get(self.path, site.content))

    def _short(self, status, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send(self, content):
        site, start = self.site, self._start()
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        if site.etag:
            self.send_header("ETag", site.etag)
        if site.declares_length:
            self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        cut = site.cuts.pop(0) if site.cuts else None
        self.wfile.write(content[start:][:cut])
        if cut is not None:
            self.close_connection = True
            self.connection.shutdown(2)

    def _start(self):
        wanted = self.headers.get("Range", "")
        fits = self.site.ranges and self.headers.get("If-Range") == self.site.etag
        return int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and fits else 0


@pytest.fixture
def site():
    served = Site()
    handler = type("SiteHandler", (Handler,), {"site": served})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        served.base = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield served
        server.shutdown()
        thread.join()


@pytest.fixture
def tiny(tmp_path):
    """A small valid model file."""
    onnx = pytest.importorskip("onnx")
    from onnx import helper, numpy_helper

    def write(name="tiny.onnx", **how):
        graph = helper.make_graph(
            [helper.make_node("MatMul", ["x", "w"], ["y"])],
            "tiny",
            [helper.make_tensor_value_info("x", 1, ["batch", 4])],
            [helper.make_tensor_value_info("y", 1, ["batch", 4])],
            [numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        path = tmp_path / name
        onnx.save(model, str(path), **how)
        return path

    return write


_opened: list[str] = []
sys.addaudithook(lambda event, args: _opened.append(str(args[0])) if event == "open" else None)


@pytest.fixture
def opened_files():
    """The paths that were opened since the list was cleared."""
    _opened.clear()
    return _opened
