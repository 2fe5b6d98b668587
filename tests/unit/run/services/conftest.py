"""Small services for the tests, written on the spot and run by this very interpreter."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil
import pytest
from tests.support.running_server import wait_for

from assay.spec.benchmark import Service

LISTEN = """
import http.server, os, sys, threading
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"fine")
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Answer)
"""


@pytest.fixture
def service(tmp_path):
    """Make a service of a Python script."""

    def make(script: str, *words: str, **keys) -> Service:
        path = tmp_path / f"service_{len(list(tmp_path.glob('service_*.py')))}.py"
        path.write_text(script)
        ready = {"within": 120.0, **keys.pop("ready", {})}
        return Service.model_validate({"command": (sys.executable, str(path), *words), "ready": ready, **keys})

    return make


@pytest.fixture
def scratch(tmp_path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def is_gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has buried yet has."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def await_gone(*pids: int) -> None:
    """Wait until processes have ended."""
    wait_for(lambda: all(is_gone(pid) for pid in pids), what=f"the end of {pids}")
