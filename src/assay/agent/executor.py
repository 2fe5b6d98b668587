"""How an agent has a job measured: input files from a cache, and a process whose events are read as they come."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from assay.agent.spool import SpoolEntry
from assay.place.fleet.client import FleetClient
from assay.plan.job import JobFile
from assay.run.processes import TAG_VARIABLE, kill_tree

# An agent's own secrets; a job could ask for them by name and send them anywhere.
OWN_VARIABLES = ("ASSAY_TOKEN", "ASSAY_AGENT_TOKEN")
SECRET_VARIABLES = (*OWN_VARIABLES, "ASSAY_TOKEN_FILE")
_TAIL_BYTES = 16384
_MAX_LINE = 1 << 20


class Execution(Protocol):
    """A job that is being measured."""

    def events(self) -> Iterator[Mapping[str, Any]]:
        """What it says about itself, until it ends."""
        ...

    def kill(self) -> None:
        """End it at once, with everything that it started; harmless when it has ended."""
        ...

    def wait(self) -> int:
        """Its exit code, once it has ended; negative for a signal."""
        ...


class Executor(Protocol):
    """Starts measurements."""

    def start(self, entry: SpoolEntry, environment: Mapping[str, str]) -> Execution:
        """Measure the job document of an attempt."""
        ...


class ProcessExecutor:
    """Starts `assay exec` under `parent_guard`, in a session of its own."""

    def __init__(self, hidden: tuple[str, ...] = ()) -> None:
        """Which further variables of the agent's environment a job must not see."""
        self._hidden = {*SECRET_VARIABLES, *hidden}

    def start(self, entry: SpoolEntry, environment: Mapping[str, str]) -> Execution:
        """Start a process that measures the job document of an attempt."""
        inherited = {name: value for name, value in os.environ.items() if name not in self._hidden}
        command = [sys.executable, "-m", "assay.agent.parent_guard", "exec", str(entry.document)]
        with entry.log.open("wb") as errors:
            process = subprocess.Popen(
                [*command, "--out", str(entry.out), "--events"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**inherited, **environment, TAG_VARIABLE: entry.tag},
                **_apart(),
            )
        return _Process(process, entry.tag)


class _Process:
    """A measuring process."""

    def __init__(self, process: subprocess.Popen[bytes], tag: str) -> None:
        self._process = process
        self._tag = tag

    def events(self) -> Iterator[Mapping[str, Any]]:
        """What it says about itself, line by line; what is no event is left out."""
        stdout = self._process.stdout
        while stdout is not None and (line := stdout.readline(_MAX_LINE)):
            with suppress(ValueError):
                event = json.loads(line)
                if isinstance(event, dict):
                    yield event

    def kill(self) -> None:
        """End it and its whole tree."""
        if self._process.poll() is None:
            kill_tree(self._process.pid, self._tag)

    def wait(self) -> int:
        """Its exit code; its standard input stays open until then, see `parent_guard`."""
        code = self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        return code


def _apart() -> dict[str, Any]:
    """A signal to the agent's terminal is the agent's alone."""
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}


def last_lines(log: Path, lines: int = 20) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            return "\n".join(file.read().decode("utf-8", "replace").splitlines()[-lines:])
    except OSError:
        return ""


class InputCache:
    """A folder of files by content; the ones used longest ago make room for new ones."""

    def __init__(self, folder: Path, client: FleetClient, max_bytes: int) -> None:
        self._folder = folder
        self._client = client
        self._max_bytes = max_bytes
        self._lock = threading.Lock()

    def put(self, file: JobFile, to: Path, *, own: bool) -> None:
        """Put a file where a job wants it."""
        kept = self._folder / file.sha256
        with self._lock:
            if not _is_sound(kept, file):
                self._make_room(file.size_bytes)
                self._client.download(file.sha256, kept)
            os.utime(kept)  # used now
            _place(kept, to, own=own)

    def empty(self) -> None:
        """Give the room back."""
        with self._lock:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _make_room(self, needed: int) -> None:
        with suppress(OSError):
            kept = sorted(self._folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
            total = needed
            for path in kept:
                total += path.stat().st_size
                if total > self._max_bytes:
                    path.unlink(missing_ok=True)


def _is_sound(path: Path, file: JobFile) -> bool:
    try:
        if path.stat().st_size != file.size_bytes:
            return False
        with path.open("rb") as kept:
            return hashlib.file_digest(kept, "sha256").hexdigest() == file.sha256
    except OSError:
        return False


def _place(kept: Path, to: Path, *, own: bool) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    to.unlink(missing_ok=True)
    if not own:
        with suppress(OSError):  # another disk, or a file system without links
            os.link(kept, to)
            return
    shutil.copyfile(kept, to)
