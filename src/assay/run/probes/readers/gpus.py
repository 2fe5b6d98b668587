"""GPUs, read by a thread of their own: a driver that hangs must not hold up the rest."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.run.probes.columns import ReadingColumns, Window

if TYPE_CHECKING:
    from assay.hardware.gpu.nvml import GpuReader

# Files without which no driver of NVIDIA answers; the last is that of Windows' Linux.
_DEVICES = ("nvidia[0-9]*", "nvidiactl", "dxg")
_PROCESSES_EVERY_S = 0.5
_PATIENCE_S = 1.0
# The driver numbers processes as the machine itself does; only there is the second one a thread of the kernel.
_KTHREADD = 2


@dataclass(slots=True)
class GpuProcess:
    """A process on a board."""

    first_ns: int
    last_ns: int
    name: str
    """Empty where this process cannot see it: it lives in another container."""


def has_driver(root: Path = Path("/")) -> bool:
    """Whether it is worth loading NVML: a machine without a driver pays nothing."""
    return any(any((root / "dev").glob(pattern)) for pattern in _DEVICES)


def nvml_reader() -> GpuReader:
    """NVML is loaded only where there is a driver."""
    from assay.hardware.gpu.nvml import GpuReader

    return GpuReader()


class GpuSampler:
    """All boards, read repeatedly until stopped."""

    def __init__(self, every_s: float, make: Callable[[], GpuReader] = nvml_reader, root: Path = Path("/")) -> None:
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self.absent: dict[str, str] = {}
        self.sightings: dict[tuple[int, int], GpuProcess] = {}
        self.read_s: list[float] = []
        self._every_s, self._proc = every_s, root / "proc"
        self._columns = ReadingColumns()
        self._lock, self._wanted, self._done = threading.Lock(), threading.Event(), threading.Event()
        self._stopped = False
        self._lost: set[int] = set()
        self._processes_ns = 0
        self._unknown: set[int] = set()
        try:
            self._reader: GpuReader | None = make()
        except Exception as failure:  # a library of the driver may fail in any way
            self._reader, self.absent["gpu"] = None, f"NVML cannot be loaded: {failure}"
            return
        if self._reader.absent:
            self.absent["gpu"] = self._reader.absent
        self._lost |= self._reader.lost.keys()
        self.absent |= {f"gpu:{index}": reason for index, reason in self._reader.lost.items()}

    @property
    def count(self) -> int:
        return self._reader.count if self._reader is not None and not self._reader.absent else 0

    def start(self) -> None:
        """Look from now on."""
        self._thread.start()

    def _follow(self) -> None:
        while not self._stopped:
            asked = self._wanted.wait(self._every_s)
            self._wanted.clear()
            self.read()
            if asked:
                self._done.set()

    def soon(self) -> None:
        """Have a look taken now, and do not wait for it."""
        self._wanted.set()

    def now(self) -> bool:
        """Have a look taken now; False if the driver does not answer in good time."""
        self._done.clear()
        self._wanted.set()
        answered = self._done.wait(_PATIENCE_S)
        if not answered:
            self.absent["gpu"] = f"NVML did not answer within {_PATIENCE_S:g} s"
        return answered

    def stop(self) -> None:
        """Look no more."""
        self._stopped = True
        self._wanted.set()

    def read(self) -> None:
        """Take one reading of each board that is not lost."""
        begin = time.perf_counter()
        for index in range(self.count):
            if index not in self._lost:
                self._read(index)
        if time.perf_counter_ns() - self._processes_ns >= _PROCESSES_EVERY_S * 1e9:
            self._see_processes()
        self.read_s.append(time.perf_counter() - begin)

    def columns(self) -> ReadingColumns:
        """What was read so far."""
        with self._lock:
            return self._columns

    def taken(self) -> ReadingColumns:
        """What was read since the last time."""
        with self._lock:
            taken, self._columns = self._columns, ReadingColumns()
            self.read_s = []
        return taken

    def throttled(self, columns: ReadingColumns, window: Window) -> dict[str, tuple[str, ...]]:
        """Board → reasons seen in a window for which it held its clocks down; boards that do not say are left out."""
        throttling: dict[str, tuple[str, ...]] = {}
        for source, column in columns.named("throttle_bits"):
            seen = {
                int(bits) for at, bits in zip(column.at_ns, column.value, strict=True) if window[0] <= at <= window[1]
            }
            if seen and self._reader is not None:
                reasons = (reason for bits in sorted(seen) for reason in self._reader.throttle_reasons(bits))
                throttling[source] = tuple(dict.fromkeys(reasons))
        return throttling

    def processes(self, window: Window, ours: Collection[int], begin_ns: int) -> dict[str, Any]:
        """Who computed on the boards in a window.

        Args:
            begin_ns: when the run began: processes that were there before are not its own.

        Returns:
            `job`: board → how many processes of the job; `foreign`: board → the others, in words; `unknown`: board →
            why.
        """
        boards = [f"gpu:{index}" for index in range(self.count) if index not in self._unknown]
        summary: dict[str, Any] = {
            "job": dict.fromkeys(boards, 0),
            "foreign": {gpu: [] for gpu in boards},
            "unknown": {},
        }
        for (index, pid), seen in sorted(self.sightings.copy().items(), key=lambda pair: pair[0]):
            board = f"gpu:{index}"
            if board not in summary["foreign"] or seen.first_ns > window[1] or seen.last_ns < window[0]:
                continue
            if pid in ours:
                summary["job"][board] += 1
            elif seen.name or seen.first_ns < begin_ns:
                summary["foreign"][board].append(f"{seen.name or 'a process outside this container'} (pid {pid})")
            else:
                summary["unknown"][board] = "the driver names processes by numbers of another container"
        for board in summary["unknown"]:
            del summary["job"][board]
        summary["foreign"] = {board: tuple(names) for board, names in summary["foreign"].items()}
        return summary

    def _read(self, index: int) -> None:
        if self._reader is None:
            return
        begin_ns = time.perf_counter_ns()
        try:
            values = self._reader.read(index)
        except Exception as failure:  # NVML has its own errors, and none may end the rest
            self._lost.add(index)
            self.absent[f"gpu:{index}"] = f"lost in the middle: {failure}"
            return
        at_ns = (begin_ns + time.perf_counter_ns()) // 2
        with self._lock:
            for name, value in values.items():
                add = self._columns.counter if name == "energy_j" else self._columns.gauge
                add(f"gpu:{index}", name, at_ns, float(value))

    def _see_processes(self) -> None:
        self._processes_ns = now_ns = time.perf_counter_ns()
        for index in range(self.count):
            if index in self._lost or index in self._unknown or self._reader is None:
                continue
            try:
                pids = [pid for pid, _ in self._reader.processes(index)]
            except Exception as failure:  # not every driver tells
                self._unknown.add(index)
                self.absent[f"gpu:{index}.processes"] = f"the driver does not report them: {failure}"
                continue
            for pid in pids:
                seen = self.sightings.get((index, pid))
                if seen is None:
                    self.sightings[index, pid] = GpuProcess(now_ns, now_ns, self._name(pid))
                else:
                    seen.last_ns = now_ns

    def _name(self, pid: int) -> str:
        """The name of a process; empty where the driver's numbers are not those that we see."""
        return self._comm(pid) if self._comm(_KTHREADD) == "kthreadd" else ""

    def _comm(self, pid: int) -> str:
        try:
            return (self._proc / str(pid) / "comm").read_text().strip()
        except OSError:
            return ""
