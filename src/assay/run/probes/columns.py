"""Columns: what was read of a machine again and again, in arrays, with the stretch of time that a rate stands for."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

Window = tuple[int, int]
# A mark that is no phase: the very window that a target counted in, where that is not its whole phase `measure`.
WINDOW = "window"
"""Begin and end, of `time.perf_counter_ns`."""
POWERMETRICS = "powermetrics"  # the source of what that tool of macOS tells
Kind = Literal["gauge", "rate", "counter"]
"""A state at one moment; a mean since the look before; a sum that only grows."""


@dataclass(slots=True)
class Column:
    """One number over time."""

    kind: Kind
    at_ns: array[int] = field(default_factory=lambda: array("q"))
    value: array[float] = field(default_factory=lambda: array("d"))
    since_ns: array[int] = field(default_factory=lambda: array("q"))
    """Of a rate: where the stretch begins that ends at `at_ns`."""


class Columns:
    """All readings of a run, by source and name."""

    def __init__(self) -> None:
        self._columns: dict[tuple[str, str], Column] = {}

    def gauge(self, source: str, name: str, at_ns: int, value: float) -> None:
        self._add(source, name, "gauge", at_ns, value)

    def counter(self, source: str, name: str, at_ns: int, value: float) -> None:
        """Take a sum that only grows."""
        self._add(source, name, "counter", at_ns, value)

    def rate(self, source: str, name: str, since_ns: int, at_ns: int, value: float) -> None:
        """Take the mean over a stretch of time."""
        self._add(source, name, "rate", at_ns, value).since_ns.append(since_ns)

    def get(self, source: str, name: str) -> Column | None:
        return self._columns.get((source, name))

    def named(self, name: str) -> Iterator[tuple[str, Column]]:
        """Source and column of everything that has a name."""
        return ((source, column) for (source, one), column in self._columns.items() if one == name)

    def joined(self, other: Columns) -> Columns:
        """These and others together; both go on by themselves."""
        both = Columns()
        both._columns = {**self._columns, **other._columns}
        return both

    def __iter__(self) -> Iterator[tuple[str, str, Column]]:
        return ((source, name, column) for (source, name), column in self._columns.items())

    def _add(self, source: str, name: str, kind: Kind, at_ns: int, value: float) -> Column:
        column = self._columns.get((source, name))
        if column is None:
            column = self._columns[source, name] = Column(kind)
        column.at_ns.append(at_ns)
        column.value.append(value)
        return column
