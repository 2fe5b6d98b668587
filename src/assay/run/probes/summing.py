"""What all readings say about a stretch of time: statistics of each series, and energy with its grade."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from assay.run.probes.columns import POWERMETRICS, Column, Columns, Window
from assay.run.probes.energy import NoEnergyError, Used, counted, sampled, summed

# Codes, of which a mean says nothing.
_CODES = frozenset({"throttle_bits"})
_SCOPES = {"package": "package", "dram": "dram", "psys": "system"}


def joined(marks: Iterable[tuple[str, int, int]], phase: str = "measure") -> Window | None:
    """From the first begin to the last end of a phase; None if it never was."""
    found = [(begin, end) for name, begin, end in marks if name == phase]
    return (min(one[0] for one in found), max(one[1] for one in found)) if found else None


def statistics(columns: Columns, window: Window) -> dict[str, dict[str, float]]:
    """Series → its mean, lowest and highest value in a window; series without a reading there are left out."""
    told = {}
    for source, name, column in columns:
        if column.kind != "counter" and name not in _CODES and (found := statistic(column, window)):
            told[f"{source}.{name}"] = found
    return told


def statistic(column: Column, window: Window) -> dict[str, float]:
    """Mean, min and max of one series; empty where it has no reading for the window."""
    return _of_rates(column, window) if column.kind == "rate" else _of_states(column, window)


def _of_states(column: Column, window: Window) -> dict[str, float]:
    low, high = bisect_left(column.at_ns, window[0]), bisect_right(column.at_ns, window[1])
    if low == high:
        # A window between two looks is told by those next to it.
        low, high = max(0, low - 1), min(len(column.at_ns), high + 1)
    values = [value for value in column.value[low:high] if math.isfinite(value)]
    return {"mean": math.fsum(values) / len(values), "min": min(values), "max": max(values)} if values else {}


def _of_rates(column: Column, window: Window) -> dict[str, float]:
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
    columns: Columns,
    window: Window,
    idle: Mapping[str, float],
    unsure: Callable[[str, Window], str] = lambda _source, _window: "",
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The energy of everything that tells it, as the fields of `records.Energy`; and reasons for what does not.

    Args:
        unsure: why a source's counter does not tell the window's energy; empty where it does.
    """
    found: list[dict[str, Any]] = []
    absent: dict[str, str] = {}

    def take(source: str, text: str, scope: str, grade: str, used: Callable[[Column, Window], Used], of: Column) -> str:
        """Add one figure; its reason where there is none."""
        try:
            one = used(of, window)
        except NoEnergyError as reason:
            return str(reason)
        found.append(
            {
                "source": text,
                "scope": scope,
                "joules": one.joules,
                "seconds": one.seconds,
                "grade": grade,
                "idle_w": idle.get(source),
            }
        )
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
            reason = f"{reason}, and does not tell its power"
        absent |= {f"energy:{source}": reason} if reason else {}
    if (power := columns.get(POWERMETRICS, "power_w")) is not None:
        reason = take(POWERMETRICS, "combined power of powermetrics", "package", "estimated", summed, power)
        absent |= {f"energy:{POWERMETRICS}": reason} if reason else {}
    return found, absent


def _scope(label: str) -> str:
    return "dram" if label.endswith("dram") else _SCOPES.get(label.partition("-")[0], "package")
