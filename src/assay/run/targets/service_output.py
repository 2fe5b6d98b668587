"""Numbers out of what services write while a command runs: the time of each comes from watching their logs grow."""

from __future__ import annotations

import bisect
import threading
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter_ns

from assay.run.services import RunningService
from assay.run.services.service import How
from assay.run.targets.patterns import Unreadable, find_values
from assay.spec.target import MetricPattern

# How well the time of a line is known; a look at a file's size costs microseconds.
EVERY_S = 0.02
STREAMS = ("stdout", "stderr")


@dataclass(slots=True)
class FromServices:
    """What the logs of services said."""

    values: list[tuple[str, float, int]] = field(default_factory=list)  # metric, value, time
    unreadable: list[Unreadable] = field(default_factory=list)
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

    def finish(self) -> FromServices:
        """Stop watching and search what was written meanwhile."""
        found = FromServices()
        if not self._logs:
            return found
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
        self._begin = 0 if whole else self._size()
        self._times: list[tuple[int, int]] = []  # bytes since the beginning, time

    def look(self) -> None:
        """Note how long it is now."""
        size = self._size() - self._begin
        if size > (self._times[-1][0] if self._times else 0):
            self._times.append((size, perf_counter_ns()))

    def text(self) -> str:
        """What counts of it. A log that was shortened meanwhile is read as far as it is there."""
        try:
            with self._path.open("rb") as file:
                file.seek(min(self._begin, self._size()))
                return file.read().decode("utf-8", "replace")
        except OSError:
            return ""

    def time_ns(self, offset: int) -> int:
        """When what stands at an offset had been written."""
        if not self._times:
            return perf_counter_ns()
        position = bisect.bisect_right(self._times, offset, key=lambda piece: piece[0])
        return self._times[min(position, len(self._times) - 1)][1]

    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except OSError:
            return 0
