"""Attempts: what an agent says about a job that it holds."""

from __future__ import annotations

from typing import Annotated

import anyio.to_thread
from fastapi import APIRouter, Query, Request
from pydantic import JsonValue

from assay.analyse.records import MultiRunJobResult
from assay.place.fleet.protocol import Delivered, Progress, Release
from assay.serve.intake.delivery import deliver, missing_artefacts
from assay.serve.intake.files import known_size
from assay.serve.logs import tell
from assay.serve.web.access import agents_alone
from assay.serve.web.parameters import AgentKey, Answers, ByAgent, Fence, JobId, State
from assay.serve.web.problems import RequestProblem
from assay.store.records import EventRecord

router = APIRouter(prefix="/api/v1/jobs/{job}/attempts/{fence}", tags=["attempts"])

_LOST: Answers = {409: {"description": "The lease is lost: the attempt must stop."}}


@router.post("/progress", dependencies=[agents_alone], status_code=204, responses=_LOST)
def report_progress(job: JobId, fence: Fence, progress: Progress, state: State, key: AgentKey = "") -> None:
    """Say how far an attempt is, with the lines it wrote; renews the lease."""
    state.check_key_now(progress.agent, key)
    if not state.kept.control.progress(job, fence, progress):
        raise RequestProblem(409, f"the lease {fence} of {job} is lost", code="lost", try_="stop the attempt")
    detail: dict[str, JsonValue] = {
        "run": progress.run,
        "runs": progress.runs,
        "phase": progress.phase,
        "share": progress.share,
        "note": progress.note,
        "agent": progress.agent,
        "fence": fence,
    }
    campaign = job.rpartition("-job-")[0]
    state.feed.push(EventRecord(campaign, job, "progress", state.clock.utc().timestamp(), detail))


@router.post("/release", dependencies=[agents_alone], status_code=204)
def release_lease(job: JobId, fence: Fence, release: Release, state: State, key: AgentKey = "") -> None:
    """Give a lease back unfinished; one that is lost already is no error."""
    state.check_key_now(release.agent, key)
    released = state.kept.control.release(job, fence, release.agent, release.reason[:1000], crashed=release.crashed)
    tell("lease released", job=job, fence=fence, agent=release.agent, held=released, crashed=release.crashed)
    state.changed()


@router.put(
    "/result",
    dependencies=[agents_alone],
    responses={409: {"description": "Samples that the result names must be uploaded first."}},
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/MultiRunJobResult"}}},
        }
    },
)
async def deliver_result(
    job: JobId, fence: Fence, agent: ByAgent, state: State, request: Request, key: AgentKey = ""
) -> Delivered:
    """Deliver a result, once; a late or repeated one is kept as evidence and not counted."""
    await state.check_key(agent, key)
    body = await request.body()
    return await anyio.to_thread.run_sync(lambda: deliver(state, job, fence, agent, body))


@router.put(
    "/artefacts/{name}",
    dependencies=[agents_alone],
    status_code=204,
    responses={409: {"description": "The file must be uploaded first."}},
)
def attach_artefact(
    job: JobId,
    fence: Fence,
    name: str,
    agent: ByAgent,
    sha256: Annotated[str, Query(pattern=r"^[0-9a-f]{64}$")],
    state: State,
    key: AgentKey = "",
) -> None:
    """Keep an uploaded file with an attempt, under a name."""
    state.check_key_now(agent, key)
    if known_size(state.kept.store, sha256) is None:
        raise missing_artefacts({sha256: name[:255]})
    state.kept.artefacts.attach(job, fence, agent, name, sha256)


# The body of `deliver_result` is read by hand; this makes its shape part of the document.
DESCRIBED = MultiRunJobResult
