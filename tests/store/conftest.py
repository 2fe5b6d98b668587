"""A real PostgreSQL for the tests: started on a free port in a temporary folder, stopped afterwards."""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


def _programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    on_path = shutil.which("initdb")
    return found[-1] if found else Path(on_path).parent if on_path else None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _as_postgres(*command: str) -> list[str]:
    """PostgreSQL refuses to run as root; its own user may."""
    return ["runuser", "-u", "postgres", "--", *command] if os.geteuid() == 0 else list(command)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Callable[[], str]]:
    """A function that makes an empty database on a running server and gives its URL."""
    programs = _programs()
    if programs is None:
        if os.environ.get("ASSAY_REQUIRE_POSTGRESQL") == "1":
            pytest.fail("no PostgreSQL server found")
        pytest.skip("no PostgreSQL server found")
    folder = Path(tempfile.mkdtemp(prefix="assay-postgresql-"))
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
    data, port = folder / "data", _free_port()
    user = "postgres" if os.geteuid() == 0 else os.environ.get("USER", "postgres")
    run = {"check": True, "capture_output": True, "cwd": folder}
    subprocess.run(
        _as_postgres(str(programs / "initdb"), "-D", str(data), "-A", "trust", "-U", user, "--no-sync"), **run
    )
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
    control = str(programs / "pg_ctl")
    start = _as_postgres(control, "-D", str(data), "-w", "-l", str(folder / "log"), "-o", options, "start")
    subprocess.run(start, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)
    names = (f"test_{number}" for number in itertools.count())

    def fresh() -> str:
        name = next(names)
        subprocess.run([str(programs / "createdb"), "-h", "127.0.0.1", "-p", str(port), "-U", user, name], **run)
        return f"postgresql://{user}@127.0.0.1:{port}/{name}"

    yield fresh
    subprocess.run(
        _as_postgres(control, "-D", str(data), "-m", "immediate", "stop"), check=False, capture_output=True, cwd=folder
    )
    shutil.rmtree(folder, ignore_errors=True)
