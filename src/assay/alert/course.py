"""What becomes of an alert: by trouble that is seen, by trouble that is over, by people, by time. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace

from assay.alert.grouping import belongs
from assay.alert.life import ACTIVE, TABLE, Happening, State, after
from assay.alert.records import SEVERITIES, AlertRecord, Event, HistoryLine, Member, Moved, News, Telling
from assay.alert.rules import Rule
from assay.alert.wording import described, moment, sentence
from assay.errors import UsageError
from assay.plan.digest import content_hash

# So often people are told that an alert has grown, at most.
GROWN_EVERY_S = 3600.0
_LONGEST_HISTORY = 300
_LONGEST_WHY = 1000


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
    known = alert.member(event.subject)
    if not _is_news(known, alert.past.get(event.subject), event):
        return None
    if known is not None and _says_the_same(known, event):
        since = member.since if event.finding is not None else known.since
        still = replace(member, state=known.state, since=since)
        return described(_with_rules(_with_member(alert, still), rules)), ""
    if not belongs(event, alert, now):
        return _opened(event, rules, member, key, now, alert.remembered()), alert.id
    grown = _with_rules(_with_member(alert, member), rules)
    return described(_step(grown, "occur", why=member.says, now=now)), ""


def stays(alert: AlertRecord, event: Event, now: float) -> bool:
    """Whether trouble that an alert is about already stays with it, whatever its key is by now.

    Not if it is back long after the alert was over: then it is told as if it were new.
    """
    known = alert.member(event.subject)
    if known is None or not _is_news(known, alert.past.get(event.subject), event):
        return True
    return _says_the_same(known, event) or belongs(event, alert, now)


def recovered(alert: AlertRecord, subjects: Collection[str], event: Event, now: float) -> AlertRecord | None:
    """What an alert becomes when it is over for some of its members; None when that is no news."""
    over = {
        one.subject: replace(one, state="recovered", at=max(one.at, event.at), event=event.id)
        for one in alert.members
        if one.subject in subjects and one.state in ("standing", "expected") and _is_news(one, None, event)
    }
    return _without(alert, over, event.reason or "it recovered", now) if over else None


def called_expected(alert: AlertRecord, subjects: Collection[str], event: Event, now: float) -> AlertRecord | None:
    """The same when somebody called the findings expected elsewhere."""
    over = {one.subject: replace(one, state="expected") for one in alert.standing if one.subject in subjects}
    return _without(alert, over, event.reason or "it was called expected", now) if over else None


def without_rules(alert: AlertRecord, gone: Collection[str], now: float) -> AlertRecord | None:
    """What an alert becomes when rules are taken away; None when it was not about them."""
    over = {one.subject: replace(one, state="closed") for one in alert.standing if one.rule in gone}
    return _without(alert, over, "its rule was taken away", now, ended="resolve") if over else None


def acted(
    alert: AlertRecord, happening: Happening, *, by: str, why: str, now: float, until: float | None = None
) -> AlertRecord:
    """What an alert becomes by somebody's word.

    Raises:
        UsageError: `lifecycle` if it is in no state for that, `until` if it is to sleep until a time that has passed.
    """
    state = after(alert.state, happening)
    if happening in ("resolve", "expect") and state == alert.state:
        return alert  # it is so already
    if happening == "snooze" and (until is None or not math.isfinite(until) or until <= now):
        raise UsageError("an alert is snoozed until a time to come", code="until", try_="say for how long, such as 4h")
    changed = replace(alert, members=_by_people(alert, happening), snoozed_until=until if state == "snoozed" else None)
    if happening == "reopen" and not changed.standing:
        raise UsageError(
            "nothing of it stands any more: it opens again by itself when the trouble is back", code="lifecycle"
        )
    said = f"until {moment(until)}" if happening == "snooze" and until is not None else ""
    reason = "; ".join(part for part in (why.strip()[:_LONGEST_WHY], said) if part)
    return described(_step(changed, happening, by=by, why=reason, now=now))


def woken(alert: AlertRecord, now: float) -> AlertRecord | None:
    """What a snoozed alert becomes when its time is over; None when it is not."""
    if alert.state != "snoozed" or alert.snoozed_until is None or alert.snoozed_until > now:
        return None
    return _step(replace(alert, snoozed_until=None), "wake", why="its snooze is over", now=now)


def is_back(member: Moved, better: Moved) -> bool:
    """Whether a change for the better undoes an earlier one for the worse, as far as both are known.

    What remains is the sum of both differences; it is back if none at all is among what may remain.
    """
    left = member.difference + better.difference
    if member.difference == 0 or (left > 0) != (member.difference > 0):
        return True
    return abs(left) <= math.hypot(member.difference_interval.half_width, better.difference_interval.half_width)


# Parts


def _opened(
    event: Event, rules: Sequence[Rule], member: Member, key: str, now: float, past: dict[str, tuple[float, str]]
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
        telling=_turned(Telling(), "opened", now),
    )
    return described(_with_rules(bare, rules))


def _member(event: Event, rules: Sequence[Rule]) -> Member:
    worst = max(rules, key=lambda rule: SEVERITIES.index(rule.alert.severity))
    return Member(
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


def _is_news(known: Member | None, past: tuple[float, str] | None, event: Event) -> bool:
    """Whether an event is newer than all that is known of its subject: neither a repeat nor late."""
    at, name = (known.at, known.event) if known is not None else past or (-math.inf, "")
    return event.at > at or (event.at == at and event.id != name)


def _says_the_same(known: Member, event: Event) -> bool:
    """Whether what happens was known: it still stands, or it is a finding that somebody has dealt with."""
    return known.state == "standing" or (event.kind == "finding" and known.state in ("closed", "expected"))


def _with_member(alert: AlertRecord, member: Member) -> AlertRecord:
    others = tuple(one for one in alert.members if one.subject != member.subject)
    return replace(alert, members=(*others, member))


def _with_rules(alert: AlertRecord, rules: Sequence[Rule]) -> AlertRecord:
    """An alert that some more rules are about: whoever they name has to be told of it too."""
    known = {note.id: note for note in alert.rules}
    fresh = alert.state in ACTIVE and any(rule.id not in known for rule in rules)
    telling = replace(alert.telling, owed=True) if fresh else alert.telling
    notes = {**known, **{rule.id: rule.note for rule in rules}}
    return replace(alert, rules=tuple(notes.values()), telling=telling)


def _without(
    alert: AlertRecord, over: dict[str, Member], why: str, now: float, ended: Happening = "recover"
) -> AlertRecord:
    """An alert after something is over for some members; it ends itself when nothing stands any more."""
    members = tuple(over.get(one.subject, one) for one in alert.members)
    left = replace(alert, members=members)
    if left.standing:
        return described(left)
    happening: Happening = "expect" if any(one.state == "expected" for one in members) else ended
    if (alert.state, happening) not in TABLE or alert.state == TABLE[alert.state, happening]:
        return described(left)
    return described(_step(left, happening, why=why, now=now))


def _by_people(alert: AlertRecord, happening: Happening) -> tuple[Member, ...]:
    """The members after somebody's word about the whole."""
    if happening == "expect":
        return tuple(replace(one, state="expected") if one.state == "standing" else one for one in alert.members)
    if happening == "resolve":
        return tuple(replace(one, state="closed") if one.state == "standing" else one for one in alert.members)
    if happening == "reopen":
        back = ("closed", "expected")
        return tuple(replace(one, state="standing") if one.state in back else one for one in alert.members)
    return alert.members


def _step(alert: AlertRecord, happening: Happening, *, why: str, now: float, by: str = "") -> AlertRecord:
    """One step in the life of an alert, with its line of history and what people are told of it."""
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
        telling=_told(alert, happening, state, now),
    )


def _told(alert: AlertRecord, happening: Happening, state: State, now: float) -> Telling:
    telling = alert.telling
    if happening == "wake":
        return _turned(telling, "woken", now)
    if state in ("resolved", "expected"):
        return telling if state == alert.state else _turned(telling, state, now)
    if state == "open" and alert.state not in ACTIVE:
        return _turned(telling, "reopened", now)
    if happening != "occur" or state == "snoozed":
        return telling
    if telling.owed and telling.news not in ("resolved", "expected"):
        return telling  # it is told together with what is to be told anyway
    return _turned(telling, "grown", (telling.told_at or now) + GROWN_EVERY_S)


def _turned(telling: Telling, news: News, not_before: float) -> Telling:
    return replace(telling, turn=telling.turn + 1, news=news, not_before=not_before, owed=True)
