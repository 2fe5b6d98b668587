"""The server itself: its health and metrics, who asks, tokens, and prices of machines."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import JsonValue

from assay.errors import StoreError
from assay.plan.digest import content_hash
from assay.serve.facts.records import PriceInput
from assay.serve.live.dispatch import RedisQueue
from assay.serve.observability import tell
from assay.serve.state import ServerState
from assay.serve.web.access import Admin, MetricsAccess, Reader, State, User, admins, public, readers, unchanged, users
from assay.serve.web.problems import RETRY_AFTER_S, RequestProblem, Unavailable
from assay.serve.web.records import Health, Listed, Readiness, TokenInput
from assay.store.prices import PriceRecord, Prices
from assay.store.tokens import Role, Token
from assay.version import __version__

health_router = APIRouter(prefix="/api/v1", tags=["health"])
metrics_router = APIRouter(tags=["health"])
session_router = APIRouter(prefix="/api/v1", tags=["session"])
tokens_router = APIRouter(prefix="/api/v1/tokens", tags=["tokens"], dependencies=[admins])
_LONGEST_S = 100 * 365 * 86400
prices_router = APIRouter(prefix="/api/v1/prices", tags=["prices"])
Machine = Annotated[str, Path(max_length=200, description="Name of a machine, or a pattern of names such as `gpu-*`.")]


@health_router.get("/health", dependencies=[public])
async def get_health() -> Health:
    """Say that the process lives."""
    return Health("ok", __version__)


@health_router.get("/ready", dependencies=[public], responses={503: {"model": Readiness}})
def get_readiness(state: State, response: Response) -> Readiness:
    """Say whether database and queue answer; 503 when they do not."""
    database, queue = _database(state), "away"
    if database == "ok":
        queue = _queue(state)
    ready = database == "ok" and queue != "away"
    if not ready:
        response.status_code = 503
        response.headers["Retry-After"] = str(RETRY_AFTER_S)
    return Readiness(ready, database, queue)


@metrics_router.get(
    "/metrics",
    dependencies=[Depends(MetricsAccess("reader", "user", "admin"))],
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def get_metrics(state: State) -> Response:
    """Numbers about the server, for Prometheus."""
    return Response(state.metrics.render(), media_type=CONTENT_TYPE_LATEST)


def _database(state: ServerState) -> str:
    try:
        state.kept.control.last_event()
    except (StoreError, Unavailable):
        return "away"
    return "ok"


def _queue(state: ServerState) -> str:
    queue = state.kept.queue
    if not isinstance(queue, RedisQueue):
        return "sql"
    try:
        queue.broker.sizes()
    except StoreError:
        return "away"
    return "redis"


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


@session_router.get("/session", dependencies=[readers])
async def get_session(state: State, by: Reader) -> Session:
    """Say whose token this is and what it may do."""
    return Session(by.name, by.role, bool(state.is_open), __version__)


@session_router.get(
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


@dataclass(frozen=True, slots=True)
class TokenMade:
    """A new token with its secret, which is shown here and never again."""

    token: Token
    secret: str


@tokens_router.post("", status_code=201)
def create_token(wish: TokenInput, state: State, by: Admin) -> TokenMade:
    """Make a token; its secret is in this answer and nowhere else."""
    if wish.expires_in_s is not None and not 0 < wish.expires_in_s <= _LONGEST_S:
        raise RequestProblem(
            422, "expires_in_s must be positive and at most a hundred years", code="request", at="expires_in_s"
        )
    if len(wish.name) > 200:
        raise RequestProblem(422, "name has at most 200 characters", code="request", at="name")
    token, secret = state.kept.tokens.create(wish.name, wish.role, wish.expires_in_s)
    tell("token made", token=token.id, name=token.name, role=token.role, by=by.name)
    return TokenMade(token, secret)


@tokens_router.get("")
def list_tokens(state: State) -> Listed[Token]:
    """List tokens, without their secrets."""
    return Listed(state.kept.tokens.list())


@tokens_router.delete("/{token}", status_code=204)
def revoke_token(token: Annotated[str, Path(max_length=64)], state: State, by: Admin) -> None:
    """Take a token's right away."""
    state.kept.tokens.revoke(token)
    state.forget_tokens()
    tell("token revoked", token=token, by=by.name)


@prices_router.get("", dependencies=[readers])
def list_prices(state: State) -> Listed[PriceRecord]:
    """List the prices of machines by name."""
    return Listed(_prices(state).all())


@prices_router.get("/{machine}", dependencies=[readers])
def get_price(machine: Machine, state: State) -> PriceRecord:
    """Read the price that was given for a name or pattern."""
    return _prices(state).get(machine)


@prices_router.put("/{machine}", dependencies=[users])
def put_price(machine: Machine, given: PriceInput, state: State, by: User) -> PriceRecord:
    """Say what a machine costs, or all machines whose names follow a pattern."""
    kept = _prices(state).put(machine, given.per_hour, given.currency, given.date, by=by.name)
    tell("price set", machine=machine, per_hour=kept.per_hour, currency=kept.currency, by=by.name)
    return kept


@prices_router.delete("/{machine}", dependencies=[users], status_code=204)
def remove_price(machine: Machine, state: State, by: User) -> None:
    """Forget a price."""
    _prices(state).remove(machine)
    tell("price removed", machine=machine, by=by.name)


def _prices(state: State) -> Prices:
    return Prices(state.kept.store.engine, state.clock)
