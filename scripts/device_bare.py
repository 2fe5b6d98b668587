#!/usr/bin/env python3
"""A bare loop of PyTorch, without a line of assay: what matrix products and copies reach on a GPU.

    python3 scripts/device_bare.py [--device cuda] [--seconds 0.5] [--shapes 4096,8192,16384] > bare.json

Each line of the table on the error stream is one operation at one size: the median of five stretches between two
events, with as many calls in each as fill a fifth of the seconds. The JSON on the output has every stretch.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

Operation = Callable[[], object]
Make = Callable[[int], Operation]


def timed(operation: Operation, calls: int, device: torch.device) -> float:
    """Seconds that so many calls take, by two events of the GPU."""
    if device.type != "cuda":
        start = time.perf_counter()
        for _ in range(calls):
            operation()
        return time.perf_counter() - start
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(calls):
        operation()
    end.record()
    torch.cuda.synchronize(device)
    return begin.elapsed_time(end) / 1e3


def measured(operation: Operation, device: torch.device, seconds: float) -> list[float]:
    """Seconds of one call, five times."""
    for _ in range(3):
        timed(operation, 1, device)
    tries = max(1, int(0.02 / max(timed(operation, 1, device), 1e-6)))
    calls = max(1, int(seconds / 5 / max(timed(operation, tries, device) / tries, 1e-7)))
    timed(operation, calls, device)
    return [timed(operation, calls, device) / calls for _ in range(5)]


def products(device: torch.device) -> dict[str, Make]:
    """Precision → what makes one product of a side."""

    def plain(dtype: torch.dtype) -> Make:
        def make(n: int) -> Operation:
            a, b = (torch.randn(n, n, dtype=dtype, device=device) * n**-0.25 for _ in range(2))
            c = torch.empty(n, n, dtype=dtype, device=device)
            return lambda: torch.mm(a, b, out=c)

        return make

    def whole(n: int) -> Operation:
        a, b = (torch.randint(-128, 128, (n, n), dtype=torch.int8, device=device) for _ in range(2))
        c, turned = torch.empty(n, n, dtype=torch.int32, device=device), b.t()
        return lambda: torch._int_mm(a, turned, out=c)

    def eight(n: int) -> Operation:
        a, b = (torch.randn(n, n, device=device).to(torch.float8_e4m3fn) for _ in range(2))
        s, c = torch.tensor(n**-0.25, device=device), torch.empty(n, n, dtype=torch.bfloat16, device=device)
        more: dict[str, Any] = {"out_dtype": torch.bfloat16, "use_fast_accum": True, "out": c}
        turned = b.t()
        return lambda: torch._scaled_mm(a, turned, s, s, **more)

    return {
        "fp64": plain(torch.float64),
        "fp32": plain(torch.float32),
        "tf32": plain(torch.float32),
        "fp16": plain(torch.float16),
        "bf16": plain(torch.bfloat16),
        "int8": whole,
        "fp8": eight,
    }


def passes(device: torch.device) -> dict[str, tuple[int, Make]]:
    """Name → how many arrays are counted, and what makes one pass."""

    def array(size: int) -> torch.Tensor:
        return torch.rand(size // 4, device=device) + 0.5

    def copy(size: int) -> Operation:
        a, b = array(size), array(size)
        return lambda: a.copy_(b)

    def read(size: int) -> Operation:
        return array(size).sum

    def write(size: int) -> Operation:
        a = array(size)
        return lambda: a.fill_(0.4)

    def triad(size: int) -> Operation:
        a, b, c = array(size), array(size), array(size)
        return lambda: torch.add(b, c, alpha=0.4, out=a)

    return {"copy": (2, copy), "read": (1, read), "write": (1, write), "triad": (3, triad)}


def row(
    name: str, size: int, unit: str, work: float, make: Make, device: torch.device, seconds: float
) -> dict[str, Any]:
    """One operation at one size, or why it could not be measured."""
    try:
        values = [work / each for each in measured(make(size), device, seconds)]
    except Exception as problem:  # of whatever type: the others are still wanted
        told: dict[str, Any] = {"name": name, "size": size, "absent": str(problem).splitlines()[0][:200]}
        shown = told["absent"]
    else:
        told = {"name": name, "size": size, "unit": unit, "value": statistics.median(values), "values": values}
        shown = f"{told['value']:10.3f} {unit}"
    sys.stderr.write(f"{name:6} {size:>12} {shown}\n")
    if device.type == "cuda":
        torch.cuda.empty_cache()
    return told


def main() -> None:
    """Measure everything once."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--shapes", default="2048,4096,8192,16384")
    parser.add_argument("--megabytes", default="512,1024,4096")
    asked = parser.parse_args()
    device = torch.device(asked.device)
    rows = [
        row(name, megabytes * 10**6, "GB/s", arrays * megabytes / 1e3, make, device, asked.seconds)
        for name, (arrays, make) in passes(device).items()
        for megabytes in map(int, asked.megabytes.split(","))
    ]
    for name, make in products(device).items():
        torch.set_float32_matmul_precision("high" if name == "tf32" else "highest")
        for n in map(int, asked.shapes.split(",")):
            unit = "TOPS" if name == "int8" else "TFLOPS"
            rows.append(row(name, n, unit, 2 * n**3 / 1e12, make, device, asked.seconds))
    about = {"torch": torch.__version__, "cuda": torch.version.cuda}
    if device.type == "cuda":
        about["device"] = torch.cuda.get_device_name(device)
    json.dump({"about": about, "rows": rows}, sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
