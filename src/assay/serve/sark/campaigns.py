"""SARK's campaigns, jobs and result files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response

from assay.analyse.records import CampaignRecord
from assay.errors import UsageError
from assay.place.fleet.protocol import Submission
from assay.plan.job import Job
from assay.plan.lifecycle import FINAL
from assay.plan.plan import combine
from assay.report.export import render_sark_csv, results_filename
from assay.report.reading import read_campaign
from assay.serve.intake.submission import PlannedSubmission, keep, plan_submission
from assay.serve.sark.errors import SarkRoute, json_body
from assay.serve.sark.records import agent_id, breakdown, campaign_record, job_record, result_record, worker_id
from assay.serve.state import ServerState, state_of
from assay.serve.web.access import Answers, User, readers
from assay.spec.devices import compute_unit
from assay.spec.importers.sark import benchmarks_of
from assay.spec.target import ModelTarget
from assay.store.listing import JobFilter
from assay.store.records import CampaignSummary, JobSummary
from assay.store.samples import write_whole

router = APIRouter(prefix="/api", tags=["SARK"], route_class=SarkRoute)

State = Annotated[ServerState, Depends(state_of)]
Body = Annotated[dict[str, Any], Depends(json_body)]
ORIGIN = "sark"
OUTPUTS = "outputs"
_CSV: Answers = {
    200: {"content": {"text/csv": {"schema": {"type": "string"}}}},
    404: {"description": "There are no results."},
}


@router.post("/campaigns", operation_id="sark_create_campaign", summary="Create a campaign")
def create(state: State, body: Body, user: User) -> dict[str, Any]:
    """One job per entry of `jobs`, equal ones included; an agent that has the compute unit takes it."""
    plan = keep(state, _planned(state, body, user.name))
    jobs = [{"job_id": job.id, "compute_unit": _unit(job), "status": "pending"} for job in plan.jobs]
    return {"campaign_id": plan.jobs[0].campaign, "total_jobs": len(jobs), "status": "running", "jobs": jobs}


@router.get("/campaigns", dependencies=[readers], operation_id="sark_campaigns", summary="List campaigns")
def campaigns(state: State) -> dict[str, Any]:
    """The campaigns that came in by this surface, newest first."""
    found = [_record(state, one) for one in _ours(state)]
    return {"count": len(found), "campaigns": found}


@router.get("/campaigns/{campaign}", dependencies=[readers], operation_id="sark_campaign", summary="One campaign")
def campaign(state: State, campaign: str) -> dict[str, Any]:
    """One campaign with its jobs and how many are in each state."""
    summary = _summary(state, campaign)
    return {**_record(state, summary), "job_breakdown": breakdown(summary)}


@router.get(
    "/campaigns/{campaign}/results",
    dependencies=[readers],
    operation_id="sark_results",
    summary="CSV",
    response_class=Response,
    responses=_CSV,
)
def results(state: State, campaign: str) -> Response:
    """The results of a campaign as CSV; of an unfinished one, those that are there."""
    record = _ended(read_campaign(state.kept.store, _summary(state, campaign).id))
    if not record.jobs:
        raise UsageError("No results available for this campaign yet", code="unknown-result")
    return _csv(render_sark_csv(record), f"{record.campaign}_results.csv")


@router.get(
    "/results/all",
    dependencies=[readers],
    operation_id="sark_all_results",
    summary="All results as CSV",
    response_class=Response,
    responses=_CSV,
)
def all_results(state: State) -> Response:
    """Every result that came in by this surface, in one CSV file."""
    records = [_ended(read_campaign(state.kept.store, one.id)) for one in _ours(state)]
    records = [record for record in records if record.jobs]
    if not records:
        raise UsageError("No results available", code="unknown-result")
    return _csv(render_sark_csv(*records), f"all_results_{state.clock.utc():%Y%m%d_%H%M%S}.csv")


@router.get("/results/files", dependencies=[readers], operation_id="sark_result_files", summary="List result files")
def files(state: State) -> dict[str, Any]:
    """The CSV files of finished campaigns, newest first."""
    for one in _ours(state):
        _results_file(state, one)
    folder = state.folder / OUTPUTS
    paths = sorted(folder.glob("*_results.csv"), key=lambda path: path.stat().st_mtime, reverse=True)
    found = [_file_record(path) for path in paths]
    return {"count": len(found), "files": found}


@router.get(
    "/results/download/{filename:path}",
    dependencies=[readers],
    operation_id="sark_download",
    summary="Download a result file",
    response_class=Response,
    responses=_CSV,
)
def download(state: State, filename: str) -> Response:
    """One CSV file by its name; a name is compared with those that are there and never becomes a path."""
    if ".." in filename or filename.startswith(("/", "\\")):
        raise UsageError("Invalid filename", code="filename")
    folder = state.folder / OUTPUTS
    known = {path.name: path for path in folder.glob("*_results.csv")} if folder.is_dir() else {}
    if filename not in known:
        raise UsageError("File not found", code="unknown-file")
    return _csv(known[filename].read_text(encoding="utf-8"), filename)


@router.get("/jobs/{job}", dependencies=[readers], operation_id="sark_job", summary="One job")
def job(state: State, job: str) -> dict[str, Any]:
    """One job and its result, which is null until it ended."""
    try:
        detail = state.kept.listing.job(job)
    except UsageError:
        raise UsageError("Job not found", code="unknown-job") from None
    summary = detail.summary
    result = None
    if summary.state in FINAL:
        record = read_campaign(state.kept.store, summary.campaign)
        chosen = next(one for one in record.jobs if one.job == job)
        result = result_record(record, chosen, worker_id(summary.agent) if summary.agent else None)
    return {"job": job_record(summary, detail.job, summary.fence), "result": result}


def _planned(state: ServerState, body: dict[str, Any], by: str) -> PlannedSubmission:
    """Every job planned on its own, because equal ones stay apart, then joined into one campaign."""
    parts = []
    for document in benchmarks_of(body):
        worker = document.get("needs", {}).get("agent", "")
        submission = Submission(document=document, agent=agent_id(worker))
        parts.append(plan_submission(state, submission, by=by, origin=ORIGIN))
    first = parts[0]
    document = {**body, "benchmark": first.plan.benchmark}
    return replace(first, plan=combine([part.plan for part in parts]), document=document)


def every_campaign(state: ServerState, origin: str = "") -> Iterator[CampaignSummary]:
    """All campaigns, page by page; only those of an origin, if one is given."""
    cursor = None
    while True:
        page = state.kept.listing.campaigns(origin=origin, cursor=cursor, limit=500)
        yield from page.items
        cursor = page.next
        if cursor is None:
            return


def _ours(state: ServerState) -> Iterator[CampaignSummary]:
    return every_campaign(state, ORIGIN)


def _summary(state: ServerState, campaign: str) -> CampaignSummary:
    try:
        return state.kept.listing.campaign(campaign)
    except UsageError:
        raise UsageError("Campaign not found", code="unknown-campaign") from None


def _record(state: ServerState, summary: CampaignSummary) -> dict[str, Any]:
    _, stored = state.kept.store.campaign(summary.id)
    known = {one.id: one for one in _jobs(state, summary.id)}
    jobs = [job_record(known[one.job.id], one.job, known[one.job.id].fence) for one in stored]
    created = datetime.fromisoformat(summary.created_at).timestamp()
    path = _results_file(state, summary)
    return dict(campaign_record(summary, jobs, created, path.name if path else None))


def _jobs(state: ServerState, campaign: str) -> Iterator[JobSummary]:
    cursor = None
    while True:
        page = state.kept.listing.jobs(JobFilter(campaign=campaign), cursor=cursor, limit=500)
        yield from page.items
        cursor = page.next
        if cursor is None:
            return


def _results_file(state: ServerState, summary: CampaignSummary) -> Path | None:
    """The CSV file of a finished campaign, written when it is first asked for."""
    if summary.completed_at is None or summary.state == "running":
        return None
    path = state.folder / OUTPUTS / results_filename(summary.id, datetime.fromisoformat(summary.completed_at))
    if not path.exists():
        write_whole(path, render_sark_csv(read_campaign(state.kept.store, summary.id)).encode())
    return path


def _file_record(path: Path) -> dict[str, Any]:
    facts = path.stat()
    return {
        "filename": path.name,
        "path": f"{OUTPUTS}/{path.name}",
        "size_bytes": facts.st_size,
        "size_mb": round(facts.st_size / 2**20, 2),
        "modified": facts.st_mtime,
    }


def _ended(record: CampaignRecord) -> CampaignRecord:
    return replace(record, jobs=tuple(job for job in record.jobs if job.state in FINAL))


def _unit(job: Job) -> str | None:
    target = job.definition.target
    return compute_unit(target.device) if isinstance(target, ModelTarget) else None


def _csv(text: str, name: str) -> Response:
    return Response(text, media_type="text/csv", headers={"Content-Disposition": f'attachment; filename="{name}"'})
