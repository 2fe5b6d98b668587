"""The control workload: a fixed amount of integer and memory work, run by a bare interpreter as a script of its own.

It imports nothing from assay, so that what else is loaded or installed never changes how long it takes. It prints one
line of JSON: the milliseconds of each round.
"""

from __future__ import annotations

import json
import sys
import time

# Times of another version are other times: raise it with every change to what is below.
VERSION = 1
STEPS = 1_000_000
COPIES = 24
SIZE = 32 * 2**20  # larger than what most processors cache
ROUNDS = 8
# A slow machine makes fewer rounds, never smaller ones.
FEWEST = 2
AT_MOST_S = 3.0


def integers(steps: int = STEPS) -> int:
    """Add and multiply small integers, one after the other."""
    x = 1
    for _ in range(steps):
        x = (x * 75 + 74) % 65537
    return x


def copies(target: memoryview, source: memoryview, times: int = COPIES) -> None:
    for _ in range(times // 2):
        target[:] = source
        source[:] = target


def rounds() -> dict[str, object]:
    times_ms: dict[str, list[float]] = {"integer": [], "memory": []}
    reason = ""
    try:
        pattern = bytes(range(256)) * (SIZE // 256)
        pair = memoryview(bytearray(pattern)), memoryview(bytearray(pattern))
    except MemoryError:
        pair, reason = None, f"no {2 * SIZE // 2**20} MiB of memory are free for it"
    begin = time.perf_counter()
    for number in range(ROUNDS):
        last = time.perf_counter()
        if number >= FEWEST and last - begin > AT_MOST_S * number / (number + 1):
            break  # another round would end too late
        integers()
        now = time.perf_counter()
        times_ms["integer"].append((now - last) * 1e3)
        if pair is not None:
            copies(*pair)
            times_ms["memory"].append((time.perf_counter() - now) * 1e3)
    return {"version": VERSION, "rounds_ms": times_ms, "absent": reason, "cpu_s": time.process_time()}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(rounds()) + "\n")
