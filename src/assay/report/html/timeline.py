"""The picture of one metric over time, run below run, with the warm-up shaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from assay.report.html.axis import Axis, close_axis
from assay.report.html.chart import Chart, bar, curve, label, line
from assay.report.html.markup import Markup, el, join
from assay.report.html.picture import Numbers, Picture
from assay.report.numbers import show

MOST_POINTS = 600
MOST_RUNS = 10
_PANEL = 62
_GAP = 22
_SHOWN_SHARE = 0.998
_MOST_MARKS = 40  # of samples above a panel


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """The samples of one run in the order they were taken, warm-up first."""

    run: int
    at_s: NDArray[np.float64]
    value: NDArray[np.float64]
    warm_s: float  # where the warm-up ends


def draw_timeline(name: str, unit: str, traces: Sequence[Trace]) -> Picture:
    """One panel per run, on common axes."""
    drawn = traces[:MOST_RUNS]
    across = close_axis(0.0, max(float(trace.at_s[-1]) for trace in drawn) or 1.0)
    up = _height_axis(drawn)
    panels = join(_panel(trace, across, up, i * (_PANEL + _GAP)) for i, trace in enumerate(drawn))
    told = f"{name} of every sample over time, for {len(drawn)} runs one below the other."
    height = len(drawn) * (_PANEL + _GAP) - _GAP
    title = f"{name} over time, run below run"
    chart = Chart(title, told, across, "seconds since the warm-up began", height, left=52, top=22)
    says = _caption(name, unit, traces, drawn, up)
    numbers = partial(_numbers, name, unit, drawn)
    return Picture(f"time:{name}", "time", title, chart.draw(panels), says, numbers, wide=True)


def _numbers(name: str, unit: str, traces: Sequence[Trace]) -> Numbers:
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
    """At most so many points, keeping the lowest and the highest of each stretch of time."""
    if value.size <= most:
        return at, value
    # The same stretches as np.array_split makes: the first few are longer by one.
    stretches = most // 2
    size, longer = divmod(value.size, stretches)
    edge = longer * (size + 1)
    parts = ((0, value[:edge].reshape(longer, size + 1)), (edge, value[edge:].reshape(stretches - longer, size)))
    kept = [
        begin + np.arange(rows.shape[0]) * rows.shape[1] + ends
        for begin, rows in parts
        if rows.size
        for ends in (rows.argmin(axis=1), rows.argmax(axis=1))
    ]
    order = np.unique(np.concatenate(kept))
    return at[order], value[order]


def _height_axis(traces: Sequence[Trace]) -> Axis:
    """From the lowest value to one that only the rarest spikes of the measured part pass."""
    measured = np.concatenate([trace.value[trace.at_s >= trace.warm_s] for trace in traces])
    pooled = measured if measured.size else np.concatenate([trace.value for trace in traces])
    low, high = float(pooled.min()), float(np.quantile(pooled, _SHOWN_SHARE))
    margin = (high - low or abs(high) or 1.0) * 0.1
    return close_axis(low - margin, high + margin, count=4)


def _panel(trace: Trace, across: Axis, up: Axis, top: float) -> Markup:
    at, value = thin(trace.at_s, trace.value)
    points = list(zip(across.shares(at), up.shares(value), strict=True))
    shade = bar(across, 0.0, trace.warm_s, top, _PANEL, "warm") if trace.warm_s > 0 else None
    above = trace.at_s[trace.value > up.high][:_MOST_MARKS].tolist()
    marks = [line(across.percent(x), across.percent(x), top - 5, top, "beyond") for x in above]
    name = label(f"run {trace.run}", "100%", top - 5, "tick end")
    return el("g", shade, _levels(up, top), curve(points, top, _PANEL, "trace"), *marks, name)


def _levels(up: Axis, top: float) -> Markup:
    """Horizontal lines of a panel with their values."""
    parts = []
    for tick in up.ticks:
        y = top + _PANEL * (1 - up.share(tick))
        parts.append(line("0%", "100%", y, y, "level"))
        parts.append(el("text", up.label(tick), x=-6, y=y + 4, class_="tick end"))
    return join(parts)


def _caption(name: str, unit: str, traces: Sequence[Trace], drawn: Sequence[Trace], up: Axis) -> str:
    parts = [f"Each panel is one run; its height is {name}{f' in {unit}' if unit else ''}."]
    if any(trace.warm_s > 0 for trace in drawn):
        parts.append("The shaded part is the warm-up, which no number of this report contains.")
    beyond = [float(v) for trace in drawn for v in trace.value[trace.value > up.high]]
    if beyond:
        parts.append(f"A mark above a panel is a sample beyond its top; the largest is {show(max(beyond))} {unit}.")
    if any(trace.value.size > MOST_POINTS for trace in drawn):
        parts.append("Long runs are thinned; the lowest and highest sample of each stretch are kept.")
    if len(traces) > len(drawn):
        parts.append(f"The first {len(drawn)} of {len(traces)} runs are drawn.")
    return " ".join(parts)
