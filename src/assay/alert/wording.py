"""What an alert says: its title, and one plain sentence with numbers for each thing that it is about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import quote

from assay.alert.records import (
    SEVERITIES,
    AlertMember,
    AlertRecord,
    Event,
    FindingSummary,
    Severity,
    Trouble,
    findings_of,
)
from assay.alert.rules import Rule
from assay.analyse.series.causes import FactorDifference, cause_of, shown
from assay.analyse.text import count, listed, number, percent, quantity
from assay.report.wording import one_line
from assay.units import show_seconds

# Members that are listed in full; the record has them all.
_LISTED = 20
_LONGEST_REASON = 300
_ORDER = {"standing": 0, "closed": 1, "expected": 2, "recovered": 3}


def sentence(event: Event, rule: Rule) -> str:
    name = one_line(event.name)
    if event.finding is not None:
        return f"{name}: {change_in_words(event.finding, event.unit)}"
    if event.kind == "threshold":
        way = "above" if rule.alert.when == "above" else "below"
        limit = quantity(rule.alert.value or 0.0, event.unit)
        return f"{name} is {_with_interval(event)}, {way} the limit of {limit}"
    if event.kind == "failed":
        return f"{name} failed: {one_line(event.reason)[:_LONGEST_REASON] or 'no reason was recorded'}"
    if event.kind == "silent":
        return f"{name} has had no result {event.reason}"
    return f"{name} has sent no heartbeat {event.reason}"


def change_in_words(finding: FindingSummary, unit: str) -> str:
    """A change with its interval: `212 ms → 225 ms, +6.1 % [+4.1 %, +8.1 %]`."""
    levels = f"{quantity(finding.before, unit)} → {quantity(finding.after, unit)}"
    if finding.change is not None and finding.change_interval is not None:
        low, high = (percent(end, signed=True) for end in (finding.change_interval.low, finding.change_interval.high))
        size = f"{percent(finding.change, signed=True)} [{low}, {high}]"
    else:
        ends = finding.difference_interval
        size = f"{number(finding.difference)} [{number(ends.low)}, {number(ends.high)}] {unit}".rstrip()
    drift = ", as a drift" if finding.kind == "drift" else ""
    return f"{levels}, {size}{drift}, since {moment(finding.since)}"


def described(alert: AlertRecord) -> AlertRecord:
    """An alert with the words that follow from its members."""
    members = tuple(
        sorted(alert.members, key=lambda member: (_ORDER[member.state], member.benchmark, member.name, member.subject))
    )
    # What stands now is what it is about; when nothing does, what it was about last.
    standing = tuple(member for member in members if member.state == "standing") or members
    first = standing[0]
    change = first.moved
    return replace(
        alert,
        members=members,
        findings=findings_of(members),
        severity=_worst(standing),
        benchmark=alert.benchmark or first.benchmark,
        title=_title(alert.kind, standing),
        sentences=_sentences(standing),
        cause=cause_in_words(change) if change is not None else "",
        differs=change.differs if change is not None else (),
        links=_links(alert.id, first),
    )


def blamed(finding: FindingSummary) -> FactorDifference | None:
    """The difference that explains a change best; None where the triage blames none."""
    return next((difference for difference in finding.differs if cause_of(difference.name) == finding.cause), None)


def cause_in_words(change: FindingSummary) -> str:
    """What explains a change, in a few words: `code: commit 3f2a… → 91bc…`."""
    difference = blamed(change)
    if difference is None:
        return f"{change.cause}: {change.machine}" if change.cause == "machine" and change.machine else change.cause
    return f"{change.cause}: {difference.name} {shown(difference.before)} → {shown(difference.after)}"


def moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def for_so_long(seconds: float, since: float) -> str:
    """How long something has been missing: `for 24 h, since 2026-01-01 03:00 UTC`."""
    return f"for {show_seconds(seconds)}, since {moment(since)}"


def _title(kind: Trouble, members: Sequence[AlertMember]) -> str:
    first, many = members[0], len(members)
    if kind == "finding":
        return _moved_title(members)
    if kind == "agent-lost":
        return f"agent {first.name} is lost" if many == 1 else f"{count(many, 'agent')} are lost"
    if kind == "silent":
        return f"{first.benchmark} gives no results"
    if kind == "failed":
        return f"{first.name} failed" if many == 1 else f"{count(many, 'job')} of {first.benchmark} failed"
    return f"{first.says}" if many == 1 else f"{first.metric} is beyond its limit in {many} places of {first.benchmark}"


def _moved_title(members: Sequence[AlertMember]) -> str:
    first, change = members[0], members[0].moved
    if change is None:
        return f"{first.name} is worse"
    if len(members) == 1:
        size = "" if change.change is None else f"{percent(abs(change.change))} "
        return f"{first.name} is {size}worse"
    metrics = Counter(member.metric for member in members)
    benchmarks = Counter(member.benchmark for member in members)
    what = listed(list(metrics), most=2)
    where = next(iter(benchmarks)) if len(benchmarks) == 1 else count(len(benchmarks), "benchmark")
    why = "" if change.cause == "unknown" else f": {cause_in_words(change)}"
    return f"{len(members)} series of {where} are worse ({what}){why}"


def _sentences(members: Sequence[AlertMember]) -> tuple[str, ...]:
    says = [member.says for member in members[:_LISTED]]
    if len(members) > _LISTED:
        says.append(f"and {len(members) - _LISTED} more")
    change = members[0].moved
    if change is not None:
        why = f"What may explain it: {cause_in_words(change)}."
        says.append("Nothing that is recorded explains it." if change.cause == "unknown" else why)
        says += [f"{reason[:1].upper()}{reason[1:]}." for reason in change.because]
    return tuple(one_line(sentence) for sentence in says)


def _links(alert: str, first: AlertMember) -> dict[str, str]:
    """Pages of the dashboard, below the address of the server."""
    parts = {"alert": f"/alerts/{_part(alert)}"}
    if first.finding and first.series:
        parts["finding"] = f"/series/{_part(first.series)}#finding-{_part(first.finding)}"
        parts["series"] = f"/series/{_part(first.series)}"
    parts |= {"job": f"/jobs/{_part(first.job)}"} if first.job else {}
    parts |= {"campaign": f"/campaigns/{_part(first.campaign)}"} if first.campaign else {}
    return parts | ({"agent": f"/fleet/{_part(first.agent)}"} if first.agent else {})


def _part(name: str) -> str:
    return quote(name, safe="")


def _worst(members: Sequence[AlertMember]) -> Severity:
    return max((member.severity for member in members), key=SEVERITIES.index)


def _with_interval(event: Event) -> str:
    value = quantity(event.value or 0.0, event.unit)
    if event.interval is None:
        return value
    return f"{value} [{number(event.interval.low)}, {number(event.interval.high)}]"
