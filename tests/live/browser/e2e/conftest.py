"""A real server with a real agent, each a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from tests.live.browser.demo import api_of
from tests.support.running_server import PATIENCE_S, ServerProcess, wait_for

AGENT = "the-bench"


@dataclass(frozen=True)
class Lab:
    """A server, and the agent that takes its jobs."""

    url: str
    api: httpx.Client
    agent: str
    """Its name."""

    def ended(self, campaign: str) -> str:
        """Wait until a campaign has ended; its state."""
        return str(wait_for(lambda: self._state(campaign), what=f"the end of {campaign}"))

    def _state(self, campaign: str) -> str | None:
        state = self.api.get(f"/campaigns/{campaign}").json()["state"]
        return None if state == "running" else str(state)


@pytest.fixture(scope="module")
def lab(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """An open server with one agent that may run commands."""
    folder = tmp_path_factory.mktemp("lab")
    server = ServerProcess(folder / "server")
    options = ["--state", str(folder / "agent"), "--device-name", AGENT, "--allow", "command", "--min-free", "1MB"]
    command = [sys.executable, "-m", "assay", "agent", "start", "--server", server.url, *options]
    with (folder / "agent.log").open("wb") as log:
        agent = subprocess.Popen(command, stdout=log, stderr=log, env=dict(os.environ))
    api = api_of(server.url)
    try:
        wait_for(lambda: api.get("/agents").json()["items"], what="the agent")
        yield Lab(server.url, api, AGENT)
    finally:
        api.close()
        agent.send_signal(signal.SIGTERM)
        agent.wait(PATIENCE_S)
        server.stop()
