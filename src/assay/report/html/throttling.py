"""When a device held its clocks down while a run went on, and why: the stretches that a picture shades."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache

import numpy as np

from assay.hardware.gpu.nvml import reasons_of_bits
from assay.store.telemetry import Recording, Track

# A board at its power limit sets and clears its bit many times a second; gaps this short are part of one stretch.
_SAME_STRETCH = 3.0  # times between two looks
_MOST = 40  # stretches of one device; a picture with more is only noise


@dataclass(frozen=True, slots=True)
class Held:
    """A stretch in which the clocks of a device were held down."""

    source: str
    why: str
    begin_s: float
    end_s: float
    held_s: float
    """Of it, as long as the clocks really were held down: it may have short gaps."""


def held_back(recording: Recording, origin_ns: int) -> tuple[Held, ...]:
    """The throttled stretches of a run, in order; times count from a moment."""
    found = [one for track in recording.tracks if track.name == "throttle_bits" for one in _of(track, origin_ns)]
    return tuple(sorted(found, key=lambda one: (one.begin_s, one.source)))


def _of(track: Track, origin_ns: int) -> list[Held]:
    reasons = cache(reasons_of_bits)
    words = ["; ".join(reasons(int(bits))) if np.isfinite(bits) else "" for bits in track.value.tolist()]
    at = ((track.at_ns - origin_ns) / 1e9).tolist()
    # What a look finds is taken to hold until the next one.
    step = float(np.median(np.diff(track.at_ns))) / 1e9 if len(at) > 1 else 0.0
    stretches: list[Held] = []
    place = 0
    for why, group in itertools.groupby(words):
        size = len(list(group))
        begin, end = at[place], at[place + size] if place + size < len(at) else at[-1] + step
        place += size
        if why:
            stretches.append(Held(track.source, why, begin, end, end - begin))
    return _joined(stretches, step)


def _joined(stretches: list[Held], step: float) -> list[Held]:
    """Stretches of one reason with hardly a gap between them as one; of any reason, over wider gaps, while too many."""
    gap = _SAME_STRETCH * max(step, 1e-3)
    kept = _merged(stretches, gap, any_reason=False)
    while len(kept) > _MOST:
        kept = _merged(kept, gap, any_reason=True)
        gap *= 2
    return kept


def _merged(stretches: list[Held], gap: float, *, any_reason: bool) -> list[Held]:
    kept: list[Held] = []
    for one in stretches:
        last = kept[-1] if kept else None
        if last and (any_reason or last.why == one.why) and one.begin_s - last.end_s <= gap:
            why = "; ".join(dict.fromkeys((*last.why.split("; "), *one.why.split("; "))))
            kept[-1] = Held(one.source, why, last.begin_s, one.end_s, last.held_s + one.held_s)
        else:
            kept.append(one)
    return kept
