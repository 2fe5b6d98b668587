"""Which notifications of an alert are due now, and which later: quiet hours, and how often a rule may notify."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from assay.alert.message import new_notice
from assay.alert.records import AlertRecord, RuleNote, kept_of
from assay.alert.rules import rule_of
from assay.spec.schedule import zone_named
from assay.store.alerts import Decision, StoredRule
from assay.store.notices import EVERY_CHANNEL, NewNotice


def decision(alert: AlertRecord, rules: Mapping[str, StoredRule], now: float, *, instead_of: str = "") -> Decision:
    """What is to be kept of an alert, with the notices for everybody who may be told of it now."""
    notes = due(alert, rules, now)
    told = after_telling(alert, notes, now)
    notices = notices_of(told, notes)
    return Decision(kept_of(told), notices, tuple(note.id for note in notes), instead_of)


def due(alert: AlertRecord, rules: Mapping[str, StoredRule], now: float) -> tuple[RuleNote, ...]:
    """The rules by which people are to be told now of the newest turn."""
    telling = alert.telling
    if not telling.owed or alert.state == "snoozed" or now < telling.not_before:
        return ()
    return tuple(
        note
        for stored in alert.rules
        if telling.told.get(stored.id, 0) < telling.turn and _may_tell(note := _newest(stored, rules), rules, now)
    )


def after_telling(alert: AlertRecord, notes: Sequence[RuleNote], now: float) -> AlertRecord:
    """An alert after people were told by some rules."""
    telling = alert.telling
    told = {**telling.told, **{note.id: telling.turn for note in notes}}
    owed = telling.owed and any(told.get(note.id, 0) < telling.turn for note in alert.rules)
    return replace(alert, telling=replace(telling, told=told, owed=owed, told_at=now if notes else telling.told_at))


def notices_of(alert: AlertRecord, notes: Sequence[RuleNote]) -> tuple[NewNotice, ...]:
    """One notice for each channel that the rules name; one for all of them where a rule names none."""
    if any(not note.notify for note in notes):
        return (new_notice(alert, EVERY_CHANNEL),)
    channels = dict.fromkeys(channel for note in notes for channel in note.notify)
    return tuple(new_notice(alert, channel) for channel in channels)


def _newest(stored: RuleNote, rules: Mapping[str, StoredRule]) -> RuleNote:
    kept = rules.get(stored.id)
    rule = None if kept is None else rule_of(kept)
    return stored if rule is None else rule.note


def _may_tell(note: RuleNote, rules: Mapping[str, StoredRule], now: float) -> bool:
    if quiet_until(note.quiet, note.timezone, now) is not None:
        return False
    kept = rules.get(note.id)
    last = None if kept is None else kept.told_at
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
