"""Pictures of a load: tails, latency and goodput over rate, the probes of a search, recall over speed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from pydantic import JsonValue

from assay.analyse.capacity.search import Knee, knee
from assay.analyse.intervals import TAILS, samples_needed
from assay.analyse.records import CampaignRecord, MetricStatistics, MultiRunJobResult
from assay.report.html.chart import Axis, Legend, Numbers, Picture, axis_for
from assay.report.html.plots import Plane, PlotPoint
from assay.report.html.samples import Values
from assay.report.numbers import show
from assay.report.served import grouped, is_served, searches_of, series_of
from assay.report.wording import as_mapping, as_mappings, as_number, section, verdict_word

_LATENCIES = ("ttft_ms", "latency_ms", "e2e_ms", "itl_ms")
_PATHS = {"load.rate": "requests per second", "load.concurrency": "concurrent requests"}
_KNOTS = 240
_OF_TOKENS = ("ttft_ms", "itl_ms", "tpot_ms")  # only what answers token by token has them
_TAIL_TICKS = {0.0: "0 %", 0.5: "50 %", 0.9: "90 %", 0.99: "99 %", 0.999: "99.9 %", 0.9999: "99.99 %"}
_GOOD, _ALL = "goodput_per_s", "throughput_per_s"
_LOAD_AXES = {"load.rate": "requests per second asked for", "load.concurrency": "concurrent requests"}
_TAIL = Legend(
    "Cumulative distribution",
    "All samples of all runs, up to the highest percentile with at least one sample beyond it. The vertical axis is "
    "logarithmic towards 100 %: 90 %, 99 % and 99.9 % are equally far apart. A diamond is an objective: the line must "
    "pass to the left of it.",
)
_CURVE = Legend(
    "Latency over load",
    "Each dot is a job's median, its whisker the interval from the spread between runs. The broken line is p99 of all "
    "samples. A band marks the knee, where latency begins to grow faster with the load.",
)
_SEARCH = Legend(
    "Search for a rate",
    "Each mark is one probe: full where the objective was met with confidence, a cross where it was missed, open where "
    "the samples could not tell. The band reaches from the highest rate that met it to the lowest that missed it.",
)
_RECALL = Legend(
    "Queries per second over recall",
    "Each dot is a job; its whiskers are the intervals from the spread between runs. The broken line joins the jobs "
    "that no other job exceeds in both: more queries per second cost recall along it.",
)
_GOODPUT = Legend(
    "Goodput over load",
    "Each dot is a job: the requests per second that met every objective, with the interval from the spread between "
    "runs. The broken line is all requests that finished; those between the two lines were too slow to count.",
)
Level = tuple[float, MultiRunJobResult, MetricStatistics]


class _TailAxis(Axis):
    """Shares on a scale on which 90 %, 99 % and 99.9 % are equally far apart."""

    __slots__ = ()

    def label(self, tick: float) -> str:
        return _TAIL_TICKS[tick]

    def share(self, value: float) -> float:
        end = float(-np.log10(1 - self.high))
        return min(max(float(-np.log10(max(1 - value, 1e-12))) / end, 0.0), 1.0)


def draw_tail(
    name: str, stats: MetricStatistics, samples: Mapping[int, Values], limits: Mapping[str, float]
) -> Picture | None:
    """The cumulative distribution of all runs together, with room for its tail and the objectives of the metric."""
    pooled = np.concatenate(list(samples.values())) if samples else np.empty(0)
    if pooled.size < samples_needed(TAILS["p90"]):
        return None
    ticks = [share for share in _TAIL_TICKS if share < 1 - 1 / pooled.size]
    top = next((share for share in _TAIL_TICKS if share >= 1 - 1 / pooled.size), max(_TAIL_TICKS))
    up = _TailAxis(0.0, top, tuple(dict.fromkeys((*ticks, top))))
    shares = 1 - np.logspace(0, np.log10(max(1 - top, 1 / pooled.size)), _KNOTS)
    at = np.quantile(pooled, shares)
    wanted = {statistic: limit for statistic, limit in limits.items() if statistic in ("p50", "median", *TAILS)}
    across = axis_for([float(at.min()), float(at.max()), *wanted.values()], may_log=True)
    title = f"{name}: cumulative distribution"
    summary = f"Half of {pooled.size:,} samples of {name} are at most {show(stats.p50)} {stats.unit}."
    plane = Plane(title, summary, across, f"{name}, in {stats.unit}", up, "share of the samples that are faster")
    points = [
        PlotPoint(limit, {"p50": 0.5, "median": 0.5, **TAILS}[statistic], "limit")
        for statistic, limit in wanted.items()
    ]
    drawn = plane.draw(
        plane.line(list(zip(at.tolist(), shares.tolist(), strict=True)), "trace thick"),
        *(plane.points([point]) for point in points),
    )
    note = f"{pooled.size:,} samples, drawn through {_KNOTS} of their percentiles."
    numbers = partial(
        Numbers.of,
        ("share that is faster", f"{name}, {stats.unit}"),
        list(zip(shares.tolist(), at.tolist(), strict=True)),
    )
    return Picture(f"tail:{name}", "llm" if name in _OF_TOKENS else "latency", title, drawn, _TAIL, note, numbers)


def draw_curves(record: CampaignRecord, labels: Mapping[str, str], anchors: Mapping[str, str]) -> list[Picture]:
    """Latency over the load for every part of a matrix that varies it, and recall over speed."""
    jobs = [job for job in record.jobs if job.state == "done" and is_served(job)]
    pictures = []
    for path, across in _PATHS.items():
        for rest, group in grouped([job for job in jobs if path in job.point], path).items():
            picture = _latency_curve(series_of(group, path), path, across, rest, anchors)
            pictures += [picture] if picture is not None else []
    recall = draw_recall(jobs, labels, anchors)
    return [*pictures, *([recall] if recall is not None else [])]


def _latency_curve(
    series: Sequence[tuple[float, MultiRunJobResult]], path: str, across: str, rest: str, anchors: Mapping[str, str]
) -> Picture | None:
    name = next((metric for metric in _LATENCIES if sum(metric in job.metrics for _, job in series) >= 2), None)
    if name is None:
        return None
    there = [(level, job, job.metrics[name]) for level, job in series if name in job.metrics]
    limits = {
        key: value
        for key, value in limits_of(there[0][1], name).items()
        if key in ("p50", "median", "p90", "p95", "p99")
    }
    values = [value for _, _, stats in there for value in (stats.p50, stats.p99, *_ends(stats)) if value is not None]
    up = axis_for([*values, *limits.values()], may_log=True)
    x = axis_for([level for level, _, _ in there], may_log=True, zero=True)
    word = path.rpartition(".")[2]
    title = f"{name} over {word}{f' ({rest})' if rest else ''}"
    bend = knee([level for level, _, _ in there], [list(stats.run_values.values()) for _, _, stats in there])
    summary = "; ".join(f"{level:g}: {show(stats.p50)} {stats.unit}" for level, _, stats in there)
    plane = Plane(title, summary, x, across, up, f"{name}, in {there[0][2].unit}")
    medians = [
        PlotPoint(level, stats.p50, verdict_word(job), y_ends=_ends(stats) or None, href=_link(anchors, job))
        for level, job, stats in there
    ]
    tails = [(level, stats.p99) for level, _, stats in there if stats.p99 is not None]
    marks = [*(PlotPoint(level, value, "tail") for level, value in tails), *medians]
    drawn = plane.draw(
        plane.band(bend.interval.low, bend.interval.high, f"knee at {show(bend.rate)}") if bend else None,
        plane.line([(point.x, point.y) for point in medians], "trace thick"),
        plane.line(tails, "trace tail"),
        plane.points(marks),
        *(plane.limit(limit, f"objective: {name}.{key} at most {limit:g}", marks) for key, limit in limits.items()),
    )
    key = f"curve:{path}{f':{rest}' if rest else ''}"
    numbers = partial(_curve_numbers, name, across, there)
    return Picture(key, "load", title, drawn, _CURVE, _knee_note(bend, len(there)), numbers, wide=True)


def _curve_numbers(
    name: str, across: str, there: Sequence[tuple[float, MultiRunJobResult, MetricStatistics]]
) -> Numbers:
    unit = there[0][2].unit
    columns = (across, f"median of {name}, {unit}", "interval low", "interval high", "p99", "verdict", "job")
    rows = [
        (level, stats.p50, *(_ends(stats) or (None, None)), stats.p99, verdict_word(job), job.job)
        for level, job, stats in there
    ]
    return Numbers.of(columns, rows)


def _knee_note(bend: Knee | None, levels: int) -> str:
    if bend is None:
        why = "a knee needs at least five levels" if levels < 5 else "the curve bends no more than noise explains"
        return f"No knee is marked: {why}."
    return (
        f"The knee is at {show(bend.rate)}, between {show(bend.interval.low)} and {show(bend.interval.high)} "
        f"({bend.interval.level:.0%} interval). Before it latency grows with the load to the power of "
        f"{bend.before:.1f}, after it of {bend.after:.1f}."
    )


def draw_search(job: MultiRunJobResult) -> list[Picture]:
    """The probes of the searches of a job: what each rate gave, whether it met the objective, and the answer."""
    searches = searches_of(job)
    names = dict.fromkeys(name for _, search in searches for name in as_mapping(search.get("objective")))
    return [picture for name in names if (picture := _search(name, searches, job)) is not None]


def _search(
    name: str, searches: Sequence[tuple[int, Mapping[str, JsonValue]]], job: MultiRunJobResult
) -> Picture | None:
    limit = next(
        value
        for _, search in searches
        if isinstance(value := as_mapping(search.get("objective")).get(name), int | float)
    )
    probes = [probe for _, search in searches for probe in as_mappings(search.get("probes"))]
    points = [point for probe in probes if (point := _probe_point(probe, name)) is not None]
    if len({point.x for point in points}) < 2:
        return None
    points.sort(key=lambda point: point.x)
    across = axis_for([point.x for point in points], may_log=True)
    up = axis_for([float(limit), *(point.y for point in points)], may_log=True)
    title = f"{name} at each probed rate"
    summary = "; ".join(f"{show(point.x)}/s: {show(point.y)} ({point.kind})" for point in points)
    plane = Plane(title, summary, across, "requests per second", up, name)
    ends = [
        (low, high)
        for _, search in searches
        if (low := as_number(search.get("low"))) and (high := as_number(search.get("high")))
    ]
    stats = job.metrics.get("capacity_per_s")
    band = (
        plane.band(min(low for low, _ in ends), max(high for _, high in ends), f"capacity {show(stats.median)}/s")
        if ends and stats
        else None
    )
    drawn = plane.draw(band, plane.limit(float(limit), f"objective: at most {limit:g}", points), plane.points(points))
    note = f"{len(points)} probes of {len(searches)} run{'' if len(searches) == 1 else 's'}."
    numbers = partial(_search_numbers, name, points)
    return Picture(f"search:{name}", "load", title, drawn, _SEARCH, note, numbers, wide=True)


def _search_numbers(name: str, points: Sequence[PlotPoint]) -> Numbers:
    answers = {"valid": "met", "invalid": "missed", "suspect": "cannot tell"}
    rows = [(point.x, point.y, answers[point.kind]) for point in points]
    return Numbers.of(("requests per second", name, "objective"), rows)


def _probe_point(probe: Mapping[str, JsonValue], name: str) -> PlotPoint | None:
    metric, _, statistic = name.rpartition(".")
    value = as_number(as_mapping(probe.get("judged")).get(name))
    if value is None:
        value = as_number(as_mapping(as_mapping(probe.get("statistics")).get(metric)).get(statistic))
    rate = as_number(probe.get("rate"))
    if rate is None or value is None:
        return None
    meets = probe.get("meets")
    return PlotPoint(rate, value, "valid" if meets is True else "invalid" if meets is False else "suspect")


def draw_recall(
    jobs: Sequence[MultiRunJobResult], labels: Mapping[str, str], anchors: Mapping[str, str]
) -> Picture | None:
    """Queries per second over recall: a point is better the further it lies to the upper right."""
    there = [job for job in jobs if "recall" in job.metrics and "throughput_per_s" in job.metrics]
    if len(there) < 2:
        return None
    points = [_recall_point(job, labels[job.job], _link(anchors, job)) for job in there]
    across = axis_for([end for point in points for end in (point.x, *(point.x_ends or ()))])
    up = axis_for([end for point in points for end in (point.y, *(point.y_ends or ()))], may_log=True, zero=True)
    title = "Queries per second over recall"
    summary = "; ".join(f"{point.name}: recall {point.x:.3f}, {show(point.y)} queries/s" for point in points)
    plane = Plane(title, summary, across, "recall (mean of all queries)", up, "queries per second")
    front = _best(points)
    drawn = plane.draw(plane.line([(point.x, point.y) for point in front], "trace tail"), plane.points(points))
    return Picture("recall", "load", title, drawn, _RECALL, "", partial(_recall_numbers, points), wide=True)


def _recall_numbers(points: Sequence[PlotPoint]) -> Numbers:
    columns = ("job", "recall", "recall low", "recall high", "queries per second", "low", "high")
    rows = [
        (point.name, point.x, *(point.x_ends or (None, None)), point.y, *(point.y_ends or (None, None)))
        for point in points
    ]
    return Numbers.of(columns, rows)


def _link(anchors: Mapping[str, str], job: MultiRunJobResult) -> str | None:
    """Where a page has the section of a job; a picture that stands alone has no links."""
    return f"#{anchors[job.job]}" if job.job in anchors else None


def _recall_point(job: MultiRunJobResult, name: str, href: str | None) -> PlotPoint:
    recall, speed = job.metrics["recall"], job.metrics["throughput_per_s"]
    spread = recall.interval
    ends = None
    if spread is not None and spread.half_width > 0:
        ends = (max(recall.mean - spread.half_width, 0.0), min(recall.mean + spread.half_width, 1.0))
    return PlotPoint(recall.mean, speed.median, verdict_word(job), ends, _ends(speed) or None, name, href)


def _best(points: Sequence[PlotPoint]) -> list[PlotPoint]:
    """The points that no other one dominates, by recall."""
    front: list[PlotPoint] = []
    for point in sorted(points, key=lambda spot: (-spot.x, -spot.y)):
        if not front or point.y > front[-1].y:
            front.append(point)
    return front[::-1]


def limits_of(job: MultiRunJobResult, metric: str) -> dict[str, float]:
    """Statistic → its objective, for those of a metric."""
    limits = section(job.definition, "objective")
    return {
        name.rpartition(".")[2]: float(limit)
        for name, limit in limits.items()
        if name.rpartition(".")[0] == metric and isinstance(limit, int | float)
    }


def _ends(stats: MetricStatistics) -> tuple[float, float] | tuple[()]:
    return () if stats.interval is None else (stats.interval.low, stats.interval.high)


def draw_goodput(record: CampaignRecord) -> list[Picture]:
    """Goodput over the load, for every part of a matrix that varies it."""
    jobs = [job for job in record.jobs if job.state == "done" and is_served(job) and _GOOD in job.metrics]
    pictures = []
    for path, across in _LOAD_AXES.items():
        for rest, group in grouped([job for job in jobs if path in job.point], path).items():
            levels = [(level, job, job.metrics[_GOOD]) for level, job in series_of(group, path)]
            if len(levels) > 1:
                pictures.append(_draw(levels, path, across, rest))
    return pictures


def _draw(levels: Sequence[Level], path: str, across: str, rest: str) -> Picture:
    finished = [(level, job.metrics[_ALL].median) for level, job, _ in levels if _ALL in job.metrics]
    good = [
        PlotPoint(level, stats.median, verdict_word(job), y_ends=_ends(stats) or None) for level, job, stats in levels
    ]
    values = [end for point in good for end in (point.y, *(point.y_ends or ()))] + [value for _, value in finished]
    title = f"goodput over {path.rpartition('.')[2]}{f' ({rest})' if rest else ''}"
    summary = "; ".join(f"{point.x:g}: {show(point.y)}/s" for point in good)
    x = axis_for([point.x for point in good], may_log=True, zero=True)
    plane = Plane(title, summary, x, across, axis_for(values, zero=True), "requests per second")
    drawn = plane.draw(
        plane.line(finished, "trace tail"),
        plane.points([PlotPoint(level, value, "tail") for level, value in finished]),
        plane.line([(point.x, point.y) for point in good], "trace thick"),
        plane.points(good),
    )
    key = f"goodput:{path}{f':{rest}' if rest else ''}"
    return Picture(key, "llm", title, drawn, _GOODPUT, "", partial(_numbers, across, levels), wide=True)


def _numbers(across: str, levels: Sequence[Level]) -> Numbers:
    columns = (across, "goodput, 1/s", "interval low", "interval high", "finished, 1/s", "verdict", "job")
    rows = [
        (
            level,
            stats.median,
            *(_ends(stats) or (None, None)),
            job.metrics[_ALL].median if _ALL in job.metrics else None,
            verdict_word(job),
            job.job,
        )
        for level, job, stats in levels
    ]
    return Numbers.of(columns, rows)
