"""A small picture of a series: its points with their doubt, the change, and the level on either side of it.

What is drawn is laid out once, in shapes; SVG and PNG are two ways to write the same shapes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from assay.report.html.axis import Axis, axis_for
from assay.report.html.markup import Markup, el
from assay.report.wording import one_line

MOST_POINTS = 120
# So much of the history before the change is shown, at least.
_BEFORE = 40
WIDTH, HEIGHT = 600, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 14, 30, 26
# A level is drawn beside the change it belongs to, not over older ones that it says nothing about.
_LEVEL_POINTS = 20
_SE_TO_95 = 1.96
_LONGEST_TITLE = 80
Colour = tuple[int, int, int]
PAPER: Colour = (255, 255, 255)
_INK: Colour = (26, 31, 36)
_MUTED: Colour = (86, 96, 112)
_GRID: Colour = (226, 230, 234)
_ACCENT: Colour = (11, 92, 173)
_DOUBT: Colour = (170, 198, 227)
_SHADE: Colour = (252, 238, 214)
_LEVEL: Colour = (138, 90, 0)
_BAD: Colour = (179, 32, 42)


@dataclass(frozen=True, slots=True)
class Drawing:
    """What a picture shows."""

    title: str
    values: tuple[float | None, ...]
    """The newest last; None where a result has no value."""
    errors: tuple[float | None, ...]
    """Standard error of each value; None where it is not known."""
    first: str = ""
    """What the first point is called, such as its day."""
    last: str = ""
    change_at: int | None = None
    """Position of the first point after the change."""
    before: float | None = None
    """Level before the change."""
    after: float | None = None
    """Level from the change on."""


def drawing_of(
    title: str,
    values: Sequence[float | None],
    errors: Sequence[float | None],
    days: Sequence[str],
    *,
    change_at: int | None = None,
    before: float | None = None,
    after: float | None = None,
) -> Drawing | None:
    """The part of a series that is worth a picture.

    Returns:
        None when fewer than two results have a value: there is nothing to see.
    """
    start, end = _window(len(values), change_at)
    shown = tuple(_finite(value) for value in values[start:end])
    if sum(value is not None for value in shown) < 2:
        return None
    at = None if change_at is None or not start < change_at < end else change_at - start
    return Drawing(
        title,
        shown,
        tuple(_finite(error) for error in errors[start:end]),
        days[start],
        days[end - 1],
        at,
        _finite(before),
        _finite(after),
    )


def _window(count: int, change_at: int | None) -> tuple[int, int]:
    """Which points are shown: the newest ones, or from some before the change on when that was longer ago."""
    start = max(count - MOST_POINTS, 0)
    if change_at is not None:
        start = min(start, max(change_at - _BEFORE, 0))
    return start, min(start + MOST_POINTS, count)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


@dataclass(frozen=True, slots=True)
class LineShape:
    """A straight line."""

    x1: float
    y1: float
    x2: float
    y2: float
    colour: Colour
    width: float = 1.0


@dataclass(frozen=True, slots=True)
class DotShape:
    """A filled circle, or a ring."""

    x: float
    y: float
    radius: float
    colour: Colour


@dataclass(frozen=True, slots=True)
class BoxShape:
    """A filled rectangle."""

    x: float
    y: float
    width: float
    height: float
    colour: Colour


@dataclass(frozen=True, slots=True)
class TextShape:
    """A line of letters; y is where they stand."""

    x: float
    y: float
    words: str
    colour: Colour = _MUTED
    anchor: Literal["start", "middle", "end"] = "start"


Shape = LineShape | DotShape | BoxShape | TextShape


def svg(drawing: Drawing) -> Markup:
    """The picture as SVG, complete by itself."""
    shapes = [_WRITERS[type(shape)](shape) for shape in layout(drawing)]
    background = el("rect", width=WIDTH, height=HEIGHT, fill=_hex(PAPER))
    return el(
        "svg",
        el("title", one_line(drawing.title)),
        background,
        *shapes,
        xmlns="http://www.w3.org/2000/svg",
        width=WIDTH,
        height=HEIGHT,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        font_size=11,
        font_family="system-ui, sans-serif",
    )


def png(drawing: Drawing) -> bytes:
    """The picture as PNG, at twice the size for sharp screens."""
    from assay.alert.raster import rasterise

    return rasterise(list(layout(drawing)), WIDTH, HEIGHT, PAPER, scale=2)


def layout(drawing: Drawing) -> Iterator[Shape]:
    """Everything that is drawn, from back to front."""
    place = _Place.of(drawing)
    yield from _change(drawing, place)
    yield from _frame(drawing, place)
    yield from _doubts(drawing, place)
    yield from _levels(drawing, place)
    yield from _points(drawing, place)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where values lie on the paper."""

    axis: Axis
    count: int

    @classmethod
    def of(cls, drawing: Drawing) -> _Place:
        known = [value for value in drawing.values if value is not None]
        ends = [
            end
            for value, error in zip(drawing.values, drawing.errors, strict=True)
            if value is not None and error is not None
            for end in (value - _SE_TO_95 * error, value + _SE_TO_95 * error)
        ]
        levels = [level for level in (drawing.before, drawing.after) if level is not None]
        return cls(axis_for([*known, *ends, *levels], count=4), len(drawing.values))

    def x(self, index: float) -> float:
        # Half a step of margin on either side, so that the first and last points stand clear of the edges.
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * (index + 0.5) / self.count

    def y(self, value: float) -> float:
        return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * self.axis.share(value)


def _frame(drawing: Drawing, place: _Place) -> Iterator[Shape]:
    title = one_line(drawing.title)
    shown = title if len(title) <= _LONGEST_TITLE else f"{title[: _LONGEST_TITLE - 3]}..."
    yield TextShape(8, 17, shown, _INK)
    for tick in place.axis.ticks:
        y = place.y(tick)
        yield LineShape(_LEFT, y, WIDTH - _RIGHT, y, _GRID)
        yield TextShape(_LEFT - 6, y + 4, place.axis.label(tick), anchor="end")
    yield TextShape(_LEFT, HEIGHT - 8, drawing.first)
    yield TextShape(WIDTH - _RIGHT, HEIGHT - 8, drawing.last, anchor="end")


def _change(drawing: Drawing, place: _Place) -> Iterator[Shape]:
    if drawing.change_at is None:
        return
    edge = place.x(drawing.change_at - 0.5)
    yield BoxShape(edge, _TOP, WIDTH - _RIGHT - edge, HEIGHT - _TOP - _BOTTOM, _SHADE)


def _levels(drawing: Drawing, place: _Place) -> Iterator[Shape]:
    at = drawing.change_at
    if at is None:
        return
    if drawing.before is not None:
        y = place.y(drawing.before)
        yield LineShape(place.x(max(at - _LEVEL_POINTS, 0) - 0.4), y, place.x(at - 0.6), y, _LEVEL, 2.0)
    if drawing.after is not None:
        y = place.y(drawing.after)
        yield LineShape(place.x(at - 0.4), y, place.x(min(at + _LEVEL_POINTS, place.count) - 0.6), y, _BAD, 2.0)


def _doubts(drawing: Drawing, place: _Place) -> Iterator[Shape]:
    for index, (value, error) in enumerate(zip(drawing.values, drawing.errors, strict=True)):
        if value is not None and error:
            x = place.x(index)
            yield LineShape(x, place.y(value - _SE_TO_95 * error), x, place.y(value + _SE_TO_95 * error), _DOUBT, 2.0)


def _points(drawing: Drawing, place: _Place) -> Iterator[Shape]:
    known = [(index, value) for index, value in enumerate(drawing.values) if value is not None]
    for (index, value), (following, other) in pairwise(known):
        if following == index + 1:  # a gap stays a gap
            yield LineShape(place.x(index), place.y(value), place.x(following), place.y(other), _ACCENT)
    radius = 2.2 if place.count <= 60 else 1.6
    for index, value in known:
        yield DotShape(place.x(index), place.y(value), radius, _ACCENT)


def _hex(colour: Colour) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)


def _line(shape: LineShape) -> Markup:
    return el(
        "line", x1=shape.x1, y1=shape.y1, x2=shape.x2, y2=shape.y2, stroke=_hex(shape.colour), stroke_width=shape.width
    )


def _dot(shape: DotShape) -> Markup:
    return el("circle", cx=shape.x, cy=shape.y, r=shape.radius, fill=_hex(shape.colour))


def _box(shape: BoxShape) -> Markup:
    return el("rect", x=shape.x, y=shape.y, width=shape.width, height=shape.height, fill=_hex(shape.colour))


def _text(shape: TextShape) -> Markup:
    anchor = None if shape.anchor == "start" else shape.anchor
    return el("text", shape.words, x=shape.x, y=shape.y, fill=_hex(shape.colour), text_anchor=anchor)


_WRITERS: dict[type, Callable[..., Markup]] = {LineShape: _line, DotShape: _dot, BoxShape: _box, TextShape: _text}
