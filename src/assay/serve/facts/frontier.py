"""Jobs between two metrics: each as a point with its doubt, and which of them no other one dominates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Literal

from assay.analyse.compare.comparability import unusable_word
from assay.analyse.frontier import FrontierCandidate, frontier
from assay.analyse.intervals import between_runs
from assay.analyse.records import Interval, MetricStatistics
from assay.errors import UsageError
from assay.metrics import Better, describe
from assay.report.telemetry import grade_of, price_of
from assay.report.wording import machine_name
from assay.serve.facts.compare import ComparedSide, ReadResult, ReadSide
from assay.serve.state import ServerStore
from assay.store.prices import PriceRecord, price_for

Per = Literal["", "watt", "dollar"]
_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class FrontierAxis:
    """What one axis of a frontier shows."""

    metric: str
    unit: str
    better: Better | None


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """One job between two metrics."""

    job: str
    campaign: str
    benchmark: str
    label: str
    machine: str
    side: str
    x: float
    x_interval: Interval | None
    y: float
    y_interval: Interval | None
    verdict: str | None
    on_front: bool
    """No other point is at least as good in both and better in one, by the medians."""
    surely: bool
    """It is on the front, and the intervals let no other point beat it."""
    grade: str = ""
    """How far a figure per watt or per price can be believed, and where it comes from."""


@dataclass(frozen=True, slots=True)
class Frontier:
    """Jobs between two metrics, and which of them no other one dominates."""

    x: FrontierAxis
    y: FrontierAxis
    points: tuple[FrontierPoint, ...]
    absent: Mapping[str, str] = field(default_factory=dict)
    """Job that is not drawn → why."""
    metrics: tuple[str, ...] = ()
    """What could be an axis."""
    sides: tuple[ComparedSide, ...] = ()


@dataclass(frozen=True, slots=True)
class _Figure:
    """One number of a point."""

    value: float
    interval: Interval | None
    unit: str
    grade: str = ""
    """How far it can be believed, in words."""
    kind: str = ""
    """What figures must have in common to stand beside each other: the grade of energy, or the money."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    side: str
    read: ReadResult
    x: _Figure
    y: _Figure


def frontier_of(kept: ServerStore, sides: Sequence[ReadSide], x: str, y: str, per: Per) -> Frontier:
    """Hold the jobs of some sides between two metrics."""
    metrics = _directed(sides)
    axes = _axis(x, metrics), _axis(y, metrics)
    if per and axes[1][1] != "higher":
        raise UsageError(
            f"{y} is better when it is lower: per {per} only tells something of what should be high",
            code="axis",
            try_="take throughput_per_s or output_tokens_per_s as y",
        )
    prices = kept.prices.all() if per == "dollar" else ()
    absent: dict[str, str] = {}
    candidates = list(_candidates(sides, x, y, per, prices, absent))
    drawn = _alike(candidates, absent)
    spots = [
        FrontierCandidate(candidate.x.value, candidate.y.value, _ends(candidate.x), _ends(candidate.y))
        for candidate in drawn
    ]
    standing = frontier(spots, axes[0][1], axes[1][1])
    points = [_point(candidate, stand.on_front, stand.surely) for candidate, stand in zip(drawn, standing, strict=True)]
    units = [(candidate.x.unit, candidate.y.unit) for candidate in drawn][:1] or [(axes[0][0], axes[1][0])]
    return Frontier(
        FrontierAxis(x, units[0][0], axes[0][1]),
        FrontierAxis(y, units[0][1], axes[1][1]),
        tuple(points),
        absent,
        tuple(metrics),
        tuple(side.side for side in sides),
    )


def _directed(sides: Sequence[ReadSide]) -> dict[str, tuple[str, Better]]:
    """What can be an axis: metric → its unit and the way in which it is better."""
    axes: dict[str, tuple[str, Better]] = {}
    for side in sides:
        for entry in side.results:
            axes |= {name: (stats.unit, stats.better) for name, stats in entry.result.metrics.items() if stats.better}
    return axes


def _axis(metric: str, known: Mapping[str, tuple[str, Better]]) -> tuple[str, Better]:
    if metric in known:
        return known[metric]
    description = describe(metric)
    if description.better is None:
        raise UsageError(
            f"{metric} is no metric that is better one way or the other",
            code="axis",
            try_=f"use one of {', '.join(list(known)[:8])}" if known else "choose another",
        )
    return description.unit, description.better


def _candidates(
    sides: Sequence[ReadSide], x: str, y: str, per: Per, prices: Sequence[PriceRecord], absent: dict[str, str]
) -> Iterable[_Candidate]:
    """Every job that has both numbers; why others have not is added to `absent`."""
    seen: set[str] = set()
    for side in sides:
        for entry in side.results:
            job = entry.summary.id
            if job in seen:
                continue  # the same result on two sides is one point
            seen.add(job)
            try:
                yield _candidate(side.side.key, entry, x, y, per, prices)
            except LookupError as lacking:
                absent[job] = str(lacking.args[0])


def _candidate(side: str, read: ReadResult, x: str, y: str, per: Per, prices: Sequence[PriceRecord]) -> _Candidate:
    if word := unusable_word(read.result):
        raise LookupError(f"it is {word}")
    across, up = (
        _Figure(stats.median, stats.interval, stats.unit) for stats in (_measured(read, x), _measured(read, y))
    )
    if per == "watt":
        up = _per_watt(read, y)
    if per == "dollar":
        up = _per_price(read, up, prices)
    return _Candidate(side, read, across, up)


def _measured(read: ReadResult, metric: str) -> MetricStatistics:
    stats = read.result.metrics.get(metric)
    if stats is None:
        reason = next((run.absent[metric] for run in read.result.runs if metric in run.absent), "")
        raise LookupError(reason or f"{metric} was not measured")
    return stats


def _per_watt(read: ReadResult, metric: str) -> _Figure:
    """A metric for each watt, run by run: the doubt is that of the ratio."""
    stats, power = _measured(read, metric), _measured(read, "power_w")
    ratios = [value / power.run_values[run] for run, value in stats.run_values.items() if power.run_values.get(run)]
    if not ratios:
        raise LookupError(f"no run has both {metric} and power_w")
    grade = grade_of(read.result)
    # A rate for each watt is the same number for each joule.
    unit = f"{stats.unit.removesuffix('/s')}/J" if stats.unit.endswith("/s") else f"{stats.unit}/W"
    return _Figure(median(ratios), between_runs(ratios), unit, grade, grade)


def _per_price(read: ReadResult, figure: _Figure, prices: Sequence[PriceRecord]) -> _Figure:
    """A metric for the money that the machine costs meanwhile; always an estimate: of the machine alone."""
    per_hour, currency, source = _price(read, prices)
    rate = figure.unit.endswith("/s")
    factor = (_SECONDS if rate else 1.0) / per_hour
    unit = f"{figure.unit.removesuffix('/s')}/{currency}" if rate else f"{figure.unit} per {currency} an hour".strip()
    interval = figure.interval
    scaled = replace(interval, low=interval.low * factor, high=interval.high * factor) if interval else None
    grade = f"estimated: {per_hour:g} {currency} an hour, {source}"
    return _Figure(figure.value * factor, scaled, unit, grade, currency)


def _price(read: ReadResult, prices: Sequence[PriceRecord]) -> tuple[float, str, str]:
    """What an hour of the machine costs, in which money, and who says so: the result itself, else this server."""
    own = price_of(read.result)
    per_hour = own.get("per_hour")
    if isinstance(per_hour, int | float) and per_hour > 0:
        looked_up = f" on {own['date']}" if own.get("date") else ""
        return float(per_hour), str(own.get("currency") or "USD"), f"as its benchmark file says{looked_up}"
    names = [name for name in (machine_name(read.result), read.summary.agent_name) if name]
    price = price_for(prices, names)
    if price is None:
        raise LookupError(f"no price is known of its machine ({' or '.join(names) or 'which is not known either'})")
    return price.per_hour, price.currency, f"as given for {price.machine} on {price.date}"


def _alike(candidates: Sequence[_Candidate], absent: dict[str, str]) -> list[_Candidate]:
    """Those that may stand beside each other: grades of energy never mix, and money is not converted."""
    units = Counter((member.x.unit, member.y.unit, member.y.kind) for member in candidates)
    if len(units) <= 1:
        return list(candidates)
    (x_unit, y_unit, kind), _ = units.most_common(1)[0]
    alike = []
    for candidate in candidates:
        own = (candidate.x.unit, candidate.y.unit, candidate.y.kind)
        if own == (x_unit, y_unit, kind):
            alike.append(candidate)
        elif candidate.y.kind != kind:
            absent[candidate.read.summary.id] = (
                f"its figure is {candidate.y.kind or 'of no grade'}, most are {kind or 'of none'}"
            )
        else:
            absent[candidate.read.summary.id] = f"its units are {own[0]} and {own[1]}, most have {x_unit} and {y_unit}"
    return alike


def _ends(figure: _Figure) -> tuple[float, float] | None:
    return (figure.interval.low, figure.interval.high) if figure.interval else None


def _point(candidate: _Candidate, on_front: bool, certain: bool) -> FrontierPoint:
    job = candidate.read.summary
    return FrontierPoint(
        job=job.id,
        campaign=job.campaign,
        benchmark=job.benchmark,
        label=job.label,
        machine=machine_name(candidate.read.result) or (job.agent_name or ""),
        side=candidate.side,
        x=candidate.x.value,
        x_interval=candidate.x.interval,
        y=candidate.y.value,
        y_interval=candidate.y.interval,
        verdict=job.verdict,
        on_front=on_front,
        surely=certain,
        grade=candidate.y.grade,
    )
