"""The frame of every picture: constant text size at any width, horizontal axis with a grid, title and caption.

Positions along the axis are percentages, so that a picture fills a wide screen and a phone alike without
its letters growing or shrinking. Only curves, which cannot be written in percentages, are stretched.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from assay.report.html.axis import Axis
from assay.report.html.markup import Child, Markup, el, join

AXIS_HEIGHT = 40
RIGHT = 22  # room for half of the last tick's label
STRETCH = 1000  # units of a stretched curve, both ways
# Margins at the left for which chart.css has a class: a page may forbid styles that stand on an element.
_LEFTS = (8, 21, 28, 35, 42, 49, 52, *range(56, 183, 7))
Group = Literal["latency", "runs", "time", "cold", "telemetry", "load", "llm", "device", "other"]
Cell = str | float | int | None
_EIGHT_DIGITS = "%.8g"  # more than anything is measured with, and short enough to send


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture with one horizontal axis."""

    title: str
    description: str  # for people who cannot see it
    axis: Axis
    axis_title: str
    height: int  # of the plot, without the axis
    left: int = 8
    top: int = 6

    def draw(self, *content: Child) -> Markup:
        """The picture as SVG: the drawing area itself, with the axis in its margins."""
        left = next((room for room in _LEFTS if room >= self.left), _LEFTS[-1])
        frame = f"chart left-{left} top-{self.top}"
        head = (el("title", self.title), el("desc", self.description))
        return el("svg", *head, self._grid(), *content, class_=frame, height=self.height, role="img")

    def _grid(self) -> Markup:
        ticks = self.axis.ticks
        lines = [el("line", x1=self.axis.percent(t), x2=self.axis.percent(t), y1=0, y2=self.height) for t in ticks]
        labels = [_text(self.axis.label(t), self.axis.percent(t), self.height + 16, "tick middle") for t in ticks]
        log = " (logarithmic axis)" if self.axis.log else ""
        name = _text(f"{self.axis_title}{log}", "50%", self.height + 33, "axis middle")
        return join((el("g", *lines, class_="grid"), *labels, name))


def figure(title: str, picture: Markup, caption: str, *, wide: bool = False) -> Markup:
    """A picture under its title, with the sentences that say how to read it."""
    content = (el("h4", title), picture, el("figcaption", caption))
    return el("figure", *content, class_="wide" if wide else None)


def label(content: str, x: str, y: float, class_: str = "") -> Markup:
    """A text on a picture that stays readable on top of lines."""
    return _text(content, x, y, f"halo {class_}".strip())


def line(x1: str, x2: str, y1: float, y2: float, class_: str) -> Markup:
    """A straight line; x as percentages, y in pixels."""
    return el("line", x1=x1, x2=x2, y1=y1, y2=y2, class_=class_)


def bar(axis: Axis, low: float, high: float, y: float, height: float, class_: str) -> Markup:
    """A rectangle between two values."""
    width = f"{100 * (axis.share(high) - axis.share(low)):.2f}%"
    return el("rect", x=axis.percent(low), width=width, y=y, height=height, class_=class_)


def whisker(axis: Axis, low: float, high: float, y: float, cap: float = 8) -> Markup:
    """An interval: a line with a cap at each end."""
    ends = axis.percent(low), axis.percent(high)
    caps = [line(end, end, y - cap, y + cap, "whisker") for end in ends]
    return join((line(*ends, y, y, "whisker"), *caps))


def curve(
    points: Sequence[tuple[float, float]], y: float, height: float, class_: str, *, closed: bool = False
) -> Markup:
    """A curve through points given as shares of the axis and of the height (0 at the bottom)."""
    path = "L".join(f"{x * STRETCH:.1f} {(1 - v) * STRETCH:.1f}" for x, v in points)
    drawn = el("path", d=f"M{path}{'Z' if closed else ''}", class_=class_, vector_effect="non-scaling-stroke")
    box = f"0 0 {STRETCH} {STRETCH}"
    return el("svg", drawn, x=0, y=y, width="100%", height=height, viewBox=box, preserveAspectRatio="none")


def _text(content: str, x: str, y: float, class_: str) -> Markup:
    return el("text", content, x=x, y=y, class_=class_)


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
