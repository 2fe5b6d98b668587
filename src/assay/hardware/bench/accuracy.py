"""Whether a matrix product is right: some of its rows and columns against a reference of higher precision."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from assay.hardware.bench.records import Accuracy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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


def lines(n: int, precision: str, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows and columns to compare, drawn anew for each shape."""
    import numpy as np

    draw = np.random.default_rng([seed, n])
    count = min(_EXACT_LINES if precision == "fp64" else LINES, n)
    return np.sort(draw.choice(n, count, replace=False)), np.sort(draw.choice(n, count, replace=False))


def reference(rows: NDArray[Any], columns: NDArray[Any], precision: str) -> NDArray[np.float64]:
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


def compare(got: NDArray[Any], expected: NDArray[np.float64], precision: str) -> Accuracy:
    """Hold a part of a product against its reference."""
    import numpy as np

    size = float(np.sqrt(np.mean(np.square(expected))))
    difference = np.abs(got.astype(np.float64) - expected)
    # One NaN makes the largest difference NaN, which passes no limit.
    error = float(difference.max()) / size if size else math.inf
    return Accuracy(error, TOLERANCE[precision], AT_LEAST.get(precision, 0.0))
