"""What is asked of a device, what one test of it leaves behind, and whether a matrix product is right."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from pydantic import JsonValue

GB = 1e9  # decimal, as makers of memory count
TERA = 1e12
# Arrays that one pass reads or writes, as STREAM counts them. The line that a write first fetches is not counted.
ARRAYS = {"copy": 2, "read": 1, "write": 1, "triad": 3}
# Which of the arrays a, b and c there are at all.
USED = {"copy": "ab", "read": "b", "write": "a", "triad": "abc"}
SCALAR = 0.41421356

# What a size of a test is: bytes of one array, side of a square matrix, number of cores, bytes of the file.
By = Literal["bytes", "n", "cores"]
Notify = Callable[[float, str], None]  # share of all tests that is done, and what comes next


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """Which tests, how long, and how large."""

    tests: tuple[str, ...]
    sizes: tuple[int, ...] = ()
    """Bytes of one array of the memory tests; chosen where empty."""
    shapes: tuple[int, ...] = ()
    """Sides of the square matrices; chosen where empty."""
    each_s: float = 0.5
    """How long one size is repeated."""
    threads: int | None = None
    folder: str | None = None
    """Where the file of the storage test is made."""
    compare: bool = False
    """Whether a bare loop is timed beside."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How far a result was from a reference of higher precision."""

    error: float
    """Largest difference, relative to the reference."""
    tolerance: float
    at_least: float = 0.0
    """An error below this shows that a higher precision did the work than the one that was asked for."""

    @property
    def wrong(self) -> str:
        """Why the result cannot stand; empty where it can."""
        # A comparison with NaN is false: such a result must not pass.
        if not self.error <= self.tolerance:
            return (
                f"the result is wrong: its largest relative error is {self.error:.3g}, {self.tolerance:.3g} is allowed"
            )
        if self.error < self.at_least:
            return f"a higher precision did the work: the relative error is only {self.error:.3g}"
        return ""


@dataclass(frozen=True, slots=True)
class SizePoint:
    """One size of one test: the value of every timed block."""

    size: int
    values: tuple[float, ...]
    """In the unit of the test's metric."""
    at_ns: tuple[int, ...]
    """When each block began, of `time.perf_counter_ns`."""
    call_s: float
    """One call: a pass over the arrays, or one product."""
    check: Accuracy | None = None

    @property
    def value(self) -> float:
        """The median of the blocks."""
        return median(self.values)

    @property
    def spread(self) -> float:
        """From the smallest to the largest block, as a share of the median."""
        return (max(self.values) - min(self.values)) / self.value

    def facts(self, by: By) -> dict[str, JsonValue]:
        facts: dict[str, JsonValue] = {by: self.size, "value": self.value, "blocks": len(self.values)}
        facts["spread"] = self.spread
        return facts


@dataclass(frozen=True, slots=True)
class BenchOutcome:
    """One test: its curve, and the size that speaks for it, or why there is none."""

    name: str
    metric: str
    by: By
    begin_ns: int
    end_ns: int
    points: tuple[SizePoint, ...] = ()
    reported: SizePoint | None = None
    absent: str = ""
    """Why there is no value."""
    plateau: Mapping[str, JsonValue] | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Size → why it was not measured."""
    how: Mapping[str, JsonValue] = field(default_factory=dict)
    """What was counted, with how many threads, on which data."""
    also: Mapping[str, tuple[tuple[float, ...], tuple[int, ...]]] = field(default_factory=dict)
    """Further metrics → the value of each block, and when it began."""

    def facts(self) -> dict[str, JsonValue]:
        facts: dict[str, JsonValue] = {"metric": self.metric, "begin_ns": self.begin_ns, "end_ns": self.end_ns}
        if self.points:
            facts["curve"] = [point.facts(self.by) for point in self.points]
            best = max(self.points, key=lambda point: point.value)
            facts["best"] = {self.by: best.size, "value": best.value}
        if self.reported is not None:
            facts["reported"] = self.reported.facts(self.by)
        if self.absent:
            facts["absent"] = self.absent
        if self.plateau is not None:
            facts["plateau"] = dict(self.plateau)
        if self.left_out:
            facts["left_out"] = dict(self.left_out)
        checks = [point.check for point in self.points if point.check is not None]
        if checks:
            # The limits are equal here, so the largest error is also the one furthest over its limit.
            worst = max(checks, key=lambda check: (not check.error <= check.tolerance, check.error))
            facts["check"] = {"largest_error": worst.error, "tolerance": worst.tolerance, "sizes": len(checks)}
        return {**facts, "how": dict(self.how)}


@dataclass(frozen=True, slots=True)
class Measurements:
    """All tests of a device, and the bare loops beside them."""

    tests: tuple[BenchOutcome, ...]
    bare: Mapping[str, JsonValue] = field(default_factory=dict)
    used: Mapping[str, int] = field(default_factory=dict)
    """Device → tensors that were found on it, after the work."""
    facts: Mapping[str, JsonValue] = field(default_factory=dict)


# Largest difference that rounding explains, relative to the root mean square of the reference, of products with
# normal operands up to 65,536 long. Inputs count as they are after rounding to their own type, so what is left is the
# rounding of sums and of the result. A product that is not the asked one (an operand left out, zeros) differs by its
# own size or more.
TOLERANCE = {
    "fp64": 1e-11,
    "fp32": 1e-4,  # TF32 is ten times worse, so it cannot pass for this
    "tf32": 1e-2,
    "fp16": 2e-2,  # the result itself is rounded to 11 bits, and parts of long sums may be too
    "bf16": 5e-2,  # … to 8 bits
    "fp8": 1e-1,  # tensor cores keep some 14 bits of a running sum, and the result is rounded to 8
    "int8": 0.0,
}
# Numbers of single precision that went through TF32 lost 13 of their 23 bits; an error below this shows they did not.
AT_LEAST = {"tf32": 3e-5}
LINES = 16  # rows and columns that are compared: 256 numbers
_EXACT_LINES = 4


def sampled_lines(n: int, precision: str, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows and columns to compare, drawn for each shape."""
    import numpy as np

    draw = np.random.default_rng([seed, n])
    count = min(_EXACT_LINES if precision == "fp64" else LINES, n)
    return np.sort(draw.choice(n, count, replace=False)), np.sort(draw.choice(n, count, replace=False))


def reference_product(rows: NDArray[Any], columns: NDArray[Any], precision: str) -> NDArray[np.float64]:
    """The product of some rows and columns, more exact than the precision that is checked.

    Double precision is held against sums without any rounding, integers against 64 bits, the others against double.
    """
    import numpy as np

    if precision == "int8":
        return (rows.astype(np.int64) @ columns.astype(np.int64)).astype(np.float64)
    left, right = rows.astype(np.float64), columns.astype(np.float64)
    if precision != "fp64":
        return np.asarray(left @ right, dtype=np.float64)
    return np.array([[math.fsum(row * column) for column in right.T] for row in left])


def compared(result: NDArray[Any], expected: NDArray[np.float64], precision: str) -> Accuracy:
    """Hold a part of a product against its reference."""
    import numpy as np

    size = float(np.sqrt(np.mean(np.square(expected))))
    difference = np.abs(result.astype(np.float64) - expected)
    # One NaN makes the largest difference NaN, which passes no limit.
    error = float(difference.max()) / size if size else math.inf
    return Accuracy(error, TOLERANCE[precision], AT_LEAST.get(precision, 0.0))
