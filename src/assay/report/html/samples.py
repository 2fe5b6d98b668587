"""Pictures of one metric: its distribution run by run, and its samples over time with the warm-up shaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from assay.analyse.records import MetricStatistics
from assay.analyse.text import run_name
from assay.report.html.chart import (
    Axis,
    Cell,
    Chart,
    Legend,
    Markup,
    Numbers,
    Picture,
    axis_for,
    bar,
    close_axis,
    curve,
    el,
    join,
    label,
    levels,
    line,
)
from assay.report.numbers import show, show_statistics

Values = NDArray[np.float64]

_MOST_ROWS = 20
_FEW = 20  # fewer samples do not show a shape: they are drawn themselves
_BINS = 80
_SHOWN_SHARE = 0.995  # of the samples fits on the axis; a note counts the rest
MOST_POINTS = 600
_MOST_TRACES = 10
_PANEL = 62
_GAP = 22
_TRACE_SHARE = 0.998
_MOST_MARKS = 40  # of samples above a panel
_RUN_BY_RUN = Legend(
    "Run by run",
    "Each row is one run, a fresh process, and its dot is the run's median. The shape shows where the samples lie; the "
    "box holds the middle half of them, the line 90 %. The vertical band is the interval of the median, which comes "
    "from the spread between runs.",
)
_OVER_TIME = Legend(
    "Over time",
    "Each panel is one run. The shaded part is the warm-up, which no number of this report contains. Long runs are "
    "thinned; the lowest and the highest sample of each stretch are kept.",
)


@dataclass(frozen=True, slots=True)
class _Plan:
    axis: Axis
    beyond: int
    largest: float


def draw_distribution(name: str, stats: MetricStatistics, samples: Mapping[int, Values], axis_title: str) -> Picture:
    """One row per run: the shape of its samples, their middle half and their median."""
    runs = sorted(stats.run_values)[:_MOST_ROWS]
    plan = _plan(stats, [samples[run] for run in runs if run in samples and samples[run].size])
    height = 44 if len(runs) <= 8 else 26
    rows = join(
        _row(run, stats.run_values[run], samples.get(run), plan.axis, i * height, height) for i, run in enumerate(runs)
    )
    shown = show_statistics(stats)
    summary = f"{name} by run. Median {shown.median} {stats.unit}, interval {shown.interval} between {stats.runs} runs."
    title = f"{name}, run by run"
    chart = Chart(title, summary, plan.axis, axis_title, height * len(runs), left=52)
    drawn = chart.draw(_band(stats, plan.axis, height * len(runs)), rows)
    note = _note(stats, runs, plan)
    numbers = partial(_numbers, name, stats, samples)
    return Picture(f"runs:{name}", "runs", title, drawn, _RUN_BY_RUN, note, numbers)


def _numbers(name: str, stats: MetricStatistics, samples: Mapping[int, Values]) -> Numbers:
    """What each run gave, and the interval that their spread makes."""
    unit = f", {stats.unit}" if stats.unit else ""
    columns = (
        "run",
        "samples",
        f"median of {name}{unit}",
        "p5",
        "p25",
        "p75",
        "p95",
        "lowest",
        "highest",
        "interval low",
        "interval high",
    )
    rows: list[tuple[Cell, ...]] = [
        _run_numbers(run, stats.run_values[run], samples.get(run)) for run in sorted(stats.run_values)
    ]
    ends = (stats.interval.low, stats.interval.high) if stats.interval else (None, None)
    whole: tuple[Cell, ...] = ("all runs", stats.count, stats.median, *[None] * 4, stats.min, stats.max, *ends)
    return Numbers.of(columns, [*rows, whole])


def _run_numbers(run: int, median: float, values: Values | None) -> tuple[Cell, ...]:
    if values is None or not values.size:
        return (str(run), None, median, *[None] * 8)
    # Few samples do not back quantiles.
    inner: list[Cell] = [None] * 4
    if values.size >= _FEW:
        inner = [float(quantile) for quantile in np.quantile(values, [0.05, 0.25, 0.75, 0.95])]
    return (str(run), int(values.size), median, *inner, float(values.min()), float(values.max()), None, None)


def _plan(stats: MetricStatistics, drawn: list[Values]) -> _Plan:
    ends = [stats.interval.low, stats.interval.high] if stats.interval else []
    must = [*stats.run_values.values(), stats.median, *ends]
    if not drawn:
        return _Plan(axis_for(must), 0, 0.0)
    pooled = np.concatenate(drawn)
    high = (
        float(max(np.quantile(pooled, _SHOWN_SHARE), *must)) if pooled.size > 100 else float(max(pooled.max(), *must))
    )
    low = float(min(pooled.min(), *must))
    margin = (high - low) * 0.03
    return _Plan(close_axis(low - margin, high + margin), int((pooled > high + margin).sum()), float(pooled.max()))


def _band(stats: MetricStatistics, axis: Axis, height: float) -> Markup:
    middle = line(axis.percent(stats.median), axis.percent(stats.median), 0, height, "centre")
    interval = bar(axis, stats.interval.low, stats.interval.high, 0, height, "band") if stats.interval else None
    return join((interval, middle))


def _row(run: int, median: float, values: Values | None, axis: Axis, top: float, height: float) -> Markup:
    middle = top + height / 2
    name = el("text", run_name(run), x=-8, y=middle + 4, class_="tick end")
    drawn = _samples(values, axis, top + 3, height - 6) if values is not None and values.size > 1 else None
    dot = el("circle", cx=axis.percent(median), cy=middle, r=4, class_="dot valid")
    return el("g", name, drawn, dot)


def _samples(values: Values, axis: Axis, top: float, height: float) -> Markup:
    if values.size < _FEW:
        return join(
            line(axis.percent(v), axis.percent(v), top + 4, top + height - 4, "stroke") for v in values.tolist()
        )
    p5, p25, p75, p95 = np.quantile(values, [0.05, 0.25, 0.75, 0.95]).tolist()
    middle = top + height / 2
    reach = line(axis.percent(p5), axis.percent(p95), middle, middle, "reach")
    return join((_violin(values, axis, top, height), reach, bar(axis, p25, p75, middle - 4, 8, "box")))


def _violin(values: Values, axis: Axis, top: float, height: float) -> Markup:
    """The density of the samples, mirrored; smoothed so that the bins do not show."""
    counts, edges = np.histogram(values, bins=_BINS, range=(axis.low, axis.high))
    weights = np.array([1, 4, 6, 4, 1]) / 16
    density = np.convolve(counts, weights, mode="same")
    half = density / max(density.max(), 1e-12) / 2
    at = [axis.share(float(x)) for x in (edges[:-1] + edges[1:]) / 2]
    upper = [(x, 0.5 + h) for x, h in zip(at, half.tolist(), strict=True) if h > 0.001]
    lower = [(x, 1 - y) for x, y in reversed(upper)]
    return curve([*upper, *lower], top, height, "violin", closed=True) if len(upper) > 1 else Markup()


def _note(stats: MetricStatistics, runs: list[int], plan: _Plan) -> str:
    parts = [] if stats.interval else ["One run has no spread between runs, so there is no interval."]
    if plan.beyond:
        some = f"{plan.beyond} sample{' lies' if plan.beyond == 1 else 's lie'}"
        parts.append(f"{some} beyond the right end; the largest is {show(plan.largest)} {stats.unit}.")
    if len(stats.run_values) > len(runs):
        parts.append(f"The first {len(runs)} of {len(stats.run_values)} runs are drawn.")
    return " ".join(parts)


@dataclass(frozen=True, slots=True, eq=False)
class SampleTrace:
    """The samples of one run in the order they were taken, warm-up first."""

    run: int
    at_s: NDArray[np.float64]
    value: NDArray[np.float64]
    warm_s: float  # where the warm-up ends


def draw_timeline(name: str, unit: str, traces: Sequence[SampleTrace]) -> Picture:
    """One panel per run, on common axes."""
    drawn = traces[:_MOST_TRACES]
    across = close_axis(0.0, max(float(trace.at_s[-1]) for trace in drawn) or 1.0)
    up = _height_axis(drawn)
    panels = join(_panel(trace, across, up, i * (_PANEL + _GAP)) for i, trace in enumerate(drawn))
    summary = f"{name} of every sample over time, for {len(drawn)} runs one below the other."
    height = len(drawn) * (_PANEL + _GAP) - _GAP
    title = f"{name} over time{f', in {unit}' if unit else ''}"
    chart = Chart(title, summary, across, "seconds since the warm-up began", height, left=52, top=22)
    note = _timeline_note(unit, traces, drawn, up)
    numbers = partial(_timeline_numbers, name, unit, drawn)
    return Picture(f"time:{name}", "time", title, chart.draw(panels), _OVER_TIME, note, numbers, wide=True)


def _timeline_numbers(name: str, unit: str, traces: Sequence[SampleTrace]) -> Numbers:
    """The points as they are drawn: long runs are thinned."""
    rows = [
        (trace.run, "warm-up" if at < trace.warm_s else "measured", at, value)
        for trace in traces
        for at, value in zip(*(part.tolist() for part in thin(trace.at_s, trace.value)), strict=True)
    ]
    return Numbers.of(("run", "phase", "seconds", f"{name}{f', {unit}' if unit else ''}"), rows)


def thin(
    at: NDArray[np.float64], value: NDArray[np.float64], most: int = MOST_POINTS
) -> tuple[NDArray[np.float64], ...]:
    """At most this many points, keeping the lowest and the highest of each stretch of time."""
    if value.size <= most:
        return at, value
    # The same stretches as np.array_split makes: the first few are longer by one.
    stretches = most // 2
    size, longer = divmod(value.size, stretches)
    edge = longer * (size + 1)
    parts = ((0, value[:edge].reshape(longer, size + 1)), (edge, value[edge:].reshape(stretches - longer, size)))
    indices = [
        begin + np.arange(rows.shape[0]) * rows.shape[1] + ends
        for begin, rows in parts
        if rows.size
        for ends in (rows.argmin(axis=1), rows.argmax(axis=1))
    ]
    order = np.unique(np.concatenate(indices))
    return at[order], value[order]


def _height_axis(traces: Sequence[SampleTrace]) -> Axis:
    """From the lowest value to one that only the rarest spikes of the measured part pass."""
    measured = np.concatenate([trace.value[trace.at_s >= trace.warm_s] for trace in traces])
    pooled = measured if measured.size else np.concatenate([trace.value for trace in traces])
    low, high = float(pooled.min()), float(np.quantile(pooled, _TRACE_SHARE))
    margin = (high - low or abs(high) or 1.0) * 0.1
    return close_axis(low - margin, high + margin, count=4)


def _panel(trace: SampleTrace, across: Axis, up: Axis, top: float) -> Markup:
    at, value = thin(trace.at_s, trace.value)
    points = list(zip(across.shares(at), up.shares(value), strict=True))
    shade = bar(across, 0.0, trace.warm_s, top, _PANEL, "warm") if trace.warm_s > 0 else None
    above = trace.at_s[trace.value > up.high][:_MOST_MARKS].tolist()
    marks = [line(across.percent(x), across.percent(x), top - 5, top, "beyond") for x in above]
    name = label(run_name(trace.run), "100%", top - 5, "tick end")
    return el("g", shade, levels(up, top, _PANEL), curve(points, top, _PANEL, "trace"), *marks, name)


def _timeline_note(unit: str, traces: Sequence[SampleTrace], drawn: Sequence[SampleTrace], up: Axis) -> str:
    parts = []
    beyond = [float(v) for trace in drawn for v in trace.value[trace.value > up.high]]
    if beyond:
        parts.append(f"A mark above a panel is a sample beyond its top; the largest is {show(max(beyond))} {unit}.")
    if len(traces) > len(drawn):
        parts.append(f"The first {len(drawn)} of {len(traces)} runs are drawn.")
    return " ".join(parts)
