"""From a curve to the result of a test: the plateau of its sizes, or why there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter_ns

from pydantic import JsonValue

from assay.hardware.bench.records import BenchOutcome, By, SizePoint
from assay.hardware.bench.sweep import Curve
from assay.units import show_seconds

# STREAM asks for arrays of four times the last-level cache, so that nothing of one pass is left for the next.
TIMES_CACHE = 4
# Sizes this close to the best belong to the same level; the spread of one size is often half of it.
WITHIN = 0.05


@dataclass(frozen=True, slots=True)
class PlateauLevel:
    """The size that speaks for a curve, and whether the curve is level there."""

    size: int | None
    """None where no size is large enough to say anything about memory."""
    sizes: tuple[int, ...] = ()
    """Those of the plateau; empty where there is none."""
    because: str = ""
    """Why there is no plateau."""

    def facts(self, value: float | None) -> dict[str, JsonValue]:
        """The plateau as it is kept in a result."""
        if self.because:
            return {"absent": self.because}
        return {"bytes": list(self.sizes), "value": value, "within": WITHIN}


def level_of(curve: Sequence[tuple[int, float]], cache: int | None) -> PlateauLevel:
    """Find the plateau of a curve of (size, value), and the size that is reported.

    Only sizes of four times the last-level cache count. Those within 5 % of the best of them are the plateau, if
    there are two or more and the largest size is one of them. The size in the middle of the plateau, by value, is
    reported: a measured value, not a mean of several, and neither the luckiest nor the unluckiest.

    Where the cache is not known, the plateau begins at the largest size and reaches down as long as the values stay
    within 5 % of that one's.

    A curve without a plateau is reported at its largest size, which is the furthest from any cache, and says so.

    Args:
        cache: bytes of the last-level cache; None where nobody knows.
    """
    points = sorted(curve)
    least = 0 if cache is None else TIMES_CACHE * cache
    large = [point for point in points if point[0] >= least]
    if not large:
        most = f"the largest size measured is {points[-1][0]:,}" if points else "no size was measured"
        return PlateauLevel(None, (), f"memory shows only beyond the caches, from {least:,} bytes on; {most}")
    last = large[-1]
    if len(large) == 1:
        return PlateauLevel(last[0], (), "only one size was large enough, so nothing shows whether the curve is level")
    flat = _near_the_best(large) if cache is not None else _from_the_end(large)
    if last not in flat:
        best = max(large, key=_value)
        return PlateauLevel(last[0], (), f"still falling at the largest size: {last[1]:.4g}, after {best[1]:.4g}")
    if len(flat) == 1:
        before = large[-2]
        way = "rising" if last[1] > before[1] else "falling"
        return PlateauLevel(last[0], (), f"still {way} at the largest size: {last[1]:.4g}, after {before[1]:.4g}")
    middle = sorted(flat, key=_value)[(len(flat) - 1) // 2]
    return PlateauLevel(middle[0], tuple(size for size, _ in flat))


def _near_the_best(points: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    best = max(map(_value, points))
    return [point for point in points if point[1] >= (1 - WITHIN) * best]


def _from_the_end(points: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    last = points[-1][1]
    flat: list[tuple[int, float]] = []
    for point in reversed(points):
        if abs(point[1] - last) > WITHIN * last:
            break
        flat.insert(0, point)
    return flat


def _value(point: tuple[int, float]) -> float:
    return point[1]


TRANSFERS = ("to_device", "from_device", "to_device_pinned", "from_device_pinned")
_SPECIAL = {"scaling": "core_scaling", "storage": "storage_read_gb_per_s", "int8": "int8_tops"}
_BANDWIDTH = ("copy", "copy_one", "read", "write", "triad", "triad_one", *TRANSFERS)
# A product much longer than the time of a shape gives too few blocks to tell its spread.
_LONGEST_CALL = 1.0


def metric_of(name: str) -> str:
    return _SPECIAL.get(name) or f"{name}_{'gb_per_s' if name in _BANDWIDTH else 'tflops'}"


def by_of(name: str) -> By:
    """What a size of a test is."""
    if name == "scaling":
        return "cores"
    return "bytes" if name in _BANDWIDTH or name == "storage" else "n"


def absent_result(name: str, reason: str, begin_ns: int | None = None) -> BenchOutcome:
    """A test that gave nothing."""
    now = perf_counter_ns()
    return BenchOutcome(name, metric_of(name), by_of(name), now if begin_ns is None else begin_ns, now, absent=reason)


def memory_result(
    name: str, curve: Curve, cache: int | None, begin_ns: int, how: Mapping[str, JsonValue]
) -> BenchOutcome:
    """The result of a bandwidth test: the plateau of its curve.

    Args:
        cache: bytes of the last-level cache; None where nobody knows.
    """
    level = level_of(curve.pairs(), cache)
    reported = None if curve.wrong else curve.at(level.size)
    absent = curve.wrong or (curve.nothing if not curve.points else "" if reported else level.because)
    return BenchOutcome(
        name=name,
        metric=metric_of(name),
        by="bytes",
        begin_ns=begin_ns,
        end_ns=perf_counter_ns(),
        points=curve.points,
        reported=reported,
        absent=absent,
        plateau=level.facts(reported.value if reported else None) if curve.points else None,
        left_out=curve.left_out,
        how={"cache_bytes": cache, **how},
    )


def gemm_result(
    name: str, curve: Curve, begin_ns: int, how: Mapping[str, JsonValue], left_out: Mapping[str, str] | None = None
) -> BenchOutcome:
    """The result of a matrix product: its best shape, by the median of the blocks."""
    skipped = {**(left_out or {}), **curve.left_out}
    reported = None if curve.wrong or not curve.points else max(curve.points, key=lambda point: point.value)
    nothing = curve.lost or next(iter(skipped.values()), "no shape was asked for")
    return BenchOutcome(
        name=name,
        metric=metric_of(name),
        by="n",
        begin_ns=begin_ns,
        end_ns=perf_counter_ns(),
        points=curve.points,
        reported=reported,
        absent=curve.wrong or ("" if reported else nothing),
        left_out=skipped,
        how=how,
    )


def too_long(each_s: float) -> Callable[[int, Sequence[SizePoint]], str]:
    """A rule that leaves out shapes of which one product would take longer than the time of a shape."""

    def skip(n: int, points: Sequence[SizePoint]) -> str:
        if not points:
            return ""
        last = points[-1]
        expected_s = last.call_s * (n / last.size) ** 3
        if expected_s <= _LONGEST_CALL * each_s:
            return ""
        return f"one product would take about {show_seconds(expected_s)}, and a shape is given {show_seconds(each_s)}"

    return skip
