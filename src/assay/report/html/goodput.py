"""The picture of goodput over the load: how many requests met every objective, beside how many were finished."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from assay.analyse.records import CampaignRecord, MetricStatistics, MultiRunJobResult
from assay.report.html.axis import axis_for
from assay.report.html.picture import Numbers, Picture
from assay.report.html.plane import Plane, Point
from assay.report.numbers import show
from assay.report.served import grouped, is_served, series_of
from assay.report.wording import verdict_word

_GOOD, _ALL = "goodput_per_s", "throughput_per_s"
_PATHS = {"load.rate": "requests per second asked for", "load.concurrency": "requests at once"}
Level = tuple[float, MultiRunJobResult, MetricStatistics]


def draw_goodput(record: CampaignRecord) -> list[Picture]:
    """Goodput over the load, for every part of a matrix that varies it."""
    jobs = [job for job in record.jobs if job.state == "done" and is_served(job) and _GOOD in job.metrics]
    pictures = []
    for path, across in _PATHS.items():
        for rest, group in grouped([job for job in jobs if path in job.point], path).items():
            levels = [(level, job, job.metrics[_GOOD]) for level, job in series_of(group, path)]
            if len(levels) > 1:
                pictures.append(_draw(levels, path, across, rest))
    return pictures


def _draw(levels: Sequence[Level], path: str, across: str, rest: str) -> Picture:
    finished = [(level, job.metrics[_ALL].median) for level, job, _ in levels if _ALL in job.metrics]
    good = [Point(level, stats.median, verdict_word(job), y_ends=_ends(stats)) for level, job, stats in levels]
    values = [end for point in good for end in (point.y, *(point.y_ends or ()))] + [value for _, value in finished]
    title = f"goodput over {path.rpartition('.')[2]}{f' ({rest})' if rest else ''}"
    told = "; ".join(f"{point.x:g}: {show(point.y)}/s" for point in good)
    x = axis_for([point.x for point in good], may_log=True, zero=True)
    plane = Plane(title, told, x, across, axis_for(values, zero=True), "requests per second")
    drawn = plane.draw(
        plane.line(finished, "trace tail"),
        plane.points([Point(level, value, "tail") for level, value in finished]),
        plane.line([(point.x, point.y) for point in good], "trace thick"),
        plane.points(good),
    )
    says = (
        "Each dot is a job: the requests per second that met every objective by themselves, with the interval from the "
        "spread between runs. The broken line is all requests that were finished; what lies between the two was too "
        "slow to count."
    )
    key = f"goodput:{path}{f':{rest}' if rest else ''}"
    return Picture(key, "llm", title, drawn, says, partial(_numbers, across, levels), wide=True)


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


def _ends(stats: MetricStatistics) -> tuple[float, float] | None:
    return (stats.interval.low, stats.interval.high) if stats.interval else None
