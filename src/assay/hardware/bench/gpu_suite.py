"""The tests of a device of PyTorch, one after another; one that is lost in the middle keeps what it gave so far."""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from pydantic import JsonValue

from assay.hardware.bench import outcome
from assay.hardware.bench.accelerator import Accelerator
from assay.hardware.bench.gpu_kernels import (
    PRECISIONS,
    bare_loop,
    bytes_per_entry,
    how_gemm,
    how_memory,
    how_transfer,
    passes,
    products,
    transfers,
)
from assay.hardware.bench.outcome import TRANSFERS, absent_result, gemm_result, memory_result, too_long
from assay.hardware.bench.records import GB, TERA, USED, BenchOptions, BenchOutcome, Measurements, Notify
from assay.hardware.bench.sweep import Curve, Prepare, reason_of, sweep, versus

MEMORY = ("copy", "read", "write", "triad")
ALL = (*MEMORY, "transfer", *PRECISIONS)
# Sizes in units of the L2 cache: launching is a matter of microseconds, so the plateau begins later than a processor's.
_TIMES = (1 / 16, 1 / 2, 4, 8, 16, 64)
_TRANSFER_TIMES = (1 / 16, 1 / 2, 4, 8, 16)
_NOT_HERE = {
    "scaling": "core-to-core scaling is a test of the processor; name target.device: cpu",
    "storage": "reading files is a test of the host; name target.device: cpu",
}


def measure(options: BenchOptions, notify: Notify, device: Accelerator) -> Measurements:
    """Measure a device; what was measured before it was lost is kept."""
    bench = _Bench(options, device)
    tests = options.tests or ALL
    parts = [part for name in tests for part in (TRANSFERS if name == "transfer" else (name,))]
    facts = device.facts()
    done: list[BenchOutcome] = []
    for place, name in enumerate(parts):
        notify(place / len(parts), name)
        done.append(bench.test(name))
    if bench.lost:
        facts["lost"] = bench.lost
    return Measurements(tuple(done), bench.bare, dict(device.used), facts)


def unsupported(device: Accelerator, precision: str) -> str:
    """Why the device has no arithmetic of this precision; empty where it has, or where unknown."""
    from assay.hardware.gpu.nvidia import abilities

    capability = device.capability()
    if capability is None:
        if precision == "tf32":
            return "TF32 is a format of NVIDIA's tensor cores"
        return ""
    precisions = abilities(capability).precisions
    if not precisions or precision in precisions:
        return ""  # an unknown capability: the device itself must say
    return f"compute capability {capability} has no {precision.upper()}; it has {', '.join(precisions)}"


class _Bench:
    """The tests with what they share."""

    def __init__(self, options: BenchOptions, device: Accelerator) -> None:
        self.options = options
        self.device = device
        self.bare: dict[str, JsonValue] = {}
        self.lost = ""

    def test(self, name: str) -> BenchOutcome:
        """One test; a device that was lost before gives its reason."""
        begin = perf_counter_ns()
        if self.lost:
            return absent_result(name, self.lost, begin)
        try:
            return self._run(name, begin)
        except Exception as problem:  # outside of any size, such as when free memory is asked for
            reason = reason_of(problem)
        self.lost = self.device.after_trouble()
        return absent_result(name, self.lost or reason, begin)

    def _run(self, name: str, begin: int) -> BenchOutcome:
        if name in MEMORY:
            return self._bandwidth(name, passes(self.device, name), len(USED[name]), _TIMES, begin)
        if name in TRANSFERS:
            return self._bandwidth(name, transfers(self.device, name), 1, _TRANSFER_TIMES, begin)
        if name in PRECISIONS:
            return self._gemm(name, begin)
        return absent_result(name, _NOT_HERE.get(name, f"there is no test {name!r} of this device"), begin)

    def _bandwidth(
        self, name: str, prepare: Prepare, arrays: int, times: tuple[float, ...], begin: int
    ) -> BenchOutcome:
        device = self.device
        free = device.free()
        if name in TRANSFERS:  # the same size is taken of the host
            free = min((amount for amount in (free, outcome.free_memory()) if amount is not None), default=None)
        tried = self.options.sizes or outcome.memory_sizes(device.cache, free, arrays, times=times)
        curve = self._swept(tried, prepare, GB)
        how = how_memory(name) if name in MEMORY else how_transfer(name)
        result = memory_result(name, curve, device.cache, begin, how)
        self._beside(result, prepare, GB)
        return result

    def _gemm(self, precision: str, begin: int) -> BenchOutcome:
        device, options = self.device, self.options
        if reason := unsupported(device, precision):
            return absent_result(precision, reason, begin)
        wanted = options.shapes or outcome.SHAPES
        shapes, left_out = outcome.fitting_shapes(wanted, device.free(), bytes_per_entry(precision))
        sets_used: dict[int, int] = {}
        prepare = products(device, precision, sets_used)
        curve = self._swept(shapes, prepare, TERA, too_long(math.inf if options.shapes else options.each_s))
        best = max(curve.points, key=lambda point: point.value, default=None)
        how = how_gemm(precision, sets_used.get(best.size) if best else None)
        result = gemm_result(precision, curve, begin, how, left_out)
        self._beside(result, prepare, TERA)
        return result

    def _swept(
        self, tried: tuple[int, ...], prepare: Prepare, unit: float, skip: Callable[..., str] | None = None
    ) -> Curve:
        rules: dict[str, Any] = {} if skip is None else {"skip": skip}
        curve = sweep(
            tried, prepare, each_s=self.options.each_s, unit=unit, after_trouble=self.device.after_trouble, **rules
        )
        self.lost = curve.lost
        return curve

    def _beside(self, result: BenchOutcome, prepare: Prepare, unit: float) -> None:
        """Time a bare loop of PyTorch beside, at the size that speaks for the test; after the test itself."""
        if not self.options.compare or result.reported is None or self.lost:
            return
        size = result.reported.size
        try:
            with prepare(size) as ready, bare_loop(self.device, result.name, size) as bare:
                comparison = versus(ready.timed, bare, self.options.each_s).facts(ready.work, unit)
        except Exception as problem:  # of whatever type: the test itself stands
            self.bare[result.name] = {"absent": reason_of(problem)}
        else:
            self.bare[result.name] = {**comparison, result.by: size}
            return
        self.lost = self.device.after_trouble()
