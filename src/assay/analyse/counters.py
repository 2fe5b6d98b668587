"""Counters turned into rates, honestly: a step across a reset or a gap gives no rate, and both are counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Scrapes come late now and then; more than this many intervals apart, at least one is missing.
GAP = 2.5


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """A quantity over time. NaN stands where a gap begins, so that a line through it is broken there."""

    at_s: NDArray[np.float64]
    value: NDArray[np.float64]
    resets: int = 0
    """How often the counter began again."""
    gaps: int = 0
    """How often readings are missing."""

    @property
    def told(self) -> NDArray[np.float64]:
        return self.value[np.isfinite(self.value)]


def rate(at_s: NDArray[np.float64], value: NDArray[np.float64], interval_s: float) -> Course:
    """How much a counter rose in a second, at the end of each step.

    A counter that fell has begun again at some moment within the step, and what it had counted until then is lost:
    that step has no rate. The same holds for a step in which readings are missing: its mean would hide them.
    """
    seconds, risen = np.diff(at_s), np.diff(value)
    late = seconds > GAP * interval_s
    fell = risen < 0
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = np.where((seconds > 0) & ~late & ~fell, risen / seconds, np.nan)
    return Course(at_s[1:], rates, int(np.count_nonzero(fell)), int(np.count_nonzero(late)))


def broken(at_s: NDArray[np.float64], value: NDArray[np.float64], interval_s: float) -> Course:
    """A gauge with NaN put into the middle of every gap."""
    late = np.flatnonzero(np.diff(at_s) > GAP * interval_s)
    if not late.size:
        return Course(at_s, value)
    middle = (at_s[late] + at_s[late + 1]) / 2
    return Course(np.insert(at_s, late + 1, middle), np.insert(value, late + 1, np.nan), gaps=int(late.size))


def total(courses: list[Course]) -> Course:
    """Several quantities added up, at the moments that all of them have."""
    if not courses:
        return Course(np.empty(0), np.empty(0))
    at_s = courses[0].at_s
    for one in courses[1:]:
        at_s = np.intersect1d(at_s, one.at_s)
    parts = [one.value[np.isin(one.at_s, at_s)] for one in courses]
    return Course(at_s, np.sum(parts, axis=0), max(one.resets for one in courses), max(one.gaps for one in courses))
