"""The overview: what runs, what failed, what moved; and live updates by server-sent events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse

from assay.alert import service
from assay.alert.records import AlertRecord, AlertState, Severity
from assay.series.repository import KnownFinding, SeriesStore
from assay.serve.state import ServerState
from assay.serve.web.access import Answers, CampaignId, State, readers
from assay.store.alerts import AlertFilter
from assay.store.overview import FleetHealth, OverviewReader, Waiting
from assay.store.records import CampaignSummary, JobSummary

router = APIRouter(prefix="/api/v1", tags=["overview"])

_SHOWN = 10
# Each takes several lines.
_TOLD = 5
_FAILED_WITHIN_S = 7 * 86400.0
# Campaigns of a process on this machine that is gone are among those that still say that they run.
_LOOKED_THROUGH = 50
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
        """What a list shows of an alert."""
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


@router.get("/overview", dependencies=[readers])
def get_overview(state: State) -> Overview:
    """Read what runs now, what failed, what moved and how the fleet is."""
    kept, now = state.kept, state.clock.utc().timestamp()
    standing = OverviewReader(kept.store.engine)
    counts = standing.counts()
    fleet = standing.fleet(silent_before=now - state.settings.silent_after_s)
    return Overview(
        empty=not counts.campaigns and not fleet.agents,
        campaigns=counts.campaigns,
        running=_running(state),
        last=standing.ended(_SHOWN),
        failed=standing.failed(now - _FAILED_WITHIN_S, _SHOWN),
        findings_open=counts.findings,
        moved=SeriesStore(kept.store, state.clock).findings(state="open", limit=_TOLD),
        alerts_open=counts.alerts,
        alerts=tuple(map(AlertHeadline.of, service.listed(kept.store, AlertFilter(("open",)), None, _TOLD).items)),
        jobs=counts.jobs,
        fleet=fleet,
    )


def _running(state: ServerState) -> tuple[CampaignSummary, ...]:
    found = state.kept.listing.campaigns(state="running", limit=_LOOKED_THROUGH).items
    return tuple(one for one in found if one.state == "running")[:_SHOWN]


@events_router.get("/events", dependencies=[readers], response_class=StreamingResponse, responses=_STREAM)
async def stream_events(state: State, last_event_id: LastEvent = None, after: After = None) -> StreamingResponse:
    """Follow everything that happens, from now on or from an event on."""
    return stream(state, _position(last_event_id, after), None)


@events_router.get(
    "/campaigns/{campaign}/events", dependencies=[readers], response_class=StreamingResponse, responses=_STREAM
)
def stream_campaign_events(
    campaign: CampaignId, state: State, last_event_id: LastEvent = None, after: After = None
) -> StreamingResponse:
    """Follow one campaign, from its beginning or from an event on."""
    state.kept.listing.campaign(campaign)
    return stream(state, _position(last_event_id, after) or 0, campaign)


def stream(state: ServerState, after: int | None, campaign: str | None) -> StreamingResponse:
    """An answer that goes on until the client leaves or the server ends."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(state.feed.listen(after, campaign), media_type="text/event-stream", headers=headers)


def _position(last_event_id: str | None, after: int | None) -> int | None:
    if last_event_id is not None and last_event_id.isascii() and last_event_id.isdigit():
        return min(int(last_event_id[:19]), 2**62)
    return after
