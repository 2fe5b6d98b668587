"""Who is told of an alert now, and who later: quiet hours, and how often a rule may tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from assay.alert.message import notice
from assay.alert.records import AlertRecord, RuleNote, kept_of
from assay.alert.rules import quiet_until, rule_of
from assay.store.alert_rules import KeptRule
from assay.store.alerts import Decision
from assay.store.notices import EVERY_CHANNEL, NewNotice


def decision(alert: AlertRecord, rules: Mapping[str, KeptRule], now: float, *, instead_of: str = "") -> Decision:
    """What is to be kept of an alert, with the notices for everybody who may be told of it now."""
    notes = due(alert, rules, now)
    told = after_telling(alert, notes, now)
    notices = notices_of(told, notes)
    return Decision(kept_of(told), notices, tuple(note.id for note in notes), instead_of)


def due(alert: AlertRecord, rules: Mapping[str, KeptRule], now: float) -> tuple[RuleNote, ...]:
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
        return (notice(alert, EVERY_CHANNEL),)
    channels = dict.fromkeys(channel for note in notes for channel in note.notify)
    return tuple(notice(alert, channel) for channel in channels)


def _newest(stored: RuleNote, rules: Mapping[str, KeptRule]) -> RuleNote:
    kept = rules.get(stored.id)
    rule = None if kept is None else rule_of(kept)
    return stored if rule is None else rule.note


def _may_tell(note: RuleNote, rules: Mapping[str, KeptRule], now: float) -> bool:
    if quiet_until(note.quiet, note.timezone, now) is not None:
        return False
    kept = rules.get(note.id)
    last = None if kept is None else kept.told_at
    return not note.at_most_every or last is None or now - last >= note.at_most_every
