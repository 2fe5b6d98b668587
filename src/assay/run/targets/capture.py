"""A program's output and the numbers it emits, kept with the time at which they came."""

from __future__ import annotations

import bisect
import json
import os
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter_ns
from typing import IO

# Enough for any honest log; a program that prints without end must not fill the disk.
MAX_OUTPUT = 64 * 2**20


class OutputCapture:
    """Copies a pipe to a file, bounded, and remembers when each piece came."""

    def __init__(self, pipe: IO[bytes], path: Path) -> None:
        self.dropped = 0
        self._times: list[tuple[int, int]] = []  # bytes so far, time
        self._kept = 0
        self._path = path
        self._thread = threading.Thread(target=self._copy, args=(pipe,), daemon=True)
        self._thread.start()

    def finish(self, timeout_s: float) -> str:
        """Wait for the end of the pipe and return what came, as text."""
        # A daemon that the program left behind may hold the pipe open for ever: do not wait for it.
        self._thread.join(timeout_s)
        return self._path.read_bytes().decode("utf-8", "replace") if self._path.exists() else ""

    def time_ns(self, offset: int) -> int:
        """When the output up to a byte offset had arrived."""
        if not self._times:
            return 0
        position = bisect.bisect_right(self._times, offset, key=lambda piece: piece[0])
        return self._times[min(position, len(self._times) - 1)][1]

    def _copy(self, pipe: IO[bytes]) -> None:
        fd = pipe.fileno()
        with self._path.open("wb", buffering=0) as file:
            while chunk := os.read(fd, 65536):
                now = perf_counter_ns()
                room = MAX_OUTPUT - self._kept
                self.dropped += max(0, len(chunk) - room)
                if room > 0:
                    file.write(chunk[:room])
                    self._kept += min(room, len(chunk))
                    self._times.append((self._kept, now))


@dataclass(slots=True)
class Emitted:
    """What came through `assay.emit`."""

    values: list[tuple[str, float, int]] = field(default_factory=list)  # metric, value, time
    bad_lines: list[str] = field(default_factory=list)


class EmitPipe:
    """The pipe that `assay.emit` writes to: one JSON object of numbers per line."""

    def __init__(self, folder: Path) -> None:
        # In a folder of its own, which a container can be given without the rest.
        self.path = folder / "emit" / "pipe"
        self.path.parent.mkdir(mode=0o755)
        self.seen = Emitted()
        self._open = True
        self._fd = _make_pipe(self.path)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def finish(self) -> Emitted:
        """Stop reading once everything written so far has been read."""
        self._open = False
        wake = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        os.write(wake, b"\n")
        os.close(wake)
        self._thread.join(5)
        os.close(self._fd)
        return self.seen

    def _read(self) -> None:
        rest = b""
        while True:
            chunk = os.read(self._fd, 65536)
            if not chunk:
                if not self._open:
                    return
                threading.Event().wait(0.05)  # a plain file (no pipes on this system): look again
                continue
            now = perf_counter_ns()
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                take_line(line, now, self.seen)
            if not self._open and not rest:
                return


def _make_pipe(path: Path) -> int:
    if sys.platform == "win32":
        path.touch()
        return os.open(path, os.O_RDONLY)
    os.mkfifo(path)
    # Whoever a container makes of its user may write; nobody else gets into the folder of the run.
    path.chmod(0o666)
    # Open for both: the reader then never sees an end while writers come and go.
    return os.open(path, os.O_RDWR)


def take_line(line: bytes, now_ns: int, into: Emitted, *, strict: bool = True) -> None:
    """Take one emitted line; one that is no JSON object of numbers is kept as bad, and the numbers in it count."""
    if not line.strip():
        return
    numbers, is_whole = _numbers(line)
    if strict and not is_whole:
        into.bad_lines.append(line.decode("utf-8", "replace")[:200])
    if strict or is_whole:  # a printed line that is not whole may be anything
        into.values += [(name, value, now_ns) for name, value in numbers.items()]


def _numbers(line: bytes) -> tuple[dict[str, float], bool]:
    """The numbers of a line, and whether it holds nothing else."""
    try:
        document = json.loads(line)
    except ValueError:
        return {}, False
    if not isinstance(document, dict) or not document:
        return {}, False
    found = {
        name: float(value)
        for name, value in document.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    return found, len(found) == len(document)
