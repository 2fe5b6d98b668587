"""Tables of all jobs: headline metrics with their doubt and verdict, and quality beside speed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from assay.analyse.records import MultiRunJobResult
from assay.analyse.scores import Quality, ScoreRecord
from assay.report.numbers import (
    NOTHING,
    decimals_for,
    decimals_of,
    name_with_unit,
    show,
    show_count,
    show_spread,
    show_statistics,
)
from assay.report.sheet import GridColumn, Sheet, lay_out, pad
from assay.report.wording import headline_of, job_label, one_line, unreported, verdict_word

# How fast answers come, of a language model; other targets show what answers their own question.
_SPEED = ("ttft_ms", "itl_ms", "e2e_ms", "output_tokens_per_s")
_EXPENDABLE = 3  # from this column of a kind on, a narrow terminal goes without
Scores = Mapping[str, Sequence[ScoreRecord]]


def summary_sheet(jobs: Sequence[MultiRunJobResult], labels: Mapping[str, str]) -> Sheet:
    """One line per job and headline metric; a job without numbers has a line of dashes."""
    # The title promises what the intervals really are.
    levels = {stats.interval.level for job in jobs for stats in job.metrics.values() if stats.interval}
    interval = f"{levels.pop() * 100:g} % interval" if len(levels) == 1 else "interval"
    head = ("job", "metric", "median", interval, "±", "p99", "runs×samples", "verdict")
    rows = tuple(row for job in jobs for row in _rows(job, labels[job.job]))
    return Sheet("all jobs", head, rows, words=frozenset({0, 1, 7}), kept=(0, 1, 2, 3, 7), verdict=7)


def _rows(job: MultiRunJobResult, label: str) -> Iterator[tuple[str, ...]]:
    word = verdict_word(job)
    names = headline_of(job) if job.state == "done" else ()
    gone = unreported(job) if job.state == "done" else ()
    for name in names:
        stats = job.metrics[name]
        shown = show_statistics(stats, name)
        p99, count = show(stats.p99, decimals_of(stats)), show_count(stats.runs, stats.count)
        metric = one_line(name_with_unit(name, stats.unit))
        yield (label, metric, shown.median, shown.interval, shown.spread, p99, count, word)
    for name in gone:
        yield (label, name, *[NOTHING] * 5, word)
    if not names and not gone:
        yield (label, *[NOTHING] * 6, word)


def render_scores(results: Sequence[MultiRunJobResult], scores: Scores, width: int) -> str:
    """Write one line per job: the newest word of each scorer, then speed."""
    newest = {
        job: {name: one for record in found for name, one in record.metrics.items()} for job, found in scores.items()
    }
    quality = list(dict.fromkeys(name for found in newest.values() for name in found))
    speed = list(dict.fromkeys(name for result in results for name in _speed(result)))
    columns = [
        GridColumn("job", flexible=True),
        *(GridColumn(one_line(name), right=True, expendable=_rank(place)) for place, name in enumerate(quality)),
        *(GridColumn(one_line(name), right=True, expendable=_rank(place)) for place, name in enumerate(speed)),
    ]
    rows = [
        (
            job_label(result.point, result.definition),
            *(_quality(newest.get(result.job, {}).get(name)) for name in quality),
            *(_speed_cell(result, name) for name in speed),
        )
        for result in results
    ]
    notes = ["quality is the mean over answers, speed the median over samples; ± is the interval between runs"]
    return "\n".join([*lay_out(columns, rows, width), "", *notes, *_sources(results, scores)])


def score_lines(records: Sequence[ScoreRecord]) -> list[str]:
    """One job's scores, a line for each metric of each scorer and day."""
    rows = [
        (one_line(name), one.computed_at[:19], one_line(one.scorer), *_figures(quality), one_line(one.version))
        for one in records
        for name, quality in one.metrics.items()
    ]
    widths = [max(len(row[place]) for row in rows) for place in range(6)] if rows else []
    return ["  " + "  ".join(pad(cell, size) for cell, size in zip(row, widths, strict=True)).rstrip() for row in rows]


def _speed(result: MultiRunJobResult) -> tuple[str, ...]:
    return tuple(name for name in _SPEED if name in result.metrics) or (headline_of(result) if result.metrics else ())


def _rank(place: int) -> int:
    return max(place - _EXPENDABLE + 1, 0)


def _figures(quality: Quality) -> tuple[str, str]:
    places = decimals_for(quality.statistics.mean, quality.interval.half_width if quality.interval else None)
    return show(quality.statistics.mean, places), show_spread(quality.interval)


def _quality(quality: Quality | None) -> str:
    return " ".join(_figures(quality)) if quality is not None else NOTHING


def _speed_cell(result: MultiRunJobResult, name: str) -> str:
    stats = result.metrics.get(name)
    if stats is None:
        return NOTHING
    shown = show_statistics(stats)
    return f"{shown.median} {shown.spread}"


def _sources(results: Sequence[MultiRunJobResult], scores: Scores) -> list[str]:
    told: dict[str, None] = {}
    for result in results:
        for one in {record.scorer: record for record in scores.get(result.job, ())}.values():
            told[f"{one_line(one.scorer)}: {one_line(one.version)}, {one.computed_at[:19]}"] = None
            told |= {f"{one_line(result.job)} run {run}: {one_line(why)}": None for run, why in one.absent.items()}
    return list(told)
