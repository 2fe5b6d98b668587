"""A small table for notebooks: no script, no global style."""

from __future__ import annotations

from collections.abc import Sequence

from assay.analyse.records import CampaignRecord, MultiRunJobResult
from assay.report.headline import headline_of, unreported
from assay.report.html.markup import Child, el
from assay.report.html.tables import DASH, tail_cell
from assay.report.numbers import name_with_unit, show_count, show_statistics
from assay.report.wording import (
    check_sentence,
    check_word,
    failed,
    job_count,
    job_labels,
    unmeasured_sentence,
    verdict_counts,
    verdict_word,
)

_HEAD = ("job", "metric", "median", "interval", "±", "p99", "runs × samples", "verdict")


def fragment_html(record: CampaignRecord) -> str:
    """Write a campaign as a small HTML table with its doubts below, for a notebook's cell."""
    labels = job_labels(record)
    rows = [row for job in record.jobs for row in _rows(job, labels[job.job])]
    doubts = [el("li", line) for job in record.jobs for line in _doubts(job, labels[job.job])]
    head = el("tr", *(el("th", title, style=_align(i)) for i, title in enumerate(_HEAD)))
    body = (el("tr", *(el("td", cell, style=_align(i)) for i, cell in enumerate(row))) for row in rows)
    return el(
        "div",
        el("p", el("strong", record.benchmark), f" – {job_count(record)}: {verdict_counts(record)}"),
        el("table", el("thead", head), el("tbody", *body), style="font-variant-numeric:tabular-nums"),
        el("ul", *doubts) if doubts else None,
    )


def _align(column: int) -> str:
    return f"text-align:{'right' if 2 <= column <= 6 else 'left'};white-space:nowrap"


def _rows(job: MultiRunJobResult, label: str) -> list[Sequence[Child]]:
    names = headline_of(job) if job.state == "done" else ()
    gone = unreported(job) if job.state == "done" else ()
    if not names and not gone:
        return [(label, *[DASH] * 6, verdict_word(job))]
    rows = [_row(job, name, label) for name in names]
    return rows + [(label, name, *[DASH] * 5, verdict_word(job)) for name in gone]


def _row(job: MultiRunJobResult, name: str, label: str) -> Sequence[Child]:
    stats = job.metrics[name]
    shown = show_statistics(stats, name)
    numbers = (shown.median, shown.interval, shown.spread, tail_cell(stats, "p99"), show_count(stats.runs, stats.count))
    return (label, name_with_unit(name, stats.unit), *numbers, verdict_word(job))


def _doubts(job: MultiRunJobResult, label: str) -> list[str]:
    if job.state != "done":
        return [f"{verdict_word(job)} – {label}: {unmeasured_sentence(job)}"]
    return [f"{check_word(one)} – {label}: {check_sentence(one)}" for one in failed(job.checks)]
