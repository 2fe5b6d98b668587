"""Passes over the memory of a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import JsonValue

from assay.hardware.bench.gpu.device import Accelerator, OperandRotation
from assay.hardware.bench.records import Accuracy
from assay.hardware.bench.sweep import Prepare, PreparedTest

# Arrays that one pass reads or writes, as STREAM counts them.
ARRAYS = {"copy": 2, "read": 1, "write": 1, "triad": 3}
# Which of the arrays a, b and c there are at all.
USED = {"copy": "ab", "read": "b", "write": "a", "triad": "abc"}
SCALAR = 0.41421356
_WIDTH = 4  # bytes of a number: single precision
_LOOKED_AT = 4096  # numbers that are compared, spread over the array
_ROUNDING = 1e-6  # of one addition and one multiplication in single precision
_OF_A_SUM = 1e-3  # of very many additions in single precision, in whatever order the device makes them


def passes(device: Accelerator, kernel: str) -> Prepare:
    """One of copy, read, write and triad, over arrays of random numbers."""

    @contextmanager
    def prepare(size: int) -> Iterator[PreparedTest]:
        arrays = {name: numbers(device, size // _WIDTH) for name in USED[kernel]}
        call = OperandRotation([call_of(device.torch, kernel, arrays)])
        try:
            yield PreparedTest(
                device.timed(call), float(size // _WIDTH * _WIDTH * ARRAYS[kernel]), _check(device, kernel, arrays)
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


def call_of(torch: Any, kernel: str, arrays: dict[str, Any]) -> Callable[[], Any]:  # noqa: ANN401
    """One pass, as a program would write it."""
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


def how(kernel: str) -> dict[str, JsonValue]:
    """What was counted and done, for the record."""
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


def _check(device: Accelerator, kernel: str, arrays: dict[str, Any]) -> Callable[[], Accuracy]:
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
    return array[:: max(1, array.numel() // _LOOKED_AT)].cpu().double()
