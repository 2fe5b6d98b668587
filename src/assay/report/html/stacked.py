"""Panels below each other on one axis of time: their levels, names and legends, and boxes for phases above them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from assay.analyse.records import MultiRunJobResult
from assay.errors import AssayError
from assay.report.html.chart import Axis, Markup, el, join, label
from assay.units import show_seconds

Files = Callable[[str, int, str], bytes | None]
"""Reads a file that a run left, by job, run and name; None where there is none."""
Read = TypeVar("Read")
MOST_LINES = 3  # more cannot be distinguished in a panel of this height
PANEL = 56
GAP = 30  # between two panels, with the title of the lower one in it
STRIP = 18  # height of a row of names above the panels
NARROWEST_PX = 320.0  # of the picture, on a phone
LETTER_PX = 6.4
_DASHES = ("──", "╌╌", "┈┈")


def readable_files(
    job: MultiRunJobResult, runs: Iterable[int], files: Files, name: str, read: Callable[[bytes], Read], most: int
) -> dict[int, Read]:
    """Run → what a file of it says, for the first runs that left something readable."""
    readings: dict[int, Read] = {}
    for run in runs:
        if len(readings) == most:
            break
        try:
            content = files(job.job, run, name)
            if content is not None:
                readings[run] = read(content)
        except (AssayError, OSError):
            continue  # a lost file costs its lines, never the report
    return readings


def titles(title: str, names: Sequence[str], top: float) -> tuple[Markup, Markup]:
    """What a panel shows at its left, and which line is whose at its right."""
    legend = names[0] if len(names) == 1 else "  ".join(map(" ".join, zip(names, _DASHES, strict=False)))
    return label(title, "0%", top - 7, "tick"), label(legend, "100%", top - 7, "tick end")


def fits(across: Axis, name: str, begin: float, end: float) -> bool:
    """Whether a name has room on its box, on a phone too."""
    return (across.share(end) - across.share(begin)) * NARROWEST_PX >= len(name) * LETTER_PX


def box(across: Axis, name: str, begin: float, end: float, y: float, class_: str) -> Markup:
    """A stretch of time, with its name as a tooltip."""
    width = f"{max(100 * (across.share(end) - across.share(begin)), 0.15):.2f}%"
    title = el("title", f"{name}, {show_seconds(max(end - begin, 0.0))}")
    return el("rect", title, x=across.percent(begin), width=width, y=y, height=STRIP - 3, class_=class_)


def phase(across: Axis, name: str, begin: float, end: float, y: float) -> Markup:
    """A phase with its name on it where there is room."""
    middle = f"{50 * (across.share(begin) + across.share(end)):.2f}%"
    named = label(name, middle, y + 11.5, "tick middle") if fits(across, name, begin, end) else None
    return join((box(across, name, begin, end, y, "phase"), named))
