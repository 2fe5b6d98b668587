"""The series of a store together with what is concluded from them: points in, findings with their reasons out.

The store keeps rows and knows no statistics; analysis knows no store. Here they meet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from assay.analyse.headline import readings
from assay.analyse.records import MultiRunJobResult
from assay.analyse.series import Finding
from assay.analyse.series.causes import CauseAnalysis
from assay.analyse.series.identity import context, identity, machine_kind
from assay.clock import SYSTEM_CLOCK, Clock
from assay.documents import from_json
from assay.errors import UsageError
from assay.series.check import FindingDocument, SeriesCheck
from assay.store.findings import FindingRows
from assay.store.listing import Page
from assay.store.series import FindingState, NewPoint, Point, SeriesFilter, SeriesRecord, SeriesRows, StoredFinding
from assay.store.series_file import FilePoint
from assay.store.store import Store

# Series are read and kept in portions of this many.
_PORTION = 200
# A check begins again at most so often, when another process checks the same series at the same moment.
_ROUNDS = 8
LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class KnownFinding:
    """A change that was found in a series, why it came, and what became of it."""

    id: str
    series: SeriesRecord
    finding: Finding
    triage: CauseAnalysis
    state: FindingState
    """`open`; `expected`: the series is judged anew from there; `gone`: with more points it is none any more."""
    last_good: Point
    first_bad: Point
    found_at: float


@dataclass(frozen=True, slots=True)
class ImportCounts:
    """What became of imported points."""

    series: tuple[str, ...]
    added: int
    known: int
    """Points that were there already."""


class SeriesStore:
    """Series, points and findings of one store."""

    def __init__(self, store: Store, clock: Clock = SYSTEM_CLOCK) -> None:
        self._rows = SeriesRows(store.engine)
        self._findings = FindingRows(store.engine)
        self._clock = clock

    # Points

    def add(
        self,
        result: MultiRunJobResult,
        benchmark: str,
        labels: Mapping[str, str],
        at: float,
        named: Iterable[str] = (),
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
        known = self._rows.existing(possible)
        found = {
            series_id(one.metric): one
            for one in readings(result, named, [possible[name] for name in sorted(known)])
            if len(one.metric) <= LONGEST_NAME
        }
        new = [
            SeriesRecord(name, benchmark, one.metric, one.unit, one.better, result.point, labels, kind)
            for name, one in found.items()
            if name not in known
        ]
        verdict, around = result.verdict or "" if result.state == "done" else "failed", context(result)
        points = [
            NewPoint(name, at, one.value, one.standard_error, verdict, result.job, around)
            for name, one in found.items()
        ]
        self._rows.add(new, points)
        return tuple(found)

    def take(self, points: Sequence[FilePoint]) -> ImportCounts:
        """Keep points of a file; those that are there already stay as they are."""
        by_series: dict[str, list[FilePoint]] = {}
        for point in points:
            by_series.setdefault(point.series, []).append(point)
        records = {name: _imported(name, mine) for name, mine in by_series.items()}
        names, added = list(by_series), 0
        for begin in range(0, len(names), _PORTION):
            part = names[begin : begin + _PORTION]
            new = [
                NewPoint(records[name].id, one.at, one.value, context=one.context)
                for name in part
                for one in by_series[name]
            ]
            added += self._rows.take([records[name] for name in part], new)
        return ImportCounts(tuple(records[name].id for name in names), added, len(points) - added)

    def points(self, series_id: str, newest: int | None = None) -> tuple[Point, ...]:
        """The points of a series, oldest first; only the newest so many of them, if a number is given."""
        return self._rows.points(series_id, newest)

    def points_page(self, series_id: str, cursor: str | None = None, limit: int = 500) -> Page[Point]:
        """The points of a series, oldest first, a page at a time."""
        return self._rows.points_page(series_id, cursor, limit)

    # Series

    def list(
        self, benchmark: str = "", metric: str = "", text: str = "", origin: str = "", limit: int = 1000
    ) -> tuple[SeriesRecord, ...]:
        """Series by benchmark and metric, at most so many."""
        return self._rows.page(SeriesFilter(benchmark, metric, text, origin), None, limit).items

    def page(self, which: SeriesFilter, cursor: str | None = None, limit: int = 50) -> Page[SeriesRecord]:
        """Series by benchmark and metric, a page at a time."""
        return self._rows.page(which, cursor, limit)

    def get(self, reference: str) -> SeriesRecord:
        """One series, by its id or a unique beginning of it.

        Raises:
            UsageError: `unknown-series` if there is none, `ambiguous` if there are several.
        """
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
        found = self._findings.by_id(tuple(changed))
        return self._known([found[name] for name in changed if name in found])

    def findings(
        self, *, series: str = "", benchmark: str = "", state: str = "", since: float | None = None, limit: int = 1000
    ) -> tuple[KnownFinding, ...]:
        """Findings, the newest first, at most so many.

        Args:
            since: only those found at this moment or later, in seconds since 1970.
        """
        page = self._findings.page(series=series, benchmark=benchmark, state=state, since=since, limit=limit)
        return self._known(page.items)

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
        """One finding, by its id or a unique beginning of it.

        Raises:
            UsageError: `unknown-finding` if there is none, `ambiguous` if there are several.
        """
        return self._known([self._findings.get(reference)])[0]

    def expect(self, finding_id: str) -> KnownFinding:
        """Take a change as meant: from there on the series is judged again.

        Raises:
            UsageError: `unknown-finding` if there is none, `lifecycle` if it is gone.
        """
        kept = self._findings.get(finding_id)
        if kept.state == "gone":
            raise UsageError(f"finding {kept.id} is gone: with more points it is no change any more", code="lifecycle")
        if kept.state == "open":
            self._findings.mark(kept.id, "expected")
            self.check([kept.series])
        return self.finding(kept.id)

    def _check(self, series: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Check once: the findings that changed, and the series to check again."""
        check = SeriesCheck(self._rows, self._findings, self._clock.utc().timestamp())
        for begin in range(0, len(series), _PORTION):
            check.add(series[begin : begin + _PORTION])
        again: tuple[str, ...] = ()
        changed: tuple[str, ...] = ()
        for portion in check.outcomes(_PORTION):
            left = self._findings.keep([one.check for one in portion])
            again += left
            changed += tuple(name for one in portion if one.check.series not in left for name in one.news)
        return changed, again

    def _known(self, kept: Sequence[StoredFinding]) -> tuple[KnownFinding, ...]:
        series = self._rows.records(one.series for one in kept)
        points = self._rows.points_by_id(number for one in kept for number in (one.last_good, one.first_bad))
        return tuple(
            _known(one, series[one.series], points[one.last_good], points[one.first_bad])
            for one in kept
            if one.last_good in points and one.first_bad in points
        )


def _known(kept: StoredFinding, series: SeriesRecord, last_good: Point, first_bad: Point) -> KnownFinding:
    read = from_json(FindingDocument, kept.document, source=f"finding {kept.id}")
    return KnownFinding(kept.id, series, read.finding, read.triage, kept.state, last_good, first_bad, kept.found_at)


def _imported(name: str, points: Sequence[FilePoint]) -> SeriesRecord:
    """The series of a name in a file; unit and direction are those of its last line that tells them."""
    unit = next((one.unit for one in reversed(points) if one.unit), "")
    better = next((one.better for one in reversed(points) if one.better), None)
    return SeriesRecord(identity(name, {}, {}, {}, "value", {}), name, "value", unit, better, origin="import")
