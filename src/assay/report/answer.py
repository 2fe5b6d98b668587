"""The answer of a campaign in words: what a reader wants to know first, for terminal, HTML report and dashboard.

`write_answer` gives it as plain text in parts, every name and number as a reader sees it; `answer_lines` writes the
same for a terminal. A part that has nothing to say is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import JsonValue
from rich.cells import cell_len

from assay.analyse.answer import (
    AnswerColumn,
    AnswerFigure,
    AnswerRow,
    AxisEffect,
    CampaignAnswer,
    DoubtGroup,
    FailureGroup,
    Severity,
    answer_of,
)
from assay.analyse.records import CampaignRecord
from assay.analyse.text import all_of, count
from assay.metrics import Better
from assay.report.numbers import NOTHING, decimals_for, name_with_unit, show, show_spread
from assay.report.reasons import reason_title, remedy_of
from assay.report.sheet import GridColumn, Sheet, lay_out, pad, shorten, wrap
from assay.report.wording import as_number, axis_point, job_labels, machine, machine_name, one_line, phase_words
from assay.units import SECONDS, show_seconds

# Names that a first sentence lists before it counts the rest.
_NAMED = 3
# Lines of a log that say why something failed.
_LAST_LINES = 5
# A label of up to this width is cut only where no column is left to go.
_LABEL = 40
_UNMEASURED = {
    "failed": "failed",
    "poisoned": "set aside",
    "cancelled": "cancelled",
    "running": "still running",
    "pending": "not started",
}


@dataclass(frozen=True, slots=True)
class AnswerCell:
    """One number as it is shown."""

    value: str
    """`4.02`, or `-` where it was not measured."""
    interval: str
    """`3.97 to 4.09`; empty where there is none."""
    spread: str
    """`±1.5 %`; empty where there is no value, `±?` where one run says nothing."""


@dataclass(frozen=True, slots=True)
class AnswerLine:
    """One job of the table."""

    job: str
    index: int
    label: str
    verdict: str
    cells: tuple[AnswerCell, ...]
    """One for each column."""
    reason: str
    """The main reason of the verdict in a few words, or the code of the failure; empty where there is none."""


@dataclass(frozen=True, slots=True)
class DoubtLine:
    """One reason for doubt, over all jobs that it concerns."""

    check: str
    severity: Severity
    title: str
    """`machine busy`."""
    jobs: tuple[str, ...]
    worst: str
    """What was found where it is worst, with figure and limit."""
    remedy: str
    """What to do; empty where nothing general helps."""


@dataclass(frozen=True, slots=True)
class FailureLine:
    """Jobs that failed for one reason."""

    code: str
    jobs: tuple[str, ...]
    message: str
    remedy: str
    last_lines: tuple[str, ...] = ()
    """What the first of them wrote last, where that says why."""


@dataclass(frozen=True, slots=True)
class WrittenAnswer:
    """What a reader wants to know first, in words."""

    title: str
    """What was measured where, how many jobs, how long: `two networks · AMD EPYC, 2 cores · 8 jobs in 1 min 52 s`."""
    sentences: tuple[str, ...]
    """The answer: the best point or the one result, the effect of each axis, how far to trust it."""
    columns: tuple[AnswerColumn, ...]
    """The metrics of the table, the one that answers the question first."""
    lines: tuple[AnswerLine, ...]
    """The best first."""
    doubts: tuple[DoubtLine, ...]
    """At most ten, the most serious first."""
    more_doubts: int
    """How many reasons are not listed."""
    failures: tuple[FailureLine, ...]


def write_answer(record: CampaignRecord, baseline: CampaignRecord | None = None) -> WrittenAnswer:
    """Put the answer of a campaign into words.

    Args:
        baseline: an earlier campaign to hold this one against.
    """
    answer = answer_of(record, baseline)
    labels = job_labels(record)
    codes = {job: group.code for group in answer.failures for job in group.jobs}
    return WrittenAnswer(
        title=title_of(record),
        sentences=tuple(_sentences(answer, labels)),
        columns=answer.columns,
        lines=tuple(_line(row, labels, codes) for row in answer.rows),
        doubts=tuple(_doubt(group, record.campaign) for group in answer.doubts),
        more_doubts=answer.more_doubts,
        failures=tuple(_failure(group) for group in answer.failures),
    )


def title_of(record: CampaignRecord) -> str:
    """What was measured, on which machine, how many jobs and how long it took."""
    jobs = count(len(record.jobs), "job")
    is_over = all(job.state not in ("pending", "running") for job in record.jobs)
    took = _took(record) if is_over else ""
    parts = (one_line(record.benchmark), _machine(record), f"{jobs} in {took}" if took else jobs)
    return " · ".join(part for part in parts if part)


def _machine(record: CampaignRecord) -> str:
    names = dict.fromkeys(name for job in record.jobs if (name := machine_name(job)))
    if len(names) > 1:
        return count(len(names), "machine")
    known: list[Mapping[str, JsonValue]] = [machine(job) for job in record.jobs if machine(job)]
    facts = known[0] if known else {}
    chip = one_line(str(facts.get("gpu") or facts.get("cpu") or facts.get("soc") or facts.get("name") or ""))
    cores = as_number(facts.get("cores"))
    return f"{chip}, {cores:g} cores" if chip and cores else chip


def _took(record: CampaignRecord) -> str:
    starts = [job.started_at for job in record.jobs if job.started_at]
    ends = [job.completed_at for job in record.jobs if job.completed_at]
    if not starts or not ends:
        return ""
    first, last = min(map(datetime.fromisoformat, starts)), max(map(datetime.fromisoformat, ends))
    return show_seconds((last - first).total_seconds()) if last > first else ""


# --- sentences


def _sentences(answer: CampaignAnswer, labels: Mapping[str, str]) -> Iterable[str]:
    yield _first_sentence(answer, labels)
    if answer.effects:
        yield f"{'; '.join(_effect(effect) for effect in answer.effects[:_NAMED])}."
    if (baseline := answer.baseline) is not None:
        counts = (
            (baseline.better, "better"),
            (baseline.worse, "worse"),
            (baseline.cannot_tell, "cannot tell"),
            (baseline.not_alike, f"not like for like ({baseline.difference})"),
        )
        moved = ", ".join(f"{number} {word}" for number, word in counts if number) or "no job in common"
        yield f"Against {baseline.campaign}: {moved}."
    if trust := _trust(answer):
        yield trust


def _first_sentence(answer: CampaignAnswer, labels: Mapping[str, str]) -> str:
    """The capacity that was searched for, the best point, or the one result that there is."""
    rows = [row for row in answer.rows if row.figures and row.figures[0] is not None and row.verdict != "invalid"]
    if answer.capacities and not any(found.figure for found in answer.capacities):
        return f"No capacity was found: {one_line(answer.capacities[0].reason)}."
    if not rows:
        return _nothing(answer)
    column, best = answer.columns[0], answer.best
    if best is None or len(answer.rows) == 1:
        return f"{labels[rows[0].job]}: {_figures(rows[0], answer.columns)}."
    if len(best.jobs) == 1:
        row = next(row for row in rows if row.job == best.jobs[0])
        named = f"{labels[row.job]}, {_figures(row, answer.columns[:1])}{_its_quality(row, answer)}"
        return f"{_superlative(column)}: {named}{_caveat(row, answer)}{_best_quality(answer, labels, row.job)}."
    close = f"{_level(best.jobs, best.compared, labels)}{f' ({best.because})' if best.because else ''}"
    return f"Cannot tell which is {_superlative(column).lower()}: {close}{_best_quality(answer, labels)}."


def _its_quality(row: AnswerRow, answer: CampaignAnswer) -> str:
    """How good the answers of the fastest point are, since the fastest is often the worst."""
    columns = answer.columns
    place = next((place for place, column in enumerate(columns) if column.is_quality), 0)
    figure = row.figures[place]
    return f", at {_figure(columns[place], figure)}" if place and figure else ""


def _best_quality(answer: CampaignAnswer, labels: Mapping[str, str], fastest: str = "") -> str:
    """Which point answers best, where it is another one than the fastest."""
    quality = answer.quality
    measured = [row for row in answer.rows if row.figures and row.figures[0] is not None]
    if quality is None or len(quality.jobs) == len(measured):
        return ""
    if fastest in quality.jobs:
        return ", which none exceeds"
    place = answer.columns.index(quality.column)
    by_job = {row.job: row for row in measured}
    highest = by_job[quality.jobs[0]].figures[place]
    # Of those that answer equally well, the first in the table is the fastest.
    best = next(row for row in measured if row.job in quality.jobs and row.figures[place] == highest)
    name, value = one_line(quality.column.metric), _cell(highest).value
    return f"; best {name}: {value} with {labels[best.job]}, {_figures(best, answer.columns[:1])}"


def _nothing(answer: CampaignAnswer) -> str:
    """Why there is no number to name."""
    verdicts = answer.verdicts
    if not verdicts:
        return "There are no jobs."
    counts = ", ".join(f"{number} {_UNMEASURED.get(word, word)}" for word, number in verdicts.items())
    if set(verdicts) <= {"pending", "running"}:
        return f"No job has ended yet: {counts}."
    if set(verdicts) == {"failed"}:
        return f"Nothing was measured: {all_of(verdicts['failed'], 'job')} failed."
    return f"There is no number to rely on: {counts}."


def _level(jobs: Sequence[str], compared: int, labels: Mapping[str, str]) -> str:
    if len(jobs) == compared and compared > _NAMED:
        return f"all {compared} are too close"
    names = [labels[job] for job in jobs]
    rest = len(names) - _NAMED
    return f"{_joined([*names[:_NAMED], *([f'{rest} more'] if rest > 0 else [])])} are too close"


def _joined(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _caveat(row: AnswerRow, answer: CampaignAnswer) -> str:
    """What a number is called that its checks speak against; where all are like that, another sentence says it."""
    some = row.verdict == "suspect" and answer.verdicts["suspect"] < _measured(answer)
    return ", which is suspect" if some else ""


def _superlative(column: AnswerColumn) -> str:
    """What the best point is called: by a time it is the fastest."""
    if column.better == "lower":
        return "Fastest" if column.unit in SECONDS else f"Lowest {one_line(column.metric)}"
    return f"Highest {one_line(column.metric)}"


def _figures(row: AnswerRow, columns: Sequence[AnswerColumn]) -> str:
    """The numbers of a job: `latency_ms 4.02 (3.97 to 4.09), throughput_per_s 248`."""
    pairs = list(zip(columns, row.figures, strict=False))[:_NAMED]
    return ", ".join(_figure(column, figure) for column, figure in pairs if figure is not None)


def _figure(column: AnswerColumn, figure: AnswerFigure) -> str:
    """One number with its name: `latency_ms 4.02 (3.97 to 4.09)`."""
    return f"{_head(column)} {_with_ends(_cell(figure))}"


def _with_ends(cell: AnswerCell) -> str:
    return f"{cell.value} ({cell.interval})" if cell.interval else cell.value


def _effect(effect: AxisEffect) -> str:
    """The effect of one axis: `threads=2 is 1.9× as fast as threads=1 (1.7× to 2.0×)`."""
    base, other = (axis_point(effect.path, value) for value in (effect.base, effect.other))
    if effect.gain is None or effect.interval is None or effect.answer == "cannot tell":
        return f"{other} against {base}: cannot tell ({effect.because})"
    ends = (effect.interval.low, effect.interval.high)
    gain, extremes = effect.gain, effect.extremes
    if gain < 1:  # said of the better one
        base, other, gain, ends = other, base, 1 / gain, (1 / ends[1], 1 / ends[0])
        extremes = extremes and (1 / extremes[1], 1 / extremes[0])
    average = f" on average over {effect.points} pairs" if effect.points > 1 else ""
    spread = f"; {_times(extremes[0])} to {_times(extremes[1])} by pair" if extremes else ""
    sentence = _compared(effect.metric, effect.better, other, base, _times(gain))
    return f"{sentence}{average} ({_times(ends[0])} to {_times(ends[1])}{spread})"


def _compared(metric: str, better: Better, best: str, beside: str, times: str) -> str:
    if metric.partition("{")[0].endswith(("_ms", "_s")) and better == "lower":
        return f"{best} is {times} as fast as {beside}"
    if metric.endswith("_per_s"):
        return f"{best} has {times} the {one_line(metric)} of {beside}"
    return f"{one_line(metric)} is {times} as {'low' if better == 'lower' else 'high'} with {best} as with {beside}"


def _times(value: float) -> str:
    """A factor: `1.94×`, `12×`."""
    return f"{value:.2f}×" if value < 10 else f"{value:,.0f}×"


def _trust(answer: CampaignAnswer) -> str:
    """How far the numbers can be trusted: verdicts with their main reason, and what was not measured."""
    counts = answer.verdicts
    measured = _measured(answer)
    if not measured:
        return ""
    parts = []
    for word in ("invalid", "suspect"):
        if number := counts.get(word, 0):
            main = next((group for group in answer.doubts if group.severity == word), None)
            concerned = f"{reason_title(main.severity, main.check)}, {count(len(main.jobs), 'job')}" if main else ""
            reason = f" (main reason: {concerned})" if concerned else ""
            parts.append(f"{_share(number, measured, 'result')} {_is(number)} {word}{reason}")
    if not parts and counts.get("valid", 0) == measured > 0:
        parts.append(f"{_share(measured, measured, 'result')} {_is(measured)} valid")
    parts += [
        f"{count(number, 'job')} {words}" for state, words in _UNMEASURED.items() if (number := counts.get(state, 0))
    ]
    return f"{'; '.join(parts)}." if parts else ""


def _measured(answer: CampaignAnswer) -> int:
    return sum(answer.verdicts.get(word, 0) for word in ("valid", "suspect", "invalid", "not judged"))


def _share(number: int, whole: int, thing: str) -> str:
    if number == whole:
        return all_of(whole, thing).capitalize()
    return f"{number} of {count(whole, thing)}"


def _is(number: int) -> str:
    return "is" if number == 1 else "are"


# --- rows, doubts, failures


def _line(row: AnswerRow, labels: Mapping[str, str], codes: Mapping[str, str]) -> AnswerLine:
    cells = tuple(_cell(figure) for figure in row.figures)
    reason = reason_title(*row.reason) if row.reason else codes.get(row.job, "")
    return AnswerLine(row.job, row.index, labels[row.job], row.verdict, cells, reason)


def _cell(figure: AnswerFigure | None) -> AnswerCell:
    if figure is None:
        return AnswerCell(NOTHING, "", "")
    places = decimals_for(figure.value, figure.interval.half_width if figure.interval else None)
    if figure.interval is None:
        return AnswerCell(show(figure.value, places), "", "±?")
    low, high = show(figure.interval.low, places), show(figure.interval.high, places)
    ends = "" if low == high else f"{low} to {high}"  # a score may be the same in every run
    return AnswerCell(show(figure.value, places), ends, show_spread(figure.interval))


def _doubt(group: DoubtGroup, campaign: str) -> DoubtLine:
    remedy = remedy_of(group.check)
    return DoubtLine(
        group.check,
        group.severity,
        reason_title(group.severity, group.check),
        group.jobs,
        _brief(one_line(group.worst)),
        remedy.replace("ID", campaign),
    )


def _brief(finding: str) -> str:
    """What was found and its limit, without the advice for which the remedy stands and without further findings."""
    found = "; ".join(finding.split("; ")[:2])
    return found.partition(", so ")[0]


def _failure(group: FailureGroup) -> FailureLine:
    message = one_line(f"error[{group.code}]{phase_words(group.phase)}: {group.message}")
    written = tuple(line for entry in group.log_tail if (line := one_line(entry)))[-_LAST_LINES:]
    return FailureLine(group.code, group.jobs, message, one_line(group.try_), written)


# --- as lines of a terminal


def answer_lines(written: WrittenAnswer, width: int) -> list[str]:
    """The title, the sentences and the table, none of them wider than `width`."""
    answer = [line for sentence in written.sentences for line in wrap(sentence, width, "")]
    table = table_lines(written, width)
    return [*wrap(written.title, width, "  "), "", *answer, *(["", *table] if table else [])]


def table_lines(written: WrittenAnswer, width: int) -> list[str]:
    """The table of all jobs; what a narrow terminal has no room for is left out."""
    sheet = answer_sheet(written)
    if sheet is None:
        return []
    longest = max(cell_len(line.label) for line in written.lines)
    job, first, interval, spread, *others, verdict, reason = sheet.head
    columns = [
        GridColumn(job, flexible=True, shortest=min(longest, _LABEL)),
        GridColumn(first, right=True),
        GridColumn(interval, right=True, expendable=3),
        GridColumn(spread, right=True, expendable=1),
        *(GridColumn(name, right=True, expendable=rank) for name, rank in zip(others, _ranks(written), strict=True)),
        GridColumn(verdict),
        GridColumn(reason, expendable=4),
    ]
    return lay_out(columns, sheet.rows, width)


def _ranks(written: WrittenAnswer) -> list[int]:
    """When a narrow terminal drops the columns beside the first: what stands beside it and the first quality last."""
    quality = next((place for place, column in enumerate(written.columns[1:]) if column.is_quality), 0)
    return [2 if place in (0, quality) else place + 5 for place in range(len(written.columns) - 1)]


def answer_sheet(written: WrittenAnswer) -> Sheet | None:
    """One row per job, the best first: the first metric with its interval, the others beside it, the verdict."""
    if not written.columns:
        return None
    first, *others = map(_head, written.columns)
    head = ("job", first, "interval", "±", *others, "verdict", "reason")
    rows = tuple(
        (
            line.label,
            line.cells[0].value,
            line.cells[0].interval,
            line.cells[0].spread,
            *(_beside(column, cell) for column, cell in zip(written.columns[1:], line.cells[1:], strict=True)),
            line.verdict,
            line.reason,
        )
        for line in written.lines
    )
    verdict = len(head) - 2
    return Sheet("All jobs, the best first", head, rows, words=frozenset({0, verdict, verdict + 1}), verdict=verdict)


def _beside(column: AnswerColumn, cell: AnswerCell) -> str:
    """A number beside the first; of a score its interval belongs to it."""
    return _with_ends(cell) if column.is_quality else cell.value


def _head(column: AnswerColumn) -> str:
    return one_line(name_with_unit(column.metric, column.unit))


def doubt_lines(written: WrittenAnswer, width: int, campaign: str) -> list[str]:
    """One entry per reason, at most ten: title, how many jobs, what was found where it is worst, what to do."""
    if not written.doubts:
        return []
    left = max(cell_len(doubt.title) for doubt in written.doubts)
    counts = [count(len(doubt.jobs), "job") for doubt in written.doubts]
    middle = max(map(len, counts))
    lines: list[str] = []
    for doubt, jobs in zip(written.doubts, counts, strict=True):
        head = f"  {pad(doubt.title, left)}  {jobs:>{middle}}  "
        remedy = f" → {doubt.remedy}" if doubt.remedy else ""
        lines += wrap(f"{doubt.worst}{remedy}", width, " " * cell_len(head), head)
    more = f"{count(written.more_doubts, 'more reason')}, and " if written.more_doubts else ""
    return [*lines, f"  {more}every reason of every job: assay results show {campaign} --why"]


def failure_lines(written: WrittenAnswer, width: int) -> list[str]:
    """One entry per reason of failure: how many jobs, the message, the last lines written, what to try."""
    lines: list[str] = []
    indent = " " * 8
    for failure in written.failures:
        head = f"  {count(len(failure.jobs), 'job')} failed  "
        remedy = f"→ {failure.remedy}" if failure.remedy else ""
        if not failure.last_lines:
            lines += wrap(f"{failure.message} {remedy}", width, indent, head)
            continue
        lines += wrap(failure.message, width, indent, head)
        lines += [f"{indent}| {shorten(line, max(width - 10, 20))}" for line in failure.last_lines]
        lines += wrap(remedy, width, f"{indent}  ", indent) if remedy else []
    return lines
