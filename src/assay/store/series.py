"""Series, their points and the findings in them: what is watched over time, and its rows in the database."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, cast

from pydantic import JsonValue
from sqlalchemy import ColumnElement, Row, Select, String, func, insert, or_, select
from sqlalchemy import cast as sql_cast
from sqlalchemy.orm import Session

from assay.errors import UsageError
from assay.metrics import Better
from assay.store.database import TableAccess, insert_into, parts_of, record_from
from assay.store.listing import Page, find_by_beginning, read_page
from assay.store.tables import FindingRow, PointRow, SeriesRow

FindingState = Literal["open", "expected", "gone"]
Origin = Literal["results", "import"]
_SHOWN: tuple[Any, ...] = (PointRow.series_id, PointRow.id, PointRow.value, PointRow.standard_error, PointRow.verdict)


@dataclass(frozen=True, slots=True)
class SeriesRecord:
    """One metric of one job definition on one kind of machine."""

    id: str
    benchmark: str
    metric: str
    unit: str
    better: Better | None
    point: Mapping[str, JsonValue] = field(default_factory=dict)
    """Of the matrix."""
    labels: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, JsonValue] = field(default_factory=dict)
    """The kind of machine."""
    origin: Origin = "results"
    checked: int = 0
    """Points that the last check has seen."""
    report: Mapping[str, JsonValue] = field(default_factory=dict)
    """What the last check said: kind, spread, memory, outliers, times of noise, findings."""
    points: int = 0
    """How many there are."""
    newest: float | None = None
    """When the newest one was measured, in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Point:
    """One result in a series, and what was around it."""

    id: int
    at: float
    """Seconds since 1970."""
    value: float | None
    """None where the job failed, or did not give this metric."""
    standard_error: float | None = None
    verdict: str = ""
    """Of the result; `failed` for a job that was not measured, empty for what was imported."""
    job: str | None = None
    context: Mapping[str, JsonValue] = field(default_factory=dict)
    """Commit, model, image, driver, packages, kernel, machine, settings, control workload …"""

    @property
    def counts(self) -> bool:
        """Whether its value is part of what is concluded: a result that is invalid is kept, and not believed."""
        return self.value is not None and self.verdict != "invalid"


@dataclass(frozen=True, slots=True)
class NewPoint:
    """A point that is to be kept."""

    series: str
    at: float
    value: float | None
    standard_error: float | None = None
    verdict: str = ""
    job: str | None = None
    context: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredFinding:
    """A finding as the store keeps it."""

    id: str
    series: str
    last_good: int
    """Id of a point."""
    first_bad: int
    found_at: float
    state: FindingState
    document: str
    """The finding and its triage, as JSON."""


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """What a check concluded about one series, and what it had found there."""

    series: str
    before: tuple[int, str]
    """Number of points and report of the check before: another one since then makes this one void."""
    checked: int
    report: str
    findings: tuple[StoredFinding, ...]
    """New ones, and those that changed."""


@dataclass(frozen=True, slots=True)
class SeriesFilter:
    """Which series to list; what is empty does not count."""

    benchmark: str = ""
    metric: str = ""
    text: str = ""
    """Part of the id, the benchmark's name, the metric, the point or a label."""
    origin: str = ""


@dataclass(frozen=True, slots=True)
class PointColumns:
    """The points of a series in columns, oldest first."""

    skipped: int
    """Older points that are left out."""
    ids: tuple[int, ...]
    values: tuple[float | None, ...]
    """None where a point does not count."""
    errors: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class LastCheck:
    """What the last check of a series left."""

    checked: int
    """Points that it has seen."""
    report: str
    better: Better | None
    findings: tuple[StoredFinding, ...]


class SeriesRows(TableAccess):
    # Writing

    def add(self, series: Sequence[SeriesRecord], points: Sequence[NewPoint]) -> None:
        """Keep points of results, and the series that are new; a job has one point in a series: its last result."""
        with self._writing() as session:
            _ensure(session, series)
            if points:
                add = insert_into(session, PointRow)
                new = {name: add.excluded[name] for name in ("at", "value", "standard_error", "verdict", "context")}
                add = add.on_conflict_do_update(index_elements=["series_id", "job_id"], set_=new)
                session.execute(add, [_values(point) for point in points])

    def take(self, series: Sequence[SeriesRecord], points: Sequence[NewPoint]) -> int:
        """Keep imported points, and the series that are new; return how many points were not there yet.

        The same point (series, time and value) is taken as often as it is given, and no oftener however often the same
        file is imported.
        """
        ids = [record.id for record in series]
        with self._writing() as session:
            _ensure(session, series)
            # A concurrent import into the same series waits here, and then sees what was added.
            rows = select(SeriesRow).where(SeriesRow.id.in_(ids)).order_by(SeriesRow.id).with_for_update()
            by_id = {record.id: record for record in series}
            for row in session.scalars(rows).all():
                row.unit, row.better = by_id[row.id].unit[:40] or row.unit, by_id[row.id].better or row.better
            point_query = select(PointRow.series_id, PointRow.at, PointRow.value)
            there = Counter(tuple(row) for row in session.execute(point_query.where(PointRow.series_id.in_(ids))))
            new = []
            for point in points:
                key = (point.series, point.at, point.value)
                if there[key] > 0:
                    there[key] -= 1
                else:
                    new.append(_values(point))
            if new:
                session.execute(insert(PointRow), new)
        return len(new)

    # Reading

    def metrics_of(self, benchmark: str) -> tuple[str, ...]:
        query = select(SeriesRow.metric).where(SeriesRow.benchmark == benchmark).distinct()
        return tuple(self._scalars(query.order_by(SeriesRow.metric)))

    def existing(self, ids: Iterable[str]) -> set[str]:
        return set(self._scalars(select(SeriesRow.id).where(SeriesRow.id.in_(tuple(ids)))))

    def ids(self, which: SeriesFilter | None = None) -> tuple[str, ...]:
        query = select(SeriesRow.id).where(*_like(which or SeriesFilter()))
        return tuple(self._scalars(query.order_by(SeriesRow.id)))

    def page(self, which: SeriesFilter, cursor: str | None, limit: int) -> Page[SeriesRecord]:
        order = (SeriesRow.benchmark, SeriesRow.metric, SeriesRow.id)
        with self._reading() as session:
            page = read_page(session, select(SeriesRow).where(*_like(which)), order, cursor, limit)
            counts = _counts(session, [row.id for row in page.items])
        return page.map(lambda row: series_record(row, counts.get(row.id)))

    def find(self, reference: str) -> SeriesRecord:
        unknown = UsageError(
            f"no series {reference!r} is there", code="unknown-series", try_="`assay series list` shows what is there"
        )
        with self._reading() as session:
            row = find_by_beginning(session, SeriesRow, reference, "series", unknown)
            return series_record(row, _counts(session, [row.id]).get(row.id))

    def records(self, ids: Iterable[str]) -> dict[str, SeriesRecord]:
        records: dict[str, SeriesRecord] = {}
        with self._reading() as session:
            for part in parts_of(tuple(dict.fromkeys(ids))):
                counts = _counts(session, part)
                for row in session.scalars(select(SeriesRow).where(SeriesRow.id.in_(part))):
                    records[row.id] = series_record(row, counts.get(row.id))
        return records

    def points(self, series: str, newest: int | None = None) -> tuple[Point, ...]:
        query = select(PointRow).where(PointRow.series_id == series)
        if newest is None:
            return tuple(map(_point, self._scalars(query.order_by(PointRow.at, PointRow.id))))
        query = query.order_by(PointRow.at.desc(), PointRow.id.desc()).limit(newest)
        return tuple(map(_point, self._scalars(query)))[::-1]

    def points_page(self, series: str, cursor: str | None, limit: int) -> Page[Point]:
        query = select(PointRow).where(PointRow.series_id == series)
        with self._reading() as session:
            return read_page(session, query, (PointRow.at, PointRow.id), cursor, limit).map(_point)

    def points_by_id(self, ids: Iterable[int]) -> dict[int, Point]:
        points: dict[int, Point] = {}
        with self._reading() as session:
            for part in parts_of(tuple(dict.fromkeys(ids))):
                rows = session.scalars(select(PointRow).where(PointRow.id.in_(part)))
                points |= {row.id: _point(row) for row in rows}
        return points

    def contexts(self, ids: Sequence[int]) -> dict[int, dict[str, Any]]:
        return dict(self._rows(select(PointRow.id, PointRow.context).where(PointRow.id.in_(tuple(ids)))))

    def columns(self, series: Sequence[str], longest: int) -> dict[str, PointColumns]:
        """The points of many series in columns, without what was around them."""
        columns: dict[str, PointColumns] = {}
        with self._reading() as session:
            for part in parts_of(series):
                counts = {name: count for name, (count, _) in _counts(session, part).items()}
                columns |= _columns(session, [name for name in part if counts.get(name, 0) <= longest])
                for name in part:
                    if counts.get(name, 0) > longest:
                        columns[name] = _newest(session, name, longest, counts[name])
        return columns


def series_record(row: SeriesRow, counted: tuple[int, float] | None = None) -> SeriesRecord:
    points, newest = counted or (0, None)
    report = json.loads(row.report) if row.report else {}
    return record_from(SeriesRecord, row, report=report, points=points, newest=newest)


def _ensure(session: Session, series: Sequence[SeriesRecord]) -> None:
    """Create the series that do not exist yet; always in the same order, against deadlocks."""
    rows = [
        {
            "id": record.id,
            "benchmark": record.benchmark[:200],
            "metric": record.metric,
            "unit": record.unit[:40],
            "better": record.better,
            "point": dict(record.point),
            "labels": dict(record.labels),
            "machine": dict(record.machine),
            "origin": record.origin,
            "checked": 0,
            "report": "",
        }
        for record in sorted(series, key=lambda record: record.id)
    ]
    if rows:
        session.execute(insert_into(session, SeriesRow).on_conflict_do_nothing(index_elements=["id"]), rows)


def _values(point: NewPoint) -> dict[str, Any]:
    same = {name: getattr(point, name) for name in ("at", "value", "standard_error", "verdict")}
    return {"series_id": point.series, "job_id": point.job, "context": dict(point.context), **same}


def _point(row: PointRow) -> Point:
    return record_from(Point, row, job=row.job_id)


def _counts(session: Session, series: Sequence[str]) -> dict[str, tuple[int, float]]:
    """Series → how many points it has, and when the newest was measured."""
    query = select(PointRow.series_id, func.count(), func.max(PointRow.at)).where(PointRow.series_id.in_(series))
    return {name: (count, newest) for name, count, newest in session.execute(query.group_by(PointRow.series_id))}


def _columns(session: Session, series: Sequence[str]) -> dict[str, PointColumns]:
    query: Select[Any] = select(*_SHOWN).where(PointRow.series_id.in_(series))
    query = query.order_by(PointRow.series_id, PointRow.at, PointRow.id)
    rows: dict[str, list[Row[Any]]] = {series_id: [] for series_id in series}
    for row in session.execute(query):
        rows[row.series_id].append(row)
    return {series_id: _column(own_rows, 0) for series_id, own_rows in rows.items()}


def _newest(session: Session, series: str, longest: int, count: int) -> PointColumns:
    query: Select[Any] = select(*_SHOWN).where(PointRow.series_id == series)
    rows = session.execute(query.order_by(PointRow.at.desc(), PointRow.id.desc()).limit(longest)).all()
    return _column(rows[::-1], count - len(rows))


def _column(rows: Sequence[Row[Any]], skipped: int) -> PointColumns:
    return PointColumns(
        skipped,
        tuple(row.id for row in rows),
        tuple(None if row.verdict == "invalid" else row.value for row in rows),
        tuple(row.standard_error for row in rows),
    )


def _like(which: SeriesFilter) -> list[ColumnElement[bool]]:
    equal = ((SeriesRow.benchmark, which.benchmark), (SeriesRow.metric, which.metric), (SeriesRow.origin, which.origin))
    conditions: list[ColumnElement[bool]] = [column == value for column, value in equal if value]
    if which.text:
        written = (sql_cast(column, String) for column in (SeriesRow.point, SeriesRow.labels))
        parts = (SeriesRow.benchmark, SeriesRow.metric, *written)
        begins = SeriesRow.id.startswith(which.text, autoescape=True)
        conditions.append(or_(begins, *(part.icontains(which.text, autoescape=True) for part in parts)))
    return conditions


class FindingRows(TableAccess):
    def before(self, series: Sequence[str]) -> dict[str, LastCheck]:
        checks: dict[str, LastCheck] = {}
        columns = (SeriesRow.id, SeriesRow.checked, SeriesRow.report, SeriesRow.better)
        with self._reading() as session:
            for part in parts_of(series):
                findings: dict[str, list[StoredFinding]] = {}
                for row in session.scalars(select(FindingRow).where(FindingRow.series_id.in_(part))):
                    findings.setdefault(row.series_id, []).append(_kept(row))
                for name, checked, report, better in session.execute(select(*columns).where(SeriesRow.id.in_(part))):
                    checks[name] = LastCheck(checked, report, cast("Any", better), tuple(findings.get(name, ())))
        return checks

    def keep(self, checks: Sequence[CheckOutcome]) -> tuple[str, ...]:
        """Keep what checks concluded.

        Returns:
            The series that another process has checked meanwhile: nothing of this check was kept for them.
        """
        again: list[str] = []
        by_series = {series_check.series: series_check for series_check in checks}
        query = select(SeriesRow).where(SeriesRow.id.in_(tuple(by_series))).order_by(SeriesRow.id).with_for_update()
        with self._writing() as session:
            for row in session.scalars(query).all():
                check = by_series[row.id]
                if (row.checked, row.report) != check.before:
                    again.append(row.id)
                    continue
                row.checked, row.report = check.checked, check.report
                for finding in check.findings:
                    values = asdict(finding)
                    session.merge(FindingRow(series_id=values.pop("series"), **values))
        return tuple(again)

    def get(self, reference: str) -> StoredFinding:
        unknown = UsageError(
            f"no finding {reference!r} is there", code="unknown-finding", try_="`assay series findings` lists them"
        )
        with self._reading() as session:
            return _kept(find_by_beginning(session, FindingRow, reference, "findings", unknown))

    def by_id(self, ids: Sequence[str]) -> dict[str, StoredFinding]:
        findings: dict[str, StoredFinding] = {}
        for part in parts_of(ids):
            rows = self._scalars(select(FindingRow).where(FindingRow.id.in_(part)))
            findings |= {row.id: _kept(row) for row in rows}
        return findings

    def page(
        self,
        *,
        series: str = "",
        benchmark: str = "",
        state: str = "",
        since: float | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page[StoredFinding]:
        conditions: list[ColumnElement[bool]] = []
        conditions += [FindingRow.series_id == series] if series else []
        conditions += [FindingRow.state == state] if state else []
        conditions += [FindingRow.found_at >= since] if since is not None else []
        if benchmark:
            conditions.append(FindingRow.series_id.in_(select(SeriesRow.id).where(SeriesRow.benchmark == benchmark)))
        query, order = select(FindingRow).where(*conditions), (FindingRow.found_at, FindingRow.id)
        with self._reading() as session:
            return read_page(session, query, order, cursor, limit, newest_first=True).map(_kept)

    def mark(self, finding: str, state: FindingState) -> None:
        """Put a finding into another state; a concurrent check of its series starts over."""
        with self._writing() as session:
            row = session.get_one(FindingRow, finding)
            session.get_one(SeriesRow, row.series_id, with_for_update=True).checked = 0
            row.state = state


def _kept(row: FindingRow) -> StoredFinding:
    return record_from(StoredFinding, row, series=row.series_id)
