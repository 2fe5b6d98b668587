"""The picture of a series: points, doubt and change where they belong, as SVG and as PNG alike."""

from __future__ import annotations

import math
import struct
import time
import xml.etree.ElementTree as ET
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.alert.notify.samples import drawing

from assay.alert.picture import (
    _LETTERS,
    HEIGHT,
    MOST_POINTS,
    WIDTH,
    BoxShape,
    DotShape,
    Drawing,
    LineShape,
    TextShape,
    drawing_of,
    encode,
    layout,
    png,
    rasterise,
    readable,
    svg,
)

NUMBERS = st.one_of(st.none(), st.floats(-1e12, 1e12, allow_subnormal=False))


def pixels(content):
    """Read a PNG file whose rows are not filtered, and check every part of it."""
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    parts, at = {}, 8
    while at < len(content):
        length = struct.unpack(">I", content[at : at + 4])[0]
        name, data = content[at + 4 : at + 8], content[at + 8 : at + 8 + length]
        assert struct.unpack(">I", content[at + 8 + length : at + 12 + length])[0] == zlib.crc32(name + data)
        parts[name] = data
        at += 12 + length
    assert list(parts) == [b"IHDR", b"IDAT", b"IEND"]
    width, height, *rest = struct.unpack(">IIBBBBB", parts[b"IHDR"])
    assert rest == [8, 2, 0, 0, 0]
    rows = np.frombuffer(zlib.decompress(parts[b"IDAT"]), np.uint8).reshape(height, 1 + 3 * width)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, 3)


def drawn(*shapes, width=40, height=20, scale=1):
    return pixels(rasterise(shapes, width, height, (255, 255, 255), scale=scale))


def test_a_png_holds_exactly_the_pixels_it_was_given():
    wanted = np.random.default_rng(1).integers(0, 256, (7, 5, 3)).astype(np.uint8)
    assert (pixels(encode(wanted)) == wanted).all()


def test_a_line_lies_where_it_should_and_fades_at_its_edges():
    picture = drawn(LineShape(5, 10, 35, 10, (0, 0, 0), 2.0))
    assert (picture[9:11, 10:30] == 0).all()
    assert (picture[7, :] == 255).all()
    assert (picture[12, :] == 255).all()
    slanted = drawn(LineShape(0, 0, 40, 20, (0, 0, 0), 1.0))
    assert slanted[10, 20].max() < 128
    assert ((slanted > 0) & (slanted < 255)).any()
    assert slanted[2, 35].min() == 255


def test_dots_and_boxes_cover_their_area():
    dot = drawn(DotShape(20, 10, 5, (255, 0, 0)))
    assert (dot[10, 20] == (255, 0, 0)).all()
    covered = (255 - dot[:, :, 1].astype(float)).sum() / 255
    assert covered == pytest.approx(math.pi * 25, rel=0.05)
    box = drawn(BoxShape(2.5, 3, 10, 4, (0, 0, 255)))
    assert (255 - box[:, :, 0].astype(float)).sum() / 255 == pytest.approx(40, abs=0.2)


def test_letters_are_the_right_ones():
    one = drawn(TextShape(2, 12, "L", (0, 0, 0)))
    dark = one[:, :, 0] < 128
    assert dark[5:12, 2].all()
    assert dark[11, 2:7].all()
    assert dark.sum() == 11
    assert len(_LETTERS) == 5 * 95
    shapes = {bytes(_LETTERS[5 * n : 5 * n + 5]) for n in range(95)}
    assert len(shapes) == 95, "two letters look the same"


def test_letters_end_where_they_should():
    for anchor, expected in (("start", 20), ("end", 20 - 17), ("middle", 20 - 9)):
        dark = drawn(TextShape(20, 12, "HHH", (0, 0, 0), anchor))[:, :, 0] < 128
        assert abs(int(np.flatnonzero(dark.any(axis=0))[0]) - expected) <= 1


def test_what_lies_outside_the_paper_is_cut():
    picture = drawn(
        LineShape(-50, 5, 90, 5, (0, 0, 0)),
        TextShape(-3, 3, "WWWWWWWWWWWWWW", (0, 0, 0)),
        DotShape(100, 100, 3, (0, 0, 0)),
    )
    assert picture.shape == (20, 40, 3)


def test_letters_that_there_are_not_become_like_ones():
    assert readable("±2 % · µs → é 漢") == "+2 % . us > e ?"


def test_the_change_and_the_levels_are_shown_where_they_are():
    shapes = list(layout(drawing(40, 25)))
    (shade,) = [one for one in shapes if isinstance(one, BoxShape)]
    dots = [one for one in shapes if isinstance(one, DotShape)]
    assert len(dots) == 40
    assert dots[24].x < shade.x < dots[25].x
    before, after = [one for one in shapes if isinstance(one, LineShape) and one.width == 2.0 and one.y1 == one.y2]
    assert before.y1 > after.y1, "a higher value lies higher"
    assert before.x2 < shade.x < after.x1
    assert dots[0].y > dots[-1].y


def test_doubt_is_drawn_around_every_point_that_has_some():
    one = Drawing("x", (1.0, 2.0, 3.0), (0.5, None, 0.0))
    whiskers = [shape for shape in layout(one) if isinstance(shape, LineShape) and shape.x1 == shape.x2]
    assert len(whiskers) == 1
    assert whiskers[0].y1 > whiskers[0].y2


def test_a_gap_stays_a_gap():
    one = Drawing("x", (1.0, 2.0, None, 3.0, 4.0), (None,) * 5)
    accent = [shape for shape in layout(one) if isinstance(shape, LineShape) and shape.colour == (11, 92, 173)]
    assert len(accent) == 2


def test_the_newest_points_are_shown_and_an_older_change_with_what_follows():
    values = [float(n) for n in range(500)]
    days = [str(n) for n in range(500)]
    newest = drawing_of("x", values, [None] * 500, days)
    assert (newest.first, newest.last, newest.change_at) == ("380", "499", None)
    old = drawing_of("x", values, [None] * 500, days, change_at=100)
    assert (old.first, old.last, old.change_at) == ("60", "179", 40)
    assert len(old.values) == MOST_POINTS
    assert drawing_of("x", [1.0, None], [None] * 2, ["a", "b"]) is None
    assert drawing_of("x", [], [], []) is None


def test_svg_and_png_are_made_of_the_same_shapes_and_fast():
    one = drawing(120, 80)
    began = time.process_time()
    picture = pixels(png(one))
    assert time.process_time() - began < 1.0
    assert picture.shape == (2 * HEIGHT, 2 * WIDTH, 3)
    root = ET.fromstring(svg(one))
    circles = root.findall("{http://www.w3.org/2000/svg}circle")
    assert len(circles) == 120
    for circle in circles:
        x, y = float(circle.get("cx")), float(circle.get("cy"))
        assert (np.abs(picture[round(2 * y), round(2 * x)].astype(int) - (11, 92, 173)) < 40).all()


@given(
    st.lists(st.tuples(NUMBERS, st.one_of(st.none(), st.floats(0, 1e9))), max_size=130),
    st.text(max_size=50),
    st.integers(0, 130),
    NUMBERS,
)
@settings(max_examples=60)
def test_any_series_can_be_drawn(series, title, change_at, level):
    one = drawing_of(
        title,
        [value for value, _ in series],
        [error for _, error in series],
        [title] * len(series),
        change_at=change_at,
        before=level,
        after=level,
    )
    if one is None:
        return
    ET.fromstring(svg(one))
    pixels(png(one))
    for shape in layout(one):
        x, y = (shape.x1, shape.y1) if isinstance(shape, LineShape) else (shape.x, shape.y)
        assert -1 <= x <= WIDTH + 1
        assert -1 <= y <= HEIGHT + 1
