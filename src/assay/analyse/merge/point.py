"""The parts of one point of the matrix become one result, judged like any other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import JsonValue

from assay.analyse.judge import judge
from assay.analyse.merge.overlap import PartRun
from assay.analyse.merge.run import merge_run
from assay.analyse.records import MultiRunJobResult
from assay.plan.job import Job
from assay.run.records import Failure, RunOutcome


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One machine's part of a load: its own result, and what its runs left."""

    host: int
    result: MultiRunJobResult
    runs: tuple[PartRun, ...]


def merge_point(job: Job, parts: Sequence[Part]) -> tuple[MultiRunJobResult, tuple[RunOutcome, ...]]:
    """Put the parts of a load together and judge them as one job.

    Returns:
        The result, and the joined runs with their samples.
    """
    planned = job.definition.measure.runs
    numbers = sorted({run.result.run_id for part in parts for run in part.runs}) or range(planned)
    runs = [run for part in parts for run in part.runs]
    same = {number: [run for run in runs if run.result.run_id == number] for number in numbers}
    outcomes = tuple(_why_missing(merge_run(job, number, found), parts) for number, found in same.items())
    judged = judge(job, outcomes, _environment(parts), planned_runs=planned)
    return replace(judged, job=f"{job.campaign or 'adhoc'}-merged-{job.index}"), outcomes


def _why_missing(outcome: RunOutcome, parts: Sequence[Part]) -> RunOutcome:
    error = outcome.result.error
    if error is None or error.code != "missing-part":
        return outcome
    told = [(part.host, _failure(part.result)) for part in parts if part.result.state != "done"]
    reasons = "; ".join(f"host {host}: {why}" for host, why in told)
    message = f"{error.message} ({reasons})" if reasons else error.message
    return replace(outcome, result=replace(outcome.result, error=replace(error, message=message)))


def _failure(result: MultiRunJobResult) -> str:
    error: Failure | None = result.error
    return error.message if error is not None else f"its job is {result.state}"


def _environment(parts: Sequence[Part]) -> dict[str, JsonValue]:
    machines: list[Mapping[str, JsonValue]] = []
    for part in parts:
        known = part.result.environment.get("machine")
        machines.append(known if isinstance(known, dict) else {})
    names = [str(one.get("name") or "unknown machine") for one in machines]
    return {
        "machine": {"name": f"{len(names)} machines: {', '.join(names)}"},
        "machines": [dict(one) for one in machines],
    }
