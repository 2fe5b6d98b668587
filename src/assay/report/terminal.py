"""Results on a terminal: a narrow, aligned table that can be searched line by line, and the doubts below it."""

from __future__ import annotations

from collections.abc import Mapping

from assay.analyse.records import CampaignRecord, MultiRunJobResult
from assay.report.comparison import render_comparison
from assay.report.detail import render_job
from assay.report.device import device_sheet
from assay.report.energy import efficiency_sheet, energy_sentence, grade_of
from assay.report.live import LiveView, PlainView, SilentView, View, view_for
from assay.report.numbers import (
    NOTHING,
    tail_needs,
)
from assay.report.served import load_sheet, search_sentences
from assay.report.sheet import pad, paint, sheet_lines
from assay.report.summary import summary_sheet
from assay.report.wording import (
    check_sentence,
    check_word,
    failed,
    failure_of,
    gate_word,
    headline_of,
    job_count,
    job_labels,
    one_line,
    unmeasured_sentence,
    verdict_counts,
    verdict_word,
)

__all__ = [
    "LiveView",
    "PlainView",
    "SilentView",
    "View",
    "paint",
    "render_comparison",
    "render_job",
    "render_table",
    "view_for",
]

WIDTH = 100  # columns of a table when nobody says how wide the terminal is


def render_table(record: CampaignRecord, *, width: int | None = None, colour: bool = False) -> str:
    """Write a campaign as a plain table, one line per job and headline metric, with its doubts below.

    No line of the table is wider than `width` (100 when left out). The sentences below it are one line
    each and are never cut: a reason that is cut off is no reason.
    """
    labels = job_labels(record)
    devices = _devices(record, labels, width or WIDTH)
    summary = summary_sheet([job for job in record.jobs if device_sheet(job) is None], labels)
    doubts = [line for job in record.jobs for line in _doubts(job, labels[job.job])]
    load = _load(record, labels, width or WIDTH)
    energy = [line for job in record.jobs for line in _energy(job, labels[job.job])]
    side_by_side = efficiency_sheet(record, labels)
    blocks = (
        load,
        *devices,
        sheet_lines(summary, width or WIDTH) if summary.rows else [],
        sheet_lines(side_by_side, width or WIDTH) if side_by_side else [],
        [*energy, *doubts, *_footnotes(record)],
        [f"{job_count(record)}: {verdict_counts(record)}"],
    )
    text = "\n\n".join("\n".join(block) for block in blocks if block)
    return paint(text) if colour else text


def _devices(record: CampaignRecord, labels: Mapping[str, str], width: int) -> list[list[str]]:
    """What the hardware itself can do: one block for each device, headed by its verdict."""
    found = ((job, device_sheet(job)) for job in record.jobs)
    return [[f"{labels[job.job]}  {verdict_word(job)}", *sheet_lines(sheet, width)] for job, sheet in found if sheet]


def _energy(job: MultiRunJobResult, label: str) -> list[str]:
    return [_doubt("energy", label, energy_sentence(job))] if grade_of(job) and job.state == "done" else []


def _load(record: CampaignRecord, labels: Mapping[str, str], width: int) -> list[str]:
    """Jobs that answer requests side by side, one line each: speed, quality, errors and cost."""
    sheet = load_sheet(record, labels)
    if sheet is None:
        return []
    searches = [f"{labels[job.job]}: {line}" for job in record.jobs for line in search_sentences(job)]
    return [*sheet_lines(sheet, width), *searches]


def _doubts(job: MultiRunJobResult, label: str) -> list[str]:
    if job.state == "failed":
        error = failure_of(job)
        lines = [unmeasured_sentence(job)]
        lines += [one_line(f"try: {error.try_}")] if error and error.try_ else []
        return [_doubt("failed", label, line) for line in lines]
    doubts = [_doubt(check_word(check), label, check_sentence(check)) for check in failed(job.checks)]
    gates = [
        _doubt("gate", label, f"{gate_word(gate)}: {check_sentence(gate)}")
        for gate in job.gates
        if gate.passed is not True
    ]
    return doubts + gates


def _doubt(word: str, label: str, sentence: str) -> str:
    return f"{pad(word, 7)}  {label}: {sentence}"


def _footnotes(record: CampaignRecord) -> list[str]:
    told = [job for job in record.jobs if job.state == "done" and device_sheet(job) is None]
    shown = [job.metrics[name] for job in told for name in headline_of(job)]
    notes = []
    if any(stats.p99 is None for stats in shown):
        notes.append(f"p99 is {NOTHING} where too few samples back it: {tail_needs('p99')}")
    if any(stats.interval is None for stats in shown):
        notes.append("±? means that the doubt is unknown: the interval comes from the spread between runs")
    return notes
