"""The series of a store together with what is concluded from them: points in, findings with their reasons out.

The store keeps rows and knows no statistics; analysis knows no store. Here they meet.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from assay.analyse.headline import readings
from assay.analyse.records import MultiRunJobResult
from assay.analyse.series import Finding, Series, SeriesReport, detect, discoveries
from assay.analyse.series.causes import CauseAnalysis, triage
from assay.analyse.series.discoveries import Discoveries, Doubt, believed, runs_around, same_changes, shifted
from assay.analyse.series.identity import context, identity, machine_kind
from assay.clock import SYSTEM_CLOCK, Clock
from assay.documents import from_json, to_json
from assay.errors import UsageError
from assay.plan.job import content_hash
from assay.store.listing import Page
from assay.store.series import (
    CheckOutcome,
    FindingRows,
    FindingState,
    LastCheck,
    NewPoint,
    Point,
    PointColumns,
    SeriesFilter,
    SeriesRecord,
    SeriesRows,
    StoredFinding,
)
from assay.store.series_file import FilePoint
from assay.store.store import Store

# Series are read and kept in portions of this many.
_PORTION = 200
# A check begins again at most so often, when another process checks the same series at the same moment.
_ROUNDS = 8
LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class KnownFinding:
    """A change that was found in a series, its cause, and what was decided about it."""

    id: str
    series: SeriesRecord
    finding: Finding
    triage: CauseAnalysis
    state: FindingState
    """`open`; `expected`: the series is judged from there on; `gone`: with more points it is no longer a change."""
    last_good: Point
    first_bad: Point
    found_at: float


@dataclass(frozen=True, slots=True)
class ImportCounts:
    """How many imported points were added."""

    series: tuple[str, ...]
    added: int
    known: int
    """Points that were there already."""


class SeriesStore:
    def __init__(self, store: Store, clock: Clock = SYSTEM_CLOCK) -> None:
        self._rows = SeriesRows(store.engine)
        self._findings = FindingRows(store.engine)
        self._clock = clock

    # Points

    def add(
        self, result: MultiRunJobResult, benchmark: str, labels: Mapping[str, str], at: float, named: Iterable[str] = ()
    ) -> tuple[str, ...]:
        """Keep the numbers of a result as points; return the series that they belong to.

        A result is taken once however often it is given. A job that failed is a point without a value in every series
        that it has; one that was cancelled says nothing.

        Args:
            named: metrics and statistics to watch beside those of the job itself.
        """
        if result.state not in ("done", "failed"):
            return ()
        kind = machine_kind(result.environment)

        def series_id(metric: str) -> str:
            return identity(benchmark, result.definition, result.point, kind, metric, labels)

        possible = {series_id(metric): metric for metric in self._rows.metrics_of(benchmark)}
        existing = self._rows.existing(possible)
        measured = {
            series_id(reading.metric): reading
            for reading in readings(result, named, [possible[name] for name in sorted(existing)])
            if len(reading.metric) <= LONGEST_NAME
        }
        new = [
            SeriesRecord(name, benchmark, reading.metric, reading.unit, reading.better, result.point, labels, kind)
            for name, reading in measured.items()
            if name not in existing
        ]
        verdict, surroundings = result.verdict or "" if result.state == "done" else "failed", context(result)
        points = [
            NewPoint(name, at, reading.value, reading.standard_error, verdict, result.job, surroundings)
            for name, reading in measured.items()
        ]
        self._rows.add(new, points)
        return tuple(measured)

    def take(self, points: Sequence[FilePoint]) -> ImportCounts:
        """Keep points of a file; those that are there already stay as they are."""
        by_series: dict[str, list[FilePoint]] = {}
        for point in points:
            by_series.setdefault(point.series, []).append(point)
        records: dict[str, SeriesRecord] = {}
        for name, lines in by_series.items():
            # Unit and direction are those of the last line that tells them.
            unit = next((line.unit for line in reversed(lines) if line.unit), "")
            better = next((line.better for line in reversed(lines) if line.better), None)
            series_id = identity(name, {}, {}, {}, "value", {})
            records[name] = SeriesRecord(series_id, name, "value", unit, better, origin="import")
        names, added = list(by_series), 0
        for begin in range(0, len(names), _PORTION):
            part = names[begin : begin + _PORTION]
            new = [
                NewPoint(records[name].id, line.at, line.value, context=line.context)
                for name in part
                for line in by_series[name]
            ]
            added += self._rows.take([records[name] for name in part], new)
        return ImportCounts(tuple(records[name].id for name in names), added, len(points) - added)

    def points(self, series_id: str, newest: int | None = None) -> tuple[Point, ...]:
        """The points of a series, oldest first; only the newest `newest` of them, if given."""
        return self._rows.points(series_id, newest)

    def points_page(self, series_id: str, cursor: str | None = None, limit: int = 500) -> Page[Point]:
        return self._rows.points_page(series_id, cursor, limit)

    # Series

    def list(
        self, benchmark: str = "", metric: str = "", text: str = "", origin: str = "", limit: int = 1000
    ) -> tuple[SeriesRecord, ...]:

        return self.page(SeriesFilter(benchmark, metric, text, origin), None, limit).items

    def page(self, which: SeriesFilter, cursor: str | None = None, limit: int = 50) -> Page[SeriesRecord]:
        return self._rows.page(which, cursor, limit)

    def get(self, reference: str) -> SeriesRecord:
        return self._rows.find(reference)

    def ids(self, which: SeriesFilter | None = None) -> tuple[str, ...]:
        return self._rows.ids(which)

    # Findings

    def check(self, series_ids: Iterable[str]) -> tuple[KnownFinding, ...]:
        """Check series again, and keep what is found.

        Those that are checked together are judged together: of what is reported, only a small share may be chance.

        Returns:
            The findings that are new, or of which place, answer, cause or state changed.
        """
        left = tuple(dict.fromkeys(series_ids))
        changed: dict[str, None] = {}
        for _ in range(_ROUNDS):
            if not left:
                break
            news, left = self._check(left)
            changed |= dict.fromkeys(news)
        stored = self._findings.by_id(tuple(changed))
        return self._known([stored[name] for name in changed if name in stored])

    def findings(
        self, *, series: str = "", benchmark: str = "", state: str = "", since: float | None = None, limit: int = 1000
    ) -> tuple[KnownFinding, ...]:
        """Findings, the newest first."""
        return self.findings_page(series=series, benchmark=benchmark, state=state, since=since, limit=limit).items

    def findings_page(
        self,
        *,
        series: str = "",
        benchmark: str = "",
        state: str = "",
        since: float | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page[KnownFinding]:
        """Findings, the newest first, a page at a time."""
        page = self._findings.page(
            series=series, benchmark=benchmark, state=state, since=since, cursor=cursor, limit=limit
        )
        return Page(self._known(page.items), page.next)

    def finding(self, reference: str) -> KnownFinding:
        return self._known([self._findings.get(reference)])[0]

    def expect(self, finding_id: str) -> KnownFinding:
        finding = self._findings.get(finding_id)
        if finding.state == "gone":
            raise UsageError(
                f"finding {finding.id} is gone: with more points it is no longer a change", code="lifecycle"
            )
        if finding.state == "open":
            self._findings.mark(finding.id, "expected")
            self.check([finding.series])
        return self.finding(finding.id)

    def _check(self, series: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Check once: the findings that changed, and the series to check again."""
        check = SeriesCheck(self._rows, self._findings, self._clock.utc().timestamp())
        for begin in range(0, len(series), _PORTION):
            check.add(series[begin : begin + _PORTION])
        again: tuple[str, ...] = ()
        changed: tuple[str, ...] = ()
        for portion in check.outcomes(_PORTION):
            left = self._findings.keep([outcome.check for outcome in portion])
            again += left
            changed += tuple(name for outcome in portion if outcome.check.series not in left for name in outcome.news)
        return changed, again

    def _known(self, findings: Sequence[StoredFinding]) -> tuple[KnownFinding, ...]:
        series = self._rows.records(finding.series for finding in findings)
        points = self._rows.points_by_id(
            number for finding in findings for number in (finding.last_good, finding.first_bad)
        )
        return tuple(
            _known(finding, series[finding.series], points[finding.last_good], points[finding.first_bad])
            for finding in findings
            if finding.last_good in points and finding.first_bad in points
        )


def _known(stored: StoredFinding, series: SeriesRecord, last_good: Point, first_bad: Point) -> KnownFinding:
    read = from_json(FindingDocument, stored.document, source=f"finding {stored.id}")
    return KnownFinding(
        stored.id, series, read.finding, read.triage, stored.state, last_good, first_bad, stored.found_at
    )


# Only this many of the newest points are checked: what lies further back was found while it was new, and stays.
LONGEST = 1000
# A change so near to the first point that is looked at may have been clear only beside what lay before.
_MARGIN = 16
_MARGIN_OF_LONG = LONGEST // 4
# Points on each side of a change that tell why it came.
_AROUND = 30


@dataclass(frozen=True, slots=True)
class FindingDocument:
    """A finding as its document in the store holds it."""

    finding: Finding
    triage: CauseAnalysis
    until: int
    """Id of the point from which on a new level holds: the first after a step, the last of a drift."""
    doubt: Doubt | None = None


@dataclass(frozen=True, slots=True)
class SeriesOutcome:
    """What the check of one series is to leave in the store."""

    check: CheckOutcome
    news: tuple[str, ...]
    """Findings that are new, or changed."""


@dataclass(frozen=True, slots=True)
class _StoredFinding:
    kept: StoredFinding
    document: FindingDocument
    place: int
    """Where the first point after it lies; -1 where it is older than what is looked at."""


@dataclass(frozen=True, slots=True)
class _CheckedSeries:
    """One series of a check."""

    id: str
    stand: LastCheck
    ids: NDArray[np.int64]
    """Of its points, without those that are skipped."""
    skipped: int
    first: int
    """The first point that was looked at: nothing before it counts."""
    report: SeriesReport
    known: tuple[_StoredFinding, ...]

    @property
    def count(self) -> int:
        return self.skipped + self.ids.size

    def point(self, index: int) -> int:
        """The id of the point at a place."""
        return int(self.ids[index - self.skipped])


@dataclass(slots=True)
class SeriesCheck:
    """A check of series, portion by portion; all of them together decide what is believed."""

    rows: SeriesRows
    findings: FindingRows
    now: float
    _checked: list[_CheckedSeries] = field(default_factory=list)

    def add(self, series: Sequence[str]) -> None:
        """Detect changes in some series; nothing is concluded yet."""
        # In this order: whatever is added or checked after the first question, the check begins again or has seen it.
        stands = self.findings.before(series)
        columns = self.rows.columns(series, LONGEST)
        self._checked += [_check_one(name, stands[name], columns[name]) for name in series if name in stands]

    def outcomes(self, portion: int) -> Iterator[tuple[SeriesOutcome, ...]]:
        if not self._checked:
            return
        among = discoveries([series.report for series in self._checked])
        pairs = list(zip(self._checked, among.reports, strict=True))
        for begin in range(0, len(pairs), portion):
            yield tuple(self._conclude(checked, report, among) for checked, report in pairs[begin : begin + portion])

    def _conclude(self, checked: _CheckedSeries, judged: SeriesReport, among: Discoveries) -> SeriesOutcome:
        candidates = {
            finding.kept.id: finding
            for finding in checked.known
            if finding.kept.state != "expected" and finding.place >= 0
        }
        matched = same_changes(
            judged.findings,
            {name: finding.document.finding for name, finding in candidates.items()},
            {name: finding.place for name, finding in candidates.items()},
        )
        used = {finding.kept.id for finding in checked.known}
        findings: list[tuple[StoredFinding, bool]] = []
        for number in range(len(judged.findings)):
            before = candidates.get(matched.get(number, ""))
            name = before.kept.id if before else _new_id(checked, judged.findings[number], used)
            used.add(name)
            findings.append(self._keep(checked, judged, among, number, name, before))
        findings += [
            (replace(vanished.kept, state="gone"), True)
            for vanished in _vanished(checked, candidates, set(matched.values()))
        ]
        old = {finding.kept for finding in checked.known}
        new = tuple(stored for stored, _ in findings if stored not in old)
        report = json.dumps(shown_report(judged), separators=(",", ":"))
        check = CheckOutcome(checked.id, (checked.stand.checked, checked.stand.report), checked.count, report, new)
        return SeriesOutcome(check, tuple(stored.id for stored, news in findings if news))

    def _keep(
        self,
        checked: _CheckedSeries,
        judged: SeriesReport,
        among: Discoveries,
        number: int,
        name: str,
        before: _StoredFinding | None,
    ) -> tuple[StoredFinding, bool]:
        # One that is back is as doubtful as a new one.
        standing = before is not None and before.kept.state == "open"
        was = (before.document.finding, before.document.doubt) if before is not None and standing else None
        points = checked.count if checked.stand.checked else None
        raw, spread = checked.report.findings[number], checked.report.spread
        finding, doubt = believed(raw, judged.findings[number], among, was, points, spread)
        last_good, first_bad = checked.point(finding.last_good), checked.point(finding.first_bad)
        moved = before is None or (before.kept.last_good, before.kept.first_bad) != (last_good, first_bad)
        answered = before is None or before.document.finding.answer != finding.answer
        fresh = checked.count != checked.stand.checked and finding.first_bad + _AROUND >= checked.stand.checked
        if before is None or moved or answered or fresh:
            reason = self._triage(checked, judged, number, finding)
        else:
            reason = before.document.triage
        until = checked.point(finding.range[1]) if finding.kind == "drift" else first_bad
        document = to_json(FindingDocument(finding, reason, until, doubt))
        found_at = self.now if before is None else before.kept.found_at
        stored = StoredFinding(name, checked.id, last_good, first_bad, found_at, "open", document)
        back = before is not None and before.kept.state == "gone"
        news = moved or answered or back or (before is not None and before.document.triage.cause != reason.cause)
        return stored, news

    def _triage(self, checked: _CheckedSeries, judged: SeriesReport, number: int, finding: Finding) -> CauseAnalysis:
        before, after = runs_around(judged.findings, number, (checked.first, checked.count), _AROUND)
        contexts = self.rows.contexts([checked.point(index) for index in (*before, *after)])
        sides = ([contexts[checked.point(index)] for index in side] for side in (before, after))
        return triage(finding, *sides)


def shown_report(report: SeriesReport) -> dict[str, object]:
    """A report for the series' own row; its findings are kept apart, and only counted here."""
    document = {name: value for name, value in report.record().items() if name not in ("findings", "series")}
    return {**document, "findings": len(report.findings)}


def _check_one(name: str, stand: LastCheck, column: PointColumns) -> _CheckedSeries:
    places = {point: column.skipped + place for place, point in enumerate(column.ids)}
    documents = [
        from_json(FindingDocument, stored.document, source=f"finding {stored.id}") for stored in stand.findings
    ]
    findings = tuple(
        _StoredFinding(stored, document, places.get(stored.first_bad, -1))
        for stored, document in zip(stand.findings, documents, strict=True)
    )
    expected = [places.get(finding.document.until, 0) for finding in findings if finding.kept.state == "expected"]
    first = max([column.skipped, *expected])
    # Only the ids stay: thousands of series may be looked at together.
    ids = np.array(column.ids, dtype=np.int64)
    report = shifted(_detect(name, stand, column, first), first)
    return _CheckedSeries(name, stand, ids, column.skipped, first, report, findings)


def _detect(name: str, stand: LastCheck, column: PointColumns, first: int) -> SeriesReport:
    begin = first - column.skipped
    values = np.array([np.nan if value is None else value for value in column.values[begin:]], dtype=np.float64)
    errors = column.errors[begin:]
    has_errors = any(error is not None for error in errors)
    spreads = (
        np.array([np.nan if error is None else error for error in errors], dtype=np.float64) if has_errors else None
    )
    return detect(Series(values, stand.better, spreads, name=name))


def _new_id(checked: _CheckedSeries, finding: Finding, used: set[str]) -> str:
    """A name for a finding: the same change of the same series gets the same one wherever it is found first."""
    way = "up" if finding.difference > 0 else "down"
    point = checked.point(finding.first_bad)
    names = (content_hash([checked.id, point, way, number])[:16] for number in itertools.count())
    return next(name for name in names if name not in used)


def _vanished(checked: _CheckedSeries, known: dict[str, _StoredFinding], matched: set[str]) -> Iterator[_StoredFinding]:
    """Open findings that are no longer found, although they could be."""
    margin = 0 if not checked.first else _MARGIN_OF_LONG if checked.first == checked.skipped else _MARGIN
    for name, finding in known.items():
        near_the_edge = finding.place < checked.first + margin
        if name not in matched and finding.kept.state == "open" and not near_the_edge:
            yield finding
