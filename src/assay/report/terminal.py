"""Results on a terminal: the answer of a campaign, all of its jobs with every doubt, and one job in full."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pydantic import JsonValue

from assay.analyse.records import CampaignRecord, Check, MetricStatistics, MultiRunJobResult
from assay.analyse.summary import Quality, ScoreRecord
from assay.analyse.text import run_name
from assay.report.answer import answer_lines, doubt_lines, failure_lines, write_answer
from assay.report.device import device_sheet
from assay.report.numbers import (
    NOTHING,
    decimals_for,
    decimals_of,
    name_with_unit,
    show,
    show_count,
    show_spread,
    show_statistics,
    show_tail,
    tail_needs,
)
from assay.report.sections import ReportSection, job_sections
from assay.report.served import (
    load_sheet,
    search_sentences,
)
from assay.report.sheet import GridColumn, Sheet, lay_out, pad, paint, sheet_lines, text_table
from assay.report.telemetry import (
    efficiency_sheet,
    energy_sentence,
    grade_of,
    with_grade,
)
from assay.report.wording import (
    MEANING,
    check_sentence,
    check_word,
    failed_checks,
    flat,
    gate_word,
    headline_of,
    headlines,
    job_count,
    job_label,
    job_labels,
    machine_sentence,
    one_line,
    unmeasured_sentence,
    verdict_counts,
    verdict_word,
)

WIDTH = 100  # columns of a table when the width of the terminal is not known


def render_answer(record: CampaignRecord, *, width: int | None = None, colour: bool = False) -> str:
    """Write what a campaign answers: sentences, a table with the best job first, doubts and failures by reason.

    Lines are wrapped between words, at `width` columns (100 when left out).
    """
    room = width or WIDTH
    written = write_answer(record)
    blocks = (
        answer_lines(written, room),
        *_devices(record, job_labels(record), room),
        _under("reasons for doubt", doubt_lines(written, room, record.campaign)),
        failure_lines(written, room),
    )
    text = "\n\n".join("\n".join(block) for block in blocks if block)
    return paint(text) if colour else text


def _under(title: str, lines: list[str]) -> list[str]:
    return [title, *lines] if lines else []


def render_table(record: CampaignRecord, *, width: int | None = None, colour: bool = False) -> str:
    """Write a campaign in detail, one line per job and headline metric, with every doubt of every job below.

    No line of the table is wider than `width` (100 when left out). The sentences below it are one line
    each and are never cut: a reason that is cut off is no reason.
    """
    labels = job_labels(record)
    devices = _devices(record, labels, width or WIDTH)
    summary = summary_sheet([job for job in record.jobs if device_sheet(job) is None], labels)
    doubts = [line for job in record.jobs for line in _doubts(job, labels[job.job])]
    load = _load(record, labels, width or WIDTH)
    energy = [
        _doubt("energy", labels[job.job], energy_sentence(job))
        for job in record.jobs
        if grade_of(job) and job.state == "done"
    ]
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
    sheets = ((job, device_sheet(job)) for job in record.jobs)
    return [[f"{labels[job.job]}  {verdict_word(job)}", *sheet_lines(sheet, width)] for job, sheet in sheets if sheet]


def _load(record: CampaignRecord, labels: Mapping[str, str], width: int) -> list[str]:
    """Jobs that answer requests side by side, one line each: speed, quality, errors and cost."""
    sheet = load_sheet(record, labels)
    if sheet is None:
        return []
    searches = [f"{labels[job.job]}: {line}" for job in record.jobs for line in search_sentences(job)]
    return [*sheet_lines(sheet, width), *searches]


def _doubts(job: MultiRunJobResult, label: str) -> list[str]:
    if job.state == "failed":
        error = job.failure
        lines = [unmeasured_sentence(job)]
        lines += [one_line(f"try: {error.try_}")] if error and error.try_ else []
        return [_doubt("failed", label, line) for line in lines]
    doubts = [_doubt(check_word(check), label, check_sentence(check)) for check in failed_checks(job)]
    gates = [
        _doubt("gate", label, f"{gate_word(gate)}: {check_sentence(gate)}")
        for gate in job.gates
        if gate.passed is not True
    ]
    return doubts + gates


def _doubt(word: str, label: str, sentence: str) -> str:
    return f"{pad(word, 7)}  {label}: {sentence}"


def _footnotes(record: CampaignRecord) -> list[str]:
    jobs = [job for job in record.jobs if job.state == "done" and device_sheet(job) is None]
    shown = [job.metrics[name] for job in jobs for name in headline_of(job)]
    notes = []
    if any(stats.p99 is None for stats in shown):
        notes.append(f"p99 is {NOTHING} where there are too few samples: {tail_needs('p99')}")
    if any(stats.interval is None for stats in shown):
        notes.append("±? means that the doubt is unknown: the interval comes from the spread between runs")
    return notes


# How fast answers come, of a language model; other targets show what answers their own question.
_SPEED = ("ttft_ms", "itl_ms", "e2e_ms", "output_tokens_per_s")
_EXPENDABLE = 3  # from this column of a kind on, a narrow terminal goes without
Scores = Mapping[str, Sequence[ScoreRecord]]


def summary_sheet(jobs: Sequence[MultiRunJobResult], labels: Mapping[str, str]) -> Sheet:
    """One line per job and headline metric; a job without numbers has a line of dashes."""
    # The title promises what the intervals really are.
    levels = {stats.interval.level for job in jobs for stats in job.metrics.values() if stats.interval}
    interval = f"{levels.pop() * 100:g} % interval" if len(levels) == 1 else "interval"
    head = ("job", "metric", "median", interval, "±", "p99", "runs×samples", "verdict")
    rows = tuple(row for job in jobs for row in _rows(job, labels[job.job]))
    return Sheet("all jobs", head, rows, words=frozenset({0, 1, 7}), kept=(0, 1, 2, 3, 7), verdict=7)


def _rows(job: MultiRunJobResult, label: str) -> Iterator[tuple[str, ...]]:
    word = verdict_word(job)
    for name, stats in headlines(job):
        if stats is None:
            yield (label, name or NOTHING, *[NOTHING] * 5, word)
            continue
        shown = show_statistics(stats, name)
        p99, count = show(stats.p99, decimals_of(stats)), show_count(stats.runs, stats.count)
        metric = one_line(name_with_unit(name, stats.unit))
        yield (label, metric, shown.median, shown.interval, shown.spread, p99, count, word)


def render_scores(results: Sequence[MultiRunJobResult], scores: Scores, width: int) -> str:
    """Write one line per job: the newest word of each scorer, then speed."""
    newest = {
        job: {name: metric for record in records for name, metric in record.metrics.items()}
        for job, records in scores.items()
    }
    quality = list(dict.fromkeys(name for metrics in newest.values() for name in metrics))
    speed = list(dict.fromkeys(name for result in results for name in _speed(result)))
    columns = [
        GridColumn("job", flexible=True),
        *(GridColumn(one_line(name), right=True, expendable=_rank(place)) for place, name in enumerate(quality)),
        *(GridColumn(one_line(name), right=True, expendable=_rank(place)) for place, name in enumerate(speed)),
    ]
    rows = [
        (
            job_label(result.point, result.definition),
            *(
                " ".join(_figures(score)) if (score := newest.get(result.job, {}).get(name)) is not None else NOTHING
                for name in quality
            ),
            *(_speed_cell(result, name) for name in speed),
        )
        for result in results
    ]
    notes = ["quality is the mean over answers, speed the median over samples; ± is the interval between runs"]
    return "\n".join([*lay_out(columns, rows, width), "", *notes, *_sources(results, scores)])


def score_lines(records: Sequence[ScoreRecord]) -> list[str]:
    """One job's scores, a line for each metric of each scorer and day."""
    rows = [
        (one_line(name), record.computed_at[:19], one_line(record.scorer), *_figures(quality), one_line(record.version))
        for record in records
        for name, quality in record.metrics.items()
    ]
    widths = [max(len(row[place]) for row in rows) for place in range(6)] if rows else []
    return ["  " + "  ".join(pad(cell, size) for cell, size in zip(row, widths, strict=True)).rstrip() for row in rows]


def _speed(result: MultiRunJobResult) -> tuple[str, ...]:
    return tuple(name for name in _SPEED if name in result.metrics) or (headline_of(result) if result.metrics else ())


def _rank(place: int) -> int:
    return max(place - _EXPENDABLE + 1, 0)


def _figures(quality: Quality) -> tuple[str, str]:
    places = decimals_for(quality.statistics.mean, quality.interval.half_width if quality.interval else None)
    return show(quality.statistics.mean, places), show_spread(quality.interval)


def _speed_cell(result: MultiRunJobResult, name: str) -> str:
    stats = result.metrics.get(name)
    if stats is None:
        return NOTHING
    shown = show_statistics(stats)
    return f"{shown.median} {shown.spread}"


def _sources(results: Sequence[MultiRunJobResult], scores: Scores) -> list[str]:
    lines: dict[str, None] = {}
    for result in results:
        for score in {record.scorer: record for record in scores.get(result.job, ())}.values():
            lines[f"{one_line(score.scorer)}: {one_line(score.version)}, {score.computed_at[:19]}"] = None
            lines |= {
                f"{one_line(result.job)} {run_name(run)}: {one_line(why)}": None for run, why in score.absent.items()
            }
    return list(lines)


_METRIC_COLUMNS = (
    GridColumn("metric", flexible=True, shortest=28),  # energy_per_token_j [counter]
    GridColumn("median", right=True),
    GridColumn("interval", right=True),
    GridColumn("±", right=True),
    GridColumn("p90", right=True, expendable=5),
    GridColumn("p95", right=True, expendable=4),
    GridColumn("p99", right=True, expendable=2),
    GridColumn("max", right=True, expendable=3),
    GridColumn("runs×samples", right=True, expendable=1),
)


def render_job(result: MultiRunJobResult, *, width: int | None = None, colour: bool = False) -> str:
    """Write everything about one job: verdict, checks, metrics, cold start, runs and environment."""
    room = width or 100
    blocks = (
        _head(result),
        _failure(result),
        _titled("checks", _checks(result.checks)),
        _titled("objectives", [f"{pad(gate_word(gate), 11)}  {check_sentence(gate)}" for gate in result.gates]),
        _titled("metrics", _metrics(result, room)),
        _titled("cold start (run 1, nothing warm) against all runs", _cold(result, room)),
        _titled("not measured", _absent(result)),
        *(_section(part, room) for part in job_sections(result, alone=True)),
        _titled("environment", _fact_lines(result.environment)),
        _titled("definition", _fact_lines(result.definition)),
    )
    text = "\n\n".join("\n".join(block) for block in blocks if block)
    return paint(text) if colour else text


def _titled(title: str, lines: Iterable[str]) -> list[str]:
    block = [f"  {line}" for line in lines]
    return [title, *block] if block else []


def _section(part: ReportSection, room: int) -> list[str]:
    table = sheet_lines(part.sheet, room - 2) if part.sheet else []
    return _titled(part.title[:1].lower() + part.title[1:], [*part.sentences, *table])


def _head(result: MultiRunJobResult) -> list[str]:
    word = verdict_word(result)
    lines = [
        f"job      {one_line(result.job)}",
        f"point    {job_label(result.point, result.definition, full=True)}",
        f"verdict  {word}: {MEANING[word]}",
        f"runs     {result.successful_runs} of {result.total_runs} succeeded",
    ]
    where = machine_sentence(result)
    return [*lines, *([f"machine  {where}"] if where else []), f"digest   {result.digest}"]


def _failure(result: MultiRunJobResult) -> list[str]:
    if result.state == "done":
        return []
    error = result.failure
    lines = [f"why      {unmeasured_sentence(result)}"]
    if error and error.try_:
        lines.append(f"try      {one_line(error.try_)}")
    return lines + [f"log      {one_line(line)}" for line in (error.log_tail if error else ())]


def _checks(checks: Iterable[Check]) -> list[str]:
    words = {True: "passed", False: "FAILED", None: "unknown"}
    order = {False: 0, None: 1, True: 2}
    ranked = sorted(checks, key=lambda check: order[check.passed])
    return [f"{pad(words[check.passed], 8)}  {check_sentence(check)}" for check in ranked]


def _metrics(result: MultiRunJobResult, room: int) -> list[str]:
    if result.state != "done" or not result.metrics:
        return []
    rows = [_metric_row(name, stats, result) for name, stats in result.metrics.items()]
    return lay_out(_METRIC_COLUMNS, rows, room - 2)


def _metric_row(name: str, stats: MetricStatistics, result: MultiRunJobResult) -> tuple[str, ...]:
    shown = show_statistics(stats, name)
    places = decimals_of(stats)
    below = (show(value, places) for value in (stats.p90, stats.p95))
    tail = (*below, show_tail(stats, "p99"), show(stats.max, places))
    metric = one_line(with_grade(name, name_with_unit(name, stats.unit), result))
    return (metric, shown.median, shown.interval, shown.spread, *tail, show_count(stats.runs, stats.count))


def _absent(result: MultiRunJobResult) -> list[str]:
    """What was not measured and why; energy has a block of its own."""
    own = {"energy_j"} if energy_sentence(result) else set[str]()
    reasons = {(name, why): None for run in result.runs for name, why in run.absent.items() if name not in own}
    return [one_line(f"{name}: {why}") for name, why in reasons]


def _cold(result: MultiRunJobResult, room: int) -> list[str]:
    if result.state != "done":
        return []
    names = [name for name in result.cold_start if name in result.metrics]
    head = ("metric", "cold", "median", "interval")
    rows = [_cold_row(name, result.cold_start[name], result.metrics[name]) for name in names]
    return text_table(head, rows, room - 2, right=(1, 2, 3)) if rows else []


def _cold_row(name: str, cold: float, stats: MetricStatistics) -> tuple[str, ...]:
    shown = show_statistics(stats)
    metric = one_line(name_with_unit(name, stats.unit))
    return (metric, show(cold, decimals_of(stats)), shown.median, f"{shown.interval} {shown.spread}")


def _fact_lines(facts: Mapping[str, JsonValue]) -> list[str]:
    entries = flat(facts)
    width = min(max((len(path) for path, _ in entries), default=0), 32)
    return [f"{pad(path, width)}  {value}" for path, value in entries]
