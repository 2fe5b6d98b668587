"""Alerts, the rules that decide when, the channels by which people are notified, and the notices sent by each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from fastapi import APIRouter, Body, Depends, Path, Query, Request, Response
from pydantic import JsonValue

from assay.alert import service
from assay.alert.evaluate import act
from assay.alert.notify.channels import try_channel
from assay.alert.notify.command import Command
from assay.alert.notify.email_ import Email
from assay.alert.notify.forge import GitHub, GitLab
from assay.alert.notify.http import HttpChannel
from assay.alert.notify.protocol import Channel as Sender
from assay.alert.notify.protocol import NotifyError
from assay.alert.records import AlertRecord, Trigger
from assay.report.wording import one_line
from assay.serve.live.notifications import NoticeSender
from assay.serve.observability import log_event
from assay.serve.state import Principal, ServerState
from assay.serve.web.access import Admin, Cursor, Limit, State, Text, User, example, readers
from assay.serve.web.problems import bad_value
from assay.serve.web.records import Listed
from assay.spec.references import REFERENCE
from assay.store.alerts import AlertFilter, AlertRules
from assay.store.notices import ChannelStatus, channel_status

router = APIRouter(prefix="/api/v1/alerts", tags=["alerts"])
rules_router = APIRouter(prefix="/api/v1/alert-rules", tags=["alerts"])

AlertId = Annotated[str, Path(max_length=16, description="Id of the alert, or its beginning.")]
AlertStateName = Annotated[
    Literal["", "active", "open", "acknowledged", "snoozed", "expected", "resolved"],
    Query(alias="state", description="`active` stands for open, acknowledged and snoozed."),
]
SeverityName = Annotated[Literal["", "info", "warning", "critical"], Query()]
Since = Annotated[float | None, Query(ge=0, le=1e11, description="Changed at that time or later, seconds since 1970.")]
RuleName = Annotated[str, Path(min_length=1, max_length=200, description="Name of the rule.")]

_LONGEST_S = 10 * 365 * 86400
_LONGEST_WHY = 1000

_ALERT: Mapping[str, JsonValue] = {
    "id": "5f0c1d2e3a4b5c6d", "key": "9b1f…", "kind": "finding", "state": "open", "severity": "warning",
    "benchmark": "chat capacity", "title": "chat capacity rate=4: ttft_ms.p99 is 6.1 % worse",
    "sentences": ["chat capacity rate=4: ttft_ms.p99: 212 ms → 225 ms, +6.1 % [+4.1 %, +8.1 %]",
                  "What may explain it: code: commit 3f2a91bc02de → 91bc02de3f2a."],
    "opened_at": 1763118600.0, "changed_at": 1763118600.0, "members": [],
    "cause": "code: commit 3f2a91bc02de → 91bc02de3f2a",
    "differs": [{"name": "commit", "before": "3f2a91bc02de", "after": "91bc02de3f2a"}], "rules": [],
    "snoozed_until": None, "by": "", "findings": ["0c9d8e7f6a5b4c3d"],
    "history": [{"at": 1763118600.0, "happening": "occur", "state": "open", "by": "", "why": "ttft_ms.p99 …"}],
    "links": {"alert": "/alerts/5f0c1d2e3a4b5c6d"},
    "telling": {"turn": 1, "news": "opened", "not_before": 1763118600.0, "told": {}, "told_at": None, "owed": True},
    "past": {},
}  # fmt: skip
_RULE: Mapping[str, JsonValue] = {
    "id": "77aa3b2c1d0e9f88", "name": "slow first token", "origin": "api", "benchmark": "chat-*",
    "rule": {"metric": "ttft_ms.p99", "when": "above", "value": 50.0, "severity": "critical"},
    "says": "ttft_ms.p99 > 50", "created_at": 1763118600.0, "changed_at": 1763118600.0, "by": "ada", "told_at": None,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class AlertComment:
    """What a user says about an alert."""

    why: str = ""
    """The reason; it is kept in the history."""


@dataclass(frozen=True, slots=True)
class Snooze:
    """For how long an alert sends no notifications."""

    for_s: float | None = None
    """Seconds from now; or `until`."""
    until: float | None = None
    """Moment, in seconds since 1970."""
    why: str = ""


@dataclass(frozen=True, slots=True)
class RuleInput:
    """A rule for every benchmark whose name matches."""

    rule: Mapping[str, Any] | str
    """As in the section `alerts` of a benchmark file; or in short, such as `job failed`."""
    benchmark: str = "*"
    """Name of a benchmark, or a pattern such as `chat-*`."""


_WORD = Body(openapi_examples={"a reason": {"value": {"why": "the new tokenizer; fixed tomorrow"}}})
_SNOOZE = Body(openapi_examples={"four hours": {"value": {"for_s": 14400, "why": "the driver is being rolled back"}}})
_GIVEN = Body(
    openapi_examples={
        "a limit": {"value": {"benchmark": "chat-*", "rule": {"when": "ttft_ms.p99 > 50", "severity": "critical"}}},
        "in short": {"value": {"rule": "no data for 24h"}},
    }
)


@router.get("", dependencies=[readers], responses=example({"items": [_ALERT], "next": None}))
def list_alerts(
    state: State,
    cursor: Cursor = None,
    limit: Limit = 50,
    only: AlertStateName = "",
    severity: SeverityName = "",
    benchmark: Text = "",
    text: Text = "",
    since: Since = None,
) -> Listed[AlertRecord]:
    """List alerts, the newest first."""
    which = AlertFilter((only,) if only else (), severity, benchmark, text, since)
    return Listed.of(service.listed(state.kept.store, which, cursor, limit))


@router.get("/{alert}", dependencies=[readers], responses=example(_ALERT))
def get_alert(alert: AlertId, state: State) -> AlertRecord:
    """Read an alert: what it is about, what may explain it, and its history."""
    return service.read(state.kept.store, alert)


@router.post("/{alert}/acknowledge", responses=example({**_ALERT, "state": "acknowledged"}))
def acknowledge_alert(alert: AlertId, state: State, by: User, word: Annotated[AlertComment, _WORD]) -> AlertRecord:
    """Say that someone is working on it: no more notifications unless it gets worse."""
    return _act(state, alert, "acknowledge", by, word.why)


@router.post("/{alert}/snooze", responses=example({**_ALERT, "state": "snoozed"}))
def snooze_alert(alert: AlertId, state: State, by: User, snooze: Annotated[Snooze, _SNOOZE]) -> AlertRecord:
    """Hear nothing of it for a while; then it is open again."""
    now = state.clock.utc().timestamp()
    if (snooze.for_s is None) == (snooze.until is None):
        raise bad_value("for_s", "say either for_s or until")
    until = now + snooze.for_s if snooze.for_s is not None else snooze.until or 0.0
    if not now < until <= now + _LONGEST_S:
        raise bad_value("until", "a snooze ends in time to come, within ten years")
    return _act(state, alert, "snooze", by, snooze.why, until)


@router.post("/{alert}/expect", responses=example({**_ALERT, "state": "expected"}))
def expect_alert(alert: AlertId, state: State, by: User, word: Annotated[AlertComment, _WORD]) -> AlertRecord:
    """Call its changes expected: their series are measured from the new level on."""
    return _act(state, alert, "expect", by, word.why)


@router.post("/{alert}/resolve", responses=example({**_ALERT, "state": "resolved"}))
def resolve_alert(alert: AlertId, state: State, by: User, word: Annotated[AlertComment, _WORD]) -> AlertRecord:
    """Close it; it opens again if the problem comes back."""
    return _act(state, alert, "resolve", by, word.why)


@router.post("/{alert}/reopen", responses=example(_ALERT))
def reopen_alert(alert: AlertId, state: State, by: User, word: Annotated[AlertComment, _WORD]) -> AlertRecord:
    """Open it again."""
    return _act(state, alert, "reopen", by, word.why)


@rules_router.get("", dependencies=[readers], responses=example({"items": [_RULE], "next": None}))
def list_alert_rules(state: State) -> Listed[service.RuleView]:
    """List rules by name: those given here, and those last seen in benchmark files."""
    return Listed(service.rules(state.kept.store))


@rules_router.get("/{name}", dependencies=[readers], responses=example(_RULE))
def get_alert_rule(name: RuleName, state: State) -> service.RuleView:
    """Read a rule."""
    return service.RuleView.of(AlertRules(state.kept.store.engine).get(name))


@rules_router.put(
    "/{name}",
    responses={
        **example(_RULE),
        201: {"model": service.RuleView, "description": "It is new."},
        409: {"description": "The name belongs to a rule of a benchmark file."},
    },
)
def set_alert_rule(
    name: RuleName, given: Annotated[RuleInput, _GIVEN], state: State, response: Response, by: User
) -> service.RuleView:
    """Keep a rule under a name, in place of what had that name."""
    record, fresh = service.set_rule(state.kept.store, name, given.benchmark, given.rule, by=by.name, clock=state.clock)
    log_event("alert rule kept", rule=name, benchmark=given.benchmark, by=by.name)
    state.changed(jobs=False)
    response.status_code = 201 if fresh else 200
    return record


@rules_router.delete("/{name}", status_code=204, responses={409: {"description": "It stands in a benchmark file."}})
def delete_alert_rule(name: RuleName, state: State, by: User) -> None:
    """Take a rule away; alerts that stand by it alone are resolved."""
    service.remove_rule(state.kept.store, name, state.clock)
    log_event("alert rule removed", rule=name, by=by.name)
    state.changed(jobs=False)


def _act(
    state: ServerState, alert: str, happening: Trigger, by: Principal, why: str, until: float | None = None
) -> AlertRecord:
    if len(why) > _LONGEST_WHY:
        raise bad_value("why", f"why has at most {_LONGEST_WHY} characters")
    changed = act(state.kept.store, alert, happening, by=by.name, why=why, clock=state.clock, until=until)
    log_event("alert answered", alert=changed.id, word=happening, by=by.name)
    state.changed(jobs=False)
    return service.shown(changed)


_MOST_MAILBOXES = 3
channels_router = APIRouter(prefix="/api/v1/channels", tags=["alerts"])
ChannelName = Annotated[str, Path(max_length=64, description="Name of the channel.")]
notices_router = APIRouter(prefix="/api/v1/notices", tags=["alerts"])
NoticeId = Annotated[int, Path(ge=0, le=2**31 - 1, description="Number of the notice.")]
NoticeStateName = Annotated[Literal["", "waiting", "sending", "sent", "given-up"], Query(alias="state")]
OfAlert = Annotated[str, Query(max_length=16, description="Id of an alert, or its beginning.")]
_NOTICE: Mapping[str, JsonValue] = {
    "id": 17, "key": "5f0c1d2e3a4b5c6d:1:team-chat", "channel": "team-chat", "alert": "5f0c1d2e3a4b5c6d",
    "subject": "[warning] chat capacity rate=4: ttft_ms.p99 is 6.1 % worse", "state": "waiting", "tries": 3,
    "created_at": 1763118600.0, "next_at": 1763118640.0, "sent_at": None,
    "error": "chat.example.com answered 503 Service Unavailable",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Channel:
    """One way to tell people."""

    name: str
    kind: str
    to: str
    """Where it sends to, without any secret."""
    state: Literal["ok", "failing", "unused"]
    last_sent: float | None
    failing: str
    """What the newest message failed with; empty where it did not."""
    waiting: int = 0
    """Messages that are still to be sent."""


@dataclass(frozen=True, slots=True)
class ChannelTest:
    """Whether a test message was taken."""

    sent: bool
    says: str


async def _senders(request: Request) -> Mapping[str, Sender]:
    notifying: NoticeSender = request.app.state.notifying
    return notifying.channels


Senders = Annotated[Mapping[str, Sender], Depends(_senders)]


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
    return PurePath(sender.command[0]).name if isinstance(sender, Command) else ""


def _host(url: str) -> str:
    """The host of an address; an address that is itself a secret is only said to be one."""
    host = urlsplit(url).hostname or ""
    return host if host and not REFERENCE.search(url.partition("://")[2].partition("/")[0]) else "a secret address"


@channels_router.get("", dependencies=[readers])
def list_channels(state: State, senders: Senders) -> Listed[Channel]:
    """List the channels of this server, with the outcome of their newest messages."""
    statuses = channel_status(state.kept.store.engine, tuple(senders))
    channels = []
    for name, sender in sorted(senders.items()):
        status = statuses.get(name, ChannelStatus())
        word: Literal["ok", "failing", "unused"] = "ok" if status.last_sent is not None else "unused"
        word = "failing" if status.error else word
        channels.append(
            Channel(name, sender.kind, place_of(sender), word, status.last_sent, status.error, status.waiting)
        )
    return Listed(tuple(channels))


@channels_router.post("/{name}/test")
def test_channel(name: ChannelName, state: State, senders: Senders, by: Admin) -> ChannelTest:
    """Send a test message to a channel immediately, and say whether it was taken."""
    try:
        note = try_channel(senders, name, state.settings.shown_url)
        answer = ChannelTest(True, one_line(note or "the test message was taken"))
    except NotifyError as failed:
        advice = f"; try: {failed.problem.try_}" if failed.problem.try_ else ""
        answer = ChannelTest(False, one_line(f"{failed.problem.message}{advice}"))
    log_event("channel tried", channel=name, sent=answer.sent, by=by.name)
    return answer


@notices_router.get("", dependencies=[readers], responses=example({"items": [_NOTICE], "next": None}))
def list_notices(
    state: State, only: NoticeStateName = "", alert: OfAlert = "", limit: Limit = 50
) -> Listed[service.NoticeView]:
    """List the newest messages about alerts, with the outcome of each."""
    return Listed(service.notices(state.kept.store, state.clock, alert=alert, only=only or None, limit=limit))


@notices_router.post(
    "/{notice}/again",
    responses={**example({**_NOTICE, "tries": 0, "error": ""}), 409: {"description": "It was not given up."}},
)
def send_notice_again(notice: NoticeId, state: State, by: User) -> service.NoticeView:
    """Send a message after all that was given up."""
    sent = service.send_again(state.kept.store, state.clock, notice)
    log_event("notice is sent again", notice=notice, channel=sent.channel, by=by.name)
    return sent
