"""One job document turned into one result document, in a folder of its own, without a store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from assay.analyse.judge import judge
from assay.analyse.records import MultiRunJobResult
from assay.campaign import refusal
from assay.clock import SYSTEM_CLOCK
from assay.documents import from_json, to_json
from assay.errors import MeasureError, UsageError
from assay.hardware.environment import environment, machine_state
from assay.hardware.profile import local_profile
from assay.place.engines.local import LocalEngine
from assay.plan.job import Job
from assay.report.live import View
from assay.run.execute import execute_job
from assay.run.records import RunOutcome
from assay.run.scratch import sweep_abandoned
from assay.store.location import cache_folder
from assay.store.samples import SampleFiles, write_whole


def execute_document(path: Path, out: Path, view: View) -> MultiRunJobResult:
    """Measure a job document; `out` gets `result.json` and `samples/` by content hash."""
    job = _read(path)
    files = SampleFiles(out / "samples")
    outcomes: list[RunOutcome] = []

    def keep(outcome: RunOutcome) -> None:
        kept = replace(outcome.result, samples=files.write(outcome.samples))
        outcomes.append(RunOutcome(kept, outcome.samples))
        write_whole(out / "runs" / f"{kept.run_id}.json", to_json(kept, indent=2).encode())

    def execute(job: Job) -> None:
        execute_job(job, cache=cache_folder(), clock=SYSTEM_CLOCK, watch=view, keep=keep)

    sweep_abandoned()
    surrounding = environment(Path(job.base)) | {"before": machine_state()}
    try:
        LocalEngine(local_profile(), execute).place(job)
    except MeasureError as problem:
        outcomes.append(refusal(problem, SYSTEM_CLOCK.utc()))
    finally:
        view.close()
    surrounding |= {"after": machine_state()}
    result = judge(job, outcomes, surrounding, planned_runs=job.definition.measure.runs)
    write_whole(out / "result.json", to_json(result, indent=2).encode())
    return result


def _read(path: Path) -> Job:
    try:
        return from_json(Job, path.read_bytes(), source=str(path))
    except OSError as problem:
        raise UsageError(f"cannot read the job document: {problem.strerror}", code="no-file", at=str(path)) from None
