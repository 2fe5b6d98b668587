"""Channels, by which people are notified, and notices: the messages that each was given."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from fastapi import APIRouter, Query, Request
from fastapi import Path as InPath
from pydantic import JsonValue

from assay.alert import service
from assay.alert.notify.channels import try_channel
from assay.alert.notify.command import Command
from assay.alert.notify.email_ import Email
from assay.alert.notify.forge import GitHub, GitLab
from assay.alert.notify.http import HttpChannel
from assay.alert.notify.protocol import Channel as Sender
from assay.alert.notify.protocol import NotifyError
from assay.report.wording import one_line
from assay.serve.facts.records import Channel, ChannelTest
from assay.serve.live.notifications import NoticeSender
from assay.serve.observability import tell
from assay.serve.state import ServerState
from assay.serve.web.access import Admin, Answers, Limit, State, User, admins, readers, users
from assay.serve.web.records import Listed
from assay.spec.secrets import REFERENCE
from assay.store.notices import ChannelStatus, channel_status

_MOST_MAILBOXES = 3
router = APIRouter(prefix="/api/v1/channels", tags=["alerts"])
ChannelName = Annotated[str, InPath(max_length=64, description="Name of the channel.")]
notices_router = APIRouter(prefix="/api/v1/notices", tags=["alerts"])
NoticeId = Annotated[int, InPath(ge=0, le=2**31 - 1, description="Number of the notice.")]
NoticeStateName = Annotated[Literal["", "waiting", "sending", "sent", "given-up"], Query(alias="state")]
OfAlert = Annotated[str, Query(max_length=16, description="Id of an alert, or its beginning.")]
_NOTICE: Mapping[str, JsonValue] = {
    "id": 17, "key": "5f0c1d2e3a4b5c6d:1:team-chat", "channel": "team-chat", "alert": "5f0c1d2e3a4b5c6d",
    "subject": "[warning] chat capacity rate=4: ttft_ms.p99 is 6.1 % worse", "state": "waiting", "tries": 3,
    "created_at": 1763118600.0, "next_at": 1763118640.0, "sent_at": None,
    "error": "chat.example.com answered 503 Service Unavailable",
}  # fmt: skip


def channels_of(state: ServerState, senders: Mapping[str, Sender]) -> tuple[Channel, ...]:
    """Every channel by name, with what became of its newest messages."""
    found = channel_status(state.kept.store.engine, tuple(senders))
    return tuple(_channel(name, senders[name], found.get(name, ChannelStatus())) for name in sorted(senders))


def _channel(name: str, sender: Sender, told: ChannelStatus) -> Channel:
    word: Literal["ok", "failing", "unused"] = "ok" if told.last_sent is not None else "unused"
    word = "failing" if told.error else word
    return Channel(name, sender.kind, place_of(sender), word, told.last_sent, told.error, told.waiting)


def tried(state: ServerState, senders: Mapping[str, Sender], name: str) -> ChannelTest:
    """Send a test message to a channel.

    Raises:
        UsageError: `unknown-channel` if there is none of that name.
    """
    try:
        note = try_channel(senders, name, state.settings.shown_url)
    except NotifyError as failed:
        problem = failed.problem
        return ChannelTest(False, one_line(f"{problem.message}{f'; try: {problem.try_}' if problem.try_ else ''}"))
    return ChannelTest(True, one_line(note or "the test message was taken"))


def place_of(sender: Sender) -> str:
    """Where a channel sends to, in words that hold no secret: hosts, mailboxes, repositories, names of programs."""
    if isinstance(sender, Email):
        more = len(sender.to) - _MOST_MAILBOXES
        return ", ".join(sender.to[:_MOST_MAILBOXES]) + (f" and {more} more" if more > 0 else "")
    if isinstance(sender, GitHub):
        return f"{sender.repository} on {_host(sender.url)}"
    if isinstance(sender, GitLab):
        return f"{sender.project} on {_host(sender.url)}"
    if isinstance(sender, HttpChannel):
        return _host(sender.url)
    # What stands behind the name of a program may be anything.
    return Path(sender.command[0]).name if isinstance(sender, Command) else ""


def _host(url: str) -> str:
    """The host of an address; an address that is itself a secret is only said to be one."""
    host = urlsplit(url).hostname or ""
    return host if host and not REFERENCE.search(url.partition("://")[2].partition("/")[0]) else "a secret address"


@router.get("", dependencies=[readers])
def list_channels(state: State, request: Request) -> Listed[Channel]:
    """List the channels of this server, with what became of their newest messages."""
    return Listed(channels_of(state, _notifying(request).channels))


@router.post("/{name}/test", dependencies=[admins])
def test_channel(name: ChannelName, state: State, request: Request, by: Admin) -> ChannelTest:
    """Send a test message to a channel, at once, and say whether it was taken."""
    answer = tried(state, _notifying(request).channels, name)
    tell("channel tried", channel=name, sent=answer.sent, by=by.name)
    return answer


def _notifying(request: Request) -> NoticeSender:
    found: NoticeSender = request.app.state.notifying
    return found


def _shown(example: object) -> Answers:
    return {200: {"content": {"application/json": {"example": example}}}}


@notices_router.get("", dependencies=[readers], responses=_shown({"items": [_NOTICE], "next": None}))
def list_notices(
    state: State, only: NoticeStateName = "", alert: OfAlert = "", limit: Limit = 50
) -> Listed[service.NoticeView]:
    """List the newest messages about alerts, with what became of each."""
    return Listed(service.notices(state.kept.store, state.clock, alert=alert, only=only or None, limit=limit))


@notices_router.post(
    "/{notice}/again",
    dependencies=[users],
    responses={**_shown({**_NOTICE, "tries": 0, "error": ""}), 409: {"description": "It was not given up."}},
)
def send_notice_again(notice: NoticeId, state: State, by: User) -> service.NoticeView:
    """Send a message after all that was given up."""
    sent = service.send_again(state.kept.store, state.clock, notice)
    tell("notice is sent again", notice=notice, channel=sent.channel, by=by.name)
    return sent
