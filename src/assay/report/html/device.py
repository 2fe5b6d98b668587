"""Pictures of what the hardware itself can do: bandwidth over size with its plateau, arithmetic over shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from assay.analyse.records import MultiRunJobResult
from assay.report.device import By, DeviceTest, curve_unit, device_tests, is_device, show_size
from assay.report.html.axis import Axis, axis_for
from assay.report.html.chart import Numbers, Picture, label
from assay.report.html.markup import Markup
from assay.report.html.plots import HEIGHT, Plane, PlotPoint
from assay.report.numbers import show

_TRANSFERS = ("to_device", "from_device")
_MOST_TICKS = 5
_ROOM = 0.2  # of the axis, for the names at the right
_NAME_PX = 14.0  # between two names
_KINDS = ("trace thick", "trace thick second", "trace thick third")
_ACROSS = {"bytes": "bytes of one array", "n": "side of the square matrices", "cores": "cores"}


class _SizeAxis(Axis):
    """Sizes on a scale on which each doubling takes the same room."""

    __slots__ = ()

    def label(self, tick: float) -> str:
        """A power of two as people write it."""
        for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
            if tick >= scale:
                return f"{tick / scale:g} {unit}"
        return f"{tick:g} B"


class _CountAxis(Axis):
    """Sides of matrices or numbers of cores on such a scale."""

    __slots__ = ()

    def label(self, tick: float) -> str:
        return f"{tick:g}"


def draw_device(job: MultiRunJobResult) -> list[Picture]:
    """The curves of a device: memory, transfers, arithmetic by precision, scaling over cores."""
    if not is_device(job):
        return []
    curves = [test for test in device_tests(job) if len(test.curve) > 1]
    moved = [test for test in curves if test.by == "bytes"]
    groups = {
        "Memory bandwidth over size": [test for test in moved if not test.metric.startswith(_TRANSFERS)],
        "Transfers over size": [test for test in moved if test.metric.startswith(_TRANSFERS)],
        "Arithmetic over shape, by precision": [test for test in curves if test.by == "n"],
        "Scaling over cores": [test for test in curves if test.by == "cores"],
    }
    return [_draw(title, tests, job.successful_runs) for title, tests in groups.items() if tests]


def _draw(title: str, tests: Sequence[DeviceTest], runs: int) -> Picture:
    by = tests[0].by
    across = size_axis([point.size for test in tests for point in test.curve], by)
    ends = [end for test in tests for point in test.curve for end in (point.low, point.high)]
    up = axis_for(ends, zero=True, may_log=True)
    units = " or ".join(dict.fromkeys(curve_unit(test) for test in tests))
    told = "; ".join(_told(test) for test in tests)
    plane = Plane(title, told, across, _ACROSS[by], up, units)
    drawn = [_plateau(plane, test) for test in tests]
    for place, test in enumerate(tests):
        drawn.append(plane.line([(one.size, one.value) for one in test.curve], _KINDS[place % len(_KINDS)]))
        drawn.append(
            plane.points(
                PlotPoint(one.size, one.value, _kind(test, one.size), y_ends=(one.low, one.high)) for one in test.curve
            )
        )
    svg = plane.draw(*drawn, *_names(plane, tests))
    key = f"device:{title.partition(' over')[0].lower()}"
    return Picture(key, "device", title, svg, _caption(tests, runs), partial(_numbers, tests), wide=True)


def _numbers(tests: Sequence[DeviceTest]) -> Numbers:
    rows = [
        (
            test.name,
            point.size,
            _ACROSS[test.by],
            point.value,
            point.low,
            point.high,
            curve_unit(test),
            "yes" if point.size in test.reported else "no",
        )
        for test in tests
        for point in test.curve
    ]
    return Numbers.of(("test", "size", "size is", "value", "low", "high", "unit", "reported"), rows)


def size_axis(sizes: Sequence[float], by: By) -> Axis:
    """A logarithmic axis with powers of two on it, and room for names at its right."""
    low, high = min(sizes), max(sizes)
    high = high * 2 if high <= low else high
    first, last = math.ceil(math.log2(low) - 1e-9), math.floor(math.log2(high) + 1e-9)
    step = max(1, math.ceil((last - first) / _MOST_TICKS))
    ticks = tuple(2.0**power for power in range(first, last + 1, step)) or (low, high)
    end = low * (high / low) ** (1 / (1 - _ROOM))
    return (_SizeAxis if by == "bytes" else _CountAxis)(min(low, ticks[0]), end, ticks, log=True)


def _kind(test: DeviceTest, size: float) -> str:
    """The size that is reported is drawn full, the others open."""
    return "valid" if size in test.reported else "tail"


def _plateau(plane: Plane, test: DeviceTest) -> Markup | None:
    level = [point for point in test.curve if point.size in test.plateau]
    if len(level) < 2:
        return None
    highest = max(point.high for point in level)
    lowest = min(*(point.low for point in level), (1 - test.within) * max(point.value for point in level))
    return plane.box(level[0].size, level[-1].size, lowest, highest)


def _names(plane: Plane, tests: Sequence[DeviceTest]) -> list[Markup]:
    """Each test's name at the end of its line, moved apart where lines end close together."""
    wanted = sorted((plane.y(test.curve[-1].value), test.name) for test in tests)
    places: list[float] = []
    for y, _ in wanted:
        places.append(max(y, places[-1] + _NAME_PX) if places else y)
    over = places[-1] - (HEIGHT - 2) if places else 0.0
    if over > 0:  # the last ones would leave the picture: all move up as far as they must
        ceiling = HEIGHT - 2.0
        for place in range(len(places) - 1, -1, -1):
            places[place] = min(places[place], ceiling)
            ceiling = places[place] - _NAME_PX
    return [label(name, "100%", y + 4, "tick end") for y, (_, name) in zip(places, wanted, strict=True)]


def _told(test: DeviceTest) -> str:
    best = max(test.curve, key=lambda point: point.value)
    return f"{test.name}: {show(best.value)} {curve_unit(test)} at {show_size(best.size, test.by)} at most"


def _caption(tests: Sequence[DeviceTest], runs: int) -> str:
    spread = "from the lowest to the highest run" if runs > 1 else "the spread of the blocks of the one run"
    parts = [f"Each dot is the median of a size, its whisker {spread}. A full dot is the size that is reported."]
    if any(len(test.plateau) > 1 for test in tests):
        within = max(test.within for test in tests)
        parts.append(f"A band is the plateau: sizes beyond the caches, all within {within:.0%} of the best of them.")
    left = [note for test in tests for note in test.notes if "no plateau" in note]
    parts += [f"{note}." for note in left]
    return " ".join(parts)
