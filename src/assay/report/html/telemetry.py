"""The picture of the telemetry of a run: panels on one time axis, phases named, throttling shaded."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from assay.analyse.records import MultiRunJobResult
from assay.errors import AssayError
from assay.report.html.axis import Axis, axis_for, close_axis
from assay.report.html.chart import Chart, Numbers, Picture, bar, curve, label, line
from assay.report.html.markup import Markup, el, join
from assay.report.html.panels import PanelLine, TelemetryPanel, ThrottledSpan, held_back, panels_of, reach
from assay.report.html.samples import thin
from assay.report.numbers import show
from assay.report.telemetry import whose
from assay.run.probes.job import FILE
from assay.store.telemetry import Recording, Stretch, read_telemetry
from assay.units import show_seconds

Files = Callable[[str, int, str], bytes | None]

MOST_RUNS = 5  # the one that is drawn in full, and those behind it
_MOST_POINTS = 2200  # of the run that is drawn in full, all lines together: some 30 kB
_MOST_BEHIND = 1100  # of all others together
_OF_A_LINE = 360
_PANEL = 56
_GAP = 30  # between two panels, with the title of the lower one in it
_STRIP = 18  # height of a row of names above the panels
_DASHES = ("──", "╌╌", "┈┈")
_KINDS = ("trace", "trace second", "trace third")
_NARROWEST_PX = 320.0  # of the picture, on a phone
_LETTER_PX = 6.4
_NO_TIME = 1e-12  # between two readings of one moment
_SEEN_PX = 0.4  # a smaller step cannot be seen


@dataclass(frozen=True, slots=True)
class _Drawn:
    """One run as it is drawn: its panels, phases and throttled stretches in seconds from its origin."""

    run: int
    panels: tuple[TelemetryPanel, ...]
    phases: tuple[tuple[str, float, float], ...]
    held: tuple[ThrottledSpan, ...]
    measured: bool
    """Whether the origin is the beginning of the measured window."""


def draw_telemetry(job: MultiRunJobResult, files: Files) -> Picture | None:
    """One picture of the first good run, with the others thin behind it; None where nothing was kept."""
    runs = [_drawn(run, recording) for run, recording in read_recordings(job, files).items()]
    runs = [run for run in runs if run.panels]
    if not runs:
        return None
    first, others = runs[0], runs[1:]
    across = _time_axis(first)
    strips = 1 + bool(first.held)
    top = strips * _STRIP + 8
    content = [_backdrop(first, across, top), _strips(first, across)]
    behind = {
        panel.title: [one for run in others for one in run.panels if one.title == panel.title] for panel in first.panels
    }
    points = _points_each(first, others)
    for place, panel in enumerate(first.panels):
        at = top + place * (_PANEL + _GAP) + _GAP - 8
        content.append(_panel(panel, behind[panel.title], across, at, points))
    height = top + len(first.panels) * (_PANEL + _GAP) - 8
    title = f"What was seen from the side, run {first.run}"
    since = "the measured window began" if first.measured else "the first look"
    left = 14 + 7 * max(len(tick) for panel in first.panels for tick in _labels(_up(panel, behind[panel.title])))
    chart = Chart(title, _told(first), across, f"seconds since {since}", height, left=left)
    says = _caption(first, others, len(runs_seen(job)))
    numbers = partial(_numbers, first, points[0])
    return Picture("telemetry", "telemetry", title, chart.draw(*content), says, numbers, wide=True)


def _numbers(run: _Drawn, most: int) -> Numbers:
    """The lines of the run that is drawn in full, thinned as far as they are drawn."""
    rows = [
        (panel.title, panel.unit, whose(one.source), at, value)
        for panel in run.panels
        for one in panel.lines
        for at, value in zip(*(part.tolist() for part in thin(one.at_s, one.value, most)), strict=True)
    ]
    phases = [("Phase", "s", name, begin, end - begin) for name, begin, end in run.phases]
    return Numbers.of(("quantity", "unit", "of", "seconds", "value"), [*rows, *phases])


def read_recordings(job: MultiRunJobResult, files: Files) -> dict[int, Recording]:
    """Run → what was kept of it, for the first good runs that left something readable."""
    found: dict[int, Recording] = {}
    for run in runs_seen(job):
        if len(found) == MOST_RUNS:
            break
        try:
            content = files(job.job, run, FILE)
            if content is not None:
                found[run] = read_telemetry(content)
        except (AssayError, OSError):
            continue  # a lost file costs its lines, never the report
    return found


def runs_seen(job: MultiRunJobResult) -> list[int]:
    """The good runs of a job of which readings were kept."""
    return [run.run_id for run in job.runs if run.error is None and FILE in run.files]


def _drawn(run: int, recording: Recording) -> _Drawn:
    measure = next((one for one in recording.phases if one.name == "measure"), None)
    origin = measure.begin_ns if measure else min((int(track.at_ns[0]) for track in recording.tracks), default=0)
    phases = tuple((one.name, *_seconds(one, origin)) for one in recording.phases)
    return _Drawn(run, tuple(panels_of(recording, origin)), phases, held_back(recording, origin), measure is not None)


def _seconds(stretch: Stretch, origin: int) -> tuple[float, float]:
    return (stretch.begin_ns - origin) / 1e9, (stretch.end_ns - origin) / 1e9


def _time_axis(run: _Drawn) -> Axis:
    ends = [float(end) for panel in run.panels for one in panel.lines for end in (one.at_s[0], one.at_s[-1])]
    ends += [end for _, begin, done in run.phases for end in (begin, done)]
    return close_axis(min(ends), max(ends), count=6)


def _points_each(first: _Drawn, others: Sequence[_Drawn]) -> tuple[int, int]:
    """How many points a line of the first run and one of the others may have, so that the picture stays small."""
    own = sum(len(panel.lines) for panel in first.panels)
    rest = sum(len(panel.lines) for run in others for panel in run.panels)
    return min(_OF_A_LINE, _MOST_POINTS // max(own, 1)), min(_OF_A_LINE // 4, max(_MOST_BEHIND // max(rest, 1), 8))


def _backdrop(run: _Drawn, across: Axis, top: float) -> Markup:
    """Behind all panels: what lies outside the measured window, and the stretches in which clocks were held down."""
    height = len(run.panels) * (_PANEL + _GAP) - 8
    outside = [bar(across, begin, end, top, height, "warm") for name, begin, end in run.phases if name != "measure"]
    edges = [
        line(across.percent(at), across.percent(at), 0, top + height, "edge")
        for name, *ends in run.phases
        if name == "measure"
        for at in ends
    ]
    hot = [bar(across, one.begin_s, one.end_s, top, height, "hot") for one in run.held]
    return el("g", *outside, *hot, *edges)


def _strips(run: _Drawn, across: Axis) -> Markup:
    """The names of the phases, and below them why clocks were held down."""
    phases = [_phase(across, name, begin, end) for name, begin, end in run.phases]
    return join((*phases, *_reasons(run.held, across)))


def _reasons(held: Sequence[ThrottledSpan], across: Axis) -> list[Markup]:
    """Each stretch of throttling in a strip of its own, with its reason beside it as long as reasons do not meet."""
    parts, free_px = [], -1.0
    for one in held:
        parts.append(_box(across, f"throttled: {one.why}", one.begin_s, one.end_s, _STRIP, "hot"))
        told = f"throttled: {one.why}"
        begin_px, length_px = across.share(one.begin_s) * _NARROWEST_PX, len(told) * _LETTER_PX
        at_end = begin_px + length_px > _NARROWEST_PX
        left_px = _NARROWEST_PX - length_px if at_end else begin_px
        if left_px > free_px:
            x = "100%" if at_end else across.percent(one.begin_s)
            parts.append(label(told, x, _STRIP + 11.5, "tick end" if at_end else "tick"))
            free_px = left_px + length_px
    return parts


def _phase(across: Axis, name: str, begin: float, end: float) -> Markup:
    """A phase with its name on it where there is room; pointing at it tells the name anyway."""
    box = _box(across, name, begin, end, 0, "phase")
    middle = f"{50 * (across.share(begin) + across.share(end)):.2f}%"
    return join((box, label(name, middle, 11.5, "tick middle") if _fits(across, name, begin, end) else None))


def _box(across: Axis, name: str, begin: float, end: float, y: float, class_: str) -> Markup:
    width = f"{max(100 * (across.share(end) - across.share(begin)), 0.15):.2f}%"
    told = el("title", f"{name}, {show_seconds(max(end - begin, 0.0))}")
    return el("rect", told, x=across.percent(begin), width=width, y=y, height=_STRIP - 3, class_=class_)


def _fits(across: Axis, name: str, begin: float, end: float) -> bool:
    return (across.share(end) - across.share(begin)) * _NARROWEST_PX >= len(name) * _LETTER_PX


def _up(panel: TelemetryPanel, behind: Sequence[TelemetryPanel]) -> Axis:
    values = reach(line for one in (panel, *behind) for line in one.lines)
    return axis_for(values, zero=panel.zero, count=3)


def _labels(axis: Axis) -> list[str]:
    return [axis.label(tick) for tick in axis.ticks]


def _panel(
    panel: TelemetryPanel, behind: Sequence[TelemetryPanel], across: Axis, top: float, points: tuple[int, int]
) -> Markup:
    up = _up(panel, behind)
    parts: list[Markup] = []
    for tick in up.ticks:
        y = top + _PANEL * (1 - up.share(tick))
        parts.append(line("0%", "100%", y, y, "level"))
        parts.append(el("text", up.label(tick), x=-6, y=y + 4, class_="tick end"))
    order = {one.source: kind for one, kind in zip(panel.lines, _KINDS, strict=False)}
    others = [one for other in behind for one in other.lines if one.source in order]
    parts += [_trace(one, across, up, top, f"{order[one.source]} faint", points[1]) for one in others]
    parts += [_trace(one, across, up, top, f"{order[one.source]} thick", points[0]) for one in panel.lines]
    name = label(f"{panel.title}, {panel.unit}", "0%", top - 7, "tick")
    legend = label(_legend(panel), "100%", top - 7, "tick end")
    return el("g", *parts, name, legend)


def _trace(one: PanelLine, across: Axis, up: Axis, top: float, class_: str, most: int) -> Markup:
    inside = (one.at_s >= across.low) & (one.at_s <= across.high)
    at, value = thin(one.at_s[inside], one.value[inside])
    shares = list(zip(across.shares(at), up.shares(value), strict=True))
    points = straightened(shares, _SEEN_PX / _PANEL)
    if len(points) > most:
        at, value = thin(at, value, most)
        points = list(zip(across.shares(at), up.shares(value), strict=True))
    return curve(points, top, _PANEL, class_) if len(points) > 1 else Markup()


def straightened(points: Sequence[tuple[float, float]], tolerance: float) -> list[tuple[float, float]]:
    """The points without those that a straight line through the others tells as well, so far as can be seen."""
    if len(points) < 3:
        return list(points)
    kept = [points[0]]
    from_x, from_y = points[0]
    low, high = -math.inf, math.inf  # slopes from the last kept point that pass every one since closely enough
    for before, (x, y) in itertools.pairwise(points):
        run, rise = x - from_x or _NO_TIME, y - from_y
        if not low <= rise / run <= high:
            kept.append(before)
            from_x, from_y = before
            run, rise = x - from_x or _NO_TIME, y - from_y
            low, high = -math.inf, math.inf
        lowest, highest = (rise - tolerance) / run, (rise + tolerance) / run
        low = max(low, lowest)
        high = min(high, highest)
    return [*kept, points[-1]]


def _legend(panel: TelemetryPanel) -> str:
    names = [_short(one.source) for one in panel.lines]
    return names[0] if len(names) == 1 else "  ".join(map(" ".join, zip(names, _DASHES, strict=False)))


def _short(source: str) -> str:
    return {"job": "job", "others": "others", "machine": "machine"}.get(source) or whose(source)


def _told(run: _Drawn) -> str:
    """The picture in words, for people who cannot see it."""
    parts = [f"Run {run.run} over time."]
    for panel in run.panels:
        means = [
            f"{whose(one.source)} {show(float(np.mean(one.value)))} on average, at most {show(float(one.value.max()))}"
            for one in panel.lines
        ]
        parts.append(f"{panel.title} in {panel.unit}: {'; '.join(means)}.")
    parts += [f"Phase {name}: {show(begin, 2)} s to {show(end, 2)} s." for name, begin, end in run.phases]
    return " ".join([*parts, *_held_words(run)])


def _held_words(run: _Drawn) -> list[str]:
    seconds: dict[tuple[str, str], float] = {}
    for one in run.held:
        key = (whose(one.source), one.why)
        seconds[key] = seconds.get(key, 0.0) + one.held_s
    return [f"{who} was throttled for {show_seconds(told)} in all: {why}." for (who, why), told in seconds.items()]


def _caption(run: _Drawn, others: Sequence[_Drawn], kept: int) -> str:
    parts = [f"Read by another process while run {run.run} went on; each panel is one quantity."]
    if run.measured:
        parts.append("No number of this report is taken in the shaded phases; the measured window has no shade.")
    across = _time_axis(run)
    short = dict.fromkeys(name for name, begin, end in run.phases if not _fits(across, name, begin, end))
    parts += [f"Too short for a name: {', '.join(_lasted(run.phases, short))}."] if short else []
    parts += _held_words(run)
    if others:
        named = ", ".join(str(one.run) for one in others)
        parts.append(f"The faint lines are run{'' if len(others) == 1 else 's'} {named}.")
    if kept > 1 + len(others):
        parts.append(f"{1 + len(others)} of {kept} runs are drawn.")
    if any(panel.left_out for panel in run.panels):
        parts.append("Of many devices, those with the highest values are drawn.")
    return " ".join(parts)


def _lasted(phases: Sequence[tuple[str, float, float]], names: Mapping[str, None]) -> list[str]:
    total = {name: sum(end - begin for one, begin, end in phases if one == name) for name in names}
    return [f"{name} ({show_seconds(max(took, 0.0))})" for name, took in total.items()]
