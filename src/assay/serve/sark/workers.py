"""SARK's workers: registration, heartbeat, state and health."""

from __future__ import annotations

from typing import Annotated, Any, cast

from fastapi import APIRouter, Depends

from assay.errors import UsageError
from assay.place.fleet.protocol import AgentState, Heartbeat
from assay.serve.sark.errors import SarkRoute, json_body
from assay.serve.sark.records import (
    WORKER_STATES,
    agent_id,
    enrolment_of,
    health_record,
    worker_id,
    worker_record,
)
from assay.serve.state import ServerState, state_of
from assay.serve.web.access import AgentKey, agents, readers
from assay.store.records import AgentRecord

router = APIRouter(prefix="/api", tags=["SARK"], route_class=SarkRoute)

State = Annotated[ServerState, Depends(state_of)]
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
    found = [worker_record(agent) for agent in state.kept.control.agents()]
    return {"count": len(found), "workers": found}


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
def reset(state: State, worker: str) -> dict[str, Any]:
    """Take a faulty worker back."""
    found = _known(state, worker)
    if found.state != "faulty":
        raise UsageError(f"Worker is {found.state}, not faulty", code="not-faulty")
    state.kept.control.reset_agent(found.id)
    state.changed()
    return {"worker_id": worker_id(found.id), "status": "active", "message": "Worker reset to active"}


@router.get("/workers/{worker}/health", dependencies=[readers], operation_id="sark_worker_health", summary="Health")
def health(state: State, worker: str) -> dict[str, Any]:
    """Whether a worker was heard of lately."""
    return dict(_health(state, _known(state, worker)))


@router.get("/health/workers", dependencies=[readers], operation_id="sark_workers_health", summary="Health of all")
def health_of_all(state: State) -> dict[str, Any]:
    """Whether each worker was heard of lately."""
    found = [_health(state, agent) for agent in state.kept.control.agents()]
    healthy = sum(bool(one["is_healthy"]) for one in found)
    return {"total": len(found), "healthy": healthy, "unhealthy": len(found) - healthy, "workers": found}


def _health(state: ServerState, agent: AgentRecord) -> dict[str, Any]:
    return dict(health_record(agent, state.clock.utc().timestamp(), state.settings.silent_after_s))


def _known(state: ServerState, worker: str) -> AgentRecord:
    try:
        return state.kept.control.agent(agent_id(worker))
    except UsageError:
        raise UsageError("Worker not found", code="unknown-agent") from None
