"""One picture of a job: drawn once, shown by the HTML report and by the dashboard, with the numbers in it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from assay.report.html.chart import figure
from assay.report.html.markup import Markup

Group = Literal["latency", "runs", "time", "cold", "telemetry", "load", "llm", "device", "other"]
Cell = str | float | int | None
_EIGHT_DIGITS = "%.8g"  # more than anything is measured with, and short enough to send


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of a picture as a table."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @classmethod
    def of(cls, columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Numbers:
        """A table whose numbers are written as short as they are known."""
        return cls(tuple(columns), tuple(tuple(map(_short, row)) for row in rows))


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture under its title, with the sentences that say how to read it."""

    key: str
    """Its name among the pictures of a job."""
    group: Group
    title: str
    svg: Markup
    says: str
    numbers: Callable[[], Numbers]
    """Gathers what is in it: a report has no use for them."""
    wide: bool = False

    def figure(self) -> Markup:
        """The picture as an element of a page."""
        return figure(self.title, self.svg, self.says, wide=self.wide)


def _short(cell: Cell) -> Cell:
    if isinstance(cell, float):
        return float(_EIGHT_DIGITS % cell) if math.isfinite(cell) else None
    return cell
