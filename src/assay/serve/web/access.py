"""Who may do what, and the parameters that routes share. Every route names the roles that may use it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar
from fastapi import Depends, Header, Path, Query, Request, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from assay.http import is_loopback
from assay.place.fleet.protocol import AGENT_KEY
from assay.serve.state import Principal, ServerState, server_of, state_of
from assay.serve.web.problems import RequestProblem, Unavailable
from assay.store.listing import JobFilter
from assay.store.tokens import Role

T = TypeVar("T")
# What proxies add to the requests they pass on.
_FORWARDED_PREFIXES = ("x-forwarded", "x-original-")
_FORWARDED = frozenset({
    "forwarded", "via", "x-real-ip", "x-client-ip", "x-cluster-client-ip", "x-envoy-external-address",
    "cf-connecting-ip", "true-client-ip", "fastly-client-ip", "x-proxyuser-ip", "client-ip",
})  # fmt: skip
_bearer = HTTPBearer(auto_error=False, description="A token from `assay tokens create` or POST /tokens.")
Answers = dict[int | str, dict[str, Any]]  # further answers of a route, for the OpenAPI document
State = Annotated[ServerState, Depends(state_of)]
Cursor = Annotated[str | None, Query(max_length=1000, description="Where the page before ended: its `next`.")]
Limit = Annotated[int, Query(ge=1, le=500, description="How many make a page.")]
Text = Annotated[str, Query(max_length=200)]
# Words, not text: a slip of the pen must not read as an empty list.
AgentStateName = Annotated[Literal["", "active", "busy", "cleanup", "faulty"], Query(alias="state")]
CampaignStateName = Annotated[
    Literal["", "running", "done", "partial", "failed", "cancelled", "interrupted"], Query(alias="state")
]
JobStateName = Annotated[
    Literal["", "pending", "running", "done", "failed", "cancelled", "poisoned"], Query(alias="state")
]
VerdictName = Annotated[Literal["", "valid", "suspect", "invalid"], Query()]
AgentId = Annotated[str, Path(max_length=200, description="Id of the agent, or its name where that is unique.")]
CampaignId = Annotated[str, Path(max_length=64)]
JobId = Annotated[str, Path(max_length=80)]
Fence = Annotated[int, Path(ge=0, le=2**31 - 1, description="Number of the lease.")]
RunId = Annotated[int, Path(ge=0, le=2**31 - 1)]
Digest = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the content.")]
AgentKey = Annotated[str, Header(alias=AGENT_KEY, max_length=200, description="The key that the agent enrolled with.")]
ByAgent = Annotated[str, Query(max_length=64, description="Id of the agent.")]


class Allow:
    """A dependency that lets only certain roles through; routes without one do not pass the tests."""

    def __init__(self, *roles: Role) -> None:
        self.roles = frozenset(roles)

    async def __call__(
        self, request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
    ) -> Principal:
        state = server_of(request)
        if state.is_open is None:
            raise Unavailable
        principal = _open(request, state) if state.is_open else await _by_token(state, given)
        request.scope["principal"] = principal.name
        if principal.role not in self.roles:
            raise RequestProblem(
                403,
                f"the role {principal.role!r} may not do this; it takes {' or '.join(sorted(self.roles))}",
                code="forbidden",
                try_="use a token of another role",
            )
        return principal


class Public:
    """A dependency that says on purpose: everybody may."""

    async def __call__(self) -> None:
        """Let the request through."""


class MetricsAccess(Allow):
    """Readers; everybody where the settings say so."""

    async def __call__(
        self, request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
    ) -> Principal:
        if server_of(request).settings.open_metrics:
            return Principal("metrics", "reader")
        return await super().__call__(request, given)


def _open(request: Request, state: ServerState) -> Principal:
    """Everybody on this machine is admin; a page in a browser and a proxy may speak for anybody, and are refused."""
    for header in request.headers:
        # A proxy connects from this machine, whatever machine sent the request.
        if header in _FORWARDED or header.startswith(_FORWARDED_PREFIXES):
            raise RequestProblem(
                403,
                f"this server is open: everybody on this machine is admin. The header {header!r} "
                "says that a proxy forwarded this request, perhaps from another machine",
                code="forwarded",
                try_="start the server with `assay serve --closed` and make tokens with `assay tokens create`",
            )
    host, origin = request.headers.get("host", ""), request.headers.get("origin")
    name = urlsplit(f"//{host}").hostname or ""
    if origin:
        is_foreign = urlsplit(origin).netloc != host and origin not in state.settings.cors_origins
    else:
        is_foreign = request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
    foreign = "the request comes from a web page of another origin" if is_foreign else ""
    if not is_loopback(name):
        foreign = f"the request is for the host {name[:80]!r}, and an open server answers this machine only"
    if foreign:
        advice = "create a token on the server and restart it: `assay tokens create`"
        raise RequestProblem(403, foreign, code="foreign", try_=advice)
    return Principal("local", "admin")


async def _by_token(state: ServerState, given: HTTPAuthorizationCredentials | None) -> Principal:
    principal = await state.principal(given.credentials) if given is not None else None
    if principal is None:
        raise RequestProblem(
            401,
            "a token is needed" if given is None else "the token is not known, was revoked or has run out",
            code="unauthorized",
            try_="send `Authorization: Bearer <token>`; assay's own commands read it from ASSAY_TOKEN or --token-file",
            headers={"WWW-Authenticate": 'Bearer realm="assay"'},
        )
    return principal


public = Depends(Public())
readers = Depends(Allow("reader", "user", "admin"))
users = Depends(Allow("user", "admin"))
admins = Depends(Allow("admin"))
agents = Depends(Allow("agent", "user", "admin"))
agents_alone = Depends(Allow("agent", "admin"))
everybody_known = Depends(Allow("agent", "reader", "user", "admin"))

Reader = Annotated[Principal, readers]
User = Annotated[Principal, users]
Admin = Annotated[Principal, admins]


def wanted_jobs(
    state: JobStateName = "",
    benchmark: Text = "",
    campaign: Text = "",
    agent: Text = "",
    verdict: VerdictName = "",
    text: Text = "",
) -> JobFilter:
    """Which jobs a request asks for."""
    return JobFilter(state, benchmark, campaign, agent, text, verdict)


WantedJobs = Annotated[JobFilter, Depends(wanted_jobs)]


def unchanged(request: Request, tag: str) -> Response | None:
    """The answer 304 when the client has this very version."""
    tags = [sent.strip().removeprefix("W/") for sent in request.headers.get("if-none-match", "").split(",")]
    return Response(status_code=304, headers={"ETag": tag}) if tag.removeprefix("W/") in tags or "*" in tags else None


def tagged(request: Request, tag: str, make: Callable[[], str]) -> Response:
    """A JSON document, made where the client has another version of it."""
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    return unchanged(request, tag) or Response(make(), media_type="application/json", headers=headers)


def example(body: object, status: int = 200, **more: object) -> Answers:
    """An answer of a route with an example of it, for the OpenAPI document."""
    return {status: {**more, "content": {"application/json": {"example": body}}}}


def body_of(kind: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """A body that a route reads by hand, for the OpenAPI document."""
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema}}}}


BINARY: Mapping[str, Any] = {"type": "string", "format": "binary"}


class Turns:
    """Arithmetic in Python, one request at a time: two concurrent ones would only slow each other, and all others."""

    def __init__(self, name: str) -> None:
        self._limiter: RunVar[anyio.CapacityLimiter] = RunVar(name)

    async def run(self, work: Callable[[], T]) -> T:
        try:
            limiter = self._limiter.get()
        except LookupError:
            self._limiter.set(limiter := anyio.CapacityLimiter(1))
        return await anyio.to_thread.run_sync(work, limiter=limiter)
