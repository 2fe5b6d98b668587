"""The picture of one metric, run by run: shape, box and median, over the interval between runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.analyse.records import MetricStatistics
from assay.report.html.axis import Axis, axis_for, close_axis
from assay.report.html.chart import Chart, bar, curve, line
from assay.report.html.markup import Markup, el, join
from assay.report.html.picture import Cell, Numbers, Picture
from assay.report.numbers import show, show_statistics

Values = NDArray[np.float64]

MOST_RUNS = 20
_FEW = 20  # below this a box would claim a shape that nobody saw; the samples themselves are drawn
_BINS = 80
_SHOWN_SHARE = 0.995  # of the samples fits on the axis; the rest is told in words


@dataclass(frozen=True, slots=True)
class _Plan:
    axis: Axis
    beyond: int
    largest: float


def draw_distribution(name: str, stats: MetricStatistics, samples: Mapping[int, Values], axis_title: str) -> Picture:
    """One row per run: the shape of its samples, their middle half and their median."""
    runs = sorted(stats.run_values)[:MOST_RUNS]
    plan = _plan(stats, [samples[run] for run in runs if run in samples and samples[run].size])
    height = 44 if len(runs) <= 8 else 26
    rows = join(
        _row(run, stats.run_values[run], samples.get(run), plan.axis, i * height, height) for i, run in enumerate(runs)
    )
    shown = show_statistics(stats)
    told = f"{name} by run. Median {shown.median} {stats.unit}, interval {shown.interval} between {stats.runs} runs."
    title = f"{name}, run by run"
    chart = Chart(title, told, plan.axis, axis_title, height * len(runs), left=52)
    drawn = chart.draw(_band(stats, plan.axis, height * len(runs)), rows)
    says = _caption(stats, samples, runs, plan)
    return Picture(f"runs:{name}", "runs", title, drawn, says, lambda: _numbers(name, stats, samples))


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
    # A shape that nobody saw is not told: few samples have no quantiles.
    inner: list[Cell] = [None] * 4
    if values.size >= _FEW:
        inner = [float(one) for one in np.quantile(values, [0.05, 0.25, 0.75, 0.95])]
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
    name = el("text", f"run {run}", x=-8, y=middle + 4, class_="tick end")
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


def _caption(stats: MetricStatistics, samples: Mapping[int, Values], runs: list[int], plan: _Plan) -> str:
    parts = ["Each row is one run, a fresh process; its dot is the run's median."]
    if any(run in samples and samples[run].size >= _FEW for run in runs):
        parts.append("The shape shows where its samples lie, the box holds their middle half, the line 90 %.")
    if stats.interval:
        promise = f"{stats.interval.level * 100:g} % interval of the median, made of the spread between runs."
        parts.append(f"The vertical band is the {promise}")
    else:
        parts.append("With one run there is no spread between runs, so there is no interval.")
    if plan.beyond:
        some = f"{plan.beyond} sample{' lies' if plan.beyond == 1 else 's lie'}"
        parts.append(f"{some} beyond the right end; the largest is {show(plan.largest)} {stats.unit}.")
    if len(stats.run_values) > len(runs):
        parts.append(f"The first {len(runs)} of {len(stats.run_values)} runs are drawn.")
    return " ".join(parts)
