"""How the jobs of a campaign stand in Slurm, as a server is told: what they wait for, where they run, how far."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from assay.engines.node.progress import read_progress
from assay.engines.slurm.folder import SharedFolder
from assay.engines.slurm.scheduler import BatchState
from assay.engines.slurm.states import WAITING, is_final, waiting_words
from assay.engines.slurm.told import Seen
from assay.place.fleet.protocol import Standing
from assay.plan.job import Job


def standings(seen: Seen, jobs: Iterable[Job], now: datetime) -> Iterator[Standing]:
    """How jobs that have not ended stand; those of which Slurm tells nothing are left out."""
    for job in jobs:
        state = seen.state_of(job)
        if state is None or is_final(state.state):
            continue
        if state.state in WAITING:
            note = f"{waiting_words(state, now)} (batch job {state.key})"
            yield Standing(job.index, "waiting", note, runs=job.definition.measure.runs)
        else:
            yield _running(seen.folder, job, state)


def _running(folder: SharedFolder, job: Job, state: BatchState) -> Standing:
    where = f"on {state.node} (batch job {state.key})" if state.node else f"batch job {state.key}"
    far = read_progress(folder.progress(job.index))
    if far is None:
        return Standing(job.index, "running", where, runs=job.definition.measure.runs)
    return Standing(job.index, "running", where, max(0, far.run - 1), far.of, far.phase, far.share)
