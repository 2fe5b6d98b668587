"""Columns: readings over time in arrays, their file (packed CSV), and a sampler's answers (a line of JSON each)."""

from __future__ import annotations

import csv
import gzip
import json
import math
import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import TextIOWrapper
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
        return ((source, column) for (source, one), column in self._columns.items() if one == name)

    def joined(self, other: ReadingColumns) -> ReadingColumns:
        """These and others together; both go on by themselves."""
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
            writer.writerows((source, name, labels, at, one) for at, one in zip(at_ns, value, strict=True))
            count += len(at_ns)
    return count


def answer(told: Mapping[str, Any]) -> None:
    """Answer with one line of JSON; a closed pipe is ignored."""
    try:
        sys.stdout.write(json.dumps(_finite(told), allow_nan=False) + "\n")
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
