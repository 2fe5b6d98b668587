"""Live updates by server-sent events."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse

from assay.serve.state import ServerState
from assay.serve.web.access import readers
from assay.serve.web.parameters import Answers, CampaignId, State

router = APIRouter(prefix="/api/v1", tags=["events"])

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


@router.get("/events", dependencies=[readers], response_class=StreamingResponse, responses=_STREAM)
async def stream_events(state: State, last_event_id: LastEvent = None, after: After = None) -> StreamingResponse:
    """Follow everything that happens, from now on or from an event on."""
    return stream(state, _position(last_event_id, after), None)


@router.get("/campaigns/{campaign}/events", dependencies=[readers], response_class=StreamingResponse, responses=_STREAM)
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
