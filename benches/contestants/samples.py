"""One million samples stored, read back and summarised, in a fresh process: `python samples.py FOLDER SEED`."""

import json
import sys
from pathlib import Path
from time import perf_counter

import numpy as np

from assay.analyse.summary import summarise
from assay.run.records import SampleSet
from assay.store.samples import SampleFiles

COUNT, RUNS = 1_000_000, 5


def main(folder: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = np.round(np.exp(0.1 * rng.standard_normal(COUNT)) * 1e6) / 1e6  # times have whole nanoseconds
    at_ns = np.cumsum((values * 1e6).astype(np.int64) + 200)
    files = SampleFiles(folder)
    marks = [perf_counter()]
    digest = files.write([SampleSet("latency_ms", "measure", at_ns, values)])
    marks.append(perf_counter())
    (back,) = files.read(digest)
    marks.append(perf_counter())
    by_run = dict(enumerate(np.split(back.value, RUNS)))
    begin = perf_counter()
    summary = summarise("latency_ms", "ms", "lower", by_run)
    summarise_s = perf_counter() - begin
    if summary.count != COUNT or not np.array_equal(back.value, values) or not np.array_equal(back.at_ns, at_ns):
        sys.exit("what was read back is not what was stored")
    store_s, read_s = np.diff(marks)
    size_bytes = files.path(digest).stat().st_size
    print(json.dumps({"store_s": store_s, "read_s": read_s, "summarise_s": summarise_s, "size_bytes": size_bytes}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
