"""What the nodes left in the folder of a campaign, taken into the store: runs, samples, files, logs, the judged result.

A job without a result is one too: what was measured of it stays, and how Slurm or Kubernetes says that it ended is its
failure.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol

from pydantic import JsonValue

from assay.analyse.records import MultiRunJobResult
from assay.documents import to_json
from assay.engines.base import FailureReason
from assay.errors import StoreError
from assay.exec.folder import RESULT, ResultFolder
from assay.plan.job import FINAL, Job
from assay.run.records import Failure, RunOutcome, SampleSet, SingleRunResult, unmeasured_run
from assay.run.scratch import FOLDER, gather, scratch_folder
from assay.spec.references import references
from assay.store.store import Store

_TAIL_LINES = 20
_TAIL_BYTES = 16_384
_GONE = "its file is damaged, or did not come from where it was measured"


class ResultFolders(Protocol):
    """Where the nodes left what they measured."""

    def out(self, index: int) -> Path:
        """The folder of one job."""
        ...


class ExecutionRecord(Protocol):
    """When a job ran and how its process ended; None means unknown."""

    @property
    def started_at(self) -> datetime | None: ...

    @property
    def ended_at(self) -> datetime | None: ...

    @property
    def exit_code(self) -> int | None: ...

    @property
    def signal(self) -> int | None: ...

    @property
    def elapsed_s(self) -> float | None: ...

    @property
    def memory_max_bytes(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class Termination:
    """How the batch job or the pod of a job ended."""

    execution: ExecutionRecord | None
    """What Slurm or Kubernetes tells; None where it does not remember."""
    reason: FailureReason | None
    """Why there is no result; None where nothing went wrong."""
    logs: Mapping[str, Path]
    """What the job wrote around its runs: `slurm.out` and `slurm.err`, or `pod.log` → the file."""
    environment: Mapping[str, JsonValue]
    """What is known about the job and the services that it used."""
    cancelled: bool = False
    """The campaign was cancelled on purpose."""
    final: bool = False
    """Nothing more can come from where it was measured: missing samples are noted, and not waited for."""
    elapsed_s: float | None = None
    """How long it took, where there is no `execution` that tells."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """File below the folder of the job → why it did not come, where that is known."""


def has_result(folder: ResultFolders, job: Job) -> bool:
    return (folder.out(job.index) / RESULT).is_file()


def read_result(folder: ResultFolders, job: Job) -> MultiRunJobResult | None:
    """The result that a job left; None where there is none, or only that of another job."""
    result = ResultFolder.at(folder.out(job.index)).result()
    return result if result and result.job == job.id and result.digest == job.digest else None


def collect(store: Store, folder: ResultFolders, job: Job, ended: Termination, now: datetime) -> MultiRunJobResult:
    """Take what a job left into the store, and end it there; runs that the store already has are not taken again."""
    left_result = read_result(folder, job)
    left = ResultFolder.at(folder.out(job.index))
    runs = left_result.runs if left_result is not None else left.runs(job)
    stored_runs = store.runs(job.id)
    with scratch_folder() as scratch:
        files, absent = _logs(job, ended.logs, scratch) if ended.logs else ({}, {})
        outcomes = _outcomes(left, runs, files, absent, ended, known=stored_runs if left_result is not None else ())
        if left_result is None:
            outcomes = [*outcomes, RunOutcome(_lost(outcomes, ended, now), files=files)]
        runs_by_id = {run.run_id: run for run in stored_runs}
        runs_by_id |= {outcome.result.run_id: store.keep_run(job.id, outcome) for outcome in outcomes}
    result = _result(job, left_result, outcomes, runs_by_id, ended)
    _end(store, job, result, ended)
    return result


def _outcomes(
    left: ResultFolder,
    runs: tuple[SingleRunResult, ...],
    logs: Mapping[str, Path],
    absent: Mapping[str, str],
    ended: Termination,
    *,
    known: tuple[SingleRunResult, ...],
) -> list[RunOutcome]:
    """The runs as they are to be kept, without those that are known already."""
    files = left.files
    outcomes = []
    for place, run in enumerate(runs):
        # What was written around the runs belongs to all of them alike; it is kept with the first.
        more = dict(logs) if place == 0 else {}
        if run in known and not more:
            continue
        there = {name: files.path(digest) for name, digest in run.files.items() if files.is_whole(digest)}
        gone = {
            name: ended.missing.get(files.path(digest).relative_to(left.path).as_posix(), _GONE)
            for name, digest in run.files.items()
            if name not in there
        }
        own = {**dict(run.absent), **gone, **(absent if place == 0 else {})}
        samples, why = _samples(left, run, ended)
        own |= {"samples": why} if why else {}
        outcomes.append(RunOutcome(replace(run, absent=own), samples, {**more, **there}))
    return outcomes


def _samples(left: ResultFolder, run: SingleRunResult, ended: Termination) -> tuple[tuple[SampleSet, ...], str]:
    """The samples of a run, or why they are not here; its figures stand without them."""
    if not run.samples:
        return (), ""
    try:
        return left.samples.read(run.samples), ""
    except StoreError as problem:
        if not ended.final:
            raise
        reason = ended.missing.get(left.samples.path(run.samples).relative_to(left.path).as_posix())
        return (), reason or f"they did not come from where they were measured: {problem.problem.message}"


def _lost(outcomes: list[RunOutcome], ended: Termination, now: datetime) -> SingleRunResult:
    """The run that was in progress, or never began, when the batch job ended."""
    reason = ended.reason or FailureReason(
        "slurm-failed", "the batch job ended and left no result", "look into its log: assay logs"
    )
    execution = ended.execution
    failure = Failure(
        reason.code,
        reason.message,
        phase="",
        exit_code=(execution.exit_code or None) if execution and not execution.signal else None,
        signal=str(execution.signal) if execution and execution.signal else None,
        memory_mb=execution.memory_max_bytes / 2**20 if execution and execution.memory_max_bytes else None,
        log_tail=_tail(ended.logs),
        try_=reason.try_,
    )
    began = (execution.started_at if execution else None) or now
    run_ids = {outcome.result.run_id for outcome in outcomes}
    return unmeasured_run(failure, run_ids, began, (execution.ended_at if execution else None) or now)


def _result(
    job: Job,
    result: MultiRunJobResult | None,
    outcomes: list[RunOutcome],
    kept: Mapping[int, SingleRunResult],
    ended: Termination,
) -> MultiRunJobResult:
    own = {**ended.environment}
    if result is not None:
        runs = tuple(kept[run.run_id] for run in result.runs)
        return replace(result, runs=runs, environment={**result.environment, **own})
    from assay.analyse.judge import judge  # it brings numpy, which following a campaign does not need

    whole = [replace(outcome, result=kept[outcome.result.run_id]) for outcome in outcomes]
    result = judge(job, whole, own, planned_runs=job.definition.measure.least_runs)
    cancelled = ended.cancelled and result.state == "failed"
    return replace(result, state="cancelled") if cancelled else result


def _end(store: Store, job: Job, result: MultiRunJobResult, ended: Termination) -> None:
    state = store.job_state(job.id)
    if state in FINAL:
        store.replace_result(job.id, verdict=result.verdict, result=to_json(result))
        return
    if state == "pending":
        store.move_job(job.id, "start")
    event: Literal["finish", "fail", "cancel"] = (
        "finish" if result.state == "done" else "cancel" if result.state == "cancelled" else "fail"
    )
    elapsed = ended.execution.elapsed_s if ended.execution else ended.elapsed_s
    seconds = elapsed or sum(run.duration_seconds for run in result.runs)
    store.end_job(job.id, event, verdict=result.verdict, result=to_json(result), seconds=seconds)


def _logs(job: Job, logs: Mapping[str, Path], scratch: Path) -> tuple[dict[str, Path], dict[str, str]]:
    """What the job wrote around its runs, without secrets and not without bound."""
    (scratch / FOLDER).mkdir()
    missing: dict[str, str] = {}
    for name, path in logs.items():
        try:
            shutil.copyfile(path, scratch / FOLDER / name)
        except FileNotFoundError:
            missing[name] = "there is no such file"
        except OSError as problem:
            missing[name] = f"it cannot be read: {problem.strerror}"
    files, absent = gather(scratch, {}, tuple(references(job.definition.model_dump())))
    # The folder is gone when the store reads again; it reads immediately.
    return files, {**missing, **absent}


def _tail(logs: Mapping[str, Path]) -> tuple[str, ...]:
    """The last lines that the job wrote, errors first of all; those of its services are another story."""
    own = [name for name in logs if not name.startswith("service-")]
    for name in sorted(own, key=lambda log_name: not log_name.endswith(".err")):
        text = tail_of(logs[name])
        if text.strip():
            return tuple(text.splitlines()[-_TAIL_LINES:])
    return ()


def tail_of(path: Path) -> str:
    """The end of a log; empty where there is none."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
