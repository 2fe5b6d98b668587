"""Whether the measured part of a run was level, looked at afterwards with all samples at hand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.analyse.words import percent

BLOCKS = 10
# Blocks of fewer than five samples have medians that jump too much to compare.
MIN_SAMPLES = 5 * BLOCKS
# Smaller shifts than this are not worth an alarm even where they are real.
TOLERANCE = 0.05
# A shift must also stand out of the noise between neighbouring blocks by this many standard errors. With ten
# blocks the largest of all steps passes 4.0 about once in a hundred level runs, the two ends pass 3.4 as often
# (benches/calibration.py measures it).
_STEP_ERRORS = 4.0
_ENDS_ERRORS = 3.4
_END = 3  # blocks at each end


@dataclass(frozen=True, slots=True)
class Drift:
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


def drift(values: NDArray[np.float64]) -> Drift:
    """Look for a trend from the first to the last blocks of a run, and for a step between any two."""
    finite = values[np.isfinite(values)]
    if finite.size < MIN_SAMPLES:
        return Drift(0.0, None, f"{finite.size} samples are too few to see a drift; {MIN_SAMPLES} are needed")
    blocks = _block_medians(finite)
    middle = float(np.median(blocks))
    if middle == 0:
        return Drift(0.0, None, "the median is zero, so no relative drift can be given")
    shifts = _shifts(blocks, abs(middle))
    real = [shift for shift in shifts if shift.counts]
    worst = max(real or shifts, key=lambda shift: abs(shift.share))
    return Drift(worst.share, not real, f"the level moved by {percent(worst.share, signed=True)} {worst.where}")


def _block_medians(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Medians of ten blocks of equal size; the few samples left over are the first ones."""
    size = values.size // BLOCKS
    medians: NDArray[np.float64] = np.median(values[-BLOCKS * size :].reshape(BLOCKS, size), axis=1)
    return medians


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
