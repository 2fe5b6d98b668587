"""The control workload: how long a fixed amount of work takes now, and what is usual on this machine."""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from pydantic import JsonValue

from assay.files import write_whole

VARIABLE = "ASSAY_CONTROL"
PARTS = ("integer", "memory")
_SCRIPT = Path(__file__).with_name("control_loops.py")
_TIMEOUT_S = 60.0

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def is_off() -> bool:
    """Whether the environment asks for no control workload."""
    return os.environ.get(VARIABLE, "").lower() == "off"


def timed_control(run: Run = subprocess.run) -> tuple[dict[str, JsonValue], dict[str, JsonValue], str]:
    """Time the control workload in a bare interpreter.

    Returns:
        Its figures, what others did meanwhile, and, where it gave no figures, the reason.
    """
    before, begin = _busy(), time.perf_counter()
    try:
        # Without site packages and the user's settings: they would be loaded, and differ.
        done = run([sys.executable, "-I", "-S", str(_SCRIPT)], capture_output=True, text=True, timeout=_TIMEOUT_S)
    except (OSError, subprocess.SubprocessError) as problem:
        return {}, {}, f"the control workload could not be run: {problem}"
    wall_s, after = time.perf_counter() - begin, _busy()
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [""])[-1]
        return {}, {}, f"the control workload ended with exit code {done.returncode}: {last}".rstrip(": ")
    try:
        report = json.loads(done.stdout)
        figures = summary(report)
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}, {}, "the control workload did not say how long it took"
    return figures, _others(before, after, wall_s, float(report.get("cpu_s", 0.0))), ""


def summary(report: Mapping[str, Any]) -> dict[str, JsonValue]:
    """The median round of each part, with the spread of its rounds."""
    figures: dict[str, JsonValue] = {"version": int(report["version"])}
    for part in PARTS:
        times_ms = [float(value) for value in report["rounds_ms"].get(part, ())]
        if not times_ms or not all(math.isfinite(value) and value > 0 for value in times_ms):
            continue
        middle, deviation = _centre(times_ms)
        figures[f"{part}_ms"] = round(middle, 4)
        figures[f"{part}_spread_pct"] = round(100 * deviation / middle, 3)
        figures["rounds"] = len(times_ms)
    if "rounds" not in figures:
        raise ValueError("no round was timed")
    if report.get("absent"):
        figures["memory_absent"] = str(report["absent"])
    return figures


def _busy() -> tuple[float, float | None]:
    """Busy and stolen seconds of all cores since the system started."""
    times = psutil.cpu_times()
    counted = {name: value for name, value in times._asdict().items() if name not in ("guest", "guest_nice")}
    stolen = counted.pop("steal", None)
    return sum(counted.values()) - times.idle - counted.get("iowait", 0.0), stolen


def _others(
    before: tuple[float, float | None], after: tuple[float, float | None], wall_s: float, own_s: float
) -> dict[str, JsonValue]:
    """What others and the hypervisor took of all cores while the control workload ran."""
    capacity = wall_s * (psutil.cpu_count() or 1)
    # Ticks of the kernel are coarser than our own clock, so a quiet machine can come out a little below zero.
    shares: dict[str, JsonValue] = {
        "others_pct": round(max(0.0, 100 * (after[0] - before[0] - own_s) / capacity), 2),
        "over_s": round(wall_s, 3),
    }
    if before[1] is not None and after[1] is not None:
        shares["steal_pct"] = round(max(0.0, 100 * (after[1] - before[1]) / capacity), 2)
    return shares


NAME = "control.jsonl"
KEPT = 200
# Fewer have no spread to speak of.
FEWEST = 5
# What others take of the machine while an ordinary figure is made.
_QUIET_PCT = 10.0
# An entry has about 150 bytes. A longer file is cut to what is read of it.
_LARGEST = 512 * 1024
_MAD_TO_DEVIATION = 1.4826
# Robust deviations that are usual. The spread of few entries is often small by luck, so few entries ask for more;
# with both, fewer than one of a hundred ordinary figures lies outside.
_LIMIT = 3.5
_SMALL_SET = 30.0


@dataclass(frozen=True, slots=True)
class UsualRange:
    """What the entries of a history say about one figure."""

    entries: int
    median_ms: float
    band: float
    """How far an ordinary figure may lie from the median, as a share of it."""

    def drift(self, value_ms: float) -> float:
        """How much longer than usual something took, as a share; below zero it was faster."""
        return value_ms / self.median_ms - 1


def usual(values: Sequence[float]) -> UsualRange | None:
    """The robust centre and band of a figure; None for fewer than five entries."""
    if len(values) < FEWEST:
        return None
    middle, deviation = _centre(values)
    return UsualRange(len(values), middle, (_LIMIT + _SMALL_SET / len(values)) * deviation / middle)


def _centre(values: Sequence[float]) -> tuple[float, float]:
    """The median, and how far values lie from it, as a standard deviation."""
    from statistics import median  # here, as it brings a dozen modules that a run without control does not need

    middle = median(values)
    return middle, _MAD_TO_DEVIATION * median(abs(value - middle) for value in values)


class ControlHistory:
    """The entries of one machine, one Python and one version of the control workload, in a file that others share."""

    def __init__(self, folder: Path, machine: str, version: int, python: str = "") -> None:
        self._path = folder / NAME
        python = python or f"{platform.python_implementation()} {platform.python_version()}"
        self._key = {"machine": machine, "python": python, "control": version}

    def entries(self) -> list[dict[str, float]]:
        """The last entries that can be read, oldest first; whatever else stands in the file is passed over.

        Those of a machine that others kept busy are left out, unless it hardly knows others.
        """
        own = [entry for line in self._lines() if (entry := _entry(line)).items() >= self._key.items()]
        timed = [(record, figures) for record in own if (figures := _figures(record))]
        quiet = [figures for record, figures in timed if _is_quiet(record)]
        return (quiet if len(quiet) >= FEWEST else [figures for _, figures in timed])[-KEPT:]

    def add(self, figures: Mapping[str, JsonValue], at: str) -> str:
        """Append one entry; returns why it could not be kept, empty where it was.

        Args:
            figures: The times, and what others took meanwhile (`others_pct`) where it is known.
        """
        names = (*(f"{part}_ms" for part in PARTS), "others_pct")
        measured = {name: figures[name] for name in names if name in figures}
        line = json.dumps({**self._key, "at": at, **measured}) + "\n"
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._shorten()
            # One write of one line at the end: entries of concurrent processes never mix.
            file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(file, line.encode())
            finally:
                os.close(file)
        except OSError as problem:
            return f"the history of the control workload cannot be written: {problem.strerror or problem}"
        return ""

    def against(self, figures: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """How each figure lies to what is usual here: median, band and drift, or only how many entries there are."""
        entries = self.entries()
        comparison: dict[str, JsonValue] = {"entries": len(entries)}
        for part in PARTS:
            value = figures.get(f"{part}_ms")
            typical = usual([entry[part] for entry in entries if part in entry])
            if typical is not None and isinstance(value, int | float):
                comparison[part] = {
                    "median_ms": round(typical.median_ms, 4),
                    "band_pct": round(100 * typical.band, 3),
                    "drift_pct": round(100 * typical.drift(value), 3),
                }
        return comparison

    def _lines(self) -> list[bytes]:
        try:
            with self._path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _LARGEST))
                return file.read(_LARGEST).split(b"\n")
        except OSError:
            return []

    def _shorten(self) -> None:
        """Cut a long file to its newest half. An entry that another process adds just then is lost, and not missed."""
        try:
            long = self._path.stat().st_size > _LARGEST
        except OSError:
            return
        if long:
            lines = self._lines()
            write_whole(self._path, b"\n".join(lines[len(lines) // 2 :]))


def _entry(line: bytes) -> dict[str, object]:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):  # half a line, or another program's
        return {}
    return entry if isinstance(entry, dict) else {}


def _figures(entry: Mapping[str, object]) -> dict[str, float]:
    """The times of an entry; what is no positive number is left out."""
    times = {part: entry.get(f"{part}_ms") for part in PARTS}
    return {
        part: float(value)
        for part, value in times.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and _is_time(value)
    }


def _is_quiet(entry: Mapping[str, object]) -> bool:
    foreign_pct = entry.get("others_pct")
    return not isinstance(foreign_pct, int | float) or foreign_pct <= _QUIET_PCT


def _is_time(value: float) -> bool:
    try:
        return math.isfinite(value) and 0 < float(value) < 1e9
    except OverflowError:  # a whole number that no time is as long as
        return False
