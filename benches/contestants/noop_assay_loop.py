"""A no-op in assay's single-stream loop, in blocks as `drive` takes them."""

import json
import sys
from time import perf_counter_ns

import numpy as np

from assay.run.load.in_process import MAX_BLOCK, single_stream
from assay.run.load.timing import Stopwatch, quiet_collector


def nothing() -> None:
    return None


def main(calls: int) -> None:
    watch = Stopwatch(calls)
    with single_stream(nothing) as block, quiet_collector():
        block(Stopwatch(), 30_000)
        begin = perf_counter_ns()
        while watch.count < calls:
            block(watch, min(MAX_BLOCK, calls - watch.count))
        wall_ns = perf_counter_ns() - begin
    print(json.dumps({"reported_ns": float(np.median(watch.durations_ns)), "wall_ns": wall_ns / calls}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
