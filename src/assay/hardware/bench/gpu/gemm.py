"""Matrix products on a device, by precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from assay.hardware.bench import accuracy
from assay.hardware.bench.gpu.device import Accelerator, OperandRotation
from assay.hardware.bench.records import Accuracy
from assay.hardware.bench.sweep import Prepare, PreparedTest

PRECISIONS = ("fp64", "fp32", "tf32", "fp16", "bf16", "int8", "fp8")
_DTYPES = {
    "fp64": "float64", "fp32": "float32", "tf32": "float32", "fp16": "float16", "bf16": "bfloat16", "int8": "int8",
    "fp8": "float8_e4m3fn",
}  # fmt: skip
# Bytes of an entry: of both operands together, and of the product.
_WIDTHS = {
    "fp64": (16, 8),
    "fp32": (8, 4),
    "tf32": (8, 4),
    "fp16": (4, 2),
    "bf16": (4, 2),
    "int8": (2, 4),
    "fp8": (2, 2),
}
_FEWEST_SETS, _MOST_SETS = 2, 64
_SEED = 20261115


@dataclass(frozen=True, slots=True)
class Operands:
    """One set: two matrices, where their product goes, and how it is made."""

    left: Any
    right: Any
    product: Any
    multiply: Callable[[], object]
    scale: float = 1.0
    """What the product was multiplied with, beside the entries themselves."""


def bytes_per_entry(precision: str) -> int:
    """Of all the matrices of the fewest sets."""
    return sum(_WIDTHS[precision]) * _FEWEST_SETS


def sets_for(precision: str, n: int, cache: int | None, free: int | None) -> int:
    """How many sets of operands take turns.

    At least two, and for small shapes as many as fill twice the last-level cache: a product must not find its operands
    where the one before left them, as in a program that multiplies other matrices in between. Never more than half of
    the free memory.
    """
    one = n * n * sum(_WIDTHS[precision])
    wanted = _FEWEST_SETS if cache is None else -(-2 * cache // one)
    sets = min(max(wanted, _FEWEST_SETS), _MOST_SETS)
    return sets if free is None else max(1, min(sets, int(free // 2 // one)))


def products(device: Accelerator, precision: str, sets_used: dict[int, int] | None = None) -> Prepare:
    """Products of square matrices of one precision, of several sets in turn."""

    @contextmanager
    def prepare(n: int) -> Iterator[PreparedTest]:
        torch = device.torch
        torch.manual_seed(_SEED + n)
        count = sets_for(precision, n, device.cache, device.free())
        sets = [operands(device, precision, n) for _ in range(count)]
        if sets_used is not None:
            sets_used[n] = count
        call = OperandRotation([one.multiply for one in sets])
        with single_precision(torch, tf32=precision == "tf32"):
            try:
                yield PreparedTest(device.timed(call), float(2 * n**3), lambda: check(device, precision, sets))
            finally:
                sets.clear()
                call.release()
                device.give_back()

    return prepare


@contextmanager
def single_precision(torch: Any, *, tf32: bool) -> Iterator[None]:  # noqa: ANN401  (a module)
    """Have products of single-precision numbers made through TF32, or not; as it was before, afterwards."""
    before = torch.get_float32_matmul_precision()
    # The one switch that means the same in every version: those beside it were renamed, and do not mix.
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def operands(device: Accelerator, precision: str, n: int) -> Operands:
    """One set of random matrices and the product of them."""
    torch, place = device.torch, device.device
    kind = getattr(torch, _DTYPES[precision])
    if precision == "int8":
        left, right = (torch.randint(-128, 128, (n, n), dtype=kind, device=place) for _ in range(2))
        # Its second operand by columns, the only layout that the tensor cores take for integers.
        return _integers(torch, left, right.t())
    scale = n**-0.25  # the entries of the product are then about 1
    if precision == "fp8":
        left, right = (torch.randn(n, n, device=place).to(kind) for _ in range(2))
        return _eight_bits(torch, left, right.t(), scale)
    left, right = (torch.randn(n, n, dtype=kind, device=place).mul_(scale) for _ in range(2))
    product = torch.empty(n, n, dtype=kind, device=place)
    return Operands(left, right, product, lambda: torch.mm(left, right, out=product))


def _integers(torch: Any, left: Any, right: Any) -> Operands:  # noqa: ANN401
    product = torch.empty(left.shape, dtype=torch.int32, device=left.device)
    return Operands(left, right, product, lambda: torch._int_mm(left, right, out=product))


def _eight_bits(torch: Any, left: Any, right: Any, scale: float) -> Operands:  # noqa: ANN401
    product = torch.empty(left.shape, dtype=torch.bfloat16, device=left.device)
    one = torch.tensor(scale, dtype=torch.float32, device=left.device)
    more = {"out_dtype": torch.bfloat16, "use_fast_accum": True, "out": product}
    return Operands(left, right, product, lambda: torch._scaled_mm(left, right, one, one, **more), scale * scale)


def check(device: Accelerator, precision: str, sets: list[Operands]) -> Accuracy:
    """Compare some rows and columns of the first set's product with a reference made on the host."""
    one = sets[0]
    one.multiply()
    device.wait()
    device.saw(one.product)
    torch, n = device.torch, one.left.shape[0]
    rows, columns = (torch.from_numpy(part).to(device.device) for part in accuracy.lines(n, precision, _SEED))
    wide = torch.int64 if precision == "int8" else torch.float64
    left, right = _rows(torch, one.left, rows, wide), _columns(torch, one.right, columns, wide)
    got = one.product.index_select(0, rows).index_select(1, columns).cpu().to(wide).numpy()
    return accuracy.compare(got, accuracy.reference(left, right, precision) * one.scale, precision)


def _rows(torch: Any, matrix: Any, rows: Any, wide: Any) -> Any:  # noqa: ANN401
    """Some rows of a matrix, exactly, on the host."""
    if matrix.element_size() == 1 and matrix.is_floating_point():
        # Eight-bit floating point cannot be picked by index on every device; its bytes can.
        picked = matrix.view(torch.uint8).index_select(0, rows).view(matrix.dtype)
    else:
        picked = matrix.index_select(0, rows)
    return picked.cpu().to(wide).numpy()


def _columns(torch: Any, matrix: Any, columns: Any, wide: Any) -> Any:  # noqa: ANN401
    """Some columns of a matrix, exactly, on the host."""
    turned = matrix.t()
    if turned.is_contiguous():  # by columns
        return _rows(torch, turned, columns, wide).T
    return matrix.index_select(1, columns).cpu().to(wide).numpy()


def how(precision: str, sets: int | None) -> dict[str, JsonValue]:
    """What was counted and done, for the record."""
    operation = {"int8": "torch._int_mm(a, b, out=c)", "fp8": "torch._scaled_mm(a, b, …, out=c)"}
    told: dict[str, JsonValue] = {
        "counted": "2·n³ operations for each product",
        "operation": operation.get(precision, "torch.mm(a, b, out=c)"),
        "data": "whole numbers from -128 to 127" if precision == "int8" else "normal, products scaled to about 1",
    }
    if sets is not None:
        told["operands"] = f"{sets} sets in turn"
    if precision in ("fp32", "tf32"):
        told["tf32"] = precision == "tf32"
    if precision == "fp8":
        told["format"] = "E4M3 by rows times E4M3 by columns, result in bfloat16, fast accumulation"
    if precision == "int8":
        told["format"] = "8-bit by rows times 8-bit by columns, summed up in 32 bits"
    return told
