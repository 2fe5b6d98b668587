"""Numbers out of the output of a program or of its services: patterns that may span lines, with their context."""

from __future__ import annotations

import bisect
import re
import threading
import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter_ns

from assay.run.services import RunningService
from assay.run.services.service import How
from assay.run.targets.capture import MAX_VALUES
from assay.spec.target import MetricPattern

# As many of the matches that are no numbers as somebody will look at.
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
    """A value that a program reported, and where in its output."""

    metric: str  # with its context: `speed{batch=8}`
    value: float  # NaN where the program printed one
    offset: int  # character of the output at which it stands


@dataclass(frozen=True, slots=True)
class UnreadableMatch:
    """A match that is not a number."""

    metric: str
    text: str
    line: int
    why: str = "which is not a number"


def find_values(
    output: str, metrics: Sequence[MetricPattern], at_most: int = MAX_VALUES
) -> tuple[list[PatternMatch], list[UnreadableMatch]]:
    """All values of all patterns, in the order of the output, and the first matches that are no numbers."""
    found: list[PatternMatch] = []
    unreadable: list[UnreadableMatch] = []
    for metric in metrics:
        for item in _of_one(output, metric):
            if isinstance(item, PatternMatch):
                found.append(item)
            else:
                unreadable.append(item)
            if len(found) > at_most:
                break
    return sorted(found, key=lambda item: item.offset), unreadable


def number(text: str) -> float | None:
    """A number as programs print it: sign, exponent, thousands, `nan`, `inf`; None if it is none."""
    clean = text.strip().replace("_", "")
    if re.fullmatch(r"[-+]?\d{1,3}(,\d{3})+(\.\d+)?", clean):
        clean = clean.replace(",", "")
    try:
        return float(clean)
    except ValueError:
        return None


def with_context(name: str, labels: dict[str, str]) -> str:
    """A metric's name with the context that tells it from its siblings."""
    if not labels:
        return name
    return name + "{" + ",".join(f"{label}={value}" for label, value in sorted(labels.items())) + "}"


def _of_one(output: str, metric: MetricPattern) -> Iterator[PatternMatch | UnreadableMatch]:
    if metric.pattern is None:
        return
    context = {label: _Context(output, pattern) for label, pattern in metric.context.items()}
    bad = 0
    for match in re.finditer(metric.pattern, output, re.MULTILINE):
        text = _group(match)
        if text is None:
            continue
        value, rest = number(text), _exponent_after(output, match)
        if value is None or rest:
            bad += 1
            if bad > _MAX_UNREADABLE:
                continue  # to name its line is to count all lines above it
            why = {"why": "of which its group takes only the beginning"} if rest else {}
            yield UnreadableMatch(metric.name, text + rest, output.count("\n", 0, match.start()) + 1, **why)
            continue
        labels = {label: seen for label, where in context.items() if (seen := where.above(match.end())) is not None}
        yield PatternMatch(with_context(metric.name, labels), value, match.start())


def _group(match: re.Match[str]) -> str | None:
    return match.group(_which(match))


def _which(match: re.Match[str]) -> str | int:
    return "value" if "value" in match.groupdict() else 1


def _exponent_after(output: str, match: re.Match[str]) -> str:
    """The exponent that a group leaves behind: a pattern without it would read 1e-05 as 1."""
    end = match.end(_which(match))
    found = _EXPONENT.match(output, end) if output[end - 1 : end].isdigit() else None
    return found[0] if found else ""


class _Context:
    """The last match of a pattern above a place."""

    def __init__(self, output: str, pattern: str) -> None:
        matches = [(match.start(), _group(match)) for match in re.finditer(pattern, output, re.MULTILINE)]
        self._starts = [start for start, _ in matches]
        self._texts = [text for _, text in matches]

    def above(self, offset: int) -> str | None:
        """What the pattern last matched before an offset."""
        position = bisect.bisect_left(self._starts, offset)
        return self._texts[position - 1] if position else None


@dataclass(slots=True)
class ServiceMetrics:
    """What the logs of services said."""

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
        found = ServiceMetrics()
        if not self._logs:
            return found
        self._await_rest()
        self._over.set()
        self._thread.join()
        for (name, _), log in self._logs.items():
            wanted = [metric for metric in self._metrics if metric.service == name]
            text = log.text()
            values, unreadable = find_values(text, wanted)
            found.unreadable += unreadable
            characters = octets = 0
            for item in values:
                octets += len(text[characters : item.offset].encode())
                characters = item.offset
                found.values.append((item.metric, item.value, log.time_ns(octets)))
        found.absent = self._silent()
        return found

    def _await_rest(self) -> None:
        """Wait until the logs stand still: a server writes of its last answers after it has sent them."""
        until_ns = perf_counter_ns() + _REST_AT_MOST_NS
        sizes = None
        while sizes != (now := [log.size() for log in self._logs.values()]) and perf_counter_ns() < until_ns:
            sizes = now
            time.sleep(_STILL_S)

    def _silent(self) -> dict[str, str]:
        """Metrics of services whose logs are not here."""
        reasons = {}
        for metric in self._metrics:
            logs = [self._logs[str(metric.service), stream] for stream in STREAMS]
            if not any(log.is_here for log in logs):
                reasons[metric.name] = f"what the service {metric.service} writes cannot be read where the command runs"
        return reasons

    def _watch(self) -> None:
        while True:
            over = self._over.is_set()  # asked first, so that the last look comes after the end
            for log in self._logs.values():
                log.look()
            if over:
                return
            self._over.wait(EVERY_S)


class _Log:
    """One log: how long it was when, from the moment that somebody watches it."""

    def __init__(self, path: Path, *, whole: bool, how: How = "process") -> None:
        self._path = path
        # What a service in a pod of its own writes stays there, and the file here is empty.
        self.is_here = path.is_file() and how != "kubernetes"
        self._begin = 0 if whole else self.size()
        self._times: list[tuple[int, int]] = []  # bytes since the beginning, time

    def look(self) -> None:
        """Note how long it is now."""
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
        if not self._times:
            return perf_counter_ns()
        position = bisect.bisect_right(self._times, offset, key=lambda piece: piece[0])
        return self._times[min(position, len(self._times) - 1)][1]

    def size(self) -> int:
        try:
            return self._path.stat().st_size
        except OSError:
            return 0
