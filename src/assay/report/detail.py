"""One job on a terminal, with everything that is known about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pydantic import JsonValue

from assay.analyse.records import Check, MetricStatistics, MultiRunJobResult
from assay.report.device import device_sheet
from assay.report.energy import energy_sentence, energy_sheet, price_sentence, with_grade
from assay.report.machine import fitness_sheet, monitoring_sheet
from assay.report.numbers import (
    NOTHING,
    decimals_of,
    name_with_unit,
    show,
    show_count,
    show_statistics,
)
from assay.report.served import (
    BUCKETS_NOTE,
    errors_of,
    finish_reasons_of,
    search_sentences,
    server_view_of,
    token_facts_of,
)
from assay.report.sheet import GridColumn, Sheet, lay_out, pad, paint, sheet_lines
from assay.report.telemetry import foreign_sentences, seen_sheet, throttling_sentences
from assay.report.wording import (
    MEANING,
    check_sentence,
    failure_of,
    failure_sentence,
    flat,
    gate_word,
    job_label,
    machine_sentence,
    one_line,
    others_share,
    unmeasured_sentence,
    verdict_word,
)
from assay.run.records import SingleRunResult
from assay.units import show_seconds

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
_RUN_COLUMNS = (
    GridColumn("run", right=True),
    GridColumn("start"),
    GridColumn("took", right=True),
    GridColumn("load", right=True, expendable=2),
    GridColumn("warm-up", right=True, expendable=2),
    GridColumn("measure", right=True, expendable=2),
    GridColumn("samples", right=True),
    GridColumn("device"),
    GridColumn("others", right=True, expendable=1),
    GridColumn("outcome", flexible=True),
)


def render_job(result: MultiRunJobResult, *, width: int | None = None, colour: bool = False) -> str:
    """Write everything about one job: verdict, checks, metrics, cold start, runs and environment."""
    room = width or 100
    errors = errors_of(result)
    blocks = (
        _head(result),
        _failure(result),
        _titled("checks", _checks(result.checks)),
        _titled("objectives", [f"  {pad(gate_word(gate), 11)}  {check_sentence(gate)}" for gate in result.gates]),
        _titled("device", _sheet(device_sheet(result), room)),
        _titled("metrics", _metrics(result, room)),
        _titled("not measured", _absent(result)),
        _titled("energy", _energy(result, room)),
        _titled("seen from the side", _seen(result, room)),
        _titled("nodes and services", _sheet(monitoring_sheet(result), room)),
        _titled("failed requests by kind", [f"  {one.count:>9,}  {one.kind}  {one.first}".rstrip() for one in errors]),
        _titled("why answers ended", [f"  {one.count:>9,}  {one.kind}" for one in finish_reasons_of(result)]),
        _titled("how tokens were counted", [f"  {name}: {told}" for name, told in token_facts_of(result)]),
        _titled("the server's own view", _server_view(result, room)),
        _titled("searches for a rate", [f"  {line}" for line in search_sentences(result)]),
        _titled("cold start (run 0, nothing warm) against all runs", _cold(result, room)),
        _titled("runs", _runs(result, room)),
        _titled("the machine before and after", _sheet(fitness_sheet(result), room)),
        _titled("environment", _facts(result.environment)),
        _titled("definition", _facts(result.definition)),
    )
    text = "\n\n".join("\n".join(block) for block in blocks if block)
    return paint(text) if colour else text


def _titled(title: str, lines: list[str]) -> list[str]:
    return [title, *lines] if lines else []


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
    error = failure_of(result)
    lines = [f"why      {unmeasured_sentence(result)}"]
    if error and error.try_:
        lines.append(f"try      {one_line(error.try_)}")
    return lines + [f"log      {one_line(line)}" for line in (error.log_tail if error else ())]


def _checks(checks: Iterable[Check]) -> list[str]:
    words = {True: "passed", False: "FAILED", None: "not told"}
    order = {False: 0, None: 1, True: 2}
    ranked = sorted(checks, key=lambda check: order[check.passed])
    return [f"  {pad(words[check.passed], 8)}  {check_sentence(check)}" for check in ranked]


def _metrics(result: MultiRunJobResult, room: int) -> list[str]:
    if result.state != "done" or not result.metrics:
        return []
    rows = [_metric_row(name, stats, result) for name, stats in result.metrics.items()]
    return [f"  {line}" for line in lay_out(_METRIC_COLUMNS, rows, room - 2)]


def _metric_row(name: str, stats: MetricStatistics, result: MultiRunJobResult) -> tuple[str, ...]:
    shown = show_statistics(stats, name)
    places = decimals_of(stats)
    tail = (show(value, places) for value in (stats.p90, stats.p95, stats.p99, stats.max))
    metric = one_line(with_grade(name, name_with_unit(name, stats.unit), result))
    return (metric, shown.median, shown.interval, shown.spread, *tail, show_count(stats.runs, stats.count))


def _sheet(sheet: Sheet | None, room: int) -> list[str]:
    return [f"  {line}" for line in sheet_lines(sheet, room - 2)] if sheet else []


def _energy(result: MultiRunJobResult, room: int) -> list[str]:
    told = [one for one in (energy_sentence(result), price_sentence(result)) if one]
    return [*(f"  {one}" for one in told), *_sheet(energy_sheet(result), room)]


def _seen(result: MultiRunJobResult, room: int) -> list[str]:
    told = (*throttling_sentences(result), *foreign_sentences(result))
    return [*(f"  {one}" for one in told), *_sheet(seen_sheet(result), room)]


def _absent(result: MultiRunJobResult) -> list[str]:
    """What was not measured and why; energy has a block of its own."""
    own = {"energy_j"} if energy_sentence(result) else set[str]()
    reasons = {(name, why): None for run in result.runs for name, why in run.absent.items() if name not in own}
    return ["  " + one_line(f"{name}: {why}") for name, why in reasons]


def _server_view(result: MultiRunJobResult, room: int) -> list[str]:
    columns = (
        GridColumn("statistic"),
        GridColumn("ours", right=True),
        GridColumn("the server's", right=True),
        GridColumn("read from", flexible=True),
    )
    views = server_view_of(result)
    if not views:
        return []
    rows = [(one.statistic, show(one.ours), one.told, one.source) for one in views]
    note = [BUCKETS_NOTE] if any(one.between for one in views) else []
    return [f"  {line}" for line in [*lay_out(columns, rows, room - 2), *note]]


def _cold(result: MultiRunJobResult, room: int) -> list[str]:
    if result.state != "done":
        return []
    names = [name for name in result.cold_start if name in result.metrics]
    columns = (
        GridColumn("metric"),
        GridColumn("cold", right=True),
        GridColumn("median", right=True),
        GridColumn("interval", right=True),
    )
    rows = [_cold_row(name, result.cold_start[name], result.metrics[name]) for name in names]
    return [f"  {line}" for line in lay_out(columns, rows, room - 2)] if rows else []


def _cold_row(name: str, cold: float, stats: MetricStatistics) -> tuple[str, ...]:
    shown = show_statistics(stats)
    metric = one_line(name_with_unit(name, stats.unit))
    return (metric, show(cold, decimals_of(stats)), shown.median, f"{shown.interval} {shown.spread}")


def _runs(result: MultiRunJobResult, room: int) -> list[str]:
    if not result.runs:
        return []
    table = lay_out(_RUN_COLUMNS, [_run_row(run) for run in result.runs], room - 2)
    reasons = [f"run {run.run_id} {failure_sentence(run.error)}" for run in result.runs if run.error]
    return [f"  {line}" for line in (*table, *reasons)]


def _run_row(run: SingleRunResult) -> tuple[str, ...]:
    phases = (_phase(run.phases.get(name)) for name in ("load", "warmup", "measure"))
    samples = max(run.sample_counts.values(), default=0)
    return (
        str(run.run_id),
        "cold" if run.is_cold_start else "fresh",
        show_seconds(run.duration_seconds),
        *phases,
        f"{samples:,}" if samples else NOTHING,
        one_line(run.device.used) if run.device else NOTHING,
        others_share(run) or NOTHING,
        f"failed: {one_line(run.error.code)}" if run.error else "ok",
    )


def _phase(seconds: float | None) -> str:
    return NOTHING if seconds is None else show_seconds(seconds)


def _facts(facts: Mapping[str, JsonValue]) -> list[str]:
    entries = flat(facts)
    width = min(max((len(path) for path, _ in entries), default=0), 32)
    return [f"  {pad(path, width)}  {value}" for path, value in entries]
