"""HTML from elements, axes with round ticks, and the frame of every picture: constant text size at any width.

Positions along the axis are percentages, so that a picture fills a wide screen and a phone alike without
its letters growing or shrinking. Only curves, which cannot be written in percentages, are stretched.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from typing import Literal

import numpy as np
from numpy.typing import NDArray

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
    beside: bool = False
    """Labels stand at the left of their marks where the page has room for them."""
    tall: bool = False
    """Rows have room for a name and, below it, a number."""

    def draw(self, *content: Child) -> Markup:
        """The picture as SVG: the drawing area itself, with the axis in its margins."""
        left = next((room for room in _LEFTS if room >= self.left), _LEFTS[-1])
        frame = f"chart {'beside' if self.beside else f'left-{left} top-{self.top}'}{' tall' if self.tall else ''}"
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
    content = (el("h4", title), picture, el("figcaption", caption) if caption else None)
    return el("figure", *content, class_="wide" if wide else None)


def label(content: str, x: str, y: float, class_: str = "") -> Markup:
    """A text on a picture that stays readable on top of lines."""
    return _text(content, x, y, f"halo {class_}".strip())


def line(x1: str, x2: str, y1: float, y2: float, class_: str) -> Markup:
    """A straight line; x as percentages, y in pixels."""
    return el("line", x1=x1, x2=x2, y1=y1, y2=y2, class_=class_)


def bar(axis: Axis, low: float, high: float, y: float, height: float, class_: str) -> Markup:
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


def room_for(axes: Sequence[Axis]) -> int:
    """Pixels that the labels of upright axes take."""
    return 14 + 7 * max((len(axis.label(tick)) for axis in axes for tick in axis.ticks), default=2)


def levels(up: Axis, top: float, height: float) -> Markup:
    """A horizontal line for each tick of an upright axis, with its number at the left."""
    parts: list[Markup] = []
    for tick in up.ticks:
        y = top + height * (1 - up.share(tick))
        parts += [line("0%", "100%", y, y, "level"), el("text", up.label(tick), x=-6, y=y + 4, class_="tick end")]
    return join(parts)


def page_head(title: str, *styles: str) -> Markup:
    """The head of a page that needs nothing else, with the styles of these files."""
    package = files("assay.report.html")
    return el(
        "head",
        el("meta", charset="utf-8"),
        # Nothing may be fetched or run, whatever a name inside the page says.
        el("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", f"{title} – assay"),
        el("style", Markup("".join(package.joinpath(name).read_text("utf-8") for name in styles))),
    )


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
class Legend:
    """How all pictures of one kind are read; a report explains each kind once."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture under its title, with how it is read and what is special about it."""

    key: str
    """Its name among the pictures of a job."""
    group: Group
    title: str
    svg: Markup
    legend: Legend
    note: str
    """What is true of this picture alone; often empty."""
    numbers: Callable[[], Numbers]
    """The numbers in it as a table; the report does not need them."""
    wide: bool = False

    @property
    def caption(self) -> str:
        """Everything that a reader needs where the picture stands alone."""
        return f"{self.legend.text} {self.note}".rstrip()

    def figure(self) -> Markup:
        """The picture for a page that explains its legend elsewhere."""
        return figure(self.title, self.svg, self.note, wide=self.wide)


def _short(cell: Cell) -> Cell:
    if isinstance(cell, float):
        return float(_EIGHT_DIGITS % cell) if math.isfinite(cell) else None
    return cell


# XML has no way to write these, and a browser shows them as noise.
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_VOID = frozenset({"meta", "br", "hr", "img", "col"})
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
Child = str | int | None | Iterable["Child"]
Attribute = str | int | float | bool | None


class Markup(str):
    """Text that is markup already; every other text is escaped when it enters an element."""

    __slots__ = ()


def el(tag: str, *children: Child, **attributes: Attribute) -> Markup:
    """One element; `class_` is written `class`, other underscores become hyphens, None is left out."""
    opening = tag + "".join(_attribute(name, value) for name, value in attributes.items())
    if tag in _VOID:
        return Markup(f"<{opening} />")
    return Markup(f"<{opening}>{join(children)}</{tag}>")


def join(children: Iterable[Child], between: str = "") -> Markup:
    """Children one after another, each escaped unless it is markup."""
    return Markup(between.join(_child(child) for child in children))


def text(value: str) -> Markup:
    """Plain text, escaped, without terminal codes and unprintable characters."""
    return Markup(html.escape(_UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", _ANSI.sub("", value))))


def _child(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child
    if isinstance(child, str | int):
        return text(str(child))
    return join(child)


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    written = name.rstrip("_").replace("_", "-")
    if isinstance(value, float):
        return f' {written}="{round(value, 3):g}"'
    return f' {written}="{"" if value is True else text(str(value))}"'


# Beyond this ratio the small values of a linear axis would all lie on one spot.
_LOG_FROM = 40.0
_HOUR = 3600.0
_DAY = 24 * _HOUR
# What lies between two ticks: a number of hours, of days or of months.
_STEPS: tuple[tuple[Literal["hours", "days", "months"], int, float], ...] = (
    ("hours", 1, _HOUR), ("hours", 6, 6 * _HOUR), ("days", 1, _DAY), ("days", 2, 2 * _DAY), ("days", 7, 7 * _DAY),
    ("days", 14, 14 * _DAY), ("months", 1, 30 * _DAY), ("months", 2, 61 * _DAY), ("months", 3, 91 * _DAY),
    ("months", 6, 182 * _DAY), ("months", 12, 365 * _DAY), ("months", 60, 5 * 365 * _DAY),
)  # fmt: skip
_MOST_TICKS = 6


@dataclass(frozen=True, slots=True)
class Axis:
    """A scale from values to a share of the axis' length, with its ticks."""

    low: float
    high: float
    ticks: tuple[float, ...]
    log: bool = False

    def share(self, value: float) -> float:
        """Where a value lies, 0 at the low end and 1 at the high end; values beyond stick to the ends."""
        position, low, high = (math.log10(v) if self.log else v for v in (max(value, self.low), self.low, self.high))
        return min(max((position - low) / (high - low), 0.0), 1.0)

    def shares(self, values: NDArray[np.float64]) -> list[float]:
        low, high = (math.log10(end) if self.log else end for end in (self.low, self.high))
        position = np.log10(np.maximum(values, self.low)) if self.log else values
        return list(np.clip((position - low) / (high - low), 0.0, 1.0).tolist())

    def percent(self, value: float) -> str:
        """Where a value lies, as SVG wants it."""
        return f"{100 * self.share(value):.2f}%"

    def label(self, tick: float) -> str:
        """A tick's number, with as many decimals as its neighbours need."""
        if self.log or len(self.ticks) < 2:
            return f"{tick:,.10g}"
        step = self.ticks[1] - self.ticks[0]
        if max(abs(self.low), abs(self.high)) >= 1e7 or step < 1e-5:
            return f"{tick:.3g}"
        return f"{tick:,.{_decimals(step)}f}"


def axis_for(values: Sequence[float], *, zero: bool = False, count: int = 5, may_log: bool = False) -> Axis:
    """An axis that holds all values, from zero on when asked, logarithmic when allowed and needed."""
    low, high = min(values), max(values)
    if may_log and low > 0 and high / low > _LOG_FROM:
        return _log_axis(low, high)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if high <= low:
        margin = abs(high) * 0.05 or 1.0
        low, high = (low if zero else low - margin), high + margin
    step = _nice_step((high - low) / count)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return Axis(first * step, last * step, tuple(_clean(i * step, step) for i in range(first, last + 1)))


def close_axis(low: float, high: float, count: int = 5) -> Axis:
    """An axis that ends exactly at the values given, with round ticks between them."""
    if high <= low:
        return axis_for((low,), count=count)
    step = _nice_step((high - low) / count)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return Axis(low, high, tuple(_clean(i * step, step) for i in range(first, last + 1)))


def _log_axis(low: float, high: float) -> Axis:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    every = max(1, math.ceil((last - first) / 6))
    return Axis(10.0**first, 10.0**last, tuple(10.0**i for i in range(first, last + 1, every)), log=True)


def _nice_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * (1 - 1e-9))


def _decimals(step: float) -> int:
    exact = min(-math.floor(math.log10(step)), 300)  # a larger power of ten overflows a float
    return max(exact + (1 if abs(step * 10**exact - 2.5) < 1e-6 else 0), 0)


def _clean(value: float, step: float) -> float:
    return round(value, _decimals(step) + 3)


class MomentAxis(Axis):
    """Moments in seconds since 1970, in UTC."""

    __slots__ = ()

    def label(self, tick: float) -> str:
        """A date, or a time of the day where ticks are closer than that."""
        at = datetime.fromtimestamp(tick, UTC)
        apart = self.ticks[1] - self.ticks[0] if len(self.ticks) > 1 else self.high - self.low
        if apart < _DAY:
            return f"{at:%H:%M}" if at.hour or at.minute else f"{at.day} {at:%b}"
        if apart < 28 * _DAY:
            return f"{at.day} {at:%b}"
        # The year once is enough, and leaves room on a phone.
        return f"{at:%b %Y}" if at.month == 1 or tick == self.ticks[0] else f"{at:%b}"


def moment_axis(low: float, high: float) -> MomentAxis:
    """An axis from one moment to another, with a margin at both ends so that no point lies on an edge."""
    span = max(high - low, _HOUR)
    low, high = low - 0.02 * span, low + 1.02 * span
    kind, step, _ = next((candidate for candidate in _STEPS if span / candidate[2] <= _MOST_TICKS), _STEPS[-1])
    ticks = tuple(at for at in _ticks(low, high, kind, step) if at >= low)
    return MomentAxis(low, high, ticks or (low, high))


def _ticks(low: float, high: float, kind: str, step: int) -> Iterator[float]:
    if kind == "months":
        first = datetime.fromtimestamp(low, UTC)
        number = first.year * 12 + first.month - 1
        number -= number % step
        while (at := datetime(number // 12, number % 12 + 1, 1, tzinfo=UTC).timestamp()) <= high:
            yield at
            number += step
        return
    # At the same days and hours wherever the axis begins; weeks begin on a Monday, as the fifth of January 1970.
    distance = step * (_DAY if kind == "days" else _HOUR)
    offset = 4 * _DAY if kind == "days" and step >= 7 else 0.0
    at = offset + distance * math.ceil((low - offset) / distance)
    while at <= high:
        yield at
        at += distance
