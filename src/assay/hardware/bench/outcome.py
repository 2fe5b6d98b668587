"""Which sizes are worth measuring, and from a curve over them to the result of a test."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns

from pydantic import JsonValue

from assay.hardware.bench.records import BenchOutcome, By, SizePoint
from assay.hardware.bench.sweep import Curve
from assay.hardware.source import FactSource, text_of
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
        cache: bytes of the last-level cache; None where unknown.
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
    best = max(value for _, value in points)
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
    now = perf_counter_ns()
    return BenchOutcome(name, metric_of(name), by_of(name), now if begin_ns is None else begin_ns, now, absent=reason)


def memory_result(
    name: str, curve: Curve, cache: int | None, begin_ns: int, how: Mapping[str, JsonValue]
) -> BenchOutcome:
    """The result of a bandwidth test: the plateau of its curve, beyond the last-level cache where it is known."""
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


SHAPES = (512, 1024, 2048, 4096, 8192, 16384)
# Sizes in units of the cache: two that show it, and three beyond it for the plateau.
TIMES = (1 / 16, 1 / 2, TIMES_CACHE, 8, 16)
_UNKNOWN_CACHE = (2**20, 2**23, 2**26, 2**27, 2**28, 2**29, 2**30)
_ALIGN = 2**16
# A sweep takes at most this share of what is free: others live here too.
SHARE = 0.5


def memory_sizes(
    cache: int | None, free: int | None, arrays: int, share: float = SHARE, times: Sequence[float] = TIMES
) -> tuple[int, ...]:
    """Bytes of one array, smallest first: below the last-level cache, around it, and several times beyond.

    Args:
        cache: bytes of the last-level cache, all its parts together; None where unknown.
    """
    wanted = _UNKNOWN_CACHE if cache is None else [int(cache * factor) for factor in times]
    most = None if free is None else int(free * share / arrays)
    sizes = sorted({max(_ALIGN, size // _ALIGN * _ALIGN) for size in wanted})
    fitting = [size for size in sizes if most is None or size <= most]
    if most is not None and len(fitting) < len(sizes) and most >= _ALIGN:
        fitting.append(most // _ALIGN * _ALIGN)  # as far out as memory goes
    return tuple(dict.fromkeys(fitting))


def fitting_shapes(
    shapes: Iterable[int], free: int | None, bytes_per_entry: float, share: float = 0.8
) -> tuple[tuple[int, ...], dict[str, str]]:
    """Shapes that memory holds, and why the others are left out."""
    fitting = tuple(shapes)
    if free is None:
        return fitting, {}
    needed = {n: int(n * n * bytes_per_entry) for n in fitting}
    fits = tuple(n for n in fitting if needed[n] <= share * free)
    reason = "{:,} bytes are needed, and of the {:,} that are free {:.0%} may be used"
    return fits, {str(n): reason.format(needed[n], free, share) for n in fitting if n not in fits}


def cpu_caches(root: str | Path = "/") -> tuple[int | None, int | None]:
    """Bytes of all last-level caches together, and of the second-level cache of one core; None where unknown."""
    from assay.hardware.cpu import cpu

    caches = cpu(FactSource(Path(root))).get("caches")
    entries = [cache for cache in caches if isinstance(cache, dict)] if isinstance(caches, list) else []
    parts = [
        (int(str(cache["level"])), int(str(cache["size_bytes"])), int(str(cache.get("instances") or 1)))
        for cache in entries
        if cache.get("type") != "instruction"
    ]
    last = max((level for level, _, _ in parts), default=0)
    whole = sum(size * instances for level, size, instances in parts if level == last)
    second = min((size for level, size, _ in parts if level == 2), default=None)
    return whole or None, second


def free_memory(root: str | Path = "/") -> int | None:
    """Bytes of memory that a new program can have, within the limits of its container; None where unknown."""
    from assay.hardware.fitness.sensors import memory
    from assay.hardware.limits import limits

    facts, _ = memory(Path(root))
    bound = limits(FactSource(Path(root))).memory
    amounts = [
        amount
        for amount in (facts.get("available_bytes"), int(bound.value) if bound else None)
        if isinstance(amount, int)
    ]
    return min(amounts, default=None)


def usable_cpus(root: str | Path = "/") -> tuple[int, ...]:
    """Processors to measure with: those that this process may run on, no more than its container's quota."""
    from assay.hardware.limits import limits

    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    most = limits(FactSource(Path(root))).usable_cores
    return cores_in_order(tuple(allowed), root)[:most]


def cores_in_order(cpus: Sequence[int], root: str | Path = "/") -> tuple[int, ...]:
    """Processors with one of each physical core first: two threads of one core share its arithmetic."""
    folder = Path(root) / "sys/devices/system/cpu"
    threads: dict[str, int] = {}
    order: list[tuple[int, int]] = []
    for cpu in cpus:
        core = text_of(folder / f"cpu{cpu}/topology/thread_siblings_list") or str(cpu)
        order.append((threads.get(core, 0), cpu))
        threads[core] = threads.get(core, 0) + 1
    return tuple(cpu for _, cpu in sorted(order))
