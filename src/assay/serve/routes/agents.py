"""Agents: enrolled, added by their address, alive, waiting for jobs, drained, removed."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Annotated, TypeVar
from urllib.parse import urlsplit

import anyio.to_thread
import httpx
from fastapi import APIRouter, Query, Request, Response
from pydantic import JsonValue, ValidationError

from assay.documents import adapter, to_json
from assay.errors import MeasureError, UsageError
from assay.place.fleet.protocol import Claim, Enrolled, Enrolment, Heartbeat, HeartbeatAnswer, LeaseGiven, LeaseRequest
from assay.run.policy import UrlPolicy, checked_transport
from assay.serve.facts.hardware import AgentHardware, hardware_of
from assay.serve.observability import log_event
from assay.serve.settings import ServerSettings
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
    agents_alone,
    readers,
    users,
)
from assay.serve.web.problems import RequestProblem, bad_value
from assay.serve.web.records import AgentAddress, AgentChange, Listed, Queues
from assay.store.records import AgentRecord

router = APIRouter(prefix="/api/v1/agents", tags=["agents"])

LONGEST_WAIT_S = 60.0


@router.post("", dependencies=[agents_alone], responses={201: {"model": Enrolled}})
def enroll_agent(enrolment: Enrolment, state: State, response: Response, key: AgentKey = "") -> Enrolled:
    """Make a device known, or refresh what is known of it."""
    if not enrolment.identity or len(enrolment.identity) > 128:
        raise bad_value("identity", "identity has 1 to 128 characters")
    if not enrolment.name or len(enrolment.name) > 200:
        raise bad_value("name", "name has 1 to 200 characters")
    record, action = state.kept.control.enroll(enrolment, key)
    state.forget_key(record.id)
    log_event("agent enrolled", agent=record.id, name=record.name, action=action, version=record.version)
    state.dispatcher.forget(record.id)
    response.status_code = 201 if action == "created" else 200
    return Enrolled(record.id, action, state.settings.heartbeat_s, state.settings.lease_s)  # type: ignore[arg-type]


@router.get("", dependencies=[readers])
def list_agents(
    state: State,
    cursor: Cursor = None,
    limit: Limit = 100,
    only: AgentStateName = "",
) -> Listed[AgentRecord]:
    """List agents by name."""
    return Listed.of(state.kept.control.agent_page(cursor, limit, only))


@router.post("/add", responses={201: {"model": Enrolled}})
def add_agent(address: AgentAddress, state: State, request: Request, response: Response, by: Admin) -> Enrolled:
    """Enrol a device that listens at a URL: the server asks it who it is and has it work for this server."""
    device = read_agent(state.settings, address)
    given = None if state.is_open else state.kept.tokens.create(f"agent {device.name}"[:200], "agent")
    try:
        enrolled = call_agent(state.settings, address, str(request.base_url).rstrip("/"), given[1] if given else None)
    except RequestProblem:
        if given is not None:
            state.kept.tokens.revoke(given[0].id)
        raise
    log_event("agent added", agent=enrolled.agent, by=by.name)
    response.status_code = 201 if enrolled.action == "created" else 200
    return enrolled


@router.get("/{agent}", dependencies=[readers])
def get_agent(agent: AgentId, state: State) -> AgentRecord:
    """Read one agent: profile, labels, health, jobs that it holds."""
    return state.kept.control.agent(agent_id(state, agent))


@router.patch("/{agent}")
def change_agent(agent: AgentId, change: AgentChange, state: State, by: User) -> AgentRecord:
    """Label an agent, let it drain, or let it take jobs again."""
    control, name = state.kept.control, agent_id(state, agent)
    labels = None
    if change.labels is not None:
        both = {**control.agent(name).labels, **change.labels}
        labels = {label: value for label, value in both.items() if value}
    changed = control.patch_agent(name, labels=labels, draining=change.draining)
    log_event("agent changed", agent=name, labels=labels, draining=change.draining, by=by.name)
    state.dispatcher.forget(name)
    return changed


@router.delete("/{agent}", status_code=204)
def remove_agent(agent: AgentId, state: State, by: Admin) -> None:
    """Forget an agent; what it holds is offered to others."""
    name = agent_id(state, agent)
    jobs = state.kept.control.remove_agent(name, by=by.name)
    state.forget_key(name)
    log_event("agent removed", agent=name, jobs=list(jobs), by=by.name)
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
    return _written(await state.heartbeats.beat(agent, beat))


@router.post(
    "/{agent}/lease",
    dependencies=[agents_alone],
    response_model=LeaseGiven,
    responses={204: {"description": "There was no job in the time given."}},
)
async def take_lease(
    agent: AgentId, options: LeaseRequest, state: State, request: Request, key: AgentKey = ""
) -> Response:
    """Wait for a job, up to `wait_s` seconds (at most 60)."""
    await state.check_key(agent, key)
    poll = state.dispatcher.poll(agent, options.device[:40])
    await state.dispatcher.meet(poll)
    wait_s = min(options.wait_s, LONGEST_WAIT_S) if options.wait_s > 0 else 0.0

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
        # It went away while the job was taken: others may have it immediately.
        give_back, why = state.kept.control.release, "the agent went away before it got the job"
        await anyio.to_thread.run_sync(give_back, lease.job.id, lease.fence, lease.agent, why)
        state.changed()
        return Response(status_code=204)
    state.lease_given(lease)
    return _written(LeaseGiven(lease.job, lease.fence, lease.lasts_s))


@router.get("/{agent}/queues", dependencies=[agents_alone])
def agent_queues(
    agent: AgentId,
    state: State,
    device: Annotated[str, Query(max_length=40, description="Only for this kind.")] = "",
    key: AgentKey = "",
) -> Queues:
    """Say which queues hold jobs that an agent can do, for one that takes them from Redis directly."""
    state.check_key_now(agent, key)
    record = state.kept.control.agent(agent)
    if record.draining or not record.healthy:
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
        raise bad_value("fence", "fence is out of range")
    lease = state.kept.control.claim(agent, claim.job, claim.fence)
    state.kept.queue.withdraw([claim.job])
    if lease is None:
        state.changed()  # if it is still to be done, it is offered again
        raise RequestProblem(
            409, f"{claim.job} is not yours under the number {claim.fence}", code="not-yours", try_="take another one"
        )
    state.lease_given(lease)
    return _written(LeaseGiven(lease.job, lease.fence, lease.lasts_s))


def _written(record: HeartbeatAnswer | LeaseGiven) -> Response:
    """A record that is known to be right: it is not checked once more on its way out."""
    return Response(to_json(record), media_type="application/json")


def agent_id(state: ServerState, reference: str) -> str:
    """The id of an agent that is named by its id or its name."""
    if reference.startswith("agent-"):
        return reference
    matches = [agent.id for agent in state.kept.control.agents() if agent.name == reference]
    if len(matches) > 1:
        raise UsageError(f"{len(matches)} agents are named {reference!r}", code="ambiguous", try_=f"use {matches[0]} …")
    return matches[0] if matches else reference


@router.get("/{agent}/hardware", dependencies=[readers])
def get_agent_hardware(agent: AgentId, state: State) -> AgentHardware:
    """Read the fitness, the noise and the tests of an agent's machine, from the newest results that it delivered."""
    return hardware_of(state.kept, state.kept.control.agent(agent_id(state, agent)))


T = TypeVar("T")

_LONGEST_ANSWER = 1_000_000
_ANSWER_S = 10.0


def read_agent(settings: ServerSettings, address: AgentAddress) -> Enrolment:
    """Ask the device at a URL who it is: GET {url}/info."""
    return _exchange(settings, address, "GET", "/info", None, Enrolment)


def call_agent(settings: ServerSettings, address: AgentAddress, here: str, token: str | None) -> Enrolled:
    """Have the device at a URL work for this server: POST {url}/enrol. It enrols itself, as every agent does."""
    message: dict[str, JsonValue] = {"server": address.server or here, "token": token}
    return _exchange(settings, address, "POST", "/enrol", message, Enrolled)


def _exchange(
    settings: ServerSettings, address: AgentAddress, method: str, path: str, message: JsonValue, kind: type[T]
) -> T:
    url = _checked(address.url)
    headers = {"Authorization": f"Bearer {address.token}"} if address.token else {}
    answer = _fetch(settings, method, f"{url}{path}", headers, message)
    try:
        return adapter(kind).validate_json(answer)
    except ValidationError:
        raise _refused(424, f"{url} answered, but not as an agent does", "start it with `assay agent serve`") from None


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    odd = any(char.isspace() for char in url) or len(url) > 300
    if not usable or odd or parts.username or parts.query or parts.fragment:
        raise _refused(422, "this is not the address of an agent", "write http://device:8081")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def _fetch(settings: ServerSettings, method: str, url: str, headers: dict[str, str], message: JsonValue) -> bytes:
    near = settings.on_loopback or settings.allow_private_agents
    transport = checked_transport(UrlPolicy(private=near, loopback=near))
    try:
        with (
            httpx.Client(transport=transport, trust_env=False, follow_redirects=False, timeout=_ANSWER_S) as client,
            client.stream(method, url, headers=headers, json=message) as answer,
        ):
            content = _bounded(answer, url)
            if answer.status_code not in (200, 201):
                said = f"{url} answered {answer.status_code}{_why(content)}"
                raise _refused(424, said, "check the address and the agent's token")
            return content
    except MeasureError as refused:
        raise _refused(422, refused.problem.message, "start the server with --allow-private-agents") from None
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as problem:
        said = type(problem).__name__
        raise _refused(
            424, f"no agent answers at {url} ({said})", "check the address, and that the agent runs"
        ) from None


def _bounded(answer: httpx.Response, url: str) -> bytes:
    content = b""
    for part in answer.iter_bytes():
        content += part
        if len(content) > _LONGEST_ANSWER:
            raise _refused(424, f"{url} answered with more than {_LONGEST_ANSWER // 1000} kB", "check the address")
    return content


def _why(content: bytes) -> str:
    """What an agent said when it refused, if it said so in words."""
    try:
        detail = json.loads(content)["detail"]
    except (ValueError, TypeError, KeyError):
        return ""
    return f": {str(detail)[:300]}"


# 424: what this depends on, the agent, did not do its part; neither the request nor the server is at fault.
def _refused(status: int, what: str, advice: str) -> RequestProblem:
    return RequestProblem(status, what, code="agent-address", try_=advice, at="url")
