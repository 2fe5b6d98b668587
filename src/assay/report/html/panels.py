"""Which readings of a run are drawn together, one panel for each kind of quantity; and when clocks were throttled."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from assay.hardware.gpu.nvml import reasons_of_bits
from assay.store.telemetry import Recording, Track

MOST_LINES = 3  # more would not be told apart in a panel of this height
_Values = NDArray[np.float64]
# A board at its power limit sets and clears its bit many times a second; gaps this short are part of one stretch.
_SAME_STRETCH = 3.0  # times between two looks
_MOST = 40  # stretches of one device; a picture with more is only noise


@dataclass(frozen=True, slots=True)
class _Reading:
    """Which tracks belong to a panel, and how their values become its unit."""

    pattern: re.Pattern[str]
    """Of `source.name`."""
    scale: float = 1.0
    counter: bool = False
    """It counts up; what is drawn is how much a second."""


@dataclass(frozen=True, slots=True)
class _Kind:
    title: str
    unit: str
    readings: tuple[_Reading, ...]
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


def _reading(pattern: str, scale: float = 1.0, *, counter: bool = False) -> _Reading:
    return _Reading(re.compile(pattern), scale, counter)


_KINDS = (
    _Kind("Processor", "% of a core",
          (_reading(r"(job|others)\.cpu_pct"), _reading(r"(job|others)\.cpu_s", 100, counter=True))),
    _Kind("Memory", "GB", (_reading(r"job\.rss_bytes", 1e-9),)),
    _Kind("GPU utilisation", "%", (_reading(r"gpu:\d+\.gpu_util_pct"),)),
    _Kind("GPU memory", "GB", (_reading(r"gpu:\d+\.gpu_mem_bytes", 1e-9),)),
    _Kind("Power", "W", (_reading(r"[^.]+\.power_w"), _reading(r"[^.]+\.energy_j", counter=True))),
    _Kind("Clock", "MHz", (_reading(r"gpu:\d+\.sm_mhz"), _reading(r"machine\.cpu_mhz")), zero=False),
    _Kind("Temperature", "°C", (_reading(r"[^.]+\.temperature_c"),), zero=False),
)  # fmt: skip


def panels_of(recording: Recording, origin_ns: int) -> list[TelemetryPanel]:
    """The panels of one run, from what was read; times count from a moment."""
    found = [_panel(kind, recording, origin_ns) for kind in _KINDS]
    return [panel for panel in found if panel.lines]


def _panel(kind: _Kind, recording: Recording, origin_ns: int) -> TelemetryPanel:
    lines: dict[str, PanelLine] = {}
    for reading in kind.readings:
        for track in recording.tracks:
            if track.source not in lines and reading.pattern.fullmatch(f"{track.source}.{track.name}"):
                line = _line(track, reading, origin_ns)
                if line.value.size > 1:
                    lines[track.source] = line
    # Of many devices, those that did most are worth their ink.
    most = sorted(lines.values(), key=lambda one: -float(one.value.mean()))[:MOST_LINES]
    kept = tuple(sorted(most, key=lambda one: _place(one.source)))
    return TelemetryPanel(kind.title, kind.unit, kind.zero, kept, len(lines) - len(kept))


def _place(source: str) -> tuple[bool, bool, str, int]:
    """The job first, then other programs, then devices by their number."""
    kind, _, number = source.partition(":")
    return source != "job", source != "others", kind, int(number) if number.isdigit() else 0


def _line(track: Track, reading: _Reading, origin_ns: int) -> PanelLine:
    at = (track.at_ns - origin_ns) / 1e9
    value = track.value
    if reading.counter:
        at, value = _per_second(at, value)
    finite = np.isfinite(value)
    return PanelLine(track.source, at[finite], value[finite] * reading.scale)


def _per_second(at: _Values, value: _Values) -> tuple[_Values, _Values]:
    """How much a counter rose in a second, told at the end of each step; a step back is a new start and left out."""
    seconds, risen = np.diff(at), np.diff(value)
    good = (seconds > 0) & (risen >= 0)
    return at[1:][good], risen[good] / seconds[good]


def reach(lines: Iterable[PanelLine]) -> list[float]:
    """The lowest and the highest value of some lines."""
    found = [line.value for line in lines if line.value.size]
    return [float(min(value.min() for value in found)), float(max(value.max() for value in found))] if found else []


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
    found = [one for track in recording.tracks if track.name == "throttle_bits" for one in _of(track, origin_ns)]
    return tuple(sorted(found, key=lambda one: (one.begin_s, one.source)))


def _of(track: Track, origin_ns: int) -> list[ThrottledSpan]:
    reasons = cache(reasons_of_bits)
    words = ["; ".join(reasons(int(bits))) if np.isfinite(bits) else "" for bits in track.value.tolist()]
    at = ((track.at_ns - origin_ns) / 1e9).tolist()
    # What a look finds is taken to hold until the next one.
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
    kept = _merged(stretches, gap, any_reason=False)
    while len(kept) > _MOST:
        kept = _merged(kept, gap, any_reason=True)
        gap *= 2
    return kept


def _merged(stretches: list[ThrottledSpan], gap: float, *, any_reason: bool) -> list[ThrottledSpan]:
    kept: list[ThrottledSpan] = []
    for one in stretches:
        last = kept[-1] if kept else None
        if last and (any_reason or last.why == one.why) and one.begin_s - last.end_s <= gap:
            why = "; ".join(dict.fromkeys((*last.why.split("; "), *one.why.split("; "))))
            kept[-1] = ThrottledSpan(one.source, why, last.begin_s, one.end_s, last.held_s + one.held_s)
        else:
            kept.append(one)
    return kept
