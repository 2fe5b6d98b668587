"""Every change of one series, with its size, how sure it is, and whether it is for the better."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from assay.analyse.intervals import LEVEL as CONFIDENCE
from assay.analyse.records import Answer, Interval
from assay.analyse.series.records import (
    LEVEL,
    Finding,
    FindingKind,
    Series,
    SeriesKind,
    SeriesReport,
    direction_of,
    probability_of,
)
from assay.analyse.series.scan import FEWEST, another_level
from assay.analyse.series.search import (
    SHORTEST,
    ChangeSearch,
    ChangeSize,
    LocatedChange,
    SeriesDrift,
    drift_instead,
    search,
    step_size,
)
from assay.analyse.series.spread import (
    CLIP,
    Burst,
    bursts,
    median,
    middle_and_spread,
    noise_weights,
    outliers,
    relative_spreads,
)
from assay.analyse.series.whitening import Places, Values, Whitened, evidence_memory

# This many steps in a row may be one drift.
_LONGEST_ROW = 6
# Larger numbers cannot be squared; they count as missing, like NaN and infinity. Smaller ones count as zero.
_LARGEST = 1e140
_SMALLEST = 1e-140
# So far from a change a point may be without standing alone.
_ASIDE = 3


@dataclass(frozen=True, slots=True)
class SeriesPoints:
    """The points of a series that have a value, and how much each counts."""

    index: Places
    """Their place in the series."""
    values: Values
    weights: Values
    bursts: tuple[Burst, ...]


def detect(series: Series, level: float = LEVEL) -> SeriesReport:
    """Find the changes of a series."""
    points = points_of(series)
    count = points.values.size
    missing = series.values.size - count
    if count < FEWEST:
        return SeriesReport((), "too short", None, None, None, 1.0, level, count, missing, name=series.name)
    if not middle_and_spread(points.values)[1]:
        return SeriesReport((), "constant", 0.0, 0.0, None, 1.0, level, count, missing, name=series.name)
    values = points.values
    search_result = search(values, points.weights, level)
    points = replace(points, values=search_result.flat, weights=search_result.weights)
    lifted = values - search_result.flat
    spread, memory = _noise(points, search_result.changes)
    changes = _findings(series, points, search_result, lifted, memory)
    drifts = (_drift(series, points, drift.drift, drift.chance, drift.before) for drift in search_result.drifts)
    findings = tuple(sorted([*changes, *drifts], key=lambda finding: finding.index))
    # Points beside a change are far from what was usual for another reason.
    near = {change.place + aside for change in search_result.changes for aside in range(-_ASIDE, _ASIDE + 1)}
    newest = abs(findings[-1].after if findings else median(points.values))
    return SeriesReport(
        findings=findings,
        kind=_kind(findings, points.bursts),
        spread=spread,
        relative_spread=spread / newest if newest else None,
        correlation=memory,
        chance=min([search_result.chance, *(finding.chance for finding in findings)]),
        level=level,
        points=count,
        missing=missing,
        outliers=tuple(
            int(points.index[place]) for place in outliers(points.values, points.weights) if place not in near
        ),
        bursts=tuple(
            Burst(int(points.index[burst.first]), int(points.index[burst.last]), burst.factor)
            for burst in points.bursts
        ),
        name=series.name,
    )


def points_of(series: Series) -> SeriesPoints:
    """Leave out what is missing, and weigh the rest by its own error and by the noise of its time."""
    index = np.flatnonzero(np.abs(series.values) <= _LARGEST)
    values = np.where(np.abs(series.values[index]) < _SMALLEST, 0.0, series.values[index])
    errors = None if series.standard_errors is None else series.standard_errors[index]
    weights = 1 / relative_spreads(values, errors)
    # A level that is louder is no time of noise: it must not count less before it was looked at.
    loud = tuple(burst for burst in bursts(values, weights) if not another_level(values, burst))
    return SeriesPoints(index, values, weights * noise_weights(values.size, loud), loud)


def _findings(
    series: Series, points: SeriesPoints, changes: ChangeSearch, lifted: Values, memory: float
) -> Iterator[Finding]:
    """Each change as a step, or those of one direction in a row as a drift."""
    edges = [0, *(change.place for change in changes.changes), points.values.size]
    sizes = [
        step_size(
            points.values,
            points.weights,
            (edges[number], change.place, edges[number + 2]),
            memory,
            CONFIDENCE,
            apart=change.apart,
        )
        for number, change in enumerate(changes.changes)
    ]
    number = 0
    while number < len(sizes):
        end, slow = _drift_from(points, edges, sizes, number)
        if slow is None:
            size = sizes[number]
            at = (int(points.index[size.place - 1]), int(points.index[size.place]))
            # After an outage the change may have come at any time of it.
            within = (int(points.index[size.first - 1]) + 1, int(points.index[size.last]))
            moved = (size.before + float(lifted[size.place - 1]), size.difference, size.low, size.high)
            yield _finding(series, "step", at, within, moved, changes.changes[number].chance)
        else:
            chance = min(located.chance for located in changes.changes[number:end])
            head = points.values[edges[number] : slow.first + 1]
            level = median(head) if head.size else sizes[number].before
            yield _drift(series, points, slow, chance, level + float(lifted[slow.first]))
        number = end


def _drift_from(
    points: SeriesPoints, edges: Sequence[int], sizes: Sequence[ChangeSize], begin: int
) -> tuple[int, SeriesDrift | None]:
    """The longest row of changes from `begin` on that is one drift, and where it ends; else the next change."""
    up = sizes[begin].difference > 0
    end = begin + 1
    while end < len(sizes) and end - begin < _LONGEST_ROW and (sizes[end].difference > 0) == up:
        end += 1
    for last in range(end, begin, -1):
        row = sizes[begin:last]
        # A change whose place is sharp is a step, and so is one of level and noise.
        if any(size.apart for size in row) or all(size.last - size.first < SHORTEST - (len(row) > 1) for size in row):
            continue
        places = edges[begin + 1 : last + 1]
        slow = drift_instead(points.values, points.weights, (edges[begin], edges[last + 1]), places, CONFIDENCE)
        if slow is not None:
            return last, slow
    return begin + 1, None


def _drift(series: Series, points: SeriesPoints, slow: SeriesDrift, chance: float, before: float) -> Finding:
    begin = min(slow.first, points.values.size - 2)
    at = (int(points.index[begin]), int(points.index[begin + 1]))
    within = (at[1], int(points.index[slow.last]))
    return _finding(series, "drift", at, within, (before, slow.difference, slow.low, slow.high), chance)


def _finding(
    series: Series,
    kind: FindingKind,
    at: tuple[int, int],
    within: tuple[int, int],
    moved: tuple[float, float, float, float],
    chance: float,
) -> Finding:
    before, difference, low, high = moved
    base = abs(before)
    method = f"likelihood of the {kind}, with the memory of the series"
    answer, because = _answer(series, difference, low, high)
    return Finding(
        kind=kind,
        index=at[1],
        last_good=at[0],
        first_bad=at[1],
        range=within,
        before=before,
        after=before + difference,
        difference=difference,
        difference_interval=Interval(low, high, CONFIDENCE, method),
        change=difference / base if base else None,
        interval=Interval(low / base, high / base, CONFIDENCE, method) if base else None,
        chance=chance,
        probability=probability_of(chance),
        direction=direction_of(difference, series.better),
        answer=answer,
        because=because,
        last_good_label=series.label(at[0]),
        first_bad_label=series.label(at[1]),
    )


def _answer(series: Series, difference: float, low: float, high: float) -> tuple[Answer, tuple[str, ...]]:
    if low <= 0 <= high:
        return "cannot tell", ("the interval of the change reaches over zero",)
    direction = direction_of(difference, series.better)
    if direction == "unknown":
        return "cannot tell", ("it is unknown whether lower or higher is better",)
    return direction, ()


def _noise(points: SeriesPoints, changes: Sequence[LocatedChange]) -> tuple[float, float]:
    """The spread around the levels, and its memory."""
    parts = np.split(points.values, [change.place for change in changes])
    away = np.concatenate([part - median(part) for part in parts]) * points.weights
    spread = middle_and_spread(away)[1]
    if not spread:
        return 0.0, 0.0
    return spread, evidence_memory(Whitened.of(np.clip(away / spread, -CLIP, CLIP), np.ones(away.size)))


def _kind(findings: Sequence[Finding], loud: Sequence[Burst]) -> SeriesKind:
    if any(finding.kind == "drift" for finding in findings):
        return "drifting"
    if findings:
        return "stepped"
    return "noisy" if loud else "steady"
