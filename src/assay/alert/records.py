"""What happened, whom it concerns, and what was notified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Literal, cast

from assay.analyse.records import Interval
from assay.analyse.series.causes import FactorDifference
from assay.documents import adapter, from_json, to_json
from assay.store.alerts import StoredAlert

AlertState = Literal["open", "acknowledged", "snoozed", "expected", "resolved"]
Trigger = Literal["occur", "recover", "wake", "acknowledge", "snooze", "expect", "resolve", "reopen"]
Trouble = Literal["finding", "threshold", "failed", "silent", "agent-lost"]
EventKind = Literal["finding", "threshold", "failed", "silent", "agent-lost", "recovered"]
Severity = Literal["info", "warning", "critical"]
MemberState = Literal["standing", "recovered", "expected", "closed"]
NotificationReason = Literal["opened", "reopened", "grown", "woken", "resolved", "expected"]

SEVERITIES: tuple[Severity, ...] = ("info", "warning", "critical")
# What a later generation of an alert remembers of the ones before it.
_REMEMBERED = 500


@dataclass(frozen=True, slots=True)
class FindingSummary:
    """A finding, as far as alerts need it."""

    id: str
    state: str
    """`open`, `expected` or `gone`."""
    answer: str
    """`better`, `worse` or `cannot tell`."""
    before: float
    after: float
    difference: float
    difference_interval: Interval
    change: float | None
    """As a share of the level before."""
    change_interval: Interval | None
    probability: float
    since: float
    """Time of the first bad result."""
    kind: str = "step"
    cause: str = "unknown"
    because: tuple[str, ...] = ()
    differs: tuple[FactorDifference, ...] = ()
    machine: str = ""
    """Name of the machine of the first bad result."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that a rule may be about."""

    kind: EventKind
    at: float
    """When it was so, in seconds since 1970; the same event always has the same time."""
    subject: str
    """What it is about: a finding, a series and a statistic, a point of a benchmark, a benchmark, an agent."""
    id: str
    """The same event has the same id, however often it is reported."""
    of: Trouble | None = None
    """What is over, for `recovered`."""
    name: str = ""
    """The subject in words."""
    benchmark: str = ""
    metric: str = ""
    """With its statistic: `ttft_ms.p99`."""
    unit: str = ""
    value: float | None = None
    interval: Interval | None = None
    doubt: str = ""
    """Why the value cannot be judged."""
    reason: str = ""
    """Why a job failed, or how something recovered."""
    finding: FindingSummary | None = None
    series: str = ""
    job: str = ""
    campaign: str = ""
    agent: str = ""

    @property
    def trouble(self) -> Trouble:
        """What kind of trouble it is, or ends."""
        return cast("Trouble", self.of or self.kind)


@dataclass(frozen=True, slots=True)
class AlertMember:
    """One of the things that an alert is about."""

    subject: str
    name: str
    state: MemberState
    at: float
    """Time of the newest event about it."""
    event: str
    """Id of that event."""
    says: str
    """One sentence, with numbers and their interval."""
    rule: str
    """Id of the rule that it broke."""
    severity: Severity = "warning"
    benchmark: str = ""
    metric: str = ""
    unit: str = ""
    series: str = ""
    finding: str = ""
    job: str = ""
    campaign: str = ""
    agent: str = ""
    since: float | None = None
    """Time of the first bad result."""
    moved: FindingSummary | None = None
    """The change, for a finding."""


@dataclass(frozen=True, slots=True)
class HistoryLine:
    """One change in the life of an alert: what, when, who, why."""

    at: float
    happening: Trigger
    state: AlertState
    by: str
    """Who did it; empty where it happened by itself."""
    why: str


@dataclass(frozen=True, slots=True)
class RuleNote:
    """A rule as it was when it was last broken: it may be gone when the notice is sent."""

    id: str
    name: str
    notify: tuple[str, ...] = ()
    """Channels to tell; all when empty."""
    quiet: str | None = None
    timezone: str = "UTC"
    at_most_every: float = 0.0


@dataclass(frozen=True, slots=True)
class NotificationState:
    """What was notified about an alert, and what is pending."""

    turn: int = 0
    """Counts the changes to notify: each is one turn."""
    news: NotificationReason | None = None
    """What the newest turn is about."""
    not_before: float = 0.0
    """The newest turn is not notified earlier."""
    told: Mapping[str, int] = field(default_factory=dict)
    """Rule → the last turn that it notified."""
    told_at: float | None = None
    """When the last notice was queued."""
    owed: bool = False
    """Whether the newest turn still has to be notified."""


@dataclass(frozen=True, slots=True)
class AlertRecord:
    """Trouble that people are notified of, from its opening to its end."""

    id: str
    key: str
    """What it is about: the same trouble is the same alert."""
    kind: Trouble
    state: AlertState
    severity: Severity
    benchmark: str
    """Where it was seen first; empty for an agent."""
    title: str
    sentences: tuple[str, ...]
    """What happened, in plain words with numbers: one sentence per member, then what may explain it."""
    opened_at: float
    """When it was opened first."""
    changed_at: float
    members: tuple[AlertMember, ...] = ()
    """Everything that it is about, those that still stand first."""
    cause: str = ""
    """What explains the change, by its triage."""
    differs: tuple[FactorDifference, ...] = ()
    """What differs between the last good and the first bad result."""
    rules: tuple[RuleNote, ...] = ()
    snoozed_until: float | None = None
    by: str = ""
    """Who changed it last; empty where it changed by itself."""
    history: tuple[HistoryLine, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)
    """What to look at → its path below the server's address."""
    telling: NotificationState = field(default_factory=NotificationState)
    """What was notified about it, and what is pending."""
    findings: tuple[str, ...] = ()
    """Ids of the findings that it is about."""
    past: Mapping[str, tuple[float, str]] = field(default_factory=dict)
    """Subject → time and id of its newest event in an earlier alert about the same: it is not taken for news."""

    @property
    def standing(self) -> tuple[AlertMember, ...]:
        return tuple(member for member in self.members if member.state == "standing")

    def member(self, subject: str) -> AlertMember | None:
        return next((member for member in self.members if member.subject == subject), None)

    def remembered(self) -> dict[str, tuple[float, str]]:
        """What a later alert about the same must not take for news: the newest event of each subject."""
        events = {**self.past, **{member.subject: (member.at, member.event) for member in self.members}}
        newest = sorted(events.items(), key=lambda item: item[1][0], reverse=True)[:_REMEMBERED]
        return dict(newest)


def findings_of(members: tuple[AlertMember, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(member.finding for member in members if member.finding))


_HISTORY = adapter(tuple[HistoryLine, ...])


@dataclass(frozen=True, slots=True)
class _Document:
    """What is kept of an alert beside its columns."""

    kind: Trouble
    title: str
    sentences: tuple[str, ...]
    members: tuple[AlertMember, ...]
    cause: str
    differs: tuple[FactorDifference, ...]
    rules: tuple[RuleNote, ...]
    links: Mapping[str, str]
    telling: NotificationState
    past: Mapping[str, tuple[float, str]]


# What the store keeps beside the document and the history.
_COLUMNS = tuple(column.name for column in fields(StoredAlert) if column.name not in ("document", "history"))


def kept_of(alert: AlertRecord) -> StoredAlert:
    parts = _Document(**{field.name: getattr(alert, field.name) for field in fields(_Document)})
    return StoredAlert(
        **{name: getattr(alert, name) for name in _COLUMNS},
        document=to_json(parts),
        history=_HISTORY.dump_json(alert.history).decode(),
    )


def record_of(stored: StoredAlert) -> AlertRecord:
    parts = from_json(_Document, stored.document, source=stored.id)
    return AlertRecord(
        **{name: getattr(stored, name) for name in _COLUMNS},
        **{field.name: getattr(parts, field.name) for field in fields(_Document)},
        history=_HISTORY.validate_json(stored.history),
        findings=findings_of(parts.members),
    )
