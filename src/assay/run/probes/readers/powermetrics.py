"""Power of an Apple machine through `powermetrics`, which only root may start. Apple calls its figures estimates."""

from __future__ import annotations

import os
import plistlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any
from xml.parsers.expat import ExpatError

_EVERY_MS = 500  # each report costs some milliseconds to make and to read
_BLOCK = 65536


@dataclass(frozen=True, slots=True)
class Report:
    """Mean power over one stretch of time."""

    seconds: float
    watts: float
    """Processor, graphics and neural engine together."""


class Powermetrics:
    """A running `powermetrics`, read by a thread of its own; or the reason why there is none."""

    def __init__(
        self,
        start: Callable[[], IO[bytes]] | None = None,
        *,
        system: str = sys.platform,
        root: bool | None = None,
        now_ns: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self.absent = ""
        self._found: list[tuple[int, int, float]] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._now_ns = now_ns
        if system != "darwin":
            self.absent = "powermetrics is part of macOS alone"
            return
        if not (os.geteuid() == 0 if root is None else root):
            self.absent = "powermetrics needs root; try: sudo assay run …"
            return
        try:
            stream = (start or self._start)()
        except OSError as problem:
            self.absent = f"powermetrics cannot be started: {problem.strerror or problem}"
            return
        self._thread = threading.Thread(target=self._follow, args=(stream,), daemon=True)
        self._thread.start()

    def take(self) -> list[tuple[int, int, float]]:
        """Begin, end and mean watts of the stretches that were reported since the last time."""
        return [self._found.pop(0) for _ in range(len(self._found))]

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _start(self) -> IO[bytes]:
        words = ["powermetrics", "--samplers", "cpu_power,gpu_power", "--format", "plist", "-i", str(_EVERY_MS)]
        self._process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        if self._process.stdout is None:
            raise OSError("it has no output")
        return self._process.stdout

    def _follow(self, stream: IO[bytes]) -> None:
        try:
            for report in reports(stream):
                end_ns = self._now_ns()
                self._found.append((end_ns - round(report.seconds * 1e9), end_ns, report.watts))
        except (OSError, ValueError) as problem:
            self.absent = f"lost in the middle: {problem}"
        else:
            self.absent = "powermetrics has ended"


def reports(stream: IO[bytes]) -> Iterator[Report]:
    """Every report of a stream of property lists with a zero byte between them; one that tells no power is left out."""
    rest = b""
    while block := stream.read1(_BLOCK) if hasattr(stream, "read1") else stream.read(_BLOCK):
        *whole, rest = (rest + block).split(b"\0")
        yield from (found for one in whole if (found := parse(one)) is not None)
    if rest.strip() and (found := parse(rest)) is not None:
        yield found


def parse(text: bytes) -> Report | None:
    try:
        told: dict[str, Any] = plistlib.loads(text.strip())
        seconds = float(told["elapsed_ns"]) / 1e9
        processor: dict[str, Any] = told["processor"]
    except (ValueError, KeyError, TypeError, ExpatError, plistlib.InvalidFileException):
        return None
    if seconds <= 0:
        return None
    # Apple's own chips tell milliwatts of all three parts together; those with an Intel processor, watts of it.
    for key, scale in (("combined_power", 1e-3), ("package_watts", 1.0)):
        if isinstance(watts := processor.get(key), int | float):
            return Report(seconds, float(watts) * scale)
    return None
