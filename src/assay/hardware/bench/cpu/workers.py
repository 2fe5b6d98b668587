"""Worker processes, each on its own cores, that begin together: JSON lines in, JSON lines out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from time import perf_counter_ns
from types import TracebackType
from typing import IO, Any, cast

from assay.hardware.bench.cpu.kernels import GemmWork, MemoryWork, Work
from assay.hardware.bench.records import Accuracy
from assay.hardware.bench.sweep import is_memory, reason_of

# How many threads a BLAS uses is read from these when it is loaded; which of them counts depends on the BLAS.
_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
_LEAD_NS = 2_000_000  # to tell everybody, before they begin
_LEAD_EACH_NS = 100_000
_END_S = 5.0


class WorkerPool:
    """Worker processes; used in a `with` statement, which ends them."""

    def __init__(self, places: Sequence[Sequence[int]], threads: int = 1) -> None:
        """Say where the workers run.

        Args:
            places: for each worker the processors that it may use; none where the system decides.
        """
        self._places = places
        self._threads = threads
        self._workers: list[subprocess.Popen[str]] = []

    def __enter__(self) -> WorkerPool:
        environment = os.environ | dict.fromkeys(_THREADS, str(self._threads))
        command = [sys.executable, "-m", "assay.hardware.bench.cpu.workers"]
        try:
            for place in self._places:
                self._workers.append(
                    subprocess.Popen(
                        [*command, ",".join(map(str, place))] if place else command,
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        text=True,
                        env=environment,
                    )
                )
            for worker in self._workers:
                _answer(worker)  # that it is ready
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._places)

    def ask(self, **command: object) -> list[dict[str, Any]]:
        """Tell all workers the same and collect their answers.

        Raises:
            MemoryError: if one of them has no memory for it.
            RuntimeError: if one of them cannot do it, or died.
        """
        return self.ask_each([command] * len(self._workers))

    def ask_each(self, commands: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        for worker, command in zip(self._workers, commands, strict=True):
            _tell(worker, command)
        answers = [_answer(worker) for worker in self._workers]
        failed = next((answer for answer in answers if "failed" in answer), None)
        if failed is not None:
            raise MemoryError(failed["failed"]) if failed["memory"] else RuntimeError(failed["failed"])
        return answers

    def timed(self, calls: int) -> float:
        """Seconds from the first worker's begin to the last one's end, of so many calls by each."""
        return self._block(calls, bare=False)

    def bare(self, calls: int) -> float:
        """The same with plain calls of numpy."""
        return self._block(calls, bare=True)

    def check(self) -> Accuracy:
        """The worst of what the workers found."""
        checks = [Accuracy(answer["error"], answer["tolerance"]) for answer in self.ask(do="check")]
        return max(checks, key=lambda check: (bool(check.wrong), check.error))

    def death(self) -> str:
        """Why a worker is gone; empty while all are there."""
        dead = next((worker for worker in self._workers if worker.poll() is not None), None)
        return _death(dead) if dead is not None else ""

    def close(self) -> None:
        """End all workers."""
        for worker in self._workers:
            with suppress(OSError):  # one that died has left its pipe full
                cast("IO[str]", worker.stdin).close()
        for worker in self._workers:
            try:
                worker.wait(_END_S)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
            cast("IO[str]", worker.stdout).close()
        self._workers = []

    def _block(self, calls: int, *, bare: bool) -> float:
        start = perf_counter_ns() + _LEAD_NS + _LEAD_EACH_NS * len(self._workers)
        answers = self.ask(do="block", calls=calls, start_ns=start, bare=bare)
        begin, end = min(one["begin_ns"] for one in answers), max(one["end_ns"] for one in answers)
        return float(end - begin) / 1e9


def _tell(worker: subprocess.Popen[str], command: dict[str, Any]) -> None:
    pipe = cast("IO[str]", worker.stdin)
    try:
        pipe.write(json.dumps(command) + "\n")
        pipe.flush()
    except OSError:
        raise RuntimeError(_death(worker)) from None


def _answer(worker: subprocess.Popen[str]) -> dict[str, Any]:
    line = cast("IO[str]", worker.stdout).readline()
    if not line:
        raise RuntimeError(_death(worker))
    answer: dict[str, Any] = json.loads(line)
    return answer


def _death(worker: subprocess.Popen[str]) -> str:
    try:
        code = worker.wait(_END_S)
    except subprocess.TimeoutExpired:
        return "a measuring process does not answer"
    return f"a measuring process ended with {code}" + (", out of memory perhaps" if code == -9 else "")


Command = Mapping[str, Any]
# Sleeping ends late by some tens of microseconds; the last stretch before the common start is waited for awake.
_AWAKE_NS = 500_000


class Worker:
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
    station = Worker()
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
