"""This machine's own history of the control workload: what is usual here, and how far from it a figure lies."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from assay.files import write_whole
from assay.hardware.fitness.control import PARTS

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
class Usual:
    """What the entries of a history say about one figure."""

    entries: int
    median_ms: float
    band: float
    """How far an ordinary figure may lie from the median, as a share of it."""

    def drift(self, value_ms: float) -> float:
        """How much longer than usual something took, as a share; below zero it was faster."""
        return value_ms / self.median_ms - 1


def usual(values: Sequence[float]) -> Usual | None:
    """The robust centre and band of a figure; None for fewer than five entries."""
    from statistics import median  # here, as it brings a dozen modules that a run without control does not need

    if len(values) < FEWEST:
        return None
    middle = median(values)
    deviation = _MAD_TO_DEVIATION * median(abs(value - middle) for value in values)
    return Usual(len(values), middle, (_LIMIT + _SMALL_SET / len(values)) * deviation / middle)


class History:
    """The entries of one machine, one Python and one version of the control workload, in a file that others share."""

    def __init__(self, folder: Path, machine: str, version: int, python: str = "") -> None:
        self._path = folder / NAME
        python = python or f"{platform.python_implementation()} {platform.python_version()}"
        self._key = {"machine": machine, "python": python, "control": version}

    def entries(self) -> list[dict[str, float]]:
        """The last entries that can be read, oldest first; whatever else stands in the file is passed over.

        Those of a machine that others kept busy are left out, unless it hardly knows others.
        """
        own = [one for line in self._lines() if (one := _entry(line)) is not None and self._is_own(one)]
        timed = [(one, figures) for one in own if (figures := _figures(one))]
        quiet = [figures for one, figures in timed if _is_quiet(one)]
        return (quiet if len(quiet) >= FEWEST else [figures for _, figures in timed])[-KEPT:]

    def add(self, figures: Mapping[str, JsonValue], at: str) -> str:
        """Append one entry; returns why it could not be kept, empty where it was.

        Args:
            figures: The times, and what others took meanwhile (`others_pct`) where it is known.
        """
        names = (*(f"{part}_ms" for part in PARTS), "others_pct")
        kept = {name: figures[name] for name in names if name in figures}
        line = json.dumps({**self._key, "at": at, **kept}) + "\n"
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._shorten()
            # One write of one line at the end: entries of processes that write at once never mix.
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
        told: dict[str, JsonValue] = {"entries": len(entries)}
        for part in PARTS:
            value = figures.get(f"{part}_ms")
            known = usual([one[part] for one in entries if part in one])
            if known is not None and isinstance(value, int | float):
                told[part] = {
                    "median_ms": round(known.median_ms, 4),
                    "band_pct": round(100 * known.band, 3),
                    "drift_pct": round(100 * known.drift(value), 3),
                }
        return told

    def _is_own(self, entry: Mapping[str, object]) -> bool:
        return all(entry.get(name) == value for name, value in self._key.items())

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


def _entry(line: bytes) -> dict[str, object] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):  # half a line, or somebody else's
        return None
    return entry if isinstance(entry, dict) else None


def _figures(entry: Mapping[str, object]) -> dict[str, float]:
    """The times of an entry; what is no positive number is left out."""
    found = {part: entry.get(f"{part}_ms") for part in PARTS}
    return {
        part: float(value)
        for part, value in found.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and _is_time(value)
    }


def _is_quiet(entry: Mapping[str, object]) -> bool:
    others = entry.get("others_pct")
    return not isinstance(others, int | float) or others <= _QUIET_PCT


def _is_time(value: float) -> bool:
    try:
        return math.isfinite(value) and 0 < float(value) < 1e9
    except OverflowError:  # a whole number that no time is as long as
        return False
