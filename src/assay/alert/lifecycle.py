"""The life of an alert: one table of (state, trigger) → state, what belongs to the same alert, and its transitions.

Pure: events, people and time change a record, and the new record is returned.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace

from assay.alert.records import (
    SEVERITIES,
    AlertMember,
    AlertRecord,
    AlertState,
    Event,
    FindingSummary,
    HistoryLine,
    NotificationReason,
    NotificationState,
    Trigger,
)
from assay.alert.rules import Rule
from assay.alert.wording import blamed, described, moment, sentence
from assay.errors import UsageError
from assay.plan.job import content_hash

STATES: tuple[AlertState, ...] = ("open", "acknowledged", "snoozed", "expected", "resolved")
BY_PEOPLE: tuple[Trigger, ...] = ("acknowledge", "snooze", "expect", "resolve", "reopen")

# Someone has to look at it, or has said that they do.
ACTIVE: frozenset[AlertState] = frozenset({"open", "acknowledged", "snoozed"})

TABLE: dict[tuple[AlertState | None, Trigger], AlertState] = {
    (None, "occur"): "open",
    ("open", "occur"): "open",
    ("open", "recover"): "resolved",
    ("open", "acknowledge"): "acknowledged",
    ("open", "snooze"): "snoozed",
    ("open", "expect"): "expected",
    ("open", "resolve"): "resolved",
    ("acknowledged", "occur"): "acknowledged",  # someone works on it already
    ("acknowledged", "recover"): "resolved",
    ("acknowledged", "acknowledge"): "acknowledged",  # another person takes it over
    ("acknowledged", "snooze"): "snoozed",
    ("acknowledged", "expect"): "expected",
    ("acknowledged", "resolve"): "resolved",
    ("acknowledged", "reopen"): "open",  # no one works on it after all
    ("snoozed", "occur"): "snoozed",
    ("snoozed", "recover"): "resolved",
    ("snoozed", "wake"): "open",
    ("snoozed", "acknowledge"): "acknowledged",
    ("snoozed", "snooze"): "snoozed",  # for another while
    ("snoozed", "expect"): "expected",
    ("snoozed", "resolve"): "resolved",
    ("snoozed", "reopen"): "open",
    ("expected", "occur"): "open",  # more happened than was expected
    ("expected", "recover"): "resolved",
    ("expected", "expect"): "expected",
    ("expected", "resolve"): "resolved",
    ("expected", "reopen"): "open",
    ("resolved", "occur"): "open",
    ("resolved", "resolve"): "resolved",
    ("resolved", "reopen"): "open",
}

_DONE = {"acknowledge": "acknowledged", "snooze": "snoozed", "expect": "expected", "resolve": "resolved",
         "reopen": "reopened", "wake": "woken", "recover": "recovered"}  # fmt: skip
_LENGTH = 40
# The same trouble so long after it was over is a new alert; sooner, the old one is opened again.
AGAIN_WITHIN_S = 7 * 86400.0
# A difference that is no single deed, such as a new driver, explains what moved within this time of each other.
_TOGETHER_WITHIN_S = 7 * 86400.0
# Growth of an alert is notified at most this often.
GROWN_EVERY_S = 3600.0
_LONGEST_HISTORY = 300
_LONGEST_WHY = 1000


def after(state: AlertState | None, happening: Trigger) -> AlertState:
    try:
        return TABLE[state, happening]
    except KeyError:
        raise UsageError(
            f"an alert that is {state or 'not there'} cannot be {_DONE.get(happening, happening)}",
            code="lifecycle",
            try_=_hint(state),
        ) from None


def _hint(state: AlertState | None) -> str:
    can = [happening for happening in BY_PEOPLE if (state, happening) in TABLE]
    return f"it can be {', '.join(_DONE[action] for action in can)}" if can else ""


def key_of(event: Event, rule: Rule) -> str:
    """What trouble an event belongs to: equal for all that one cause explains.

    Changes of series belong together if their triage blames the same difference, such as one commit or one driver, in
    whatever benchmark they show; or, where nothing differs, if they came with the same campaign. Limits that are
    passed and jobs that fail belong together by rule and benchmark, agents that are lost all together.
    """
    return content_hash([event.trouble, *_parts(event, rule)])[:_LENGTH]


def belongs(event: Event, alert: AlertRecord, now: float) -> bool:
    """Whether an event belongs to an alert of its key, or is so much later that it is a new one."""
    if alert.state not in ACTIVE:
        return now - alert.changed_at <= AGAIN_WITHIN_S
    if event.finding is None or event.finding.cause not in ("environment", "machine"):
        return True
    times = [member.since for member in alert.members if member.since is not None]
    return not times or min(abs(event.finding.since - at) for at in times) <= _TOGETHER_WITHIN_S


def _parts(event: Event, rule: Rule) -> list[object]:
    if event.trouble == "agent-lost":
        return []
    if event.trouble != "finding" or event.finding is None:
        return [rule.id, event.benchmark]
    finding = event.finding
    difference = blamed(finding)
    if difference is not None:
        # A changed setting of one benchmark has nothing to do with the same setting of another one.
        own = [event.benchmark] if finding.cause == "method" else []
        return [finding.cause, difference.name, difference.after, *own]
    if finding.cause == "machine" and finding.machine:
        return [finding.cause, finding.machine]
    return ["campaign", event.campaign] if event.campaign else ["series", event.series]


def occurred(
    alert: AlertRecord | None, event: Event, rules: Sequence[Rule], *, key: str, now: float
) -> tuple[AlertRecord, str] | None:
    """What an alert becomes by trouble that some rules are about.

    Returns:
        The alert and, where a new one takes the place of one that is over, the id of that one; None when it is no news.
    """
    member = _member(event, rules)
    if alert is None:
        return _opened(event, rules, member, key, now, {}), ""
    previous = alert.member(event.subject)
    if not _is_news(previous, alert.past.get(event.subject), event):
        return None
    if previous is not None and _says_the_same(previous, event):
        since = member.since if event.finding is not None else previous.since
        still = replace(member, state=previous.state, since=since)
        return described(_with_rules(_with_member(alert, still), rules)), ""
    if not belongs(event, alert, now):
        return _opened(event, rules, member, key, now, alert.remembered()), alert.id
    grown = _with_rules(_with_member(alert, member), rules)
    return described(_step(grown, "occur", why=member.says, now=now)), ""


def stays(alert: AlertRecord, event: Event, now: float) -> bool:
    """Whether trouble that an alert is about already stays with it, whatever its key is by now.

    Not if it is back long after the alert was over: then it is reported as new.
    """
    previous = alert.member(event.subject)
    if previous is None or not _is_news(previous, alert.past.get(event.subject), event):
        return True
    return _says_the_same(previous, event) or belongs(event, alert, now)


def recovered(alert: AlertRecord, subjects: Collection[str], event: Event, now: float) -> AlertRecord | None:
    """What an alert becomes when it is over for some of its members; None when that is no news."""
    over = {
        member.subject: replace(member, state="recovered", at=max(member.at, event.at), event=event.id)
        for member in alert.members
        if member.subject in subjects and member.state in ("standing", "expected") and _is_news(member, None, event)
    }
    return _without(alert, over, event.reason or "it recovered", now) if over else None


def called_expected(alert: AlertRecord, subjects: Collection[str], event: Event, now: float) -> AlertRecord | None:
    """The same when the findings were marked as expected elsewhere."""
    over = {
        member.subject: replace(member, state="expected") for member in alert.standing if member.subject in subjects
    }
    return _without(alert, over, event.reason or "it was called expected", now) if over else None


def without_rules(alert: AlertRecord, gone: Collection[str], now: float) -> AlertRecord | None:
    """What an alert becomes when rules are taken away; None when it was not about them."""
    over = {member.subject: replace(member, state="closed") for member in alert.standing if member.rule in gone}
    return _without(alert, over, "its rule was taken away", now, ended="resolve") if over else None


def acted(
    alert: AlertRecord, happening: Trigger, *, by: str, why: str, now: float, until: float | None = None
) -> AlertRecord:
    """The alert after a person's decision."""
    state = after(alert.state, happening)
    if happening in ("resolve", "expect") and state == alert.state:
        return alert  # it is so already
    if happening == "snooze" and (until is None or not math.isfinite(until) or until <= now):
        raise UsageError("an alert is snoozed until a time to come", code="until", try_="say for how long, such as 4h")
    changed = replace(alert, members=_by_people(alert, happening), snoozed_until=until if state == "snoozed" else None)
    if happening == "reopen" and not changed.standing:
        raise UsageError("this alert is already resolved; it reopens if the problem returns", code="lifecycle")
    limit = f"until {moment(until)}" if happening == "snooze" and until is not None else ""
    reason = "; ".join(part for part in (why.strip()[:_LONGEST_WHY], limit) if part)
    return described(_step(changed, happening, by=by, why=reason, now=now))


def woken(alert: AlertRecord, now: float) -> AlertRecord | None:
    """What a snoozed alert becomes when its time is over; None when it is not."""
    if alert.state != "snoozed" or alert.snoozed_until is None or alert.snoozed_until > now:
        return None
    return _step(replace(alert, snoozed_until=None), "wake", why="its snooze is over", now=now)


def is_back(member: FindingSummary, better: FindingSummary) -> bool:
    """Whether a change for the better undoes an earlier one for the worse, as far as both are known.

    What remains is the sum of both differences; it is back if none at all is among what may remain.
    """
    left = member.difference + better.difference
    if member.difference == 0 or (left > 0) != (member.difference > 0):
        return True
    return abs(left) <= math.hypot(member.difference_interval.half_width, better.difference_interval.half_width)


# Parts


def _opened(
    event: Event, rules: Sequence[Rule], member: AlertMember, key: str, now: float, past: dict[str, tuple[float, str]]
) -> AlertRecord:
    name = content_hash([key, event.subject, event.id, event.at, now])[:16]
    bare = AlertRecord(
        id=name,
        key=key,
        kind=event.trouble,
        state=after(None, "occur"),
        severity="info",
        benchmark=event.benchmark,
        title="",
        sentences=(),
        opened_at=now,
        changed_at=now,
        members=(member,),
        past=past,
        history=(HistoryLine(now, "occur", after(None, "occur"), "", member.says),),
        telling=_turned(NotificationState(), "opened", now),
    )
    return described(_with_rules(bare, rules))


def _member(event: Event, rules: Sequence[Rule]) -> AlertMember:
    worst = max(rules, key=lambda rule: SEVERITIES.index(rule.alert.severity))
    return AlertMember(
        subject=event.subject,
        name=event.name,
        state="standing",
        at=event.at,
        event=event.id,
        says=sentence(event, worst),
        rule=worst.id,
        severity=worst.alert.severity,
        benchmark=event.benchmark,
        metric=event.metric,
        unit=event.unit,
        series=event.series,
        finding=event.finding.id if event.finding else "",
        job=event.job,
        campaign=event.campaign,
        agent=event.agent,
        since=event.finding.since if event.finding else event.at,
        moved=event.finding,
    )


def _is_news(known: AlertMember | None, past: tuple[float, str] | None, event: Event) -> bool:
    """Whether an event is newer than all that is known of its subject: neither a repeat nor late."""
    at, name = (known.at, known.event) if known is not None else past or (-math.inf, "")
    return event.at > at or (event.at == at and event.id != name)


def _says_the_same(known: AlertMember, event: Event) -> bool:
    """Whether an event is known: its trouble still stands, or it is a finding that was dealt with."""
    return known.state == "standing" or (event.kind == "finding" and known.state in ("closed", "expected"))


def _with_member(alert: AlertRecord, member: AlertMember) -> AlertRecord:
    others = tuple(other for other in alert.members if other.subject != member.subject)
    return replace(alert, members=(*others, member))


def _with_rules(alert: AlertRecord, rules: Sequence[Rule]) -> AlertRecord:
    """An alert that more rules are about: the channels they name are due as well."""
    existing = {note.id: note for note in alert.rules}
    fresh = alert.state in ACTIVE and any(rule.id not in existing for rule in rules)
    notification = replace(alert.telling, owed=True) if fresh else alert.telling
    notes = {**existing, **{rule.id: rule.note for rule in rules}}
    return replace(alert, rules=tuple(notes.values()), telling=notification)


def _without(
    alert: AlertRecord, over: dict[str, AlertMember], why: str, now: float, ended: Trigger = "recover"
) -> AlertRecord:
    """An alert after something is over for some members; it resolves when no member stands."""
    members = tuple(over.get(member.subject, member) for member in alert.members)
    left = replace(alert, members=members)
    if left.standing:
        return described(left)
    happening: Trigger = "expect" if any(member.state == "expected" for member in members) else ended
    if (alert.state, happening) not in TABLE or alert.state == TABLE[alert.state, happening]:
        return described(left)
    return described(_step(left, happening, why=why, now=now))


def _by_people(alert: AlertRecord, happening: Trigger) -> tuple[AlertMember, ...]:
    """The members after a person's decision about the whole."""
    if happening == "expect":
        return tuple(
            replace(member, state="expected") if member.state == "standing" else member for member in alert.members
        )
    if happening == "resolve":
        return tuple(
            replace(member, state="closed") if member.state == "standing" else member for member in alert.members
        )
    if happening == "reopen":
        back = ("closed", "expected")
        return tuple(replace(member, state="standing") if member.state in back else member for member in alert.members)
    return alert.members


def _step(alert: AlertRecord, happening: Trigger, *, why: str, now: float, by: str = "") -> AlertRecord:
    """One step in the life of an alert, with its line of history and its notification state."""
    state = after(alert.state, happening)
    line = HistoryLine(now, happening, state, by, why)
    history = (*alert.history, line)
    if len(history) > _LONGEST_HISTORY:  # how it began, and what was last
        history = (history[0], *history[-_LONGEST_HISTORY + 1 :])
    snoozed = alert.snoozed_until if state == "snoozed" else None
    return replace(
        alert,
        state=state,
        changed_at=now,
        by=by,
        history=history,
        snoozed_until=snoozed,
        telling=_notified(alert, happening, state, now),
    )


def _notified(alert: AlertRecord, happening: Trigger, state: AlertState, now: float) -> NotificationState:
    notification = alert.telling
    if happening == "wake":
        return _turned(notification, "woken", now)
    if state in ("resolved", "expected"):
        return notification if state == alert.state else _turned(notification, state, now)
    if state == "open" and alert.state not in ACTIVE:
        return _turned(notification, "reopened", now)
    if happening != "occur" or state == "snoozed":
        return notification
    if notification.owed and notification.news not in ("resolved", "expected"):
        return notification  # one pending notice covers both
    return _turned(notification, "grown", (notification.told_at or now) + GROWN_EVERY_S)


def _turned(notification: NotificationState, news: NotificationReason, not_before: float) -> NotificationState:
    return replace(notification, turn=notification.turn + 1, news=news, not_before=not_before, owed=True)
