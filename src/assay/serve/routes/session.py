"""Who asks, and what a benchmark file may say: what a page needs before it can show anything."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache

from fastapi import APIRouter, Request, Response
from pydantic import JsonValue

from assay.plan.digest import content_hash
from assay.serve.web.access import Reader, readers
from assay.serve.web.parameters import State, unchanged
from assay.store.tokens import Role
from assay.version import __version__

router = APIRouter(prefix="/api/v1", tags=["session"])


@dataclass(frozen=True, slots=True)
class Session:
    """Whoever sent the request, as the server knows them."""

    name: str
    """Name of the token; `local` where the server is open."""
    role: Role
    open: bool
    """Everybody on this machine is admin: no token is asked for."""
    version: str
    """Of the server."""


@router.get("/session", dependencies=[readers])
async def get_session(state: State, by: Reader) -> Session:
    """Say whose token this is and what it may do."""
    return Session(by.name, by.role, bool(state.is_open), __version__)


@router.get(
    "/schema",
    dependencies=[readers],
    response_model=dict[str, JsonValue],
    responses={304: {"description": "It has not changed."}},
)
def get_schema(request: Request) -> Response:
    """Read the JSON Schema of the benchmark file: every key with its type and meaning."""
    text, tag = _schema()
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    return unchanged(request, tag) or Response(text, media_type="application/json", headers=headers)


@cache
def _schema() -> tuple[str, str]:
    """The schema as text, and its tag: the same for as long as the server runs."""
    from assay.spec.schema import benchmark_schema

    schema = benchmark_schema()
    return json.dumps(schema), f'"{content_hash(schema)[:32]}"'
