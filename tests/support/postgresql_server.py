"""A real PostgreSQL for the tests: started on a free port in a temporary folder, stopped afterwards."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.ports import free_port

from assay.store.database import migrate_database


class PostgresqlServer:
    """One server, which can be stopped, killed and started again on the same port with the same folder."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs, self._folder = programs, folder
        self._user = "postgres" if os.geteuid() == 0 else os.environ.get("USER", "postgres")
        self._names = (f"test_{number}" for number in itertools.count())
        self._template: str | None = None
        self.port = free_port()
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        self._run("initdb", "-D", self._data, "-A", "trust", "-U", self._user, "--no-sync")
        self.start()

    def __call__(self) -> str:
        """The URL of a new and empty database."""
        return self._create()

    def migrated(self) -> str:
        """The URL of a new database that has all tables and nothing in them."""
        if self._template is None:
            self._template = next(self._names)
            migrate_database(self._create(name=self._template))
        return self._create("-T", self._template)

    def start(self) -> None:
        """Start it and wait until it answers; what was kept is there again."""
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self._folder} -c fsync=off"
        log = str(self._folder / "log")
        # Not captured: the server would keep the pipe open for as long as it runs.
        command = self._as_postgres("pg_ctl", "-D", self._data, "-w", "-l", log, "-o", options, "start")
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self._folder)

    def stop(self, how: str = "fast") -> None:
        """Stop it: `fast` ends every connection, `immediate` is as if the machine had lost its power."""
        subprocess.run(
            self._as_postgres("pg_ctl", "-D", self._data, "-w", "-m", how, "stop"),
            check=False,
            capture_output=True,
            cwd=self._folder,
        )

    def restart(self, how: str = "fast") -> None:
        """Stop it and start it again."""
        self.stop(how)
        self.start()

    @property
    def _data(self) -> str:
        return str(self._folder / "data")

    def _create(self, *options: str, name: str = "") -> str:
        name = name or next(self._names)
        where = ("-h", "127.0.0.1", "-p", str(self.port), "-U", self._user)
        subprocess.run(
            [str(self._programs / "createdb"), *where, *options, name],
            check=True,
            capture_output=True,
            cwd=self._folder,
        )
        return f"postgresql://{self._user}@127.0.0.1:{self.port}/{name}"

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(self._as_postgres(program, *arguments), check=True, capture_output=True, cwd=self._folder)

    def _as_postgres(self, program: str, *arguments: str) -> list[str]:
        """PostgreSQL refuses to run as root; its own user may."""
        command = [str(self._programs / program), *arguments]
        return ["runuser", "-u", "postgres", "--", *command] if os.geteuid() == 0 else command


def programs() -> Path | None:
    """The folder of the server's programs, if it is installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    on_path = shutil.which("initdb")
    return found[-1] if found else Path(on_path).parent if on_path else None


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresqlServer]:
    """A PostgreSQL server of the session; calling it gives the URL of an empty database."""
    found = programs()
    if found is None:
        if os.environ.get("ASSAY_REQUIRE_POSTGRESQL") == "1":
            pytest.fail("no PostgreSQL server found")
        pytest.skip("no PostgreSQL server found")
    folder = Path(tempfile.mkdtemp(prefix="assay-postgresql-"))
    server = PostgresqlServer(found, folder)
    yield server
    server.stop("immediate")
    shutil.rmtree(folder, ignore_errors=True)
