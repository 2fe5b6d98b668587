"""From events to alerts: opened, grown, resolved, reopened, and when to notify; each event counts once."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from assay.alert.events import Samples, of_findings, of_result
from assay.alert.lifecycle import (
    ACTIVE,
    STATES,
    acted,
    after,
    called_expected,
    is_back,
    key_of,
    occurred,
    recovered,
    stays,
    without_rules,
    woken,
)
from assay.alert.message import new_notice
from assay.alert.records import AlertRecord, Event, RuleNote, Trigger, kept_of, record_of
from assay.alert.rules import Rule, file_rules, judge, matching, rule_of, rules_of
from assay.analyse.records import MultiRunJobResult
from assay.clock import Clock
from assay.errors import UsageError
from assay.spec.schedule import zone_named
from assay.store.alerts import AlertRules, Alerts, Decision, DecisionContext, StoredAlert, StoredRule
from assay.store.notices import EVERY_CHANNEL, NewNotice
from assay.store.overview import ActivityReader
from assay.store.store import Store

if TYPE_CHECKING:
    from assay.series.repository import KnownFinding, SeriesStore


# The states in which trouble may still be over: alerts that stand, and those expected to stay as they are.
_NOT_OVER = (*sorted(ACTIVE), "expected")

Change = Callable[[AlertRecord], AlertRecord | None]


def evaluate(
    store: Store, events: Iterable[Event], rules: Sequence[Rule] | None, clock: Clock
) -> tuple[AlertRecord, ...]:
    """Open, reopen and resolve alerts, and queue the notices that are due.

    Safe to repeat with the same events, in any order and by several servers concurrently.
    """
    all_rules = rules_of(AlertRules(store.engine).list()) if rules is None else tuple(rules)
    alerts, now = Alerts(store.engine), clock.utc().timestamp()
    changed: dict[str, AlertRecord] = {}
    unsent: dict[str, None] = {}
    at = -math.inf
    for event in sorted(events, key=lambda incoming: (incoming.at, incoming.id)):
        if _may_end(event, at):  # an end is never reported before its beginning
            changed |= _notify(alerts, unsent, now)
        at = event.at
        for record in _settled(alerts, event, all_rules, now):
            changed[record.id] = record
            unsent |= {record.id: None} if record.telling.owed else {}
    return tuple((changed | _notify(alerts, unsent, now)).values())


def consider(
    store: Store,
    result: MultiRunJobResult,
    *,
    benchmark: str,
    campaign: str,
    at: float,
    clock: Clock,
    document: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
    findings: Iterable[KnownFinding] = (),
) -> tuple[AlertRecord, ...]:
    """Do everything about alerts that the end of a job asks for.

    The rules of its campaign's file take the place of those that an older file of the benchmark had.

    Args:
        document: the benchmark file of the campaign; read from the store when left out.
    """
    handed_in = ActivityReader(store.engine).handed_in(campaign)
    if handed_in is not None:
        given_at = datetime.fromisoformat(handed_in.created_at).timestamp()
        note_file(store, benchmark, document or handed_in.document, given_at, clock)
    rules = rules_of(AlertRules(store.engine).list())
    if not rules:
        return ()
    samples: Samples = lambda run: store.samples_of(result.job, run)  # noqa: E731
    events = of_result(result, rules, benchmark=benchmark, campaign=campaign, at=at, labels=labels, samples=samples)
    if handed_in is not None and handed_in.engine == "fleet":
        # The server reads from the history of its jobs which of them failed, also those that left no result.
        events = tuple(event for event in events if event.trouble != "failed")
    return evaluate(store, (*events, *of_findings(findings, at)), rules, clock)


def note_file(
    store: Store, benchmark: str, document: Mapping[str, Any], at: float, clock: Clock
) -> tuple[AlertRecord, ...]:
    """Note the rules of a benchmark file; alerts by rules that it had and has no more are resolved."""
    gone = AlertRules(store.engine).set_file(benchmark, file_rules(benchmark, document, at), at)
    return forget_rules(store, gone, clock) if gone else ()


def forget_rules(store: Store, gone: Sequence[str], clock: Clock) -> tuple[AlertRecord, ...]:
    """Resolve what rules that are gone had opened; return what changed."""
    alerts, now = Alerts(store.engine), clock.utc().timestamp()
    names = frozenset(gone)
    alert_ids = [
        record.id
        for record in map(record_of, alerts.in_states(_NOT_OVER))
        if names & {note.id for note in record.rules}
    ]
    changed = [_change(alerts, alert_id, lambda alert: without_rules(alert, names, now), now) for alert_id in alert_ids]
    return tuple(record for record in changed if record is not None)


def act(
    store: Store,
    reference: str,
    happening: Trigger,
    *,
    by: str,
    clock: Clock,
    why: str = "",
    until: float | None = None,
) -> AlertRecord:
    alerts, now = Alerts(store.engine), clock.utc().timestamp()
    alert = record_of(alerts.get(reference))
    series = _rebase(store, alert, clock) if happening == "expect" else ()
    changed = _change(
        alerts, alert.id, lambda current: acted(current, happening, by=by, why=why, now=now, until=until), now
    )
    for series_id in series:  # what lies behind the change may look different now
        findings = _store_of(store, clock).findings(series=series_id)
        fresh = [finding for finding in findings if finding.found_at >= now or finding.state != "open"]
        evaluate(store, of_findings(fresh, now), None, clock)
    return changed or record_of(alerts.get(alert.id))


def wake(store: Store, clock: Clock) -> tuple[AlertRecord, ...]:
    alerts, now = Alerts(store.engine), clock.utc().timestamp()
    records = [_change(alerts, alert_id, lambda alert: woken(alert, now), now) for alert_id in alerts.overslept(now)]
    return tuple(record for record in records if record is not None)


def notify_pending(store: Store, clock: Clock) -> tuple[AlertRecord, ...]:
    """Queue the notices that quiet hours and limits held back, as far as they allow now; return the alerts."""
    alerts, now = Alerts(store.engine), clock.utc().timestamp()
    records: list[AlertRecord] = []
    for alert_id in alerts.pending():
        stored = alerts.change(alert_id, lambda context: _pending_notices(context, now), now)
        records += [record_of(stored)] if stored is not None else []
    return tuple(records)


def _may_end(event: Event, at: float) -> bool:
    """Whether an event may be the end of trouble that was seen at a moment."""
    if event.kind == "threshold":
        return event.at > at
    return event.kind == "recovered" or (event.finding is not None and event.finding.answer == "better")


def _notify(alerts: Alerts, unsent: dict[str, None], now: float) -> dict[str, AlertRecord]:
    """Queue notices of alerts, each with all that one batch of events brought; return the alerts after that.

    If this is interrupted, the alerts themselves record what is pending: `notify_pending` continues.
    """
    stored_alerts = [
        alerts.change(alert_id, lambda context: _pending_notices(context, now), now) for alert_id in unsent
    ]
    unsent.clear()
    return {stored.id: record_of(stored) for stored in stored_alerts if stored is not None}


def _settled(alerts: Alerts, event: Event, rules: Sequence[Rule], now: float) -> list[AlertRecord]:
    if event.kind == "recovered":
        return _over(alerts, event, now)
    about = matching(event, rules)
    answers = {rule.id: judge(rule, event).answer for rule in about}
    changed: list[AlertRecord | None] = []
    by_key: dict[str, list[Rule]] = {}
    for rule in about:
        if answers[rule.id] == "yes":
            by_key.setdefault(key_of(event, rule), []).append(rule)
        elif answers[rule.id] == "no" and event.kind == "threshold":
            changed.append(_below(alerts, key_of(event, rule), event, now))
    changed += [_trouble(alerts, key, event, broken, now) for key, broken in by_key.items()]
    if event.finding is not None and event.finding.answer == "better":
        changed += _better(alerts, event, now)
    return [record for record in changed if record is not None]


def _trouble(alerts: Alerts, key: str, event: Event, rules: Sequence[Rule], now: float) -> AlertRecord | None:
    """Open an alert, or add to one; notices follow when all that came with it is known."""
    before: list[AlertRecord] = []

    def decide(known: DecisionContext) -> Decision | None:
        current = None if known.alert is None else record_of(known.alert)
        before[:] = [] if current is None else [current]
        outcome = occurred(current, event, rules, key=key if current is None else current.key, now=now)
        return None if outcome is None else Decision(kept_of(outcome[0]), instead_of=outcome[1])

    # The triage of a finding may change, and with it the key: the finding stays where it is.
    holder = _holder(alerts, event, now) if event.kind == "finding" else None
    stored = alerts.decide(key, decide, now) if holder is None else alerts.change(holder, decide, now)
    return _if_changed(stored, before)


def _holder(alerts: Alerts, event: Event, now: float) -> str | None:
    """The newest alert that is about a finding already, unless it was over long ago."""
    records = map(record_of, reversed(alerts.in_states(STATES, _holding("subject", event.subject))))
    newest = next((record for record in records if record.member(event.subject) is not None), None)
    return newest.id if newest is not None and stays(newest, event, now) else None


def _below(alerts: Alerts, key: str, event: Event, now: float) -> AlertRecord | None:
    """Note that a value is clearly within its limit."""
    before: list[AlertRecord] = []

    def decide(known: DecisionContext) -> Decision | None:
        if known.alert is None:
            return None
        before[:] = [record_of(known.alert)]
        left = recovered(before[0], (event.subject,), event, now)
        return None if left is None else decision(left, known.rules, now)

    return _if_changed(alerts.decide(key, decide, now), before)


def _over(alerts: Alerts, event: Event, now: float) -> list[AlertRecord]:
    change = called_expected if event.finding is not None and event.finding.state == "expected" else recovered
    stored_alerts = alerts.in_states(_NOT_OVER, _holding("subject", event.subject))
    names = [stored.id for stored in stored_alerts if record_of(stored).kind == event.trouble]
    changed = [
        _change(alerts, alert_id, lambda alert: change(alert, (event.subject,), event, now), now) for alert_id in names
    ]
    return [record for record in changed if record is not None]


def _better(alerts: Alerts, event: Event, now: float) -> list[AlertRecord | None]:
    """Note a change for the better where it undoes one for the worse."""
    better = event.finding
    if better is None or not event.series:
        return []

    def undone(alert: AlertRecord) -> AlertRecord | None:
        subjects = [
            member.subject
            for member in alert.members
            if member.series == event.series
            and member.moved is not None
            and member.moved.since < better.since
            and is_back(member.moved, better)
        ]
        return recovered(alert, subjects, event, now) if subjects else None

    stored_alerts = alerts.in_states(_NOT_OVER, _holding("series", event.series))
    return [_change(alerts, stored.id, undone, now) for stored in stored_alerts if record_of(stored).kind == "finding"]


def _change(alerts: Alerts, alert_id: str, change: Change, now: float) -> AlertRecord | None:
    """Have an alert changed; None when nothing that people would notice did."""
    before: list[AlertRecord] = []

    def decide(known: DecisionContext) -> Decision | None:
        if known.alert is None:
            return None
        before[:] = [record_of(known.alert)]
        left = change(before[0])
        return None if left is None or left == before[0] else decision(left, known.rules, now)

    return _if_changed(alerts.change(alert_id, decide, now), before)


def _pending_notices(known: DecisionContext, now: float) -> Decision | None:
    """The pending notices of an alert, if they may be sent now."""
    if known.alert is None:
        return None
    wish = decision(record_of(known.alert), known.rules, now)
    return wish if wish.notices else None


def _if_changed(stored: StoredAlert | None, before: Sequence[AlertRecord]) -> AlertRecord | None:
    """An alert that was kept, unless only numbers of its members are new."""
    if stored is None:
        return None
    now = record_of(stored)
    same = bool(before) and _outline(before[0]) == _outline(now)
    return None if same else now


def _outline(alert: AlertRecord) -> tuple[object, ...]:
    return (
        alert.id,
        alert.state,
        len(alert.history),
        frozenset((member.subject, member.state) for member in alert.members),
    )


def _holding(name: str, value: str) -> str:
    return f'"{name}":{json.dumps(value, ensure_ascii=False)}'


def _rebase(store: Store, alert: AlertRecord, clock: Clock) -> tuple[str, ...]:
    """Have the series of an alert measured from their new level on; return them."""
    if alert.kind != "finding":
        raise UsageError(
            f"{alert.title}: there is no level that it could be expected to stay at",
            code="no-baseline",
            try_="change the rule, snooze the alert, or resolve it",
        )
    after(alert.state, "expect")
    series = _store_of(store, clock)
    for finding in [member.finding for member in alert.standing if member.finding]:
        try:
            series.expect(finding)
        except UsageError as problem:
            if problem.problem.code != "lifecycle":  # one that is gone needs no new level
                raise
    return tuple(dict.fromkeys(member.series for member in alert.standing if member.series))


def _store_of(store: Store, clock: Clock) -> SeriesStore:
    from assay.series.repository import SeriesStore

    return SeriesStore(store, clock)


def decision(alert: AlertRecord, rules: Mapping[str, StoredRule], now: float, *, instead_of: str = "") -> Decision:
    """What is to be kept of an alert, with the notices that may be sent now."""
    notes = due(alert, rules, now)
    updated = after_notifying(alert, notes, now)
    notices = notices_of(updated, notes)
    return Decision(kept_of(updated), notices, tuple(note.id for note in notes), instead_of)


def due(alert: AlertRecord, rules: Mapping[str, StoredRule], now: float) -> tuple[RuleNote, ...]:
    """The rules that are to notify now about the newest turn."""
    telling = alert.telling
    if not telling.owed or alert.state == "snoozed" or now < telling.not_before:
        return ()
    return tuple(
        note
        for stored in alert.rules
        if telling.told.get(stored.id, 0) < telling.turn and _may_notify(note := _newest(stored, rules), rules, now)
    )


def after_notifying(alert: AlertRecord, notes: Sequence[RuleNote], now: float) -> AlertRecord:
    """An alert after some rules have notified."""
    telling = alert.telling
    turns = {**telling.told, **{note.id: telling.turn for note in notes}}
    pending = telling.owed and any(turns.get(note.id, 0) < telling.turn for note in alert.rules)
    return replace(alert, telling=replace(telling, told=turns, owed=pending, told_at=now if notes else telling.told_at))


def notices_of(alert: AlertRecord, notes: Sequence[RuleNote]) -> tuple[NewNotice, ...]:
    """One notice for each channel that the rules name; one for all of them where a rule names none."""
    if any(not note.notify for note in notes):
        return (new_notice(alert, EVERY_CHANNEL),)
    channels = dict.fromkeys(channel for note in notes for channel in note.notify)
    return tuple(new_notice(alert, channel) for channel in channels)


def _newest(stored: RuleNote, rules: Mapping[str, StoredRule]) -> RuleNote:
    stored_rule = rules.get(stored.id)
    rule = None if stored_rule is None else rule_of(stored_rule)
    return stored if rule is None else rule.note


def _may_notify(note: RuleNote, rules: Mapping[str, StoredRule], now: float) -> bool:
    if quiet_until(note.quiet, note.timezone, now) is not None:
        return False
    stored_rule = rules.get(note.id)
    last = None if stored_rule is None else stored_rule.told_at
    return not note.at_most_every or last is None or now - last >= note.at_most_every


def quiet_until(quiet: str | None, timezone: str, now: float) -> float | None:
    """When the quiet hours end in which a moment lies; None when it lies in none."""
    if quiet is None:
        return None
    here = datetime.fromtimestamp(now, UTC).astimezone(zone_named(timezone))
    begin, end = (_minutes(part) for part in quiet.split("-"))
    minute = here.hour * 60 + here.minute
    inside = begin <= minute < end if begin < end else minute >= begin or minute < end
    if not inside:
        return None
    day = here + timedelta(days=1) if begin > end and minute >= begin else here
    over = day.replace(hour=end // 60, minute=end % 60, second=0, microsecond=0, fold=0)
    # Where clocks are put back, the hour may lie behind: it comes a second time.
    return over.timestamp() if over.timestamp() > now else over.replace(fold=1).timestamp()


def _minutes(text: str) -> int:
    hours, _, minutes = text.partition(":")
    return int(hours) * 60 + int(minutes)
