"""The headline of a benchmark: the metric that answers its question, over time, in one line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from assay.analyse.headline import headline
from assay.analyse.records import Interval
from assay.documents import adapter
from assay.errors import SpecError
from assay.metrics import Better, base_name
from assay.report.wording import job_label
from assay.serve.state import ServerState
from assay.spec.benchmark import Definition
from assay.spec.load import load
from assay.spec.target import CommandTarget
from assay.store.findings import HeadlineRows, NewestPoint, SeriesName
from assay.store.series import SeriesRecord

MOST = 100
POINTS = 40
_REMEMBERED = 1000


@dataclass(frozen=True, slots=True)
class HeadlinePoint:
    """One result of the headline metric."""

    at: float
    """Seconds since 1970."""
    value: float | None
    """Null where the job failed."""
    standard_error: float | None


@dataclass(frozen=True, slots=True)
class Headline:
    """The metric that answers the question of a benchmark, over time."""

    benchmark: str
    metric: str
    unit: str
    better: Better | None
    series: str
    """Id of the series: of those of this metric the one that had most points when it was last checked."""
    label: str
    """Its point of the matrix in words."""
    points: tuple[HeadlinePoint, ...]
    """The newest 40, the oldest of them first."""
    median: float | None
    """Of the newest result that has one."""
    interval: Interval | None
    """Of that median; null for one run, and where points were imported."""
    verdict: str | None
    """Of that result."""


def headlines(state: ServerState, names: Iterable[str]) -> tuple[Headline, ...]:
    """The headlines of benchmarks, in the order asked; one that has no series has none."""
    rows = HeadlineRows(state.kept.store.engine)
    wanted = tuple(dict.fromkeys(names))
    by_benchmark: dict[str, list[SeriesName]] = {}
    for one in rows.names(wanted):
        by_benchmark.setdefault(one.benchmark, []).append(one)
    definitions = _definitions(state, rows, tuple(by_benchmark))
    chosen = {name: _metric(definitions.get(name), found) for name, found in by_benchmark.items()}
    series = rows.longest(list(chosen.items()))
    newest = rows.newest([one.id for one in series.values()], POINTS)
    results = rows.metrics(_speaking(points) for points in newest.values())
    return tuple(_headline(series[name], newest[series[name].id], results) for name in wanted if name in series)


def _definitions(state: ServerState, rows: HeadlineRows, names: Sequence[str]) -> dict[str, Definition | None]:
    """What the newest campaign of each benchmark measures; a campaign never changes, so it is read once."""
    newest = rows.newest_campaigns(names)
    known = state.definitions
    if len(known) > _REMEMBERED:
        known.clear()
    for campaign, document in rows.documents([one for one in newest.values() if one not in known]).items():
        known[campaign] = _definition(document)
    return {name: known.get(campaign) for name, campaign in newest.items()}


def _definition(document: Mapping[str, JsonValue]) -> Definition | None:
    try:
        return load(document, base=Path()).benchmark
    except SpecError:  # written by another version
        return None


def _metric(definition: Definition | None, found: Sequence[SeriesName]) -> str:
    """The metric that speaks for a benchmark, of those that it has series of."""
    names = {one.metric: one.checked for one in sorted(found, key=lambda one: one.metric)}
    if definition is None:
        return max(names, key=lambda name: names[name])
    first = headline(definition, sorted(names, key=lambda name: _declared(definition, name)))[:1]
    return first[0] if first else max(names, key=lambda name: names[name])


def _declared(definition: Definition, name: str) -> int:
    """Where in a file a metric of a program stands; after all others where it does not."""
    target = definition.target
    declared = [pattern.name for pattern in target.metrics] if isinstance(target, CommandTarget) else []
    return declared.index(base_name(name)) if base_name(name) in declared else len(declared)


def _speaking(points: Sequence[NewestPoint]) -> str | None:
    """The job whose result is the newest that has a number."""
    return next((one.job for one in reversed(points) if one.value is not None), None)


def _headline(series: SeriesRecord, points: Sequence[NewestPoint], results: Mapping[str, str]) -> Headline:
    last = next((one for one in reversed(points) if one.value is not None), None)
    job = last.job if last else None
    return Headline(
        benchmark=series.benchmark,
        metric=series.metric,
        unit=series.unit,
        better=series.better,
        series=series.id,
        label=job_label(series.point, {}),
        points=tuple(HeadlinePoint(one.at, one.value, one.standard_error) for one in points),
        median=last.value if last else None,
        interval=_interval(results.get(job, ""), series.metric) if job else None,
        verdict=(last.verdict or None) if last else None,
    )


def _interval(metrics: str, name: str) -> Interval | None:
    found = json.loads(metrics).get(name) if metrics else None
    told = found.get("interval") if isinstance(found, dict) else None
    return adapter(Interval).validate_python(told) if told else None
