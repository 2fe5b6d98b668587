"""The same work as a program without any of ours would time it: one set of arrays, one plain loop, two stamps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from assay.hardware.bench.gpu import gemm, memory, transfer
from assay.hardware.bench.gpu.device import Accelerator
from assay.hardware.bench.outcome import TRANSFERS
from assay.hardware.bench.timing import Timed


@contextmanager
def bare_loop(device: Accelerator, name: str, size: int) -> Iterator[Timed]:
    """A bare loop of one test at one size: how long so many calls take.

    It shares the arrays' making with the test, and neither its timer nor its turns.
    """
    with gemm.single_precision(device.torch, tf32=name == "tf32"):
        held = [_operation(device, name, size)]
        loop = _stamped_by_events if device.kind == "cuda" else _stamped_by_clock
        try:
            yield lambda calls: loop(device.torch, held[0], calls, device.wait)
        finally:
            held.clear()
            device.give_back()


def _operation(device: Accelerator, name: str, size: int) -> Callable[[], object]:
    if name in gemm.PRECISIONS:
        return gemm.operands(device, name, size).multiply
    torch, count = device.torch, size // 4
    if name in TRANSFERS:
        pinned = name.endswith("_pinned")
        there = memory.numbers(device, count)
        host = torch.empty(count, dtype=torch.float32, pin_memory=pinned).copy_(there)
        return transfer.call_of([there, host] if name.startswith("to_device") else [host, there], pinned=pinned)
    return memory.call_of(torch, name, {one: memory.numbers(device, count) for one in memory.USED[name]})


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
