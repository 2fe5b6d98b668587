"""A no-op under the fixture of pytest-benchmark: one call per sample, or as it chooses by default.

python noop_pytest_benchmark.py one|default CALLS
"""

import json
import os
import sys
import tempfile
from pathlib import Path
from time import perf_counter_ns

import pytest


def nothing() -> None:
    return None


def test_one(benchmark) -> None:
    begin = perf_counter_ns()
    benchmark.pedantic(nothing, rounds=int(os.environ["BENCH_CALLS"]), iterations=1)
    keep(benchmark, perf_counter_ns() - begin)


def test_default(benchmark) -> None:
    begin = perf_counter_ns()
    benchmark(nothing)
    keep(benchmark, perf_counter_ns() - begin)


def keep(benchmark, wall_ns: int) -> None:
    seen = benchmark.stats
    calls = seen.stats.rounds * seen.iterations
    answer = {
        "reported_ns": seen.stats.median * 1e9,
        "wall_ns": wall_ns / calls,
        "rounds": seen.stats.rounds,
        "iterations": seen.iterations,
    }
    Path(os.environ["BENCH_ANSWER"]).write_text(json.dumps(answer))


def main(kind: str, calls: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder, "answer.json")
        os.environ |= {"BENCH_CALLS": calls, "BENCH_ANSWER": str(answer)}
        alone = ["-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", folder]
        failed = pytest.main([*alone, f"{__file__}::test_{kind}"])
        print("\n" + answer.read_text())
    return failed


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
