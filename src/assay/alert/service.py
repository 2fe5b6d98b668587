"""Alerts and rules as the API and the command line read and change them, on a server or in a store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from assay.alert.evaluate import forget_rules
from assay.alert.lifecycle import ACTIVE
from assay.alert.message import read_notice, subject_of
from assay.alert.records import AlertRecord, record_of
from assay.alert.rules import Rule, given_rule, in_words, parsed, rule_of
from assay.clock import Clock
from assay.errors import AssayError, UsageError
from assay.store.alerts import AlertFilter, AlertRules, Alerts, StoredRule
from assay.store.listing import Page
from assay.store.notices import EVERY_CHANNEL, Notice, Notices, NoticeState
from assay.store.store import Store

LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class RuleView:
    """A rule that decides when to notify."""

    id: str
    name: str
    origin: str
    """`api`, or `file` for one that was last seen in a benchmark file."""
    benchmark: str
    """Name of a benchmark, or a pattern."""
    rule: Mapping[str, Any]
    says: str
    """The rule in short; empty when it was written by another version and is not understood."""
    created_at: float
    changed_at: float
    by: str
    told_at: float | None
    """When it last notified."""

    @classmethod
    def of(cls, rule: StoredRule) -> RuleView:
        read = rule_of(rule)
        return cls(**asdict(rule), says=in_words(read.alert) if read else "")


@dataclass(frozen=True, slots=True)
class NoticeView:
    """A message about an alert to one channel."""

    id: int
    key: str
    """The same for every try."""
    channel: str
    """`*` until a server with channels has made one for each of them."""
    alert: str
    subject: str
    state: NoticeState
    tries: int
    created_at: float
    next_at: float | None
    """When the next try is due; None when there will be none."""
    sent_at: float | None
    error: str
    """Why the last try failed, or what was wrong although it was sent."""

    @classmethod
    def of(cls, notice: Notice) -> NoticeView:
        try:
            subject = subject_of(read_notice(notice.document, notice.key).alert)
        except AssayError:  # written by another version
            subject = ""
        return cls(
            notice.id,
            notice.key,
            notice.channel,
            notice.alert,
            subject,
            notice.state,
            notice.attempts,
            notice.created_at,
            notice.not_before if notice.state == "waiting" else None,
            notice.sent_at,
            notice.error,
        )


def listed(store: Store, which: AlertFilter, cursor: str | None, limit: int) -> Page[AlertRecord]:
    """One page of alerts, the newest first; the state `active` stands for all that are not over."""
    states = tuple(sorted(ACTIVE)) if which.states == ("active",) else which.states
    page = Alerts(store.engine).page(replace(which, states=states), cursor=cursor, limit=limit)
    return Page(tuple(shown(record_of(stored)) for stored in page.items), page.next)


def read(store: Store, reference: str) -> AlertRecord:
    return shown(record_of(Alerts(store.engine).get(reference)))


def shown(alert: AlertRecord) -> AlertRecord:
    """An alert without what only its successors need."""
    return replace(alert, past={})


def rules(store: Store) -> tuple[RuleView, ...]:
    return tuple(map(RuleView.of, AlertRules(store.engine).list()))


def set_rule(
    store: Store, name: str, benchmark: str, document: object, *, by: str, clock: Clock
) -> tuple[RuleView, bool]:
    if not name.strip() or len(name) > LONGEST_NAME or "/" in name:
        raise UsageError(f"a rule's name has 1 to {LONGEST_NAME} characters and no slash", code="value", at="name")
    if not benchmark or len(benchmark) > LONGEST_NAME:
        raise UsageError(f"benchmark has 1 to {LONGEST_NAME} characters", code="value", at="benchmark")
    wish = given_rule(name, benchmark, parsed(document), by=by, now=clock.utc().timestamp())
    before = next((rule for rule in AlertRules(store.engine).list() if rule.name == name), None)
    stored, fresh = AlertRules(store.engine).put(wish)
    if before is not None and _is_another_question(rule_of(before), rule_of(stored)):
        forget_rules(store, [stored.id], clock)
    return RuleView.of(stored), fresh


def remove_rule(store: Store, name: str, clock: Clock) -> RuleView:
    """Take a rule away; alerts that stand by it alone are resolved."""
    gone = AlertRules(store.engine).remove(name)
    forget_rules(store, [gone.id], clock)
    return RuleView.of(gone)


def notices(
    store: Store, clock: Clock, *, alert: str = "", only: NoticeState | None = None, limit: int = 50
) -> tuple[NoticeView, ...]:
    about = Alerts(store.engine).get(alert).id if alert else None
    notices = Notices(store.engine, clock).list(alert=about, state=only, limit=limit)
    # What was for all channels lives on in one message for each.
    return tuple(
        NoticeView.of(notice) for notice in notices if notice.channel != EVERY_CHANNEL or notice.state != "sent"
    )


def send_again(store: Store, clock: Clock, notice: int) -> NoticeView:
    return NoticeView.of(Notices(store.engine, clock).again(notice))


def _is_another_question(before: Rule | None, now: Rule | None) -> bool:
    """Whether a changed rule is about something else, so that what stood by it stands no more."""
    if before is None or now is None:
        return True
    was, is_ = before.alert, now.alert
    return (before.benchmark, was.when, was.metric) != (now.benchmark, is_.when, is_.metric)
