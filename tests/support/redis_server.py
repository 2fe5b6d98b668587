"""A real Redis for the tests: started on a free port in a temporary folder, stopped afterwards."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

import pytest
from redis import Redis
from redis.exceptions import RedisError
from tests.support.ports import free_port

PATIENCE_S = 120.0


class RedisServer:
    """One server, which can be stopped, killed and started again on the same port with the same folder."""

    def __init__(self, program: str, folder: Path) -> None:
        self._program, self._folder = program, folder
        self._process: subprocess.Popen[bytes] | None = None
        self._appendonly = False
        self.port = free_port()

    @property
    def url(self) -> str:
        """Where it is, whatever is in it."""
        return f"redis://127.0.0.1:{self.port}/0"

    def fresh(self, *, appendonly: bool = False) -> str:
        """The URL of an empty and running server that keeps what it is told on disk, or in memory alone."""
        if self._process is None:
            self.start(appendonly=appendonly)
        elif appendonly != self._appendonly:
            self.restart(appendonly=appendonly)
        with Redis.from_url(self.url) as client:
            client.flushall()
        return self.url

    def start(self, *, appendonly: bool | None = None) -> None:
        """Start it; its folder is kept, so that it finds what it had kept there."""
        self._appendonly = self._appendonly if appendonly is None else appendonly
        options = {"port": self.port, "bind": "127.0.0.1", "dir": self._folder, "save": "", "daemonize": "no"}
        # Every write reaches the file before it is answered, so that a kill loses nothing.
        options |= {"appendonly": "yes", "appendfsync": "always"} if self._appendonly else {"appendonly": "no"}
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen([self._program, *words], stdout=log, stderr=log)
        self._await()

    def stop(self) -> None:
        """Ask it to end, and wait until it has."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it without asking."""
        self._end(signal.SIGKILL)

    def restart(self, *, appendonly: bool | None = None) -> None:
        """Stop it and start it again."""
        self.stop()
        self.start(appendonly=appendonly)

    def _await(self) -> None:
        until = monotonic() + PATIENCE_S
        while True:
            try:
                with Redis.from_url(self.url) as client:
                    client.ping()
            except RedisError:
                if monotonic() > until or (self._process and self._process.poll() is not None):
                    raise RuntimeError((self._folder / "log").read_text()[-2000:]) from None
                sleep(0.01)
            else:
                return

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(PATIENCE_S)
            self._process = None


def program() -> str | None:
    """The program of the server, if it is installed."""
    return shutil.which("redis-server")


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """A Redis server of the session; `fresh()` gives the URL of an empty one."""
    found = program()
    if found is None:
        if os.environ.get("ASSAY_REQUIRE_REDIS") == "1":
            pytest.fail("no Redis server found")
        pytest.skip("no Redis server found")
    folder = Path(tempfile.mkdtemp(prefix="assay-redis-"))
    server = RedisServer(found, folder)
    yield server
    server.stop()
    shutil.rmtree(folder, ignore_errors=True)
