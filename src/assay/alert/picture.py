"""A small picture of a series: its points with their doubt, the change, and the level on either side of it.

What is drawn is laid out once, in shapes; SVG and PNG are two ways to write the same shapes.
"""

from __future__ import annotations

import math
import struct
import unicodedata
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from assay.report.html.chart import Axis, Markup, axis_for, el
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
    return el(
        "svg",
        el("title", one_line(drawing.title)),
        el("rect", width=WIDTH, height=HEIGHT, fill=_hex(PAPER)),
        *map(_drawn, layout(drawing)),
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
        values = [value for value in drawing.values if value is not None]
        ends = [
            end
            for value, error in zip(drawing.values, drawing.errors, strict=True)
            if value is not None and error is not None
            for end in (value - _SE_TO_95 * error, value + _SE_TO_95 * error)
        ]
        levels = [level for level in (drawing.before, drawing.after) if level is not None]
        return cls(axis_for([*values, *ends, *levels], count=4), len(drawing.values))

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
    points = [(index, value) for index, value in enumerate(drawing.values) if value is not None]
    for (index, value), (following, other) in pairwise(points):
        if following == index + 1:  # a gap stays a gap
            yield LineShape(place.x(index), place.y(value), place.x(following), place.y(other), _ACCENT)
    radius = 2.2 if place.count <= 60 else 1.6
    for index, value in points:
        yield DotShape(place.x(index), place.y(value), radius, _ACCENT)


def _hex(colour: Colour) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)


def _drawn(shape: Shape) -> Markup:
    colour = _hex(shape.colour)
    if isinstance(shape, LineShape):
        return el("line", x1=shape.x1, y1=shape.y1, x2=shape.x2, y2=shape.y2, stroke=colour, stroke_width=shape.width)
    if isinstance(shape, DotShape):
        return el("circle", cx=shape.x, cy=shape.y, r=shape.radius, fill=colour)
    if isinstance(shape, BoxShape):
        return el("rect", x=shape.x, y=shape.y, width=shape.width, height=shape.height, fill=colour)
    anchor = None if shape.anchor == "start" else shape.anchor
    return el("text", shape.words, x=shape.x, y=shape.y, fill=colour, text_anchor=anchor)


_SIGNATURE = b"\x89PNG\r\n\x1a\n"

# Letters of five columns and seven rows, from space to tilde; each column is a byte whose lowest bit is the top row.
_LETTERS = bytes.fromhex(
    "0000000000 00005f0000 0007000700 147f147f14 242a7f2a12 2313086462 3649562050 0005030000 001c224100 0041221c00"
    "14083e0814 08083e0808 0050300000 0808080808 0060600000 2010080402 3e5149453e 00427f4000 4261514946 2141454b31"
    "1814127f10 2745454539 3c4a494930 0171090503 3649494936 064949291e 0036360000 0056360000 0814224100 1414141414"
    "0041221408 0201510906 324979413e 7e1111117e 7f49494936 3e41414122 7f4141221c 7f49494941 7f09090901 3e4149497a"
    "7f0808087f 00417f4100 2040413f01 7f08142241 7f40404040 7f020c027f 7f0408107f 3e4141413e 7f09090906 3e4151215e"
    "7f09192946 4649494931 01017f0101 3f4040403f 1f2040201f 3f4038403f 6314081463 0708700807 6151494543 007f414100"
    "0204081020 0041417f00 0402010204 4040404040 0001020400 2054545478 7f48444438 3844444420 384444487f 3854545418"
    "087e090102 0c5252523e 7f08040478 00447d4000 2040443d00 7f10284400 00417f4000 7c04180478 7c08040478 3844444438"
    "7c14141408 081414187c 7c08040408 4854545420 043f444020 3c4040207c 1c2040201c 3c4030403c 4428102844 0c5050503c"
    "4464544c44 0008364100 00007f0000 0041360800 1008081008"
)
_COLUMNS, _ROWS = 5, 7
_ADVANCE = 6
_LIKE = str.maketrans(
    {
        "·": ".",
        "–": "-",
        "—": "-",
        "−": "-",
        "→": ">",
        "×": "x",
        "…": ".",
        "±": "+",
        "µ": "u",
        "“": '"',
        "”": '"',
        "’": "'",
    }
)

Pixels = NDArray[np.float64]


def rasterise(shapes: Sequence[Shape], width: int, height: int, paper: Colour, *, scale: int = 1) -> bytes:
    pixels = np.empty((height * scale, width * scale, 3))
    pixels[:] = paper
    for shape in shapes:
        _paint(pixels, shape, scale)
    return encode(np.clip(np.rint(pixels), 0, 255).astype(np.uint8))


def encode(pixels: NDArray[np.uint8]) -> bytes:
    """Write rows of red, green and blue as a PNG file."""
    height, width, _ = pixels.shape
    # Each row begins with the way it is filtered: 0, as it is.
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, width * 3)], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b""))
    return _SIGNATURE + b"".join(_part(name, content) for name, content in parts)


def _part(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def _paint(pixels: Pixels, shape: Shape, scale: int) -> None:
    if isinstance(shape, LineShape):
        _paint_line(pixels, shape, scale)
    elif isinstance(shape, DotShape):
        end = LineShape(shape.x, shape.y, shape.x, shape.y, shape.colour, 2 * shape.radius)
        _paint_line(pixels, end, scale)
    elif isinstance(shape, BoxShape):
        _paint_box(pixels, shape, scale)
    else:
        _paint_text(pixels, shape, scale)


def _paint_line(pixels: Pixels, line: LineShape, scale: int) -> None:
    """A line with round ends; each pixel is covered by as much as it lies within half the width of it."""
    reach = line.width * scale / 2
    x1, y1, x2, y2 = (value * scale for value in (line.x1, line.y1, line.x2, line.y2))
    area = _area(
        pixels, min(x1, x2) - reach - 1, min(y1, y2) - reach - 1, max(x1, x2) + reach + 1, max(y1, y2) + reach + 1
    )
    if area is None:
        return
    rows, columns = area
    y, x = np.mgrid[rows, columns].astype(np.float64) + 0.5
    dx, dy = x2 - x1, y2 - y1
    length = dx * dx + dy * dy
    along = np.clip(((x - x1) * dx + (y - y1) * dy) / length, 0, 1) if length else np.zeros_like(x)
    distance = np.hypot(x - (x1 + along * dx), y - (y1 + along * dy))
    _blend(pixels, area, np.clip(reach + 0.5 - distance, 0, 1), line.colour)


def _paint_box(pixels: Pixels, box: BoxShape, scale: int) -> None:
    left, right = box.x * scale, (box.x + box.width) * scale
    top, bottom = box.y * scale, (box.y + box.height) * scale
    area = _area(pixels, left, top, right, bottom)
    if area is None:
        return
    rows, columns = area
    x = np.arange(columns.start, columns.stop)
    y = np.arange(rows.start, rows.stop)
    across = np.clip(np.minimum(x + 1, right) - np.maximum(x, left), 0, 1)
    down = np.clip(np.minimum(y + 1, bottom) - np.maximum(y, top), 0, 1)
    _blend(pixels, area, down[:, None] * across[None, :], box.colour)


def _paint_text(pixels: Pixels, text: TextShape, scale: int) -> None:
    words = readable(text.words)
    width = (len(words) * _ADVANCE - 1) * scale
    shift = {"start": 0.0, "middle": width / 2, "end": float(width)}[text.anchor]
    left, top = round(text.x * scale - shift), round((text.y - _ROWS) * scale)
    for index, letter in enumerate(words):
        first = (ord(letter) - 32) * _COLUMNS
        columns = np.frombuffer(_LETTERS[first : first + _COLUMNS], np.uint8)
        bits = ((columns[None, :] >> np.arange(_ROWS)[:, None].astype(np.uint8)) & 1).astype(np.float64)
        cover = bits.repeat(scale, axis=0).repeat(scale, axis=1)
        x = left + index * _ADVANCE * scale
        area = _area(pixels, x, top, x + cover.shape[1], top + cover.shape[0])
        if area is not None:
            rows, cols = area
            part = cover[rows.start - top : rows.stop - top, cols.start - x : cols.stop - x]
            _blend(pixels, area, part, text.colour)


def readable(words: str) -> str:
    """Text in the letters that there are; what has no likeness becomes a question mark."""
    plain = unicodedata.normalize("NFKD", words.translate(_LIKE))
    return "".join(letter if " " <= letter <= "~" else "" if unicodedata.combining(letter) else "?" for letter in plain)


def _area(pixels: Pixels, left: float, top: float, right: float, bottom: float) -> tuple[slice, slice] | None:
    """The pixels that a rectangle touches; None when it lies outside the paper."""
    height, width, _ = pixels.shape
    rows = slice(max(math.floor(top), 0), min(math.ceil(bottom), height))
    columns = slice(max(math.floor(left), 0), min(math.ceil(right), width))
    return (rows, columns) if rows.start < rows.stop and columns.start < columns.stop else None


def _blend(pixels: Pixels, area: tuple[slice, slice], cover: Pixels, colour: Colour) -> None:
    part = pixels[area]
    part += (np.array(colour, dtype=np.float64) - part) * cover[:, :, None]
