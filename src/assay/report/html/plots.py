"""Pictures with two axes (points with their doubt, lines, limits) and of labelled rows (dots or bars with whiskers)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from assay.report.html.chart import (
    Axis,
    Chart,
    Child,
    Markup,
    Numbers,
    axis_for,
    bar,
    curve,
    el,
    join,
    label,
    levels,
    line,
    room_for,
    whisker,
)

ROW = 44
_DOT_ROW = 40
_LONGEST_LABEL = 44
# Longer names leave no room for a number in the same line of a phone.
_SHORT_LABEL = 22
_LANE = 15  # what a line of text takes
HEIGHT = 250
_LETTER = 0.025  # of the width of a picture on a phone
_CLEAR = 14.0  # pixels between the middle of a label and that of a mark


@dataclass(frozen=True, slots=True)
class PlotRow:
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


def draw_rows(rows: Sequence[PlotRow], title: str, axis_title: str, *, style: Literal["dots", "bars"]) -> Markup:
    """Draw rows on a common axis; bars begin at zero, dots need not."""
    values = [value for row in rows for value in row.reach()]
    bars = style == "bars"
    axis = axis_for(values, zero=bars, may_log=not bars)
    description = "; ".join(f"{row.label}: {row.value}" for row in rows)
    tall = any(len(row.label) > _SHORT_LABEL for row in rows)
    lane = _LANE if tall else 0
    step, name, mark = (ROW + lane, 15, 30 + lane) if bars else (_DOT_ROW + lane, 12, 26 + lane)
    chart = Chart(title, description, axis, axis_title, height=step * len(rows), beside=not bars, tall=tall)
    drawn = _bar if bars else _dot
    return chart.draw(join(_row(row, i * step + name, drawn(axis, row, i * step + mark)) for i, row in enumerate(rows)))


def numbers_of(rows: Sequence[PlotRow], unit: str) -> Numbers:
    columns = ("what", f"value, {unit}" if unit else "value", "interval low", "interval high")
    return Numbers.of(columns, [(row.label, row.centre, row.low, row.high) for row in rows])


def _row(row: PlotRow, y: float, mark: Markup) -> Markup:
    name = label(_shortened(row.label), "0%", y, "name")
    value = label(row.value, "100%", y, "value end")
    content = (name, value, mark)
    return el("a", *content, href=row.href) if row.href else el("g", *content)


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST_LABEL else f"{name[: _LONGEST_LABEL - 1]}…"


def _dot(axis: Axis, row: PlotRow, y: float) -> Markup:
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


def _bar(axis: Axis, row: PlotRow, y: float) -> Markup:
    filled = bar(axis, 0.0, row.centre, y - 7, 14, f"bar {row.kind}")
    interval = whisker(axis, row.low, row.high, y, 4) if row.low is not None and row.high is not None else None
    return join((filled, interval))


@dataclass(frozen=True, slots=True)
class PlotPoint:
    """One point, with how far it may be off either way."""

    x: float
    y: float
    kind: str = "valid"
    x_ends: tuple[float, float] | None = None
    y_ends: tuple[float, float] | None = None
    name: str = ""
    href: str | None = None


@dataclass(frozen=True, slots=True)
class Plane:
    """Two axes to draw on."""

    title: str
    description: str
    across: Axis
    across_title: str
    up: Axis
    up_title: str

    def draw(self, *content: Child) -> Markup:
        """The picture as SVG, with a level at each tick of the upright axis."""
        chart = Chart(
            self.title, self.description, self.across, self.across_title, HEIGHT, left=room_for([self.up]), top=26
        )
        log = " (logarithmic)" if self.up.log else ""
        name = label(f"{self.up_title}{log}", "0%", -10, "axis")
        return chart.draw(levels(self.up, 0, HEIGHT), name, *content)

    def y(self, value: float) -> float:
        """Where a value lies, in pixels from the top."""
        return HEIGHT * (1 - self.up.share(value))

    def line(self, points: Sequence[tuple[float, float]], class_: str) -> Markup:
        """A line through points, in their order."""
        shares = [(self.across.share(x), self.up.share(y)) for x, y in points]
        return curve(shares, 0, HEIGHT, class_) if len(shares) > 1 else Markup()

    def points(self, points: Iterable[PlotPoint]) -> Markup:
        return join(self._point(point) for point in points)

    def limit(self, value: float, name: str, points: Sequence[PlotPoint] = ()) -> Markup:
        """A horizontal line that must not be passed, with what it is, where the fewest of these points are."""
        y = self.y(value)
        width = min(len(name) * _LETTER, 0.9)

        def covered(place: tuple[bool, float]) -> int:
            at_end, base = place
            low, high = (1 - width, 1.0) if at_end else (0.0, width)
            return sum(
                low <= self.across.share(one.x) <= high and abs(self.y(one.y) - base + 4) < _CLEAR for one in points
            )

        at_end, base = min(((True, y - 5), (False, y - 5), (True, y + 14), (False, y + 14)), key=covered)
        written = label(name, "100%" if at_end else "0%", base, "tick end" if at_end else "tick")
        return join((line("0%", "100%", y, y, "limit"), written))

    def band(self, low: float, high: float, name: str) -> Markup:
        """An upright band between two values of the horizontal axis, with what it is."""
        left, right = self.across.share(low), self.across.share(high)
        width = f"{max(100 * (right - left), 0.4):.2f}%"
        box = el("rect", x=self.across.percent(low), width=width, y=0, height=HEIGHT, class_="band")
        anchor = "end" if left > 0.5 else ""
        return join((box, label(name, self.across.percent(low if left > 0.5 else high), 14, f"tick {anchor}".strip())))

    def box(self, left: float, right: float, low: float, high: float) -> Markup:
        """A band between two values of each axis, never thinner than can be seen."""
        width = f"{max(100 * (self.across.share(right) - self.across.share(left)), 0.4):.2f}%"
        top, bottom = self.y(high), self.y(low)
        thick = max(bottom - top, 4.0)
        y = (top + bottom - thick) / 2
        return el("rect", x=self.across.percent(left), width=width, y=y, height=thick, class_="band")

    def _point(self, point: PlotPoint) -> Markup:
        x, y = self.across.percent(point.x), self.y(point.y)
        upright = line(x, x, self.y(point.y_ends[0]), self.y(point.y_ends[1]), "whisker") if point.y_ends else None
        level = None
        if point.x_ends:
            level = line(self.across.percent(point.x_ends[0]), self.across.percent(point.x_ends[1]), y, y, "whisker")
        name = None
        if point.name:
            end = self.across.share(point.x) > 0.7
            name = el(
                "svg",
                label(point.name, "0", -9, "tick end" if end else "tick"),
                x=x,
                y=y,
                width=1,
                height=1,
                overflow="visible",
            )
        content = (upright, level, marker(x, y, point.kind), name)
        return el("a", *content, href=point.href) if point.href else el("g", *content)
