"""Two sides of a comparison: what may not be compared and why first, then better, worse, or cannot tell."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from assay.analyse.compare import JobComparison, compare_pool, match_jobs, pool
from assay.analyse.records import Comparison, Interval, MultiRunJobResult
from assay.documents import to_plain
from assay.report.markdown import escape
from assay.report.numbers import NOTHING, decimals_for, name_with_unit, show, show_percent
from assay.report.sheet import GridColumn, lay_out
from assay.report.sides import Side
from assay.report.wording import headline_of, job_labels, one_line

_SCHEMA = "assay.comparison/1"
_COLUMNS = (
    "job", "metric", "unit", "a", "a_low", "a_high", "b", "b_low", "b_high", "change", "change_low", "change_high",
    "answer", "because",
)  # fmt: skip
# A spreadsheet runs a cell that begins with one of these as a formula.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def render_comparison(
    groups: Mapping[str, Sequence[Comparison]],
    *,
    a: str = "a",
    b: str = "b",
    notes: Sequence[str] = (),
    width: int | None = None,
) -> str:
    """Write comparisons as a table, one line per job and metric, with the verdict's reason at its end.

    Args:
        notes: sentences for below the table, such as how the pairs were run.
    """
    rows = [comparison_cells(label, one) for label, comparisons in groups.items() for one in comparisons]
    columns = _columns(one_line(a), one_line(b))
    first = 0 if any(row[0] for row in rows) else 1  # a job column only where jobs have names
    verdicts = [row[-1] for row in rows]
    room = (width or 100) - len("  cannot tell")
    lines = lay_out(columns[first:], [row[first:-1] for row in rows], room)
    padded = max((len(line) for line in lines), default=0)
    table = [f"{line:<{padded}}  {end}" for line, end in zip(lines, ["verdict", *verdicts], strict=True)]
    return "\n".join([*table, *map(one_line, notes)])


def _columns(a: str, b: str) -> tuple[GridColumn, ...]:
    return (
        GridColumn("job", flexible=True),
        GridColumn("metric", flexible=True),
        GridColumn(a, right=True, flexible=True),
        GridColumn(b, right=True, flexible=True),
        GridColumn("change", right=True),
    )


def comparison_cells(label: str, one: Comparison) -> tuple[str, ...]:
    """One line of a table: job, metric, both sides, change, verdict."""
    metric = one_line(name_with_unit(one.metric, one.unit))
    places = decimals_together((one.a, one.a_interval), (one.b, one.b_interval))
    sides = (show_side(one.a, one.a_interval, places), show_side(one.b, one.b_interval, places))
    return (one_line(label), metric, *sides, show_change(one), verdict_with_reason(one))


def decimals_together(*sides: tuple[float, Interval | None]) -> int:
    """The same decimals for values that stand beside each other, so that they can be compared by eye."""
    known = [decimals_for(value, interval.half_width) for value, interval in sides if interval]
    return max(known) if known else max(decimals_for(value, None) for value, _ in sides)


def show_side(value: float, interval: Interval | None, places: int) -> str:
    """Write the number of one side with its doubt: `6.74 ±0.18`."""
    return f"{show(value, places)} ±{show(interval.half_width, places) if interval else '?'}"


def show_change(one: Comparison) -> str:
    """Write the relative change with its interval: `+4.2 % [+2.1, +6.4]`."""
    if not one.a:
        return NOTHING
    return show_relative((one.b - one.a) / abs(one.a), one.change)


def show_relative(change: float, interval: Interval | None) -> str:
    """Write a relative change with its interval: `+4.2 % [+2.1, +6.4]`."""
    centre = show_percent(change, signed=True)
    return f"{centre} [{interval.low * 100:+.1f}, {interval.high * 100:+.1f}]" if interval else f"{centre} [unknown]"


def verdict_with_reason(one: Comparison) -> str:
    """The answer in words; what cannot be told always says why."""
    if one.answer != "cannot tell" and not one.because:
        return one.answer
    return one_line(f"{one.answer}: {'; '.join(one.because) or 'no reason was recorded'}")


@dataclass(frozen=True, slots=True)
class ComparedJob:
    """One job of a comparison under its name."""

    label: str
    found: JobComparison


@dataclass(frozen=True, slots=True)
class ComparisonResult:
    """Everything that is said about two sides."""

    a: Side
    b: Side
    jobs: tuple[ComparedJob, ...]
    only_a: tuple[str, ...]
    """Names of jobs that only one side has."""
    only_b: tuple[str, ...]

    @property
    def refused(self) -> tuple[str, ...]:
        """Why jobs are not comparable, one sentence each, with the jobs it is true of."""
        return sentences((job.label, job.found.pool.refused) for job in self.jobs)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What else differs, and which results were left out."""
        return sentences((job.label, (*job.found.pool.left_out, *job.found.pool.warnings)) for job in self.jobs)

    @property
    def is_worse(self) -> bool:
        return any(line.answer == "worse" for job in self.jobs for line in job.found.lines)

    @property
    def is_refused(self) -> bool:
        return all(job.found.pool.refused for job in self.jobs)


def compared(
    a: Side, b: Side, *, smallest: float = 0.0, anyway: bool = False, all_metrics: bool = False
) -> ComparisonResult:
    """Compare two sides job by job."""
    matching = match_jobs(a.records, b.records)
    labels = labels_of([pair.b[0] for pair in matching.pairs], b)
    jobs = []
    for pair, label in zip(matching.pairs, labels, strict=True):
        found = compare_pool(pool(pair, anyway=anyway), smallest=smallest)
        jobs.append(ComparedJob(label, found if all_metrics else replace(found, lines=_headlines(found))))
    return ComparisonResult(
        a, b, tuple(jobs), tuple(labels_of(matching.only_a, a)), tuple(labels_of(matching.only_b, b))
    )


def _headlines(found: JobComparison) -> tuple[Comparison, ...]:
    """What the metrics say that answer the question of a job, and its throughput."""
    by_name = {line.metric: line for line in found.lines}
    return tuple(by_name[name] for name in asked_of(found.pool.b[0]) if name in by_name)


def asked_of(job: MultiRunJobResult) -> tuple[str, ...]:
    """The metrics that are compared unless others are asked for: those that answer its question, and throughput."""
    return tuple(dict.fromkeys((*headline_of(job), "throughput_per_s")))


def labels_of(jobs: Sequence[MultiRunJobResult], side: Side) -> list[str]:
    """A name for each of some jobs of a side."""
    if not jobs:
        return []
    names = job_labels(replace(side.records[0], jobs=tuple(jobs)))
    return [names[job.job] for job in jobs]


def sentences(told: Iterable[tuple[str, Sequence[str]]]) -> tuple[str, ...]:
    """Sentences about jobs, each once: with the names of the jobs, unless it is true of all."""
    jobs = list(told)
    found = dict.fromkeys(one for _, reasons in jobs for one in reasons)
    return tuple(_named(one, [label for label, reasons in jobs if one in reasons], len(jobs)) for one in found)


def _named(sentence: str, labels: Sequence[str], jobs: int) -> str:
    return one_line(sentence if len(labels) == jobs else f"{', '.join(labels)}: {sentence}")


def compared_text(found: ComparisonResult, width: int) -> str:
    """Write a comparison for a terminal."""
    groups = {job.label: [_short(line, job) for line in job.found.lines] for job in found.jobs}
    shown = groups if len(groups) > 1 else {"": next(iter(groups.values()), [])}
    lines = [*(["not comparable because", *(f"  {one}" for one in found.refused)] if found.refused else [])]
    lines += [f"note: {one}" for one in found.warnings]
    return "\n".join([*lines, render_comparison(shown, notes=_notes(found), width=width)])


def _short(line: Comparison, job: ComparedJob) -> Comparison:
    """A line of a job that may not be compared, without the reasons that stand above the table."""
    return replace(line, because=("not comparable",)) if job.found.pool.refused else line


def _notes(found: ComparisonResult) -> list[str]:
    lone = [
        f"only in {side}: {', '.join(names)}" for side, names in (("a", found.only_a), ("b", found.only_b)) if names
    ]
    sides = [f"{name} {line}" for name, side in (("a", found.a), ("b", found.b)) for line in _results(side)]
    pooled = max(len(side.records) for side in (found.a, found.b)) > 1
    return [*lone, *sides, f"change is b against a, from the spread between {'results' if pooled else 'runs'}"]


def _results(side: Side) -> list[str]:
    return [
        f"{name} {record.benchmark} {record.created_at[:19]}".rstrip()
        for name, record in zip(side.names, side.records, strict=True)
    ]


def compared_json(found: ComparisonResult) -> str:
    """Write a comparison as one JSON document."""
    document = {
        "schema": _SCHEMA,
        "a": found.a.names[0] if len(found.a.names) == 1 else ", ".join(found.a.references),
        "b": found.b.names[0] if len(found.b.names) == 1 else ", ".join(found.b.references),
        "results": {"a": list(found.a.names), "b": list(found.b.names)},
        "not_comparable": list(found.refused),
        "warnings": list(found.warnings),
        "unmatched": {"a": list(found.only_a), "b": list(found.only_b)},
        "jobs": [_job_document(job) for job in found.jobs],
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def _job_document(job: ComparedJob) -> dict[str, Any]:
    chosen = job.found.pool
    return {
        "job": job.label,
        "a": [one.job for one in chosen.a],
        "b": [one.job for one in chosen.b],
        "comparable": not chosen.refused,
        "not_comparable": list(chosen.refused),
        "warnings": [*chosen.left_out, *chosen.warnings],
        "metrics": [to_plain(line) for line in job.found.lines],
    }


def compared_markdown(found: ComparisonResult) -> str:
    blocks: list[list[str]] = []
    if found.refused:
        blocks.append(["**Not comparable** because", "", *(f"- {escape(one)}" for one in found.refused)])
    several = len(found.jobs) > 1
    head = [*(["job"] if several else []), "metric", "a", "b", "change", "verdict"]
    rule = [*(["---"] if several else []), "---", "---:", "---:", "---:", "---"]
    rows = [
        comparison_cells(job.label, _short(line, job))[0 if several else 1 :]
        for job in found.jobs
        for line in job.found.lines
    ]
    blocks.append([f"| {' | '.join(cells)} |" for cells in (head, rule, *([escape(c) for c in row] for row in rows))])
    blocks.append([f"- {escape(one)}" for one in (*found.warnings, *_notes(found))])
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def compared_csv(found: ComparisonResult) -> str:
    """Write a comparison as CSV, one row per job and metric; what is not known is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for job in found.jobs:
        for line in job.found.lines:
            change = (line.b - line.a) / abs(line.a) if line.a else None
            row = (
                job.label,
                line.metric,
                line.unit,
                line.a,
                *_ends(line.a_interval),
                line.b,
                *_ends(line.b_interval),
                change,
                *_ends(line.change),
                line.answer,
                "; ".join(line.because),
            )
            writer.writerow([_cell(cell) for cell in row])
    return text.getvalue()


def _ends(interval: Interval | None) -> tuple[float | None, float | None]:
    return (interval.low, interval.high) if interval else (None, None)


def _cell(value: float | str | None) -> float | str:
    if isinstance(value, str) and value.startswith(_FORMULA_STARTS):
        return f"'{value}"
    return "" if value is None or (isinstance(value, float) and not math.isfinite(value)) else value
