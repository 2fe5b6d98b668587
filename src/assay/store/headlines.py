"""The few rows that headlines need, for many benchmarks at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, func, select, tuple_

from assay.store.database import reading
from assay.store.json_text import json_part
from assay.store.series_records import SeriesRecord
from assay.store.series_rows import series_record
from assay.store.tables import CampaignRow, JobRow
from assay.store.watch_tables import PointRow, SeriesRow


@dataclass(frozen=True, slots=True)
class SeriesName:
    """A metric that a benchmark has series of."""

    benchmark: str
    metric: str
    checked: int
    """Points that the last check of its longest series has seen."""


@dataclass(frozen=True, slots=True)
class Newest:
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

    def newest(self, series: Sequence[str], limit: int) -> dict[str, tuple[Newest, ...]]:
        """The newest points of each series, the oldest of them first."""
        columns = (PointRow.at, PointRow.value, PointRow.standard_error, PointRow.verdict, PointRow.job_id)
        order = (PointRow.at.desc(), PointRow.id.desc())
        found: dict[str, tuple[Newest, ...]] = {}
        with reading(self._engine) as session:
            for name in series:  # one by one: each reads so many entries of an index, however long the series is
                query = select(*columns).where(PointRow.series_id == name).order_by(*order).limit(limit)
                found[name] = tuple(Newest(*row) for row in session.execute(query))[::-1]
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
