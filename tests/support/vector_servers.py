"""Real vector databases for the tests: Chroma, PostgreSQL with pgvector, and Qdrant's wire contract.

They come from `.venv-servers`, beside the tool's own environment. Without it the tests are skipped, unless
ASSAY_REQUIRE_SERVERS=1 says that they must run.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.ports import free_port
from tests.support.postgresql_server import PostgresqlServer

ROOT = Path(__file__).resolve().parents[2]
SERVERS = ROOT / ".venv-servers"
CONTRACT = Path(__file__).parents[1] / "unit" / "run" / "targets" / "vector" / "qdrant_contract.py"


def need(path: Path | None, what: str) -> Path:
    """A file of the servers' environment; the test ends here if it is not there."""
    if path is not None and path.exists():
        return path
    reason = f"{what} is not in {SERVERS.name}"
    if os.environ.get("ASSAY_REQUIRE_SERVERS") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def chroma_server() -> Iterator[str]:
    """URL of a Chroma server."""
    program = need(SERVERS / "bin" / "chroma", "chroma")
    folder, port = Path(tempfile.mkdtemp(prefix="assay-chroma-")), free_port()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(program), "run", "--path", str(folder / "data"), "--host", "127.0.0.1", "--port", str(port)],
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            cwd=folder,
            env={**os.environ, "ANONYMIZED_TELEMETRY": "False", "HOME": str(folder)},
        )
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_for(f"{url}/api/v2/heartbeat", process, folder / "log")
        yield url
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def _postgresql_with_vectors() -> Iterator[PostgresqlServer]:
    found = sorted(SERVERS.glob("lib/python*/site-packages/pgserver/pginstall/bin"))
    programs = need(found[-1] if found else None, "pgserver")
    # Under the folder for temporary files: another user must be able to reach it.
    folder = Path(tempfile.mkdtemp(prefix="assay-pgvector-"))
    server = PostgresqlServer(programs, folder)
    yield server
    server.stop("immediate")
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def plain_postgresql(_postgresql_with_vectors: PostgresqlServer) -> str:
    """URL of an empty database without the extension."""
    return _postgresql_with_vectors()


@pytest.fixture
def pgvector_server(plain_postgresql: str) -> str:
    """URL of an empty database with the extension."""
    import psycopg

    with psycopg.connect(plain_postgresql, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector")
    return plain_postgresql


class QdrantContract:
    """The contract server of a test."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._forgiven: list[str] = []

    def forget(self) -> list[str]:
        """Take violations that a test made on purpose off the list, and return them."""
        made = self.told()["violations"]
        self._forgiven += made
        return made

    def told(self) -> dict[str, list[str]]:
        """What did not fit the published shapes, and which collections are left."""
        with urllib.request.urlopen(f"{self.url}/violations") as answer:
            found: dict[str, list[str]] = json.load(answer)
        found["violations"] = [one for one in found["violations"] if one not in self._forgiven]
        return found


@pytest.fixture(scope="session")
def _contract_server() -> Iterator[str]:
    program = need(SERVERS / "bin" / "python", "qdrant-client")
    need(next(iter(SERVERS.glob("lib/python*/site-packages/qdrant_client")), None), "qdrant-client")
    command = [str(program), str(CONTRACT)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        url = process.stdout.readline().strip() if process.stdout else ""
        assert url.startswith("http://127.0.0.1:"), "the contract server did not start"
        yield url
        process.kill()


@pytest.fixture
def qdrant_contract(_contract_server: str) -> Iterator[QdrantContract]:
    """Qdrant's wire contract; a test that breaks it or leaves a collection behind fails."""
    server = QdrantContract(_contract_server)
    server.forget()
    yield server
    assert server.told() == {"violations": [], "collections": []}


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=2).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    pytest.fail(f"{url} did not answer: {log.read_text(errors='replace')[-800:]}")
