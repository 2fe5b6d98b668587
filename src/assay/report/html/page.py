"""The whole report as one HTML file, with a section for each job, and a small table for notebooks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from assay.analyse.records import CampaignRecord, Check, MultiRunJobResult
from assay.documents import to_json
from assay.report.html.chart import Child, Markup, el, join, page_head
from assay.report.html.pictures import Samples, draw_overview, job_pictures
from assay.report.html.stacked import Files
from assay.report.html.tables import (
    DASH,
    answers_tables,
    energy_line,
    facts_table,
    hardware_tables,
    headline_numbers,
    linked_table,
    metrics_table,
    runs_table,
    summary_table,
    verdict_mark,
)
from assay.report.numbers import name_with_unit, show_statistics
from assay.report.served import load_sheet
from assay.report.telemetry import efficiency_sheet, energy_sentence
from assay.report.wording import (
    MEANING,
    WORDS_IN_ORDER,
    check_sentence,
    check_word,
    failed,
    failure_of,
    failure_sentence,
    flat,
    gate_word,
    headline_of,
    headlines,
    indented,
    job_count,
    job_labels,
    machine_sentence,
    one_line,
    unmeasured_sentence,
    verdict_counts,
    verdict_word,
)
from assay.run.records import Failure

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
    head = page_head(one_line(record.benchmark), "style.css", "chart.css")
    return f"<!DOCTYPE html>\n{el('html', head, body, lang='en')}\n"


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
        el("div", *(picture.figure() for picture in pictures), class_="figures"),
        note,
        summary_table(record, labels, anchors),
    )
    tables = [linked_table(sheet(record, labels), record, labels, anchors) for sheet in (load_sheet, efficiency_sheet)]
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
        first = seen.setdefault(to_json(dict(job.environment)), job.job)
        same = None if first == job.job else (labels[first], anchors[first])
        sections.append(job_section(job, labels[job.job], anchors[job.job], samples, files, same))
    return sections


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


def _rows(job: MultiRunJobResult, label: str) -> Iterator[Sequence[Child]]:
    for name, stats in headlines(job):
        metric = name_with_unit(name, stats.unit) if stats else name or DASH
        yield (label, metric, *headline_numbers(name, stats), verdict_word(job))


def _doubts(job: MultiRunJobResult, label: str) -> list[str]:
    if job.state != "done":
        return [f"{verdict_word(job)} – {label}: {unmeasured_sentence(job)}"]
    return [f"{check_word(check)} – {label}: {check_sentence(check)}" for check in failed(job.checks)]


_SIGNS = {True: ("✓", "passed"), False: ("✕", "failed"), None: ("–", "not told")}


def job_section(
    job: MultiRunJobResult,
    label: str,
    anchor: str,
    samples: Samples,
    files: Files,
    same_environment: tuple[str, str] | None,
) -> Markup:
    """Everything about one job; `same_environment` is the label and anchor of a job that ran in the same one."""
    measured = job.state == "done"
    word = verdict_word(job)
    return el(
        "section",
        el("h2", label, " ", verdict_mark(word)),
        el("p", *_sentence(job), class_="lead"),
        energy_line(job) if measured else None,
        _why(job) if not measured else _judgement(job),
        el("div", *(picture.figure() for picture in job_pictures(job, samples, files)), class_="figures")
        if measured
        else None,
        _folded("Metrics", _metrics(job), opened=True) if measured and job.metrics else None,
        *([_folded(title, content, opened=True) for title, content in answers_tables(job)] if measured else ()),
        *(_folded(title, content, opened=shown) for title, content, shown in hardware_tables(job)),
        _folded("Runs", join((runs_table(job), _run_failures(job))), opened=True) if job.runs else None,
        _folded("Environment", _environment(job, same_environment)),
        _folded("Definition", el("pre", indented(job.definition))) if job.definition else None,
        class_=f"job {word}",
        id=anchor,
    )


def _sentence(job: MultiRunJobResult) -> Iterable[Child]:
    where = machine_sentence(job)
    if job.state == "done":
        yield from (_headline(job, name) for name in headline_of(job)[:4])
    yield el("span", f"{job.successful_runs} of {job.total_runs} runs succeeded", class_="quiet")
    yield el("span", where, class_="quiet") if where else None


def _headline(job: MultiRunJobResult, name: str) -> Markup:
    stats = job.metrics[name]
    shown = show_statistics(stats, name)
    number = el("strong", shown.median, " ", stats.unit)
    return el("span", name_with_unit(name, stats.unit), " ", number, " ", shown.interval, " ", shown.spread)


def _why(job: MultiRunJobResult) -> Markup:
    error = failure_of(job)
    remedy = el("p", el("strong", "Try: "), error.try_) if error and error.try_ else None
    content = (el("p", unmeasured_sentence(job)), remedy, _log(error))
    return el("div", *content, class_="why")


def _log(error: Failure | None) -> Markup | None:
    if error is None or not error.log_tail:
        return None
    return join((el("p", "Last lines of its log:", class_="quiet"), el("pre", "\n".join(error.log_tail))))


def _run_failures(job: MultiRunJobResult) -> Markup | None:
    """The evidence of failed runs of a job that was measured nonetheless; a failed job tells it above."""
    if job.state != "done":
        return None
    broken = [run for run in job.runs if run.error]
    return join(
        el("div", el("p", f"Run {run.run_id}: ", failure_sentence(run.error)), _log(run.error), class_="why")
        for run in broken
        if run.error
    )


def _judgement(job: MultiRunJobResult) -> Markup:
    word = verdict_word(job)
    bad = failed(job.checks)
    untold = [check for check in job.checks if check.passed is None]
    good = [check for check in job.checks if check.passed]
    gates = el("ul", *(_gate(gate) for gate in job.gates), class_="checks") if job.gates else None
    return join(
        (
            el("p", f"Verdict {word}: {MEANING[word]}."),
            el("ul", *map(_check, bad), class_="checks") if bad else None,
            join((el("h3", "Objectives"), gates)) if gates else None,
            _folded(f"Checks passed: {len(good)}, could not be told: {len(untold)}", _others(good, untold))
            if good or untold
            else None,
        )
    )


def _others(good: Iterable[Check], untold: Iterable[Check]) -> Markup:
    return el("ul", *map(_check, (*untold, *good)), class_="checks")


def _check(check: Check) -> Markup:
    sign, word = _SIGNS[check.passed]
    word = check_word(check) if check.passed is False else word
    return _entry(sign, word, {True: "good", False: "bad", None: "untold"}[check.passed], check)


def _gate(gate: Check) -> Markup:
    kind = {True: "good", False: "bad", None: "untold"}[gate.passed]
    return _entry(_SIGNS[gate.passed][0], gate_word(gate), kind, gate)


def _entry(sign: str, word: str, kind: str, check: Check) -> Markup:
    mark = el("span", el("span", sign, aria_hidden="true", class_="glyph"), word, class_=f"mark {kind}")
    return el("li", mark, el("span", el("strong", check.name), ": ", check.detail))


def _metrics(job: MultiRunJobResult) -> Markup:
    absent: Mapping[str, str] = {name: why for run in job.runs for name, why in run.absent.items()}
    present = {*job.metrics, *(["energy_j"] if energy_sentence(job) else [])}  # energy has a sentence of its own
    reasons = [el("li", el("code", name), ": ", why) for name, why in absent.items() if name not in present]
    missing = join((el("p", "Not measured:", class_="quiet"), el("ul", *reasons))) if reasons else None
    return join((metrics_table(job), missing))


def _environment(job: MultiRunJobResult, same: tuple[str, str] | None) -> Markup:
    if same is not None:
        return el("p", "The same as of ", el("a", same[0], href=f"#{same[1]}"), ".")
    pairs = flat(job.environment)
    return facts_table(pairs, "Environment") if pairs else el("p", "Nothing was recorded.")


def _folded(title: str, content: Child, *, opened: bool = False) -> Markup:
    return el("details", el("summary", title), content, open=opened)
