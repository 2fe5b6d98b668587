"""The hot path: two clock readings around a call, kept in memory that was set aside before."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter_ns

import numpy as np
from numpy.typing import NDArray

Call = Callable[[], object]
_CLOCK_TRIES = 5


class Stopwatch:
    """Start and end of every call, in columns that grow only between blocks."""

    def __init__(self, capacity: int = 4096) -> None:
        self.count = 0
        self._starts: NDArray[np.int64] = np.zeros(capacity, dtype=np.int64)
        self._ends: NDArray[np.int64] = np.zeros(capacity, dtype=np.int64)

    def reserve(self, more: int) -> tuple[memoryview, memoryview]:
        """Make room for more calls and hand out the columns."""
        needed = self.count + more
        if needed > len(self._starts):
            size = max(needed, 2 * len(self._starts))
            self._starts = _grown(self._starts, self.count, size)
            self._ends = _grown(self._ends, self.count, size)
        return memoryview(self._starts), memoryview(self._ends)  # type: ignore[arg-type]

    def advance(self, calls: int) -> None:
        self.count += calls

    @property
    def starts_ns(self) -> NDArray[np.int64]:
        return self._starts[: self.count]

    @property
    def durations_ns(self) -> NDArray[np.int64]:
        return self._ends[: self.count] - self._starts[: self.count]

    def span_ns(self, begin: int) -> int:
        """From the first start to the last end of the calls from `begin` on."""
        return int(self._ends[begin : self.count].max() - self._starts[begin : self.count].min())


def time_calls(call: Call, starts: memoryview, ends: memoryview, begin: int, end: int) -> None:
    """Call again and again; the clock runs only around the call itself."""
    clock = perf_counter_ns
    for index in range(begin, end):
        start = clock()
        call()
        stop = clock()
        starts[index] = start
        ends[index] = stop


@contextmanager
def quiet_collector() -> Iterator[None]:
    """Keep the garbage collector from running, and from looking at what is already there."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()


def harness_cost_ns(call: Call, calls: int = 2000) -> float:
    """What the loop itself adds to a reported duration: the median of a call that does nothing."""
    watch = Stopwatch(calls)
    starts, ends = watch.reserve(calls)
    time_calls(call, starts, ends, 0, calls)
    watch.advance(calls)
    return float(np.median(watch.durations_ns))


def _grown(column: NDArray[np.int64], used: int, size: int) -> NDArray[np.int64]:
    larger: NDArray[np.int64] = np.zeros(size, dtype=np.int64)
    larger[:used] = column[:used]
    return larger


@dataclass(frozen=True, slots=True)
class ClockPair:
    """The same moment on two clocks: that of the load loop, and that of the day, which machines share."""

    epoch_ns: int
    loop_ns: int


def read_clocks() -> ClockPair:
    """Read both clocks at the same moment, as closely as a few tries allow."""
    readings = []
    for _ in range(_CLOCK_TRIES):
        before = time.perf_counter_ns()
        epoch_ns = time.time_ns()
        after = time.perf_counter_ns()
        readings.append((after - before, ClockPair(epoch_ns, (before + after) // 2)))
    return min(readings, key=lambda reading: reading[0])[1]
