"""Sides held against the first of them: the same judgement as `assay compare` makes, for several at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from assay.analyse.compare import JobComparison, JobMatch, compare_pool, match_jobs, pool
from assay.analyse.records import Comparison as Line
from assay.analyse.records import MultiRunJobResult
from assay.report.comparison import asked_of, sentences
from assay.report.wording import job_label
from assay.serve.facts.records import ComparedCell, ComparedRow, Comparison
from assay.serve.facts.sides import ReadResult, ReadSide, point_key, without_needs
from assay.serve.web.reading import MetricView

MOST_ROWS = 2000
NO_JOB = "this side has no such job"


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
    told: list[tuple[str, JobComparison]] = []
    for benchmark in _benchmarks(sides):
        jobs += _gathered(sides, benchmark, metrics, anyway, told)
    rows = [row for job in jobs for row in _rows(job, sides, metrics)]
    names = dict.fromkeys(name for side in sides for one in side.results for name in one.result.metrics)
    return Comparison(
        tuple(one.side for one in sides),
        tuple(rows[:MOST_ROWS]),
        sentences((label, one.pool.refused) for label, one in told),
        tuple(names),
        sentences((label, (*one.pool.left_out, *one.pool.warnings)) for label, one in told),
        max(len(rows) - MOST_ROWS, 0),
    )


def _benchmarks(sides: Sequence[ReadSide]) -> tuple[str | None, ...]:
    """What is compared apart: each benchmark, unless every side has one only, which may then have other names."""
    if all(len(side.benchmarks) <= 1 for side in sides):
        return (None,)
    return tuple(dict.fromkeys(name for side in sides for name in side.benchmarks))


def _gathered(
    sides: Sequence[ReadSide],
    benchmark: str | None,
    metrics: Sequence[str],
    anyway: bool | None,
    told: list[tuple[str, JobComparison]],
) -> list[_Row]:
    """The jobs of one benchmark over all sides; what is said about each pair is added to `told`."""
    base = sides[0]
    known = {one.result.job: one for side in sides for one in side.results}
    own = [one for one in base.results if benchmark is None or one.summary.benchmark == benchmark]
    rows = {one.result.job: _Row(one, one) for one in own}
    lone: dict[str, _Row] = {}
    for side in sides[1:]:
        machines = base.side.kind == side.side.kind == "agent"
        first, second = (one.record(benchmark, of_agents=machines) for one in (base, side))
        matching = match_jobs((first,), (second,))
        for pair in matching.pairs:
            found = _judged(pair, metrics, anyway=machines if anyway is None else anyway)
            rows[pair.a[0].job].found[side.side.key] = known[pair.b[0].job], found
            if found is not None:
                told.append((_label(pair.b[0]), found))
        for alone in matching.only_b:
            one = known[alone.job]
            row = lone.setdefault(point_key(alone), _Row(one, None))
            row.found[side.side.key] = one, None
    return [*rows.values(), *lone.values()]


def _judged(pair: JobMatch, metrics: Sequence[str], *, anyway: bool) -> JobComparison | None:
    """What two results say about the metrics that are asked for; None for a result against itself."""
    if pair.a[0].job == pair.b[0].job:
        return None
    wanted = metrics or dict.fromkeys((*asked_of(pair.a[0]), *asked_of(pair.b[0])))
    return compare_pool(pool(JobMatch(_only(pair.a, wanted), _only(pair.b, wanted)), anyway=anyway))


def _only(results: Iterable[MultiRunJobResult], metrics: Iterable[str]) -> tuple[MultiRunJobResult, ...]:
    names = list(metrics)
    return tuple(
        replace(one, metrics={name: one.metrics[name] for name in names if name in one.metrics}) for one in results
    )


def _rows(job: _Row, sides: Sequence[ReadSide], metrics: Sequence[str]) -> list[ComparedRow]:
    results = [one for one, _ in job.found.values()]
    everyone = [job.first, *results]
    names = metrics or tuple(dict.fromkeys(name for one in everyone for name in asked_of(one.result)))
    return [row for name in names if (row := _row(job, name, sides, everyone)) is not None]


def _row(job: _Row, metric: str, sides: Sequence[ReadSide], everyone: Sequence[ReadResult]) -> ComparedRow | None:
    stats = next((one.result.metrics[metric] for one in everyone if metric in one.result.metrics), None)
    if stats is None:
        return None
    cells = [_base_cell(job.base, metric, sides[0])]
    cells += [_cell(job, metric, side.side.key) for side in sides[1:]]
    result = job.first.result
    if all(side.side.kind == "agent" for side in sides):
        result = replace(result, point=without_needs(result.point))  # the sides say which machine it is
    return ComparedRow(
        job.first.summary.benchmark, _label(result), result.point, metric, stats.unit, stats.better, tuple(cells)
    )


def _base_cell(base: ReadResult | None, metric: str, side: ReadSide) -> ComparedCell:
    if base is None:
        return ComparedCell(side.side.key, None, None, None, None, None, (NO_JOB,))
    stats = base.result.metrics.get(metric)
    why = () if stats else (_unmeasured(base.result, metric),)
    view = MetricView.of(stats) if stats else None
    return ComparedCell(
        side.side.key, base.summary.id, base.summary.verdict, view, None, "base" if stats else None, why
    )


def _cell(job: _Row, metric: str, side: str) -> ComparedCell:
    if side not in job.found:
        return ComparedCell(side, None, None, None, None, None, (NO_JOB,))
    one, found = job.found[side]
    stats = one.result.metrics.get(metric)
    line = _lines(found).get(metric)
    if line is None or stats is None:
        why = _why_not(job, one, metric, judged=found is not None)
        view = MetricView.of(stats) if stats else None
        return ComparedCell(side, one.summary.id, one.summary.verdict, view, None, None, (why,))
    return ComparedCell(
        side, one.summary.id, one.summary.verdict, MetricView.of(stats), line.change, line.answer, line.because
    )


def _lines(found: JobComparison | None) -> Mapping[str, Line]:
    return {line.metric: line for line in found.lines} if found is not None else {}


def _why_not(job: _Row, one: ReadResult, metric: str, *, judged: bool) -> str:
    if metric not in one.result.metrics:
        return _unmeasured(one.result, metric)
    if job.base is None:
        return "the first side has no such job"
    if not judged:
        return "both sides name this very result, which tells nothing against itself"
    return f"the first side has no {metric}: {_unmeasured(job.base.result, metric)}"


def _unmeasured(result: MultiRunJobResult, metric: str) -> str:
    if result.state != "done":
        return f"it was not measured: its job is {result.state}"
    told = next((run.absent[metric] for run in result.runs if metric in run.absent), "")
    return told or f"{metric} was not measured"


def _label(result: MultiRunJobResult) -> str:
    return job_label(result.point, result.definition)
