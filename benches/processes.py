"""Contestants: scripts that each run in a fresh process and print one JSON object as their last line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benches.page import ROOT

CONTESTANTS = ROOT / "benches" / "contestants"
BUILD = ROOT / "build"
# assay sets the first for its runs, so all get it; the others keep a peer from asking a hub.
ENVIRONMENT = {"ORT_DISABLE_TELEMETRY": "1", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


class PeerError(Exception):
    """A peer that could not be installed or run, with its reason in one line."""


def contest(script: str, *arguments: object, python: Path | None = None, timeout_s: float = 180) -> dict[str, Any]:
    """Run a contestant and return what it printed last.

    Raises:
        PeerError: with the last line of what it said.
    """
    command = [str(python or sys.executable), str(CONTESTANTS / f"{script}.py"), *map(str, arguments)]
    return json.loads(_last_line(run(command, timeout_s=timeout_s)))


def run(command: Sequence[str], *, timeout_s: float) -> str:
    """Run a command and return its output.

    Raises:
        PeerError: if it fails or takes too long.
    """
    environment = {**os.environ, **ENVIRONMENT}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, env=environment, cwd=BUILD)
    except subprocess.TimeoutExpired:
        raise PeerError(f"took longer than {timeout_s:.0f} s") from None
    if done.returncode:
        raise PeerError(_last_line(done.stderr) or _last_line(done.stdout) or f"exit code {done.returncode}")
    return done.stdout


def there_and_back(names: Sequence[str], rounds: int) -> Iterator[str]:
    """Every name once per round, the order turned round each time: slow changes of the machine hit all alike."""
    for number in range(rounds):
        yield from names if number % 2 == 0 else reversed(names)


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
