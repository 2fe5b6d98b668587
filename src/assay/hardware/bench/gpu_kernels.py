"""Work of a device of PyTorch: passes over its memory, transfers, matrix products; and the same in a plain loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from pydantic import JsonValue

from assay.hardware.bench.accelerator import Accelerator, OperandRotation
from assay.hardware.bench.outcome import TRANSFERS
from assay.hardware.bench.records import ARRAYS, SCALAR, USED, Accuracy, compared, reference_product, sampled_lines
from assay.hardware.bench.sweep import Prepare, PreparedTest, Timed

_WIDTH = 4  # bytes of a number: single precision
_SAMPLE_SIZE = 4096  # numbers that are compared, spread over the array
_ROUNDING = 1e-6  # of one addition and one multiplication in single precision
_OF_A_SUM = 1e-3  # of very many additions in single precision, in whatever order the device makes them


def passes(device: Accelerator, kernel: str) -> Prepare:
    """One of copy, read, write and triad, over arrays of random numbers."""

    @contextmanager
    def prepare(size: int) -> Iterator[PreparedTest]:
        arrays = {name: numbers(device, size // _WIDTH) for name in USED[kernel]}
        call = OperandRotation([pass_of(device.torch, kernel, arrays)])
        try:
            yield PreparedTest(
                device.timed(call),
                float(size // _WIDTH * _WIDTH * ARRAYS[kernel]),
                _check_memory(device, kernel, arrays),
            )
        finally:
            arrays.clear()
            call.release()
            device.give_back()

    return prepare


def numbers(device: Accelerator, count: int) -> Any:  # noqa: ANN401  (a tensor)
    """Random numbers between 0.5 and 1.5: their sums neither vanish nor grow out of bounds."""
    torch = device.torch
    return torch.empty(count, dtype=torch.float32, device=device.device).uniform_(0.5, 1.5)


def pass_of(torch: Any, kernel: str, arrays: dict[str, Any]) -> Callable[[], Any]:  # noqa: ANN401
    a, b, c = (arrays.get(name) for name in "abc")
    if kernel == "copy":
        return lambda: a.copy_(b)  # type: ignore[union-attr]
    if kernel == "read":
        total = b.new_empty(())  # type: ignore[union-attr]
        arrays["total"] = total
        return lambda: torch.sum(b, 0, out=total)
    if kernel == "write":
        return lambda: a.fill_(SCALAR)  # type: ignore[union-attr]
    return lambda: torch.add(b, c, alpha=SCALAR, out=a)


def how_memory(kernel: str) -> dict[str, JsonValue]:
    operation = {
        "copy": "a.copy_(b)",
        "read": "torch.sum(b)",
        "write": "a.fill_(s)",
        "triad": "torch.add(b, c, alpha=s, out=a)",
    }
    return {
        "counted": f"{ARRAYS[kernel]} × the bytes of one array",
        "operation": operation[kernel],
        "data": "random single-precision numbers between 0.5 and 1.5",
    }


def _check_memory(device: Accelerator, kernel: str, arrays: dict[str, Any]) -> Callable[[], Accuracy]:
    """Compare what the last pass left with double precision on the host."""

    def check() -> Accuracy:
        torch = device.torch
        if kernel == "read":
            device.saw(arrays["total"])
            numbers_read = arrays["b"].cpu() if device.kind == "mps" else arrays["b"]  # Apple's GPUs have no doubles
            expected = float(numbers_read.sum(dtype=torch.float64))
            return Accuracy(abs(float(arrays["total"]) / expected - 1), _OF_A_SUM)
        device.saw(arrays["a"])
        some = {name: _some(array) for name, array in arrays.items()}
        wanted = {"copy": some.get("b"), "write": torch.tensor(SCALAR, dtype=torch.float64)}.get(kernel)
        if kernel == "triad":
            wanted = some["b"] + SCALAR * some["c"]
        return Accuracy(float((some["a"] / wanted - 1).abs().max()), _ROUNDING)

    return check


def _some(array: Any) -> Any:  # noqa: ANN401  (tensors)
    """Numbers spread over an array, on the host and in double precision."""
    return array[:: max(1, array.numel() // _SAMPLE_SIZE)].cpu().double()


def transfers(device: Accelerator, name: str) -> Prepare:
    """Copies one way: `to_device`, `from_device`, or either with `_pinned`."""
    pinned = name.endswith("_pinned")

    @contextmanager
    def prepare(size: int) -> Iterator[PreparedTest]:
        torch, count = device.torch, size // _WIDTH
        # On the host first: a machine without pinned memory says so before anything else is taken.
        host = torch.empty(count, dtype=torch.float32, pin_memory=pinned)
        source = numbers(device, count)
        host.copy_(source)
        source.uniform_(0.5, 1.5)  # others than on the host, so that a copy that did not happen shows
        pair = [source, host] if name.startswith("to_device") else [host, source]
        del host, source
        call = OperandRotation([transfer_of(pair, pinned=pinned)])
        try:
            yield PreparedTest(device.timed(call), float(count * _WIDTH), lambda: _check_transfer(device, pair))
        finally:
            pair.clear()
            call.release()
            device.give_back()

    return prepare


def how_transfer(name: str) -> dict[str, JsonValue]:
    pinned = name.endswith("_pinned")
    return {
        "counted": "the bytes of one array, once",
        "operation": "a.copy_(b, non_blocking=True)" if pinned else "a.copy_(b)",
        "host_memory": "pinned" if pinned else "ordinary, which the driver copies through a buffer of its own",
        "data": "random single-precision numbers between 0.5 and 1.5",
    }


def transfer_of(pair: list[Any], *, pinned: bool) -> Callable[[], Any]:
    target, source = pair
    return lambda: target.copy_(source, non_blocking=pinned)


def _check_transfer(device: Accelerator, pair: list[Any]) -> Accuracy:
    device.wait()
    target, source = pair
    device.saw(*(tensor for tensor in pair if tensor.device.type == device.kind))
    return Accuracy(0.0 if device.torch.equal(target.cpu(), source.cpu()) else 1.0, 0.0)


PRECISIONS = ("fp64", "fp32", "tf32", "fp16", "bf16", "int8", "fp8")
_DTYPES = {
    "fp64": "float64", "fp32": "float32", "tf32": "float32", "fp16": "float16", "bf16": "bfloat16", "int8": "int8",
    "fp8": "float8_e4m3fn",
}  # fmt: skip
# Bytes of an entry: of both operands together, and of the product.
_WIDTHS = {"fp64": (16, 8), "fp32": (8, 4), "tf32": (8, 4), "fp16": (4, 2), "bf16": (4, 2), "int8": (2, 4),
           "fp8": (2, 2)}  # fmt: skip
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
    set_bytes = n * n * sum(_WIDTHS[precision])
    wanted = _FEWEST_SETS if cache is None else -(-2 * cache // set_bytes)
    sets = min(max(wanted, _FEWEST_SETS), _MOST_SETS)
    return sets if free is None else max(1, min(sets, int(free // 2 // set_bytes)))


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
        call = OperandRotation([operand_set.multiply for operand_set in sets])
        with single_precision(torch, tf32=precision == "tf32"):
            try:
                yield PreparedTest(device.timed(call), float(2 * n**3), lambda: check_gemm(device, precision, sets))
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
    factor = torch.tensor(scale, dtype=torch.float32, device=left.device)
    more = {"out_dtype": torch.bfloat16, "use_fast_accum": True, "out": product}
    return Operands(left, right, product, lambda: torch._scaled_mm(left, right, factor, factor, **more), scale * scale)


def check_gemm(device: Accelerator, precision: str, sets: list[Operands]) -> Accuracy:
    """Compare some rows and columns of the first set's product with a reference made on the host."""
    first = sets[0]
    first.multiply()
    device.wait()
    device.saw(first.product)
    torch, n = device.torch, first.left.shape[0]
    rows, columns = (torch.from_numpy(part).to(device.device) for part in sampled_lines(n, precision, _SEED))
    wide = torch.int64 if precision == "int8" else torch.float64
    left, right = _rows(torch, first.left, rows, wide), _columns(torch, first.right, columns, wide)
    product = first.product.index_select(0, rows).index_select(1, columns).cpu().to(wide).numpy()
    return compared(product, reference_product(left, right, precision) * first.scale, precision)


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


def how_gemm(precision: str, sets: int | None) -> dict[str, JsonValue]:
    operation = {"int8": "torch._int_mm(a, b, out=c)", "fp8": "torch._scaled_mm(a, b, …, out=c)"}
    facts: dict[str, JsonValue] = {
        "counted": "2·n³ operations for each product",
        "operation": operation.get(precision, "torch.mm(a, b, out=c)"),
        "data": "whole numbers from -128 to 127" if precision == "int8" else "normal, products scaled to about 1",
    }
    if sets is not None:
        facts["operands"] = f"{sets} sets in turn"
    if precision in ("fp32", "tf32"):
        facts["tf32"] = precision == "tf32"
    if precision == "fp8":
        facts["format"] = "E4M3 by rows times E4M3 by columns, result in bfloat16, fast accumulation"
    if precision == "int8":
        facts["format"] = "8-bit by rows times 8-bit by columns, summed up in 32 bits"
    return facts


@contextmanager
def bare_loop(device: Accelerator, name: str, size: int) -> Iterator[Timed]:
    """A bare loop of one test at one size: how long this many calls take.

    It shares the arrays' making with the test, and neither its timer nor its turns.
    """
    with single_precision(device.torch, tf32=name == "tf32"):
        held = [_operation(device, name, size)]
        loop = _stamped_by_events if device.kind == "cuda" else _stamped_by_clock
        try:
            yield lambda calls: loop(device.torch, held[0], calls, device.wait)
        finally:
            held.clear()
            device.give_back()


def _operation(device: Accelerator, name: str, size: int) -> Callable[[], object]:
    if name in PRECISIONS:
        return operands(device, name, size).multiply
    torch, count = device.torch, size // 4
    if name in TRANSFERS:
        pinned = name.endswith("_pinned")
        source = numbers(device, count)
        host = torch.empty(count, dtype=torch.float32, pin_memory=pinned).copy_(source)
        return transfer_of([source, host] if name.startswith("to_device") else [host, source], pinned=pinned)
    return pass_of(torch, name, {array: numbers(device, count) for array in USED[name]})


def _stamped_by_events(torch: Any, operation: Callable[[], object], calls: int, _wait: object) -> float:  # noqa: ANN401
    begin = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(calls):
        operation()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) / 1e3


def _stamped_by_clock(_torch: object, operation: Callable[[], object], calls: int, wait: Callable[[], None]) -> float:
    wait()
    begin = perf_counter()
    for _ in range(calls):
        operation()
    wait()
    return perf_counter() - begin
