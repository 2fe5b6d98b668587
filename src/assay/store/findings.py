"""Findings in the database, kept once and changed in place; and the newest points that headlines need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import ColumnElement, Engine, func, select, tuple_
from sqlalchemy.orm import Session

from assay.errors import UsageError
from assay.store.database import reading, writing
from assay.store.listing import Page, bounded, from_cursor, json_part, page_of
from assay.store.series import CheckOutcome, FindingState, LastCheck, SeriesRecord, StoredFinding, series_record
from assay.store.tables import CampaignRow, FindingRow, JobRow, PointRow, SeriesRow

_AT_ONCE = 500


class FindingRows:
    """Findings of one database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def before(self, series: Sequence[str]) -> dict[str, LastCheck]:
        """What the last check of each series left."""
        found: dict[str, LastCheck] = {}
        columns = (SeriesRow.id, SeriesRow.checked, SeriesRow.report, SeriesRow.better)
        with reading(self._engine) as session:
            for begin in range(0, len(series), _AT_ONCE):
                part = tuple(series[begin : begin + _AT_ONCE])
                kept: dict[str, list[StoredFinding]] = {}
                for row in session.scalars(select(FindingRow).where(FindingRow.series_id.in_(part))):
                    kept.setdefault(row.series_id, []).append(_kept(row))
                for name, checked, report, better in session.execute(select(*columns).where(SeriesRow.id.in_(part))):
                    found[name] = LastCheck(checked, report, cast("Any", better), tuple(kept.get(name, ())))
        return found

    def keep(self, checks: Sequence[CheckOutcome]) -> tuple[str, ...]:
        """Keep what checks concluded.

        Returns:
            The series that somebody else has checked meanwhile: nothing of theirs was kept.
        """
        again: list[str] = []
        by_series = {one.series: one for one in checks}
        query = select(SeriesRow).where(SeriesRow.id.in_(tuple(by_series))).order_by(SeriesRow.id).with_for_update()
        with writing(self._engine) as session:
            for row in session.scalars(query).all():
                check = by_series[row.id]
                if (row.checked, row.report) != check.before:
                    again.append(row.id)
                    continue
                row.checked, row.report = check.checked, check.report
                for one in check.findings:
                    _put(session, one)
        return tuple(again)

    def get(self, reference: str) -> StoredFinding:
        """One finding, by its id or a unique beginning of it.

        Raises:
            UsageError: `unknown-finding` if there is none, `ambiguous` if there are several.
        """
        begins = FindingRow.id.startswith(reference, autoescape=True)
        with reading(self._engine) as session:
            rows = session.scalars(select(FindingRow).where(begins).order_by(FindingRow.id).limit(5)).all()
        if not rows or not reference:
            raise UsageError(
                f"no finding {reference!r} is there", code="unknown-finding", try_="`assay series findings` lists them"
            )
        if len(rows) > 1:
            raise UsageError(
                f"{reference!r} begins several findings: {', '.join(row.id for row in rows)}",
                code="ambiguous",
                try_="give more of the id",
            )
        return _kept(rows[0])

    def by_id(self, ids: Sequence[str]) -> dict[str, StoredFinding]:
        found: dict[str, StoredFinding] = {}
        with reading(self._engine) as session:
            for begin in range(0, len(ids), _AT_ONCE):
                part = tuple(ids[begin : begin + _AT_ONCE])
                rows = session.scalars(select(FindingRow).where(FindingRow.id.in_(part)))
                found |= {row.id: _kept(row) for row in rows}
        return found

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
        """Findings, the newest first.

        Args:
            since: only those found at this moment or later, in seconds since 1970.

        Raises:
            UsageError: `cursor` if it is not one of this list.
        """
        conditions: list[ColumnElement[bool]] = []
        conditions += [FindingRow.series_id == series] if series else []
        conditions += [FindingRow.state == state] if state else []
        conditions += [FindingRow.found_at >= since] if since is not None else []
        if benchmark:
            conditions.append(FindingRow.series_id.in_(select(SeriesRow.id).where(SeriesRow.benchmark == benchmark)))
        if cursor:
            conditions.append(tuple_(FindingRow.found_at, FindingRow.id) < tuple_(*from_cursor(cursor, float, str)))
        order = (FindingRow.found_at.desc(), FindingRow.id.desc())
        query = select(FindingRow).where(*conditions).order_by(*order).limit(bounded(limit) + 1)
        with reading(self._engine) as session:
            rows = session.scalars(query).all()
        return page_of(rows, bounded(limit), lambda row: (row.found_at, row.id), _kept)

    def mark(self, finding: str, state: FindingState) -> None:
        """Put a finding into another state; whoever checks its series at this moment begins anew."""
        with writing(self._engine) as session:
            row = session.get_one(FindingRow, finding)
            session.get_one(SeriesRow, row.series_id, with_for_update=True).checked = 0
            row.state = state


def _put(session: Session, one: StoredFinding) -> None:
    session.merge(
        FindingRow(
            id=one.id,
            series_id=one.series,
            last_good=one.last_good,
            first_bad=one.first_bad,
            found_at=one.found_at,
            state=one.state,
            document=one.document,
        )
    )


def _kept(row: FindingRow) -> StoredFinding:
    return StoredFinding(
        row.id, row.series_id, row.last_good, row.first_bad, row.found_at, cast("FindingState", row.state), row.document
    )


@dataclass(frozen=True, slots=True)
class SeriesName:
    """A metric that a benchmark has series of."""

    benchmark: str
    metric: str
    checked: int
    """Points that the last check of its longest series has seen."""


@dataclass(frozen=True, slots=True)
class NewestPoint:
    """One of the newest points of a series."""

    at: float
    value: float | None
    standard_error: float | None
    verdict: str
    job: str | None


class HeadlineRows:
    """Reading what headlines are made of."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def names(self, benchmarks: Sequence[str]) -> tuple[SeriesName, ...]:
        query = select(SeriesRow.benchmark, SeriesRow.metric, func.max(SeriesRow.checked))
        query = query.where(SeriesRow.benchmark.in_(benchmarks)).group_by(SeriesRow.benchmark, SeriesRow.metric)
        with reading(self._engine) as session:
            return tuple(SeriesName(*row) for row in session.execute(query))

    def longest(self, metrics: Sequence[tuple[str, str]]) -> dict[str, SeriesRecord]:
        """Of the series of a metric the one that had most points when it was last checked, by benchmark."""
        longest_first = (SeriesRow.checked.desc(), SeriesRow.id)
        rank = func.row_number().over(partition_by=SeriesRow.benchmark, order_by=longest_first)
        these = tuple_(SeriesRow.benchmark, SeriesRow.metric).in_(list(metrics))
        ranked = select(SeriesRow.id, rank.label("rank")).where(these).subquery()
        first = select(ranked.c.id).where(ranked.c.rank == 1)
        with reading(self._engine) as session:
            rows = session.scalars(select(SeriesRow).where(SeriesRow.id.in_(first)))
            return {row.benchmark: series_record(row) for row in rows}

    def newest(self, series: Sequence[str], limit: int) -> dict[str, tuple[NewestPoint, ...]]:
        """The newest points of each series, the oldest of them first."""
        columns = (PointRow.at, PointRow.value, PointRow.standard_error, PointRow.verdict, PointRow.job_id)
        order = (PointRow.at.desc(), PointRow.id.desc())
        found: dict[str, tuple[NewestPoint, ...]] = {}
        with reading(self._engine) as session:
            for name in series:  # one by one: each reads so many entries of an index, however long the series is
                query = select(*columns).where(PointRow.series_id == name).order_by(*order).limit(limit)
                found[name] = tuple(NewestPoint(*row) for row in session.execute(query))[::-1]
        return found

    def newest_campaigns(self, benchmarks: Sequence[str]) -> dict[str, str]:
        last = select(CampaignRow.benchmark, func.max(CampaignRow.created_at))
        last = last.where(CampaignRow.benchmark.in_(benchmarks)).group_by(CampaignRow.benchmark)
        with reading(self._engine) as session:
            moments = [tuple(row) for row in session.execute(last)]
            these = tuple_(CampaignRow.benchmark, CampaignRow.created_at).in_(moments)
            rows = session.execute(select(CampaignRow.benchmark, CampaignRow.id).where(these).order_by(CampaignRow.id))
            return {benchmark: campaign for benchmark, campaign in rows}  # noqa: C416  (rows are no pairs to a type checker)

    def documents(self, campaigns: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The benchmark files of campaigns."""
        query = select(CampaignRow.id, CampaignRow.document).where(CampaignRow.id.in_(campaigns))
        with reading(self._engine) as session:
            return {campaign: document for campaign, document in session.execute(query)}  # noqa: C416

    def metrics(self, jobs: Iterable[str | None]) -> dict[str, str]:
        """The metrics of the results of jobs, as JSON text."""
        wanted = [one for one in jobs if one]
        query = select(JobRow.id, json_part(JobRow.result, "metrics").label("metrics"))
        query = query.where(JobRow.id.in_(wanted), JobRow.result.is_not(None))
        with reading(self._engine) as session:
            return {row.id: row.metrics or "" for row in session.execute(query)}
