"""`python -m assay.engines.slurm.node.task FOLDER GROUP PLACE`: one job on a node; PLACE is its index in the group.

It waits for the services of its group and for the clients that share its load, then measures the job document and
leaves the result beside it. A job that cannot be begun leaves a result that says why.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path

from assay.engines.node import (
    CONTROL,
    ENDED_BY_SIGNAL,
    NOT_MEASURED,
    ProgressView,
    TerminationRequest,
    TerminationWatch,
    begin_together,
    give_up_all,
    meeting_places,
    write_progress,
)
from assay.engines.slurm.folder import SharedFolder
from assay.engines.slurm.node.context import job_at, read_known
from assay.engines.slurm.node.monitor import watched
from assay.engines.slurm.node.publication import await_services
from assay.engines.slurm.plan import Group
from assay.errors import NOT_KEPT, AssayError, MeasureError
from assay.exec.document import execute_document, refuse_document
from assay.plan.job import Job, is_part
from assay.report.live import View
from assay.run.load.barrier import Meeting, forget_absences
from assay.spec.target import ServiceTarget

# Set by Slurm in a job that was put back into the queue, to how often.
_RESTARTS = "SLURM_RESTART_COUNT"


def main(arguments: list[str]) -> int:
    """Measure one job of a group.

    Args:
        arguments: shared folder, group, place in the group; in a step the number of the task is the place.
    """
    folder = SharedFolder(Path(arguments[0]))
    place = int(arguments[2] if len(arguments) > 2 else os.environ.get("SLURM_PROCID", "0"))
    watchman = TerminationWatch()
    watchman.listen()
    try:
        group = read_known(folder).group(arguments[1])
        return _measured(folder, group, job_at(folder, group, place), watchman)
    except TerminationRequest as why:
        sys.stderr.write(f"ended: {why}\n")
        return ENDED_BY_SIGNAL
    except AssayError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


def _measured(folder: SharedFolder, group: Group, job: Job, watchman: TerminationWatch) -> int:
    meeting = meeting_of(folder, group.name, job)
    why = "its job was ended"
    view = ProgressView(partial(write_progress, folder.progress(job.index)))
    try:
        if meeting is not None:
            clear_absences(meeting, job.definition.measure.least_runs)
        # The services of the group, once they are ready on their nodes; the job's own node starts the others itself
        elsewhere = {service.name: job.definition.services[service.name] for service in group.services}
        services = await_services(folder, group.name, elsewhere, notify=view.note, unless=watchman.check)
        own = [name for name in job.definition.services if name not in services]
        with watched(
            folder,
            {"job": job.id},
            who=f"{group.name}-{job.index:04}",
            services=own,
            paths=_paths(job, own),
            notify=view.note,
        ):
            _begin(job, meeting, view)
            result = execute_document(
                folder.job(job.index),
                folder.out(job.index),
                view,
                services=services,
                meeting=meeting,
                control=os.environ.get(CONTROL) != "off",
            )
        why = result.error.message if result.error is not None else "it has ended"
    except MeasureError as problem:
        if problem.problem.code in (*NOT_KEPT, "shared-folder"):
            raise
        why = problem.problem.message
        result = refuse_document(folder.job(job.index), folder.out(job.index), view, problem)
    finally:
        if meeting is not None:
            give_up_all(meeting, job.definition.measure.least_runs, why)
    return 0 if result.state == "done" else NOT_MEASURED


def meeting_of(folder: SharedFolder, group: str, job: Job) -> Meeting | None:
    """Where a job meets those that share its load; None for a job that drives its load alone."""
    if not is_part(job.definition):
        return None
    return Meeting(str(folder.barrier(group, 0).parent), job.definition.load.host or 0, job.definition.load.hosts)


def clear_absences(meeting: Meeting, runs: int, environ: Mapping[str, str] | None = None) -> None:
    """Where Slurm has put this job back into the queue, forget who gave up before: they may come again too."""
    if int((os.environ if environ is None else environ).get(_RESTARTS) or 0):
        for place in meeting_places(meeting, runs):
            forget_absences(place)


def _paths(job: Job, own: Collection[str]) -> dict[str, str]:
    """Where the metrics of the services that this node starts are, if the file says so."""
    target = job.definition.target
    mine = isinstance(target, ServiceTarget) and target.service in own
    return {target.service: target.metrics} if mine and isinstance(target, ServiceTarget) and target.metrics else {}


def _begin(job: Job, meeting: Meeting | None, view: View) -> None:
    """Wait until the clients that share the load are there, at most as long as all runs of this one may take."""
    if meeting is None:
        return
    view.note(f"client {meeting.who} of {meeting.of} waits for the others")
    met = begin_together(meeting, job.definition.longest_s)
    view.note(f"all {meeting.of} clients are there after {met.waited_s:.1f} s")


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main(sys.argv[1:]))
