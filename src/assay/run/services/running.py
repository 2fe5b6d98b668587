"""A service that runs: where it is, when it started, where it writes, and how it ended if it did."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from assay.errors import MeasureError
from assay.spec.secrets import redact

How = Literal["process", "apptainer", "podman", "charliecloud", "docker", "kubernetes"]
TAIL_LINES = 40
_TAIL_BYTES = 65536


@dataclass(frozen=True, slots=True)
class Running:
    """One service, ready to be used. Moments are of `time.perf_counter_ns`, which its machine's processes share."""

    name: str
    host: str
    port: int
    base_url: str
    started_ns: int
    """Just before its process was made."""
    ready_ns: int
    """When it first answered that it is ready."""
    pid: int | None
    """Its first process on this machine; None where that cannot be seen, and where it runs on another one."""
    how: How
    stdout: Path
    stderr: Path
    facts: Mapping[str, str] = field(default_factory=dict)
    """How it was started: the command as written (no secret is in it), the image and its digest."""
    secrets: tuple[str, ...] = ()
    """Names of the environment variables that its secrets come from."""

    @property
    def start_to_ready_s(self) -> float:
        """From its start to the first time it was ready."""
        return (self.ready_ns - self.started_ns) / 1e9


@dataclass(frozen=True, slots=True)
class Ending:
    """How a service ended that should still run."""

    code: int  # negative: killed by that signal
    at_ns: int

    def __str__(self) -> str:
        return said(self.code)


def ended(running: Running) -> Ending | None:
    """How a service ended by itself; None while it runs."""
    try:
        found = json.loads(exit_file(running.stdout).read_text())
    except (OSError, ValueError):
        return None
    return Ending(found["code"], found["at_ns"])


def refuse_ended(services: Iterable[Running]) -> None:
    """Raise if one of these services has ended by itself.

    Raises:
        MeasureError: which, how, and the last lines that it wrote.
    """
    for one in services:
        if (ending := ended(one)) is not None:
            after_s = (ending.at_ns - one.started_ns) / 1e9
            raise MeasureError(
                f"the service {one.name} {ending}, {after_s:.1f} s after its start{told(log_tail(one))}",
                code="service-ended",
                at=f"services.{one.name}",
                try_="look at what it wrote last; was there enough memory for it?",
            )


def log_tail(running: Running, lines: int = TAIL_LINES) -> tuple[str, ...]:
    """The last lines that a service wrote: those of its stderr, or of its stdout where stderr is empty."""
    return last_words(running.stdout, running.stderr, running.secrets, lines)


def last_words(stdout: Path, stderr: Path, secrets: Iterable[str], lines: int = TAIL_LINES) -> tuple[str, ...]:
    """The same by its files, with the values of its secrets hidden."""
    names = tuple(secrets)
    return tuple(redact(line, names) for line in tail_of(stderr, lines) or tail_of(stdout, lines))


def tail_of(path: Path, lines: int = TAIL_LINES) -> tuple[str, ...]:
    """The last lines of a file."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            return tuple(file.read().decode("utf-8", "replace").splitlines()[-lines:])
    except OSError:
        return ()


def told(lines: Iterable[str]) -> str:
    """Log lines as the end of a message."""
    kept = [line for line in lines if line.strip()]
    return (
        "".join(("; it wrote last:", *(f"\n    {line[:500]}" for line in kept[-10:]))) if kept else "; it wrote nothing"
    )


def said(code: int) -> str:
    """An exit code in words."""
    return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"


def exit_file(stdout: Path) -> Path:
    """Where it is written how a service ended; beside its log, so that every process finds it."""
    return stdout.with_suffix(".exit")
