"""Which pictures a job gets, and the samples they are drawn from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from assay.analyse.headline import is_quality
from assay.analyse.records import CampaignRecord, MetricStatistics, MultiRunJobResult
from assay.errors import AssayError
from assay.metrics import METRICS, base_name
from assay.report.html.chart import Group, Picture
from assay.report.html.device import draw_device
from assay.report.html.load import draw_curves, draw_search, draw_tail, limits_of
from assay.report.html.monitoring import draw_monitoring
from assay.report.html.plots import PlotRow, draw_rows, numbers_of
from assay.report.html.samples import SampleTrace, Values, draw_distribution, draw_timeline
from assay.report.html.telemetry import Files, draw_telemetry
from assay.report.numbers import centre_of, decimals_of, show, show_statistics
from assay.report.served import is_served
from assay.report.sheet import shorten
from assay.report.wording import headline_of, one_line, verdict_word
from assay.run.records import SampleSet, SingleRunResult

Samples = Callable[[str, int], tuple[SampleSet, ...]]
Sets = Mapping[int, tuple[SampleSet, ...]]

_MOST_METRICS = 4  # a program may report dozens; the tables hold them all
_LONGEST_TITLE = 42
_TAILED = ("ttft_ms", "itl_ms", "e2e_ms", "latency_ms")

_COLD = (
    ("load_ms", True, "Load, run 0 (nothing warm)"),
    ("load_ms", False, "Load, median of runs"),
    ("first_ms", True, "First call, run 0"),
    ("first_ms", False, "First call, median of runs"),
    ("latency_ms", False, "Warm call, median"),
    ("e2e_ms", False, "Warm request, median"),
)
_MEMORY = (
    ("baseline_rss_mb", "Before the load"),
    ("peak_load_rss_mb", "Peak while loading"),
    ("peak_run_rss_mb", "Peak while running"),
)


def draw_overview(record: CampaignRecord, labels: Mapping[str, str], anchors: Mapping[str, str]) -> list[Picture]:
    """One picture per headline metric: all jobs on a common axis, with their intervals."""
    groups: dict[str, list[tuple[PlotRow, str]]] = {}
    for job in record.jobs:
        for name in headline_of(job) if job.state == "done" else ():
            row = _overview_row(job, name, labels[job.job], anchors[job.job])
            groups.setdefault(name, []).append((row, job.metrics[name].unit))
    if len(groups) > 1 and all(len(rows) == 1 for rows in groups.values()):
        groups = {}  # one job with many numbers: there is nothing to hold side by side
    rows = [_overview(name, [row for row, _ in rows], rows[0][1]) for name, rows in groups.items()]
    return [*draw_curves(record, labels, anchors), *rows]


def read_samples(job: MultiRunJobResult, samples: Samples) -> Sets:
    """The samples of every run that has some; a file that cannot be read is the same as none."""
    found: dict[int, tuple[SampleSet, ...]] = {}
    for run in job.runs:
        try:
            found[run.run_id] = samples(job.job, run.run_id)
        except (AssayError, OSError):
            # The picture then shows the run medians alone; the report must not fail for a lost file.
            found[run.run_id] = ()
    return found


def job_pictures(job: MultiRunJobResult, samples: Samples, files: Files) -> list[Picture]:
    """All pictures of a job that was measured: of its samples, and of its telemetry."""
    watched = (draw_telemetry(job, files), draw_monitoring(job, files))
    return [*draw_job(job, read_samples(job, samples)), *(one for one in watched if one is not None)]


def draw_job(job: MultiRunJobResult, sets: Sets) -> list[Picture]:
    # A score is a few fixed steps, and does not move with time: its interval in the tables says all.
    shown = [name for name in headline_of(job) if job.metrics[name].run_values and not is_quality(name)]
    names = shown[:_MOST_METRICS]
    shapes = [
        draw_distribution(n, job.metrics[n], _measured(sets, n), _axis_title(n, job.metrics[n].unit)) for n in names
    ]
    times = [_timeline(job, name, sets) for name in names]
    tails = [draw_tail(n, job.metrics[n], _measured(sets, n), limits_of(job, n)) for n in _tailed(job)]
    searches = draw_search(job)
    pictures = (*draw_device(job), *searches, *shapes, *tails, _cold(job), _memory(job), *times)
    return [picture for picture in pictures if picture is not None]


def _tailed(job: MultiRunJobResult) -> list[str]:
    """The times of a service whose tail is drawn."""
    return [name for name in _TAILED if name in job.metrics] if is_served(job) else []


def _overview_row(job: MultiRunJobResult, name: str, label: str, anchor: str) -> PlotRow:
    stats = job.metrics[name]
    shown = show_statistics(stats, name)
    low, high = (stats.interval.low, stats.interval.high) if stats.interval else (None, None)
    word = verdict_word(job)
    told = label if word == "valid" else f"{label} ({word})"
    return PlotRow(told, f"{shown.median} {shown.spread}", centre_of(stats, name), low, high, word, f"#{anchor}")


def _overview(name: str, rows: Sequence[PlotRow], unit: str) -> Picture:
    title = f"{name} of all jobs"
    picture = draw_rows(rows, title, _axis_title(name, unit), style="dots")
    caption = (
        "Each dot is a job's median and its whisker the interval from the spread between runs; "
        "intervals that overlap do not tell two jobs apart. A full dot is valid, an open one suspect, a cross invalid. "
        "A dot without whisker comes from one run: its doubt is unknown."
    )
    return Picture(f"overview:{name}", "other", title, picture, caption, lambda: numbers_of(rows, unit), wide=True)


def _axis_title(name: str, unit: str) -> str:
    """What an axis shows, short enough for the narrowest picture: the whole meaning stands in the tables."""
    metric = METRICS.get(base_name(name))
    whole = f"{name}: {metric.meaning.partition(',')[0]}" if metric else name
    told = whole if len(whole) <= _LONGEST_TITLE else shorten(one_line(name), _LONGEST_TITLE)
    return f"{told}, in {unit}" if unit and len(unit) <= 10 else told


def _measured(sets: Sets, name: str) -> dict[int, Values]:
    found = {run: _values(parts, name, "measure") for run, parts in sets.items()}
    return {run: values[np.isfinite(values)] for run, values in found.items() if values.size}


def _values(parts: Iterable[SampleSet], name: str, phase: str) -> Values:
    return next((part.value for part in parts if part.metric == name and part.phase == phase), np.empty(0))


def _timeline(job: MultiRunJobResult, name: str, sets: Sets) -> Picture | None:
    traces = [trace for run in job.runs if (trace := _trace(run, name, sets.get(run.run_id, ()))) is not None]
    return draw_timeline(name, job.metrics[name].unit, traces) if traces else None


def _trace(run: SingleRunResult, name: str, parts: Sequence[SampleSet]) -> SampleTrace | None:
    by_phase = {part.phase: part for part in parts if part.metric == name}
    measured, warm = by_phase.get("measure"), by_phase.get("warmup")
    if measured is None or measured.value.size < 2:
        return None
    last = float(warm.at_ns[-1]) / 1e9 if warm is not None and warm.at_ns.size else 0.0
    # A search warms up before each of its probes; the samples are of one of them.
    whole = 0.0 if "search" in run.facts else run.phases.get("warmup", 0.0)
    warm_s = max(last, whole) if last else 0.0
    at = np.concatenate([warm.at_ns / 1e9 if warm is not None else [], measured.at_ns / 1e9 + warm_s])
    value = np.concatenate([warm.value if warm is not None else [], measured.value])
    finite = np.isfinite(value)
    return SampleTrace(run.run_id, at[finite], value[finite], warm_s) if finite.sum() > 1 else None


def _cold(job: MultiRunJobResult) -> Picture | None:
    rows = [_cold_row(job, *entry) for entry in _COLD]
    drawn = [row for row in rows if row is not None]
    if len({name for name, *_ in _COLD if name in job.metrics}) < 2 or not drawn:
        return None
    title = "Cold start against warm calls"
    caption = (
        "Dashed: run 0, which found nothing warm. Filled: the median of all runs, each a fresh process. "
        f"All bars share one axis from zero. {_whisker_note(drawn)}"
    )
    return _bars("cold", "cold", title, drawn, "milliseconds", caption)


def _cold_row(job: MultiRunJobResult, name: str, cold: bool, label: str) -> PlotRow | None:
    stats = job.metrics.get(name)
    if stats is None or (cold and name not in job.cold_start):
        return None
    if not cold and stats.runs == 1 and name in job.cold_start:
        return None  # the only run is drawn as the cold one already
    if cold:
        value = job.cold_start[name]
        return PlotRow(label, f"{show(value, decimals_of(stats))} {stats.unit}, once", value, kind="cold")
    return _bar_row(label, stats)


def _memory(job: MultiRunJobResult) -> Picture | None:
    rows = [_bar_row(label, job.metrics[name]) for name, label in _MEMORY if name in job.metrics]
    title = "Memory"
    caption = (
        "Resident memory of the measured process, the kernel's own high-water marks; median of the runs. "
        f"The first bar is the interpreter and its libraries. {_whisker_note(rows)}"
    )
    return _bars("memory", "other", title, rows, "megabytes", caption) if rows else None


def _bars(key: str, group: Group, title: str, rows: Sequence[PlotRow], unit: str, caption: str) -> Picture:
    drawn = draw_rows(rows, title, unit, style="bars")
    return Picture(key, group, title, drawn, caption, lambda: numbers_of(rows, unit))


def _whisker_note(rows: Iterable[PlotRow]) -> str:
    if any(row.low is not None for row in rows):
        return "A whisker is the interval from the spread between runs."
    return "There are no whiskers, as one run tells nothing about the spread between runs."


def _bar_row(label: str, stats: MetricStatistics) -> PlotRow:
    shown = show_statistics(stats)
    low, high = (stats.interval.low, stats.interval.high) if stats.interval else (None, None)
    return PlotRow(label, f"{shown.median} {stats.unit} {shown.spread}", stats.median, low, high, "warm-bar")
