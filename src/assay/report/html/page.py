"""The whole report as one HTML file, and a small table for notebooks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.resources import files

from pydantic import JsonValue

from assay.analyse.records import CampaignRecord, MultiRunJobResult
from assay.documents import to_json
from assay.report.html.job import job_section
from assay.report.html.markup import Child, Markup, el
from assay.report.html.pictures import Samples, draw_overview
from assay.report.html.tables import DASH, efficiency_summary, load_summary, summary_table, tail_cell, verdict_mark
from assay.report.html.telemetry import Files
from assay.report.numbers import name_with_unit, show_count, show_statistics
from assay.report.wording import (
    MEANING,
    WORDS_IN_ORDER,
    check_sentence,
    check_word,
    failed,
    headline_of,
    job_count,
    job_labels,
    machine_sentence,
    one_line,
    unmeasured_sentence,
    unreported,
    verdict_counts,
    verdict_word,
)

# Nothing may be fetched or run, whatever a name inside the report says.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_READING = """\
A run is a fresh process. Samples inside a run describe its shape; every interval comes from the spread between \
runs, because only that spread shows what would change if the measurement were made again.
± is half the width of the interval, as a share of its centre. Numbers have no more digits than the interval allows.
A dash stands where something was not measured, or where the samples are too few to back a percentile; point at it \
to read what it needs. Nothing here is guessed, and nothing missing is written as zero.
Outliers are flagged by median and MAD and never dropped.
Energy has a grade: counter (read from a counter at both ends), sampled (summed from readings of the power) or \
estimated. Figures of different grades are never put together."""
_HEAD = ("job", "metric", "median", "interval", "±", "p99", "runs × samples", "verdict")


def _no_files(_job: str, _run: int, _name: str) -> bytes | None:
    return None


def render_html(record: CampaignRecord, samples: Samples, files: Files = _no_files) -> str:
    """Write a campaign as one self-contained HTML file.

    Args:
        samples: gives the samples of a run by job id and run id; empty where there are none.
        files: gives a file that a run left by job id, run id and name, None where there is none; without it there is
            no picture of the telemetry.
    """
    labels = job_labels(record)
    anchors = {job.job: f"job-{place}" for place, job in enumerate(record.jobs)}
    body = el(
        "body",
        _header(record),
        el("main", _overview(record, labels, anchors), *_jobs(record, labels, anchors, samples, files), _reading()),
        el("footer", f"Made by assay{f' {record.assay_version}' if record.assay_version else ''}."),
    )
    return f"<!DOCTYPE html>\n{el('html', _head(record), body, lang='en')}\n"


def _head(record: CampaignRecord) -> Markup:
    package = files("assay.report.html")
    style = "".join(package.joinpath(name).read_text("utf-8") for name in ("style.css", "chart.css"))
    return el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", f"{one_line(record.benchmark)} – assay"),
        el("style", Markup(style)),
    )


def _header(record: CampaignRecord) -> Markup:
    counts = Counter(verdict_word(job) for job in record.jobs)
    marks = [
        el("li", el("strong", counts[word]), " ", verdict_mark(word), el("span", MEANING[word], class_="quiet"))
        for word in WORDS_IN_ORDER
        if counts[word]
    ]
    machines = dict.fromkeys(sentence for job in record.jobs if (sentence := machine_sentence(job)))
    facts = [
        ("campaign", el("code", record.campaign)),
        ("made", _moment(record.created_at)),
        *[("machine", sentence) for sentence in list(machines)[:6]],
        *[(name, value) for name, value in record.labels.items()],
    ]
    return el(
        "header",
        el("h1", record.benchmark),
        el("dl", *(el("div", el("dt", name), el("dd", value)) for name, value in facts)),
        el("p", f"{job_count(record)}: {verdict_counts(record)}.", class_="counts"),
        el("ul", *marks, class_="verdicts"),
    )


def _overview(record: CampaignRecord, labels: dict[str, str], anchors: dict[str, str]) -> Markup:
    pictures = draw_overview(record, labels, anchors)
    undrawn = [labels[job.job] for job in record.jobs if job.state != "done"]
    note = el("p", f"Not drawn, as they have no numbers: {', '.join(undrawn)}.", class_="quiet") if undrawn else None
    shown = (
        el("div", *(one.figure() for one in pictures), class_="figures"),
        note,
        summary_table(record, labels, anchors),
    )
    tables = (load_summary(record, labels, anchors), efficiency_summary(record, labels, anchors))
    content: tuple[Child, ...] = (*tables, *shown)
    return el("section", el("h2", "All jobs"), *content, id="overview")


def _moment(written: str) -> str:
    try:
        return f"{datetime.fromisoformat(written).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    except ValueError:
        return written


def _jobs(
    record: CampaignRecord, labels: dict[str, str], anchors: dict[str, str], samples: Samples, files: Files
) -> list[Markup]:
    sections, seen = [], dict[str, str]()
    for job in record.jobs:
        first = seen.setdefault(_key(dict(job.environment)), job.job)
        same = None if first == job.job else (labels[first], anchors[first])
        sections.append(job_section(job, labels[job.job], anchors[job.job], samples, files, same))
    return sections


def _key(environment: dict[str, JsonValue]) -> str:
    return to_json(environment)


def _reading() -> Markup:
    lines = [el("li", line) for line in _READING.split("\n")]
    return el("section", el("h2", "How to read this"), el("ul", *lines), id="reading")


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
