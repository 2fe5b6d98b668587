"""What `assay run` on this machine adds to jobs that do nothing, and how long it takes until the first of them runs."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time, time
from unittest.mock import patch

from assay.api.run import run
from benches.page import Page, Table

_TITLE = "Campaigns on this machine"
_ABOUT = """\
Campaigns of jobs whose program is `true`, one run each, without probe, lock and control workload. Every run is a fresh
measuring process that starts the program, so most of the wall time is that of starting Python; what the campaign itself
adds is the processor time of the process that runs it. Both must not grow with the number of jobs."""
_SIZES = (10, 100, 1_000, 5_000)
_STARTS = 5


@dataclass(frozen=True, slots=True)
class Cost:
    """Per job of one campaign."""

    jobs: int
    wall_s: float
    own_cpu_s: float
    """Of the process that runs the campaign."""
    child_cpu_s: float
    """Of the measuring processes."""


def bench(*, quick: bool = False) -> Page:
    """Run campaigns of growing size, then start one a few times."""
    with tempfile.TemporaryDirectory(prefix="assay-bench-campaigns-") as name:
        folder = Path(name)
        environ = {"ASSAY_LOCK": "off", "ASSAY_CONTROL": "off", "ASSAY_CACHE": str(folder / "cache")}
        with patch.dict(os.environ, environ):
            _campaign(folder, 2)  # imports, the migrated store and the caches of this machine's facts
            costs = [_campaign(folder, jobs) for jobs in (_SIZES[:1] if quick else _SIZES)]
            starts = [_start_s(folder, number) for number in range(1 if quick else _STARTS)]
    return Page("campaigns", _TITLE, _ABOUT, [_cost_table(costs), _start_table(starts)])


def _campaign(folder: Path, jobs: int) -> Cost:
    measure = {"runs": 1, "control": False, "probe": "off"}
    document = {
        "benchmark": f"no-op-{jobs}",
        "target": {"command": "true"},
        "measure": measure,
        "matrix": {"target.env.NUMBER": [str(number) for number in range(jobs)]},
    }
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall, cpu = perf_counter(), process_time()
    result = run(document, store=folder / "store")
    wall, cpu = perf_counter() - wall, process_time() - cpu
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if result.record.state != "done":
        raise RuntimeError(f"the campaign of {jobs} jobs ended as {result.record.state}: {result}")
    child = after.ru_utime + after.ru_stime - children.ru_utime - children.ru_stime
    return Cost(jobs, wall / jobs, cpu / jobs, child / jobs)


def _start_s(folder: Path, number: int) -> float:
    """From the start of `assay run` until the program of its first run runs."""
    stamp, file = folder / f"stamp-{number}", folder / f"start-{number}.yaml"
    file.write_text(
        f"benchmark: start-{number}\ntarget: {{command: 'date +%s.%N > {stamp}', shell: true}}\n"
        "measure: {runs: 1, control: false, probe: 'off'}\n"
    )
    begin = time()
    command = [sys.executable, "-m", "assay", "run", str(file), "--store", str(folder / "store"), "--quiet"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return float(stamp.read_text()) - begin


def _cost_table(costs: list[Cost]) -> Table:
    rows = [
        [f"{cost.jobs:,}", *(f"{value * 1e3:.1f}" for value in (cost.wall_s, cost.own_cpu_s, cost.child_cpu_s))]
        for cost in costs
    ]
    heads = ["jobs", "wall ms per job", "own processor ms per job", "measuring processes, processor ms per job"]
    return Table("Cost per job", heads, rows)


def _start_table(starts: list[float]) -> Table:
    row = [f"{len(starts)}", f"{statistics.median(starts):.2f}", f"{min(starts):.2f}", f"{max(starts):.2f}"]
    return Table("Start to first run", ["starts", "median s", "least s", "most s"], [row])
