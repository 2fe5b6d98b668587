"""SARK's system and worker paths: what it is, how it does, what waits, who works, and starting over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, cast

from fastapi import APIRouter, Depends, Response

from assay.analyse.records import CampaignRecord
from assay.clock import iso
from assay.errors import StoreError, UsageError
from assay.place.fleet.protocol import AgentState, Heartbeat, Submission
from assay.plan.job import FINAL
from assay.plan.plan import combine
from assay.report.export import render_sark_csv, results_filename
from assay.report.result import read_campaign
from assay.serve.sark.records import (
    WORKER_STATES,
    SarkRoute,
    agent_id,
    breakdown,
    campaign_record,
    capabilities,
    enrolment_of,
    health_record,
    job_record,
    json_body,
    queue_name,
    result_record,
    unit_of,
    worker_id,
    worker_record,
)
from assay.serve.state import ServerState
from assay.serve.submission import PlannedSubmission, keep, plan_submission
from assay.serve.web.access import AgentKey, Answers, State, User, admins, agents, public, readers
from assay.spec.importers.sark import benchmarks_of
from assay.spec.section import COMPUTE_UNITS, compute_unit
from assay.spec.target import ModelTarget
from assay.store.listing import JobFilter, every
from assay.store.records import AgentRecord, CampaignSummary
from assay.store.samples import write_whole
from assay.version import __version__

router = APIRouter(prefix="/api", tags=["SARK"], route_class=SarkRoute)

ORIGIN = "sark"
OUTPUTS = "outputs"
_CSV: Answers = {
    200: {"content": {"text/csv": {"schema": {"type": "string"}}}},
    404: {"description": "There are no results."},
}
_ENDPOINTS = (
    "GET /api/health", "POST /api/reset", "POST /api/register", "GET /api/workers", "GET /api/workers/{id}",
    "PUT /api/workers/{id}/status", "POST /api/workers/{id}/heartbeat", "PUT /api/workers/{id}/reset",
    "GET /api/workers/{id}/health", "GET /api/health/workers", "POST /api/campaigns", "GET /api/campaigns",
    "GET /api/campaigns/{id}", "GET /api/campaigns/{id}/results", "GET /api/results/all", "GET /api/results/files",
    "GET /api/results/download/{filename}", "GET /api/jobs/{id}", "GET /api/queue/status",
    "GET /api/monitoring/stats",
)  # fmt: skip


@router.get("", dependencies=[public], operation_id="sark_root", summary="What this is")
def root() -> dict[str, Any]:
    """What this is and which paths it has."""
    return {"status": "running", "version": __version__, "endpoints": list(_ENDPOINTS)}


@router.get("/health", dependencies=[public], operation_id="sark_health", summary="Health")
def health(state: State) -> dict[str, Any]:
    """Whether the server lives, and whether Redis answers where one is used."""
    now = state.clock.utc().timestamp()
    return {"status": "healthy", "timestamp": now, "redis": {**_redis(state), "timestamp": now}}


@router.get("/queue/status", dependencies=[readers], operation_id="sark_queues", summary="What waits")
def queues(state: State) -> dict[str, Any]:
    """How many jobs wait for each worker and each compute unit."""
    control = state.kept.control
    pinned: dict[str, int] = {}
    units = dict.fromkeys(COMPUTE_UNITS.values(), 0)
    for job, count in control.queued():
        target, agent = job.definition.target, job.definition.needs.agent
        if agent:
            pinned[agent] = pinned.get(agent, 0) + count
        elif isinstance(target, ModelTarget):
            unit = compute_unit(target.device)
            units[unit] = units.get(unit, 0) + count
    return {
        "worker_queues": {
            worker_id(worker.id): {
                "device_name": worker.name,
                "queue_size": pinned.get(worker.id, 0) + pinned.get(worker.name, 0),
                "capabilities": [queue_name(unit) for unit in capabilities(worker)],
            }
            for worker in control.agents()
        },
        "capability_queues": units,
        "results_queue_size": 0,  # results are kept in the moment they arrive
    }


@router.get("/monitoring/stats", dependencies=[readers], operation_id="sark_monitoring", summary="Who watches")
def monitoring(state: State) -> dict[str, Any]:
    """How workers and jobs are watched, and what was found."""
    settings, agents = state.settings, state.kept.control.agents()
    counts = state.kept.listing.counts()["jobs"]
    return {
        "health_monitor": {
            "running": True,
            "heartbeat_timeout": settings.silent_after_s,
            "heartbeat_interval": settings.heartbeat_s,
            "workers": len(agents),
            "faulty": sum(agent.state == "faulty" for agent in agents),
        },
        "timeout_handler": {
            "running": True,
            "lease_seconds": settings.lease_s,
            "max_retries": settings.tries - 1,
            "initial_backoff": settings.backoff_s,
            "running_jobs": counts.get("running", 0),
            "poisoned_jobs": counts.get("poisoned", 0),
        },
    }


@router.post("/reset", dependencies=[admins], operation_id="sark_reset", summary="Start over")
def reset(state: State) -> dict[str, Any]:
    """Forget every worker, job, result and campaign of the fleet; running jobs are cancelled first."""
    server_store = state.kept
    for campaign in tuple(every_campaign(state)):
        if campaign.engine == "fleet":  # what was measured on this machine alone was never SARK's
            server_store.control.cancel_campaign(campaign.id, "everything was reset")
            server_store.store.remove(campaign.id)
    for agent in server_store.control.agents():
        server_store.control.remove_agent(agent.id)
    for path in (state.folder / OUTPUTS).glob("*_results.csv"):
        path.unlink(missing_ok=True)
    state.changed()
    cleared = ("workers_cleared", "jobs_cleared", "results_cleared", "campaigns_cleared")
    return {"status": "reset", "message": f"reset at {iso(state.clock.utc())}", **dict.fromkeys(cleared, True)}


def _redis(state: ServerState) -> dict[str, Any]:
    from urllib.parse import urlsplit

    if state.settings.redis_url is None:
        return {"connected": False, "host": None, "port": None, "db": None}
    parts = urlsplit(state.settings.redis_url.get_secret_value())
    database = parts.path.strip("/")
    return {
        "connected": _answers(state),
        "host": parts.hostname,
        "port": parts.port or 6379,
        "db": int(database) if database.isdigit() else 0,
    }


def _answers(state: ServerState) -> bool:
    try:
        state.kept.queue.ready()
    except StoreError:
        return False
    return True


Body = Annotated[dict[str, Any], Depends(json_body)]
_REQUIRED = {"device_name": str, "ip_address": str, "capabilities": list, "device_info": dict}


@router.post("/register", dependencies=[agents], operation_id="sark_register", summary="Register a worker")
def register(state: State, body: Body, key: AgentKey = "") -> dict[str, Any]:
    """Make a worker known, or refresh everything that is known of it."""
    for name, kind in _REQUIRED.items():
        if name not in body:
            raise UsageError(f"Missing required field: {name}", code="body")
        if not isinstance(body[name], kind):
            raise UsageError(f"{name} must be of type {kind.__name__}", code="body")
    if not body["device_name"].strip() or len(body["device_name"]) > 200:
        raise UsageError("device_name must be text of 1 to 200 characters", code="body")
    agent, action = state.kept.control.enroll(enrolment_of(body), key)
    state.changed()
    status = "registered" if action == "created" else "updated"
    return {"worker_id": worker_id(agent.id), "status": status, "action": action}


@router.get("/workers", dependencies=[readers], operation_id="sark_workers", summary="List workers")
def workers(state: State) -> dict[str, Any]:
    """All workers."""
    workers = [worker_record(agent) for agent in state.kept.control.agents()]
    return {"count": len(workers), "workers": workers}


@router.get("/workers/{worker}", dependencies=[readers], operation_id="sark_worker", summary="One worker")
def worker(state: State, worker: str) -> dict[str, Any]:
    """One worker."""
    return dict(worker_record(_known(state, worker)))


@router.put("/workers/{worker}/status", dependencies=[agents], operation_id="sark_set_status", summary="Set a state")
def set_status(state: State, worker: str, body: Body, key: AgentKey = "") -> dict[str, Any]:
    """Note the state that a worker says it is in; an unknown worker is answered alike, as SARK does."""
    state.check_key_now(agent_id(worker), key)
    status = body.get("status")
    if status not in WORKER_STATES:
        raise UsageError(f"Invalid status {status!r}; use one of {', '.join(WORKER_STATES)}", code="body")
    try:
        state.kept.control.heartbeat(agent_id(worker), Heartbeat(cast("AgentState", status)))
    except UsageError as unknown:
        if unknown.problem.code != "unknown-agent":
            raise
    return {"worker_id": worker, "status": status}


@router.post("/workers/{worker}/heartbeat", dependencies=[agents], operation_id="sark_heartbeat", summary="Heartbeat")
def heartbeat(state: State, worker: str, key: AgentKey = "") -> dict[str, Any]:
    """Note that a worker lives; one that was given up is taken back."""
    state.check_key_now(agent_id(worker), key)
    before = _known(state, worker)
    recovered = before.state == "faulty"
    status = "active" if recovered else before.state
    state.kept.control.heartbeat(before.id, Heartbeat(cast("AgentState", status)))
    return {
        "worker_id": worker_id(before.id),
        "timestamp": state.clock.utc().timestamp(),
        "status": status,
        "previous_status": before.state,
        "action": "recovered" if recovered else "updated",
    }


@router.put("/workers/{worker}/reset", dependencies=[agents], operation_id="sark_reset_worker", summary="Take back")
def reset_worker(state: State, worker: str) -> dict[str, Any]:
    """Take a faulty worker back."""
    agent = _known(state, worker)
    if agent.state != "faulty":
        raise UsageError(f"Worker is {agent.state}, not faulty", code="not-faulty")
    state.kept.control.reset_agent(agent.id)
    state.changed()
    return {"worker_id": worker_id(agent.id), "status": "active", "message": "Worker reset to active"}


@router.get("/workers/{worker}/health", dependencies=[readers], operation_id="sark_worker_health", summary="Health")
def worker_health(state: State, worker: str) -> dict[str, Any]:
    """Whether a worker was seen lately."""
    return dict(_health(state, _known(state, worker)))


@router.get("/health/workers", dependencies=[readers], operation_id="sark_workers_health", summary="Health of all")
def health_of_all(state: State) -> dict[str, Any]:
    """Whether each worker was seen lately."""
    workers = [_health(state, agent) for agent in state.kept.control.agents()]
    healthy = sum(bool(health["is_healthy"]) for health in workers)
    return {"total": len(workers), "healthy": healthy, "unhealthy": len(workers) - healthy, "workers": workers}


def _health(state: ServerState, agent: AgentRecord) -> dict[str, Any]:
    return dict(health_record(agent, state.clock.utc().timestamp(), state.settings.silent_after_s))


def _known(state: ServerState, worker: str) -> AgentRecord:
    try:
        return state.kept.control.agent(agent_id(worker))
    except UsageError:
        raise UsageError("Worker not found", code="unknown-agent") from None


@router.post("/campaigns", operation_id="sark_create_campaign", summary="Create a campaign")
def create(state: State, body: Body, user: User) -> dict[str, Any]:
    """One job per entry of `jobs`, equal ones included; an agent that has the compute unit takes it."""
    plan = keep(state, _planned(state, body, user.name))
    jobs = [{"job_id": job.id, "compute_unit": unit_of(job), "status": "pending"} for job in plan.jobs]
    return {"campaign_id": plan.jobs[0].campaign, "total_jobs": len(jobs), "status": "running", "jobs": jobs}


@router.get("/campaigns", dependencies=[readers], operation_id="sark_campaigns", summary="List campaigns")
def campaigns(state: State) -> dict[str, Any]:
    """The campaigns that came in by this surface, newest first."""
    campaigns = [_record(state, summary) for summary in every_campaign(state, ORIGIN)]
    return {"count": len(campaigns), "campaigns": campaigns}


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
    records = [_ended(read_campaign(state.kept.store, summary.id)) for summary in every_campaign(state, ORIGIN)]
    records = [record for record in records if record.jobs]
    if not records:
        raise UsageError("No results available", code="unknown-result")
    return _csv(render_sark_csv(*records), f"all_results_{state.clock.utc():%Y%m%d_%H%M%S}.csv")


@router.get("/results/files", dependencies=[readers], operation_id="sark_result_files", summary="List result files")
def files(state: State) -> dict[str, Any]:
    """The CSV files of finished campaigns, newest first."""
    for summary in every_campaign(state, ORIGIN):
        _results_file(state, summary)
    folder = state.folder / OUTPUTS
    paths = sorted(folder.glob("*_results.csv"), key=lambda path: path.stat().st_mtime, reverse=True)
    records = [_file_record(path) for path in paths]
    return {"count": len(records), "files": records}


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
    paths = {path.name: path for path in folder.glob("*_results.csv")} if folder.is_dir() else {}
    if filename not in paths:
        raise UsageError("File not found", code="unknown-file")
    return _csv(paths[filename].read_text(encoding="utf-8"), filename)


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
        chosen = next(entry for entry in record.jobs if entry.job == job)
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
    listing = state.kept.listing
    return every(lambda cursor, size: listing.campaigns(origin=origin, cursor=cursor, limit=size))


def _summary(state: ServerState, campaign: str) -> CampaignSummary:
    try:
        return state.kept.listing.campaign(campaign)
    except UsageError:
        raise UsageError("Campaign not found", code="unknown-campaign") from None


def _record(state: ServerState, summary: CampaignSummary) -> dict[str, Any]:
    _, stored = state.kept.store.campaign(summary.id)
    listing, which = state.kept.listing, JobFilter(campaign=summary.id)
    summaries = {job.id: job for job in every(lambda cursor, size: listing.jobs(which, cursor=cursor, limit=size))}
    jobs = [job_record(summaries[entry.job.id], entry.job, summaries[entry.job.id].fence) for entry in stored]
    created = datetime.fromisoformat(summary.created_at).timestamp()
    path = _results_file(state, summary)
    return dict(campaign_record(summary, jobs, created, path.name if path else None))


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


def _csv(text: str, name: str) -> Response:
    return Response(text, media_type="text/csv", headers={"Content-Disposition": f'attachment; filename="{name}"'})
