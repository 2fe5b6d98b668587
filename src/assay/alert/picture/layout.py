"""A small picture of a series: its points with their doubt, the change, and the level on either side of it.

What is drawn is laid out once, in shapes; SVG and PNG are two ways to write the same shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from assay.alert.picture.drawing import Drawing
from assay.report.html.axis import Axis, axis_for
from assay.report.html.markup import Markup, el
from assay.report.wording import one_line

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
class Line:
    """A straight line."""

    x1: float
    y1: float
    x2: float
    y2: float
    colour: Colour
    width: float = 1.0


@dataclass(frozen=True, slots=True)
class Dot:
    """A filled circle, or a ring."""

    x: float
    y: float
    radius: float
    colour: Colour


@dataclass(frozen=True, slots=True)
class Box:
    """A filled rectangle."""

    x: float
    y: float
    width: float
    height: float
    colour: Colour


@dataclass(frozen=True, slots=True)
class Text:
    """A line of letters; y is where they stand."""

    x: float
    y: float
    words: str
    colour: Colour = _MUTED
    anchor: Literal["start", "middle", "end"] = "start"


Shape = Line | Dot | Box | Text


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
    from assay.alert.picture.raster import rasterise

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
    yield Text(8, 17, shown, _INK)
    for tick in place.axis.ticks:
        y = place.y(tick)
        yield Line(_LEFT, y, WIDTH - _RIGHT, y, _GRID)
        yield Text(_LEFT - 6, y + 4, place.axis.label(tick), anchor="end")
    yield Text(_LEFT, HEIGHT - 8, drawing.first)
    yield Text(WIDTH - _RIGHT, HEIGHT - 8, drawing.last, anchor="end")


def _change(drawing: Drawing, place: _Place) -> Iterator[Shape]:
    if drawing.change_at is None:
        return
    edge = place.x(drawing.change_at - 0.5)
    yield Box(edge, _TOP, WIDTH - _RIGHT - edge, HEIGHT - _TOP - _BOTTOM, _SHADE)


def _levels(drawing: Drawing, place: _Place) -> Iterator[Shape]:
    at = drawing.change_at
    if at is None:
        return
    if drawing.before is not None:
        y = place.y(drawing.before)
        yield Line(place.x(max(at - _LEVEL_POINTS, 0) - 0.4), y, place.x(at - 0.6), y, _LEVEL, 2.0)
    if drawing.after is not None:
        y = place.y(drawing.after)
        yield Line(place.x(at - 0.4), y, place.x(min(at + _LEVEL_POINTS, place.count) - 0.6), y, _BAD, 2.0)


def _doubts(drawing: Drawing, place: _Place) -> Iterator[Shape]:
    for index, (value, error) in enumerate(zip(drawing.values, drawing.errors, strict=True)):
        if value is not None and error:
            x = place.x(index)
            yield Line(x, place.y(value - _SE_TO_95 * error), x, place.y(value + _SE_TO_95 * error), _DOUBT, 2.0)


def _points(drawing: Drawing, place: _Place) -> Iterator[Shape]:
    known = [(index, value) for index, value in enumerate(drawing.values) if value is not None]
    for (index, value), (following, other) in pairwise(known):
        if following == index + 1:  # a gap stays a gap
            yield Line(place.x(index), place.y(value), place.x(following), place.y(other), _ACCENT)
    radius = 2.2 if place.count <= 60 else 1.6
    for index, value in known:
        yield Dot(place.x(index), place.y(value), radius, _ACCENT)


def _hex(colour: Colour) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)


def _line(shape: Line) -> Markup:
    return el(
        "line", x1=shape.x1, y1=shape.y1, x2=shape.x2, y2=shape.y2, stroke=_hex(shape.colour), stroke_width=shape.width
    )


def _dot(shape: Dot) -> Markup:
    return el("circle", cx=shape.x, cy=shape.y, r=shape.radius, fill=_hex(shape.colour))


def _box(shape: Box) -> Markup:
    return el("rect", x=shape.x, y=shape.y, width=shape.width, height=shape.height, fill=_hex(shape.colour))


def _text(shape: Text) -> Markup:
    anchor = None if shape.anchor == "start" else shape.anchor
    return el("text", shape.words, x=shape.x, y=shape.y, fill=_hex(shape.colour), text_anchor=anchor)


_WRITERS: dict[type, Callable[..., Markup]] = {Line: _line, Dot: _dot, Box: _box, Text: _text}
