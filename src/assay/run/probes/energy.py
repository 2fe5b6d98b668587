"""Energy of a window from readings: from a counter at both ends, or from samples of the power. Never a guess."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from assay.run.probes.columns import Column, Window

# Readings that cover less of a window than this do not stand for it.
LEAST_COVERED = 0.5


class NoEnergyError(Exception):
    """Why the energy of a window cannot be told."""


@dataclass(frozen=True, slots=True)
class Used:
    """Energy over a stretch of time."""

    joules: float
    seconds: float


def counted(column: Column, window: Window) -> Used:
    """Energy from a counter, with its value at both ends of the window read off the line between neighbours.

    Raises:
        NoEnergyError: if the readings do not tell.
    """
    begin, end = _covered(column.at_ns, window)
    low, high = bisect_left(column.at_ns, begin), bisect_right(column.at_ns, end)
    around = column.value[max(0, low - 1) : high + 1]
    if any(after < before for before, after in pairwise(around)):
        raise NoEnergyError("its counter fell in the middle, as after a reset")
    seconds = (end - begin) / 1e9
    joules = value_at(column.at_ns, column.value, end) - value_at(column.at_ns, column.value, begin)
    if joules <= 0:
        raise NoEnergyError(f"its counter did not move in {seconds:.3g} s")
    return Used(joules, seconds)


def sampled(column: Column, window: Window) -> Used:
    """Energy from samples of the power: the area under the line through them.

    Raises:
        NoEnergyError: if the readings do not cover the window.
    """
    begin, end = _covered(column.at_ns, window)
    low, high = bisect_right(column.at_ns, begin), bisect_left(column.at_ns, end)
    at = [begin, *column.at_ns[low:high], end]
    watts = [
        value_at(column.at_ns, column.value, begin),
        *column.value[low:high],
        value_at(column.at_ns, column.value, end),
    ]
    joules = sum((w0 + w1) / 2 * (t1 - t0) / 1e9 for (t0, w0), (t1, w1) in pairwise(zip(at, watts, strict=True)))
    return Used(joules, (end - begin) / 1e9)


def summed(column: Column, window: Window) -> Used:
    """Energy from mean powers over stretches of time, of each the part that lies in the window.

    Raises:
        NoEnergyError: if the stretches do not cover the window.
    """
    joules = seconds = 0.0
    for since, at, watts in zip(column.since_ns, column.at_ns, column.value, strict=True):
        inside_s = (min(at, window[1]) - max(since, window[0])) / 1e9
        if inside_s > 0:
            joules, seconds = joules + watts * inside_s, seconds + inside_s
    _refuse_part(seconds * 1e9, window)
    return Used(joules, seconds)


def power_between_steps(column: Column) -> float | None:
    """Mean power from a counter that moves in steps: from its first step to its last; None with fewer than three."""
    steps = [number for number, (before, after) in enumerate(pairwise(column.value), 1) if after > before]
    if len(steps) < 3:
        return None
    first, last = steps[0], steps[-1]
    return (column.value[last] - column.value[first]) / ((column.at_ns[last] - column.at_ns[first]) / 1e9)


def value_at(at_ns: Sequence[int], value: Sequence[float], when_ns: int) -> float:
    """The value at a moment between two readings, by straight line; that of the nearest end outside of them."""
    after = bisect_left(at_ns, when_ns)
    if after == len(at_ns):
        return value[-1]
    if after == 0 or at_ns[after] == when_ns:
        return value[after]
    before = after - 1
    share = (when_ns - at_ns[before]) / (at_ns[after] - at_ns[before])
    return value[before] + share * (value[after] - value[before])


def _covered(at_ns: Sequence[int], window: Window) -> Window:
    if len(at_ns) < 2:
        raise NoEnergyError("there are not two readings of it")
    begin, end = max(window[0], at_ns[0]), min(window[1], at_ns[-1])
    _refuse_part(end - begin, window)
    return begin, end


def _refuse_part(covered_ns: float, window: Window) -> None:
    whole_ns = window[1] - window[0]
    if covered_ns <= 0 or covered_ns < LEAST_COVERED * whole_ns:
        covered_s, whole_s = max(0.0, covered_ns) / 1e9, whole_ns / 1e9
        raise NoEnergyError(f"its readings cover {covered_s:.3g} s of the {whole_s:.3g} s that were measured")
