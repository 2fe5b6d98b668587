"""What is reported about jobs by agents and by engines elsewhere; and files by content, never by a path."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import datetime
from math import isfinite
from typing import Annotated

import anyio
import anyio.to_thread
from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import FileResponse
from pydantic import JsonValue

from assay.place.fleet.protocol import Delivered, Elsewhere, JobProgress, JobProgressReport, Known, Progress, Release
from assay.report.wording import label_of
from assay.serve.delivery import deliver, deliver_reported, held, known_size, missing_artefacts
from assay.serve.observability import log_event
from assay.serve.settings import MB
from assay.serve.state import ServerState
from assay.serve.web.access import (
    BINARY,
    AgentKey,
    Answers,
    ByAgent,
    Digest,
    Fence,
    JobId,
    State,
    User,
    agents,
    agents_alone,
    body_of,
    everybody_known,
    unchanged,
    users,
)
from assay.serve.web.problems import RequestProblem, bad_value, read_body
from assay.store.artefacts import ArtefactRecord, Upload
from assay.store.records import EventRecord

router = APIRouter(prefix="/api/v1/jobs/{job}/attempts/{fence}", tags=["attempts"])

_RESULT = body_of("application/json", {"$ref": "#/components/schemas/MultiRunJobResult"})
_CAMPAIGN = body_of(
    "application/json",
    {
        "type": "object",
        "required": ["engine", "benchmark", "created_at", "document", "jobs"],
        "properties": {
            "engine": {"type": "string"},
            "benchmark": {"type": "string"},
            "created_at": {"type": "string", "format": "date-time"},
            "document": {"type": "object"},
            "labels": {"type": "object"},
            "jobs": {"type": "array", "items": {"$ref": "#/components/schemas/Job"}},
        },
    },
)
_LOST: Answers = {409: {"description": "The lease is lost: the attempt must stop."}}
external_router = APIRouter(prefix="/api/v1/elsewhere/{campaign}", tags=["elsewhere"])
CampaignThere = Annotated[str, Path(pattern=r"^[a-z0-9]{1,40}$", description="Its id, the same there and here.")]
JobIndex = Annotated[int, Path(ge=0, le=2**31 - 1, description="Position of the job in its campaign.")]
_ENGINE = re.compile(r"[a-z][a-z0-9-]{0,15}")
_OURS = ("fleet", "local")
_LONGEST_NAME, _LONGEST_TIME, _LONGEST_NOTE, _MOST = 200, 40, 1000, 2**31 - 1


@router.post("/progress", dependencies=[agents_alone], status_code=204, responses=_LOST)
def report_progress(job: JobId, fence: Fence, progress: Progress, state: State, key: AgentKey = "") -> None:
    """Say how far an attempt is, with the lines it wrote; renews the lease."""
    state.check_key_now(progress.agent, key)
    if not state.kept.control.progress(job, fence, progress):
        raise RequestProblem(409, f"the lease {fence} of {job} is lost", code="lost", try_="stop the attempt")
    names = ("run", "runs", "phase", "share", "note", "agent")
    detail: dict[str, JsonValue] = {**{name: getattr(progress, name) for name in names}, "fence": fence}
    campaign = job.rpartition("-job-")[0]
    state.feed.push(EventRecord(campaign, job, "progress", state.clock.utc().timestamp(), detail))


@router.post("/release", dependencies=[agents_alone], status_code=204)
def release_lease(job: JobId, fence: Fence, release: Release, state: State, key: AgentKey = "") -> None:
    """Give a lease back unfinished; one that is lost already is no error."""
    state.check_key_now(release.agent, key)
    released = state.kept.control.release(job, fence, release.agent, release.reason[:1000], crashed=release.crashed)
    log_event("lease released", job=job, fence=fence, agent=release.agent, held=released, crashed=release.crashed)
    state.changed()


@router.put(
    "/result",
    dependencies=[agents_alone],
    responses={409: {"description": "Samples that the result names must be uploaded first."}},
    openapi_extra=_RESULT,
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


@external_router.put(
    "",
    responses={201: {"model": Known}, 409: {"description": "Another campaign has this id."}},
    openapi_extra=_CAMPAIGN,
)
async def know_campaign(campaign: CampaignThere, state: State, by: User, request: Request, response: Response) -> Known:
    """Make a campaign known under the id that it has there; one that is known stays as it is."""
    body = await request.body()
    outcome = await anyio.to_thread.run_sync(lambda: _know(state, campaign, body, by.name))
    response.status_code = 201 if outcome.new else 200
    return outcome


@external_router.post("/standings", dependencies=[users], status_code=204)
def report_external_progress(campaign: CampaignThere, standings: JobProgressReport, state: State) -> None:
    """Say how jobs stand: what they wait for, where they run and how far they are; those that have ended stay so."""
    noted = state.kept.control.stand(campaign, [_bounded(standing) for standing in standings.jobs])
    now = state.clock.utc().timestamp()
    for job, detail in noted:
        state.feed.push(EventRecord(campaign, job, "progress", now, detail))
    state.changed(jobs=False)


@external_router.put(
    "/jobs/{index}/result",
    dependencies=[users],
    responses={409: {"description": "Samples and files that the result names must be uploaded first."}},
    openapi_extra=_RESULT,
)
async def report_external_result(campaign: CampaignThere, index: JobIndex, state: State, request: Request) -> Delivered:
    """Hand over a result, once; the same again changes nothing, one that has more in it takes its place."""
    body = await request.body()
    return await anyio.to_thread.run_sync(lambda: deliver_reported(state, f"{campaign}-job-{index}", body))


def _know(state: ServerState, campaign: str, body: bytes, by: str) -> Known:
    elsewhere = read_body(Elsewhere, body, "campaign", "request")
    _check(campaign, elsewhere)
    new = state.kept.control.know(campaign, elsewhere, by=by, label_of=label_of)
    if new:
        log_event(
            "campaign reported", campaign=campaign, benchmark=elsewhere.benchmark, jobs=len(elsewhere.jobs), by=by
        )
    state.changed(jobs=False)
    return Known(campaign, new)


def _check(campaign: str, elsewhere: Elsewhere) -> None:
    """Refuse what no store could keep, or would read as something else."""
    if not _ENGINE.fullmatch(elsewhere.engine) or elsewhere.engine in _OURS:
        raise bad_value(
            "engine", f"engine is {elsewhere.engine[:20]!r}; it names what measures elsewhere, such as slurm"
        )
    if not 0 < len(elsewhere.benchmark) <= _LONGEST_NAME:
        raise bad_value("benchmark", f"benchmark has 1 to {_LONGEST_NAME} characters")
    try:
        moment = datetime.fromisoformat(elsewhere.created_at)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None or len(elsewhere.created_at) > _LONGEST_TIME:
        raise bad_value("created_at", "created_at is no moment with its time zone")
    if not elsewhere.jobs:
        raise bad_value("jobs", "jobs is empty")
    for position, job in enumerate(elsewhere.jobs):
        if (job.campaign, job.index, job.benchmark) != (campaign, position, elsewhere.benchmark) or len(
            job.digest
        ) > 64:
            raise bad_value(f"jobs.{position}", f"jobs.{position} is not job {position} of this campaign")


def _bounded(progress: JobProgress) -> JobProgress:
    if not all(0 <= number <= _MOST for number in (progress.index, progress.run, progress.runs)) or not isfinite(
        progress.share
    ):
        raise bad_value("jobs", f"jobs has a number out of range: {progress.index}")
    phase, note = progress.phase[:_LONGEST_NAME], progress.note[:_LONGEST_NOTE]
    return JobProgress(
        progress.index, progress.state, note, progress.run, progress.runs, phase, min(max(progress.share, 0.0), 1.0)
    )


artefacts_router = APIRouter(prefix="/api/v1/artefacts", tags=["artefacts"])

_BYTES: Answers = {200: {"content": {"application/octet-stream": {"schema": BINARY}}}}
_FOR_EVER = {"Cache-Control": "private, max-age=31536000, immutable"}
# Written to disk in parts of this size.
_PART = 1 << 20


@artefacts_router.head(
    "/{sha256}", dependencies=[everybody_known], operation_id="has_artefact", response_class=Response
)
def has_artefact(sha256: Digest, state: State) -> Response:
    """Say whether a file is here."""
    size = known_size(state.kept.store, sha256)
    if size is None:
        raise _unknown(sha256)
    return Response(headers={"Content-Length": str(size), "ETag": f'"{sha256}"'})


@artefacts_router.get("/{sha256}", dependencies=[everybody_known], response_class=FileResponse, responses=_BYTES)
def get_artefact(sha256: Digest, state: State, request: Request) -> Response:
    """Download a file; ranges are understood."""
    path = held(state.kept.store, sha256)
    if path is None:
        raise _unknown(sha256)
    same = unchanged(request, f'"{sha256}"')
    artefact = state.kept.artefacts.get(sha256)
    name = artefact.name if artefact is not None else sha256
    return same or FileResponse(
        path, media_type="application/octet-stream", filename=name, headers={"ETag": f'"{sha256}"', **_FOR_EVER}
    )


@artefacts_router.put(
    "/{sha256}",
    dependencies=[agents],
    responses={201: {"model": ArtefactRecord}},
    openapi_extra=body_of("application/octet-stream", BINARY),
)
async def put_artefact(
    sha256: Digest,
    request: Request,
    response: Response,
    state: State,
    name: Annotated[str, Query(max_length=500, description="For people to read.")] = "",
) -> ArtefactRecord:
    """Upload a file; its content must have the SHA-256 of the path."""
    most_bytes = int(state.settings.max_artefact_mb * MB)
    upload = await anyio.to_thread.run_sync(lambda: state.kept.store.artefacts.begin(most_bytes))
    try:
        async for part in _parts(request.stream()):
            await anyio.to_thread.run_sync(upload.write, part)
        record, new = await anyio.to_thread.run_sync(lambda: _keep(state, upload, sha256, name))
    finally:
        # Also when the request is cancelled because the client has gone.
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(upload.drop)
    response.status_code = 201 if new else 200
    return record


async def _parts(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The body in parts that are worth a trip to another thread each."""
    waiting = bytearray()
    async for some in stream:
        waiting += some
        if len(waiting) >= _PART:
            yield bytes(waiting)
            waiting.clear()
    if waiting:
        yield bytes(waiting)


def _keep(state: ServerState, upload: Upload, digest: str, name: str) -> tuple[ArtefactRecord, bool]:
    server_store = state.kept
    # The bucket is not asked: the sender need not wait for it.
    there = server_store.artefacts.get(digest) is not None or server_store.store.samples.path(digest).is_file()
    _, new = upload.keep(digest)
    return server_store.artefacts.note(digest, name or digest, upload.size_bytes), new and not there


def _unknown(digest: str) -> RequestProblem:
    return RequestProblem(404, f"no file {digest} is here", code="unknown-artefact", try_="upload it first")
