"""The pods of one job that are not its first: their part is to be there, and a job is measured only if all did it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from assay.engines.base import FailureReason
from assay.engines.collect import read_result
from assay.engines.kubernetes.folder import PodFolder
from assay.engines.kubernetes.objects.plan import Group
from assay.exec.document import RESULT
from assay.plan.job import Job


@dataclass(frozen=True, slots=True)
class _Rank:
    """What one other pod of a job left."""

    folder: PodFolder
    rank: int

    def out(self, index: int) -> Path:
        return self.folder.rank_out(index, self.rank)


def refused_by_rank(folder: PodFolder, group: Group, job: Job) -> FailureReason | None:
    """What went wrong in another pod of a job; None where all did their part.

    The first pod's result is then none of the job: what it measured stays in its runs.
    """
    for rank in range(1, group.pods):
        other = read_result(_Rank(folder, rank), job)
        if other is None or other.state == "done":
            continue
        why = other.error.message if other.error is not None else "it measured nothing"
        (folder.out(job.index) / RESULT).unlink(missing_ok=True)
        return FailureReason(
            "kubernetes-rank",
            f"pod {rank} of {group.pods} failed: {why}",
            "look into its log, which is kept with the first run",
        )
    return None
