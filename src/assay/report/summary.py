"""The table of all jobs: one line per job and headline metric, with its doubt and verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from assay.analyse.records import MultiRunJobResult
from assay.report.numbers import NOTHING, decimals_of, name_with_unit, show, show_count, show_statistics
from assay.report.sheet import Sheet
from assay.report.wording import headline_of, one_line, unreported, verdict_word


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
