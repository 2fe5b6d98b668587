"""When one run has measured enough, and when its warm-up is over. The load loops ask; nothing is timed meanwhile."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from assay.analyse.distributions import variance_inflation
from assay.analyse.intervals import median_interval_of_run, relative_half_width
from assay.analyse.percentiles import TAILS, samples_needed

# Fewer samples may have a narrow interval by luck, and say nothing about any tail.
MIN_SAMPLES = samples_needed(0.9)

MIN_WARMUP = 30
# How far apart two parts of a level series may be: a shift below half the noise of one sample hides in it.
_LEVEL_WITHIN = 0.02
_LEVEL_WITHIN_NOISE = 0.5
# A trend this significant over the whole warm-up is still going on, however small its last step.
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
    allowed = max(_LEVEL_WITHIN, _LEVEL_WITHIN_NOISE * _noise(durations_ns[-2 * third :]) / last)
    return abs(shift) + 2 * error <= allowed and not _still_moving(earlier_shift, shift, error)


def _noise(durations_ns: NDArray[np.int64]) -> float:
    """Deviation of one sample from the steps between neighbours, which a slow trend hardly changes."""
    return float(np.median(np.abs(np.diff(durations_ns)))) * _STEP_TO_DEVIATION


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
