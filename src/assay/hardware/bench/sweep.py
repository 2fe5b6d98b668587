"""One test over its sizes: what fails is left out with its reason, and the rest goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from assay.hardware.bench.records import Accuracy, SizePoint
from assay.hardware.bench.timing import Timed, blocks

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
    """Why the device does not answer any more; empty while it does."""

    @property
    def wrong(self) -> str:
        """The first result that cannot stand, in words."""
        return next((f"at {point.size}: {said}" for point in self.points if (said := _wrong(point))), "")

    @property
    def nothing(self) -> str:
        """Why there is no point at all."""
        return self.lost or next(iter(dict.fromkeys(self.left_out.values())), "no size was asked for")

    def pairs(self) -> list[tuple[int, float]]:
        """Sizes and their values."""
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
    text = next(iter(str(problem).strip().splitlines()), "") or type(problem).__name__
    if is_memory(problem):
        return f"out of memory: {text[:_LONGEST_REASON]}"
    return text[:_LONGEST_REASON]


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


def _wrong(point: SizePoint) -> str:
    return point.check.wrong if point.check else ""
