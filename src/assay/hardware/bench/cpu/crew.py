"""Processes that work side by side, each on its own cores, and begin together."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from time import perf_counter_ns
from types import TracebackType
from typing import IO, Any, cast

from assay.hardware.bench.records import Accuracy

# How many threads a BLAS uses is read from these when it is loaded; which of them counts depends on the BLAS.
_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
_LEAD_NS = 2_000_000  # to tell everybody, before they begin
_LEAD_EACH_NS = 100_000
_END_S = 5.0


class Crew:
    """Worker processes; used in a `with` statement, which ends them."""

    def __init__(self, places: Sequence[Sequence[int]], threads: int = 1) -> None:
        """Say where the workers run.

        Args:
            places: for each worker the processors that it may use; none where the system decides.
        """
        self._places = places
        self._threads = threads
        self._workers: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Crew:
        environment = os.environ | dict.fromkeys(_THREADS, str(self._threads))
        command = [sys.executable, "-m", "assay.hardware.bench.cpu.worker"]
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
