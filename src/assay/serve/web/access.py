"""Who may do what: bearer tokens with roles. Every route names the roles that may use it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

import anyio.to_thread
from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from assay.serve.settings import is_loopback
from assay.serve.state import ServerState, server_of
from assay.serve.web.problems import RequestProblem, Unavailable
from assay.store.tokens import Role

# What proxies add to the requests they pass on.
_FORWARDED_PREFIXES = ("x-forwarded", "x-original-")
_FORWARDED = frozenset({
    "forwarded", "via", "x-real-ip", "x-client-ip", "x-cluster-client-ip", "x-envoy-external-address",
    "cf-connecting-ip", "true-client-ip", "fastly-client-ip", "x-proxyuser-ip", "client-ip",
})  # fmt: skip
_bearer = HTTPBearer(auto_error=False, description="A token from `assay tokens create` or POST /tokens.")


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks."""

    name: str
    role: Role


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
    _refuse_forwarded(request)
    host = request.headers.get("host", "")
    name = urlsplit(f"//{host}").hostname or ""
    if not is_loopback(name):
        raise _foreign(f"the request is for the host {name[:80]!r}, and an open server answers this machine only")
    origin = request.headers.get("origin")
    if origin and urlsplit(origin).netloc != host and origin not in state.settings.cors_origins:
        raise _foreign("the request comes from a web page of another origin")
    if not origin and request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        raise _foreign("the request comes from a web page of another origin")
    return Principal("local", "admin")


def _refuse_forwarded(request: Request) -> None:
    """Refuse a request that a proxy passed on: it connects from this machine, whatever machine sent it."""
    for name in request.headers:
        if name in _FORWARDED or name.startswith(_FORWARDED_PREFIXES):
            raise RequestProblem(
                403,
                f"this server is open: everybody on this machine is admin. The header {name!r} "
                "says that a proxy forwarded this request, perhaps from another machine",
                code="forwarded",
                try_="start the server with `assay serve --closed` and make tokens with `assay tokens create`",
            )


def _foreign(what: str) -> RequestProblem:
    return RequestProblem(
        403, what, code="foreign", try_="create a token on the server and restart it: `assay tokens create`"
    )


async def _by_token(state: ServerState, given: HTTPAuthorizationCredentials | None) -> Principal:
    if given is None:
        raise _unknown("a token is needed")
    known = state.known_token(given.credentials)
    if known is None:
        known = await anyio.to_thread.run_sync(state.check_token, given.credentials)
    if known is None:
        raise _unknown("the token is not known, was revoked or has run out")
    return Principal(known.name, known.role)


def _unknown(what: str) -> RequestProblem:
    return RequestProblem(
        401,
        what,
        code="unauthorized",
        try_="send `Authorization: Bearer <token>`; assay's own commands read it from ASSAY_TOKEN or --token-file",
        headers={"WWW-Authenticate": 'Bearer realm="assay"'},
    )


allow_readers = Allow("reader", "user", "admin")
allow_users = Allow("user", "admin")
allow_admins = Allow("admin")
allow_agents = Allow("agent", "user", "admin")
allow_agents_alone = Allow("agent", "admin")
allow_everybody_known = Allow("agent", "reader", "user", "admin")

public = Depends(Public())
readers = Depends(allow_readers)
users = Depends(allow_users)
admins = Depends(allow_admins)
agents = Depends(allow_agents)
agents_alone = Depends(allow_agents_alone)
everybody_known = Depends(allow_everybody_known)

Reader = Annotated[Principal, readers]
User = Annotated[Principal, users]
Admin = Annotated[Principal, admins]
