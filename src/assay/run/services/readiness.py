"""Readiness: whether a service answers over HTTP, accepts connections, or a command says so."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from assay.run.services.plan import HOST

# The first looks are close together, since the time to ready is a result; later ones disturb less.
FIRST_STEP_S, LAST_STEP_S = 0.02, 0.2
_ANSWER_S = 5.0
_COMMAND_S = 30.0


@dataclass(frozen=True, slots=True)
class Question:
    """What a service is asked until it is ready; everything given must hold."""

    port: int
    host: str = HOST
    http: str | None = None
    tcp: bool = False
    command: tuple[str, ...] | None = None
    env: Mapping[str, str] | None = None
    cwd: Path | None = None

    def ask(self, left_s: float) -> str | None:
        """None when ready, else what the service answered."""
        if self.http is not None and (said := ask_http(self.port, self.http, min(left_s, _ANSWER_S), self.host)):
            return said
        if self.tcp or (self.http is None and self.command is None):
            said = ask_tcp(self.port, left_s, self.host)
            if said is not None:
                return said
        if self.command is not None:
            return ask_command(self.command, self.env, self.cwd, min(left_s, _COMMAND_S))
        return None


def steps() -> Iterator[float]:
    """How long to wait before each look, in seconds."""
    step_s = FIRST_STEP_S
    while True:
        yield step_s
        step_s = min(2 * step_s, LAST_STEP_S)


def ask_http(port: int, path: str, wait_s: float, host: str = HOST) -> str | None:
    """None when a path answers with a status below 400."""
    from http.client import HTTPConnection, HTTPException

    connection = HTTPConnection(host, port, timeout=max(wait_s, 0.05))
    try:
        connection.request("GET", path if path.startswith("/") else f"/{path}", headers={"Connection": "close"})
        answer = connection.getresponse()
        begin = answer.read(200)
    except (OSError, HTTPException, ValueError) as failure:
        return f"GET {path}: {_words_of(failure)}"
    finally:
        connection.close()
    if answer.status < 400:
        return None
    text = " ".join(begin.decode("utf-8", "replace").split())
    return f"GET {path}: status {answer.status}{f' ({text})' if text else ''}"


def ask_tcp(port: int, wait_s: float, host: str = HOST) -> str | None:
    """None when a port accepts a connection."""
    try:
        socket.create_connection((host, port), timeout=max(min(wait_s, _ANSWER_S), 0.05)).close()
    except OSError as failure:
        return f"port {port}: {_words_of(failure)}"
    return None


def ask_command(words: tuple[str, ...], env: Mapping[str, str] | None, cwd: Path | None, wait_s: float) -> str | None:
    """None when a command exits with 0. What it prints is left: an endless one must not fill anything."""
    try:
        process = subprocess.Popen(
            words,
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as failure:
        return f"{words[0]}: {failure.strerror or failure}"
    try:
        code = process.wait(timeout=max(wait_s, 0.05))
    except subprocess.TimeoutExpired:
        _kill_group(process)
        return f"{words[0]}: did not end within {wait_s:.1f} s"
    return f"{words[0]}: exit code {code}" if code else None


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _words_of(failure: Exception) -> str:
    if isinstance(failure, TimeoutError):
        return "no answer in time"
    if isinstance(failure, OSError) and failure.strerror:
        return failure.strerror.lower()
    return f"{type(failure).__name__}: {failure}".rstrip(": ")
