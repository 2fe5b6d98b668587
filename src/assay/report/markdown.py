"""Results as Markdown, for a pull request, a wiki page or a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from assay.analyse.records import CampaignRecord, MultiRunJobResult
from assay.report.device import device_sheet
from assay.report.machine import fitness_sheet, monitoring_sheet
from assay.report.served import errors_of, load_sheet, search_sentences
from assay.report.sheet import Sheet
from assay.report.telemetry import efficiency_sheet, energy_sentence, price_sentence, throttling_sentences
from assay.report.terminal import summary_sheet
from assay.report.wording import (
    MEANING,
    WORDS_IN_ORDER,
    check_sentence,
    check_word,
    failed,
    failure_of,
    flat,
    gate_word,
    job_count,
    job_labels,
    one_line,
    unmeasured_sentence,
    verdict_counts,
    verdict_word,
)

_SPECIAL = str.maketrans({char: f"\\{char}" for char in "\\`*_[]|~#"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"})


def render_markdown(record: CampaignRecord) -> str:
    """Write a campaign as a Markdown report: table, reasons to doubt, environment."""
    labels, several = job_labels(record), len(record.jobs) > 1
    about_machines = (monitoring_sheet, fitness_sheet)
    blocks = (
        [f"# {escape(record.benchmark)}"],
        _head(record),
        sheet_markdown(summary_sheet(record.jobs, labels)),
        *_load(record, labels),
        *_devices(record, labels),
        _titled(efficiency_sheet(record, labels)),
        _section("Energy and price", [line for job in record.jobs for line in _energy(job, labels[job.job])]),
        _section("Reasons to doubt", [line for job in record.jobs for line in _doubts(job, labels[job.job])]),
        _section("What the verdicts mean", _meanings(record)),
        *(_titled(sheet(job), labels[job.job] if several else "") for sheet in about_machines for job in record.jobs),
        *_environments(record, labels),
    )
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _load(record: CampaignRecord, labels: dict[str, str]) -> list[list[str]]:
    """Speed, quality, errors and cost of all jobs that answer requests, and what went wrong with requests."""
    sheet = load_sheet(record, labels)
    if sheet is None:
        return []
    errors = [
        f"- **{escape(labels[job.job])}**: {error.count:,} × {escape(error.words)}"
        for job in record.jobs
        for error in errors_of(job)
    ]
    searches = [
        f"- **{escape(labels[job.job])}**, {escape(line)}" for job in record.jobs for line in search_sentences(job)
    ]
    return [_titled(sheet), _section("Failed requests", errors), _section("Searches for a rate", searches)]


def sheet_markdown(sheet: Sheet) -> list[str]:
    """A small table with its notes below; verdicts that are not `valid` stand out."""
    rule = ["---" if place in sheet.words else "---:" for place in range(len(sheet.head))]
    rows = [
        [
            f"**{escape(cell)}**" if i == sheet.verdict and cell != "valid" else escape(cell)
            for i, cell in enumerate(row)
        ]
        for row in sheet.rows
    ]
    lines = [f"| {' | '.join(cells)} |" for cells in (map(escape, sheet.head), rule, *rows)]
    return [*lines, *(line for note in sheet.notes for line in ("", escape(note)))]


def _titled(sheet: Sheet | None, of: str = "") -> list[str]:
    """A small table under its title; nothing where there is none."""
    if sheet is None:
        return []
    title = sheet.title[:1].upper() + sheet.title[1:]
    return _section(f"{title}{f' of {escape(of)}' if of else ''}", sheet_markdown(sheet))


def _devices(record: CampaignRecord, labels: dict[str, str]) -> list[list[str]]:
    """What the hardware itself can do, one table for each device that was measured."""
    sheets = [(labels[job.job], device_sheet(job)) for job in record.jobs]
    there = [(label, sheet) for label, sheet in sheets if sheet is not None]
    return [_titled(sheet, label if len(there) > 1 else "") for label, sheet in there]


def _energy(job: MultiRunJobResult, label: str) -> list[str]:
    energy, price = energy_sentence(job), price_sentence(job)
    sentences = [f"- **{escape(label)}**: {escape(sentence)}" for sentence in (energy, price) if sentence]
    return [*sentences, *(f"- **{escape(label)}**: {escape(sentence)}" for sentence in throttling_sentences(job))]


def escape(text: str) -> str:
    """Text that Markdown shows as it is: one line, no markup, no table border."""
    return one_line(text).translate(_SPECIAL)


def _head(record: CampaignRecord) -> list[str]:
    made = f" by assay {escape(record.assay_version)}" if record.assay_version else ""
    when = f"Campaign {_code(record.campaign)}, {escape(record.created_at)}{made}."
    return [f"{when} {job_count(record)}: {verdict_counts(record)}."]


def _code(text: str) -> str:
    return f"`{one_line(text).replace('`', chr(39))}`"


def _doubts(job: MultiRunJobResult, label: str) -> list[str]:
    name, word = f"- **{escape(label)}**", verdict_word(job)
    if job.state != "done":
        error = failure_of(job)
        remedy = f" Try: {escape(error.try_)}" if error and error.try_ else ""
        return [f"{name} ({word}): {escape(unmeasured_sentence(job))}{remedy}"]
    checks = [f"{name} ({check_word(check)}): {escape(check_sentence(check))}" for check in failed(job.checks)]
    gates = [
        f"{name} (objective {gate_word(gate)}): {escape(check_sentence(gate))}"
        for gate in job.gates
        if gate.passed is not True
    ]
    return checks + gates


def _meanings(record: CampaignRecord) -> list[str]:
    used = {verdict_word(job) for job in record.jobs}
    return [f"- **{word}**: {MEANING[word]}." for word in WORDS_IN_ORDER if word in used]


def _section(title: str, lines: list[str]) -> list[str]:
    return [f"## {title}", "", *lines] if lines else []


def _environments(record: CampaignRecord, labels: dict[str, str]) -> list[list[str]]:
    """One block per distinct environment, naming the jobs that ran in it."""
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for job in record.jobs:
        groups.setdefault(tuple(flat(job.environment)), []).append(labels[job.job])
    several = len(groups) > 1
    return [_environment(pairs, names if several else ()) for pairs, names in groups.items() if pairs]


def _environment(pairs: Iterable[tuple[str, str]], names: Sequence[str]) -> list[str]:
    title = f"Environment of {', '.join(map(escape, names))}" if names else "Environment"
    return _section(title, ["| fact | value |", "| --- | --- |", *(f"| {_code(k)} | {escape(v)} |" for k, v in pairs)])
