"""Real Prometheus and a real node exporter, where they are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from http.client import HTTPConnection
from time import monotonic, sleep

import pytest
from tests.support.ports import free_port

PATIENCE_S = 120.0


def needed(name: str) -> str:
    """A program that these tests need; without it they are skipped, or fail where it is required."""
    found = shutil.which(name)
    if found is None:
        if os.environ.get("ASSAY_REQUIRE_PROMETHEUS") == "1":
            pytest.fail(f"no {name} found")
        pytest.skip(f"no {name} found")
    return found


@pytest.fixture(scope="session")
def prometheus() -> str:
    """The program."""
    return needed("prometheus")


def fetch(port: int, path: str = "/metrics") -> tuple[int, str]:
    """One page of a server on this machine."""
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def wait_for(port: int) -> None:
    """Wait until a server answers."""
    until = monotonic() + PATIENCE_S
    while True:
        try:
            fetch(port)
        except OSError:
            assert monotonic() < until, "it does not answer"
            sleep(0.05)
        else:
            return


@pytest.fixture(scope="module")
def node_exporter() -> Iterator[int]:
    """The port of the real node exporter."""
    port = free_port()
    program = needed("prometheus-node-exporter")
    process = subprocess.Popen(
        [program, f"--web.listen-address=127.0.0.1:{port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_for(port)
        yield port
    finally:
        process.terminate()
        process.wait(PATIENCE_S)
