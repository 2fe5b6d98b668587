"""Campaigns, jobs, agents or labels read from the store and held against the first of them, as `assay compare` does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from pydantic import JsonValue
from sqlalchemy import select

from assay.analyse.compare import (
    JobComparison,
    JobMatch,
    compare_pool,
    judged_together,
    match_jobs,
    pool,
    promise_of,
)
from assay.analyse.records import Answer, CampaignRecord, Interval, MultiRunJobResult
from assay.analyse.text import count
from assay.documents import from_json
from assay.errors import UsageError
from assay.metrics import Better
from assay.report.comparison import default_metrics, sentences
from assay.report.wording import job_label
from assay.serve.state import ServerStore
from assay.serve.web.reading import MetricView
from assay.store.database import reading
from assay.store.fleet.transactions import unknown_agent
from assay.store.listing import JobFilter
from assay.store.records import JobSummary, StoredResult
from assay.store.tables import CampaignRow, JobRow

Kind = Literal["campaign", "job", "agent", "label"]

# A side of more results is too large to look at, and slow to read.
MOST_RESULTS = 200
# The newest jobs of an agent, among which of each the newest is taken.
_MOST_RESULTS = 200
# Campaigns with a label of which the newest of each benchmark is taken.
_MOST_LABELLED = 100
MOST_ROWS = 2000
NO_JOB = "this side has no such job"


@dataclass(frozen=True, slots=True)
class ComparedSide:
    """One side of a comparison."""

    key: str
    """As it was asked for."""
    kind: Literal["campaign", "job", "agent", "label"]
    name: str
    says: str
    """What it stands for, in one sentence."""
    results: int
    """Results of jobs that it has."""
    campaigns: tuple[str, ...] = ()
    """The campaigns that they come from, the newest first."""


@dataclass(frozen=True, slots=True)
class ComparedCell:
    """One metric of one job on one side."""

    side: str
    job: str | None
    """The newest job that the figures come from; null where this side has none."""
    verdict: str | None
    metric: MetricView | None
    """Null where it was not measured."""
    change: Interval | None
    """Relative, against the first side."""
    answer: Answer | Literal["base"] | None
    """Null where there is nothing to judge."""
    because: tuple[str, ...]
    comparable: bool = True
    """False where the sides do not answer the same question; the answer is then "cannot tell"."""


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """One metric of one job, on every side."""

    benchmark: str
    label: str
    point: Mapping[str, JsonValue]
    metric: str
    unit: str
    better: Better | None
    cells: tuple[ComparedCell, ...]
    """One for each side, in their order."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Sides held against the first of them."""

    sides: tuple[ComparedSide, ...]
    rows: tuple[ComparedRow, ...]
    not_comparable: tuple[str, ...]
    """Why some must not be compared, one sentence each."""
    metrics: tuple[str, ...]
    """What could be compared; those that are shown are in the rows."""
    warnings: tuple[str, ...] = ()
    """What else differs, and which results were left out."""
    left_out: int = 0
    """Rows that would be too many."""
    promise: str = ""
    """How far answers among this many numbers may be trusted; empty for a single one."""


@dataclass(frozen=True, slots=True)
class ReadResult:
    """One result of a side."""

    summary: JobSummary
    result: MultiRunJobResult


@dataclass(frozen=True, slots=True)
class ReadSide:
    """One side with its results, of each job the newest."""

    side: ComparedSide
    results: tuple[ReadResult, ...]
    more: bool = False
    """There are results that were not read."""

    @property
    def benchmarks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(entry.summary.benchmark for entry in self.results))

    def record(self, benchmark: str | None, *, of_agents: bool = False) -> CampaignRecord:
        """Its results of one benchmark, or all of them, as one campaign.

        Args:
            of_agents: machines are compared, so that the machine that a job asked for does not distinguish jobs.
        """
        jobs = [entry.result for entry in self.results if benchmark is None or entry.summary.benchmark == benchmark]
        if of_agents:
            jobs = [replace(job, point=without_needs(job.point)) for job in jobs]
        return CampaignRecord(self.side.key, benchmark or "", "", "done", tuple(jobs))


def read_sides(kept: ServerStore, keys: Sequence[str], benchmark: str) -> tuple[ReadSide, ...]:
    if len(set(keys)) < len(keys):
        raise UsageError(
            "the same side is named twice: a result tells nothing against itself",
            code="same-result",
            try_="name another side",
        )
    return tuple(_read(kept, key, benchmark) for key in keys)


def _read(kept: ServerStore, key: str, benchmark: str) -> ReadSide:
    kind, colon, name = key.partition(":")
    read = _KINDS.get(kind)
    if read is None or not colon or not name:
        raise UsageError(
            f"{key!r} is no side of a comparison",
            code="side",
            try_="write campaign:ID, job:ID, agent:NAME or label:KEY=VALUE",
        )
    return read(kept, key, name, benchmark)


def _campaign(kept: ServerStore, key: str, name: str, benchmark: str) -> ReadSide:
    campaign = kept.listing.campaign(name)
    page = kept.listing.results(JobFilter(campaign=name), limit=MOST_RESULTS)
    fitting = page.items if benchmark in ("", campaign.benchmark) else ()
    says = f"campaign {name} of {campaign.benchmark}, made {campaign.created_at[:16].replace('T', ' ')}"
    return _side(key, "campaign", campaign.benchmark, says, fitting, more=page.next is not None)


def _job(kept: ServerStore, key: str, name: str, benchmark: str) -> ReadSide:
    detail = kept.listing.job(name)
    job = detail.summary
    stored = (
        [StoredResult(job, detail.result)] if detail.result is not None and benchmark in ("", job.benchmark) else []
    )
    label = f" {job.label}" if job.label else ""
    says = f"job {name} of {job.benchmark}{label and f':{label}'}"
    return _side(key, "job", f"{job.benchmark}{label}", says, stored)


def _agent(kept: ServerStore, key: str, name: str, benchmark: str) -> ReadSide:
    page = kept.listing.jobs(JobFilter(agent=name), limit=_MOST_RESULTS)
    if not page.items and not any(name in (agent.id, agent.name) for agent in kept.control.agents()):
        raise unknown_agent(name)
    if benchmark and page.next is not None and all(summary.benchmark != benchmark for summary in page.items):
        page = kept.listing.jobs(JobFilter(agent=name, benchmark=benchmark), limit=_MOST_RESULTS)  # slower
    called = next((job.agent_name for job in page.items if job.agent_name), name)
    newest: dict[tuple[str, str], JobSummary] = {}
    for job in page.items:
        if job.state == "done" and benchmark in ("", job.benchmark):
            newest.setdefault((job.benchmark, job.label), job)
    says = f"the newest result of each job that the agent {called} delivered"
    stored = _documents(kept, list(newest.values())[:MOST_RESULTS])
    return _side(key, "agent", called, says, stored, more=page.next is not None or len(newest) > MOST_RESULTS)


def _label(kept: ServerStore, key: str, name: str, benchmark: str) -> ReadSide:
    label, equals, value = name.partition("=")
    if not label or not equals or set(label) & set('"\\'):
        raise UsageError(f"{key!r} names no label with its value", code="label", try_="write label:branch=main")
    stored: list[StoredResult] = []
    more = False
    for campaign in _labelled(kept, label, value, benchmark):
        page = kept.listing.results(JobFilter(campaign=campaign), limit=MOST_RESULTS - len(stored))
        stored += page.items
        more = more or page.next is not None
        if len(stored) >= MOST_RESULTS:
            break
    says = f"the newest campaign of each benchmark with the label {name}"
    return _side(key, "label", name, says, stored, more=more)


_KINDS: dict[str, Callable[[ServerStore, str, str, str], ReadSide]] = {
    "campaign": _campaign, "job": _job, "agent": _agent, "label": _label
}  # fmt: skip


def _labelled(kept: ServerStore, label: str, value: str, benchmark: str) -> list[str]:
    """The newest campaign of each benchmark that has a label, the newest first."""
    query = select(CampaignRow.id, CampaignRow.benchmark).where(CampaignRow.labels[label].as_string() == value)
    if benchmark:
        query = query.where(CampaignRow.benchmark == benchmark)
    newest = query.order_by(CampaignRow.created_at.desc(), CampaignRow.id.desc()).limit(_MOST_LABELLED)
    campaigns: dict[str, str] = {}
    with reading(kept.store.engine) as session:
        for campaign, of in session.execute(newest):
            campaigns.setdefault(of, campaign)
    if not campaigns:
        raise UsageError(
            f"no campaign{f' of {benchmark!r}' if benchmark else ''} has the label {label}={value}",
            code="unknown-label",
            try_="give campaigns labels with `labels:` in their file",
        )
    return list(campaigns.values())


def _documents(kept: ServerStore, jobs: Sequence[JobSummary]) -> list[StoredResult]:
    query = select(JobRow.id, JobRow.result).where(JobRow.id.in_([job.id for job in jobs]))
    with reading(kept.store.engine) as session:
        results = {row.id: row.result for row in session.execute(query)}
    return [StoredResult(job, results[job.id]) for job in jobs if results.get(job.id)]


def _side(
    key: str, kind: Kind, name: str, says: str, stored: Sequence[StoredResult], *, more: bool = False
) -> ReadSide:
    results = tuple(
        ReadResult(entry.job, from_json(MultiRunJobResult, entry.result, source=entry.job.id)) for entry in stored
    )
    campaigns = tuple(dict.fromkeys(entry.job.campaign for entry in stored))
    description = f"{says}: {count(len(results), 'result')}{', and more that were not read' if more else ''}"
    return ReadSide(ComparedSide(key, kind, name, description, len(results), campaigns), results, more)


def without_needs(point: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """A point of a matrix without what it asks of the machine."""
    return {path: value for path, value in point.items() if not path.startswith("needs.")}


def point_key(result: MultiRunJobResult) -> str:
    return json.dumps(dict(result.point), sort_keys=True, default=str)


@dataclass(slots=True)
class _Row:
    """One job over all sides, while it is gathered."""

    first: ReadResult
    """The first result of it: of the base, where that has one."""
    base: ReadResult | None
    found: dict[str, tuple[ReadResult, JobComparison | None]] = field(default_factory=dict)
    """Side → its result, and what it says against the base."""


def compare_sides(sides: Sequence[ReadSide], metrics: Sequence[str], *, anyway: bool | None) -> Comparison:
    """Compare sides with the first of them.

    Args:
        anyway: compare although machine or settings differ. Left out, this is so between agents: their machines are
            what is asked about.
    """
    jobs: list[_Row] = []
    comparisons: list[tuple[str, JobComparison]] = []
    # Each benchmark is compared apart, unless every side has one only, which may then have other names.
    apart = dict.fromkeys(name for side in sides for name in side.benchmarks)
    for benchmark in apart if any(len(side.benchmarks) > 1 for side in sides) else (None,):
        jobs += _gathered(sides, benchmark, metrics, anyway, comparisons)
    promise = _judge_together(jobs)
    rows = [row for job in jobs for row in _rows(job, sides, metrics)]
    names = dict.fromkeys(name for side in sides for entry in side.results for name in entry.result.metrics)
    return Comparison(
        tuple(compared.side for compared in sides),
        tuple(rows[:MOST_ROWS]),
        sentences((label, comparison.pool.refused) for label, comparison in comparisons),
        tuple(names),
        sentences((label, (*comparison.pool.left_out, *comparison.pool.warnings)) for label, comparison in comparisons),
        max(len(rows) - MOST_ROWS, 0),
        promise,
    )


def _judge_together(jobs: Sequence[_Row]) -> str:
    """Judge what all sides and jobs say as one, in place; returns how far that may be trusted."""
    entries = [(job, key, *found) for job in jobs for key, found in job.found.items()]
    compared = [(job, key, read, comparison) for job, key, read, comparison in entries if comparison is not None]
    comparisons = [comparison for *_, comparison in compared]
    headlines = [(*default_metrics(one.pool.a[0]), *default_metrics(one.pool.b[0])) for one in comparisons]
    for (job, key, read, _), judged in zip(compared, judged_together(comparisons, headlines), strict=True):
        job.found[key] = read, judged
    return promise_of(comparisons, headlines)


def _gathered(
    sides: Sequence[ReadSide],
    benchmark: str | None,
    metrics: Sequence[str],
    anyway: bool | None,
    compared: list[tuple[str, JobComparison]],
) -> list[_Row]:
    """The jobs of one benchmark over all sides; what is concluded about each pair is added to `compared`."""
    base = sides[0]
    by_job = {entry.result.job: entry for side in sides for entry in side.results}
    own = [entry for entry in base.results if benchmark is None or entry.summary.benchmark == benchmark]
    rows = {entry.result.job: _Row(entry, entry) for entry in own}
    lone: dict[str, _Row] = {}
    for side in sides[1:]:
        machines = base.side.kind == side.side.kind == "agent"
        first, second = (side_read.record(benchmark, of_agents=machines) for side_read in (base, side))
        matching = match_jobs((first,), (second,))
        for pair in matching.pairs:
            comparison = _judged(pair, metrics, anyway=machines if anyway is None else anyway)
            rows[pair.a[0].job].found[side.side.key] = by_job[pair.b[0].job], comparison
            if comparison is not None:
                compared.append((_point_label(pair.b[0]), comparison))
        for alone in matching.only_b:
            result = by_job[alone.job]
            row = lone.setdefault(point_key(alone), _Row(result, None))
            row.found[side.side.key] = result, None
    return [*rows.values(), *lone.values()]


def _judged(pair: JobMatch, metrics: Sequence[str], *, anyway: bool) -> JobComparison | None:
    """What two results say about the metrics that are asked for; None for a result against itself."""
    if pair.a[0].job == pair.b[0].job:
        return None
    wanted = metrics or dict.fromkeys((*default_metrics(pair.a[0]), *default_metrics(pair.b[0])))
    return compare_pool(pool(JobMatch(_only(pair.a, wanted), _only(pair.b, wanted)), anyway=anyway))


def _only(results: Iterable[MultiRunJobResult], metrics: Iterable[str]) -> tuple[MultiRunJobResult, ...]:
    names = list(metrics)
    return tuple(
        replace(result, metrics={name: result.metrics[name] for name in names if name in result.metrics})
        for result in results
    )


def _rows(job: _Row, sides: Sequence[ReadSide], metrics: Sequence[str]) -> list[ComparedRow]:
    results = [result for result, _ in job.found.values()]
    everyone = [job.first, *results]
    names = metrics or tuple(dict.fromkeys(name for result in everyone for name in default_metrics(result.result)))
    return [row for name in names if (row := _row(job, name, sides, everyone)) is not None]


def _row(job: _Row, metric: str, sides: Sequence[ReadSide], everyone: Sequence[ReadResult]) -> ComparedRow | None:
    stats = next((entry.result.metrics[metric] for entry in everyone if metric in entry.result.metrics), None)
    if stats is None:
        return None
    cells = [
        _base_cell(job.base, metric, sides[0].side.key),
        *(_cell(job, metric, side.side.key) for side in sides[1:]),
    ]
    result = job.first.result
    if all(side.side.kind == "agent" for side in sides):
        result = replace(result, point=without_needs(result.point))  # the sides say which machine it is
    benchmark, label = job.first.summary.benchmark, _point_label(result)
    return ComparedRow(benchmark, label, result.point, metric, stats.unit, stats.better, tuple(cells))


def _base_cell(base: ReadResult | None, metric: str, side: str) -> ComparedCell:
    if base is None:
        return ComparedCell(side, None, None, None, None, None, (NO_JOB,))
    stats = base.result.metrics.get(metric)
    if stats is None:
        why = (_unmeasured(base.result, metric),)
        return ComparedCell(side, base.summary.id, base.summary.verdict, None, None, None, why)
    return ComparedCell(side, base.summary.id, base.summary.verdict, MetricView.of(stats, metric), None, "base", ())


def _cell(job: _Row, metric: str, side: str) -> ComparedCell:
    if side not in job.found:
        return ComparedCell(side, None, None, None, None, None, (NO_JOB,))
    read, compared = job.found[side]
    summary, stats = read.summary, read.result.metrics.get(metric)
    view = MetricView.of(stats, metric) if stats else None
    line = next((line for line in compared.lines if line.metric == metric), None) if compared is not None else None
    if line is None or stats is None:
        why = _why_not(job, read, metric, judged=compared is not None)
        return ComparedCell(side, summary.id, summary.verdict, view, None, None, (why,))
    alike = compared is None or not compared.pool.refused
    return ComparedCell(side, summary.id, summary.verdict, view, line.change, line.answer, line.because, alike)


def _why_not(job: _Row, read: ReadResult, metric: str, *, judged: bool) -> str:
    if metric not in read.result.metrics:
        return _unmeasured(read.result, metric)
    if job.base is None:
        return "the first side has no such job"
    if not judged:
        return "both sides name this very result, which tells nothing against itself"
    return f"the first side has no {metric}: {_unmeasured(job.base.result, metric)}"


def _unmeasured(result: MultiRunJobResult, metric: str) -> str:
    if result.state != "done":
        return f"it was not measured: its job is {result.state}"
    reason = next((run.absent[metric] for run in result.runs if metric in run.absent), "")
    return reason or f"{metric} was not measured"


def _point_label(result: MultiRunJobResult) -> str:
    return job_label(result.point, result.definition)
