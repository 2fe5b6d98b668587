"""Where the clients of a group meet: once when their jobs have begun, and again right before the load of each run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from assay.engines.slurm.folder import Folder
from assay.errors import MeasureError
from assay.plan.job import Job
from assay.plan.parts import is_part
from assay.run.load.barrier import Meeting, Met, forget_absences, give_up, meet

__all__ = ["Meeting", "Met", "begin_anew", "begin_together", "give_up", "give_up_all", "meet", "meeting_of"]

# Set by Slurm in a job that was put back into the queue, to how often.
_RESTARTS = "SLURM_RESTART_COUNT"
# Jobs of a batch system begin when there is room for them; this meeting only sees to it that all have begun.
_FIRST_LEAD_S = 0.0


def meeting_of(folder: Folder, group: str, job: Job) -> Meeting | None:
    """Where a job meets those that share its load; None for a job that drives its load alone."""
    if not is_part(job.definition):
        return None
    return Meeting(str(folder.barrier(group, 0).parent), job.definition.load.host or 0, job.definition.load.hosts)


def begin_together(meeting: Meeting, within_s: float) -> Met:
    """Wait until the jobs of all clients have begun; their times in the queue may be far apart.

    A client whose job is run again after a failure finds that the others have begun: it joins them at the next run.

    Raises:
        MeasureError: if one did not come.
    """
    place = meeting.of_jobs()
    try:
        return meet(place, meeting.who, meeting.of, within_s, lead_s=_FIRST_LEAD_S)
    except MeasureError as problem:
        if problem.problem.code != "barrier-missed":
            raise
        return Met(meeting.of, 0, 0.0, 0.0, None)


def begin_anew(meeting: Meeting, runs: int, environ: Mapping[str, str] | None = None) -> None:
    """Where Slurm has put this job back into the queue, forget who gave up before: they may come again too."""
    if int((os.environ if environ is None else environ).get(_RESTARTS) or 0):
        for place in _places(meeting, runs):
            forget_absences(place)


def give_up_all(meeting: Meeting, runs: int, why: str) -> None:
    """Say at every meeting to which this client has not come that it will not."""
    for place in _places(meeting, runs):
        give_up(place, meeting.who, why)


def _places(meeting: Meeting, runs: int) -> list[Path]:
    return [meeting.of_jobs(), *(meeting.of_run(run) for run in range(runs))]
