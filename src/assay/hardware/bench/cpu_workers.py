"""Work of a processor (passes over arrays, matrix products), and processes that do it together on request.

Each core has a process of its own. Threads of one process would take turns at the interpreter between two calls, and
on a machine of many cores that, not the memory, would be measured.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from time import perf_counter_ns
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Protocol, cast

from assay.hardware.bench.records import SCALAR, USED, Accuracy, compared, reference_product, sampled_lines
from assay.hardware.bench.sweep import is_memory, reason_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_TILE = 2**17  # numbers: random ones are made once and laid out again and again, which memory cannot tell
_SAMPLE_SIZE = 32  # numbers in each piece that is compared
_ROUNDING = 1e-9
_APART = 128  # numbers: arrays that begin at the same place of a page hinder each other
_TYPES = {"fp32": "float32", "fp64": "float64"}


class Work(Protocol):
    """Something that a worker does again and again."""

    def call(self) -> object: ...

    def bare(self) -> Callable[[], object]:
        """The same as one plain call of the library."""
        ...

    def check(self) -> Accuracy: ...


class MemoryWork:
    """Passes over arrays of doubles that this process alone uses and was the first to touch."""

    def __init__(self, kernel: str, size: int, block: int, seed: int) -> None:
        import numpy as np

        self._kernel = kernel
        count = max(size // 8, 1)
        self._tile: NDArray[np.float64] = np.random.default_rng(seed).uniform(0.5, 1.5, min(_TILE, count))
        arrays: dict[str, Any] = {name: self._laid_out(count, "abc".index(name)) for name in USED[kernel]}
        self._a: Any = arrays.get("a")
        self._b: Any = arrays.get("b")
        self._c: Any = arrays.get("c")
        self._blocks = self._triad_blocks(max(block // 8, 1)) if kernel == "triad" else []
        self._fill = 0.5
        self._total = 0.0
        passes: dict[str, Callable[[], object]] = {
            "copy": self._copy,
            "read": self._read,
            "write": self._write,
            "triad": self._triad,
        }
        self.call = passes[kernel]

    def bare(self) -> Callable[[], object]:
        """One plain call of numpy; the triad has none, as numpy cannot scale and add in one pass."""
        import numpy as np

        a, b = self._a, self._b
        if self._kernel != "copy":
            raise NotImplementedError(f"no bare loop is kept for {self._kernel}")
        return lambda: np.copyto(a, b)

    def check(self) -> Accuracy:
        import numpy as np

        if self._kernel == "read":
            whole, rest = divmod(self._b.size, self._tile.size)
            expected = whole * math.fsum(self._tile) + math.fsum(self._tile[:rest])
            return Accuracy(abs(self._total / expected - 1), _ROUNDING)
        worst = 0.0
        # In pieces, since further whole arrays may not fit, and in some of them: the clock stands, but not the user's.
        for start in range(0, self._a.size, _TILE * max(1, self._a.size // _TILE // _SAMPLE_SIZE)):
            cut = slice(start, start + _TILE)
            wanted = {"write": lambda _: self._fill, "copy": lambda cut: self._b[cut], "triad": self._summed}
            worst = max(worst, float(np.abs(self._a[cut] / wanted[self._kernel](cut) - 1).max()))
        return Accuracy(worst, _ROUNDING)

    def _summed(self, cut: slice) -> Any:  # noqa: ANN401  (an array)
        return self._b[cut] + SCALAR * self._c[cut]

    def _laid_out(self, count: int, place: int) -> NDArray[np.float64]:
        """An array that this process touches first, filled with random numbers that no other array has there."""
        import numpy as np

        array: NDArray[np.float64] = np.empty(count + place * _APART)[place * _APART :]
        tile = self._tile if place == 1 else np.roll(self._tile, place + 1)
        for start in range(0, count, tile.size):
            part = array[start : start + tile.size]
            part[:] = tile[: part.size]
        return array

    def _triad_blocks(self, block: int) -> list[tuple[Any, Any, Any]]:
        """Pieces small enough that the product of one is still in the cache when the sum comes.

        numpy needs two calls for a = b + s·c. Over whole arrays the second would fetch `a` from memory again, which
        is traffic that STREAM's triad does not have; over pieces in the cache it is not.
        """
        cuts = [slice(start, start + block) for start in range(0, self._a.size, block)]
        return [(self._a[cut], self._b[cut], self._c[cut]) for cut in cuts]

    def _copy(self) -> None:
        import numpy as np

        np.copyto(self._a, self._b)

    def _read(self) -> None:
        self._total = float(self._b.sum())

    def _write(self) -> None:
        self._fill = 1.5 - self._fill  # another number each time, so that no pass can be skipped
        self._a.fill(self._fill)

    def _triad(self) -> None:
        import numpy as np

        for a, b, c in self._blocks:
            np.multiply(c, SCALAR, out=a)
            np.add(a, b, out=a)


class GemmWork:
    """Products of square matrices, of several sets in turn so that operands come from memory."""

    def __init__(self, precision: str, n: int, sets: int, seed: int) -> None:
        import numpy as np

        self._precision, self._n, self._seed = precision, n, seed
        draw = np.random.default_rng([seed, n])
        kind = np.dtype(_TYPES[precision])
        scale = n**-0.25  # the entries of the product are then about 1
        self._sets = [tuple(self._matrix(draw, n, kind, scale) for _ in range(3)) for _ in range(sets)]
        self._next = 0

    @staticmethod
    def _matrix(draw: np.random.Generator, n: int, kind: np.dtype[Any], scale: float) -> NDArray[Any]:
        matrix = draw.standard_normal((n, n), dtype=kind.type)
        matrix *= kind.type(scale)
        return matrix

    def call(self) -> None:
        """Multiply the next set."""
        import numpy as np

        a, b, c = self._sets[self._next]
        np.matmul(a, b, out=c)
        self._next = (self._next + 1) % len(self._sets)

    def bare(self) -> Callable[[], object]:
        """One plain call of numpy on one set."""
        import numpy as np

        a, b, c = self._sets[0]
        return lambda: np.matmul(a, b, out=c)

    def check(self) -> Accuracy:
        import numpy as np

        a, b, c = self._sets[self._next - 1]
        rows, columns = sampled_lines(self._n, self._precision, self._seed)
        expected = reference_product(a[rows], b[:, columns], self._precision)
        return compared(c[np.ix_(rows, columns)], expected, self._precision)


# How many threads a BLAS uses is read from these when it is loaded; which of them counts depends on the BLAS.
_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
_LEAD_NS = 2_000_000  # to tell everybody, before they begin
_LEAD_EACH_NS = 100_000
_END_S = 5.0


class WorkerPool:
    """Worker processes; used in a `with` statement, which ends them."""

    def __init__(self, places: Sequence[Sequence[int]], threads: int = 1) -> None:
        """Say for each worker which processors it may use; none where the system decides."""
        self._places = places
        self._threads = threads
        self._workers: list[subprocess.Popen[str]] = []

    def __enter__(self) -> WorkerPool:
        environment = os.environ | dict.fromkeys(_THREADS, str(self._threads))
        command = [sys.executable, "-m", "assay.hardware.bench.cpu_workers"]
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

    def call_all(self, **command: object) -> list[dict[str, Any]]:
        """Tell all workers the same and collect their answers."""
        return self.call_each([command] * len(self._workers))

    def call_each(self, commands: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        for worker, command in zip(self._workers, commands, strict=True):
            _send(worker, command)
        answers = [_answer(worker) for worker in self._workers]
        failed = next((answer for answer in answers if "failed" in answer), None)
        if failed is not None:
            raise MemoryError(failed["failed"]) if failed["memory"] else RuntimeError(failed["failed"])
        return answers

    def timed(self, calls: int) -> float:
        """Seconds from the first worker's start to the last one's end, for this many calls by each."""
        return self._block(calls, bare=False)

    def bare(self, calls: int) -> float:
        """The same with plain calls of numpy."""
        return self._block(calls, bare=True)

    def check(self) -> Accuracy:
        checks = [Accuracy(answer["error"], answer["tolerance"]) for answer in self.call_all(do="check")]
        return max(checks, key=lambda check: (bool(check.wrong), check.error))

    def death(self) -> str:
        """Why a worker is gone; empty while all are there."""
        dead = next((worker for worker in self._workers if worker.poll() is not None), None)
        return _death(dead) if dead is not None else ""

    def close(self) -> None:
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
        answers = self.call_all(do="block", calls=calls, start_ns=start, bare=bare)
        begin, end = min(answer["begin_ns"] for answer in answers), max(answer["end_ns"] for answer in answers)
        return float(end - begin) / 1e9


def _send(worker: subprocess.Popen[str], command: dict[str, Any]) -> None:
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
        except Exception as problem:  # reported, not raised: the crew decides
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
    wait_ns = start_ns - time.perf_counter_ns()
    if wait_ns > _AWAKE_NS:
        time.sleep((wait_ns - _AWAKE_NS) / 1e9)
    while time.perf_counter_ns() < start_ns:
        pass


def serve(commands: IO[str], answers: IO[str]) -> None:
    station = Worker()
    for line in commands:
        answers.write(json.dumps(station.answer(json.loads(line))) + "\n")
        answers.flush()


def main(arguments: list[str]) -> int:
    if arguments and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(cpu) for cpu in arguments[0].split(",")})
    import numpy as np  # after the affinity: a BLAS counts its cores when it is loaded

    sys.stdout.write(json.dumps({"ready": True, "numpy": np.__version__}) + "\n")
    sys.stdout.flush()
    serve(sys.stdin, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
