"""Which readings of a run are drawn together: one panel for each kind of quantity, from only what was read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.store.telemetry import Recording, Track

MOST_LINES = 3  # more would not be told apart in a panel of this height
_Values = NDArray[np.float64]


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
class Line:
    """One reading over time."""

    source: str
    at_s: _Values
    value: _Values


@dataclass(frozen=True, slots=True)
class Panel:
    """Readings of one kind of quantity."""

    title: str
    unit: str
    zero: bool
    lines: tuple[Line, ...]
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


def panels_of(recording: Recording, origin_ns: int) -> list[Panel]:
    """The panels of one run, from what was read; times count from a moment."""
    found = [_panel(kind, recording, origin_ns) for kind in _KINDS]
    return [panel for panel in found if panel.lines]


def _panel(kind: _Kind, recording: Recording, origin_ns: int) -> Panel:
    lines: dict[str, Line] = {}
    for reading in kind.readings:
        for track in recording.tracks:
            if track.source not in lines and reading.pattern.fullmatch(f"{track.source}.{track.name}"):
                line = _line(track, reading, origin_ns)
                if line.value.size > 1:
                    lines[track.source] = line
    # Of many devices, those that did most are worth their ink.
    most = sorted(lines.values(), key=lambda one: -float(one.value.mean()))[:MOST_LINES]
    kept = tuple(sorted(most, key=lambda one: _place(one.source)))
    return Panel(kind.title, kind.unit, kind.zero, kept, len(lines) - len(kept))


def _place(source: str) -> tuple[bool, bool, str, int]:
    """The job first, then other programs, then devices by their number."""
    kind, _, number = source.partition(":")
    return source != "job", source != "others", kind, int(number) if number.isdigit() else 0


def _line(track: Track, reading: _Reading, origin_ns: int) -> Line:
    at = (track.at_ns - origin_ns) / 1e9
    value = track.value
    if reading.counter:
        at, value = _per_second(at, value)
    finite = np.isfinite(value)
    return Line(track.source, at[finite], value[finite] * reading.scale)


def _per_second(at: _Values, value: _Values) -> tuple[_Values, _Values]:
    """How much a counter rose in a second, told at the end of each step; a step back is a new start and left out."""
    seconds, risen = np.diff(at), np.diff(value)
    good = (seconds > 0) & (risen >= 0)
    return at[1:][good], risen[good] / seconds[good]


def reach(lines: Iterable[Line]) -> list[float]:
    """The lowest and the highest value of some lines."""
    found = [line.value for line in lines if line.value.size]
    return [float(min(value.min() for value in found)), float(max(value.max() for value in found))] if found else []
