"""When a run has warmed up and measured enough, and whether its measured part was level."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.analyse.intervals import (
    TAILS,
    median_interval_of_run,
    relative_half_width,
    samples_needed,
    variance_inflation,
)
from assay.analyse.text import percent

BLOCKS = 10
# Blocks of fewer than five samples have medians that jump too much to compare.
DRIFT_MIN_SAMPLES = 5 * BLOCKS
# Smaller shifts than this are not worth an alarm even where they are real.
TOLERANCE = 0.05
# A shift must also stand out of the noise between neighbouring blocks by this many standard errors. With ten
# blocks the largest of all steps passes 4.0 about once in a hundred level runs, the two ends pass 3.4 as often
# (benches/calibration.py measures it).
_STEP_ERRORS = 4.0
_ENDS_ERRORS = 3.4
_END = 3  # blocks at each end


@dataclass(frozen=True, slots=True)
class RunDrift:
    """How far a run's level moved while it was measured."""

    share: float  # the largest shift, relative to the median; positive where values grew
    steady: bool | None  # None where the samples are too few to tell
    detail: str


@dataclass(frozen=True, slots=True)
class _Shift:
    share: float
    errors: float  # the shift in standard errors
    limit: float
    where: str

    @property
    def counts(self) -> bool:
        return abs(self.share) > TOLERANCE and self.errors > self.limit


def drift(values: NDArray[np.float64]) -> RunDrift:
    """Look for a trend from the first to the last blocks of a run, and for a step between any two."""
    finite = values[np.isfinite(values)]
    if finite.size < DRIFT_MIN_SAMPLES:
        return RunDrift(0.0, None, f"{finite.size} samples are too few to see a drift; {DRIFT_MIN_SAMPLES} are needed")
    size = finite.size // BLOCKS
    # The few samples left over are the first ones.
    blocks: NDArray[np.float64] = np.median(finite[-BLOCKS * size :].reshape(BLOCKS, size), axis=1)
    middle = float(np.median(blocks))
    if middle == 0:
        return RunDrift(0.0, None, "the median is zero, so no relative drift can be given")
    shifts = _shifts(blocks, abs(middle))
    real = [shift for shift in shifts if shift.counts]
    worst = max(real or shifts, key=lambda shift: abs(shift.share))
    return RunDrift(worst.share, not real, f"the level moved by {percent(worst.share, signed=True)} {worst.where}")


def _shifts(blocks: NDArray[np.float64], middle: float) -> list[_Shift]:
    """Every shift that is looked at: between the ends, and at each split with two blocks or more on both sides."""
    # Steps between neighbours hold the noise and little of a trend.
    noise = float(np.sqrt(np.mean(np.diff(blocks) ** 2) / 2))
    ends = _shift(blocks[:_END], blocks[-_END:], noise, middle, _ENDS_ERRORS, "from the first to the last blocks")
    splits = [
        _shift(blocks[:at], blocks[at:], noise, middle, _STEP_ERRORS, f"after {percent(at / BLOCKS)} of the samples")
        for at in range(2, BLOCKS - 1)
    ]
    return [ends, *splits]


def _shift(
    before: NDArray[np.float64], after: NDArray[np.float64], noise: float, middle: float, limit: float, where: str
) -> _Shift:
    distance = float(after.mean() - before.mean())
    error = noise * float(np.sqrt(1 / before.size + 1 / after.size))
    return _Shift(distance / middle, abs(distance) / error if error else 0.0, limit, where)


# Fewer samples may have a narrow interval by luck, and say nothing about any tail.
MIN_SAMPLES = samples_needed(0.9)

MIN_WARMUP = 30
# How far apart two parts of a level series may be: a shift below half the noise of one sample hides in it.
_LEVEL_WITHIN = 0.02
_LEVEL_WITHIN_NOISE = 0.5
# A trend this significant over the whole warm-up has not ended, however small its last step.
_TREND_ERRORS = 3.0
_TREND_SHARE = 0.005
# Deviation of a median of n normal values, times the root of n.
_MEDIAN_FACTOR = 1.2533
_MAD_TO_DEVIATION = 1.4826
# Median distance between two successive normal values, in deviations of one: 0.6745 × √2.
_STEP_TO_DEVIATION = 1 / 0.9539


def enough(durations_ns: NDArray[np.int64], relative: float) -> bool:
    """Whether the 95 % interval of the run's median reaches no further than `relative` to each side.

    Ask at doubling sample counts: each question is one more chance to stop by luck.
    """
    if durations_ns.size < MIN_SAMPLES:
        return False
    interval = median_interval_of_run(durations_ns)
    if interval is None:
        return False
    return relative_half_width(interval) <= relative


def samples_for_objective(objective: Iterable[str], runs: int) -> int:
    """How many samples each run must take so that all runs together back the percentiles that an objective names."""
    statistics = {name.rpartition(".")[2] for name in objective}
    needed = max((samples_needed(TAILS[name]) for name in statistics if name in TAILS), default=0)
    return -(-needed // runs)


def steady(durations_ns: NDArray[np.int64]) -> bool:
    """Whether warm-up is over: the last third is shown to be level with the third before it.

    It is not enough that no difference is seen, since few noisy samples never show one. The difference plus
    twice its error must be small, so noise asks for more samples and does not end the warm-up early.

    A warm-up much slower than the part that was watched looks level and cannot be seen from inside it, so ask
    after blocks of some milliseconds; `steadiness.drift` looks again at what was measured.
    """
    if durations_ns.size < MIN_WARMUP:
        return False
    third = durations_ns.size // 3
    parts = durations_ns[-3 * third :].reshape(3, third)
    first, before, last = (float(value) for value in np.median(parts, axis=1))
    if last <= 0:
        return False
    error = _error_of_shift(parts[1:], np.array([[before], [last]])) / last
    shift, earlier_shift = (before - last) / last, (first - before) / last
    # Steps between neighbours tell the deviation of one sample: a slow trend hardly changes them.
    noise = float(np.median(np.abs(np.diff(durations_ns[-2 * third :])))) * _STEP_TO_DEVIATION
    allowed = max(_LEVEL_WITHIN, _LEVEL_WITHIN_NOISE * noise / last)
    return abs(shift) + 2 * error <= allowed and not _still_moving(earlier_shift, shift, error)


def _error_of_shift(parts: NDArray[np.int64], medians: NDArray[np.float64]) -> float:
    """Standard error of the difference between the medians of two parts, wider where samples remember."""
    rest = parts - medians
    deviation = float(np.median(np.abs(rest))) * _MAD_TO_DEVIATION
    inflation = variance_inflation(np.sign(rest).ravel())
    return _MEDIAN_FACTOR * deviation * math.sqrt(2 * inflation / parts.shape[1])


def _still_moving(earlier_shift: float, shift: float, error: float) -> bool:
    """Whether two shifts in a row point the same way and the second is not yet much smaller."""
    total = earlier_shift + shift
    significant = abs(total) > max(_TREND_ERRORS * error, _TREND_SHARE)
    return significant and earlier_shift * shift > 0 and abs(shift) > abs(earlier_shift) / 4
