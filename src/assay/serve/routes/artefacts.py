"""Artefacts: files by content; names are for people and never become paths."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

import anyio
import anyio.to_thread
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import FileResponse

from assay.serve.intake.delivery import held, known_size
from assay.serve.settings import MB
from assay.serve.state import ServerState
from assay.serve.web.access import Answers, Digest, State, agents, everybody_known, unchanged
from assay.serve.web.problems import RequestProblem
from assay.store.artefacts import ArtefactRecord, Upload

router = APIRouter(prefix="/api/v1/artefacts", tags=["artefacts"])

_BYTES: Answers = {200: {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}}
_FOR_EVER = {"Cache-Control": "private, max-age=31536000, immutable"}
# Written to disk in parts of this size.
_PART = 1 << 20


@router.head("/{sha256}", dependencies=[everybody_known], operation_id="has_artefact", response_class=Response)
def has_artefact(sha256: Digest, state: State) -> Response:
    """Say whether a file is here."""
    size = known_size(state.kept.store, sha256)
    if size is None:
        raise _unknown(sha256)
    return Response(headers={"Content-Length": str(size), "ETag": f'"{sha256}"'})


@router.get("/{sha256}", dependencies=[everybody_known], response_class=FileResponse, responses=_BYTES)
def get_artefact(sha256: Digest, state: State, request: Request) -> Response:
    """Download a file; ranges are understood."""
    path = _here(state, sha256)
    same = unchanged(request, f'"{sha256}"')
    known = state.kept.artefacts.get(sha256)
    name = known.name if known is not None else sha256
    return same or FileResponse(
        path, media_type="application/octet-stream", filename=name, headers={"ETag": f'"{sha256}"', **_FOR_EVER}
    )


@router.put(
    "/{sha256}",
    dependencies=[agents],
    responses={201: {"model": ArtefactRecord}},
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def put_artefact(
    sha256: Digest,
    request: Request,
    response: Response,
    state: State,
    name: Annotated[str, Query(max_length=500, description="For people to read.")] = "",
) -> ArtefactRecord:
    """Upload a file; its content must have the SHA-256 of the path."""
    upload = await anyio.to_thread.run_sync(lambda: _begin(state))
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


def _begin(state: ServerState) -> Upload:
    return state.kept.store.artefacts.begin(int(state.settings.max_artefact_mb * MB))


def _keep(state: ServerState, upload: Upload, digest: str, name: str) -> tuple[ArtefactRecord, bool]:
    kept = state.kept
    # The bucket is not asked: whoever uploads need not wait for it.
    there = kept.artefacts.get(digest) is not None or kept.store.samples.path(digest).is_file()
    _, new = upload.keep(digest)
    return kept.artefacts.note(digest, name or digest, upload.size_bytes), new and not there


def _here(state: ServerState, digest: str) -> Path:
    path = held(state.kept.store, digest)
    if path is None:
        raise _unknown(digest)
    return path


def _unknown(digest: str) -> RequestProblem:
    return RequestProblem(404, f"no file {digest} is here", code="unknown-artefact", try_="upload it first")
