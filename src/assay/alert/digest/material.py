"""What a digest is made from, read from a store or a server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol

from assay.alert.digest.build import SILENT_FROM_S, long_ago
from assay.alert.digest.records import (
    MOST_PICTURES,
    AlertSummary,
    DigestMaterial,
    FailedJob,
    Movement,
    RecordedDifference,
    ResultLink,
    SeriesHealth,
    SeriesLabel,
)
from assay.alert.records import AlertRecord
from assay.analyse.records import CampaignRecord
from assay.analyse.series.causes import shown
from assay.report.html.series import SeriesPoint
from assay.report.wording import as_number, job_label, unmeasured_sentence
from assay.series.repository import KnownFinding
from assay.store.alerts import AlertFilter
from assay.store.records import CampaignSummary
from assay.store.series import Point, SeriesRecord

# Results of a series that a picture shows, and those that tell how often it usually gets one.
_DRAWN = 400
_RECENT = 30
# A campaign may have begun so long before the time in which one of its jobs failed.
_LONGEST_CAMPAIGN_S = 2 * 86_400.0
_NOT_MEASURED = ("failed", "poisoned")


class DigestSource(Protocol):
    @property
    def name(self) -> str: ...

    def series(self) -> Iterator[SeriesRecord]: ...

    def findings(self, *, since: float | None = None, series: str = "") -> Iterator[KnownFinding]:
        """Findings of all series or one, those found since a moment."""
        ...

    def points(self, series: str, newest: int | None = None) -> Sequence[Point]:
        """The points of a series, oldest first."""
        ...

    def alerts(self, which: AlertFilter) -> Iterator[AlertRecord]: ...

    def campaigns(self) -> Iterator[CampaignSummary]:
        """Campaigns, the newest first."""
        ...

    def record(self, campaign: str) -> CampaignRecord: ...

    def link(self, job: str, at: float) -> ResultLink:
        """The way to a result."""
        ...

    def address(self, alert: AlertRecord) -> str:
        """Where an alert can be looked at; empty where it cannot."""
        ...


@dataclass(frozen=True, slots=True)
class DigestInput:
    """What was read."""

    material: DigestMaterial
    spots: Mapping[str, tuple[SeriesPoint, ...]]
    """Series → its results, for the pictures of those that moved."""
    past: Mapping[str, tuple[Movement, ...]]
    """Series → all its changes."""


def read(source: DigestSource, since: float, until: float) -> DigestInput:
    records = {record.id: record for record in source.series()}
    findings = [
        finding for finding in source.findings(since=since) if finding.state != "gone" and finding.first_bad.at <= until
    ]
    moved = list(
        dict.fromkeys(
            finding.series.id for finding in sorted(findings, key=lambda finding: -abs(finding.finding.change or 0.0))
        )
    )
    spots: dict[str, tuple[SeriesPoint, ...]] = {}
    past: dict[str, tuple[Movement, ...]] = {}
    for name in moved[:MOST_PICTURES]:
        points = source.points(name, _DRAWN)
        first = max(0, records[name].points - len(points)) if name in records else 0
        spots[name] = tuple(
            SeriesPoint(point.at, point.value, point.standard_error, point.verdict)
            for point in points
            if point.at <= until
        )
        series_findings = (
            finding
            for finding in source.findings(series=name)
            if finding.state != "gone" and finding.first_bad.at <= until
        )
        past[name] = tuple(ended(movement(finding, source), finding, points, first) for finding in series_findings)
    by_id = {change.id: change for changes in past.values() for change in changes}
    material = DigestMaterial(
        source=source.name,
        series=tuple(_watched(source, record, since, until) for record in records.values()),
        movements=tuple(by_id.get(finding.id) or movement(finding, source) for finding in findings),
        failed=tuple(_failures(source, since)),
        alerts=tuple(_alert_summary(alert, source) for alert in _alerts(source, since)),
    )
    return DigestInput(material, spots, past)


def movement(known: KnownFinding, source: DigestSource) -> Movement:
    finding = known.finding
    return Movement(
        id=known.id,
        series=named(known.series),
        kind=finding.kind,
        at=known.first_bad.at,
        good_at=known.last_good.at,
        end_at=known.first_bad.at,
        before=finding.before,
        after=finding.after,
        change=finding.change,
        low=None if finding.interval is None else finding.interval.low,
        high=None if finding.interval is None else finding.interval.high,
        probability=finding.probability,
        answer=finding.answer,
        because=finding.because,
        unconfirmed=finding.unconfirmed.words if finding.unconfirmed else "",
        cause=known.triage.cause,
        why=known.triage.because,
        differs=tuple(
            RecordedDifference(item.name, shown(item.before), shown(item.after)) for item in known.triage.differs
        ),
        state="expected" if known.state == "expected" else "open",
        found_at=known.found_at,
        good=source.link(known.last_good.job, known.last_good.at) if known.last_good.job else None,
        bad=source.link(known.first_bad.job, known.first_bad.at) if known.first_bad.job else None,
    )


def named(series: SeriesRecord) -> SeriesLabel:
    machine = series.machine
    cores = f"{machine['cores']} cores" if machine.get("cores") else ""
    parts = [str(part) for part in (machine.get("processor"), cores, machine.get("gpu")) if part]
    point = job_label(series.point, {}) if series.point else ""
    return SeriesLabel(series.id, series.benchmark, series.metric, series.unit, series.better, point, ", ".join(parts))


def ended(movement: Movement, known: KnownFinding, points: Sequence[Point], first: int) -> Movement:
    """A drift with the moment at which it ended."""
    place = known.finding.range[1] - first
    if movement.kind != "drift" or not 0 <= place < len(points):
        return movement
    return replace(movement, end_at=max(movement.at, points[place].at))


def _watched(source: DigestSource, series: SeriesRecord, since: float, until: float) -> SeriesHealth:
    last = series.newest
    recent: tuple[float, ...] = ()
    if last is not None and last > until:  # the digest ends in the past: what came later is not part of it
        moments = [point.at for point in source.points(series.id) if point.at <= until]
        last, recent = (moments[-1] if moments else None), tuple(moments[-_RECENT:])
    elif last is not None and long_ago(since, until) <= last < until - SILENT_FROM_S:
        recent = tuple(point.at for point in source.points(series.id, _RECENT))
    loud_until, louder = _burst(source, series)
    report = series.report
    return SeriesHealth(
        series=named(series),
        points=int(as_number(report.get("points")) or series.points),
        last_at=last,
        recent=recent,
        kind=str(report.get("kind", "")),
        spread=as_number(report.get("relative_spread")),
        memory=as_number(report.get("correlation")) or 0.0,
        loud_until=loud_until,
        louder=louder,
    )


def _burst(source: DigestSource, series: SeriesRecord) -> tuple[float | None, float]:
    """When the newest time of more noise ended, if that is not long ago, and how much louder it was."""
    bursts = series.report.get("bursts")
    newest = bursts[-1] if isinstance(bursts, list) and bursts else None
    last, factor = (
        (as_number(newest.get(key)) for key in ("last", "factor")) if isinstance(newest, Mapping) else (None, None)
    )
    if last is None or factor is None:
        return None, 1.0
    back = series.checked - int(last)  # how many of the checked points are newer
    later = series.points - series.checked
    if not 0 < back <= _RECENT:
        return None, 1.0
    points = source.points(series.id, back + later)
    return (points[0].at if points else None), factor


def _failures(source: DigestSource, since: float) -> Iterator[FailedJob]:
    for campaign in source.campaigns():
        if began(campaign.created_at) < since - _LONGEST_CAMPAIGN_S:
            return
        if not any(campaign.counts.get(state) for state in _NOT_MEASURED):
            continue
        record = source.record(campaign.id)
        for job in record.jobs:
            if job.state in _NOT_MEASURED:
                # One that does not say when it ended has the moment at which its campaign began.
                at = began(job.completed_at or record.created_at)
                label = job_label(job.point, job.definition)
                sentence = unmeasured_sentence(job)
                yield FailedJob(record.benchmark, label, sentence, at, at, link=source.link(job.job, at))


def _alerts(source: DigestSource, since: float) -> Iterable[AlertRecord]:
    """Alerts that stand, and those that changed since a moment."""
    standing = source.alerts(AlertFilter(states=("active",)))
    return {alert.id: alert for alert in (*standing, *source.alerts(AlertFilter(since=since)))}.values()


def began(written: str) -> float:
    """A moment as records write it, in seconds since 1970."""
    at = datetime.fromisoformat(written)
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _alert_summary(alert: AlertRecord, source: DigestSource) -> AlertSummary:
    why = alert.history[-1].why if alert.history else ""
    return AlertSummary(
        alert.id,
        alert.state,
        alert.severity,
        alert.benchmark,
        alert.title,
        alert.opened_at,
        alert.changed_at,
        alert.snoozed_until,
        alert.by,
        alert.findings,
        alert.sentences,
        why,
        source.address(alert),
    )
