"""Notices: the messages about alerts, whether each was taken, and if not, why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from pydantic import JsonValue

from assay.alert import service
from assay.serve.logs import tell
from assay.serve.web.access import User, readers, users
from assay.serve.web.parameters import Answers, Limit, State
from assay.serve.web.records import Listed

router = APIRouter(prefix="/api/v1/notices", tags=["alerts"])

NoticeId = Annotated[int, Path(ge=0, le=2**31 - 1, description="Number of the notice.")]
NoticeStateName = Annotated[Literal["", "waiting", "sending", "sent", "given-up"], Query(alias="state")]
OfAlert = Annotated[str, Query(max_length=16, description="Id of an alert, or its beginning.")]

_NOTICE: Mapping[str, JsonValue] = {
    "id": 17, "key": "5f0c1d2e3a4b5c6d:1:team-chat", "channel": "team-chat", "alert": "5f0c1d2e3a4b5c6d",
    "subject": "[warning] chat capacity rate=4: ttft_ms.p99 is 6.1 % worse", "state": "waiting", "tries": 3,
    "created_at": 1763118600.0, "next_at": 1763118640.0, "sent_at": None,
    "error": "chat.example.com answered 503 Service Unavailable",
}  # fmt: skip


def _shown(example: object) -> Answers:
    return {200: {"content": {"application/json": {"example": example}}}}


@router.get("", dependencies=[readers], responses=_shown({"items": [_NOTICE], "next": None}))
def list_notices(
    state: State, only: NoticeStateName = "", alert: OfAlert = "", limit: Limit = 50
) -> Listed[service.NoticeView]:
    """List the newest messages about alerts, with what became of each."""
    return Listed(service.notices(state.kept.store, state.clock, alert=alert, only=only or None, limit=limit))


@router.post(
    "/{notice}/again",
    dependencies=[users],
    responses={**_shown({**_NOTICE, "tries": 0, "error": ""}), 409: {"description": "It was not given up."}},
)
def send_notice_again(notice: NoticeId, state: State, by: User) -> service.NoticeView:
    """Send a message after all that was given up."""
    sent = service.send_again(state.kept.store, state.clock, notice)
    tell("notice is sent again", notice=notice, channel=sent.channel, by=by.name)
    return sent
