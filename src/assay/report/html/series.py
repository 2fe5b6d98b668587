"""The picture of a series: points with their intervals, levels, what was found, gaps and failed jobs.

Hundreds of points are three paths instead of hundreds of elements: a year stays a few kilobytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import pairwise
from statistics import median
from typing import Literal

from assay.report.html.chart import (
    AXIS_HEIGHT,
    RIGHT,
    STRETCH,
    Axis,
    Markup,
    axis_for,
    el,
    figure,
    join,
    label,
    line,
    moment_axis,
    room_for,
)
from assay.report.html.plots import HEIGHT, Plane, marker
from assay.report.numbers import show

Answer = Literal["better", "worse", "cannot tell"]

_SHOWN_SHARE = 0.01  # of the points at each end may lie beyond the axis; they are marked at its edge
_WHISKER = 1.96  # standard errors to either side are 95 %
# A pause this many times the usual one is drawn as a gap.
_GAP = 3.0
_LETTER_PX = 6.8
_ROWS = 3  # of labels at the top
_ROW_PX = 15
_PAGE_PX = 300.0  # of the plot on a phone
_ALONE_PX = 900
_ALONE_TOP = 34
_SHAPES = {"worse": "M-6 -5H6L0 6Z", "better": "M-6 5H6L0 -6Z", "cannot tell": "M0 -6L6 0L0 6L-6 0Z"}


@dataclass(frozen=True, slots=True)
class SeriesPoint:
    """One result of a series."""

    at: float
    """When, in seconds since 1970."""
    value: float | None
    """None where the job failed."""
    error: float | None = None
    """Standard error of the value."""
    verdict: str = ""


@dataclass(frozen=True, slots=True)
class SeriesChange:
    """A change to mark: where, from which level to which, and its description."""

    at: float
    """Of the first result after it."""
    good_at: float
    """Of the last result before it."""
    end: float
    """Where a drift ends; of a step the same as `at`."""
    kind: Literal["step", "drift"]
    before: float
    after: float
    answer: Answer
    size: str
    """Its size in words: `+6.1 %`."""
    cause: str
    state: str = "open"
    """Its state: open, expected, acknowledged, snoozed, resolved."""
    unconfirmed: str = ""
    """Of a change that is new and may still be chance: `new, unconfirmed (3 of 8)`."""


@dataclass(frozen=True, slots=True)
class SeriesPicture:
    """A series to draw."""

    title: str
    unit: str
    spots: tuple[SeriesPoint, ...]
    turns: tuple[SeriesChange, ...] = ()
    until: float | None = None
    """Up to when results were expected; the last result when left out."""
    since: float | None = None
    """Where the time begins that a digest speaks of."""


def draw_series(picture: SeriesPicture) -> Markup:
    """The picture with its caption and the list of what is marked, for a page."""
    plane = _plane(picture)
    drawn = plane.draw(*_content(plane, picture, _PAGE_PX, numbered=True))
    turns = [el("li", _change_text(turn)) for turn in picture.turns]
    return join(
        (
            figure(picture.title, drawn, _caption(picture), wide=True),
            el("ol", *turns, class_="turns") if turns else None,
        )
    )


def series_svg(picture: SeriesPicture) -> str:
    """The picture as a file of its own, with size and cause written on it."""
    plane = _plane(picture)
    left = room_for([plane.up])
    inner_px = _ALONE_PX - left - RIGHT
    framed = plane.draw(*_content(plane, picture, inner_px, numbered=False))
    # The frame of a page is a margin of its style sheet, which a file has not: the content gets a frame of its own.
    content = Markup(framed.partition(">")[2].removesuffix("</svg>"))
    inner = el(
        "svg", content, x=left, y=_ALONE_TOP + 22, width=inner_px, height=HEIGHT, overflow="visible", class_="chart"
    )
    height = _ALONE_TOP + 22 + HEIGHT + AXIS_HEIGHT + 4
    head = el("text", picture.title, x=10, y=20, class_="name")
    back = el("rect", width="100%", height="100%", class_="back")
    whole = el(
        "svg",
        el("style", Markup(_alone_style())),
        back,
        el("g", head, class_="chart"),
        inner,
        xmlns="http://www.w3.org/2000/svg",
        width=_ALONE_PX,
        height=height,
        viewBox=f"0 0 {_ALONE_PX} {height}",
    )
    return f"{whole}\n"


def levels(picture: SeriesPicture) -> Iterator[tuple[tuple[float, float], tuple[float, float]]]:
    """The levels between the changes, each as a line from one (moment, value) to another."""
    points = [(spot.at, spot.value) for spot in picture.spots if spot.value is not None]
    if not points:
        return
    begin, level = points[0][0], picture.turns[0].before if picture.turns else median(value for _, value in points)
    for turn in picture.turns:
        yield (begin, level), (turn.good_at, level)
        if turn.kind == "drift":
            yield (turn.good_at, turn.before), (turn.end, turn.after)
        begin, level = (turn.end if turn.kind == "drift" else turn.at), turn.after
    yield (begin, level), (max(points[-1][0], begin), level)


def gaps(picture: SeriesPicture) -> tuple[tuple[float, float], ...]:
    """Times without any result, longer than is usual in the series."""
    moments = sorted(spot.at for spot in picture.spots)
    pauses = [b - a for a, b in pairwise(moments)]
    if len(pauses) < 4:
        return ()
    longest = _GAP * median(pauses)
    ends = [*moments, *([picture.until] if picture.until is not None else [])]
    return tuple((a, b) for a, b in pairwise(ends) if b - a > longest > 0)


def _plane(picture: SeriesPicture) -> Plane:
    moments = [spot.at for spot in picture.spots] + ([picture.until] if picture.until is not None else [])
    across = moment_axis(min(moments), max(moments)) if moments else moment_axis(0.0, 1.0)
    return Plane(picture.title, _described(picture), across, "", _up(picture), picture.unit or "value")


def _up(picture: SeriesPicture) -> Axis:
    """From the lowest value to the highest, but for the wildest; every level fits."""
    values = sorted(spot.value for spot in picture.spots if spot.value is not None)
    if not values:
        return axis_for((0.0, 1.0))
    cut = int(len(values) * _SHOWN_SHARE)
    ends = [values[cut], values[-1 - cut], *(value for part in levels(picture) for _, value in part)]
    low, high = min(ends), max(ends)
    margin = 0.12 * (high - low)  # for the labels at the top
    return axis_for((low, high + margin))


def _content(plane: Plane, picture: SeriesPicture, narrowest_px: float, *, numbered: bool) -> list[Markup]:
    begin = [_window(plane, picture.since)] if picture.since is not None else []
    return [
        *begin,
        *(_gap(plane, gap, narrowest_px) for gap in gaps(picture)),
        *_points(plane, picture.spots),
        *(plane.line(part, "series-level") for part in levels(picture)),
        *_turns(plane, picture.turns, narrowest_px, numbered=numbered),
        *(_failed(plane, spot) for spot in picture.spots if spot.value is None),
    ]


def _points(plane: Plane, spots: Sequence[SeriesPoint]) -> Iterator[Markup]:
    points = [(spot, spot.value) for spot in spots if spot.value is not None]
    inside = [(spot, value) for spot, value in points if plane.up.low <= value <= plane.up.high]
    errors = [
        (spot.at, value - _WHISKER * spot.error, value + _WHISKER * spot.error) for spot, value in inside if spot.error
    ]
    if errors:
        yield _path((f"M{_x(plane, at)} {_y(plane, low)}V{_y(plane, high)}" for at, low, high in errors), "spot-error")
    yield _path((f"M{_x(plane, spot.at)} {_y(plane, value)}h0" for spot, value in inside), "spot")
    doubtful = [(spot, value) for spot, value in inside if spot.verdict in ("suspect", "invalid")]
    if doubtful:  # open circles: the middle is painted over
        yield _path((f"M{_x(plane, spot.at)} {_y(plane, value)}h0" for spot, value in doubtful), "spot hole")
    for point, value in points:
        if not plane.up.low <= value <= plane.up.high:
            x, y = plane.across.percent(point.at), 0.0 if value > plane.up.high else HEIGHT - 7.0
            yield line(x, x, y, y + 7, "beyond")


def _path(parts: Iterable[str], class_: str) -> Markup:
    drawn = el("path", d="".join(parts), class_=class_, vector_effect="non-scaling-stroke")
    box = f"0 0 {STRETCH} {STRETCH}"
    return el(
        "svg", drawn, x=0, y=0, width="100%", height=HEIGHT, viewBox=box, preserveAspectRatio="none", overflow="visible"
    )


def _x(plane: Plane, at: float) -> str:
    return f"{plane.across.share(at) * STRETCH:.1f}"


def _y(plane: Plane, value: float) -> str:
    return f"{(1 - plane.up.share(value)) * STRETCH:.1f}"


def _window(plane: Plane, since: float) -> Markup:
    """The time that the digest speaks of, shaded."""
    left = plane.across.share(since)
    return el(
        "rect", x=plane.across.percent(since), width=f"{100 * (1 - left):.2f}%", y=0, height=HEIGHT, class_="band"
    )


def _gap(plane: Plane, ends: tuple[float, float], narrowest_px: float) -> Markup:
    left, right = (plane.across.share(end) for end in ends)
    words = f"no results for {_days(ends[1] - ends[0])}"
    box = el(
        "rect",
        el("title", words),
        x=f"{100 * left:.2f}%",
        width=f"{100 * (right - left):.2f}%",
        y=0,
        height=HEIGHT,
        class_="away",
    )
    fits = (right - left) * narrowest_px >= len(words) * _LETTER_PX
    return join((box, label(words, f"{50 * (left + right):.2f}%", HEIGHT - 22, "tick middle") if fits else None))


def _failed(plane: Plane, point: SeriesPoint) -> Markup:
    return el(
        "g", el("title", f"failed on {_date(point.at)}"), marker(plane.across.percent(point.at), HEIGHT - 8, "failed")
    )


def _turns(plane: Plane, turns: Sequence[SeriesChange], narrowest_px: float, *, numbered: bool) -> Iterator[Markup]:
    """Each change: an upright line, a sign that tells its direction, and its name in the first row with room."""
    free = [-math.inf] * _ROWS
    named: list[Markup] = []  # over all the lines, so that none runs through a word
    for number, turn in enumerate(turns, 1):
        share = (plane.across.share(turn.good_at) + plane.across.share(turn.at)) / 2
        words = str(number) if numbered else f"{turn.size} {turn.cause}{_state(turn)}"
        begin_px = share * narrowest_px + 9
        length_px = len(words) * _LETTER_PX + 4
        at_end = begin_px + length_px > narrowest_px
        left_px = begin_px - 18 - length_px if at_end else begin_px - 16  # the sign itself needs room too
        row = next((place for place in range(_ROWS) if free[place] <= left_px), None)
        y = 8.0 + _ROW_PX * (row or 0)
        kind = f"{turn.answer.replace(' ', '-')}{' settled' if turn.state != 'open' else ''}"
        signs = [el("path", d=_SHAPES[turn.answer], class_=f"turn {kind}")]
        if row is not None:
            free[row] = max(begin_px, left_px + length_px)
            signs.append(label(words, "-9" if at_end else "9", 4, f"tick halo{' end' if at_end else ''}"))
        title = el("title", _change_text(turn))
        yield el("g", title, line(_percent(share), _percent(share), y, HEIGHT, f"turn-line {kind}"))
        named.append(el("svg", title, *signs, x=_percent(share), y=y, width=1, height=1, overflow="visible"))
    yield from named


def _percent(share: float) -> str:
    return f"{100 * share:.2f}%"


def _state(turn: SeriesChange) -> str:
    return "" if turn.state == "open" else f", {turn.state}"


def _change_text(turn: SeriesChange) -> str:
    when = f"from {_date(turn.at)} to {_date(turn.end)}" if turn.kind == "drift" else f"on {_date(turn.at)}"
    return f"{turn.size} {turn.unconfirmed or turn.answer}, {turn.cause}, {turn.kind} {when}{_state(turn)}"


def _described(picture: SeriesPicture) -> str:
    """The picture in words, for people who cannot see it."""
    values = [spot.value for spot in picture.spots if spot.value is not None]
    if not values:
        return "No result has a value."
    first, last = picture.spots[0].at, picture.spots[-1].at
    between = f"between {show(min(values))} and {show(max(values))} {picture.unit}".rstrip()
    parts = [f"{len(values)} results from {_date(first)} to {_date(last)}, {between}."]
    parts += [f"Change {number}: {_change_text(turn)}." for number, turn in enumerate(picture.turns, 1)]
    parts += [f"No results from {_date(a)} to {_date(b)}." for a, b in gaps(picture)]
    failed = len(picture.spots) - len(values)
    return " ".join([*parts, *([f"{failed} jobs failed."] if failed else [])])


def _caption(picture: SeriesPicture) -> str:
    parts = ["Each dot is one result"]
    parts[0] += (
        ", its whisker 95 % from the spread between its runs." if any(spot.error for spot in picture.spots) else "."
    )
    parts.append("The lines are the levels between changes.")
    if picture.turns:
        parts.append(
            "A mark that points down is a change for the worse, up for the better, a diamond is `cannot tell`."
        )
    if any(turn.state != "open" for turn in picture.turns):
        parts.append("An open sign on a dashed line was expected, acknowledged or is over.")
    shown = _up(picture)
    if any(spot.value is not None and not shown.low <= spot.value <= shown.high for spot in picture.spots):
        parts.append("A red tick at the edge is a result that lies beyond.")
    if any(spot.verdict in ("suspect", "invalid") for spot in picture.spots):
        parts.append("Open dots are suspect or invalid.")
    if any(spot.value is None for spot in picture.spots):
        parts.append("A cross at the bottom is a job that failed.")
    if gaps(picture):
        parts.append("Nothing was measured in the grey times.")
    if picture.since is not None:
        parts.append("The shade marks the time of this digest.")
    return " ".join(parts)


def _date(at: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d")


def _days(seconds: float) -> str:
    days = seconds / 86400
    return f"{days:.0f} days" if days >= 1.5 else f"{seconds / 3600:.0f} hours"


def _alone_style() -> str:
    """Those rules of the report's style that a picture needs."""
    package = files("assay.report.html")
    page, drawn, own = (package.joinpath(name).read_text("utf-8") for name in ("style.css", "chart.css", "digest.css"))
    colours = page[: page.index("* {")]
    rules = [rule for rule in (*drawn.splitlines(), *own.splitlines()) if rule.startswith(".chart ")]
    font = (
        'svg { font-family: system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; } .back { fill: var(--surface); }'
    )
    return "\n".join([colours + font, *rules])
