"""Stored benchmarks: kept with every version, checked before anything runs; and the headline metric of each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi import Path as InPath
from pydantic import JsonValue

from assay.analyse.headline import headline
from assay.analyse.records import Interval
from assay.documents import adapter
from assay.errors import SpecError
from assay.metrics import Better, base_name
from assay.place.fleet.protocol import Submission
from assay.report.wording import job_label
from assay.serve.observability import log_event
from assay.serve.state import ServerState
from assay.serve.submission import BenchmarkCheck, BenchmarkText, plan_submission, preview, read_text
from assay.serve.web.access import Cursor, Limit, State, Text, User, readers, unchanged, users
from assay.serve.web.problems import RequestProblem
from assay.serve.web.records import BenchmarkInput, BenchmarkPreview, Listed
from assay.spec.benchmark import Definition
from assay.spec.load import load
from assay.spec.target import CommandTarget
from assay.store.catalogue import BenchmarkSummary, Draft, StoredBenchmark
from assay.store.overview import HeadlineRows, NewestPoint, SeriesName
from assay.store.series import SeriesRecord

router = APIRouter(prefix="/api/v1/benchmarks", tags=["benchmarks"])

MOST = 100
POINTS = 40
_REMEMBERED = 1000

Name = Annotated[str, InPath(max_length=200)]
Version = Annotated[int | None, Query(ge=1, le=2**31 - 1, description="The newest when left out.")]
Names = Annotated[list[str], Query(alias="name", max_length=MOST, description="Name of a benchmark; may be repeated.")]


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


@router.post("", status_code=201, responses={409: {"description": "There is one already."}})
def create_benchmark(given: BenchmarkInput, state: State, response: Response, by: User) -> StoredBenchmark:
    """Keep a benchmark under the name that its document gives it."""
    name = _checked(state, given)
    stored = state.kept.catalogue.create(name, Draft(given.document, given.files, by.name))
    log_event("benchmark created", benchmark=name, version=stored.version, by=by.name)
    response.headers["ETag"] = _tag(stored)
    return stored


@router.get("", dependencies=[readers])
def list_benchmarks(
    state: State, cursor: Cursor = None, limit: Limit = 50, text: Text = ""
) -> Listed[BenchmarkSummary]:
    """List stored benchmarks by name."""
    return Listed.of(state.kept.catalogue.benchmarks(text=text, cursor=cursor, limit=limit))


@router.post("/check", dependencies=[users])
def check_benchmark(submission: Submission, state: State) -> BenchmarkPreview:
    """Say what would happen: the jobs, what they need, and which agents could take them. Nothing is kept."""
    return preview(state, plan_submission(state, submission))


@router.post("/read", dependencies=[users])
def read_benchmark(given: BenchmarkText, state: State) -> BenchmarkCheck:
    """Read a file while it is written: what it says, what is wrong with it and where, and what would happen."""
    return read_text(state, given)


@router.get("/headlines", dependencies=[readers])
def list_headlines(state: State, names: Names) -> Listed[Headline]:
    """List the headline metric of each benchmark with its newest 40 points; one without results has none."""
    return Listed(headlines(state, names))


@router.get(
    "/{name}",
    dependencies=[readers],
    response_model=StoredBenchmark,
    responses={304: {"description": "It has not changed."}},
)
def get_benchmark(
    name: Name, state: State, request: Request, response: Response, version: Version = None
) -> StoredBenchmark | Response:
    """Read a benchmark, or one of its versions."""
    stored = state.kept.catalogue.get(name, version)
    response.headers["ETag"] = _tag(stored)
    return unchanged(request, _tag(stored)) or stored


@router.put("/{name}", responses={412: {"description": "It was changed in between."}})
def change_benchmark(
    name: Name,
    given: BenchmarkInput,
    state: State,
    response: Response,
    by: User,
    if_match: Annotated[str | None, Header(description="ETag of the version that is changed.")] = None,
) -> StoredBenchmark:
    """Keep a new version; with `If-Match`, only if it was not changed meanwhile."""
    if _checked(state, given) != name:
        raise RequestProblem(
            422,
            f"the document names itself {str(given.document.get('benchmark'))[:80]!r}, not {name!r}",
            code="name",
            at="document.benchmark",
        )
    stored = state.kept.catalogue.change(name, Draft(given.document, given.files, by.name), _expected(if_match))
    log_event("benchmark changed", benchmark=name, version=stored.version, by=by.name)
    response.headers["ETag"] = _tag(stored)
    return stored


@router.delete("/{name}", status_code=204)
def delete_benchmark(name: Name, state: State, by: User) -> None:
    """Take a benchmark off the list; the campaigns made from it keep their version."""
    state.kept.catalogue.delete(name)
    log_event("benchmark deleted", benchmark=name, by=by.name)


@router.get("/{name}/versions", dependencies=[readers])
def list_benchmark_versions(name: Name, state: State) -> Listed[StoredBenchmark]:
    """List every version, the newest first."""
    return Listed(state.kept.catalogue.versions(name))


def _checked(state: ServerState, given: BenchmarkInput) -> str:
    """The name of a benchmark that could be submitted."""
    planned = plan_submission(state, Submission(document=given.document, files=given.files))
    name = planned.plan.benchmark
    if "/" in name or "\\" in name:
        raise SpecError(f"a stored benchmark's name has no slash; this one is {name!r}", code="name", at="benchmark")
    if name == "headlines":
        raise SpecError("a stored benchmark is not named headlines: that address is taken", code="name", at="benchmark")
    return name


def _tag(stored: StoredBenchmark) -> str:
    return f'"{stored.version}-{stored.digest[:16]}"'


def _expected(if_match: str | None) -> int | None:
    """The version that a client means to change."""
    if if_match is None or if_match.strip() == "*":
        return None
    number = if_match.strip().removeprefix("W/").strip('"').partition("-")[0]
    if not number.isascii() or not number.isdigit() or len(number) > 9:
        raise RequestProblem(
            412,
            "If-Match is not an ETag of this benchmark",
            code="precondition",
            try_="read the benchmark and send the ETag that came with it",
        )
    return int(number)


def headlines(state: ServerState, names: Iterable[str]) -> tuple[Headline, ...]:
    """The headlines of benchmarks, in the order asked; one that has no series has none."""
    rows = HeadlineRows(state.kept.store.engine)
    wanted = tuple(dict.fromkeys(names))
    by_benchmark: dict[str, list[SeriesName]] = {}
    for series_name in rows.names(wanted):
        by_benchmark.setdefault(series_name.benchmark, []).append(series_name)
    definitions = _definitions(state, rows, tuple(by_benchmark))
    chosen = {name: _metric(definitions.get(name), series_names) for name, series_names in by_benchmark.items()}
    series = rows.longest(list(chosen.items()))
    newest = rows.newest([record.id for record in series.values()], POINTS)
    results = rows.metrics(last.job if last else None for last in map(_last, newest.values()))
    return tuple(_headline(series[name], newest[series[name].id], results) for name in wanted if name in series)


def _definitions(state: ServerState, rows: HeadlineRows, names: Sequence[str]) -> dict[str, Definition | None]:
    """What the newest campaign of each benchmark measures; a campaign never changes, so it is read once."""
    newest = rows.newest_campaigns(names)
    cache = state.definitions
    if len(cache) > _REMEMBERED:
        cache.clear()
    for campaign, document in rows.documents(
        [campaign_id for campaign_id in newest.values() if campaign_id not in cache]
    ).items():
        cache[campaign] = _definition(document)
    return {name: cache.get(campaign) for name, campaign in newest.items()}


def _definition(document: Mapping[str, JsonValue]) -> Definition | None:
    try:
        return load(document, base=Path()).benchmark
    except SpecError:  # written by another version
        return None


def _metric(definition: Definition | None, series: Sequence[SeriesName]) -> str:
    """The metric that speaks for a benchmark, of those that it has series of."""
    names = {series_name.metric: series_name.checked for series_name in sorted(series, key=lambda entry: entry.metric)}
    if definition is None:
        return max(names, key=lambda name: names[name])
    first = headline(definition, sorted(names, key=lambda name: _declared(definition, name)))[:1]
    return first[0] if first else max(names, key=lambda name: names[name])


def _declared(definition: Definition, name: str) -> int:
    """Where in a file a metric of a program stands; after all others where it does not."""
    target = definition.target
    declared = [pattern.name for pattern in target.metrics] if isinstance(target, CommandTarget) else []
    return declared.index(base_name(name)) if base_name(name) in declared else len(declared)


def _last(points: Sequence[NewestPoint]) -> NewestPoint | None:
    """The newest that has a number."""
    return next((point for point in reversed(points) if point.value is not None), None)


def _headline(series: SeriesRecord, points: Sequence[NewestPoint], results: Mapping[str, str]) -> Headline:
    last = _last(points)
    job = last.job if last else None
    return Headline(
        benchmark=series.benchmark,
        metric=series.metric,
        unit=series.unit,
        better=series.better,
        series=series.id,
        label=job_label(series.point, {}),
        points=tuple(HeadlinePoint(point.at, point.value, point.standard_error) for point in points),
        median=last.value if last else None,
        interval=_interval(results.get(job, ""), series.metric) if job else None,
        verdict=(last.verdict or None) if last else None,
    )


def _interval(metrics: str, name: str) -> Interval | None:
    stats = json.loads(metrics).get(name) if metrics else None
    interval = stats.get("interval") if isinstance(stats, dict) else None
    return adapter(Interval).validate_python(interval) if interval else None
