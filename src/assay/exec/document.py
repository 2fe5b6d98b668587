"""The door of `assay exec`: a job document in, a result folder out. Agents, Slurm tasks and pods come in here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from assay.analyse.records import MultiRunJobResult
from assay.analyse.text import count
from assay.documents import from_json
from assay.errors import AssayError, UsageError
from assay.exec.folder import RESULT, ResultFolder
from assay.exec.runner import JobRunner
from assay.files import read_bounded
from assay.hardware.fitness.lock import mode_from
from assay.hardware.fitness.session import DeviceSession
from assay.place.needs import Profile
from assay.plan.job import Job
from assay.report.live import View
from assay.report.wording import label_of
from assay.run.capabilities import profile_for
from assay.run.load.barrier import Meeting
from assay.run.scratch import sweep_abandoned
from assay.run.services import RunningService
from assay.store.location import cache_folder

__all__ = ["RESULT", "execute_document", "refuse_document"]

_LARGEST_JOB = 64 * 2**20


def execute_document(
    path: Path,
    out: Path,
    view: View,
    *,
    fresh: bool = False,
    lock: str | None = None,
    control: bool = True,
    services: Mapping[str, RunningService] | None = None,
    meeting: Meeting | None = None,
) -> MultiRunJobResult:
    """Measure a job document; `out` gets `result.json`, whole or not at all, `samples/` and `files/` by content hash.

    Runs of the same job that an interrupted process left in `out` are kept. While another process measures
    into the same folder, this one waits for it.

    Args:
        lock: what to do about a device on which another process measures: `wait`, `try` or `off`; from ASSAY_LOCK, else
            `wait`, when left out.
        services: those of the job's services that already run, on this machine or another; they are not started.
        meeting: where the machines that share the job's load meet before each run.
    """
    job, folder = _read(path), ResultFolder.at(out)
    devices = DeviceSession(mode_from(lock), cache_folder(), view.waiting, control=control)
    try:
        with folder.hold(lambda: _note_wait(view, out)):
            result = folder.result() if folder.claim(job, fresh=fresh) else None
            if result is None:
                view.job(job.id, label_of(job), 0, 1)
                if runs := folder.take_up(job):
                    view.note(f"resumed: {count(len(runs), 'run')} of this job were kept")
                runner = JobRunner(view, devices)
                sweep_abandoned()
                result = runner.measure(job, folder, _profile(job), services=services, meeting=meeting)
            else:
                view.note("this job was measured here before; its result stands")
            view.job_done(result)
    finally:
        view.close()
    return result


def refuse_document(path: Path, out: Path, view: View, problem: AssayError) -> MultiRunJobResult:
    """The result of a job that could not even be begun, because something that it needs elsewhere is not there.

    Runs of the same job that were measured before stay.
    """
    job, folder = _read(path), ResultFolder.at(out)
    try:
        with folder.hold(lambda: _note_wait(view, out)):
            result = folder.result() if folder.claim(job) else None
            if result is None:
                folder.take_up(job)
                result = JobRunner(view, DeviceSession("off", cache_folder(), view.note)).refuse(job, folder, problem)
            view.job_done(result)
    finally:
        view.close()
    return result


def _note_wait(view: View, out: Path) -> None:
    view.note(f"another process measures into {out}; waiting for it")


def _profile(job: Job) -> Profile:
    """This machine, under the name and labels that the job asks for: the engine that sent it here has settled these."""
    needs = job.definition.needs
    here = profile_for([job])
    return replace(here, name=needs.agent or here.name, labels={**here.labels, **needs.labels})


def _read(path: Path) -> Job:
    try:
        return from_json(Job, read_bounded(path, _LARGEST_JOB), source=str(path))
    except OSError as problem:
        raise UsageError(f"cannot read the job document: {problem.strerror}", code="no-file", at=str(path)) from None
