"""A benchmark with a schedule becomes one that runs by itself."""

from __future__ import annotations

from dataclasses import replace

from assay.errors import SpecError
from assay.place.fleet.protocol import Submission
from assay.plan.job import JobFile
from assay.serve.intake.submission import Planned
from assay.serve.logs import tell
from assay.serve.state import ServerState
from assay.serve.web.schedules import ScheduleView
from assay.spec.watching import Schedule
from assay.store.firings import Firings
from assay.store.schedules import ScheduleRecord, Schedules


def keep_schedule(
    state: ServerState, planned: Planned, submission: Submission, *, by: str
) -> tuple[ScheduleView, bool]:
    """Make the schedule of a benchmark or change the one of its name; the second part says whether it is new.

    Raises:
        SpecError: if the benchmark has no schedule, or a name that no path can hold.
    """
    name = planned.plan.benchmark
    if planned.document.get("schedule") is None:
        raise SpecError(
            "the benchmark has no schedule",
            code="no-schedule",
            at="schedule",
            try_='add one to the file: schedule: "0 3 * * *"',
        )
    if "/" in name or "\\" in name:
        raise SpecError(f"a schedule's name has no slash; this one is {name!r}", code="name", at="benchmark")
    schedule = Schedule.model_validate(planned.document["schedule"])
    kept = Schedules(state.kept.store.engine, state.clock)
    record, new = kept.keep(name, schedule, _whole(planned, submission), by)
    tell(
        "schedule made" if new else "schedule changed",
        schedule=record.id,
        benchmark=name,
        cron=schedule.cron,
        timezone=schedule.timezone,
        by=by,
    )
    state.changed(jobs=False)
    return seen(state, record), new


def seen(state: ServerState, record: ScheduleRecord) -> ScheduleView:
    """A schedule as it is now, with its newest firing."""
    newest = Firings(state.kept.store.engine, state.clock).newest([record.id])
    return ScheduleView.of(record, newest.get(record.id), state.clock.utc())


def _whole(planned: Planned, submission: Submission) -> Submission:
    """What to submit each time: a stored benchmark as it is now, and the agent that was asked for, written out."""
    files: dict[str, tuple[JobFile, ...]] = {
        text: found for job in planned.plan.jobs for text, found in job.files.items()
    }
    return replace(submission, document=planned.document, benchmark="", version=None, files=files, agent="")
