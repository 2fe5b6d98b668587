"""The server itself: overview, live updates, health, metrics, who asks, tokens, and prices of machines."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from functools import cache
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import JsonValue

from assay.alert import service
from assay.alert.records import AlertRecord, AlertState, Severity
from assay.errors import StoreError
from assay.plan.job import content_hash
from assay.series.repository import KnownFinding
from assay.serve.observability import log_event
from assay.serve.state import ServerState
from assay.serve.web.access import (
    Admin,
    Answers,
    CampaignId,
    MetricsAccess,
    Reader,
    State,
    User,
    admins,
    public,
    readers,
    tagged,
)
from assay.serve.web.problems import RETRY_AFTER_S, Unavailable, bad_value
from assay.serve.web.records import Health, Listed, Readiness, TokenInput
from assay.store.alerts import AlertFilter
from assay.store.overview import FleetHealth, OverviewReader, Waiting
from assay.store.prices import PriceRecord
from assay.store.records import CampaignSummary, JobSummary
from assay.store.tokens import Role, Token
from assay.version import __version__

health_router = APIRouter(prefix="/api/v1", tags=["health"])
metrics_router = APIRouter(tags=["health"])
session_router = APIRouter(prefix="/api/v1", tags=["session"])
tokens_router = APIRouter(prefix="/api/v1/tokens", tags=["tokens"], dependencies=[admins])
_LONGEST_S = 100 * 365 * 86400
prices_router = APIRouter(prefix="/api/v1/prices", tags=["prices"])
Machine = Annotated[str, Path(max_length=200, description="Name of a machine, or a pattern of names such as `gpu-*`.")]


@dataclass(frozen=True, slots=True)
class PriceInput:
    """What a machine costs."""

    per_hour: float
    currency: str = "USD"
    date: str = ""
    """When the price was looked up; today when left out."""


@health_router.get("/health", dependencies=[public])
async def get_health() -> Health:
    """Say that the process lives."""
    return Health("ok", __version__)


@health_router.get("/ready", dependencies=[public], responses={503: {"model": Readiness}})
def get_readiness(state: State, response: Response) -> Readiness:
    """Say whether database and queue answer; 503 when they do not."""
    database, queue = "away", "away"
    with contextlib.suppress(StoreError, Unavailable):
        state.kept.control.last_event()
        database, broker = "ok", state.kept.queue.broker
        if broker is not None:
            broker.sizes()
        queue = "redis" if broker else "sql"
    ready = queue != "away"
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


@dataclass(frozen=True, slots=True)
class Session:
    """The sender of the request, as the server knows them."""

    name: str
    """Name of the token; `local` where the server is open."""
    role: Role
    open: bool
    """Everybody on this machine is admin: no token is asked for."""
    version: str
    """Of the server."""


@session_router.get("/session")
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
    return tagged(request, tag, lambda: text)


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
def create_token(request: TokenInput, state: State, by: Admin) -> TokenMade:
    """Make a token; its secret is in this answer and nowhere else."""
    if request.expires_in_s is not None and not 0 < request.expires_in_s <= _LONGEST_S:
        raise bad_value("expires_in_s", "expires_in_s must be positive and at most a hundred years")
    if len(request.name) > 200:
        raise bad_value("name", "name has at most 200 characters")
    token, secret = state.kept.tokens.create(request.name, request.role, request.expires_in_s)
    log_event("token made", token=token.id, name=token.name, role=token.role, by=by.name)
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
    log_event("token revoked", token=token, by=by.name)


@prices_router.get("", dependencies=[readers])
def list_prices(state: State) -> Listed[PriceRecord]:
    """List the prices of machines by name."""
    return Listed(state.kept.prices.all())


@prices_router.get("/{machine}", dependencies=[readers])
def get_price(machine: Machine, state: State) -> PriceRecord:
    """Read the price that was given for a name or pattern."""
    return state.kept.prices.get(machine)


@prices_router.put("/{machine}")
def put_price(machine: Machine, given: PriceInput, state: State, by: User) -> PriceRecord:
    """Say what a machine costs, or all machines whose names follow a pattern."""
    price = state.kept.prices.put(machine, given.per_hour, given.currency, given.date, by=by.name)
    log_event("price set", machine=machine, per_hour=price.per_hour, currency=price.currency, by=by.name)
    return price


@prices_router.delete("/{machine}", status_code=204)
def remove_price(machine: Machine, state: State, by: User) -> None:
    """Forget a price."""
    state.kept.prices.remove(machine)
    log_event("price removed", machine=machine, by=by.name)


overview_router = APIRouter(prefix="/api/v1", tags=["overview"])

_SHOWN = 10
# Each takes several lines.
_MOST_NAMED = 5
_FAILED_WITHIN_S = 7 * 86400.0
# Campaigns of a process on this machine that is gone are among those that still say that they run.
_SEARCHED = 50
events_router = APIRouter(prefix="/api/v1", tags=["events"])
LastEvent = Annotated[
    str | None, Header(description="Id of the last event that was seen: what followed is sent first.")
]
After = Annotated[int | None, Query(ge=0, le=2**62, description="The same, for clients that cannot set the header.")]
_STREAM: Answers = {
    200: {
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
        "description": "Events named `job`, `campaign` and `progress`; their data is an EventRecord.",
    }
}


@dataclass(frozen=True, slots=True)
class AlertHeadline:
    """An alert in a line; `/alerts/{alert}` has all of it."""

    id: str
    title: str
    state: AlertState
    severity: Severity
    says: str
    """The first sentence of it; empty where there is none."""
    opened_at: float

    @classmethod
    def of(cls, alert: AlertRecord) -> AlertHeadline:
        says = next(iter(alert.sentences), "")
        return cls(alert.id, alert.title, alert.state, alert.severity, says, alert.opened_at)


@dataclass(frozen=True, slots=True)
class Overview:
    """How things stand now."""

    empty: bool
    """Nothing was ever submitted, and no agent is enrolled."""
    campaigns: int
    running: tuple[CampaignSummary, ...]
    """The newest 10 that run."""
    last: tuple[CampaignSummary, ...]
    """The newest 10 that have ended."""
    failed: tuple[JobSummary, ...]
    """Jobs that failed or were set aside in the last seven days, the newest 10."""
    findings_open: int
    moved: tuple[KnownFinding, ...]
    """The newest 5 open findings."""
    alerts_open: int
    alerts: tuple[AlertHeadline, ...]
    """The newest 5 open alerts."""
    jobs: Waiting
    fleet: FleetHealth


@overview_router.get("/overview", dependencies=[readers])
def get_overview(state: State) -> Overview:
    """Read what runs now, what failed, what moved and how the fleet is."""
    server_store, now = state.kept, state.clock.utc().timestamp()
    standing = OverviewReader(server_store.store.engine)
    counts = standing.counts()
    fleet = standing.fleet(silent_before=now - state.settings.silent_after_s)
    newest = server_store.listing.campaigns(state="running", limit=_SEARCHED).items
    running = tuple(campaign for campaign in newest if campaign.state == "running")
    return Overview(
        empty=not counts.campaigns and not fleet.agents,
        campaigns=counts.campaigns,
        running=running[:_SHOWN],
        last=standing.ended(_SHOWN),
        failed=standing.failed(now - _FAILED_WITHIN_S, _SHOWN),
        findings_open=counts.findings,
        moved=server_store.series.findings(state="open", limit=_MOST_NAMED),
        alerts_open=counts.alerts,
        alerts=tuple(
            map(AlertHeadline.of, service.listed(server_store.store, AlertFilter(("open",)), None, _MOST_NAMED).items)
        ),
        jobs=counts.jobs,
        fleet=fleet,
    )


async def _position(last_event_id: LastEvent = None, after: After = None) -> int | None:
    if last_event_id is not None and last_event_id.isascii() and last_event_id.isdigit():
        return min(int(last_event_id[:19]), 2**62)
    return after


Position = Annotated[int | None, Depends(_position)]


@events_router.get("/events", dependencies=[readers], response_class=StreamingResponse, responses=_STREAM)
async def stream_events(state: State, position: Position) -> StreamingResponse:
    """Follow everything that happens, from now on or from an event on."""
    return stream(state, position, None)


@events_router.get(
    "/campaigns/{campaign}/events", dependencies=[readers], response_class=StreamingResponse, responses=_STREAM
)
def stream_campaign_events(campaign: CampaignId, state: State, position: Position) -> StreamingResponse:
    """Follow one campaign, from its beginning or from an event on."""
    state.kept.listing.campaign(campaign)
    return stream(state, position or 0, campaign)


def stream(state: ServerState, after: int | None, campaign: str | None) -> StreamingResponse:
    """An answer that continues until the client leaves or the server ends."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(state.feed.listen(after, campaign), media_type="text/event-stream", headers=headers)
