"""SARK's system paths: what it is, how it does, what waits, and starting over."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends

from assay.clock import iso
from assay.errors import StoreError
from assay.serve.sark.campaigns import OUTPUTS, every_campaign
from assay.serve.sark.errors import SarkRoute
from assay.serve.sark.records import capabilities, queue_name, worker_id
from assay.serve.state import ServerState, state_of
from assay.serve.web.access import admins, public, readers
from assay.spec.devices import COMPUTE_UNITS, compute_unit
from assay.spec.target import ModelTarget
from assay.version import __version__

router = APIRouter(prefix="/api", tags=["SARK"], route_class=SarkRoute)

State = Annotated[ServerState, Depends(state_of)]
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
            worker_id(one.id): {
                "device_name": one.name,
                "queue_size": pinned.get(one.id, 0) + pinned.get(one.name, 0),
                "capabilities": [queue_name(unit) for unit in capabilities(one)],
            }
            for one in control.agents()
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
    kept = state.kept
    for one in tuple(every_campaign(state)):
        if one.engine == "fleet":  # what was measured on this machine alone was never SARK's
            kept.control.cancel_campaign(one.id, "everything was reset")
            kept.store.remove(one.id)
    for agent in kept.control.agents():
        kept.control.remove_agent(agent.id)
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
