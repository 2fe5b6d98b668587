"""Values into our own store, as a run each: `python ingest_store.py FOLDER RUNS VALUES SEED`."""

import json
import sys
from pathlib import Path
from time import perf_counter

from ingest_http import samples

from assay.clock import SYSTEM_CLOCK
from assay.plan.plan import make_plan
from assay.run.records import RunOutcome, SingleRunResult
from assay.spec.load import load
from assay.store.store import Store

AT = "2026-01-01T00:00:00.000+00:00"


def main(folder, runs, size, seed):
    store = Store(Path(folder))
    document = {"benchmark": "values", "target": {"model": "squeezenet"}}
    plan = store.create_campaign(make_plan(load(document), lambda _: {}), document, {}, "", SYSTEM_CLOCK)
    job = plan.jobs[0].id
    outcomes = [
        RunOutcome(SingleRunResult(number, False, AT, AT, 1.0), samples(size, seed * runs + number))
        for number in range(runs)
    ]
    store.keep_run(job, RunOutcome(SingleRunResult(runs, False, AT, AT, 1.0), samples(10, 0)))
    begin = perf_counter()
    for outcome in outcomes:
        store.keep_run(job, outcome)
    seconds = perf_counter() - begin
    kept = sum(len(one.value) for run in range(runs) for one in store.samples_of(job, run))
    if kept != runs * size:
        sys.exit(f"{kept} of {runs * size} values were kept")
    print(json.dumps({"seconds": seconds, "values": kept}))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
