"""Servers that other people wrote, for the tests of our HTTP: uvicorn with a small application, nginx and Caddy.

uvicorn imports its application from here, so that both sides know what the answers hold: `content(size)`.
"""

from __future__ import annotations

import asyncio
import functools
import getpass
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

import pytest

ROOT = Path(__file__).resolve().parents[4]
PATIENCE_S = 60.0
EVENTS = tuple(f'data: {{"n": {number}}}\n\n'.encode() for number in range(5))
PAUSE_S = 0.05


@functools.cache
def content(size: int) -> bytes:
    """Bytes in which no two stretches are alike: one lost, doubled or moved is seen."""
    return hashlib.shake_256(b"assay").digest(size)


# -- the application under uvicorn -------------------------------------------------------------------------------------


async def application(scope, receive, send) -> None:
    """One route per way of answering: the first word of the path is its name, the second a size or a status."""
    if scope["type"] != "http":
        return
    _, name, *more = scope["path"].split("/")
    await ROUTES[name](receive, send, *map(int, more))


async def _head(send, status: int = 200, **headers: str) -> None:
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})


async def _body(send, part: bytes, more: bool = False) -> None:
    await send({"type": "http.response.body", "body": part, "more_body": more})


async def _echo(receive, send) -> None:
    """What was sent, whole."""
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message["body"], message["more_body"]
    await _head(send, content_length=str(len(body)))
    await _body(send, body)


async def _fixed(receive, send, size: int) -> None:
    """A body whose length is told; what was sent is not even looked at."""
    await _head(send, content_length=str(size))
    await _body(send, content(size))


async def _chunked(receive, send, size: int) -> None:
    """A body without a length, in chunks that grow."""
    await _head(send)
    at, step = 0, 1
    while at < size:
        await _body(send, content(size)[at : at + step], more=True)
        at, step = at + step, 3 * step
    await _body(send, b"")


async def _stream(receive, send) -> None:
    """Events with a pause before each, as a model sends them."""
    # A proxy that is still sending the question when its answer begins may break off both.
    while (await receive()).get("more_body"):
        pass
    await _head(send, content_type="text/event-stream")
    for event in EVENTS:
        await asyncio.sleep(PAUSE_S)
        await _body(send, event, more=True)
    await _body(send, b"")


async def _slow(receive, send, size: int) -> None:
    """A body whose length is told, in three parts with pauses between."""
    await _head(send, content_length=str(size))
    third = size // 3
    for part in (content(size)[:third], content(size)[third : 2 * third]):
        await _body(send, part, more=True)
        await asyncio.sleep(PAUSE_S)
    await _body(send, content(size)[2 * third :])


async def _close(receive, send, size: int) -> None:
    """The server wants no second request on this connection."""
    await _head(send, connection="close", content_length=str(size))
    await _body(send, content(size))


async def _status(receive, send, status: int) -> None:
    """A refusal with its reason."""
    await _head(send, status, content_type="application/json", retry_after="1", x_request_id=f"r{status}")
    await _body(send, b'{"error": {"message": "not now"}}')


async def _empty(receive, send) -> None:
    """An answer without a body."""
    await _head(send, 204)
    await _body(send, b"")


async def _breaks(receive, send) -> None:
    """An application that dies inside its answer."""
    await _head(send)
    await _body(send, content(1000), more=True)
    await asyncio.sleep(PAUSE_S)
    raise RuntimeError("as it should")


ROUTES = {
    "echo": _echo, "fixed": _fixed, "chunked": _chunked, "stream": _stream, "slow": _slow, "close": _close,
    "status": _status, "empty": _empty, "breaks": _breaks,
}  # fmt: skip


# -- starting them -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    url: str
    process: subprocess.Popen[bytes]
    folder: Path
    secure: str = ""
    """The same over TLS, with the certificate in `folder`."""
    older: str = ""
    """The same over TLS 1.2 at most."""


@contextmanager
def uvicorn_server(folder: Path, http: str, keep_alive_s: int = 5) -> Iterator[Server]:
    """The application under uvicorn, with one of its two parsers."""
    from tests.support.ports import free_port  # uvicorn imports this module without the tests

    port = free_port()
    words = ["--port", str(port), "--http", http, "--timeout-keep-alive", str(keep_alive_s), "--log-level", "error"]
    loop = "uvloop" if http == "httptools" else "asyncio"
    command = [sys.executable, "-m", "uvicorn", f"{__name__}:application", "--loop", loop, "--ws", "none", *words]
    with _running(command, folder, (port,), {"PYTHONPATH": str(ROOT)}) as process:
        yield Server(f"http://127.0.0.1:{port}", process, folder)


NGINX = """
user {user}; worker_processes 1; daemon off; pid {folder}/pid; error_log {folder}/log;
events {{ worker_connections 512; }}
http {{
  access_log off; gzip off; sendfile on; default_type application/octet-stream;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  keepalive_requests 5; client_max_body_size 1m;
  ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem;
  server {{
    listen 127.0.0.1:{plain}; listen 127.0.0.1:{secure} ssl; ssl_protocols TLSv1.3;
    root {folder}/files;
    location /moved {{ return 302 /fixed; }}
    location /refused {{ proxy_pass http://127.0.0.1:{nobody}; }}
    location /rests/ {{ alias {folder}/files/; keepalive_requests 1000; keepalive_timeout 150ms; }}
    location /app/ {{ proxy_pass {app}/; proxy_buffering off; proxy_http_version 1.1; keepalive_requests 1000; }}
  }}
  server {{ listen 127.0.0.1:{older} ssl; ssl_protocols TLSv1.2; root {folder}/files; keepalive_requests 1000; }}
}}
"""


@contextmanager
def nginx_server(folder: Path, app: str) -> Iterator[Server]:
    """nginx: files with and without TLS, five requests a connection, and the application behind it at /app/."""
    program = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")
    if program is None:
        pytest.skip("nginx is not installed")
    _files(folder)
    from tests.support.ports import free_port  # uvicorn imports this module without the tests

    plain, secure, older, nobody = (free_port() for _ in range(4))
    config = NGINX.format(
        folder=folder, app=app, plain=plain, secure=secure, older=older, nobody=nobody, user=getpass.getuser()
    )
    (folder / "nginx.conf").write_text(config)
    command = [program, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", str(folder / "log")]
    with _running(command, folder, (plain, secure, older)) as process:
        urls = [f"https://127.0.0.1:{port}" for port in (secure, older)]
        yield Server(f"http://127.0.0.1:{plain}", process, folder, *urls)


CADDY = """
{{
  admin off
  auto_https off
  persist_config off
  storage file_system {folder}/storage
}}
(routes) {{
  handle_path /app/* {{
    reverse_proxy {app} {{
      flush_interval -1
    }}
  }}
  handle {{
    root * {folder}/files
    file_server
  }}
}}
http://127.0.0.1:{plain} {{
  bind 127.0.0.1
  import routes
}}
https://127.0.0.1:{secure} {{
  bind 127.0.0.1
  tls {folder}/cert.pem {folder}/key.pem
  import routes
}}
"""


@contextmanager
def caddy_server(folder: Path, app: str) -> Iterator[Server]:
    """Caddy, which is Go's own HTTP server: files with and without TLS, and the application behind it at /app/."""
    program = ROOT / ".venv-servers" / "bin" / "caddy"
    if not program.exists():
        if os.environ.get("ASSAY_REQUIRE_SERVERS") == "1":
            pytest.fail("caddy is not in .venv-servers; run scripts/servers.sh")
        pytest.skip("caddy is not in .venv-servers; run scripts/servers.sh")
    _files(folder)
    from tests.support.ports import free_port  # uvicorn imports this module without the tests

    plain, secure = free_port(), free_port()
    (folder / "Caddyfile").write_text(CADDY.format(folder=folder, app=app, plain=plain, secure=secure))
    command = [str(program), "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]
    own = {"HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "GOMAXPROCS": "1"}
    with _running(command, folder, (plain, secure), own) as process:
        yield Server(f"http://127.0.0.1:{plain}", process, folder, f"https://127.0.0.1:{secure}")


def _files(folder: Path) -> None:
    """What is served, and a certificate for this address."""
    (folder / "files").mkdir()
    for size in (0, 1, 1000, 70_000, 5_000_000):
        (folder / "files" / str(size)).write_bytes(content(size))
    from tests.support.certificate import self_signed  # uvicorn imports this module without the tests

    self_signed(folder)


@contextmanager
def _running(
    command: Sequence[str], folder: Path, ports: Sequence[int], own: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """The process of a server from when it listens until the end."""
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, env=os.environ | (own or {})
        )
    try:
        for port in ports:
            _await(process, port, folder / "log")
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = monotonic() + PATIENCE_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if process.poll() is not None or monotonic() > until:
                raise RuntimeError(f"it did not start: {log.read_text()[-2000:]}") from None
            sleep(0.02)
        else:
            return
