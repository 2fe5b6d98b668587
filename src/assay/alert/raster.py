"""Shapes to pixels, and pixels to PNG: as much as a small line chart needs, and no library for it."""

from __future__ import annotations

import math
import struct
import unicodedata
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from assay.alert.picture import BoxShape, Colour, DotShape, LineShape, Shape, TextShape

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
    """Draw shapes, the first at the back, and write them as a PNG file."""
    pixels = np.empty((height * scale, width * scale, 3))
    pixels[:] = paper
    for shape in shapes:
        _draw(pixels, shape, scale)
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


def _draw(pixels: Pixels, shape: Shape, scale: int) -> None:
    if isinstance(shape, LineShape):
        _line(pixels, shape, scale)
    elif isinstance(shape, DotShape):
        end = LineShape(shape.x, shape.y, shape.x, shape.y, shape.colour, 2 * shape.radius)
        _line(pixels, end, scale)
    elif isinstance(shape, BoxShape):
        _box(pixels, shape, scale)
    else:
        _text(pixels, shape, scale)


def _line(pixels: Pixels, line: LineShape, scale: int) -> None:
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


def _box(pixels: Pixels, box: BoxShape, scale: int) -> None:
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


def _text(pixels: Pixels, text: TextShape, scale: int) -> None:
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
