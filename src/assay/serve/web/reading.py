"""Results as the API shows them: read from the store, summed up for lists, compared across configurations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue
from sqlalchemy import func, select

from assay.analyse.answer import reasons_of
from assay.analyse.compare import compare_metric
from assay.analyse.compare.comparability import doubted, machine_moved, unusable
from assay.analyse.headline import centre_of
from assay.analyse.records import Answer, Interval, MetricStatistics, MultiRunJobResult
from assay.documents import from_json
from assay.errors import UsageError
from assay.metrics import Better
from assay.plan.job import content_hash
from assay.report.result import read_job
from assay.report.wording import headline_of, job_label, machine_name
from assay.serve.state import ServerStore
from assay.store.database import reading
from assay.store.listing import JobFilter, every
from assay.store.records import JobDetail, JobSummary, StoredResult
from assay.store.tables import EventRow
from assay.version import __version__

# A matrix of more jobs is too large to look at.
LARGEST_MATRIX = 2000


@dataclass(frozen=True, slots=True)
class MetricView:
    """One metric of one job, with its doubt."""

    unit: str
    better: Better | None
    median: float
    """Of the samples; of a score their mean, which its interval is about."""
    interval: Interval | None
    """From the spread between runs; null for one run."""
    p99: float | None
    runs: int
    samples: int

    @classmethod
    def of(cls, stats: MetricStatistics, name: str) -> MetricView:
        centre = centre_of(stats, name)
        return cls(stats.unit, stats.better, centre, stats.interval, stats.p99, stats.runs, stats.count)


@dataclass(frozen=True, slots=True)
class ResultView:
    """The result of one job in one line."""

    job: str
    campaign: str
    benchmark: str
    index: int
    label: str
    state: str
    verdict: str | None
    machine: str
    """Name of the machine that measured it."""
    agent: str | None
    ended_at: float | None
    point: Mapping[str, JsonValue]
    metrics: Mapping[str, MetricView]
    """Those that answer the job's question."""
    doubts: tuple[str, ...]
    """One sentence per failed check and missed objective, the main reason of the verdict first."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One configuration of a comparison."""

    row: str
    column: str
    job: str
    campaign: str
    state: str
    verdict: str | None
    metric: MetricView | None
    """Null where it was not measured."""
    change: Interval | None
    """Relative, against the base."""
    answer: Answer | Literal["base"]
    because: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ComparisonMatrix:
    """One metric across configurations, every cell against the first."""

    metric: str
    rows: str
    """What the rows stand for."""
    columns: str
    row_values: tuple[str, ...]
    column_values: tuple[str, ...]
    base: str | None
    """Job that the others are compared with."""
    axes: tuple[str, ...]
    """What could be rows or columns."""
    metrics: tuple[str, ...]
    """What could be compared."""
    cells: tuple[Cell, ...]


def job_result(kept: ServerStore, detail: JobDetail) -> MultiRunJobResult:
    """A job's result, or what is known of it."""
    return read_job(detail.stored, kept.store.runs)


def result_tag(kept: ServerStore, campaign: str) -> str:
    """A tag that changes whenever the results of a campaign may have: everything that changes them is an event."""
    state = kept.listing.campaign(campaign)
    with reading(kept.store.engine) as session:
        newest = session.scalar(select(func.max(EventRow.id)).where(EventRow.campaign_id == campaign))
    return f'"{content_hash([__version__, campaign, newest, state.state, dict(state.counts)])[:32]}"'


def result_view(stored: StoredResult) -> ResultView:
    job, result = stored.job, from_json(MultiRunJobResult, stored.result, source=stored.job.id)
    names = headline_of(result) if result.state == "done" else ()
    return ResultView(
        job=job.id,
        campaign=job.campaign,
        benchmark=job.benchmark,
        index=job.index,
        label=job.label,
        state=job.state,
        verdict=job.verdict,
        machine=machine_name(result),
        agent=job.agent,
        ended_at=job.ended_at,
        point=result.point,
        metrics={name: MetricView.of(result.metrics[name], name) for name in names},
        doubts=tuple(reason.check.detail for reason in reasons_of(result) if reason.check.passed is False),
    )


def comparison(kept: ServerStore, campaigns: Iterable[str], metric: str, rows: str, columns: str) -> ComparisonMatrix:
    """One metric of the jobs of some campaigns, laid out by two properties of the jobs."""
    pairs = _results(kept, campaigns)
    points = dict.fromkeys(path for _, result in pairs for path in result.point)
    axes = (*points, "job", "machine", "campaign", "benchmark")
    names = tuple(dict.fromkeys(name for _, result in pairs for name in result.metrics))
    chosen = metric or next((name for _, result in pairs for name in headline_of(result)), "")
    row = rows or axes[0]
    column = columns or next((axis for axis in axes if axis != row), axes[0])
    for axis in (row, column):
        if axis not in axes:
            raise UsageError(f"{axis!r} is no property of these jobs", code="axis", try_=f"use {', '.join(axes)}")
    base = next((pair for pair in pairs if pair[1].state == "done" and chosen in pair[1].metrics), None)
    cells = tuple(_cell(job, result, chosen, (row, column), base) for job, result in pairs)
    return ComparisonMatrix(
        metric=chosen,
        rows=row,
        columns=column,
        row_values=tuple(dict.fromkeys(cell.row for cell in cells)),
        column_values=tuple(dict.fromkeys(cell.column for cell in cells)),
        base=base[0].id if base else None,
        axes=axes,
        metrics=names,
        cells=cells,
    )


Pair = tuple[JobSummary, MultiRunJobResult]


def _results(kept: ServerStore, campaigns: Iterable[str]) -> list[Pair]:
    pairs: list[Pair] = []
    for campaign in dict.fromkeys(campaigns):
        kept.listing.campaign(campaign)
        for stored in _stored(kept, JobFilter(campaign=campaign)):
            pairs.append((stored.job, from_json(MultiRunJobResult, stored.result, source=stored.job.id)))
            if len(pairs) > LARGEST_MATRIX:
                raise UsageError(
                    f"more than {LARGEST_MATRIX} jobs are too many to compare in one request",
                    code="too-many",
                    try_="compare fewer campaigns",
                )
    return pairs


def _stored(kept: ServerStore, which: JobFilter) -> Iterator[StoredResult]:
    return every(lambda cursor, size: kept.listing.results(which, cursor=cursor, limit=size))


def _value(job: JobSummary, result: MultiRunJobResult, axis: str) -> str:
    if axis == "machine":
        return machine_name(result) or (job.agent_name or "unknown")
    if axis in ("job", "campaign", "benchmark"):
        return {"job": job.label or job.id, "campaign": job.campaign, "benchmark": job.benchmark}[axis]
    value = result.point.get(axis)
    return "" if value is None else job_label({axis: value}, {}).partition("=")[2] or str(value)


def _cell(job: JobSummary, result: MultiRunJobResult, metric: str, axes: tuple[str, str], base: Pair | None) -> Cell:
    stats = result.metrics.get(metric) if result.state == "done" else None
    change, answer, because = _judged(result, stats, metric, base)
    return Cell(
        row=_value(job, result, axes[0]),
        column=_value(job, result, axes[1]),
        job=job.id,
        campaign=job.campaign,
        state=job.state,
        verdict=job.verdict,
        metric=MetricView.of(stats, metric) if stats else None,
        change=change,
        answer=answer,
        because=because,
    )


def _judged(
    result: MultiRunJobResult, stats: MetricStatistics | None, metric: str, base: Pair | None
) -> tuple[Interval | None, Answer | Literal["base"], tuple[str, ...]]:
    if base is None or stats is None:
        return None, "cannot tell", (f"{metric or 'nothing'} was not measured",)
    if base[1] is result:
        return None, "base", ()
    reasons = unusable(base[1], result)
    moved = machine_moved((base[1],), (result,), anyway=True)
    compared = doubted(compare_metric(metric, base[1].metrics[metric], stats), moved)
    if reasons:
        return compared.change, "cannot tell", reasons
    return compared.change, compared.answer, compared.because
