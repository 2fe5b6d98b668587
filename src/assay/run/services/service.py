"""A service that runs: where it is, when it started, what it writes, and how it ended if it did.

Log files cannot grow without end: they keep the beginning and the last part of what a service writes.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal

from assay.errors import MeasureError
from assay.spec.secrets import redact

How = Literal["process", "apptainer", "podman", "charliecloud", "docker", "kubernetes"]
TAIL_LINES = 40
_TAIL_BYTES = 65536


@dataclass(frozen=True, slots=True)
class RunningService:
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
class ServiceExit:
    """How a service ended that should still run."""

    code: int  # negative: killed by that signal
    at_ns: int

    def __str__(self) -> str:
        return exit_text(self.code)


def exit_of(running: RunningService) -> ServiceExit | None:
    """How a service ended by itself; None while it runs."""
    try:
        found = json.loads(exit_file(running.stdout).read_text())
    except (OSError, ValueError):
        return None
    return ServiceExit(found["code"], found["at_ns"])


def refuse_ended(services: Iterable[RunningService]) -> None:
    """Raise if one of these services has ended by itself.

    Raises:
        MeasureError: which, how, and the last lines that it wrote.
    """
    for one in services:
        if (ending := exit_of(one)) is not None:
            after_s = (ending.at_ns - one.started_ns) / 1e9
            raise MeasureError(
                f"the service {one.name} {ending}, {after_s:.1f} s after its start{log_excerpt(log_tail(one))}",
                code="service-ended",
                at=f"services.{one.name}",
                try_="look at what it wrote last; was there enough memory for it?",
            )


def log_tail(running: RunningService, lines: int = TAIL_LINES) -> tuple[str, ...]:
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


def log_excerpt(lines: Iterable[str]) -> str:
    """Log lines as the end of a message."""
    kept = [line for line in lines if line.strip()]
    return (
        "".join(("; it wrote last:", *(f"\n    {line[:500]}" for line in kept[-10:]))) if kept else "; it wrote nothing"
    )


def exit_text(code: int) -> str:
    """An exit code in words."""
    return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"


def exit_file(stdout: Path) -> Path:
    """Where it is written how a service ended; beside its log, so that every process finds it."""
    return stdout.with_suffix(".exit")


HEAD_BYTES = 2**20
TAIL_BYTES = 4 * 2**20
_READ_BYTES = 2**16


class Pump(threading.Thread):
    """Reads a pipe to its end, as fast as it comes, so that the service never waits for us."""

    def __init__(self, pipe: IO[bytes], path: Path) -> None:
        super().__init__(name=f"pump-{path.name}", daemon=True)
        self._pipe, self._log = pipe, BoundedLog(path)
        self.start()

    def run(self) -> None:
        """Read until every process that holds the other end is gone."""
        read = self._pipe.read1 if hasattr(self._pipe, "read1") else self._pipe.read
        with self._pipe:
            while chunk := read(_READ_BYTES):
                self._log.write(chunk)
        self._log.close()


class BoundedLog:
    """A file with the first and the last bytes of a stream; readable at any time, its lines in order.

    When it has grown by as much again as its last part may hold, the middle is taken out, which costs less per byte
    than the writing itself.
    """

    def __init__(self, path: Path, head: int = HEAD_BYTES, tail: int = TAIL_BYTES) -> None:
        self._path, self._head, self._tail = path, head, tail
        self._size = self._dropped = 0
        self._file: IO[bytes] | None = path.open("wb", buffering=0)

    def write(self, chunk: bytes) -> None:
        """Add bytes; on a full disk they are counted and lost, and the service continues."""
        try:
            if self._file is None:
                self._file = self._path.open("ab", buffering=0)
            self._file.write(chunk)
            self._size += len(chunk)
            if self._size > self._head + 2 * self._tail:
                self._shorten()
        except OSError:
            self._dropped += len(chunk)

    def close(self) -> None:
        """Leave the file within its bounds."""
        try:
            if self._size > self._head + self._tail:
                self._shorten()
        except OSError:
            return
        finally:
            if self._file is not None:
                self._file.close()
                self._file = None

    def _shorten(self) -> None:
        """Write the head and the tail to a new file that takes the old one's place at once."""
        if self._file is not None:
            self._file.close()
            self._file = None
        with self._path.open("rb") as old:
            head = old.read(self._head)
            old.seek(-self._tail, 2)
            tail = old.read(self._tail)
        # The old mark, if there was one, lies right after the head: it is taken out with the bytes that it stands for.
        self._dropped += self._size - len(head) - len(tail)
        mark = b"\n[... %d bytes left out ...]\n" % self._dropped
        partial = self._path.with_name(f"{self._path.name}.part")
        partial.write_bytes(head + mark + tail)
        partial.replace(self._path)
        self._size = len(head) + len(tail)
        self._file = self._path.open("ab", buffering=0)
