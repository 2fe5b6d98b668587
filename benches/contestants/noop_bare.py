"""A no-op in the plainest timing loop: two clock readings and a list that was made before."""

import json
import statistics
import sys
from time import perf_counter_ns


def nothing() -> None:
    return None


def timed(durations: list[int]) -> None:
    clock = perf_counter_ns
    for index in range(len(durations)):
        start = clock()
        nothing()
        durations[index] = clock() - start


def main(calls: int) -> None:
    timed([0] * 30_000)
    durations = [0] * calls
    begin = perf_counter_ns()
    timed(durations)
    wall_ns = perf_counter_ns() - begin
    print(json.dumps({"reported_ns": statistics.median(durations), "wall_ns": wall_ns / calls}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
