"""Two sides of a comparison: what references name, then the answer, the table and why some of it is undecided."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from assay.analyse.compare import JobComparison, compare_pool, judged_together, match_jobs, pool, promise_of
from assay.analyse.gate import ByRun, statistic_of_run
from assay.analyse.records import CampaignRecord, Comparison, Interval, MultiRunJobResult
from assay.analyse.text import count
from assay.documents import from_json, to_plain
from assay.errors import UsageError
from assay.files import read_bounded
from assay.report.comparison_answer import (
    NOT_ALIKE,
    UndecidedReason,
    answer_word,
    comparison_sentences,
    undecided,
)
from assay.report.export import csv_cell
from assay.report.markdown import escape
from assay.report.numbers import NOTHING, decimals_for, name_with_unit, show, show_percent
from assay.report.sheet import GridColumn, lay_out, wrap
from assay.report.wording import headline_of, job_labels, one_line
from assay.run.records import SampleSet
from assay.store.references import MARKS, Most, NoSuchResultError, References, ResultIndex, ResultReference, is_file

_SCHEMA = "assay.comparison/1"
_COLUMNS = (
    "job", "metric", "unit", "a", "a_low", "a_high", "b", "b_low", "b_high", "change", "change_low", "change_high",
    "answer", "because",
)  # fmt: skip


def answers_table(head: Sequence[str], rows: Sequence[tuple[str, ...]], width: int) -> list[str]:
    """Lines of a table of changes, its last column never cut; jobs have a column only where they have names."""
    columns = [GridColumn(title, right=i >= 2, flexible=i < 4) for i, title in enumerate(head[:-1])]
    first = 0 if any(row[0] for row in rows) else 1
    lines = lay_out(columns[first:], [row[first:-1] for row in rows], width - len(f"  {NOT_ALIKE}"))
    padded = max(len(line) for line in lines)
    return [f"{line:<{padded}}  {end}" for line, end in zip(lines, [head[-1], *(row[-1] for row in rows)], strict=True)]


def comparison_cells(label: str, comparison: Comparison) -> tuple[str, ...]:
    """One line of a table: job, metric, both sides, change, verdict."""
    metric = one_line(name_with_unit(comparison.metric, comparison.unit))
    places = decimals_together((comparison.a, comparison.a_interval), (comparison.b, comparison.b_interval))
    sides = (
        show_side(comparison.a, comparison.a_interval, places),
        show_side(comparison.b, comparison.b_interval, places),
    )
    return (one_line(label), metric, *sides, show_change(comparison), verdict_with_reason(comparison))


def decimals_together(*sides: tuple[float, Interval | None]) -> int:
    """The same decimals for values that stand beside each other, so that they can be compared by eye."""
    decimals = [decimals_for(value, interval.half_width) for value, interval in sides if interval]
    return max(decimals) if decimals else max(decimals_for(value, None) for value, _ in sides)


def show_side(value: float, interval: Interval | None, places: int) -> str:
    """Write the number of one side with its doubt: `6.74 ±0.18`."""
    return f"{show(value, places)} ±{show(interval.half_width, places) if interval else '?'}"


def show_change(comparison: Comparison) -> str:
    """Write the relative change with its interval: `+4.2 % [+2.1, +6.4]`."""
    if not comparison.a:
        return NOTHING
    return show_relative((comparison.b - comparison.a) / abs(comparison.a), comparison.change)


def show_relative(change: float, interval: Interval | None) -> str:
    """Write a relative change with its interval: `+4.2 % [+2.1, +6.4]`."""
    centre = show_percent(change, signed=True)
    return f"{centre} [{interval.low * 100:+.1f}, {interval.high * 100:+.1f}]" if interval else f"{centre} [unknown]"


def verdict_with_reason(comparison: Comparison) -> str:
    """The answer in words; `cannot tell` always says why."""
    if comparison.answer != "cannot tell" and not comparison.because:
        return comparison.answer
    return one_line(f"{comparison.answer}: {'; '.join(comparison.because) or 'no reason was recorded'}")


@dataclass(frozen=True, slots=True)
class ComparedJob:
    """One job of a comparison under its name."""

    label: str
    result: JobComparison


@dataclass(frozen=True, slots=True)
class ComparisonResult:
    """Everything that is concluded about two sides."""

    a: Side
    b: Side
    jobs: tuple[ComparedJob, ...]
    only_a: tuple[str, ...]
    """Names of jobs that only one side has."""
    only_b: tuple[str, ...]
    promise: str = ""
    """How far answers among many numbers may be trusted; empty for a single one."""

    @property
    def refused(self) -> tuple[str, ...]:
        """Why jobs are not comparable, one sentence each, with the jobs it is true of."""
        return sentences((job.label, job.result.pool.refused) for job in self.jobs)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What else differs, and which results were left out."""
        return sentences((job.label, (*job.result.pool.left_out, *job.result.pool.warnings)) for job in self.jobs)

    @property
    def is_worse(self) -> bool:
        return any(line.answer == "worse" for job in self.jobs for line in job.result.lines)

    @property
    def is_refused(self) -> bool:
        return all(job.result.pool.refused for job in self.jobs)


def compared(
    a: Side, b: Side, *, smallest: float = 0.0, anyway: bool = False, all_metrics: bool = False
) -> ComparisonResult:
    matching = match_jobs(a.records, b.records)
    labels = labels_of([pair.b[0] for pair in matching.pairs], b)
    found = [compare_pool(pool(pair, anyway=anyway), smallest=smallest) for pair in matching.pairs]
    if not all_metrics:
        found = [replace(comparison, lines=_headlines(comparison)) for comparison in found]
    headlines = [default_metrics(comparison.pool.b[0]) for comparison in found]
    jobs = map(ComparedJob, labels, judged_together(found, headlines))
    return ComparisonResult(
        a,
        b,
        tuple(jobs),
        tuple(labels_of(matching.only_a, a)),
        tuple(labels_of(matching.only_b, b)),
        promise_of(found, headlines),
    )


def _headlines(result: JobComparison) -> tuple[Comparison, ...]:
    """What the metrics say that answer the question of a job, and its throughput."""
    by_name = {line.metric: line for line in result.lines}
    return tuple(by_name[name] for name in default_metrics(result.pool.b[0]) if name in by_name)


def default_metrics(job: MultiRunJobResult) -> tuple[str, ...]:
    """The metrics that are compared unless others are asked for: those that answer its question, and throughput."""
    return tuple(dict.fromkeys((*headline_of(job), "throughput_per_s")))


def labels_of(jobs: Sequence[MultiRunJobResult], side: Side) -> list[str]:
    if not jobs:
        return []
    names = job_labels(replace(side.records[0], jobs=tuple(jobs)))
    return [names[job.job] for job in jobs]


def sentences(reasons: Iterable[tuple[str, Sequence[str]]]) -> tuple[str, ...]:
    """Sentences about jobs, each once: with the names of the jobs, unless it is true of all."""
    jobs = list(reasons)
    distinct = dict.fromkeys(reason for _, reasons in jobs for reason in reasons)
    return tuple(
        _named(reason, [label for label, reasons in jobs if reason in reasons], len(jobs)) for reason in distinct
    )


def _named(sentence: str, labels: Sequence[str], jobs: int) -> str:
    return one_line(sentence if len(labels) == jobs else f"{', '.join(labels)}: {sentence}")


def compared_text(result: ComparisonResult, width: int) -> str:
    """The answer in sentences, the table, then each reason for doubt once; wrapped between words."""
    several = len(result.jobs) > 1
    head = ("job", "metric", "a", "b", "change", "verdict")
    rows = [(job.label if several else "", *cells[1:]) for job, cells in _table(result)]
    blocks = (
        [part for sentence in comparison_sentences(result) for part in wrap(sentence, width, "  ")],
        answers_table(head, rows, width),
        [part for reason in undecided(result) for part in _reason(reason, width)],
        [
            part
            for note in (*(f"note: {text}" for text in result.warnings), *_notes(result))
            for part in wrap(note, width, "  ")
        ],
    )
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _reason(reason: UndecidedReason, width: int) -> list[str]:
    remedy = " → compare anyway: --anyway" if reason.word == NOT_ALIKE else ""
    head = f"{reason.word}  {count(reason.rows, 'row')}  "
    return wrap(f"{reason.sentence}{remedy}", width, " " * len(head), head)


def _table(result: ComparisonResult) -> list[tuple[ComparedJob, tuple[str, ...]]]:
    """The cells of each row; why a row has no verdict stands once below the table."""
    return [
        (job, (*comparison_cells(job.label, line)[:-1], answer_word(line, job)))
        for job in result.jobs
        for line in job.result.lines
    ]


def _notes(result: ComparisonResult) -> list[str]:
    lone = [
        f"only in {side}: {', '.join(names)}" for side, names in (("a", result.only_a), ("b", result.only_b)) if names
    ]
    sides = [f"{name} {line}" for name, side in (("a", result.a), ("b", result.b)) for line in _results(side)]
    pooled = max(len(side.records) for side in (result.a, result.b)) > 1
    promise = [result.promise] if result.promise else []
    return [
        *lone,
        *sides,
        *promise,
        f"change is b against a, from the spread between {'results' if pooled else 'runs'}",
    ]


def _results(side: Side) -> list[str]:
    return [
        f"{name} {record.benchmark} {record.created_at[:19]}".rstrip()
        for name, record in zip(side.names, side.records, strict=True)
    ]


def compared_json(result: ComparisonResult) -> str:
    document = {
        "schema": _SCHEMA,
        "a": result.a.names[0] if len(result.a.names) == 1 else ", ".join(result.a.references),
        "b": result.b.names[0] if len(result.b.names) == 1 else ", ".join(result.b.references),
        "results": {"a": list(result.a.names), "b": list(result.b.names)},
        "answer": list(comparison_sentences(result)),
        "promise": result.promise or None,
        "not_comparable": list(result.refused),
        "warnings": list(result.warnings),
        "unmatched": {"a": list(result.only_a), "b": list(result.only_b)},
        "jobs": [_job_document(job) for job in result.jobs],
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def _job_document(job: ComparedJob) -> dict[str, Any]:
    chosen = job.result.pool
    return {
        "job": job.label,
        "a": [member.job for member in chosen.a],
        "b": [member.job for member in chosen.b],
        "comparable": not chosen.refused,
        "not_comparable": list(chosen.refused),
        "warnings": [*chosen.left_out, *chosen.warnings],
        "metrics": [to_plain(line) for line in job.result.lines],
    }


def compared_markdown(result: ComparisonResult) -> str:
    blocks: list[list[str]] = [[f"- {escape(sentence)}" for sentence in comparison_sentences(result)]]
    several = len(result.jobs) > 1
    head = [*(["job"] if several else []), "metric", "a", "b", "change", "verdict"]
    rule = [*(["---"] if several else []), "---", "---:", "---:", "---:", "---"]
    rows = [cells[0 if several else 1 :] for _, cells in _table(result)]
    blocks.append([f"| {' | '.join(cells)} |" for cells in (head, rule, *([escape(c) for c in row] for row in rows))])
    reasons = [
        f"- **{reason.word}** ({count(reason.rows, 'row')}): {escape(reason.sentence)}" for reason in undecided(result)
    ]
    blocks += [reasons] if reasons else []
    blocks.append([f"- {escape(note)}" for note in (*result.warnings, *_notes(result))])
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def compared_csv(result: ComparisonResult) -> str:
    """Write a comparison as CSV, one row per job and metric; what is not known is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for job in result.jobs:
        for line in job.result.lines:
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
            writer.writerow([csv_cell(cell) for cell in row])
    return text.getvalue()


def _ends(interval: Interval | None) -> tuple[float | None, float | None]:
    return (interval.low, interval.high) if interval else (None, None)


# A document of this size holds thousands of jobs.
_LARGEST = 512 * 2**20


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison: the results that were named, the newest first."""

    references: tuple[str, ...]
    """As they were written."""
    records: tuple[CampaignRecord, ...]
    names: tuple[str, ...]
    """What each record is called: the id of a campaign, or a file; with the job where one was named."""
    whole: bool = True
    """Whether campaigns were named, and no single jobs of them."""

    @property
    def benchmark(self) -> str:
        """The benchmark of the newest result; empty where it is not known."""
        return self.records[0].benchmark if self.records else ""


class ResultSource(ResultIndex, Protocol):
    """Where results are read that references name."""

    def record(self, campaign: str) -> CampaignRecord: ...

    def samples(self, job: str, run: int) -> tuple[SampleSet, ...]: ...


class Reader:
    """Reads what references name; opens the source at the first that needs it: files need none."""

    def __init__(
        self, open_source: Callable[[], AbstractContextManager[ResultSource]], repository: Path | None = None
    ) -> None:
        self._open = open_source
        self._stack = ExitStack()
        self._source: ResultSource | None = None
        self._references = References(self.source, repository=repository)

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def source(self) -> ResultSource:
        """The source, opened once."""
        if self._source is None:
            self._source = self._stack.enter_context(self._open())
        return self._source

    def side(
        self, references: Sequence[str], *, benchmark: str = "", most: Most = None, but: Collection[str] = ()
    ) -> Side:
        """Read the results of some references.

        Args:
            benchmark: Labels and commits are looked for among the campaigns of this benchmark alone.
            most: How many of those that a label, a commit or a folder names.
        """
        find = self._references.find
        named = [reference for text in references for reference in find(text, benchmark=benchmark, most=most, but=but)]
        distinct = list(dict.fromkeys(named))
        read = [(record, reference) for reference in distinct if (record := self._read(reference)).campaign not in but]
        if not read:
            message = f"{', '.join(references)} names nothing but the result itself"
            raise NoSuchResultError(message, try_="name an earlier result")
        read.sort(key=lambda pair: pair[0].created_at, reverse=True)
        return Side(
            tuple(references),
            tuple(record for record, _ in read),
            tuple(str(reference) for _, reference in read),
            whole=all(reference.job is None for reference in distinct),
        )

    def samples(self, job: str, run: int) -> tuple[SampleSet, ...]:
        """The samples of a run; none where only a document of it is available."""
        return () if self._source is None else self._source.samples(job, run)

    def _read(self, named: ResultReference) -> CampaignRecord:
        record = read_document(named.path) if named.path else self.source().record(named.campaign)
        if named.job is None:
            return record
        chosen = tuple(job for job in record.jobs if job.index == named.job)
        if not chosen:
            numbers = [job.index for job in record.jobs]
            raise UsageError(
                f"{replace(named, job=None)} has no job {named.job}",
                code="unknown-job",
                try_=f"use {min(numbers)} to {max(numbers)}" if numbers else "",
            )
        return replace(record, jobs=chosen)


def read_document(path: Path) -> CampaignRecord:
    """Read a result document: of a campaign, or of one job as `assay exec` writes it."""
    try:
        text = read_bounded(path, _LARGEST)
    except OSError as problem:
        raise UsageError(f"cannot read the result: {problem.strerror}", code="no-file", at=str(path)) from None
    if _is_job(text):
        job = from_json(MultiRunJobResult, text, source=str(path))
        return CampaignRecord(job.job, "", job.completed_at or "", job.state, (job,))
    return from_json(CampaignRecord, text, source=str(path))


def _is_job(text: bytes) -> bool:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and "runs" in document and "jobs" not in document


def names_itself(reference: str) -> bool:
    """Whether a reference itself says which result is meant, whatever the benchmark."""
    return is_file(reference) or not reference.startswith(MARKS)


def by_run_of(reader: Reader) -> ByRun:
    """What each run of a job gave of a statistic, from its samples; nothing where a run does not back it."""

    def by_run(job: MultiRunJobResult, metric: str, statistic: str) -> Mapping[int, float]:
        runs = [run.run_id for run in job.runs if run.error is None]
        values = {run: statistic_of_run(reader.samples(job.job, run), metric, statistic) for run in runs}
        present = {run: value for run, value in values.items() if value is not None}
        # Some of the runs would be another set of runs than the one that the result speaks of.
        return present if len(present) == len(values) else {}

    return by_run
