"""The picture of the telemetry of a run: panels on one time axis, phases named, throttling shaded."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from assay.analyse.records import MultiRunJobResult
from assay.analyse.text import run_name
from assay.hardware.gpu.nvml import reasons_of_bits
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
    label,
    levels,
    line,
    room_for,
)
from assay.report.html.samples import thin
from assay.report.html.stacked import (
    GAP,
    LETTER_PX,
    MOST_LINES,
    NARROWEST_PX,
    PANEL,
    STRIP,
    Files,
    box,
    fits,
    phase,
    readable_files,
    titles,
)
from assay.report.numbers import show
from assay.report.telemetry import whose
from assay.run.probes import FILE
from assay.store.telemetry import Recording, Stretch, Track, read_telemetry
from assay.units import show_seconds

MOST_RUNS = 5  # the one that is drawn in full, and those behind it
_MOST_POINTS = 2200  # of the run that is drawn in full, all lines together: some 30 kB
_MOST_BEHIND = 1100  # of all others together
_OF_A_LINE = 360
_KINDS = ("trace", "trace second", "trace third")
_NO_TIME = 1e-12  # between two readings of one moment
_VISIBLE_PX = 0.4  # a smaller step cannot be seen
_LEGEND = Legend(
    "Telemetry",
    "Read by another process during the run; each panel is one quantity. No number of this report is taken in the "
    "shaded phases: the measured window has no shade. Faint lines are other runs of the job.",
)


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
    top = strips * STRIP + 8
    content = [_backdrop(first, across, top), _strips(first, across)]
    behind = {
        panel.title: [other for run in others for other in run.panels if other.title == panel.title]
        for panel in first.panels
    }
    points = _points_each(first, others)
    for place, panel in enumerate(first.panels):
        at = top + place * (PANEL + GAP) + GAP - 8
        content.append(_panel(panel, behind[panel.title], across, at, points))
    height = top + len(first.panels) * (PANEL + GAP) - 8
    title = f"Telemetry, {run_name(first.run)}"
    since = "the measured window began" if first.measured else "the first reading"
    left = room_for([_up(panel, behind[panel.title]) for panel in first.panels])
    chart = Chart(title, _description(first), across, f"seconds since {since}", height, left=left)
    note = _note(first, others, len(telemetry_runs(job)))
    numbers = partial(_numbers, first, points[0])
    return Picture("telemetry", "telemetry", title, chart.draw(*content), _LEGEND, note, numbers, wide=True)


def _numbers(run: _Drawn, most: int) -> Numbers:
    """The lines of the run that is drawn in full, thinned as far as they are drawn."""
    rows = [
        (panel.title, panel.unit, whose(line.source), at, value)
        for panel in run.panels
        for line in panel.lines
        for at, value in zip(*(part.tolist() for part in thin(line.at_s, line.value, most)), strict=True)
    ]
    phases = [("Phase", "s", name, begin, end - begin) for name, begin, end in run.phases]
    return Numbers.of(("quantity", "unit", "of", "seconds", "value"), [*rows, *phases])


def read_recordings(job: MultiRunJobResult, files: Files) -> dict[int, Recording]:
    """Run → what was kept of it, for the first good runs that left something readable."""
    return readable_files(job, telemetry_runs(job), files, FILE, read_telemetry, MOST_RUNS)


def telemetry_runs(job: MultiRunJobResult) -> list[int]:
    """The good runs of a job of which readings were kept."""
    return [run.run_id for run in job.runs if run.error is None and FILE in run.files]


def _drawn(run: int, recording: Recording) -> _Drawn:
    measure = next((phase for phase in recording.phases if phase.name == "measure"), None)
    origin = measure.begin_ns if measure else min((int(track.at_ns[0]) for track in recording.tracks), default=0)
    phases = tuple((phase.name, *_seconds(phase, origin)) for phase in recording.phases)
    return _Drawn(run, tuple(panels_of(recording, origin)), phases, held_back(recording, origin), measure is not None)


def _seconds(stretch: Stretch, origin: int) -> tuple[float, float]:
    return (stretch.begin_ns - origin) / 1e9, (stretch.end_ns - origin) / 1e9


def _time_axis(run: _Drawn) -> Axis:
    ends = [float(end) for panel in run.panels for line in panel.lines for end in (line.at_s[0], line.at_s[-1])]
    ends += [end for _, begin, done in run.phases for end in (begin, done)]
    return close_axis(min(ends), max(ends), count=6)


def _points_each(first: _Drawn, others: Sequence[_Drawn]) -> tuple[int, int]:
    """How many points a line of the first run and one of the others may have, so that the picture stays small."""
    own = sum(len(panel.lines) for panel in first.panels)
    rest = sum(len(panel.lines) for run in others for panel in run.panels)
    return min(_OF_A_LINE, _MOST_POINTS // max(own, 1)), min(_OF_A_LINE // 4, max(_MOST_BEHIND // max(rest, 1), 8))


def _backdrop(run: _Drawn, across: Axis, top: float) -> Markup:
    """Behind all panels: what lies outside the measured window, and the stretches in which clocks were held down."""
    height = len(run.panels) * (PANEL + GAP) - 8
    outside = [bar(across, begin, end, top, height, "warm") for name, begin, end in run.phases if name != "measure"]
    edges = [
        line(across.percent(at), across.percent(at), 0, top + height, "edge")
        for name, *ends in run.phases
        if name == "measure"
        for at in ends
    ]
    hot = [bar(across, span.begin_s, span.end_s, top, height, "hot") for span in run.held]
    return el("g", *outside, *hot, *edges)


def _strips(run: _Drawn, across: Axis) -> Markup:
    """The names of the phases, and below them why clocks were held down."""
    phases = [phase(across, name, begin, end, 0) for name, begin, end in run.phases]
    return join((*phases, *_reasons(run.held, across)))


def _reasons(held: Sequence[ThrottledSpan], across: Axis) -> list[Markup]:
    """Each stretch of throttling in a strip of its own, with its reason beside it as long as reasons do not meet."""
    parts, free_px = [], -1.0
    for span in held:
        parts.append(box(across, f"throttled: {span.why}", span.begin_s, span.end_s, STRIP, "hot"))
        text = f"throttled: {span.why}"
        begin_px, length_px = across.share(span.begin_s) * NARROWEST_PX, len(text) * LETTER_PX
        at_end = begin_px + length_px > NARROWEST_PX
        left_px = NARROWEST_PX - length_px if at_end else begin_px
        if left_px > free_px:
            x = "100%" if at_end else across.percent(span.begin_s)
            parts.append(label(text, x, STRIP + 11.5, "tick end" if at_end else "tick"))
            free_px = left_px + length_px
    return parts


def _up(panel: TelemetryPanel, behind: Sequence[TelemetryPanel]) -> Axis:
    values = reach(line for other in (panel, *behind) for line in other.lines)
    return axis_for(values, zero=panel.zero, count=3)


def _panel(
    panel: TelemetryPanel, behind: Sequence[TelemetryPanel], across: Axis, top: float, points: tuple[int, int]
) -> Markup:
    up = _up(panel, behind)
    order = {line.source: kind for line, kind in zip(panel.lines, _KINDS, strict=False)}
    others = [line for other in behind for line in other.lines if line.source in order]
    parts = [_trace(line, across, up, top, f"{order[line.source]} faint", points[1]) for line in others]
    parts += [_trace(line, across, up, top, f"{order[line.source]} thick", points[0]) for line in panel.lines]
    names = [line.source if line.source in ("job", "others", "machine") else whose(line.source) for line in panel.lines]
    return el("g", levels(up, top, PANEL), *parts, *titles(f"{panel.title}, {panel.unit}", names, top))


def _trace(line: PanelLine, across: Axis, up: Axis, top: float, class_: str, most: int) -> Markup:
    inside = (line.at_s >= across.low) & (line.at_s <= across.high)
    at, value = thin(line.at_s[inside], line.value[inside])
    shares = list(zip(across.shares(at), up.shares(value), strict=True))
    points = straightened(shares, _VISIBLE_PX / PANEL)
    if len(points) > most:
        at, value = thin(at, value, most)
        points = list(zip(across.shares(at), up.shares(value), strict=True))
    return curve(points, top, PANEL, class_) if len(points) > 1 else Markup()


def straightened(points: Sequence[tuple[float, float]], tolerance: float) -> list[tuple[float, float]]:
    """The points that a line needs to look the same; those on a straight line between others are left out."""
    if len(points) < 3:
        return list(points)
    thinned = [points[0]]
    from_x, from_y = points[0]
    low, high = -math.inf, math.inf  # slopes from the last kept point that pass every one since closely enough
    for before, (x, y) in itertools.pairwise(points):
        run, rise = x - from_x or _NO_TIME, y - from_y
        if not low <= rise / run <= high:
            thinned.append(before)
            from_x, from_y = before
            run, rise = x - from_x or _NO_TIME, y - from_y
            low, high = -math.inf, math.inf
        lowest, highest = (rise - tolerance) / run, (rise + tolerance) / run
        low = max(low, lowest)
        high = min(high, highest)
    return [*thinned, points[-1]]


def _description(run: _Drawn) -> str:
    """The picture in words, for people who cannot see it."""
    parts = [f"Run {run.run + 1} over time."]
    for panel in run.panels:
        means = [
            f"{whose(row.source)} {show(float(np.mean(row.value)))} on average, at most {show(float(row.value.max()))}"
            for row in panel.lines
        ]
        parts.append(f"{panel.title} in {panel.unit}: {'; '.join(means)}.")
    parts += [f"Phase {name}: {show(begin, 2)} s to {show(end, 2)} s." for name, begin, end in run.phases]
    return " ".join([*parts, *_held_words(run)])


def _held_words(run: _Drawn) -> list[str]:
    seconds: dict[tuple[str, str], float] = {}
    for span in run.held:
        key = (whose(span.source), span.why)
        seconds[key] = seconds.get(key, 0.0) + span.held_s
    return [
        f"{who} was throttled for {show_seconds(total_s)} in all: {why}." for (who, why), total_s in seconds.items()
    ]


def _note(run: _Drawn, others: Sequence[_Drawn], kept: int) -> str:
    parts = []
    across = _time_axis(run)
    short = dict.fromkeys(name for name, begin, end in run.phases if not fits(across, name, begin, end))
    if short:
        parts.append(f"Phases too short to label: {', '.join(_durations(run.phases, short))}.")
    parts += _held_words(run)
    if others:
        named = ", ".join(str(other.run) for other in others)
        parts.append(f"The faint lines are run{'' if len(others) == 1 else 's'} {named}.")
    if kept > 1 + len(others):
        parts.append(f"{1 + len(others)} of {kept} runs are drawn.")
    if any(panel.left_out for panel in run.panels):
        parts.append("Of many devices, those with the highest values are drawn.")
    return " ".join(parts)


def _durations(phases: Sequence[tuple[str, float, float]], names: Mapping[str, None]) -> list[str]:
    total = {name: sum(end - begin for phase, begin, end in phases if phase == name) for name in names}
    return [f"{name} ({show_seconds(max(took, 0.0))})" for name, took in total.items()]


_Values = NDArray[np.float64]
# A board at its power limit sets and clears its bit many times a second; gaps this short are part of one stretch.
_SAME_STRETCH = 3.0  # times between two readings
_MOST = 40  # stretches of one device; a picture with more is only noise


@dataclass(frozen=True, slots=True)
class _TrackChoice:
    """Which tracks belong to a panel, and how their values become its unit."""

    pattern: re.Pattern[str]
    """Of `source.name`."""
    scale: float = 1.0
    counter: bool = False
    """It counts up; what is drawn is how much a second."""


@dataclass(frozen=True, slots=True)
class _PanelKind:
    title: str
    unit: str
    readings: tuple[_TrackChoice, ...]
    """The first that a source has is drawn."""
    zero: bool = True
    """Whether its axis begins at zero."""


@dataclass(frozen=True, slots=True, eq=False)
class PanelLine:
    """One reading over time."""

    source: str
    at_s: _Values
    value: _Values


@dataclass(frozen=True, slots=True)
class TelemetryPanel:
    """Readings of one kind of quantity."""

    title: str
    unit: str
    zero: bool
    lines: tuple[PanelLine, ...]
    left_out: int = 0
    """Lines that would be too many."""


def _reading(pattern: str, scale: float = 1.0, *, counter: bool = False) -> _TrackChoice:
    return _TrackChoice(re.compile(pattern), scale, counter)


_QUANTITIES = (
    _PanelKind("Processor", "% of a core",
          (_reading(r"(job|others)\.cpu_pct"), _reading(r"(job|others)\.cpu_s", 100, counter=True))),
    _PanelKind("Memory", "GB", (_reading(r"job\.rss_bytes", 1e-9),)),
    _PanelKind("GPU utilisation", "%", (_reading(r"gpu:\d+\.gpu_util_pct"),)),
    _PanelKind("GPU memory", "GB", (_reading(r"gpu:\d+\.gpu_mem_bytes", 1e-9),)),
    _PanelKind("Power", "W", (_reading(r"[^.]+\.power_w"), _reading(r"[^.]+\.energy_j", counter=True))),
    _PanelKind("Clock", "MHz", (_reading(r"gpu:\d+\.sm_mhz"), _reading(r"machine\.cpu_mhz")), zero=False),
    _PanelKind("Temperature", "°C", (_reading(r"[^.]+\.temperature_c"),), zero=False),
)  # fmt: skip


def panels_of(recording: Recording, origin_ns: int) -> list[TelemetryPanel]:
    """The panels of one run, from what was read; times count from a moment."""
    panels = [_panel_of(kind, recording, origin_ns) for kind in _QUANTITIES]
    return [panel for panel in panels if panel.lines]


def _panel_of(kind: _PanelKind, recording: Recording, origin_ns: int) -> TelemetryPanel:
    lines: dict[str, PanelLine] = {}
    for reading in kind.readings:
        for track in recording.tracks:
            if track.source not in lines and reading.pattern.fullmatch(f"{track.source}.{track.name}"):
                line = _line_of(track, reading, origin_ns)
                if line.value.size > 1:
                    lines[track.source] = line
    # Of many devices, those that did most are worth their ink.
    most = sorted(lines.values(), key=lambda candidate: -float(candidate.value.mean()))[:MOST_LINES]
    shown = tuple(sorted(most, key=lambda candidate: _place(candidate.source)))
    return TelemetryPanel(kind.title, kind.unit, kind.zero, shown, len(lines) - len(shown))


def _place(source: str) -> tuple[bool, bool, str, int]:
    """The job first, then other programs, then devices by their number."""
    kind, _, number = source.partition(":")
    return source != "job", source != "others", kind, int(number) if number.isdigit() else 0


def _line_of(track: Track, reading: _TrackChoice, origin_ns: int) -> PanelLine:
    at = (track.at_ns - origin_ns) / 1e9
    value = track.value
    if reading.counter:
        at, value = _per_second(at, value)
    finite = np.isfinite(value)
    return PanelLine(track.source, at[finite], value[finite] * reading.scale)


def _per_second(at: _Values, value: _Values) -> tuple[_Values, _Values]:
    """The rate of a counter, at the end of each step; a step back is a restart and is left out."""
    seconds, risen = np.diff(at), np.diff(value)
    good = (seconds > 0) & (risen >= 0)
    return at[1:][good], risen[good] / seconds[good]


def reach(lines: Iterable[PanelLine]) -> list[float]:
    """The lowest and the highest value of some lines."""
    values = [line.value for line in lines if line.value.size]
    return [float(min(value.min() for value in values)), float(max(value.max() for value in values))] if values else []


@dataclass(frozen=True, slots=True)
class ThrottledSpan:
    """A stretch in which the clocks of a device were held down."""

    source: str
    why: str
    begin_s: float
    end_s: float
    held_s: float
    """Of it, as long as the clocks really were held down: it may have short gaps."""


def held_back(recording: Recording, origin_ns: int) -> tuple[ThrottledSpan, ...]:
    """The throttled stretches of a run, in order; times count from a moment."""
    spans = [span for track in recording.tracks if track.name == "throttle_bits" for span in _held_of(track, origin_ns)]
    return tuple(sorted(spans, key=lambda span: (span.begin_s, span.source)))


def _held_of(track: Track, origin_ns: int) -> list[ThrottledSpan]:
    reasons = cache(reasons_of_bits)
    words = ["; ".join(reasons(int(bits))) if np.isfinite(bits) else "" for bits in track.value.tolist()]
    at = ((track.at_ns - origin_ns) / 1e9).tolist()
    # A reading holds until the next one.
    step = float(np.median(np.diff(track.at_ns))) / 1e9 if len(at) > 1 else 0.0
    stretches: list[ThrottledSpan] = []
    place = 0
    for why, group in itertools.groupby(words):
        size = len(list(group))
        begin, end = at[place], at[place + size] if place + size < len(at) else at[-1] + step
        place += size
        if why:
            stretches.append(ThrottledSpan(track.source, why, begin, end, end - begin))
    return _joined(stretches, step)


def _joined(stretches: list[ThrottledSpan], step: float) -> list[ThrottledSpan]:
    """Stretches of one reason with hardly a gap between them as one; of any reason, over wider gaps, while too many."""
    gap = _SAME_STRETCH * max(step, 1e-3)
    merged = _merged(stretches, gap, any_reason=False)
    while len(merged) > _MOST:
        merged = _merged(merged, gap, any_reason=True)
        gap *= 2
    return merged


def _merged(stretches: list[ThrottledSpan], gap: float, *, any_reason: bool) -> list[ThrottledSpan]:
    merged: list[ThrottledSpan] = []
    for span in stretches:
        last = merged[-1] if merged else None
        if last and (any_reason or last.why == span.why) and span.begin_s - last.end_s <= gap:
            why = "; ".join(dict.fromkeys((*last.why.split("; "), *span.why.split("; "))))
            merged[-1] = ThrottledSpan(span.source, why, last.begin_s, span.end_s, last.held_s + span.held_s)
        else:
            merged.append(span)
    return merged
