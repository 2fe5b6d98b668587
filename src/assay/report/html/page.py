"""A campaign on one page: what it is, all jobs side by side, then each job on about one screen with the rest folded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from assay.analyse.records import CampaignRecord, Check, MultiRunJobResult
from assay.report.answer import WrittenAnswer, write_answer
from assay.report.html.answer import answer_box, answer_table, doubts
from assay.report.html.chart import Child, Legend, Markup, Picture, el, join, page_head
from assay.report.html.pictures import Samples, draw_overview, job_pictures
from assay.report.html.stacked import Files
from assay.report.html.tables import (
    DASH,
    facts_table,
    headline_numbers,
    linked_table,
    metrics_table,
    sentences,
    sheet_table,
    summary_table,
    verdict_mark,
)
from assay.report.markdown import brief_markdown
from assay.report.numbers import name_with_unit, show_statistics
from assay.report.sections import benchmark_file, campaign_facts, environments, job_sections, own_environment
from assay.report.served import load_sheet
from assay.report.telemetry import efficiency_sheet, energy_sentence
from assay.report.wording import (
    MEANING,
    WORDS_IN_ORDER,
    check_sentence,
    check_word,
    failed_checks,
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

_READING = """\
A run is a fresh process. Samples inside a run describe its shape; every interval comes from the spread between \
runs, because only that spread shows what would change if the measurement were made again.
± is half the width of the interval, as a share of its centre. Numbers have no more digits than the interval allows.
A dash stands where something was not measured, or where there are too few samples for a percentile; point at it \
to read what it needs. Nothing is guessed, and nothing missing is written as zero.
Outliers are flagged by median and MAD and never dropped.
Energy has a grade: counter (read from a counter at both ends), sampled (summed from readings of the power) or \
estimated. Figures of different grades are never combined."""
_HEAD = ("job", "metric", "median", "interval", "±", "p99", "runs × samples", "verdict")
_MOST_REASONS = 3  # at the top of a job; the fold of its checks has them all
_MOST_CONTENTS = 24  # jobs in the contents before they are folded


def _no_files(_job: str, _run: int, _name: str) -> bytes | None:
    return None


def render_html(record: CampaignRecord, samples: Samples, files: Files = _no_files) -> str:
    """Write a campaign as one self-contained HTML file.

    Args:
        samples: gives the samples of a run by job id and run id; empty where there are none.
        files: gives a file that a run left by job id, run id and name, None where there is none; without it there is
            no picture of the telemetry.
    """
    entries = [_Entry(f"job-{place}", label, job) for place, (label, job) in enumerate(_labelled(record))]
    written = write_answer(record)
    overview = draw_overview(record, {e.job.job: e.label for e in entries}, {e.job.job: e.anchor for e in entries})
    drawn = [job_pictures(e.job, samples, files) if e.job.state == "done" else [] for e in entries]
    several_machines = len({machine_sentence(e.job) for e in entries}) > 1
    around = zip([None, *entries], entries, [*entries[1:], None], strict=False)
    jobs = [
        _job(entry, pictures, before, after, several_machines)
        for (before, entry, after), pictures in zip(around, drawn, strict=True)
    ]
    legends = (picture.legend for group in (overview, *drawn) for picture in group)
    body = el(
        "body",
        _header(record, written, entries),
        el(
            "main",
            _overview(record, written, entries, overview),
            *jobs,
            _environments(record),
            _reading(record, legends),
        ),
        el("footer", f"Made by assay{f' {record.assay_version}' if record.assay_version else ''}."),
    )
    head = page_head(one_line(record.benchmark), "style.css", "chart.css")
    return f"<!DOCTYPE html>\n{el('html', head, body, lang='en')}\n"


@dataclass(frozen=True, slots=True)
class _Entry:
    """A job with its place on the page."""

    anchor: str
    label: str
    job: MultiRunJobResult

    @property
    def link(self) -> Markup:
        return el("a", self.label, href=f"#{self.anchor}")


def _labelled(record: CampaignRecord) -> list[tuple[str, MultiRunJobResult]]:
    labels = job_labels(record)
    return [(labels[job.job], job) for job in record.jobs]


def _header(record: CampaignRecord, written: WrittenAnswer, entries: Sequence[_Entry]) -> Markup:
    facts: list[tuple[str, Child]] = [
        ("campaign", el("code", record.campaign)),
        ("measured", _moment(record.created_at)),
    ]
    facts += campaign_facts(record)
    file = benchmark_file(record)
    if file:
        facts.append(("repeat", (el("code", "assay run bench.yaml"), " with ", el("a", "this file", href="#repeat"))))
    return el(
        "header",
        el("h1", record.benchmark),
        el("p", written.title.removeprefix(f"{one_line(record.benchmark)} · "), class_="quiet"),
        answer_box(written),
        el("dl", *(el("div", el("dt", name), el("dd", value)) for name, value in facts)),
        _folded("bench.yaml: the file that repeats this campaign", el("pre", file), id_="repeat") if file else None,
        el("div", _folded("Copy as Markdown", el("pre", brief_markdown(record), class_="copy")), class_="screen"),
        _contents(entries),
    )


def _contents(entries: Sequence[_Entry]) -> Markup:
    jobs = [el("li", entry.link, " ", verdict_mark(verdict_word(entry.job))) for entry in entries]
    others = (("overview", "All jobs"), ("environment", "Environment"), ("reading", "How to read this"))
    ends = [el("li", el("a", title, href=f"#{anchor}")) for anchor, title in others]
    listed = el("ul", ends[0], *jobs, *ends[1:], class_="contents")
    if len(entries) > _MOST_CONTENTS:
        listed = _folded(f"{len(entries)} jobs", listed)
    # Works without a script, where the browser can style what a closed fold hides.
    opened = el("label", el("input", type="checkbox", id="open-all"), " Show all details", class_="open-all")
    return el("nav", el("h2", "Contents", opened), listed, aria_label="Contents")


def _overview(
    record: CampaignRecord, written: WrittenAnswer, entries: Sequence[_Entry], pictures: Sequence[Picture]
) -> Markup:
    labels = {entry.job.job: entry.label for entry in entries}
    anchors = {entry.job.job: entry.anchor for entry in entries}
    undrawn = [entry.label for entry in entries if entry.job.state != "done"]
    return el(
        "section",
        el("h2", "All jobs"),
        answer_table(written, record, anchors),
        doubts(written, record),
        _figures(pictures),
        el("p", f"Not drawn, as they have no numbers: {', '.join(undrawn)}.", class_="quiet") if undrawn else None,
        *(linked_table(sheet(record, labels), record, labels, anchors) for sheet in (load_sheet, efficiency_sheet)),
        _folded("Every headline metric of every job", summary_table(record, labels, anchors)),
        id="overview",
    )


def _figures(pictures: Sequence[Picture]) -> Markup | None:
    return el("div", *(picture.figure() for picture in pictures), class_="figures") if pictures else None


def _moment(written: str) -> str:
    try:
        return f"{datetime.fromisoformat(written).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    except ValueError:
        return written


def _environments(record: CampaignRecord) -> Markup:
    groups = environments(record)
    tables = [
        _folded(
            f"Environment of {', '.join(names)}" if len(groups) > 1 else "Environment of all jobs", facts_table(facts)
        )
        for names, facts in groups
    ]
    return el("section", el("h2", "Environment"), tables or el("p", "Nothing was recorded."), id="environment")


def _reading(record: CampaignRecord, legends: Iterable[Legend]) -> Markup:
    kinds = {legend.kind: legend.text for legend in legends}
    used = {verdict_word(job) for job in record.jobs}
    verdicts = [el("li", verdict_mark(word), " ", el("span", MEANING[word])) for word in WORDS_IN_ORDER if word in used]
    pictures = [el("div", el("dt", kind), el("dd", text)) for kind, text in kinds.items()]
    return el(
        "section",
        el("h2", "How to read this"),
        el("ul", *verdicts, class_="verdicts") if verdicts else None,
        el("ul", *(el("li", line) for line in _READING.split("\n"))),
        join((el("h3", "Pictures"), el("dl", *pictures, class_="legends"))) if pictures else None,
        id="reading",
    )


def _job(
    entry: _Entry,
    pictures: Sequence[Picture],
    before: _Entry | None,
    after: _Entry | None,
    several_machines: bool,
) -> Markup:
    """A job on about one screen: verdict, reasons and its main picture; everything else is folded."""
    job, word = entry.job, verdict_word(entry.job)
    main = next((picture for picture in pictures if picture.group == "runs"), pictures[0] if pictures else None)
    others = [picture for picture in pictures if picture is not main]
    return el(
        "section",
        el("h2", entry.label, " ", verdict_mark(word)),
        el("p", *_lead(job, several_machines), class_="lead"),
        _judgement(job) if job.state == "done" else _failure(job),
        _figures([main]) if main else None,
        _folded(f"More pictures: {len(others)}", _figures(others)) if others else None,
        _folded("Metrics", _metrics(job)) if job.state == "done" and job.metrics else None,
        *(
            _folded(part.title, (sentences(part.sentences), sheet_table(part.sheet) if part.sheet else None))
            for part in job_sections(job)
        ),
        _checks(job) if job.checks else None,
        _folded("Definition and environment", _definition(job)),
        el(
            "nav",
            el("span", "Previous: ", before.link) if before else None,
            el("a", "All jobs", href="#overview"),
            el("a", "How to read this", href="#reading"),
            el("span", "Next: ", after.link) if after else None,
            aria_label=f"Jobs beside {entry.label}",
        ),
        class_=f"job {word.replace(' ', '-')}",
        id=entry.anchor,
    )


def _definition(job: MultiRunJobResult) -> Markup:
    own = own_environment(job)
    shared = el("p", el("a", "The environment", href="#environment"), " stands once for all jobs that share it.")
    return join(
        (el("pre", indented(job.definition)) if job.definition else None, facts_table(own) if own else None, shared)
    )


def _lead(job: MultiRunJobResult, with_machine: bool) -> Iterator[Markup]:
    if job.state == "done":
        yield from (_headline(job, name) for name in headline_of(job)[:4])
    yield el("span", f"{job.successful_runs} of {job.total_runs} runs succeeded", class_="quiet")
    if with_machine and (machine := machine_sentence(job)):
        yield el("span", machine, class_="quiet")


def _headline(job: MultiRunJobResult, name: str) -> Markup:
    stats = job.metrics[name]
    shown = show_statistics(stats, name)
    number = el("strong", shown.median, " ", stats.unit)
    return el("span", name_with_unit(name, stats.unit), " ", number, " ", shown.interval, " ", shown.spread)


def _failure(job: MultiRunJobResult) -> Markup:
    error = job.failure
    remedy = el("p", el("strong", "Try: "), error.try_) if error and error.try_ else None
    log = None
    if error and error.log_tail:
        log = (el("p", "Last lines of its log:", class_="quiet"), el("pre", "\n".join(error.log_tail)))
    return el("div", el("p", unmeasured_sentence(job)), remedy, log, class_="why")


def _judgement(job: MultiRunJobResult) -> Markup | None:
    """The heaviest reasons to doubt a result, and its objectives."""
    doubts = failed_checks(job)
    lines = [_check(check) for check in doubts[:_MOST_REASONS]] + [_gate(gate) for gate in job.gates[:_MOST_REASONS]]
    left = [
        f"{count} more {what}{'' if count == 1 else 's'}"
        for count, what in ((len(doubts) - _MOST_REASONS, "reason"), (len(job.gates) - _MOST_REASONS, "objective"))
        if count > 0
    ]
    more = el("p", f"{' and '.join(left)} under “Checks” below.", class_="quiet") if left else None
    return join((el("ul", *lines, class_="checks"), more)) if lines else None


def _checks(job: MultiRunJobResult) -> Markup:
    unknown = [check for check in job.checks if check.passed is None]
    passed = [check for check in job.checks if check.passed]
    doubts = failed_checks(job)
    counts = f"{len(doubts)} failed, {len(unknown)} not applicable or unknown, {len(passed)} passed"
    lines = [*map(_gate, job.gates), *map(_check, (*doubts, *unknown, *passed))]
    return _folded(f"Checks: {counts}", el("ul", *lines, class_="checks"))


def _check(check: Check) -> Markup:
    word = {True: "passed", False: check_word(check), None: "unknown"}[check.passed]
    return _check_line(word, word, check)


def _gate(gate: Check) -> Markup:
    word = gate_word(gate)
    return _check_line(word, f"objective {word}", gate)


_SIGNS = {"passed": "✓", "suspect": "!", "invalid": "✕", "met": "✓", "missed": "✕"}


def _check_line(word: str, words: str, check: Check) -> Markup:
    sign = el("span", _SIGNS.get(word, DASH), aria_hidden="true", class_="glyph")
    mark = el("span", sign, words, class_=f"mark {word.replace(' ', '-')}")
    return el("li", mark, el("span", el("strong", check.name), ": ", check.detail))


def _metrics(job: MultiRunJobResult) -> Markup:
    absent: Mapping[str, str] = {name: why for run in job.runs for name, why in run.absent.items()}
    present = {*job.metrics, *(["energy_j"] if energy_sentence(job) else [])}  # the facts of the campaign say why
    lines = [el("li", el("code", name), ": ", why) for name, why in absent.items() if name not in present]
    missing = join((el("p", "Not measured:", class_="quiet"), el("ul", *lines))) if lines else None
    return join((metrics_table(job), missing))


def _folded(title: str, content: Child, *, id_: str | None = None) -> Markup:
    return el("details", el("summary", title), content, id=id_)


def fragment_html(record: CampaignRecord) -> str:
    """Write a campaign as a small HTML table with its doubts below, for a notebook's cell."""
    labelled = _labelled(record)
    rows = [row for label, job in labelled for row in _rows(job, label)]
    doubts = [el("li", line) for label, job in labelled for line in _doubts(job, label)]
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
    return [f"{check_word(check)} – {label}: {check_sentence(check)}" for check in failed_checks(job)]
