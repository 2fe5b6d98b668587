"""Results as Markdown, for a pull request, a wiki page or a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from assay.analyse.records import CampaignRecord, MultiRunJobResult
from assay.analyse.text import count
from assay.report.answer import answer_sheet, write_answer
from assay.report.sections import ReportSection, campaign_facts, environments, job_sections
from assay.report.served import load_sheet
from assay.report.sheet import Sheet
from assay.report.telemetry import efficiency_sheet
from assay.report.terminal import summary_sheet
from assay.report.wording import (
    MEANING,
    WORDS_IN_ORDER,
    check_sentence,
    check_word,
    failed_checks,
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
    """Write a campaign as a Markdown report: answer, reasons for doubt, what is known of each job, environment."""
    labels = job_labels(record)
    blocks = (
        *_brief(record),
        _section("Every headline metric", sheet_markdown(summary_sheet(record.jobs, labels))),
        _section("Every reason for doubt", [line for job in record.jobs for line in _doubts(job, labels[job.job])]),
        *(_titled(sheet(record, labels)) for sheet in (load_sheet, efficiency_sheet)),
        _section("Facts", [f"- {escape(name)}: {escape(value)}" for name, value in campaign_facts(record)]),
        _section("What the verdicts mean", _meanings(record)),
        *(_job(job, labels[job.job]) for job in record.jobs),
        *_environments(record),
    )
    return _joined(blocks)


def brief_markdown(record: CampaignRecord) -> str:
    """The short form, to paste into a chat or a pull request: the answer, a table and the reasons for doubt."""
    return _joined(_brief(record))


def _brief(record: CampaignRecord) -> list[list[str]]:
    written = write_answer(record)
    table = answer_sheet(written)
    doubts = [
        f"- **{escape(doubt.title)}** ({count(len(doubt.jobs), 'job')}): {escape(doubt.worst)}{_remedy(doubt.remedy)}"
        for doubt in written.doubts
    ]
    return [
        [f"# {escape(record.benchmark)}"],
        _head(record),
        [escape(sentence) for sentence in written.sentences],
        sheet_markdown(table) if table else [],
        _section("Reasons for doubt", doubts),
    ]


def _remedy(text: str) -> str:
    return f" → {escape(text)}" if text else ""


def _joined(blocks: Iterable[Sequence[str]]) -> str:
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _job(job: MultiRunJobResult, label: str) -> list[str]:
    return _section(escape(label), [line for part in job_sections(job) for line in _part(part)])


def _part(part: ReportSection) -> list[str]:
    table = sheet_markdown(part.sheet) if part.sheet else []
    lines = [
        *(f"- {escape(sentence)}" for sentence in part.sentences),
        *([""] if part.sentences and table else []),
        *table,
    ]
    return [f"### {part.title}", "", *lines, ""]


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


def _titled(sheet: Sheet | None) -> list[str]:
    """A small table under its title; nothing where there is none."""
    return _section(sheet.title, sheet_markdown(sheet)) if sheet else []


def escape(text: str) -> str:
    """Text that Markdown shows as it is: one line, no markup, no table border."""
    return one_line(text).translate(_SPECIAL)


def _head(record: CampaignRecord) -> list[str]:
    made = f" by assay {escape(record.assay_version)}" if record.assay_version else ""
    when = f"Campaign {code(record.campaign)}, {escape(record.created_at)}{made}."
    return [f"{when} {job_count(record)}: {verdict_counts(record)}."]


def code(text: str) -> str:
    return f"`{one_line(text).replace('`', chr(39))}`"


def _cell_code(text: str) -> str:
    """Code inside a table, where a bar would begin the next column."""
    return code(text).replace("|", "\\|")


def _doubts(job: MultiRunJobResult, label: str) -> list[str]:
    name, word = f"- **{escape(label)}**", verdict_word(job)
    if job.state != "done":
        error = job.failure
        remedy = f" Try: {escape(error.try_)}" if error and error.try_ else ""
        return [f"{name} ({word}): {escape(unmeasured_sentence(job))}{remedy}"]
    checks = [f"{name} ({check_word(check)}): {escape(check_sentence(check))}" for check in failed_checks(job)]
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


def _environments(record: CampaignRecord) -> list[list[str]]:
    groups = environments(record)
    return [
        _section(
            f"Environment of {', '.join(map(escape, names))}" if len(groups) > 1 else "Environment",
            [
                "| fact | value |",
                "| --- | --- |",
                *(f"| {_cell_code(name)} | {escape(value)} |" for name, value in facts),
            ],
        )
        for names, facts in groups
    ]
