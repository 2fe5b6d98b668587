"""The picture of what Prometheus saw of a job: nodes, GPUs and services on the time axis of all its runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from assay.analyse.records import MultiRunJobResult
from assay.analyse.telemetry import CounterCourse, Quantity, watched
from assay.analyse.text import run_name
from assay.report.html.chart import (
    Axis,
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
    levels,
    line,
    room_for,
)
from assay.report.html.samples import thin
from assay.report.html.stacked import GAP, MOST_LINES, PANEL, STRIP, Files, phase, readable_files, titles
from assay.report.numbers import show
from assay.report.wording import one_line
from assay.store.telemetry import FILE, Metrics, decode
from assay.units import show_seconds

MOST_RUNS = 20
_MOST_POINTS = 3000  # of the whole picture: some 40 kB
_KINDS = ("trace thick", "trace second thick", "trace third thick")
_UNITS = {"B": (1e-9, "GB"), "B/s": (1e-6, "MB/s")}
_LEGEND = Legend(
    "Nodes and services",
    "Scraped by Prometheus and stored with the runs; counters are drawn as rates. No number of this report is taken in "
    "the shaded parts. Where a line is broken, scrapes are missing; a counter that restarted has no rate in that step.",
)


@dataclass(frozen=True, slots=True)
class ScrapePanel:
    """One quantity, with a line for each node, GPU or service."""

    title: str
    unit: str
    lines: tuple[tuple[str, CounterCourse], ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class ScrapeSpan:
    """One run on the axis: where it lies, where it measured, and its phases."""

    run: int
    begin_s: float
    end_s: float
    measured: tuple[float, float] | None
    phases: tuple[tuple[str, float, float], ...] = ()


def draw_monitoring(job: MultiRunJobResult, files: Files) -> Picture | None:
    """One picture of all runs, one after another as they were; None where no metrics were kept."""
    runs = read_metrics(job, files)
    if not runs:
        return None
    origin = min(metrics.begin_s for metrics in runs.values())
    every = panels_of(list(runs.values()), origin)
    # A note names what was zero all the time.
    panels = [panel for panel in every if any(course.finite.any() for _, course in panel.lines)]
    if not panels:
        return None
    stretches = [_stretch(run, metrics, origin) for run, metrics in runs.items()]
    across = close_axis(0.0, max(stretch.end_s for stretch in stretches), count=6)
    top = (2 if any(stretch.phases for stretch in stretches) else 1) * STRIP + 8
    height = top + len(panels) * (PANEL + GAP) - 8
    content = [_backdrop(stretches, across, top, height - top), *(_run(stretch, across) for stretch in stretches)]
    most = max(_MOST_POINTS // max(sum(len(panel.lines) for panel in panels), 1), 24)
    content += [
        _panel(panel, across, top + place * (PANEL + GAP) + GAP - 8, most) for place, panel in enumerate(panels)
    ]
    title = "Nodes and services while the job ran"
    left = room_for([_up(panel) for panel in panels])
    chart = Chart(title, _description(panels), across, "seconds since the first run began", height, left=left)
    note = _note(job, runs, panels, every)
    numbers = partial(_numbers, panels, most)
    return Picture("monitoring", "telemetry", title, chart.draw(*content), _LEGEND, note, numbers, wide=True)


def _numbers(panels: Sequence[ScrapePanel], most: int) -> Numbers:
    rows = [
        (panel.title, panel.unit, one_line(of), seconds, value)
        for panel in panels
        for of, course in panel.lines
        for at, values in pieces(course)
        for seconds, value in zip(*(part.tolist() for part in thin(at, values, most)), strict=True)
    ]
    return Numbers.of(("quantity", "unit", "of", "seconds", "value"), rows)


def read_metrics(job: MultiRunJobResult, files: Files) -> dict[int, Metrics]:
    """Run → what was scraped of it, for the first runs that left something readable."""
    runs = [run.run_id for run in job.runs if FILE in run.files]
    return readable_files(job, runs, files, FILE, decode, MOST_RUNS)


def panels_of(runs: Sequence[Metrics], origin_s: float) -> list[ScrapePanel]:
    """The panels of a job, from what was scraped of its runs; times count from a moment."""
    by_quantity: dict[Quantity, dict[str, list[CounterCourse]]] = {}
    for metrics in runs:
        for counter in watched(metrics):
            by_quantity.setdefault(counter.quantity, {}).setdefault(counter.of, []).append(counter.course)
    return [_made(quantity, lines, origin_s) for quantity, lines in by_quantity.items()]


def _made(quantity: Quantity, lines: dict[str, list[CounterCourse]], origin_s: float) -> ScrapePanel:
    scale, unit = _UNITS.get(quantity.unit, (1.0, quantity.unit))
    whole = {of: _after_another(courses, origin_s, scale) for of, courses in lines.items()}
    # Of many nodes, those that did most are worth their ink.
    most = sorted(whole, key=lambda of: -float(whole[of].finite.mean()))[:MOST_LINES]
    return ScrapePanel(quantity.title, unit, tuple((of, whole[of]) for of in sorted(most)), len(whole) - len(most))


def _after_another(courses: Sequence[CounterCourse], origin_s: float, scale: float) -> CounterCourse:
    """The same quantity in several runs; nothing is drawn between one and the next."""
    at: list[NDArray[np.float64]] = []
    value: list[NDArray[np.float64]] = []
    for course in courses:
        if course.at_s.size:
            at += [course.at_s - origin_s, course.at_s[-1:] - origin_s]
            value += [course.value * scale, np.array([np.nan])]
    return CounterCourse(
        np.concatenate(at),
        np.concatenate(value),
        sum(course.resets for course in courses),
        sum(course.gaps for course in courses),
    )


def _stretch(run: int, metrics: Metrics, origin_s: float) -> ScrapeSpan:
    measured = metrics.measured
    ends = None if measured is None else (measured[0] - origin_s, measured[1] - origin_s)
    phases = tuple((name, begin - origin_s, end - origin_s) for name, begin, end in metrics.phases)
    return ScrapeSpan(run, metrics.begin_s - origin_s, metrics.end_s - origin_s, ends, phases)


def _backdrop(runs: Sequence[ScrapeSpan], across: Axis, top: float, height: float) -> Markup:
    """Behind all panels: everything outside the measured windows is shaded, and each run has its edges."""
    shade, edges, done = [], [], 0.0
    for stretch in runs:
        begin, end = stretch.measured or (stretch.begin_s, stretch.end_s)
        shade += [bar(across, done, max(begin, done), top, height, "warm")]
        edges += [line(across.percent(at), across.percent(at), 0, top + height, "edge") for at in (begin, end)]
        done = max(end, done)
    shade.append(bar(across, done, max(across.high, done), top, height, "warm"))
    return el("g", *shade, *edges)


def _run(course: ScrapeSpan, across: Axis) -> Markup:
    """A run with its number, and its phases below; a phase without room for its name has it as a tooltip."""
    boxes = [phase(across, name, begin, end, STRIP) for name, begin, end in course.phases]
    return join((phase(across, run_name(course.run), course.begin_s, course.end_s, 0), *boxes))


def _up(panel: ScrapePanel) -> Axis:
    values = [float(end) for _, course in panel.lines for end in (course.finite.min(), course.finite.max())]
    return axis_for(values, zero=True, count=3)


def _panel(panel: ScrapePanel, across: Axis, top: float, most: int) -> Markup:
    up = _up(panel)
    parts: list[Markup] = []
    for (_, course), kind in zip(panel.lines, _KINDS, strict=False):
        parts += [_trace(at, value, across, up, top, kind, most) for at, value in pieces(course)]
    unit = f", {panel.unit}" if panel.unit else ""
    names = [one_line(of) for of, _ in panel.lines]
    return el("g", levels(up, top, PANEL), *parts, *titles(f"{panel.title}{unit}", names, top))


def pieces(course: CounterCourse) -> Iterable[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """The stretches of a course between its gaps; a reading that stands alone is drawn as a short line."""
    whole = np.isfinite(course.value)
    cuts = np.flatnonzero(np.diff(whole.astype(np.int8))) + 1
    for rows in np.split(np.arange(whole.size), cuts):
        if rows.size and whole[rows[0]]:
            yield course.at_s[rows], course.value[rows]


def _trace(
    at: NDArray[np.float64], value: NDArray[np.float64], across: Axis, up: Axis, top: float, class_: str, most: int
) -> Markup:
    kept_at, kept_values = thin(at, value, most)
    points = list(zip(across.shares(kept_at), up.shares(kept_values), strict=True))
    if len(points) == 1:
        points = [(max(points[0][0] - 0.002, 0.0), points[0][1]), (min(points[0][0] + 0.002, 1.0), points[0][1])]
    return curve(points, top, PANEL, class_)


def _description(panels: Sequence[ScrapePanel]) -> str:
    """The picture in words, for people who cannot see it."""
    parts = ["Nodes and services over time, all runs one after another."]
    for panel in panels:
        means = [
            f"{one_line(of)} {show(float(line.finite.mean()))} on average, at most {show(float(line.finite.max()))}"
            for of, line in panel.lines
        ]
        parts.append(f"{panel.title}{f' in {panel.unit}' if panel.unit else ''}: {'; '.join(means)}.")
    return " ".join(parts)


def _note(
    job: MultiRunJobResult, runs: dict[int, Metrics], panels: Sequence[ScrapePanel], every: Sequence[ScrapePanel]
) -> str:
    interval = next(iter(runs.values())).interval_s
    parts = [f"Scraped every {show_seconds(interval)}."]
    if still := [panel.title.lower() for panel in every if panel not in panels]:
        parts.append(f"Zero all the time: {', '.join(still)}.")
    recorded = sum(FILE in run.files for run in job.runs)
    if recorded > len(runs):
        parts.append(f"{len(runs)} of {recorded} runs are drawn.")
    if any(panel.left_out for panel in panels):
        parts.append("Of many nodes, those with the highest values are drawn.")
    return " ".join(parts)
