"""The tests of a processor, one after another."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter_ns

from pydantic import JsonValue

from assay.hardware.bench import outcome
from assay.hardware.bench.cpu_workers import WorkerPool
from assay.hardware.bench.outcome import TRANSFERS, absent_result, gemm_result, memory_result, too_long
from assay.hardware.bench.records import (
    ARRAYS,
    GB,
    TERA,
    USED,
    BenchOptions,
    BenchOutcome,
    Measurements,
    Notify,
    SizePoint,
)
from assay.hardware.bench.storage import storage
from assay.hardware.bench.sweep import Prepare, PreparedTest, reason_of, sweep, versus

MEMORY = ("copy", "read", "write", "triad")
ONE_TOO = ("copy", "triad")
GEMM = ("fp64", "fp32")
ALL = (*MEMORY, *GEMM, "int8", "scaling", "storage")
SCALING_SHAPE = 1024
_SEED = 20261115
_PIECE = 2**16  # of the triad, where the size of the caches is not known
_GEMM_SETS = 2
_WIDTH = {"fp32": 4, "fp64": 8}  # bytes
_NOT_HERE = {
    "transfer": "the memory of the processor is the host's own; there is nothing to transfer",
    "int8": "the BLAS of numpy multiplies floating-point numbers alone",
}
_NO_PRECISION = "the BLAS of numpy has no product of this precision"


@dataclass(frozen=True, slots=True)
class Processor:
    """What the tests must know of the machine."""

    cpus: tuple[int, ...]
    """Those to measure with, one of each physical core first."""
    cache: int | None
    second_cache: int | None
    free: int | None
    pinned: bool = True
    """Whether the system can hold a process to one of them."""

    def places(self, count: int) -> list[tuple[int, ...]]:
        """Where this many workers run, one processor each."""
        return [(cpu,) if self.pinned else () for cpu in self.cpus[:count]]


def processor(threads: int | None) -> Processor:
    """The processor of this machine, as far as this process may use it."""
    import os

    cache, second = outcome.cpu_caches()
    cpus = outcome.usable_cpus()
    return Processor(cpus[:threads], cache, second, outcome.free_memory(), hasattr(os, "sched_setaffinity"))


def measure(options: BenchOptions, notify: Notify, machine: Processor | None = None) -> Measurements:
    target = machine or processor(options.threads)
    bench = _Bench(options, target)
    tests = options.tests or ALL
    done: list[BenchOutcome] = []
    for place, name in enumerate(tests):
        notify(place / len(tests), name)
        done += bench.test(name)
    facts: dict[str, JsonValue] = {
        "cores": len(target.cpus),
        "cpus": list(target.cpus),
        "last_level_cache_bytes": target.cache,
        "blas": blas(),
    }
    return Measurements(tuple(done), bench.bare, {"cpu": len(target.cpus)}, facts)


def blas() -> JsonValue:
    """The library that multiplies matrices for numpy, as numpy says it was built."""
    import numpy as np

    built = np.show_config(mode="dicts") or {}
    blas = built.get("Build Dependencies", {}).get("blas", {})
    versions = {name: str(blas[name]) for name in ("name", "version") if blas.get(name)}
    return {"numpy": np.__version__, **versions}


class _Bench:
    """The tests with what they share."""

    def __init__(self, options: BenchOptions, machine: Processor) -> None:
        self.options = options
        self.machine = machine
        self.bare: dict[str, JsonValue] = {}

    def test(self, name: str) -> list[BenchOutcome]:
        """One test of the wish; some have several results."""
        return [self._tried(part, run) for part, run in self._parts(name)]

    def _parts(self, name: str) -> list[tuple[str, Callable[[], BenchOutcome]]]:
        everyone = len(self.machine.cpus)
        if name in MEMORY:
            alone = [(f"{name}_one", partial(self._memory, name, "_one", 1))] if name in ONE_TOO else []
            return [(name, partial(self._memory, name, "", everyone)), *alone]
        if name in GEMM:
            return [(name, partial(self._gemm, name))]
        own: dict[str, Callable[[], BenchOutcome]] = {
            "scaling": self._scaling,
            "storage": partial(storage, self.options),
        }
        if name in own:
            return [(name, own[name])]
        reason = _NOT_HERE.get(name, _NO_PRECISION)
        return [(part, partial(absent_result, part, reason)) for part in (TRANSFERS if name == "transfer" else (name,))]

    @staticmethod
    def _tried(name: str, run: Callable[[], BenchOutcome]) -> BenchOutcome:
        begin = perf_counter_ns()
        try:
            return run()
        except (RuntimeError, OSError, MemoryError) as problem:  # a worker that cannot be started, or died
            return absent_result(name, reason_of(problem), begin)

    def _memory(self, kernel: str, suffix: str, cores: int) -> BenchOutcome:
        begin = perf_counter_ns()
        machine, options = self.machine, self.options
        tried = options.sizes or outcome.memory_sizes(machine.cache, machine.free, len(USED[kernel]))
        block = machine.second_cache // 4 if machine.second_cache else _PIECE
        with WorkerPool(machine.places(cores)) as crew:
            prepare = _passes(crew, kernel, block)
            curve = sweep(tried, prepare, each_s=options.each_s, unit=GB, after_trouble=crew.death)
            result = memory_result(kernel + suffix, curve, machine.cache, begin, _how_memory(kernel, cores, block))
            if kernel == "copy":
                self._beside(result, crew, prepare, GB)
        return result

    def _gemm(self, precision: str) -> BenchOutcome:
        begin = perf_counter_ns()
        options, machine = self.options, self.machine
        wanted = options.shapes or outcome.SHAPES
        shapes, left_out = outcome.fitting_shapes(wanted, machine.free, 3 * _WIDTH[precision] * _GEMM_SETS)
        skip = too_long(math.inf if options.shapes else options.each_s)
        with WorkerPool([machine.cpus if machine.pinned else ()], threads=len(machine.cpus)) as crew:
            prepare = _products(crew, precision)
            curve = sweep(shapes, prepare, each_s=options.each_s, unit=TERA, skip=skip, after_trouble=crew.death)
            result = gemm_result(precision, curve, begin, _how_gemm(len(machine.cpus)), left_out)
            self._beside(result, crew, prepare, TERA)
        return result

    def _scaling(self) -> BenchOutcome:
        begin = perf_counter_ns()
        n = max(self.options.shapes, default=SCALING_SHAPE)
        points: list[SizePoint] = []
        for cores in core_counts(len(self.machine.cpus)):
            with WorkerPool(self.machine.places(cores)) as crew:
                curve = sweep((n,), _products(crew, "fp32"), each_s=self.options.each_s, unit=TERA)
            if not curve.points:
                return absent_result("scaling", curve.nothing, begin)
            points.append(replace(curve.points[0], size=cores))
        return scaling_result(points, begin, n)

    def _beside(self, result: BenchOutcome, crew: WorkerPool, prepare: Prepare, unit: float) -> None:
        """Time a bare loop of numpy beside, at the size that speaks for the test; after the test itself."""
        if not self.options.compare or result.reported is None:
            return
        with prepare(result.reported.size) as ready:
            comparison = versus(crew.timed, crew.bare, self.options.each_s).facts(ready.work, unit)
        self.bare[result.name] = {**comparison, result.by: result.reported.size}


def _passes(crew: WorkerPool, kernel: str, block: int) -> Prepare:
    """Passes over arrays, of which each worker has its part."""

    @contextmanager
    def prepare(size: int) -> Iterator[PreparedTest]:
        each = size // len(crew) // 8 * 8
        common = {"do": "memory", "kernel": kernel, "size": each, "block": block}
        crew.call_each([{**common, "seed": _SEED + worker} for worker in range(len(crew))])
        yield PreparedTest(crew.timed, float(each * len(crew) * ARRAYS[kernel]), crew.check)
        crew.call_all(do="drop")  # a worker that failed has dropped it already

    return prepare


def _products(crew: WorkerPool, precision: str) -> Prepare:
    @contextmanager
    def prepare(n: int) -> Iterator[PreparedTest]:
        crew.call_all(do="gemm", precision=precision, n=n, sets=_GEMM_SETS, seed=_SEED)
        yield PreparedTest(crew.timed, float(2 * n**3) * len(crew), crew.check)
        crew.call_all(do="drop")

    return prepare


def core_counts(cores: int) -> tuple[int, ...]:
    """1, 2, 4 … and all of them."""
    counts = [1]
    while counts[-1] * 2 < cores:
        counts.append(counts[-1] * 2)
    return tuple(dict.fromkeys([*counts, cores]))


def scaling_result(points: Sequence[SizePoint], begin_ns: int, n: int) -> BenchOutcome:
    """How close all cores come to the sum of single ones: each multiplies matrices of its own."""
    single, most = points[0], points[-1]
    wrong = next((point.check.wrong for point in points if point.check and point.check.wrong), "")
    ideal = single.value * most.size
    shares = replace(most, values=tuple(value / ideal for value in most.values))
    how: Mapping[str, JsonValue] = {
        "counted": "2·n³ operations for each product",
        "n": n,
        "threads": "one process with one thread on each core, and matrices of its own",
        "data": "normal, scaled so that entries of the product are about 1",
    }
    return BenchOutcome(
        name="scaling",
        metric="core_scaling",
        by="cores",
        begin_ns=begin_ns,
        end_ns=perf_counter_ns(),
        points=tuple(points),
        reported=None if wrong else shares,
        absent=wrong,
        how=how,
        also={} if wrong else {"fp32_one_tflops": (single.values, single.at_ns)},
    )


def _how_memory(kernel: str, cores: int, block: int) -> dict[str, JsonValue]:
    how: dict[str, JsonValue] = {
        "counted": f"{ARRAYS[kernel]} × the bytes of one array; what a write fetches first is not counted",
        "cores": cores,
        "threads": "one process on each core, each with its own part, which it touched first",
        "data": "random doubles between 0.5 and 1.5",
    }
    if kernel == "triad":
        how["pieces"] = f"{block:,} bytes: the product of a piece is in the cache when its sum comes"
    return how


def _how_gemm(threads: int) -> dict[str, JsonValue]:
    return {
        "counted": "2·n³ operations for each product",
        "threads": threads,
        "operands": f"{_GEMM_SETS} sets in turn",
        "data": "normal, scaled so that entries of the product are about 1",
    }
