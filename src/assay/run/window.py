"""The measured window: what this process, everything else and the hypervisor used while the clock ran."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from assay.run.records import Window

_THROTTLE = "/sys/devices/system/cpu"


@dataclass(frozen=True, slots=True)
class CounterReading:
    """Counters at one moment."""

    wall_ns: int
    own_cpu_s: float
    busy_s: float | None
    steal_s: float | None
    throttles: int | None
    load_average: float | None


def read(own_cpu_s: float | None = None) -> CounterReading:
    """Read all counters once; costs well under a millisecond."""
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    total = sum(value for name, value in times._asdict().items() if name not in ("guest", "guest_nice"))
    steal = getattr(times, "steal", None)
    return CounterReading(
        wall_ns=time.perf_counter_ns(),
        own_cpu_s=time.process_time() if own_cpu_s is None else own_cpu_s,
        busy_s=total - idle - (steal or 0.0),
        steal_s=steal,
        throttles=throttle_count(),
        load_average=os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    )


class Pause:
    """Time that we ourselves take inside a window, to be left out of it."""

    def __init__(self) -> None:
        self.wall_s = 0.0
        self.cpu_s = 0.0

    def __enter__(self) -> None:
        self._since = (time.perf_counter(), time.process_time())

    def __exit__(self, *_: object) -> None:
        self.wall_s += time.perf_counter() - self._since[0]
        self.cpu_s += time.process_time() - self._since[1]


def between(
    start: CounterReading, end: CounterReading, *, harness_ns: float | None = None, pause: Pause | None = None
) -> Window:
    """What happened between two readings, less our own pauses."""
    own = end.own_cpu_s - start.own_cpu_s
    left_out = pause or Pause()
    return Window(
        wall_s=(end.wall_ns - start.wall_ns) / 1e9 - left_out.wall_s,
        cpu_s=own - left_out.cpu_s,
        others_cpu_s=_difference(end.busy_s, start.busy_s, less=own),
        steal_s=_difference(end.steal_s, start.steal_s),
        cores=available_cores(),
        throttle_events=_throttled(start.throttles, end.throttles),
        harness_ns=harness_ns,
        load_average_before=start.load_average,
        load_average_after=end.load_average,
    )


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def throttle_count() -> int | None:
    """How often the kernel saw a core throttle for heat; None where it does not say (virtual machines, macOS)."""
    counts = []
    for path in Path(_THROTTLE).glob("cpu[0-9]*/thermal_throttle/core_throttle_count"):
        with suppress(OSError, ValueError):
            counts.append(int(path.read_text()))
    return sum(counts) if counts else None


def _difference(end: float | None, start: float | None, *, less: float = 0.0) -> float | None:
    # Kernel ticks are coarser than our own clock, so a quiet machine can come out a little below zero.
    return None if end is None or start is None else max(0.0, end - start - less)


def _throttled(start: int | None, end: int | None) -> int | None:
    return None if start is None or end is None else end - start
