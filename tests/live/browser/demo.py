"""A real server with demo data whose agents keep working: what the pages are viewed with."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from tests.support.running_server import PATIENCE_S, ServerProcess, wait_for

CAMPAIGNS = 60


def fill(folder: Path, campaigns: int = CAMPAIGNS, days: int = 365) -> None:
    """Make demo data, unless the folder has some."""
    command = [sys.executable, "-m", "assay", "demo-data", "--store", str(folder)]
    amount = ["--campaigns", str(campaigns), "--days", str(days)]
    done = subprocess.run([*command, *amount], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@contextmanager
def demo_server(folder: Path) -> Iterator[ServerProcess]:
    """A server of a folder with demo data, and its agents; both end with it."""
    server = ServerProcess(folder)
    command = [sys.executable, "-m", "assay", "demo-data", "--store", str(folder), "--alive"]
    log = folder / "agents.log"
    with log.open("ab") as said:
        agents = subprocess.Popen(command, stdout=said, stderr=said, env=dict(os.environ))
    try:
        with api_of(server.url) as api:
            wait_for(
                lambda: any(one["healthy"] for one in api.get("/agents").json()["items"]), 120, "a beat of an agent"
            )
        yield server
    finally:
        agents.send_signal(signal.SIGINT)
        agents.wait(PATIENCE_S)
        server.stop()


def api_of(url: str) -> httpx.Client:
    """A client of a server's `/api/v1`."""
    return httpx.Client(base_url=f"{url}/api/v1", timeout=PATIENCE_S, trust_env=False)
