"""A program's output and the numbers it emits, kept with the time at which they came."""

from __future__ import annotations

import bisect
import json
import os
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter_ns
from typing import IO

from assay.run.pipes import readable
from assay.run.records import OUT_OF_REACH
from assay.run.services import How, RunningService
from assay.spec.target import MetricPattern

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
_LINE_END = re.compile(rb"[\r\n]")


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
        return _arrival_ns(self._times, came)

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
            line_end = _LINE_END.search(tail)
            head = head[: max(head.rfind(b"\n"), head.rfind(b"\r")) + 1]
            tail = tail[line_end.end() :] if line_end else b""
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
        tail = b""
        for path in (log.with_name(log.name + suffix) for suffix in TAIL_FILES):
            if path.exists():
                tail += path.read_bytes()
                path.unlink()
        return tail[-TAIL_BYTES:]


def _arrival_ns(pieces: Sequence[tuple[int, int]], offset: int) -> int:
    """When the piece that holds an offset came; pieces are given by their ends, with their times."""
    position = bisect.bisect_right(pieces, offset, key=lambda piece: piece[0])
    return pieces[min(position, len(pieces) - 1)][1]


def byte_offsets(text: str, characters: Iterable[int]) -> Iterator[int]:
    """Where rising positions in characters lie in bytes; the text is walked once."""
    octets = before = 0
    for position in characters:
        octets += len(text[before:position].encode())
        before = position
        yield octets


@dataclass(slots=True)
class Emitted:
    """What came through `assay.emit`; of too many values a few more than may be, so that it shows."""

    values: list[tuple[str, float, int]] = field(default_factory=list)  # metric, value, time
    bad_lines: list[str] = field(default_factory=list)

    def refuse(self, line: str) -> None:
        """Keep a line that could not be read, up to a number that a person would look at."""
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
    # Any user that a container maps its own to may write; no other user can enter the folder of the run.
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
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):  # nested deeper than anybody reads
        return {}, False
    if not isinstance(document, dict) or not document:
        return {}, False
    numbers = {name: number for name, value in document.items() if (number := _number(value)) is not None}
    return numbers, len(numbers) == len(document)


def _number(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:  # an integer beyond what a float holds
        return None


# How many of the matches that are not numbers are kept: as many as a person would look at.
_MAX_UNREADABLE = 100
_EXPONENT = re.compile(r"\.?[eE][-+]?\d+\b")
# How well the time of a line is known; a look at a file's size costs microseconds.
EVERY_S = 0.02
# A log that has not grown for so long says no more of what was measured; one that never rests is read as it is.
_STILL_S = 0.3
_REST_AT_MOST_NS = 3_000_000_000
STREAMS = ("stdout", "stderr")


@dataclass(frozen=True, slots=True)
class PatternMatch:
    metric: str  # with its context: `speed{batch=8}`
    value: float  # NaN where the program printed one
    offset: int  # character of the output at which it stands


@dataclass(frozen=True, slots=True)
class UnreadableMatch:
    metric: str
    text: str
    line: int
    why: str = "which is not a number"


def find_values(
    output: str, metrics: Sequence[MetricPattern], at_most: int = MAX_VALUES
) -> tuple[list[PatternMatch], list[UnreadableMatch]]:
    """All values of all patterns, in the order of the output, and the first matches that are no numbers."""
    matches: list[PatternMatch] = []
    unreadable: list[UnreadableMatch] = []
    for metric in metrics:
        for item in _of_one(output, metric):
            (matches if isinstance(item, PatternMatch) else unreadable).append(item)  # type: ignore[arg-type]
            if len(matches) > at_most:
                break
    return sorted(matches, key=lambda item: item.offset), unreadable


def number(text: str) -> float | None:
    """A number as programs print it: sign, exponent, thousands, `nan`, `inf`; None if it is none."""
    clean = text.strip().replace("_", "")
    if re.fullmatch(r"[-+]?\d{1,3}(,\d{3})+(\.\d+)?", clean):
        clean = clean.replace(",", "")
    try:
        return float(clean)
    except ValueError:
        return None


def _of_one(output: str, metric: MetricPattern) -> Iterator[PatternMatch | UnreadableMatch]:
    if metric.pattern is None:
        return
    context = {label: _Context(output, pattern) for label, pattern in metric.context.items()}
    bad = 0
    for match in re.finditer(metric.pattern, output, re.MULTILINE):
        text, end = match[_value_group(match)], match.end(_value_group(match))
        if text is None:
            continue
        # A pattern without an exponent would read 1e-05 as 1.
        exponent = _EXPONENT.match(output, end) if output[end - 1 : end].isdigit() else None
        value, rest = number(text), exponent[0] if exponent else ""
        if value is None or rest:
            bad += 1
            if bad > _MAX_UNREADABLE:
                continue  # to name its line is to count all lines above it
            why = {"why": "of which its group takes only the beginning"} if rest else {}
            yield UnreadableMatch(metric.name, text + rest, output.count("\n", 0, match.start()) + 1, **why)
            continue
        labels = {label: seen for label, where in context.items() if (seen := where.above(match.end())) is not None}
        context_text = ",".join(f"{label}={value}" for label, value in sorted(labels.items()))
        name = f"{metric.name}{{{context_text}}}" if labels else metric.name
        yield PatternMatch(name, value, match.start())


def _value_group(match: re.Match[str]) -> str | int:
    return "value" if "value" in match.re.groupindex else 1


class _Context:
    """The last match of a pattern above a place."""

    def __init__(self, output: str, pattern: str) -> None:
        matches = re.finditer(pattern, output, re.MULTILINE)
        self._matches = [(match.start(), match[_value_group(match)]) for match in matches]

    def above(self, offset: int) -> str | None:
        """What the pattern last matched before an offset."""
        position = bisect.bisect_left(self._matches, offset, key=lambda match: match[0])
        return self._matches[position - 1][1] if position else None


@dataclass(slots=True)
class ServiceMetrics:
    values: list[tuple[str, float, int]] = field(default_factory=list)  # metric, value, time
    unreadable: list[UnreadableMatch] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)
    """Metric → why nothing was found, where its service wrote nowhere that can be read here."""


class ServiceOutput:
    """Watches the logs that patterns of a command are about.

    Of a service that all runs share, what it wrote before does not count.
    """

    def __init__(
        self, metrics: Iterable[MetricPattern], services: Mapping[str, RunningService], fresh: Container[str] = ()
    ) -> None:
        self._metrics = [metric for metric in metrics if metric.service is not None]
        self._over = threading.Event()
        names = dict.fromkeys(metric.service for metric in self._metrics if metric.service is not None)
        self._logs = {
            (name, stream): _Log(getattr(services[name], stream), whole=name in fresh, how=services[name].how)
            for name in names
            for stream in STREAMS
        }
        self._thread = threading.Thread(target=self._watch, name="service-output", daemon=True)
        if self._logs:
            self._thread.start()

    def finish(self) -> ServiceMetrics:
        """Stop watching and search what was written meanwhile."""
        metrics = ServiceMetrics()
        if not self._logs:
            return metrics
        self._await_rest()
        self._over.set()
        self._thread.join()
        for (name, _), log in self._logs.items():
            wanted = [metric for metric in self._metrics if metric.service == name]
            text = log.text()
            values, unreadable = find_values(text, wanted)
            metrics.unreadable += unreadable
            offsets = byte_offsets(text, (item.offset for item in values))
            for item, offset in zip(values, offsets, strict=True):
                metrics.values.append((item.metric, item.value, log.time_ns(offset)))
        for metric in self._metrics:
            if not any(self._logs[str(metric.service), stream].is_here for stream in STREAMS):
                why = f"what the service {metric.service} writes {OUT_OF_REACH}"
                metrics.absent[metric.name] = why
        return metrics

    def _await_rest(self) -> None:
        """Wait until the logs stand still: a server writes of its last answers after it has sent them."""
        until_ns = perf_counter_ns() + _REST_AT_MOST_NS
        sizes = None
        while sizes != (now := [log.size() for log in self._logs.values()]) and perf_counter_ns() < until_ns:
            sizes = now
            time.sleep(_STILL_S)

    def _watch(self) -> None:
        while True:
            over = self._over.is_set()  # asked first, so that the last look comes after the end
            for log in self._logs.values():
                log.poll()
            if over:
                return
            self._over.wait(EVERY_S)


class _Log:
    """One log: how long it was when, from the moment that it is watched."""

    def __init__(self, path: Path, *, whole: bool, how: How = "process") -> None:
        self._path = path
        # What a service in a pod of its own writes stays there, and the file here is empty.
        self.is_here = path.is_file() and how != "kubernetes"
        self._begin = 0 if whole else self.size()
        self._times: list[tuple[int, int]] = []  # bytes since the beginning, time

    def poll(self) -> None:
        size = self.size() - self._begin
        if size > (self._times[-1][0] if self._times else 0):
            self._times.append((size, perf_counter_ns()))

    def text(self) -> str:
        """What counts of it. A log that was shortened meanwhile is read as far as it is there."""
        try:
            with self._path.open("rb") as file:
                file.seek(min(self._begin, self.size()))
                return file.read().decode("utf-8", "replace")
        except OSError:
            return ""

    def time_ns(self, offset: int) -> int:
        """When what stands at an offset had been written."""
        return _arrival_ns(self._times, offset) if self._times else perf_counter_ns()

    def size(self) -> int:
        try:
            return self._path.stat().st_size
        except OSError:
            return 0
