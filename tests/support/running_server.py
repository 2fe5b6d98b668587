"""Real servers for the tests: in a thread of this process, or in a process of their own that can be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.routing import BaseRoute
from tests.support.ports import free_port

from assay.serve.app import create_app
from assay.serve.server import AssayServer, listen
from assay.serve.settings import ServerSettings
from assay.serve.state import ServerState

# Longer than anything takes on a machine with ten times the work that it can do.
PATIENCE_S = 120.0


def wait_for(condition: Callable[[], Any], seconds: float = PATIENCE_S, what: str = "it") -> Any:
    """Wait until a condition holds, and give back what it said."""
    until = monotonic() + seconds
    while not (found := condition()):
        assert monotonic() < until, f"{what} never happened"
        sleep(0.01)
    return found


@cache
def _routes() -> list[BaseRoute]:
    return create_app(ServerSettings()).router.routes


def new_app(settings: ServerSettings) -> FastAPI:
    """The application of a server of its own, whose routes are those of all servers of this process.

    Routes are worked out by FastAPI at the first request, which takes it half a second, and hold nothing of a server.
    """
    app = create_app(settings)
    app.router.routes = _routes()
    return app


class RunningServer:
    """A server in a thread: everything is real but the process."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self._listener = listen(settings)
        self.port = int(self._listener.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}{settings.root_path}"
        self.app = new_app(settings)
        self._server = AssayServer(self.app, settings)
        self._thread = threading.Thread(target=lambda: self._server.run(sockets=[self._listener]), daemon=True)
        self._thread.start()
        self.client = self.with_token(None)
        wait_for(self._answers, what="the server's start")

    @property
    def state(self) -> ServerState:
        """What the server works with."""
        return self.app.state.assay

    def with_token(self, secret: str | None) -> httpx.Client:
        """A client for /api/v1 that sends a token, or none."""
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        return httpx.Client(base_url=f"{self.url}/api/v1", headers=headers, timeout=PATIENCE_S, trust_env=False)

    def token(self, role: str) -> str:
        """The secret of a new token."""
        return self.state.kept.tokens.create(f"the {role}", role)[1]

    def stop(self) -> None:
        """End as on Ctrl-C, and wait until it has."""
        self.client.close()
        self._server.should_exit = True
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the server did not end"

    def _answers(self) -> bool:
        try:
            return self.client.get("/health").status_code == 200
        except httpx.HTTPError:
            return False


class ServerProcess:
    """A server in a process of its own, started by the command line."""

    def __init__(self, folder: Path, *options: str, environment: dict[str, str] | None = None) -> None:
        self.folder, self._options = folder, options
        self._environment = {**os.environ, **(environment or {})}
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / "server.log"
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self.start()

    def start(self) -> None:
        """Start it, on the same port and folder as before."""
        command = [sys.executable, "-m", "assay", "serve", "--port", str(self.port), "--store", str(self.folder)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([*command, *self._options], stdout=log, stderr=log, env=self._environment)
        with httpx.Client(trust_env=False) as client:
            wait_for(lambda: self._is_there(client), what="the server's start")

    def kill(self) -> None:
        """End it without asking."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Ask it to end; its exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        if self.process is None:
            return 0
        self.process.send_signal(how)
        code = self.process.wait(PATIENCE_S)
        self.process = None
        return code

    def _is_there(self, client: httpx.Client) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()[-3000:]
        try:
            return client.get(f"{self.url}/api/v1/health").status_code == 200
        except httpx.HTTPError:
            return False


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., RunningServer]]:
    """A function that starts a server in a thread; its arguments are settings. SQLite in a folder of the test."""
    running: list[RunningServer] = []

    def start(**settings: Any) -> RunningServer:
        chosen = {"host": "127.0.0.1", "port": 0, "folder": tmp_path / "server", **settings}
        running.append(RunningServer(ServerSettings(**chosen)))
        return running[-1]

    yield start
    for server in running:
        server.stop()


@pytest.fixture
def server(serve: Callable[..., RunningServer]) -> RunningServer:
    """An open server with SQLite: everybody is admin."""
    return serve()


@pytest.fixture
def serve_process(tmp_path: Path) -> Iterator[Callable[..., ServerProcess]]:
    """A function that starts `assay serve` in a process that can be killed; its arguments are flags."""
    running: list[ServerProcess] = []

    def start(*options: str, **environment: str) -> ServerProcess:
        running.append(ServerProcess(tmp_path / "server", *options, environment=environment))
        return running[-1]

    yield start
    for process in running:
        process.stop()
