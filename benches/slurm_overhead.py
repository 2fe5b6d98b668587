"""What an array of short jobs costs on Slurm through assay, beside plain sbatch of the same commands."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, sleep
from unittest.mock import patch

from tests.support.slurm_cluster import PATH, SlurmCluster
from tests.support.slurm_cluster import lacking as absent

from assay.api.run import run
from assay.engines.slurm.commands import CommandLine
from assay.report.live import SilentView
from assay.spec.load import load
from benches.page import Page, Table

_TITLE = "Short jobs on Slurm"
_ABOUT = """\
An array of jobs that each print one line: how long it takes from the first command on the login node until every
result is there, beside plain `sbatch --array` of the same commands, which keeps no results at all. One Slurm on this
machine with six virtual nodes of four processors each; everything shares the machine's real cores."""
_LINE = "x=1"
_POLL_S = 0.1
# A measuring process and what it starts: with 150 MiB, Slurm ended some of them.
_MEMORY_MB = 400
_PATIENCE_S = 1_200.0


@dataclass(frozen=True, slots=True)
class Seen:
    """One way to get the jobs done."""

    submitted_s: float
    """Until Slurm had all of them."""
    done_s: float
    """Until the last had ended and, where there are results, all were in."""
    submissions: int
    results: str


def bench(*, quick: bool = False) -> Page:
    """Take the same jobs through Slurm by hand and through assay."""
    jobs = 12 if quick else 200
    if why := absent():
        return Page("slurm", _TITLE, _ABOUT, [Table("Array", ["way", "figure"], [["all", f"not measured: {why}"]])])
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="assay-bench-slurm-")))
        (folder / "slurm").mkdir()
        cluster = SlurmCluster(folder / "slurm")
        stack.callback(cluster.stop)
        cluster.start()
        environ = {
            "SLURM_CONF": str(cluster.conf),
            "PATH": PATH,
            "ASSAY_LOCK": "off",
            "ASSAY_CONTROL": "off",
            "ASSAY_CACHE": str(folder / "cache"),
        }
        stack.enter_context(patch.dict(os.environ, environ))
        seen = {
            "plain `sbatch --array`": _plain(cluster, folder, jobs, f"echo {_LINE}"),
            "**assay run**": _assay(folder, jobs),
        }
        written = next((folder / "store" / "clusters").glob("*/jobs"))
        by_hand = (
            f"{sys.executable} -m assay exec {written}/$(printf %04d $SLURM_ARRAY_TASK_ID).json --out {folder}/hand"
        )
        hand = folder / "hand"
        seen["plain array of `assay exec`"] = _plain(
            cluster, folder, jobs, f"{by_hand}/$SLURM_ARRAY_TASK_ID", lambda: len(list(hand.glob("*/result.json")))
        )
    return Page("slurm", _TITLE, _ABOUT, [_table(seen, jobs)])


def _plain(
    cluster: SlurmCluster, folder: Path, jobs: int, command: str, results: Callable[[], int] | None = None
) -> Seen:
    begin = perf_counter()
    words = [
        f"--array=0-{jobs - 1}",
        f"--mem={_MEMORY_MB}M",
        f"--output={folder}/plain-%a.out",
        f"--error={folder}/plain-%a.err",
    ]
    cluster.run("sbatch", "--parsable", *words, f"--wrap={command}")
    submitted = perf_counter() - begin
    while cluster.queued():
        if perf_counter() - begin > _PATIENCE_S:
            raise TimeoutError("the array does not end")
        sleep(_POLL_S)
    done = perf_counter() - begin
    return Seen(submitted, done, 1, "none" if results is None else f"{results()} files")


def _assay(folder: Path, jobs: int) -> Seen:
    document = {
        "benchmark": "short",
        "target": {"command": ["/bin/echo", _LINE], "metrics": [{"name": "x", "pattern": "x=(.*)"}]},
        "matrix": {"target.env.N": [str(number) for number in range(jobs)]},
        "measure": {"runs": 1, "timeout": "5m"},
        "place": {"engine": "slurm", "slurm": {"memory": f"{_MEMORY_MB}MiB"}},
    }
    begin = perf_counter()
    submitted: list[float] = []
    submit = CommandLine.submit

    def timed(self: CommandLine, script: Path, **more: object) -> str:
        number = submit(self, script, **more)  # type: ignore[arg-type]
        submitted.append(perf_counter() - begin)
        return number

    with patch.object(CommandLine, "submit", timed):
        result = run(load(document, base=folder), store=folder / "store", view=SilentView())
    done = perf_counter() - begin
    good = sum(job.state == "done" and job.metrics["x"].median == 1 for job in result.jobs)
    why = sorted({job.error.code for job in result.jobs if job.error is not None})
    lacking = "" if good == jobs else f", **fail**: {', '.join(why) or 'another number'}"
    return Seen(submitted[-1], done, len(submitted), f"{good} of {jobs} judged, in the store{lacking}")


def _table(seen: dict[str, Seen], jobs: int) -> Table:
    base = next(iter(seen.values()))
    rows = [
        [
            name,
            str(one.submissions),
            f"{one.submitted_s:.2f}",
            f"{one.done_s:.1f}",
            f"{1e3 * one.done_s / jobs:,.0f}",
            "" if one is base else f"{1e3 * (one.done_s - base.done_s) / jobs:,.0f}",
            one.results,
        ]
        for name, one in seen.items()
    ]
    columns = [
        "way",
        "sbatch calls",
        "submitted after s",
        "all done after s",
        "ms per job",
        "above plain, ms per job",
        "results",
    ]
    when = "`done` is when Slurm's queue was empty; for assay, when every result was in the store as well"
    why = (
        "`assay exec` by hand measures the same job documents without anything that follows or collects them: what "
        "assay run takes beyond it is the cluster engine's, too little for one round to tell. The rest is a Python "
        "process that measures, with the machine's state before and after, on real cores that 24 of them share here."
    )
    notes = [f"{jobs} jobs, one round each; {when}.", why]
    return Table(f"Array of {jobs} jobs", columns, rows, notes)
