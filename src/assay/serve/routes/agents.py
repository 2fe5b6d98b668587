"""Agents: enrolled, alive, waiting for jobs, drained, removed."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Annotated

import anyio.to_thread
from fastapi import APIRouter, Query, Request, Response

from assay.documents import to_json
from assay.errors import UsageError
from assay.place.fleet.protocol import (
    Claim,
    Enrolled,
    Enrolment,
    Heartbeat,
    HeartbeatAnswer,
    LeaseGiven,
    LeaseRequest,
)
from assay.place.leasing import Lease
from assay.serve.facts.hardware import hardware_of
from assay.serve.facts.records import AgentHardware
from assay.serve.intake.enrolment import ask_agent, call_agent
from assay.serve.observability import tell
from assay.serve.state import ServerState
from assay.serve.web.access import (
    Admin,
    AgentId,
    AgentKey,
    AgentStateName,
    Cursor,
    Limit,
    State,
    User,
    admins,
    agents_alone,
    readers,
    users,
)
from assay.serve.web.problems import RequestProblem
from assay.serve.web.records import AgentAddress, AgentChange, Listed, Queues
from assay.store.records import AgentRecord

router = APIRouter(prefix="/api/v1/agents", tags=["agents"])

LONGEST_WAIT_S = 60.0


@router.post("", dependencies=[agents_alone], responses={201: {"model": Enrolled}})
def enroll_agent(enrolment: Enrolment, state: State, response: Response, key: AgentKey = "") -> Enrolled:
    """Make a device known, or refresh what is known of it."""
    if not enrolment.identity or len(enrolment.identity) > 128:
        raise RequestProblem(422, "identity has 1 to 128 characters", code="request", at="identity")
    if not enrolment.name or len(enrolment.name) > 200:
        raise RequestProblem(422, "name has 1 to 200 characters", code="request", at="name")
    enrolled = _enroll(state, enrolment, key)
    response.status_code = 201 if enrolled.action == "created" else 200
    return enrolled


@router.get("", dependencies=[readers])
def list_agents(
    state: State,
    cursor: Cursor = None,
    limit: Limit = 100,
    only: AgentStateName = "",
) -> Listed[AgentRecord]:
    """List agents by name."""
    page = state.kept.control.agent_page(cursor, limit, only)
    return Listed(page.items, page.next)


@router.post("/add", dependencies=[admins], responses={201: {"model": Enrolled}})
def add_agent(address: AgentAddress, state: State, request: Request, response: Response, by: Admin) -> Enrolled:
    """Enrol a device that listens at a URL: the server asks it who it is and has it work for this server."""
    device = ask_agent(state.settings, address)
    given = None if state.is_open else state.kept.tokens.create(f"agent {device.name}"[:200], "agent")
    try:
        enrolled = call_agent(state.settings, address, str(request.base_url).rstrip("/"), given[1] if given else None)
    except RequestProblem:
        if given is not None:
            state.kept.tokens.revoke(given[0].id)
        raise
    tell("agent added", agent=enrolled.agent, by=by.name)
    response.status_code = 201 if enrolled.action == "created" else 200
    return enrolled


@router.get("/{agent}", dependencies=[readers])
def get_agent(agent: AgentId, state: State) -> AgentRecord:
    """Read one agent: profile, labels, health, jobs that it holds."""
    return state.kept.control.agent(agent_id(state, agent))


@router.patch("/{agent}", dependencies=[users])
def change_agent(agent: AgentId, change: AgentChange, state: State, by: User) -> AgentRecord:
    """Label an agent, let it drain, or let it take jobs again."""
    control, name = state.kept.control, agent_id(state, agent)
    labels = None
    if change.labels is not None:
        both = {**control.agent(name).labels, **change.labels}
        labels = {label: value for label, value in both.items() if value}
    changed = control.patch_agent(name, labels=labels, draining=change.draining)
    tell("agent changed", agent=name, labels=labels, draining=change.draining, by=by.name)
    state.dispatcher.forget(name)
    return changed


@router.delete("/{agent}", dependencies=[admins], status_code=204)
def remove_agent(agent: AgentId, state: State, by: Admin) -> None:
    """Forget an agent; what it holds is offered to others."""
    name = agent_id(state, agent)
    jobs = state.kept.control.remove_agent(name, by=by.name)
    state.forget_key(name)
    tell("agent removed", agent=name, jobs=list(jobs), by=by.name)
    state.dispatcher.forget(name)
    state.changed()


@router.post("/{agent}/reset", dependencies=[users])
def reset_agent(agent: AgentId, state: State) -> AgentRecord:
    """Let a faulty agent take jobs again."""
    return state.kept.control.reset_agent(agent_id(state, agent))


@router.post("/{agent}/heartbeat", dependencies=[agents_alone], response_model=HeartbeatAnswer)
async def send_heartbeat(agent: AgentId, beat: Heartbeat, state: State, key: AgentKey = "") -> Response:
    """Say that an agent is there; renews its leases, and tells it which are lost."""
    await state.check_key(agent, key)
    return _written(await state.beats.beat(agent, beat))


@router.post(
    "/{agent}/lease",
    dependencies=[agents_alone],
    response_model=LeaseGiven,
    responses={204: {"description": "There was no job in the time given."}},
)
async def take_lease(
    agent: AgentId, wish: LeaseRequest, state: State, request: Request, key: AgentKey = ""
) -> Response:
    """Wait for a job, up to `wait_s` seconds (at most 60)."""
    await state.check_key(agent, key)
    poll = state.dispatcher.poll(agent, wish.device[:40])
    await state.dispatcher.meet(poll)
    wait_s = min(wish.wait_s, LONGEST_WAIT_S) if wish.wait_s > 0 else 0.0

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        poll.leave()

    watching = asyncio.create_task(watch())
    try:
        lease = await state.dispatcher.lease(poll, wait_s)
    finally:
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
    if lease is None:
        return Response(status_code=204)
    if poll.left:
        # It went away while the job was taken: others may have it at once.
        await anyio.to_thread.run_sync(lambda: _give_back(state, lease))
        return Response(status_code=204)
    state.lease_given(lease)
    return _written(_given(lease))


@router.get("/{agent}/queues", dependencies=[agents_alone])
def agent_queues(
    agent: AgentId,
    state: State,
    device: Annotated[str, Query(max_length=40, description="Only for this kind.")] = "",
    key: AgentKey = "",
) -> Queues:
    """Say which queues hold jobs that an agent can do, for one that takes them from Redis directly."""
    state.check_key_now(agent, key)
    known = state.kept.control.agent(agent)
    if known.draining or not known.healthy:
        return Queues(())
    return Queues(tuple(state.kept.queue.suitable(agent, device)))


@router.post(
    "/{agent}/claim",
    dependencies=[agents_alone],
    response_model=LeaseGiven,
    responses={409: {"description": "It is not this agent's."}},
)
def claim_job(agent: AgentId, claim: Claim, state: State, key: AgentKey = "") -> Response:
    """Confirm a job that an agent took from the queue directly."""
    state.check_key_now(agent, key)
    if not 0 <= claim.fence < 2**31:
        raise RequestProblem(422, "fence is out of range", code="request", at="fence")
    lease = state.kept.control.claim(agent, claim.job, claim.fence)
    state.kept.queue.claimed(claim.job)
    if lease is None:
        state.changed()  # if it is still to be done, it is offered anew
        raise RequestProblem(
            409, f"{claim.job} is not yours under the number {claim.fence}", code="not-yours", try_="take another one"
        )
    state.lease_given(lease)
    return _written(_given(lease))


def _enroll(state: ServerState, enrolment: Enrolment, key: str) -> Enrolled:
    record, action = state.kept.control.enroll(enrolment, key)
    state.forget_key(record.id)
    tell("agent enrolled", agent=record.id, name=record.name, action=action, version=record.version)
    state.dispatcher.forget(record.id)
    return Enrolled(record.id, action, state.settings.heartbeat_s, state.settings.lease_s)  # type: ignore[arg-type]


def _written(record: HeartbeatAnswer | LeaseGiven) -> Response:
    """A record that is known to be right: it is not checked once more on its way out."""
    return Response(to_json(record), media_type="application/json")


def _given(lease: Lease) -> LeaseGiven:
    return LeaseGiven(lease.job, lease.fence, lease.lasts_s)


def _give_back(state: ServerState, lease: Lease) -> None:
    state.kept.control.release(lease.job.id, lease.fence, lease.agent, "the agent went away before it got the job")
    state.changed()


def agent_id(state: ServerState, reference: str) -> str:
    """The id of an agent that is named by its id or its name."""
    if reference.startswith("agent-"):
        return reference
    found = [one.id for one in state.kept.control.agents() if one.name == reference]
    if len(found) > 1:
        raise UsageError(f"{len(found)} agents are named {reference!r}", code="ambiguous", try_=f"use {found[0]} …")
    return found[0] if found else reference


@router.get("/{agent}/hardware", dependencies=[readers])
def get_agent_hardware(agent: AgentId, state: State) -> AgentHardware:
    """Read the fitness, the noise and the tests of an agent's machine, from the newest results that it delivered."""
    return hardware_of(state.kept, state.kept.control.agent(agent_id(state, agent)))
