"""Which pictures a job gets, the samples they are drawn from, and the curves of a device over size and shape."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import numpy as np

from assay.analyse.headline import centre_of, is_quality
from assay.analyse.records import CampaignRecord, MetricStatistics, MultiRunJobResult
from assay.errors import AssayError
from assay.metrics import METRICS, base_name
from assay.report.device import By, DeviceTest, curve_unit, device_tests, is_device, show_size
from assay.report.html.chart import Axis, Group, Legend, Markup, Numbers, Picture, axis_for, label
from assay.report.html.load import draw_curves, draw_search, draw_tail, limits_of
from assay.report.html.monitoring import draw_monitoring
from assay.report.html.plots import HEIGHT, Plane, PlotPoint, PlotRow, draw_rows, numbers_of
from assay.report.html.samples import SampleTrace, Values, draw_distribution, draw_timeline
from assay.report.html.stacked import Files
from assay.report.html.telemetry import draw_telemetry
from assay.report.numbers import decimals_of, show, show_statistics
from assay.report.served import is_served
from assay.report.sheet import shorten
from assay.report.wording import headline_of, one_line, verdict_word
from assay.run.records import SampleSet, SingleRunResult

Samples = Callable[[str, int], tuple[SampleSet, ...]]
Sets = Mapping[int, tuple[SampleSet, ...]]

_MOST_METRICS = 4  # a program may report dozens; the tables hold them all
_LONGEST_TITLE = 42
_TAILED = ("ttft_ms", "itl_ms", "e2e_ms", "latency_ms")

_COLD = (
    ("load_ms", True, "Load, first run (nothing warm)"),
    ("load_ms", False, "Load, median of runs"),
    ("first_ms", True, "First call, first run"),
    ("first_ms", False, "First call, median of runs"),
    ("latency_ms", False, "Warm call, median"),
    ("e2e_ms", False, "Warm request, median"),
)
_OVERVIEW = Legend(
    "All jobs",
    "Each dot is a job's median and its whisker the interval from the spread between runs; overlapping intervals do "
    "not separate two jobs. A full dot is valid, an open one suspect, a cross invalid. A dot without a whisker comes "
    "from one run: its uncertainty is unknown.",
)
_COLD_START = Legend(
    "Cold start and warm calls",
    "Dashed: the first run, which found nothing warm. Filled: the median of all runs, each a fresh process. All bars "
    "share one axis from zero; a whisker is the interval from the spread between runs.",
)
_MEMORY_USE = Legend(
    "Memory",
    "Resident memory of the measured process as the kernel's high-water marks; median of the runs, with the interval "
    "from their spread. The first bar is the interpreter and its libraries.",
)
_CURVES = Legend(
    "Device tests",
    "Each dot is the median of a size, its whisker the range from the lowest to the highest run (of one run: the "
    "spread of its blocks). The full dot is the reported size. A band is the plateau: sizes beyond the caches whose "
    "values are all close to the best of them.",
)
_MEMORY = (
    ("baseline_rss_mb", "Before the load"),
    ("peak_load_rss_mb", "Peak while loading"),
    ("peak_run_rss_mb", "Peak while running"),
)


def draw_overview(record: CampaignRecord, labels: Mapping[str, str], anchors: Mapping[str, str]) -> list[Picture]:
    """One picture per headline metric: all jobs on a common axis, with their intervals."""
    groups: dict[str, list[tuple[PlotRow, str]]] = {}
    for job in record.jobs:
        for name in headline_of(job) if job.state == "done" else ():
            row = _overview_row(job, name, labels[job.job], anchors[job.job])
            groups.setdefault(name, []).append((row, job.metrics[name].unit))
    if len(groups) > 1 and all(len(rows) == 1 for rows in groups.values()):
        groups = {}  # one job with many numbers: there is nothing to hold side by side
    rows = [_overview(name, [row for row, _ in rows], rows[0][1]) for name, rows in groups.items()]
    return [*draw_curves(record, labels, anchors), *rows]


def read_samples(job: MultiRunJobResult, samples: Samples) -> Sets:
    """The samples of every run that has some; a file that cannot be read is the same as none."""
    sets: dict[int, tuple[SampleSet, ...]] = {}
    for run in job.runs:
        try:
            sets[run.run_id] = samples(job.job, run.run_id)
        except (AssayError, OSError):
            # The picture then shows the run medians alone; the report must not fail for a lost file.
            sets[run.run_id] = ()
    return sets


def job_pictures(job: MultiRunJobResult, samples: Samples, files: Files) -> list[Picture]:
    """All pictures of a job that was measured: of its samples, and of its telemetry."""
    watched = (draw_telemetry(job, files), draw_monitoring(job, files))
    return [*draw_job(job, read_samples(job, samples)), *(picture for picture in watched if picture is not None)]


def draw_job(job: MultiRunJobResult, sets: Sets) -> list[Picture]:
    # A score is a few fixed steps, and does not move with time: its interval in the tables says all.
    shown = [name for name in headline_of(job) if job.metrics[name].run_values and not is_quality(name)]
    names = shown[:_MOST_METRICS]
    shapes = [
        draw_distribution(n, job.metrics[n], _measured(sets, n), _axis_title(n, job.metrics[n].unit)) for n in names
    ]
    times = [_timeline(job, name, sets) for name in names]
    tailed = [name for name in _TAILED if name in job.metrics] if is_served(job) else []
    tails = [draw_tail(n, job.metrics[n], _measured(sets, n), limits_of(job, n)) for n in tailed]
    searches = draw_search(job)
    pictures = (*draw_device(job), *searches, *shapes, *tails, _cold(job), _memory(job), *times)
    return [picture for picture in pictures if picture is not None]


def _overview_row(job: MultiRunJobResult, name: str, label: str, anchor: str) -> PlotRow:
    stats = job.metrics[name]
    shown = show_statistics(stats, name)
    low, high = (stats.interval.low, stats.interval.high) if stats.interval else (None, None)
    value = f"{shown.median} {shown.spread}"
    return PlotRow(label, value, centre_of(stats, name), low, high, verdict_word(job), f"#{anchor}")


def _overview(name: str, rows: Sequence[PlotRow], unit: str) -> Picture:
    title = f"{name} of all jobs"
    picture = draw_rows(rows, title, _axis_title(name, unit), style="dots")
    numbers = partial(numbers_of, rows, unit)
    return Picture(f"overview:{name}", "other", title, picture, _OVERVIEW, "", numbers, wide=True)


def _axis_title(name: str, unit: str) -> str:
    """What an axis shows, short enough for the narrowest picture: the whole meaning stands in the tables."""
    metric = METRICS.get(base_name(name))
    whole = f"{name}: {metric.meaning.partition(',')[0]}" if metric else name
    title = whole if len(whole) <= _LONGEST_TITLE else shorten(one_line(name), _LONGEST_TITLE)
    return f"{title}, in {unit}" if unit and len(unit) <= 10 else title


def _measured(sets: Sets, name: str) -> dict[int, Values]:
    by_run = {run: _values(parts, name, "measure") for run, parts in sets.items()}
    return {run: values[np.isfinite(values)] for run, values in by_run.items() if values.size}


def _values(parts: Iterable[SampleSet], name: str, phase: str) -> Values:
    return next((part.value for part in parts if part.metric == name and part.phase == phase), np.empty(0))


def _timeline(job: MultiRunJobResult, name: str, sets: Sets) -> Picture | None:
    traces = [trace for run in job.runs if (trace := _trace(run, name, sets.get(run.run_id, ()))) is not None]
    return draw_timeline(name, job.metrics[name].unit, traces) if traces else None


def _trace(run: SingleRunResult, name: str, parts: Sequence[SampleSet]) -> SampleTrace | None:
    by_phase = {part.phase: part for part in parts if part.metric == name}
    measured, warm = by_phase.get("measure"), by_phase.get("warmup")
    if measured is None or measured.value.size < 2:
        return None
    last = float(warm.at_ns[-1]) / 1e9 if warm is not None and warm.at_ns.size else 0.0
    # A search warms up before each of its probes; the samples are of one of them.
    whole = 0.0 if "search" in run.facts else run.phases.get("warmup", 0.0)
    warm_s = max(last, whole) if last else 0.0
    at = np.concatenate([warm.at_ns / 1e9 if warm is not None else [], measured.at_ns / 1e9 + warm_s])
    value = np.concatenate([warm.value if warm is not None else [], measured.value])
    finite = np.isfinite(value)
    return SampleTrace(run.run_id, at[finite], value[finite], warm_s) if finite.sum() > 1 else None


def _cold(job: MultiRunJobResult) -> Picture | None:
    rows = [_cold_row(job, *entry) for entry in _COLD]
    drawn = [row for row in rows if row is not None]
    if len({name for name, *_ in _COLD if name in job.metrics}) < 2 or not drawn:
        return None
    return _bars("cold", "cold", _COLD_START, drawn, "milliseconds")


def _cold_row(job: MultiRunJobResult, name: str, cold: bool, label: str) -> PlotRow | None:
    stats = job.metrics.get(name)
    if stats is None or (cold and name not in job.cold_start):
        return None
    if not cold and stats.runs == 1 and name in job.cold_start:
        return None  # the only run is drawn as the cold one already
    if cold:
        value = job.cold_start[name]
        return PlotRow(label, f"{show(value, decimals_of(stats))} {stats.unit}, once", value, kind="cold")
    return _bar_row(label, stats)


def _memory(job: MultiRunJobResult) -> Picture | None:
    rows = [_bar_row(label, job.metrics[name]) for name, label in _MEMORY if name in job.metrics]
    return _bars("memory", "other", _MEMORY_USE, rows, "megabytes") if rows else None


def _bars(key: str, group: Group, legend: Legend, rows: Sequence[PlotRow], unit: str) -> Picture:
    drawn = draw_rows(rows, legend.kind, unit, style="bars")
    note = "" if any(row.low is not None for row in rows) else "One run has no spread between runs: no whiskers."
    return Picture(key, group, legend.kind, drawn, legend, note, partial(numbers_of, rows, unit))


def _bar_row(label: str, stats: MetricStatistics) -> PlotRow:
    shown = show_statistics(stats)
    low, high = (stats.interval.low, stats.interval.high) if stats.interval else (None, None)
    return PlotRow(label, f"{shown.median} {stats.unit} {shown.spread}", stats.median, low, high, "warm-bar")


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
    return [_draw(title, tests) for title, tests in groups.items() if tests]


def _draw(title: str, tests: Sequence[DeviceTest]) -> Picture:
    by = tests[0].by
    across = size_axis([point.size for test in tests for point in test.curve], by)
    ends = [end for test in tests for point in test.curve for end in (point.low, point.high)]
    up = axis_for(ends, zero=True, may_log=True)
    units = " or ".join(dict.fromkeys(curve_unit(test) for test in tests))
    summary = "; ".join(map(_best_size, tests))
    plane = Plane(title, summary, across, _ACROSS[by], up, units)
    drawn = [_plateau(plane, test) for test in tests]
    for place, test in enumerate(tests):
        drawn.append(plane.line([(spot.size, spot.value) for spot in test.curve], _KINDS[place % len(_KINDS)]))
        drawn.append(
            plane.points(
                PlotPoint(spot.size, spot.value, _kind(test, spot.size), y_ends=(spot.low, spot.high))
                for spot in test.curve
            )
        )
    svg = plane.draw(*drawn, *_names(plane, tests))
    key = f"device:{title.partition(' over')[0].lower()}"
    note = " ".join(f"{note}." for test in tests for note in test.notes if "no plateau" in note)
    return Picture(key, "device", title, svg, _CURVES, note, partial(_numbers, tests), wide=True)


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


def _best_size(test: DeviceTest) -> str:
    best = max(test.curve, key=lambda point: point.value)
    return f"{test.name}: {show(best.value)} {curve_unit(test)} at {show_size(best.size, test.by)} at most"
