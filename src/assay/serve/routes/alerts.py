"""Alerts: what people are told about, what they say to it, and the rules that decide when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Path, Query, Response
from pydantic import JsonValue

from assay.alert import service
from assay.alert.evaluate import act
from assay.alert.records import AlertRecord, Trigger
from assay.serve.observability import tell
from assay.serve.state import ServerState
from assay.serve.web.access import Answers, Cursor, Limit, Principal, State, Text, User, readers, users
from assay.serve.web.problems import RequestProblem
from assay.serve.web.records import Listed
from assay.store.alerts import AlertFilter, AlertRules

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


def _shown(example: object, status: int = 200) -> Answers:
    return {status: {"content": {"application/json": {"example": example}}}}


@dataclass(frozen=True, slots=True)
class AlertComment:
    """What somebody says about an alert."""

    why: str = ""
    """The reason; it is kept in the history."""


@dataclass(frozen=True, slots=True)
class Snooze:
    """For how long nobody wants to hear of an alert."""

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


@router.get("", dependencies=[readers], responses=_shown({"items": [_ALERT], "next": None}))
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
    page = service.listed(state.kept.store, which, cursor, limit)
    return Listed(page.items, page.next)


@router.get("/{alert}", dependencies=[readers], responses=_shown(_ALERT))
def get_alert(alert: AlertId, state: State) -> AlertRecord:
    """Read an alert: what it is about, what may explain it, and its history."""
    return service.read(state.kept.store, alert)


@router.post("/{alert}/acknowledge", dependencies=[users], responses=_shown({**_ALERT, "state": "acknowledged"}))
def acknowledge_alert(alert: AlertId, state: State, by: User, word: Annotated[AlertComment, _WORD]) -> AlertRecord:
    """Say that somebody works on it: nobody is told again while it stands as it is."""
    return _act(state, alert, "acknowledge", by, word.why)


@router.post("/{alert}/snooze", dependencies=[users], responses=_shown({**_ALERT, "state": "snoozed"}))
def snooze_alert(alert: AlertId, state: State, by: User, snooze: Annotated[Snooze, _SNOOZE]) -> AlertRecord:
    """Hear nothing of it for a while; then it is open again."""
    now = state.clock.utc().timestamp()
    if (snooze.for_s is None) == (snooze.until is None):
        raise RequestProblem(422, "say either for_s or until", code="request", at="for_s")
    until = now + snooze.for_s if snooze.for_s is not None else snooze.until or 0.0
    if not now < until <= now + _LONGEST_S:
        raise RequestProblem(422, "a snooze ends in time to come, within ten years", code="request", at="until")
    return _act(state, alert, "snooze", by, snooze.why, until)


@router.post("/{alert}/expect", dependencies=[users], responses=_shown({**_ALERT, "state": "expected"}))
def expect_alert(alert: AlertId, state: State, by: User, word: Annotated[AlertComment, _WORD]) -> AlertRecord:
    """Call its changes expected: their series are measured from the new level on."""
    return _act(state, alert, "expect", by, word.why)


@router.post("/{alert}/resolve", dependencies=[users], responses=_shown({**_ALERT, "state": "resolved"}))
def resolve_alert(alert: AlertId, state: State, by: User, word: Annotated[AlertComment, _WORD]) -> AlertRecord:
    """End it by hand; it is opened again if the trouble is seen anew."""
    return _act(state, alert, "resolve", by, word.why)


@router.post("/{alert}/reopen", dependencies=[users], responses=_shown(_ALERT))
def reopen_alert(alert: AlertId, state: State, by: User, word: Annotated[AlertComment, _WORD]) -> AlertRecord:
    """Take back what somebody said: it is open as before."""
    return _act(state, alert, "reopen", by, word.why)


@rules_router.get("", dependencies=[readers], responses=_shown({"items": [_RULE], "next": None}))
def list_alert_rules(state: State) -> Listed[service.RuleView]:
    """List rules by name: those given here, and those last seen in benchmark files."""
    return Listed(service.rules(state.kept.store))


@rules_router.get("/{name}", dependencies=[readers], responses=_shown(_RULE))
def get_alert_rule(name: RuleName, state: State) -> service.RuleView:
    """Read a rule."""
    return service.RuleView.of(AlertRules(state.kept.store.engine).get(name))


@rules_router.put(
    "/{name}",
    dependencies=[users],
    responses={
        **_shown(_RULE),
        201: {"model": service.RuleView, "description": "It is new."},
        409: {"description": "The name belongs to a rule of a benchmark file."},
    },
)
def set_alert_rule(
    name: RuleName, given: Annotated[RuleInput, _GIVEN], state: State, response: Response, by: User
) -> service.RuleView:
    """Keep a rule under a name, in place of what had that name."""
    kept, fresh = service.set_rule(state.kept.store, name, given.benchmark, given.rule, by=by.name, clock=state.clock)
    tell("alert rule kept", rule=name, benchmark=given.benchmark, by=by.name)
    state.changed(jobs=False)
    response.status_code = 201 if fresh else 200
    return kept


@rules_router.delete(
    "/{name}", dependencies=[users], status_code=204, responses={409: {"description": "It stands in a benchmark file."}}
)
def delete_alert_rule(name: RuleName, state: State, by: User) -> None:
    """Take a rule away; alerts that stand by it alone are resolved."""
    service.remove_rule(state.kept.store, name, state.clock)
    tell("alert rule removed", rule=name, by=by.name)
    state.changed(jobs=False)


def _act(
    state: ServerState, alert: str, happening: Trigger, by: Principal, why: str, until: float | None = None
) -> AlertRecord:
    if len(why) > _LONGEST_WHY:
        raise RequestProblem(422, f"why has at most {_LONGEST_WHY} characters", code="request", at="why")
    changed = act(state.kept.store, alert, happening, by=by.name, why=why, clock=state.clock, until=until)
    tell("alert answered", alert=changed.id, word=happening, by=by.name)
    state.changed(jobs=False)
    return service.shown(changed)
