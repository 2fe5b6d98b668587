"""Between the memory of the host and that of a device, in both directions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import JsonValue

from assay.hardware.bench.gpu.device import Accelerator, OperandRotation
from assay.hardware.bench.gpu.memory import numbers
from assay.hardware.bench.records import Accuracy
from assay.hardware.bench.sweep import Prepare, PreparedTest

_WIDTH = 4


def transfers(device: Accelerator, name: str) -> Prepare:
    """Copies one way: `to_device`, `from_device`, or either with `_pinned`."""
    pinned = name.endswith("_pinned")

    @contextmanager
    def prepare(size: int) -> Iterator[PreparedTest]:
        torch, count = device.torch, size // _WIDTH
        # On the host first: a machine without pinned memory says so before anything else is taken.
        host = torch.empty(count, dtype=torch.float32, pin_memory=pinned)
        there = numbers(device, count)
        host.copy_(there)
        there.uniform_(0.5, 1.5)  # others than on the host, so that a copy that did not happen shows
        pair = [there, host] if name.startswith("to_device") else [host, there]
        del host, there
        call = OperandRotation([call_of(pair, pinned=pinned)])
        try:
            yield PreparedTest(device.timed(call), float(count * _WIDTH), lambda: _check(device, pair))
        finally:
            pair.clear()
            call.release()
            device.give_back()

    return prepare


def how(name: str) -> dict[str, JsonValue]:
    """What was counted and done, for the record."""
    pinned = name.endswith("_pinned")
    return {
        "counted": "the bytes of one array, once",
        "operation": "a.copy_(b, non_blocking=True)" if pinned else "a.copy_(b)",
        "host_memory": "pinned" if pinned else "ordinary, which the driver copies through a buffer of its own",
        "data": "random single-precision numbers between 0.5 and 1.5",
    }


def call_of(pair: list[Any], *, pinned: bool) -> Callable[[], Any]:
    """One copy, as a program would write it."""
    target, source = pair
    return lambda: target.copy_(source, non_blocking=pinned)


def _check(device: Accelerator, pair: list[Any]) -> Accuracy:
    device.wait()
    target, source = pair
    device.saw(*(one for one in pair if one.device.type == device.kind))
    return Accuracy(0.0 if device.torch.equal(target.cpu(), source.cpu()) else 1.0, 0.0)
