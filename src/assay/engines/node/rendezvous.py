"""Where the clients of a load meet: once when their jobs have begun, and again right before the load of each run."""

from __future__ import annotations

from pathlib import Path

from assay.errors import MeasureError
from assay.run.load.barrier import Meeting, Met, give_up, meet

# Jobs of a cluster begin when there is room for them; this meeting only sees to it that all have begun.
_FIRST_LEAD_S = 0.0


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


def give_up_all(meeting: Meeting, runs: int, why: str) -> None:
    """Say at every meeting to which this client has not come that it will not."""
    for place in meeting_places(meeting, runs):
        give_up(place, meeting.who, why)


def meeting_places(meeting: Meeting, runs: int) -> list[Path]:
    """The place of the first meeting, then that of each run."""
    return [meeting.of_jobs(), *(meeting.of_run(run) for run in range(runs))]
