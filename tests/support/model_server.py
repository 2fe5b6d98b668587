"""A real language model for the tests: llama.cpp's own server with SmolLM2-135M, on a free port, ended afterwards.

It lives in `.venv-servers`, which `scripts/servers.sh` makes.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import httpx
import pytest
from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-servers" / "bin" / "python"
SCRIPT = ROOT / "examples" / "serve_smollm2.py"
PATIENCE_S = 120.0


def servers_python() -> Path:
    """The interpreter that has the servers; the test is skipped where there is none."""
    if not (PYTHON.parent.parent / ".installed").exists():
        if os.environ.get("ASSAY_REQUIRE_SERVERS") == "1":
            pytest.fail("the servers are not installed; run scripts/servers.sh")
        pytest.skip("the servers are not installed; run scripts/servers.sh")
    return PYTHON


@contextmanager
def smollm2(*, parallel: int = 4, context: int = 2048) -> Iterator[str]:
    """The URL of a running server: one thread, `parallel` requests at a time, metrics on."""
    python, port = servers_python(), free_port()
    url = f"http://127.0.0.1:{port}"
    words = ["--port", str(port), "--parallel", str(parallel), "--context", str(context)]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen([python, SCRIPT, *words], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            _await_ready(process, f"{url}/health", log)
            yield url
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture(scope="session")
def smollm2_url() -> Iterator[str]:
    """One server for all tests of the session that want one."""
    with smollm2() as url:
        yield url


def _await_ready(process, health: str, log) -> None:
    until = monotonic() + PATIENCE_S
    while True:
        try:
            if httpx.get(health, timeout=5, trust_env=False).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        if process.poll() is not None or monotonic() > until:
            log.seek(0)
            raise RuntimeError(log.read()[-3000:].decode("utf-8", "replace"))
        sleep(0.05)
