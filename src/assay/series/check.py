"""A check of many series of a store: changes are detected, matched with the known ones, and explained."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from assay.analyse.series import Finding, Series, SeriesReport, detect, discoveries
from assay.analyse.series.causes import CauseAnalysis, triage
from assay.analyse.series.discoveries import Discoveries, Doubt, believed, runs_around, same_changes, shifted
from assay.documents import from_json, to_json
from assay.plan.digest import content_hash
from assay.store.findings import FindingRows
from assay.store.series import CheckOutcome, LastCheck, PointColumns, SeriesRows, StoredFinding

# Only so many of the newest points are looked at: what lies further back was found while it was new, and stays.
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
        among = discoveries([one.report for one in self._checked])
        pairs = list(zip(self._checked, among.reports, strict=True))
        for begin in range(0, len(pairs), portion):
            yield tuple(self._conclude(checked, report, among) for checked, report in pairs[begin : begin + portion])

    def _conclude(self, checked: _CheckedSeries, judged: SeriesReport, among: Discoveries) -> SeriesOutcome:
        known = {one.kept.id: one for one in checked.known if one.kept.state != "expected" and one.place >= 0}
        matched = same_changes(
            judged.findings,
            {name: one.document.finding for name, one in known.items()},
            {name: one.place for name, one in known.items()},
        )
        used = {one.kept.id for one in checked.known}
        kept: list[tuple[StoredFinding, bool]] = []
        for number in range(len(judged.findings)):
            before = known.get(matched.get(number, ""))
            name = before.kept.id if before else _new_id(checked, judged.findings[number], used)
            used.add(name)
            kept.append(self._keep(checked, judged, among, number, name, before))
        kept += [(replace(one.kept, state="gone"), True) for one in _vanished(checked, known, set(matched.values()))]
        old = {one.kept for one in checked.known}
        new = tuple(one for one, _ in kept if one not in old)
        report = json.dumps(shown_report(judged), separators=(",", ":"))
        check = CheckOutcome(checked.id, (checked.stand.checked, checked.stand.report), checked.count, report, new)
        return SeriesOutcome(check, tuple(one.id for one, news in kept if news))

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
        finding, doubt = believed(checked.report.findings[number], judged.findings[number], among, was, points)
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
        kept = StoredFinding(name, checked.id, last_good, first_bad, found_at, "open", document)
        back = before is not None and before.kept.state == "gone"
        news = moved or answered or back or (before is not None and before.document.triage.cause != reason.cause)
        return kept, news

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
    known = tuple(_stored_finding(kept, places) for kept in stand.findings)
    expected = [places.get(one.document.until, 0) for one in known if one.kept.state == "expected"]
    first = max([column.skipped, *expected])
    # Only the ids stay: thousands of series may be looked at together.
    ids = np.array(column.ids, dtype=np.int64)
    report = shifted(_detect(name, stand, column, first), first)
    return _CheckedSeries(name, stand, ids, column.skipped, first, report, known)


def _stored_finding(kept: StoredFinding, places: dict[int, int]) -> _StoredFinding:
    document = from_json(FindingDocument, kept.document, source=f"finding {kept.id}")
    return _StoredFinding(kept, document, places.get(kept.first_bad, -1))


def _detect(name: str, stand: LastCheck, column: PointColumns, first: int) -> SeriesReport:
    begin = first - column.skipped
    values = np.array([np.nan if one is None else one for one in column.values[begin:]], dtype=np.float64)
    errors = column.errors[begin:]
    known = any(one is not None for one in errors)
    spreads = np.array([np.nan if one is None else one for one in errors], dtype=np.float64) if known else None
    return detect(Series(values, stand.better, spreads, name=name))


def _new_id(checked: _CheckedSeries, finding: Finding, used: set[str]) -> str:
    """A name for a finding: the same change of the same series gets the same one wherever it is found first."""
    number = 0
    while True:
        way = "up" if finding.difference > 0 else "down"
        name = content_hash([checked.id, checked.point(finding.first_bad), way, number])[:16]
        if name not in used:
            return name
        number += 1


def _vanished(checked: _CheckedSeries, known: dict[str, _StoredFinding], matched: set[str]) -> Iterator[_StoredFinding]:
    """Open findings that are no longer found, although they could be."""
    margin = 0 if not checked.first else _MARGIN_OF_LONG if checked.first == checked.skipped else _MARGIN
    for name, one in known.items():
        near_the_edge = one.place < checked.first + margin
        if name not in matched and one.kept.state == "open" and not near_the_edge:
            yield one
