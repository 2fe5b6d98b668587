"""From a curve to the result of a test: which size speaks for it, or why none does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter_ns

from pydantic import JsonValue

from assay.hardware.bench.plateau import level_of
from assay.hardware.bench.records import By, Outcome, Point
from assay.hardware.bench.sweep import Curve
from assay.units import show_seconds

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


def absent_result(name: str, reason: str, begin_ns: int | None = None) -> Outcome:
    """A test that gave nothing."""
    now = perf_counter_ns()
    return Outcome(name, metric_of(name), by_of(name), now if begin_ns is None else begin_ns, now, absent=reason)


def memory_result(name: str, curve: Curve, cache: int | None, begin_ns: int, how: Mapping[str, JsonValue]) -> Outcome:
    """The result of a bandwidth test: the plateau of its curve.

    Args:
        cache: bytes of the last-level cache; None where nobody knows.
    """
    level = level_of(curve.pairs(), cache)
    reported = None if curve.wrong else curve.at(level.size)
    absent = curve.wrong or (curve.nothing if not curve.points else "" if reported else level.because)
    return Outcome(
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
) -> Outcome:
    """The result of a matrix product: its best shape, by the median of the blocks."""
    skipped = {**(left_out or {}), **curve.left_out}
    reported = None if curve.wrong or not curve.points else max(curve.points, key=lambda point: point.value)
    nothing = curve.lost or next(iter(skipped.values()), "no shape was asked for")
    return Outcome(
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


def too_long(each_s: float) -> Callable[[int, Sequence[Point]], str]:
    """A rule that leaves out shapes of which one product would take longer than the time of a shape."""

    def skip(n: int, points: Sequence[Point]) -> str:
        if not points:
            return ""
        last = points[-1]
        expected_s = last.call_s * (n / last.size) ** 3
        if expected_s <= _LONGEST_CALL * each_s:
            return ""
        return f"one product would take about {show_seconds(expected_s)}, and a shape is given {show_seconds(each_s)}"

    return skip
