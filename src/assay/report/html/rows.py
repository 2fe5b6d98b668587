"""Pictures made of labelled rows: dots with whiskers, or bars with whiskers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from assay.report.html.axis import Axis, axis_for
from assay.report.html.chart import Chart, bar, label, whisker
from assay.report.html.markup import Markup, el, join
from assay.report.html.picture import Numbers

ROW = 44
_LONGEST_LABEL = 44


@dataclass(frozen=True, slots=True)
class Row:
    """One labelled value."""

    label: str
    value: str  # as text, with its doubt
    centre: float
    low: float | None = None
    high: float | None = None
    kind: str = "valid"  # decides the shape of a dot or the filling of a bar
    href: str | None = None

    def reach(self) -> tuple[float, ...]:
        """Every number that must fit on the axis."""
        return tuple(v for v in (self.centre, self.low, self.high) if v is not None)


def draw_rows(rows: Sequence[Row], title: str, axis_title: str, *, style: Literal["dots", "bars"]) -> Markup:
    """Draw rows on a common axis; bars begin at zero, dots need not."""
    values = [value for row in rows for value in row.reach()]
    bars = style == "bars"
    axis = axis_for(values, zero=bars, may_log=not bars)
    description = "; ".join(f"{row.label}: {row.value}" for row in rows)
    chart = Chart(title, description, axis, axis_title, height=ROW * len(rows))
    draw = _bar if bars else _dot
    return chart.draw(join(_row(row, i * ROW, draw(axis, row, i * ROW + 30)) for i, row in enumerate(rows)))


def numbers_of(rows: Sequence[Row], unit: str) -> Numbers:
    """The values of rows with their intervals."""
    columns = ("what", f"value, {unit}" if unit else "value", "interval low", "interval high")
    return Numbers.of(columns, [(row.label, row.centre, row.low, row.high) for row in rows])


def _row(row: Row, top: float, mark: Markup) -> Markup:
    name = label(_shortened(row.label), "0%", top + 15, "name")
    value = label(row.value, "100%", top + 15, "value end")
    content = (name, value, mark)  # the mark on top: on a narrow screen the value goes below it
    return el("a", *content, href=row.href) if row.href else el("g", *content)


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST_LABEL else f"{name[: _LONGEST_LABEL - 1]}…"


def _dot(axis: Axis, row: Row, y: float) -> Markup:
    interval = whisker(axis, row.low, row.high, y) if row.low is not None and row.high is not None else None
    return join((marker(axis.percent(row.centre), y, row.kind), interval))


def marker(x: str, y: float, kind: str) -> Markup:
    """A dot whose shape says what colour also says: full circle, open circle, cross, diamond."""
    if kind in ("invalid", "failed"):
        # A nested picture gives the cross a place in percent and strokes in pixels.
        strokes = el("path", d="M-5 -5L5 5M-5 5L5 -5", class_=f"cross {kind}")
        return el("svg", strokes, x=x, y=y, width=1, height=1, overflow="visible")
    if kind == "limit":
        diamond = el("path", d="M0 -7L7 0L0 7L-7 0Z", class_="diamond")
        return el("svg", diamond, x=x, y=y, width=1, height=1, overflow="visible")
    return el("circle", cx=x, cy=y, r=3 if kind == "tail" else 5, class_=f"dot {kind}")


def _bar(axis: Axis, row: Row, y: float) -> Markup:
    filled = bar(axis, 0.0, row.centre, y - 7, 14, f"bar {row.kind}")
    interval = whisker(axis, row.low, row.high, y, 4) if row.low is not None and row.high is not None else None
    return join((filled, interval))
