"""Short questions to a container runtime: what it answers, or what it said when it failed."""

from __future__ import annotations

import getpass
import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

PATIENCE_S = 30.0
_LAST_LINES = 5


@dataclass(frozen=True, slots=True)
class Said:
    """How a command of a runtime ended."""

    ok: bool
    text: str
    """What it printed."""
    problem: str = ""
    """Its last words, where it failed."""
    beside: str = ""
    """What it wrote to standard error."""


def run(command: Iterable[str], within_s: float = PATIENCE_S, env: Mapping[str, str] | None = None) -> Said:
    words = [*command]
    try:
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            timeout=within_s,
            check=False,
            env=env,
            errors="replace",
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return Said(False, "", f"{words[0]} did not end within {within_s:.0f} s")
    except OSError as failure:
        return Said(False, "", f"{words[0]}: {failure.strerror or failure}")
    if done.returncode == 0:
        return Said(True, done.stdout, beside=done.stderr)
    lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    return Said(False, done.stdout, " | ".join(lines[-_LAST_LINES:]) or f"{words[0]} ended with {done.returncode}")


def ask(command: Iterable[str], within_s: float = PATIENCE_S) -> str:
    """What a runtime answers; nothing where it fails or does not answer."""
    said = run(command, within_s)
    return said.text if said.ok else ""


def version(program: str) -> str:
    """What a runtime says about itself."""
    # One of them refuses to say anything to a user without a name, and says it on standard error.
    said = run([program, "--version"], env={"USER": getpass.getuser(), **os.environ})
    return (said.text.strip() or said.beside.strip()) if said.ok else ""
