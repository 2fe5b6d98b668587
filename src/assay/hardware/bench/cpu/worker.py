"""A process that holds work and does it when it is told: JSON lines in, JSON lines out.

Started as `python -m assay.hardware.bench.cpu.worker [CPU,CPU…]` by a crew; ends when its input ends, so that nothing
is left behind when whoever started it dies.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from typing import IO, Any

from assay.hardware.bench.cpu.kernels import GemmWork, MemoryWork, Work
from assay.hardware.bench.sweep import is_memory, reason_of

Command = Mapping[str, Any]
# Sleeping ends late by some tens of microseconds; the last stretch before the common start is waited for awake.
_AWAKE_NS = 500_000


class Station:
    """What one worker holds, and its answers."""

    def __init__(self) -> None:
        self._work: Work | None = None

    def answer(self, command: Command) -> dict[str, Any]:
        try:
            return self._do(command)
        except Exception as problem:  # whatever went wrong is told, not raised: the crew decides
            self._work = None
            return {"failed": reason_of(problem), "memory": is_memory(problem)}

    def _do(self, command: Command) -> dict[str, Any]:
        do = command["do"]
        if do == "memory":
            self._work = None  # before the next one takes its place
            self._work = MemoryWork(command["kernel"], command["size"], command["block"], command["seed"])
        elif do == "gemm":
            self._work = None
            self._work = GemmWork(command["precision"], command["n"], command["sets"], command["seed"])
        elif do == "block":
            return self._block(command["calls"], command["start_ns"], bare=command["bare"])
        elif do == "check":
            check = self._held().check()
            return {"error": check.error, "tolerance": check.tolerance}
        elif do == "drop":
            self._work = None
        return {}

    def _block(self, calls: int, start_ns: int, *, bare: bool) -> dict[str, Any]:
        work = self._held()
        call = work.bare() if bare else work.call
        _wait_until(start_ns)
        begin = time.perf_counter_ns()
        for _ in range(calls):
            call()
        return {"begin_ns": begin, "end_ns": time.perf_counter_ns()}

    def _held(self) -> Work:
        if self._work is None:
            raise RuntimeError("this worker holds no work")
        return self._work


def _wait_until(start_ns: int) -> None:
    """Wait for the common start; `perf_counter_ns` is the same in all processes of a machine."""
    left = start_ns - time.perf_counter_ns()
    if left > _AWAKE_NS:
        time.sleep((left - _AWAKE_NS) / 1e9)
    while time.perf_counter_ns() < start_ns:
        pass


def serve(commands: IO[str], answers: IO[str]) -> None:
    """Answer commands until there are no more."""
    station = Station()
    for line in commands:
        answers.write(json.dumps(station.answer(json.loads(line))) + "\n")
        answers.flush()


def main(arguments: list[str]) -> int:
    """Serve the process that started this one."""
    if arguments and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(cpu) for cpu in arguments[0].split(",")})
    import numpy as np  # after the affinity: a BLAS counts its cores when it is loaded

    sys.stdout.write(json.dumps({"ready": True, "numpy": np.__version__}) + "\n")
    sys.stdout.flush()
    serve(sys.stdin, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
