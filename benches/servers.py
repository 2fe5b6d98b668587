"""Real servers for the benches: PostgreSQL, Redis and `assay serve`, each in a process of its own."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from tests.support import postgresql_server, redis_server
from tests.support.running_server import ServerProcess

from assay.place.needs import Profile
from assay.store.database import migrate_database
from assay.store.store import Store
from benches.processes import BUILD

ADMIN = "a-token-of-the-bench-that-is-long-enough"
# A machine that can take every job of the benches.
PROFILE = Profile("box", "linux", 4, 8 * 2**30, {"onnxruntime": "1.20"}, {"onnxruntime": {"cpu": "CPU"}})


class DurablePostgresql(postgresql_server.PostgresqlServer):
    """PostgreSQL as it comes: unlike in the tests, what it has acknowledged is on the disk."""

    def start(self) -> None:
        """Start it and wait until it answers."""
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self._folder}"
        log = str(self._folder / "log")
        command = self._as_postgres("pg_ctl", "-D", self._data, "-w", "-l", log, "-o", options, "start")
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self._folder)

    @property
    def pid(self) -> int:
        """The process that all others of it come from."""
        return int(Path(self._data, "postmaster.pid").read_text().split()[0])


@contextmanager
def postgresql() -> Iterator[DurablePostgresql | None]:
    """A PostgreSQL server, or None where it is not installed."""
    programs = postgresql_server.programs()
    if programs is None:
        yield None
        return
    # Not under build/: the user that it runs as may not be able to go there.
    folder = Path(tempfile.mkdtemp(prefix="assay-bench-"))
    server = None
    try:
        server = DurablePostgresql(programs, folder)
        yield server
    finally:
        if server is not None:
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def redis() -> Iterator[redis_server.RedisServer | None]:
    """A Redis server, or None where it is not installed."""
    program = redis_server.program()
    if program is None:
        yield None
        return
    with workspace() as folder:
        server = redis_server.RedisServer(program, folder)
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def assay_server(folder: Path, *options: str, database: str = "") -> Iterator[ServerProcess]:
    """`assay serve` with an admin token, and its tables up to date."""
    where = ("--database-url", database) if database else ()
    if database:
        migrate_database(database)
    server = ServerProcess(folder, *where, *options, environment={"ASSAY_SERVER_TOKEN": ADMIN})
    try:
        yield server
    finally:
        server.stop()


def agent_token(url: str) -> str:
    """A token such as a fleet has."""
    headers = {"Authorization": f"Bearer {ADMIN}"}
    asked = {"name": "fleet", "role": "agent"}
    answer = httpx.post(f"{url}/api/v1/tokens", json=asked, headers=headers, trust_env=False).raise_for_status()
    return str(answer.json()["secret"])


@contextmanager
def opened(folder: Path, database: str = "") -> Iterator[Store]:
    """The store of a server, opened beside it."""
    store = Store(folder, database or None)
    try:
        yield store
    finally:
        store.close()


@contextmanager
def workspace() -> Iterator[Path]:
    """A folder for the time of a bench."""
    BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        yield Path(folder)
