"""Pictures with two axes: points with their doubt, lines between them, limits across."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from assay.report.html.axis import Axis
from assay.report.html.chart import Chart, curve, label, line
from assay.report.html.markup import Child, Markup, el, join
from assay.report.html.rows import marker

HEIGHT = 250


@dataclass(frozen=True, slots=True)
class Point:
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
        chart = Chart(self.title, self.description, self.across, self.across_title, HEIGHT, left=_room(self.up), top=26)
        log = " (logarithmic)" if self.up.log else ""
        name = label(f"{self.up_title}{log}", "0%", -10, "axis")
        return chart.draw(self._levels(), name, *content)

    def y(self, value: float) -> float:
        """Where a value lies, in pixels from the top."""
        return HEIGHT * (1 - self.up.share(value))

    def line(self, points: Sequence[tuple[float, float]], class_: str) -> Markup:
        """A line through points, in their order."""
        shares = [(self.across.share(x), self.up.share(y)) for x, y in points]
        return curve(shares, 0, HEIGHT, class_) if len(shares) > 1 else Markup()

    def points(self, points: Iterable[Point]) -> Markup:
        return join(self._point(one) for one in points)

    def limit(self, value: float, told: str) -> Markup:
        """A horizontal line that must not be passed, with what it is."""
        y = self.y(value)
        return join((line("0%", "100%", y, y, "limit"), label(told, "100%", y - 5, "tick end")))

    def band(self, low: float, high: float, told: str) -> Markup:
        """An upright band between two values of the horizontal axis, with what it is."""
        left, right = self.across.share(low), self.across.share(high)
        width = f"{max(100 * (right - left), 0.4):.2f}%"
        box = el("rect", x=self.across.percent(low), width=width, y=0, height=HEIGHT, class_="band")
        anchor = "end" if left > 0.5 else ""
        return join((box, label(told, self.across.percent(low if left > 0.5 else high), 14, f"tick {anchor}".strip())))

    def box(self, left: float, right: float, low: float, high: float) -> Markup:
        """A band between two values of each axis, never thinner than can be seen."""
        width = f"{max(100 * (self.across.share(right) - self.across.share(left)), 0.4):.2f}%"
        top, bottom = self.y(high), self.y(low)
        thick = max(bottom - top, 4.0)
        y = (top + bottom - thick) / 2
        return el("rect", x=self.across.percent(left), width=width, y=y, height=thick, class_="band")

    def _levels(self) -> Markup:
        parts: list[Markup] = []
        for tick in self.up.ticks:
            y = self.y(tick)
            parts += [
                line("0%", "100%", y, y, "level"),
                el("text", self.up.label(tick), x=-6, y=y + 4, class_="tick end"),
            ]
        return join(parts)

    def _point(self, one: Point) -> Markup:
        x, y = self.across.percent(one.x), self.y(one.y)
        upright = line(x, x, self.y(one.y_ends[0]), self.y(one.y_ends[1]), "whisker") if one.y_ends else None
        level = None
        if one.x_ends:
            level = line(self.across.percent(one.x_ends[0]), self.across.percent(one.x_ends[1]), y, y, "whisker")
        name = None
        if one.name:
            end = self.across.share(one.x) > 0.7
            name = el(
                "svg",
                label(one.name, "0", -9, "tick end" if end else "tick"),
                x=x,
                y=y,
                width=1,
                height=1,
                overflow="visible",
            )
        content = (upright, level, marker(x, y, one.kind), name)
        return el("a", *content, href=one.href) if one.href else el("g", *content)


def _room(axis: Axis) -> int:
    """Pixels that the labels of an upright axis take."""
    return 14 + 7 * max((len(axis.label(tick)) for tick in axis.ticks), default=2)
