"""Series and their points: records of what is watched over time, and their rows in the database."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from pydantic import JsonValue
from sqlalchemy import ColumnElement, Engine, Row, Select, String, func, insert, or_, select, tuple_
from sqlalchemy import cast as sql_cast
from sqlalchemy.orm import Session

from assay.errors import UsageError
from assay.metrics import Better
from assay.store.database import insert_into, reading, writing
from assay.store.listing import Page, bounded, from_cursor, page_of
from assay.store.tables import PointRow, SeriesRow

FindingState = Literal["open", "expected", "gone"]
Origin = Literal["results", "import"]
# Databases take only so many values in one question.
_AT_ONCE = 500
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


class SeriesRows:
    """Series and points of one database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    # Writing

    def add(self, series: Sequence[SeriesRecord], points: Sequence[NewPoint]) -> None:
        """Keep points of results, and the series that are new; a job has one point in a series: its last result."""
        with writing(self._engine) as session:
            _ensure(session, series)
            if points:
                add = insert_into(session, PointRow)
                new = {name: add.excluded[name] for name in ("at", "value", "standard_error", "verdict", "context")}
                add = add.on_conflict_do_update(index_elements=["series_id", "job_id"], set_=new)
                session.execute(add, [_values(one) for one in points])

    def take(self, series: Sequence[SeriesRecord], points: Sequence[NewPoint]) -> int:
        """Keep imported points, and the series that are new; return how many points were not there yet.

        The same point (series, time and value) is taken as often as it is given, and no oftener however often the same
        file is imported.
        """
        ids = [one.id for one in series]
        with writing(self._engine) as session:
            _ensure(session, series)
            # Whoever imports into the same series waits here, and then sees what was added.
            rows = select(SeriesRow).where(SeriesRow.id.in_(ids)).order_by(SeriesRow.id).with_for_update()
            given = {one.id: one for one in series}
            for row in session.scalars(rows).all():
                row.unit, row.better = given[row.id].unit[:40] or row.unit, given[row.id].better or row.better
            known = select(PointRow.series_id, PointRow.at, PointRow.value)
            there = Counter(tuple(row) for row in session.execute(known.where(PointRow.series_id.in_(ids))))
            new = []
            for one in points:
                key = (one.series, one.at, one.value)
                if there[key] > 0:
                    there[key] -= 1
                else:
                    new.append(_values(one))
            if new:
                session.execute(insert(PointRow), new)
        return len(new)

    # Reading

    def metrics_of(self, benchmark: str) -> tuple[str, ...]:
        query = select(SeriesRow.metric).where(SeriesRow.benchmark == benchmark).distinct().order_by(SeriesRow.metric)
        with reading(self._engine) as session:
            return tuple(session.scalars(query))

    def existing(self, ids: Iterable[str]) -> set[str]:
        with reading(self._engine) as session:
            return set(session.scalars(select(SeriesRow.id).where(SeriesRow.id.in_(tuple(ids)))))

    def ids(self, which: SeriesFilter | None = None) -> tuple[str, ...]:
        query = select(SeriesRow.id).where(*_like(which or SeriesFilter())).order_by(SeriesRow.id)
        with reading(self._engine) as session:
            return tuple(session.scalars(query))

    def page(self, which: SeriesFilter, cursor: str | None, limit: int) -> Page[SeriesRecord]:
        """Series by benchmark and metric.

        Raises:
            UsageError: `cursor` if it is not one of this list.
        """
        order = (SeriesRow.benchmark, SeriesRow.metric, SeriesRow.id)
        query = select(SeriesRow).where(*_like(which)).order_by(*order).limit(bounded(limit) + 1)
        if cursor:
            query = query.where(tuple_(*order) > tuple_(*from_cursor(cursor, str, str, str)))
        with reading(self._engine) as session:
            rows = session.scalars(query).all()
            counts = _counts(session, [row.id for row in rows])
        return page_of(
            rows,
            bounded(limit),
            lambda row: (row.benchmark, row.metric, row.id),
            lambda row: series_record(row, counts.get(row.id)),
        )

    def find(self, reference: str) -> SeriesRecord:
        """One series, by its id or a unique beginning of it.

        Raises:
            UsageError: `unknown-series` if there is none, `ambiguous` if there are several.
        """
        begins = SeriesRow.id.startswith(reference, autoescape=True)
        with reading(self._engine) as session:
            rows = session.scalars(select(SeriesRow).where(begins).order_by(SeriesRow.id).limit(5)).all()
            counts = _counts(session, [row.id for row in rows])
        if not rows or not reference:
            raise UsageError(
                f"no series {reference!r} is there",
                code="unknown-series",
                try_="`assay series list` shows what is there",
            )
        if len(rows) > 1:
            raise UsageError(
                f"{reference!r} begins several series: {', '.join(row.id for row in rows)}",
                code="ambiguous",
                try_="give more of the id",
            )
        return series_record(rows[0], counts.get(rows[0].id))

    def records(self, ids: Iterable[str]) -> dict[str, SeriesRecord]:
        wanted = tuple(dict.fromkeys(ids))
        found: dict[str, SeriesRecord] = {}
        with reading(self._engine) as session:
            for begin in range(0, len(wanted), _AT_ONCE):
                part = wanted[begin : begin + _AT_ONCE]
                counts = _counts(session, part)
                for row in session.scalars(select(SeriesRow).where(SeriesRow.id.in_(part))):
                    found[row.id] = series_record(row, counts.get(row.id))
        return found

    def points(self, series: str, newest: int | None = None) -> tuple[Point, ...]:
        """The points of a series, oldest first."""
        query = select(PointRow).where(PointRow.series_id == series)
        if newest is None:
            query = query.order_by(PointRow.at, PointRow.id)
        else:
            query = query.order_by(PointRow.at.desc(), PointRow.id.desc()).limit(newest)
        with reading(self._engine) as session:
            found = tuple(map(_point, session.scalars(query)))
        return found if newest is None else found[::-1]

    def points_page(self, series: str, cursor: str | None, limit: int) -> Page[Point]:
        """The points of a series, oldest first, a page at a time.

        Raises:
            UsageError: `cursor` if it is not one of this list.
        """
        query = select(PointRow).where(PointRow.series_id == series)
        if cursor:
            query = query.where(tuple_(PointRow.at, PointRow.id) > tuple_(*from_cursor(cursor, float, int)))
        query = query.order_by(PointRow.at, PointRow.id).limit(bounded(limit) + 1)
        with reading(self._engine) as session:
            rows = session.scalars(query).all()
        return page_of(rows, bounded(limit), lambda row: (row.at, row.id), _point)

    def points_by_id(self, ids: Iterable[int]) -> dict[int, Point]:
        wanted = tuple(dict.fromkeys(ids))
        found: dict[int, Point] = {}
        with reading(self._engine) as session:
            for begin in range(0, len(wanted), _AT_ONCE):
                part = wanted[begin : begin + _AT_ONCE]
                found |= {row.id: _point(row) for row in session.scalars(select(PointRow).where(PointRow.id.in_(part)))}
        return found

    def contexts(self, ids: Sequence[int]) -> dict[int, dict[str, Any]]:
        """What was around some points, by their ids."""
        with reading(self._engine) as session:
            rows = session.execute(select(PointRow.id, PointRow.context).where(PointRow.id.in_(tuple(ids))))
            return {row.id: row.context for row in rows}

    def columns(self, series: Sequence[str], longest: int) -> dict[str, PointColumns]:
        """The points of many series in columns, without what was around them."""
        found: dict[str, PointColumns] = {}
        with reading(self._engine) as session:
            for begin in range(0, len(series), _AT_ONCE):
                part = tuple(series[begin : begin + _AT_ONCE])
                counts = {name: count for name, (count, _) in _counts(session, part).items()}
                short = [one for one in part if counts.get(one, 0) <= longest]
                found |= _columns(session, short)
                for one in part:
                    if counts.get(one, 0) > longest:
                        found[one] = _newest(session, one, longest, counts[one])
        return found


def series_record(row: SeriesRow, counted: tuple[int, float] | None = None) -> SeriesRecord:
    points, newest = counted or (0, None)
    return SeriesRecord(
        id=row.id,
        benchmark=row.benchmark,
        metric=row.metric,
        unit=row.unit,
        better=cast("Any", row.better),
        point=row.point,
        labels=row.labels,
        machine=row.machine,
        origin=cast("Any", row.origin),
        checked=row.checked,
        report=json.loads(row.report) if row.report else {},
        points=points,
        newest=newest,
    )


def _ensure(session: Session, series: Sequence[SeriesRecord]) -> None:
    """Make the series that are not there yet; always in the same order, so that nobody waits for each other."""
    rows = [
        {
            "id": one.id,
            "benchmark": one.benchmark[:200],
            "metric": one.metric,
            "unit": one.unit[:40],
            "better": one.better,
            "point": dict(one.point),
            "labels": dict(one.labels),
            "machine": dict(one.machine),
            "origin": one.origin,
            "checked": 0,
            "report": "",
        }
        for one in sorted(series, key=lambda one: one.id)
    ]
    if rows:
        session.execute(insert_into(session, SeriesRow).on_conflict_do_nothing(index_elements=["id"]), rows)


def _values(point: NewPoint) -> dict[str, Any]:
    return {
        "series_id": point.series,
        "job_id": point.job,
        "at": point.at,
        "value": point.value,
        "standard_error": point.standard_error,
        "verdict": point.verdict,
        "context": dict(point.context),
    }


def _point(row: PointRow) -> Point:
    return Point(row.id, row.at, row.value, row.standard_error, row.verdict, row.job_id, row.context)


def _counts(session: Session, series: Sequence[str]) -> dict[str, tuple[int, float]]:
    """Series → how many points it has, and when the newest was measured."""
    query = select(PointRow.series_id, func.count(), func.max(PointRow.at)).where(PointRow.series_id.in_(series))
    return {name: (count, newest) for name, count, newest in session.execute(query.group_by(PointRow.series_id))}


def _columns(session: Session, series: Sequence[str]) -> dict[str, PointColumns]:
    query: Select[Any] = select(*_SHOWN).where(PointRow.series_id.in_(series))
    query = query.order_by(PointRow.series_id, PointRow.at, PointRow.id)
    rows: dict[str, list[Row[Any]]] = {one: [] for one in series}
    for row in session.execute(query):
        rows[row.series_id].append(row)
    return {one: _column(found, 0) for one, found in rows.items()}


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
    found: list[ColumnElement[bool]] = [column == value for column, value in equal if value]
    if which.text:
        written = (sql_cast(one, String) for one in (SeriesRow.point, SeriesRow.labels))
        parts = (SeriesRow.benchmark, SeriesRow.metric, *written)
        found.append(
            or_(
                SeriesRow.id.startswith(which.text, autoescape=True),
                *(part.icontains(which.text, autoescape=True) for part in parts),
            )
        )
    return found
