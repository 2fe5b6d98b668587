"""A program's output and the numbers it emits, kept with the time at which they came."""

from __future__ import annotations

import bisect
import json
import os
import sys
import threading
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter_ns
from typing import IO

from assay.run.pipes import readable

# Enough for any honest log; a program that prints without end must not fill the disk. Of longer output the beginning
# says what it did, and the end has its results.
HEAD_BYTES = 32 * 2**20
TAIL_BYTES = 32 * 2**20
# While a program writes, its last output lies in these, beside the log.
TAIL_FILES = (".tail-before", ".tail")
# What one run may report: more values than anybody looks at, and one metric is a table row of every report.
MAX_VALUES = 1_000_000
MAX_METRICS = 2_000
MAX_LINE_BYTES = 16 * 2**20
_MAX_BAD_LINES = 100
_LEFT_OUT = "[{:,} bytes of output are left out here]\n"
_LINE_ENDS = (b"\n", b"\r")


class OutputCapture:
    """Copies a pipe to a file and remembers when each piece came; of long output the beginning and the end."""

    def __init__(self, pipe: IO[bytes], path: Path) -> None:
        self.text = ""
        """What is kept, once it is finished."""
        self.dropped = 0
        """Bytes between the beginning and the end that are not kept."""
        self._path = path
        self._seen = 0
        self._head_times: list[tuple[int, int]] = []  # bytes so far, time
        self._tail_times: deque[tuple[int, int]] = deque()
        self._times: list[tuple[int, int]] = []
        self._head_kept = self._tail_from = 0  # bytes of the text before the gap; by how much those after it moved
        self._writing = threading.Lock()
        self._is_over = False
        self._thread = threading.Thread(target=self._copy, args=(pipe,), daemon=True)
        self._thread.start()

    def finish(self, timeout_s: float) -> str:
        """Wait for the end of the pipe and return what is kept, as text; the file then holds the same."""
        # A daemon that the program left behind may hold the pipe open for ever: do not wait for it.
        self._thread.join(timeout_s)
        with self._writing:
            self._is_over = True
        self._times = [*self._head_times, *self._tail_times]
        if self._path.exists():
            self.text = self._joined().decode("utf-8", "replace")
        return self.text

    def time_ns(self, offset: int) -> int:
        """When the output up to a byte offset of the kept text had arrived."""
        if not self._times:
            return 0
        came = offset if offset < self._head_kept or not self.dropped else offset + self._tail_from
        position = bisect.bisect_right(self._times, came, key=lambda piece: piece[0])
        return self._times[min(position, len(self._times) - 1)][1]

    def _copy(self, pipe: IO[bytes]) -> None:
        fd = pipe.fileno()
        with self._path.open("wb", buffering=0) as head, _Tail(self._path) as tail:
            while chunk := os.read(fd, 65536):
                now = perf_counter_ns()
                with self._writing:
                    if self._is_over:
                        return
                    self._take(chunk, now, head, tail)

    def _take(self, chunk: bytes, now: int, head: IO[bytes], tail: _Tail) -> None:
        room = max(0, HEAD_BYTES - self._seen)
        self._seen += len(chunk)
        if room:
            head.write(chunk[:room])
            self._head_times.append((min(self._seen, HEAD_BYTES), now))
        if chunk[room:]:
            tail.write(chunk[room:])
            self._tail_times.append((self._seen, now))
            while self._tail_times[0][0] < self._seen - TAIL_BYTES:
                self._tail_times.popleft()

    def _joined(self) -> bytes:
        """The beginning and the end in one file; where something is missing between them, no line of either is cut."""
        head = self._path.read_bytes()
        tail = _Tail.taken(self._path)
        if self._seen > len(head) + len(tail):
            head, tail = _whole_lines_of_head(head), _whole_lines_of_tail(tail)
            self.dropped = self._seen - len(head) - len(tail)
            note = _LEFT_OUT.format(self.dropped).encode()
            self._head_kept, self._tail_from = len(head), self.dropped - len(note)
            tail = note + tail
        if tail:
            self._path.write_bytes(head + tail)
        return head + tail


class _Tail:
    """The end of a stream, in two files that take turns, so that it is there also when this process is killed."""

    def __init__(self, log: Path) -> None:
        self._before, self._now = (log.with_name(log.name + suffix) for suffix in TAIL_FILES)
        self._file: IO[bytes] | None = None
        self._written = 0

    def __enter__(self) -> _Tail:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def write(self, data: bytes) -> None:
        """Take the next piece."""
        if self._file is not None and self._written >= TAIL_BYTES:
            self._file.close()
            self._now.replace(self._before)
            self._file = None
        if self._file is None:
            self._file = self._now.open("wb", buffering=0)
            self._written = 0
        self._file.write(data)
        self._written += len(data)

    @staticmethod
    def taken(log: Path) -> bytes:
        """The end of the stream; the files are gone afterwards."""
        found = b""
        for path in (log.with_name(log.name + suffix) for suffix in TAIL_FILES):
            if path.exists():
                found += path.read_bytes()
                path.unlink()
        return found[-TAIL_BYTES:]


def _whole_lines_of_head(head: bytes) -> bytes:
    return head[: max(head.rfind(end) for end in _LINE_ENDS) + 1]


def _whole_lines_of_tail(tail: bytes) -> bytes:
    ends = [place for end in _LINE_ENDS if (place := tail.find(end)) >= 0]
    return tail[min(ends) + 1 :] if ends else b""


@dataclass(slots=True)
class Emitted:
    """What came through `assay.emit`; of too many values a few more than may be, so that it shows."""

    values: list[tuple[str, float, int]] = field(default_factory=list)  # metric, value, time
    bad_lines: list[str] = field(default_factory=list)

    def refuse(self, line: str) -> None:
        """Keep a line that could not be read, as far as somebody will look at it."""
        if len(self.bad_lines) < _MAX_BAD_LINES:
            self.bad_lines.append(line[:200])


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
        rest, skipping = b"", False
        while True:
            chunk = os.read(self._fd, 65536)
            if not chunk:
                if not self._open:
                    return
                threading.Event().wait(0.05)  # a plain file (no pipes on this system): look again
                continue
            now = perf_counter_ns()
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines[1:] if skipping else lines:
                take_line(line, now, self.seen)
            skipping = skipping and not lines
            if skipping or len(rest) > MAX_LINE_BYTES:
                if not skipping:
                    self.seen.refuse(f"a line of more than {MAX_LINE_BYTES:,} bytes")
                rest, skipping = b"", True
            if not self._open and not rest and not readable(self._fd, 0.0):
                return


def _make_pipe(path: Path) -> int:
    if sys.platform == "win32":
        path.touch()
        return os.open(path, os.O_RDONLY)
    os.mkfifo(path)
    # Any user that a container maps its own to may write; nobody else gets into the folder of the run.
    path.chmod(0o666)
    # Open for both: the reader then never sees an end while writers come and go.
    return os.open(path, os.O_RDWR)


def take_line(line: bytes, now_ns: int, into: Emitted, *, strict: bool = True) -> None:
    """Take one emitted line; one that is no JSON object of numbers is kept as bad, and the numbers in it count."""
    if not line.strip() or len(into.values) > MAX_VALUES:
        return
    numbers, is_whole = _numbers(line)
    if strict and not is_whole:
        into.refuse(line[:800].decode("utf-8", "replace"))
    if strict or is_whole:  # a printed line that is not whole may be anything
        into.values += [(name, value, now_ns) for name, value in numbers.items()]


def _numbers(line: bytes) -> tuple[dict[str, float], bool]:
    """The numbers of a line, and whether it holds nothing else."""
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):  # nested deeper than anybody reads
        return {}, False
    if not isinstance(document, dict) or not document:
        return {}, False
    found = {name: number for name, value in document.items() if (number := _number(value)) is not None}
    return found, len(found) == len(document)


def _number(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:  # an integer beyond what a float holds
        return None
