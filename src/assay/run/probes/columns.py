"""Readings over time in arrays, their file (packed CSV), and their totals: statistics, and energy with its grade.

Energy is read from a counter at both ends of the window, or from samples of the power; it is never a guess.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from io import TextIOWrapper
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

Window = tuple[int, int]
"""Begin and end, of `time.perf_counter_ns`."""
# A mark that is no phase: the very window that a target counted in, where that is not its whole phase `measure`.
WINDOW = "window"
POWERMETRICS = "powermetrics"  # the source of what that tool of macOS tells
Kind = Literal["gauge", "rate", "counter"]
"""A state at one moment; a mean since the look before; a sum that only grows."""


@dataclass(slots=True)
class ReadingColumn:
    """One number over time."""

    kind: Kind
    at_ns: array[int] = field(default_factory=lambda: array("q"))
    value: array[float] = field(default_factory=lambda: array("d"))
    since_ns: array[int] = field(default_factory=lambda: array("q"))
    """Of a rate: where the stretch begins that ends at `at_ns`."""


class ReadingColumns:
    """All readings of a run, by source and name."""

    def __init__(self) -> None:
        self._columns: dict[tuple[str, str], ReadingColumn] = {}

    def gauge(self, source: str, name: str, at_ns: int, value: float) -> None:
        self._add(source, name, "gauge", at_ns, value)

    def counter(self, source: str, name: str, at_ns: int, value: float) -> None:
        """Take a sum that only grows."""
        self._add(source, name, "counter", at_ns, value)

    def rate(self, source: str, name: str, since_ns: int, at_ns: int, value: float) -> None:
        """Take the mean over a stretch of time."""
        self._add(source, name, "rate", at_ns, value).since_ns.append(since_ns)

    def get(self, source: str, name: str) -> ReadingColumn | None:
        return self._columns.get((source, name))

    def named(self, name: str) -> Iterator[tuple[str, ReadingColumn]]:
        """Source and column of everything that has a name."""
        return ((source, column) for (source, column_name), column in self._columns.items() if column_name == name)

    def joined(self, other: ReadingColumns) -> ReadingColumns:
        """These and others together; neither input is changed."""
        both = ReadingColumns()
        both._columns = {**self._columns, **other._columns}
        return both

    def __iter__(self) -> Iterator[tuple[str, str, ReadingColumn]]:
        return ((source, name, column) for (source, name), column in self._columns.items())

    def _add(self, source: str, name: str, kind: Kind, at_ns: int, value: float) -> ReadingColumn:
        column = self._columns.get((source, name))
        if column is None:
            column = self._columns[source, name] = ReadingColumn(kind)
        column.at_ns.append(at_ns)
        column.value.append(value)
        return column


HEAD = ("source", "name", "labels", "at_ns", "value")
Rows = tuple[str, str, str, Sequence[int], Sequence[float]]
"""Source, name and labels (JSON) of a series, its moments and its values."""


def write(path: Path, series: Iterable[Rows]) -> int:
    """Write all readings; the same readings make the same file.

    Returns:
        How many rows there are.
    """
    count = 0
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, 0) as packed, TextIOWrapper(packed, "utf-8") as text:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(HEAD)
        for source, name, labels, at_ns, value in series:
            writer.writerows((source, name, labels, at, reading) for at, reading in zip(at_ns, value, strict=True))
            count += len(at_ns)
    return count


def answer(document: Mapping[str, Any]) -> None:
    """Answer with one line of JSON; a closed pipe is ignored."""
    try:
        sys.stdout.write(json.dumps(_finite(document), allow_nan=False) + "\n")
        sys.stdout.flush()
    except OSError:
        return


def _finite(value: Any) -> Any:  # noqa: ANN401  (JSON has no narrower type)
    """The same without NaN and infinities, for which JSON has no word."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


# Readings that cover less of a window than this do not stand for it.
LEAST_COVERED = 0.5


class NoEnergyError(Exception):
    """Why the energy of a window is not known."""


@dataclass(frozen=True, slots=True)
class WindowEnergy:
    """Energy over a stretch of time."""

    joules: float
    seconds: float
    low_j: float | None = None
    """The readings next to the ends of the window say that it was at least this; None where they say nothing."""
    high_j: float | None = None
    """And at most this."""


def counted(column: ReadingColumn, window: Window) -> WindowEnergy:
    """Energy from a counter, with its value at both ends of the window read off the line between neighbours."""
    begin, end = _covered(column.at_ns, window)
    low, high = bisect_left(column.at_ns, begin), bisect_right(column.at_ns, end)
    around = column.value[max(0, low - 1) : high + 1]
    if any(after < before for before, after in pairwise(around)):
        raise NoEnergyError("its counter fell in the middle, as after a reset")
    seconds = (end - begin) / 1e9
    joules = value_at(column.at_ns, column.value, end) - value_at(column.at_ns, column.value, begin)
    if joules <= 0:
        raise NoEnergyError(f"its counter did not move in {seconds:.3g} s")
    return WindowEnergy(joules, seconds, *_bounds(column, begin, end))


def _bounds(column: ReadingColumn, begin: int, end: int) -> tuple[float, float]:
    """The least and the most that a counter can have grown between two moments within its readings.

    Power may change at the ends of a window, so the line between two readings is only a guess there. What is known:
    the sum never falls, and counters move in steps. So what a reading shows may be old, but is no older than the step
    that the next different reading shows.
    """
    at, value = column.at_ns, column.value
    first, last = bisect_left(at, begin), bisect_right(at, end) - 1  # the readings just inside
    before, after = bisect_right(at, begin) - 1, bisect_left(at, end)  # and just outside

    def most(look: int) -> float:
        """The largest sum that is possible at the moment of this reading."""
        later = next((shown for shown in value[look:] if shown > value[look]), None)
        return later if later is not None else value[look] + max(b - a for a, b in pairwise(value))

    return max(0.0, value[last] - most(first)), most(after) - value[before]


def sampled(column: ReadingColumn, window: Window) -> WindowEnergy:
    """Energy from samples of the power: the area under the line through them."""
    begin, end = _covered(column.at_ns, window)
    low, high = bisect_right(column.at_ns, begin), bisect_left(column.at_ns, end)
    first, last = (value_at(column.at_ns, column.value, moment) for moment in (begin, end))
    at, watts = [begin, *column.at_ns[low:high], end], [first, *column.value[low:high], last]
    joules = sum((w0 + w1) / 2 * (t1 - t0) / 1e9 for (t0, w0), (t1, w1) in pairwise(zip(at, watts, strict=True)))
    return WindowEnergy(joules, (end - begin) / 1e9)


def summed(column: ReadingColumn, window: Window) -> WindowEnergy:
    """Energy from mean powers over stretches of time, of each the part that lies in the window."""
    joules = seconds = low_j = high_j = 0.0
    for since, at, watts in zip(column.since_ns, column.at_ns, column.value, strict=True):
        inside_s, whole_s = (min(at, window[1]) - max(since, window[0])) / 1e9, (at - since) / 1e9
        if inside_s > 0:
            joules, seconds = joules + watts * inside_s, seconds + inside_s
            # Of a stretch that crosses an end, all may have been used inside of the window, or nothing.
            low_j, high_j = low_j + (watts * whole_s if inside_s >= whole_s else 0.0), high_j + watts * whole_s
    _refuse_part(seconds * 1e9, window)
    return WindowEnergy(joules, seconds, low_j, high_j)


def power_between_steps(column: ReadingColumn) -> float | None:
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


# Codes, of which a mean says nothing.
_CODES = frozenset({"throttle_bits"})
_SCOPES = {"package": "package", "dram": "dram", "psys": "system"}


def joined(marks: Iterable[tuple[str, int, int]], phase: str = "measure") -> Window | None:
    """From the first begin to the last end of a phase; None if it never was."""
    spans = [(begin, end) for name, begin, end in marks if name == phase]
    return (min(begin for begin, _ in spans), max(end for _, end in spans)) if spans else None


def statistics(columns: ReadingColumns, window: Window) -> dict[str, dict[str, float]]:
    """Series → its mean, lowest and highest value in a window; series without a reading there are left out."""
    return {
        f"{source}.{name}": summary
        for source, name, column in columns
        if column.kind != "counter" and name not in _CODES and (summary := statistic(column, window))
    }


def statistic(column: ReadingColumn, window: Window) -> dict[str, float]:
    """Mean, min and max of one series; empty where it has no reading for the window."""
    return _of_rates(column, window) if column.kind == "rate" else _of_states(column, window)


def _of_states(column: ReadingColumn, window: Window) -> dict[str, float]:
    low, high = bisect_left(column.at_ns, window[0]), bisect_right(column.at_ns, window[1])
    if low == high:
        # For a window between two looks the looks next to it count.
        low, high = max(0, low - 1), min(len(column.at_ns), high + 1)
    values = [value for value in column.value[low:high] if math.isfinite(value)]
    return {"mean": math.fsum(values) / len(values), "min": min(values), "max": max(values)} if values else {}


def _of_rates(column: ReadingColumn, window: Window) -> dict[str, float]:
    """Each stretch counts for the time of it that lies in the window; the extremes are of those that mostly do."""
    area = weight = 0.0
    mostly: list[float] = []
    partly: list[float] = []
    for number in range(bisect_right(column.at_ns, window[0]), len(column.at_ns)):
        since, at, value = column.since_ns[number], column.at_ns[number], column.value[number]
        inside = min(at, window[1]) - max(since, window[0])
        if since >= window[1]:
            break
        if inside <= 0:
            continue
        area, weight = area + value * inside, weight + inside
        (mostly if 2 * inside >= at - since else partly).append(value)
    values = mostly or partly
    return {"mean": area / weight, "min": min(values), "max": max(values)} if values else {}


def energies(
    columns: ReadingColumns,
    window: Window,
    idle: Mapping[str, float],
    unsure: Callable[[str, Window], str] = lambda _source, _window: "",
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The energy of everything that tells it, as the fields of `records.Energy`; and reasons for what does not.

    Args:
        unsure: why a source's counter does not give the window's energy; empty where it does.
    """
    figures: list[dict[str, Any]] = []
    absent: dict[str, str] = {}

    def take(
        source: str,
        text: str,
        scope: str,
        grade: str,
        used: Callable[[ReadingColumn, Window], WindowEnergy],
        of: ReadingColumn,
    ) -> str:
        """Add one figure; its reason where there is none."""
        try:
            energy = used(of, window)
        except NoEnergyError as reason:
            return str(reason)
        figures.append({"source": text, "scope": scope, **asdict(energy), "grade": grade, "idle_w": idle.get(source)})
        return ""

    for source, column in columns.named("energy_j"):
        if source.startswith("rapl:"):
            label = source.partition(":")[2]
            text = f"RAPL counter of {label}"
            reason = unsure(source, window) or take(source, text, _scope(label), "counter", counted, column)
            absent |= {f"energy:{source}": reason} if reason else {}
    for source in sorted({source for source, _, _ in columns if source.startswith("gpu:")}):
        number = source.partition(":")[2]
        counter, power = columns.get(source, "energy_j"), columns.get(source, "power_w")
        reason = "the board has no energy counter"
        if counter is not None:
            reason = take(source, f"NVML energy counter of GPU {number}", "gpu", "counter", counted, counter)
        if reason and power is not None:
            reason = take(source, f"NVML power of GPU {number}", "gpu", "sampled", sampled, power)
        elif reason:
            reason = f"{reason}, and does not report its power"
        absent |= {f"energy:{source}": reason} if reason else {}
    if (power := columns.get(POWERMETRICS, "power_w")) is not None:
        reason = take(POWERMETRICS, "combined power of powermetrics", "package", "estimated", summed, power)
        absent |= {f"energy:{POWERMETRICS}": reason} if reason else {}
    return figures, absent


def _scope(label: str) -> str:
    return "dram" if label.endswith("dram") else _SCOPES.get(label.partition("-")[0], "package")
