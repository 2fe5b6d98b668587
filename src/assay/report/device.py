"""What the hardware itself can do: one line for each test of a device, with the state that it was measured in."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean, median
from typing import Literal, cast

from pydantic import JsonValue

from assay.analyse.records import MultiRunJobResult
from assay.metrics import describe
from assay.report.numbers import NOTHING, show_percent, show_statistics
from assay.report.sheet import Sheet, without_empty
from assay.report.telemetry import show_value, telemetry_of, unit_of, whose
from assay.report.wording import as_mappings, as_number, headline_of, one_line, section
from assay.run.records import SingleRunResult
from assay.units import show_bytes

By = Literal["bytes", "n", "cores"]
_BY: tuple[By, ...] = ("bytes", "n", "cores")
# Column of the table → the reading that it shows, of a GPU and of a processor.
_DURING = {"clock": ("sm_mhz", "cpu_mhz"), "temperature": ("temperature_c",), "power": ("power_w",)}


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One size of a test, over the runs."""

    size: float
    value: float
    """The median of the runs."""
    low: float
    high: float
    """From the lowest to the highest run; of one run, as far as its blocks spread."""


@dataclass(frozen=True, slots=True)
class DeviceTest:
    """One test of a device, over all good runs of a job."""

    name: str
    metric: str
    unit: str
    by: By
    """What its sizes are: bytes of an array, the side of a matrix, or cores."""
    curve: tuple[CurvePoint, ...]
    reported: tuple[float, ...]
    """The sizes that speak for it; runs may differ."""
    plateau: tuple[float, ...]
    """The sizes between which the curve is level; empty where it is nowhere."""
    within: float
    """How far from the best of them the others may be, as a share of it."""
    notes: tuple[str, ...]
    """What is missing or wrong, in words."""
    bare: tuple[float, float, float] | None
    """Share of a bare loop of the device's own library, with the ends of its interval."""


def curve_unit(test: DeviceTest) -> str:
    """The unit of a test's curve: over cores it is what all of them did, and the metric is a share of that."""
    return describe("fp32_tflops").unit if test.by == "cores" else test.unit


def is_device(job: MultiRunJobResult) -> bool:
    return is_device_target(section(job.definition, "target"))


def is_device_target(target: Mapping[str, JsonValue]) -> bool:
    return "device" in target and not set(target) & {"model", "service", "endpoint", "library", "command"}


def device_tests(job: MultiRunJobResult) -> list[DeviceTest]:
    runs = [run for run in job.runs if run.error is None]
    by_test: dict[str, list[tuple[SingleRunResult, Mapping[str, JsonValue]]]] = {}
    for run in runs:
        for name, facts in section(run.facts, "tests").items():
            if isinstance(facts, dict):
                by_test.setdefault(name, []).append((run, facts))
    return [_test(name, pairs) for name, pairs in by_test.items()]


def _test(name: str, records: list[tuple[SingleRunResult, Mapping[str, JsonValue]]]) -> DeviceTest:
    facts = [fact for _, fact in records]
    metric = next((str(fact["metric"]) for fact in facts if fact.get("metric")), name)
    by: By = next((key for key in _BY for fact in facts for point in _points(fact) if key in point), _BY[0])
    spoken = [section(fact, "reported") or (section(fact, "best") if not fact.get("absent") else {}) for fact in facts]
    reported = [size for figures in spoken if (size := _number(figures.get(by)))]
    plateau = sorted({size for fact in facts for size in _numbers(section(fact, "plateau").get(by))})
    versus = [share for run, _ in records if (share := _versus(run, name, metric))]
    return DeviceTest(
        one_line(name),
        metric,
        describe(metric).unit,
        by,
        _curve(facts, by),
        tuple(dict.fromkeys(reported)),
        tuple(plateau),
        max((_number(section(fact, "plateau").get("within")) or 0.0 for fact in facts), default=0.0),
        tuple(dict.fromkeys(note for fact in facts for note in _notes(name, fact))),
        cast("tuple[float, float, float]", tuple(map(median, zip(*versus, strict=True)))) if versus else None,
    )


def _curve(facts: Iterable[Mapping[str, JsonValue]], by: By) -> tuple[CurvePoint, ...]:
    by_size: dict[float, list[tuple[float, float]]] = {}
    for fact in facts:
        for point in _points(fact):
            size, value = _number(point.get(by)), _number(point.get("value"))
            if size and value is not None:
                by_size.setdefault(size, []).append((value, _number(point.get("spread")) or 0.0))
    return tuple(_curve_point(size, by_size[size]) for size in sorted(by_size))


def _curve_point(size: float, measured: list[tuple[float, float]]) -> CurvePoint:
    values = [value for value, _ in measured]
    if len(values) > 1:
        return CurvePoint(size, median(values), min(values), max(values))
    value, spread = measured[0]
    return CurvePoint(size, value, value * (1 - spread / 2), value * (1 + spread / 2))


def _notes(name: str, facts: Mapping[str, JsonValue]) -> list[str]:
    """Why a test has no value, why its curve has no plateau, and which sizes were left out."""
    notes = []
    if facts.get("absent"):
        notes.append(f"{name}: not measured: {facts['absent']}")
    elif why := section(facts, "plateau").get("absent"):
        notes.append(f"{name}: no plateau: {why}")
    reasons: dict[str, list[str]] = {}
    for size, reason in section(facts, "left_out").items():
        reasons.setdefault(str(reason), []).append(size)
    notes += [f"{name}: left out {', '.join(sizes)}: {reason}" for reason, sizes in reasons.items()]
    return [one_line(note) for note in notes]


def _versus(run: SingleRunResult, name: str, metric: str) -> tuple[float, float, float] | None:
    bare = section(run.facts, "bare")
    comparison = section(bare, name) or section(bare, metric)
    ratio, low, high = (_number(comparison.get(key)) for key in ("ratio", "low", "high"))
    return None if ratio is None else (ratio, low if low is not None else ratio, high if high is not None else ratio)


def device_sheet(job: MultiRunJobResult) -> Sheet | None:
    """One line for each test of a device: its value, where it was reached, and the state of the device meanwhile."""
    if job.state != "done" or not is_device(job):
        return None
    tests = device_tests(job)
    rows = [_row(job, test) for test in tests]
    # What tests give beside their own metric, such as the scaling over cores.
    covered = {test.metric for test in tests}
    rows += [
        _plain_row(job, name)
        for name in (*headline_of(job), "core_scaling")
        if name in job.metrics and name not in covered
    ]
    if not rows:
        return None
    head = ("test", "value", "interval", "±", "unit", "at", "of the bare loop", *_DURING, "throttled")
    notes = tuple(note for test in tests for note in test.notes)
    sheet = Sheet("Device tests", head, tuple(rows), notes, frozenset({0, 4, 10}), (0, 1, 2, 4))
    return without_empty(sheet)


def _row(job: MultiRunJobResult, test: DeviceTest) -> tuple[str, ...]:
    spans = [span for seen in telemetry_of(job).values() if (span := seen.spans.get(test.name))]
    share = NOTHING
    if test.bare:
        ratio, low, high = test.bare
        share = f"{show_percent(ratio)} [{100 * low:.1f}, {100 * high:.1f}]"
    sizes = ", ".join(show_size(size, test.by) for size in test.reported)
    return (
        test.name,
        *_numbers_of(job, test.metric),
        test.unit or NOTHING,
        sizes or NOTHING,
        share,
        *(_during(spans, readings, job) for readings in _DURING.values()),
        _throttled(spans),
    )


def _plain_row(job: MultiRunJobResult, name: str) -> tuple[str, ...]:
    unit = job.metrics[name].unit
    return (one_line(name), *_numbers_of(job, name), unit or NOTHING, *[NOTHING] * (3 + len(_DURING)))


def _numbers_of(job: MultiRunJobResult, metric: str) -> tuple[str, str, str]:
    stats = job.metrics.get(metric)
    if stats is None:
        return NOTHING, NOTHING, NOTHING
    shown = show_statistics(stats, metric)
    return shown.median, shown.interval, shown.spread


def show_size(size: float, by: By) -> str:
    """A size of a test as people write it: `256.0 MiB`, `8192²`, `16 cores`."""
    if by == "bytes":
        return show_bytes(size)
    return f"{size:g}²" if by == "n" else f"{size:g} core{'' if size == 1 else 's'}"


def _during(spans: list[Mapping[str, JsonValue]], readings: tuple[str, ...], job: MultiRunJobResult) -> str:
    """The mean of a reading during a test, over the runs."""
    means: dict[str, list[float]] = {}
    for span in spans:
        for series, figures in section(span, "statistics").items():
            mean = _number(figures.get("mean")) if isinstance(figures, dict) else None
            if series.rpartition(".")[2] in readings and mean is not None:
                means.setdefault(series.rpartition(".")[0], []).append(mean)
    chosen = _sources(list(means), job)
    mean = sum(fmean(means[source]) for source in chosen)
    return show_value(mean, unit_of(readings[0])) if chosen else NOTHING


def _sources(sources: list[str], job: MultiRunJobResult) -> list[str]:
    """The names of a job's device in its telemetry: `cuda:1` is `gpu:1`, a processor all its packages."""
    kind, _, number = str(section(job.definition, "target").get("device", "")).partition(":")
    boards = [source for source in sources if source.startswith("gpu:")]
    if kind != "cpu":
        return [source for source in boards if source == f"gpu:{number or 0}"] or boards[:1]
    packages = [source for source in sources if source.startswith("rapl:package") and not source.endswith("dram")]
    return packages or [source for source in sources if source not in boards][:1]


def _throttled(spans: list[Mapping[str, JsonValue]]) -> str:
    """Why a device held its clocks down during a test; `no` where it was looked at and did not."""
    if not any(section(span, "throttled") for span in spans):
        return NOTHING
    throttled: dict[str, None] = {}
    for span in spans:
        for device, reasons in section(span, "throttled").items():
            listed = reasons if isinstance(reasons, list | tuple) else ()
            throttled |= {f"{whose(device)}: {reason}": None for reason in listed}
    return one_line("; ".join(throttled)) or "no"


def _points(facts: Mapping[str, JsonValue]) -> list[Mapping[str, JsonValue]]:
    return as_mappings(facts.get("curve"))


def _numbers(value: JsonValue) -> list[float]:
    return (
        [number for entry in value if (number := _number(entry)) is not None] if isinstance(value, list | tuple) else []
    )


def _number(value: JsonValue) -> float | None:
    number = as_number(value)
    return number if number is not None and math.isfinite(number) else None
