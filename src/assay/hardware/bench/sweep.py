"""Work is timed in blocks long enough for the clock, beside a bare loop, and over sizes; one that fails is left out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter_ns
from typing import Any

from pydantic import JsonValue

from assay.errors import first_line
from assay.hardware.bench.records import Accuracy, SizePoint

# Seconds that this many back-to-back calls took.
Timed = Callable[[int], float]
Clock = Callable[[], int]

# Long enough that starting and ending a block, some tens of microseconds, is a thousandth of it.
BLOCK_S = 0.02
# A dozen blocks tell how well their median is known, also where one remembers the one before; fewer than three have
# no spread worth the name.
ENOUGH_BLOCKS = 12
FEWEST_BLOCKS = 3
# A size whose blocks are long may take this many times its time to reach enough of them.
OVERTIME = 4.0
_MOST_CALLS = 1_000_000
_GROWTH = 10  # a first call is often slow and seldom a tenth of the next ones


def by_wall(
    call: Callable[[], object], wait: Callable[[], object] = lambda: None, clock: Clock = perf_counter_ns
) -> Timed:
    """Times by the clock of the machine, from the first call until the device has done all its work."""

    def run(calls: int) -> float:
        wait()
        begin = clock()
        for _ in range(calls):
            call()
        wait()
        return (clock() - begin) / 1e9

    return run


def by_events(call: Callable[[], object], torch: Any) -> Timed:  # noqa: ANN401  (a module)
    """Times by events that the GPU itself stamps, so that launching from Python is not counted but hidden."""
    event = torch.cuda.Event

    def run(calls: int) -> float:
        begin, end = event(enable_timing=True), event(enable_timing=True)
        begin.record()
        for _ in range(calls):
            call()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1e3

    return run


@dataclass(frozen=True, slots=True)
class Blocks:
    """The blocks of one size."""

    calls: int
    """Of each block."""
    seconds: tuple[float, ...]
    at_ns: tuple[int, ...]


def calibrate(timed: Timed) -> int:
    """How many calls make a block; what it takes to find out warms the device up."""
    calls, least_s = 1, BLOCK_S
    timed(1)  # libraries choose their kernels, and pages are touched
    while True:
        took_s = timed(calls)
        if took_s >= least_s or calls >= _MOST_CALLS:
            return calls
        needed = math.ceil(1.1 * calls * least_s / took_s) if took_s > 0 else calls * _GROWTH
        calls = min(max(needed, calls + 1), calls * _GROWTH, _MOST_CALLS)


def blocks(timed: Timed, each_s: float, clock: Clock = perf_counter_ns) -> Blocks:
    """Repeat a block until `each_s` is over and there are enough blocks; slow ones stop at a few."""
    calls = calibrate(timed)
    seconds: list[float] = []
    at_ns: list[int] = []
    while not enough(seconds, each_s):
        at_ns.append(clock())
        seconds.append(timed(calls))
    return Blocks(calls, tuple(seconds), tuple(at_ns))


def enough(seconds: Sequence[float], each_s: float) -> bool:
    """Whether blocks are many and long enough, or slow ones a few."""
    total, count = sum(seconds), len(seconds)
    return (total >= each_s and count >= ENOUGH_BLOCKS) or (total >= OVERTIME * each_s and count >= FEWEST_BLOCKS)


FEWEST_PAIRS = 9
MOST_PAIRS = 101
_TAIL = 0.025  # of each side: the interval promises 95 %


@dataclass(frozen=True, slots=True)
class Versus:
    """How fast ours is, as a share of the bare loop."""

    ratio: float
    """Median of the pairs; 1 is as fast, below 1 is slower."""
    low: float
    high: float
    pairs: int
    ours_s: float
    """One call, the median of the blocks."""
    bare_s: float

    def facts(self, work: float, unit: float) -> dict[str, JsonValue]:
        """As it is kept in a result, with both speeds in the unit of the test."""
        return {
            "ratio": self.ratio,
            "low": self.low,
            "high": self.high,
            "level": 1 - 2 * _TAIL,
            "pairs": self.pairs,
            "ours": work / self.ours_s / unit,
            "bare": work / self.bare_s / unit,
        }


def versus(ours: Timed, bare: Timed, each_s: float) -> Versus:
    """Time both in turn, each first every other time, so that a drift of the machine hits both alike."""
    calls = calibrate(bare)
    ours(calls)
    ours_s: list[float] = []
    bare_s: list[float] = []
    while len(ours_s) < FEWEST_PAIRS or (sum(ours_s) < 2 * each_s and len(ours_s) < MOST_PAIRS):
        if len(ours_s) % 2:
            ours_s.append(ours(calls))
            bare_s.append(bare(calls))
        else:
            bare_s.append(bare(calls))
            ours_s.append(ours(calls))
    ratios = sorted(b / o for o, b in zip(ours_s, bare_s, strict=True))
    rank = median_rank(len(ratios))
    return Versus(
        ratio=median(ratios),
        low=ratios[rank],
        high=ratios[-1 - rank],
        pairs=len(ratios),
        ours_s=median(ours_s) / calls,
        bare_s=median(bare_s) / calls,
    )


def median_rank(n: int) -> int:
    """How many values may be left out at each end so that the rest holds the median with the promised chance."""
    chance, rank = 0.0, 0
    while rank < n // 2:
        chance += math.comb(n, rank) / 2**n
        if chance > _TAIL:
            break
        rank += 1
    return max(rank - 1, 0)


_LONGEST_REASON = 300


@dataclass(frozen=True, slots=True)
class PreparedTest:
    """One size, prepared: arrays are there and hold numbers."""

    timed: Timed
    work: float
    """Bytes or operations of one call."""
    check: Callable[[], Accuracy] | None = None
    """Compares what the last call left with a reference; after the clock has stopped."""


Prepare = Callable[[int], AbstractContextManager[PreparedTest]]


@dataclass(frozen=True, slots=True)
class Curve:
    """What a sweep gave."""

    points: tuple[SizePoint, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    lost: str = ""
    """Why the device no longer answers; empty while it does."""

    @property
    def wrong(self) -> str:
        """The first result that cannot stand, in words."""
        checks = ((point.size, point.check) for point in self.points)
        return next((f"at {size}: {check.wrong}" for size, check in checks if check and check.wrong), "")

    @property
    def nothing(self) -> str:
        """Why there is no point at all."""
        return self.lost or next(iter(dict.fromkeys(self.left_out.values())), "no size was asked for")

    def pairs(self) -> list[tuple[int, float]]:
        return [(point.size, point.value) for point in self.points]

    def at(self, size: int | None) -> SizePoint | None:
        return next((point for point in self.points if point.size == size), None)


def sweep(
    sizes: Sequence[int],
    prepare: Prepare,
    *,
    each_s: float,
    unit: float,
    skip: Callable[[int, Sequence[SizePoint]], str] = lambda _size, _points: "",
    after_trouble: Callable[[], str] = lambda: "",
) -> Curve:
    """Measure a test at each size.

    Args:
        unit: bytes or operations per second that count as 1.
        skip: says why a size is not worth trying after those before it; empty to try it.
        after_trouble: frees what a failed size still holds and says why the device is lost; empty while it answers.
    """
    points: list[SizePoint] = []
    left_out: dict[str, str] = {}
    for size in sizes:
        reason = skip(size, points)
        if not reason:
            try:
                points.append(_point(size, prepare, each_s, unit))
                continue
            except Exception as problem:  # a library may raise anything; one size must not end the others
                reason = reason_of(problem)
            # Only here are the frames of the failed call gone, and with them the arrays that they held.
            if lost := after_trouble():
                left_out[str(size)] = reason
                return Curve(tuple(points), left_out, lost)
        left_out[str(size)] = reason
    return Curve(tuple(points), left_out)


def reason_of(problem: BaseException) -> str:
    """The first line of what a library said; memory that ran out in the same words everywhere."""
    return f"{'out of memory: ' if is_memory(problem) else ''}{first_line(problem)[:_LONGEST_REASON]}"


def is_memory(problem: BaseException) -> bool:
    """Whether memory ran out, as numpy, PyTorch and cuBLAS say it."""
    text = str(problem).lower()
    words = ("out of memory", "can't allocate memory", "not enough memory", "cublas_status_alloc_failed")
    return isinstance(problem, MemoryError) or any(word in text for word in words)


def _point(size: int, prepare: Prepare, each_s: float, unit: float) -> SizePoint:
    with prepare(size) as ready:
        taken = blocks(ready.timed, each_s)
        check = ready.check() if ready.check else None
    values = tuple(ready.work * taken.calls / seconds / unit for seconds in taken.seconds)
    call_s = sorted(taken.seconds)[len(taken.seconds) // 2] / taken.calls
    return SizePoint(size, values, taken.at_ns, call_s, check)
