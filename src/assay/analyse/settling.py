"""The levels that the samples of one run go through: change points over the whole run, and what they add up to.

The classes are those of Barrett et al., "Virtual Machine Warmup Blows Hot and Cold" (OOPSLA 2017).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from assay.analyse.text import count, percent
from assay.run.records import SamplePhase, SampleSet

Shape = Literal["flat", "warm-up", "slow-down", "inconsistent"]
Values = NDArray[np.float64]
Series = NDArray[np.float64] | NDArray[np.int64]

# Times of whole requests, of which one follows the other: the series in which a drift shows. Gaps between tokens
# remember each other, and counts of tokens say what was asked.
REQUEST_TIMES = ("ttft_ms", "prefill_ms", "e2e_ms", "latency_ms")
# Levels closer than this count as one, and the median of a window may be this far from the level at its end.
TOLERANCE = 0.02
_OFF = 0.025
# Where the level goes up and down, this much of it is worth an alarm, where it holds for this share of the window.
_SWING = 0.05
_AWAY = 0.3
# Blocks of fewer than five samples have medians that jump too much; more blocks than this cost too much.
_SMALLEST_BLOCK = 5
_MOST_BLOCKS = 256
MIN_SAMPLES = 10 * _SMALLEST_BLOCK
_LEAST_BLOCKS = 2  # of one level
# What one more level must explain, in squared standard errors; more blocks are more places for chance. Where few
# samples count as independent the noise is known badly, so the price is higher. benches/warmup.py measures how often
# level runs are called something else.
_PENALTY = 14.0
_PER_PLACE = 3.2
_FEW = 35.0
_PASSES = 4
# Shortest lag (in samples) up to which noise may remember, and the shares of a series that bound it.
_MEMORY = 36
_LONGEST_LAG = 16
_LAG_OF_LONG = 64
_FORGOTTEN = 0.1
_MOST_POINTS = 4096
_MEDIAN_FACTOR = 1.2533
# A level that continues to move the way it moved before: this many errors and this share from half to half.
_MOVING_ERRORS = 2.0
_MOVING = 0.01
_SHOWN_ERRORS = 1.645
# A change this early in a window does not move its median.
_SLACK = 0.1
# Cycles are looked for in the last eighth of a run, and in the last eighth of that.
_PART = 8
_LEAST_OF_CYCLES = 200
# A level is believed when nothing has changed for this many times as long as it took to reach it.
_WATCHED = 20


@dataclass(frozen=True, slots=True)
class Course:
    """The levels of one run, and whether its window measured the last of them."""

    shape: Shape | None
    """None where the samples are too few to tell."""
    settled: bool | None
    """Whether the window is about the level at its end; None where the noise hides that."""
    changes: tuple[int, ...] = ()
    """Samples, from the first of the run, at which another level begins."""
    levels: tuple[float, ...] = ()
    """Each level, in units of the last one."""
    unclear: bool = False
    """Whether a flat run may move after all: too little for a finding, too much to be sure."""
    detail: str = ""


def course_of(before: Series, window: Series) -> Course:
    """Classify a run by its samples before the measured window and in it."""
    values = np.concatenate([before, window]).astype(np.float64)
    finite = np.isfinite(values)
    return _classified(values[finite], int(finite[: before.size].sum()), cycles=True)


def course_of_samples(samples: Iterable[SampleSet], metric: str, *, ramped: bool = False) -> Course:
    """Classify a run by the samples of one metric.

    Args:
        ramped: the load grew before the window, so the times before it say nothing.
    """
    parts: dict[SamplePhase, list[Values]] = {"warmup": [], "measure": []}
    for sample_set in samples:
        if sample_set.metric == metric and not (ramped and sample_set.phase == "warmup"):
            parts[sample_set.phase].append(sample_set.value)
    return course_of(*(np.concatenate(values) if values else np.empty(0) for values in parts.values()))


def lasting(before: Series, window: Series) -> Literal["level", "moved", "recent", "unclear"]:
    """Whether the level of a window lasted, asked while a run is measured.

    `moved`: what was measured is still warm-up. `recent`: the last change was not long ago, so another may follow.
    `unclear`: the noise hides whether it moves.
    """
    seen = course_of(before, window)
    if seen.shape is None or seen.shape == "flat":
        return "unclear" if seen.unclear else "level"
    if seen.shape == "inconsistent":
        return "recent"  # it would not settle in another window either
    if seen.settled is False:
        return "moved"
    if seen.settled is None:
        return "unclear"
    return "recent" if before.size + window.size < _WATCHED * seen.changes[-1] else "level"


def _classified(values: Values, begin: int, *, cycles: bool) -> Course:
    few = f"{count(values.size, 'sample')} {'is' if values.size == 1 else 'are'} too few to see levels"
    if values.size < MIN_SAMPLES:
        return Course(None, None, detail=f"{few}; {MIN_SAMPLES} are needed")
    begin = min(begin, values.size - 1)  # a window without a finite sample
    scaled = _scaled(values)
    if scaled is None:
        return Course(None, None, detail="the median is zero, so no relative level can be given")
    size = max(_SMALLEST_BLOCK, -(-values.size // _MOST_BLOCKS))
    left_over = values.size % size  # the few samples left over are the first ones
    blocks: Values = np.median(scaled[left_over:].reshape(-1, size), axis=1)
    segments, error = _segments(scaled[left_over:], blocks, size)
    window = max(0, (begin - left_over) // size)
    if len(segments.starts) == 1:
        if cycles and _has_cycles(values):
            return Course("inconsistent", False, detail="the level goes up and down again and again")
        moved, deviation = _from_half_to_half(blocks, error)
        unclear = abs(moved) > max(_MOVING_ERRORS * deviation, TOLERANCE)
        return Course("flat", True, unclear=unclear, detail="the level stayed where it was")
    shape = _shape(segments.levels)
    changes = tuple(left_over + size * start for start in segments.starts[1:])
    relative = tuple(float(np.exp(level - segments.levels[-1])) for level in segments.levels)
    # By the samples, not by the blocks: noise mixes two levels in the median of samples and hardly in that of blocks.
    off = float(np.median(scaled[begin:]) - np.median(scaled[max(begin, changes[-1]) :]))
    settled = _is_settled(shape, segments, blocks, error, window, off)
    return Course(shape, settled, changes, relative, detail=_sentence(shape, changes, relative, values.size))


def _scaled(values: Values) -> Values | None:
    """Values on a scale on which a difference is a share: logarithms, or units of the median."""
    if (values > 0).all():
        return np.log(values)
    middle = abs(float(np.median(values)))
    return values / middle if middle else None


def _sentence(shape: Shape, changes: tuple[int, ...], levels: tuple[float, ...], total: int) -> str:
    if shape == "inconsistent":
        swing = percent(max(levels) / min(levels) - 1)
        return f"{count(len(changes), 'change')} of level, up and down by {swing}"
    extreme = max(levels) if shape == "warm-up" else min(levels)
    moved = percent(1 / extreme - 1, signed=True)
    return f"the level moved by {moved} until sample {changes[-1]:,} of {total:,}"


@dataclass(frozen=True, slots=True)
class _Segments:
    starts: list[int]
    """First block of each level."""
    ends: list[int]
    levels: list[float]


def _by(blocks: Values, starts: list[int]) -> _Segments:
    ends = [*starts[1:], blocks.size]
    return _Segments(starts, ends, [float(np.median(blocks[a:b])) for a, b in zip(starts, ends, strict=True)])


def _segments(scaled: Values, blocks: Values, size: int) -> tuple[_Segments, float]:
    """The levels of a run, and the standard error of one block.

    At first all that moves is taken for noise. Levels that stand out nevertheless are taken off, and the noise is
    what remains.
    """
    segments, error = _by(blocks, [0]), 0.0
    for _ in range(_PASSES):
        fitted = np.repeat(segments.levels, np.subtract(segments.ends, segments.starts))
        error, memory = _noise_of_blocks(scaled - np.repeat(fitted, size), blocks - fitted, size)
        if error <= 0:
            break
        penalty = max(_PENALTY, _PER_PLACE * math.log(blocks.size)) * (1 + (_FEW * memory / scaled.size) ** 2)
        starts = _change_points(blocks / error, penalty)
        if len(starts) <= len(segments.starts):
            break
        segments = _by(blocks, starts)
    return _merged(blocks, segments), error


def _change_points(values: Values, penalty: float) -> list[int]:
    """First index of each level: least squares with a price per level (optimal partitioning, Jackson et al. 2005)."""
    sums, squares = (np.concatenate([[0.0], np.cumsum(part)]) for part in (values, values * values))
    best = np.full(values.size + 1, np.inf)
    best[0] = -penalty
    origin = np.zeros(values.size + 1, dtype=np.int64)
    lengths = np.arange(values.size + 1, 0, -1, dtype=np.float64)
    for end in range(_LEAST_BLOCKS, values.size + 1):
        begins = end - _LEAST_BLOCKS + 1
        total = sums[end] - sums[:begins]
        longest = lengths.size - end
        cost = best[:begins] - squares[:begins] - total * total / lengths[longest : longest + begins]
        at = int(cost.argmin())
        best[end], origin[end] = cost[at] + squares[end] + penalty, at
    starts, end = [], values.size
    while end > 0:
        end = int(origin[end])
        starts.append(end)
    return starts[::-1]


def _merged(blocks: Values, segments: _Segments) -> _Segments:
    """The same without changes that are not worth a word, the smallest first."""
    while len(segments.starts) > 1:
        steps = np.abs(np.diff(segments.levels))
        least = int(steps.argmin())
        if steps[least] >= TOLERANCE:
            break
        segments = _by(blocks, [start for at, start in enumerate(segments.starts) if at != least + 1])
    return segments


def _noise_of_blocks(scaled: Values, blocks: Values, size: int) -> tuple[float, float]:
    """The standard error of a block's median, and how many samples count as one.

    By the noise of the samples and their memory, or by the steps between neighbouring blocks where these are larger:
    samples of two speeds have medians that jump.
    """
    deviation, memory = _noise(scaled)
    steps = float(np.sqrt(np.mean(np.diff(blocks) ** 2) / 2))
    return max(_MEDIAN_FACTOR * deviation * math.sqrt(memory / size), steps), memory


def _noise(scaled: Values) -> tuple[float, float]:
    """Deviation of one sample and the inflation of a mean's variance by memory, both from the variogram.

    It looks at differences over some lags alone, so steps and slow trends hardly touch it. Each point is the robust
    estimate of Cressie and Hawkins (1980).
    """
    step = -(-scaled.size // _MOST_POINTS)
    points = scaled if step == 1 else scaled[: scaled.size // step * step].reshape(-1, step).mean(axis=1)
    longest = max(2, min(points.size // _LONGEST_LAG, max(-(-_MEMORY // step), points.size // _LAG_OF_LONG)))
    lags = sorted({round(1.4**power) for power in range(int(math.log(longest, 1.4)) + 1)})
    variogram = np.array([_variogram(points, lag) for lag in lags])
    variance = float(variogram[-max(1, len(lags) // 3) :].mean())
    if variance <= 0:
        return 0.0, 1.0
    area, before, at = 0.0, 1.0, 0
    for lag, share in zip(lags, np.maximum(0.0, 1 - variogram / variance).tolist(), strict=True):
        area += (before + share) / 2 * (lag - at)
        if share <= _FORGOTTEN:
            break
        before, at = share, lag
    return math.sqrt(variance * step), max(1.0, 2 * area)


def _variogram(points: Values, lag: int) -> float:
    roots = np.sqrt(np.abs(points[lag:] - points[:-lag]))
    return float(roots.mean()) ** 4 / (0.457 + 0.494 / roots.size) / 2


def _shape(levels: list[float]) -> Shape:
    steps = np.diff(levels)
    if (steps > 0).any() and (steps < 0).any() and min((steps > 0).sum(), (steps < 0).sum()) > 1:
        return "inconsistent"
    return "slow-down" if levels[-1] > min(levels) + TOLERANCE else "warm-up"


def _is_settled(
    shape: Shape, segments: _Segments, blocks: Values, error: float, window: int, off: float
) -> bool | None:
    last = segments.levels[-1]
    if shape == "inconsistent":
        swings = [abs(level - last) > _SWING for level in segments.levels]
        inside = [max(0, end - max(start, window)) for start, end in zip(segments.starts, segments.ends, strict=True)]
        return sum(np.multiply(swings, inside)) <= _AWAY * (blocks.size - window)
    own = blocks[max(segments.starts[-1], window) :]
    if _still_fades(segments, window) or abs(off) > _OFF:
        return False
    moved, deviation = _from_half_to_half(own, error)
    moved *= math.copysign(1.0, last - segments.levels[-2])
    if moved > max(_MOVING_ERRORS * deviation, _MOVING):
        return False
    return None if abs(moved) + _SHOWN_ERRORS * deviation > TOLERANCE else True


def _still_fades(segments: _Segments, window: int) -> bool:
    """Whether the last of several steps in one direction lies in the window: then another will follow."""
    steps = np.sign(np.diff(segments.levels[-3:]))
    slack = _SLACK * (segments.ends[-1] - window)
    return steps.size > 1 and steps[0] == steps[1] and segments.starts[-1] > window + slack


def _from_half_to_half(blocks: Values, error: float) -> tuple[float, float]:
    """How far the level moved from the first half to the second, and the standard error of that."""
    half = blocks.size // 2
    if half == 0:
        return 0.0, math.inf
    return float(blocks[-half:].mean() - blocks[:half].mean()), error * math.sqrt(2 / half)


def _has_cycles(values: Values) -> bool:
    """Whether the level goes up and down within a small part of a run whose parts are alike."""
    part = values.size // _PART
    while part >= _LEAST_OF_CYCLES:
        seen = _classified(values[-part:], 0, cycles=False)
        if seen.shape == "inconsistent" and max(seen.levels) / min(seen.levels) > 1 + _SWING:
            return True
        part //= _PART
    return False
