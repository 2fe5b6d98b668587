"""Series: metrics over time, what changed in them, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query

from assay.alert.ingest import expect, take
from assay.errors import UsageError
from assay.series.repository import KnownFinding
from assay.serve.observability import log_event
from assay.serve.state import ServerState
from assay.serve.web.access import Cursor, Limit, State, Text, Turns, User, example, readers
from assay.serve.web.problems import RequestProblem, bad_value
from assay.serve.web.records import Listed
from assay.store.series import Point, SeriesFilter, SeriesRecord
from assay.store.series_file import FilePoint, checked_point

router = APIRouter(prefix="/api/v1/series", tags=["series"])
findings_router = APIRouter(prefix="/api/v1/findings", tags=["series"])

_LARGEST_IMPORT = 10_000
_turns = Turns("turns of checking")

SeriesId = Annotated[str, Path(max_length=16, min_length=1, description="Id of the series, or a beginning of it.")]
FindingId = Annotated[str, Path(max_length=16, min_length=1, description="Id of the finding, or a beginning of it.")]
StateName = Annotated[Literal["", "open", "expected", "gone"], Query(alias="state")]
OriginName = Annotated[Literal["", "results", "import"], Query()]
Since = Annotated[
    float | None, Query(ge=0, le=1e12, description="Only those found at this moment or later, in seconds since 1970.")
]


@dataclass(frozen=True, slots=True)
class SeriesFull:
    """A series and what changed in it."""

    series: SeriesRecord
    findings: tuple[KnownFinding, ...]
    """The newest first."""


@dataclass(frozen=True, slots=True)
class Points:
    """Points to be imported."""

    points: tuple[FilePoint, ...]


@dataclass(frozen=True, slots=True)
class ImportOutcome:
    """The outcome of an import of points."""

    series: tuple[str, ...]
    added: int
    known: int
    """Points that were there already."""
    findings: tuple[str, ...]
    """Findings that are new or changed."""


_SERIES: dict[str, Any] = {
    "id": "9c1f2ab34d5e6f70", "benchmark": "chat service", "metric": "ttft_ms.p99", "unit": "ms", "better": "lower",
    "point": {"load.rate": 4}, "labels": {"team": "chat"},
    "machine": {"processor": "Intel Xeon Platinum 8468", "cores": 32, "memory_gib": 256, "gpu": "NVIDIA H100",
                "gpus": 1, "os": "Linux"},
    "origin": "results", "checked": 61, "report": {"kind": "stepped", "relative_spread": 0.021, "findings": 1},
    "points": 61, "newest": 1764471600.0,
}  # fmt: skip
_POINT: dict[str, Any] = {
    "id": 61, "at": 1764471600.0, "value": 214.7, "standard_error": 1.9, "verdict": "valid", "job": "c7f2-job-0",
    "context": {"commit": "91bc02e", "driver": "560.35.03", "machine": "gpu-01"},
}  # fmt: skip
_FINDING: dict[str, Any] = {
    "id": "0b7d3e5a91c2f468", "series": _SERIES,
    "finding": {"kind": "step", "index": 58, "last_good": 57, "first_bad": 58, "range": [58, 58], "before": 188.1,
                "after": 213.9, "difference": 25.8,
                "difference_interval": {"low": 22.0, "high": 29.6, "level": 0.95, "method": "likelihood of the step"},
                "change": 0.137,
                "interval": {"low": 0.117, "high": 0.157, "level": 0.95, "method": "likelihood of the step"},
                "chance": 1e-9, "probability": 0.999, "direction": "worse", "answer": "worse", "because": [],
                "last_good_label": None, "first_bad_label": None},
    "triage": {"cause": "environment",
               "because": ["driver changed from 550.54.15 to 560.35.03, and at none of 40 other steps around"],
               "differs": [{"name": "driver", "before": "550.54.15", "after": "560.35.03", "elsewhere": 0}]},
    "state": "open", "last_good": {**_POINT, "id": 58}, "first_bad": {**_POINT, "id": 59}, "found_at": 1764471700.0,
}  # fmt: skip


@router.get("", dependencies=[readers], responses=example({"items": [_SERIES], "next": None}))
def list_series(
    state: State,
    benchmark: Text = "",
    metric: Text = "",
    text: Text = "",
    origin: OriginName = "",
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Listed[SeriesRecord]:
    """List series by benchmark and metric, with how each looked when it was last checked."""
    return Listed.of(state.kept.series.page(SeriesFilter(benchmark, metric, text, origin), cursor, limit))


@router.post(
    "/import",
    responses=example({"series": ["9c1f2ab34d5e6f70"], "added": 365, "known": 0, "findings": ["0b7d3e5a91c2f468"]}),
)
async def import_points(given: Points, state: State, by: User) -> ImportOutcome:
    """Take points of history that people already have; those that are there already stay as they are."""
    if len(given.points) > _LARGEST_IMPORT:
        raise bad_value("points", f"at most {_LARGEST_IMPORT} points can be imported in one request")
    answer = await _turns.run(lambda: _import(state, given))
    log_event("points imported", added=answer.added, known=answer.known, series=len(answer.series), by=by.name)
    state.changed(jobs=False)
    return answer


@router.get("/{series}", dependencies=[readers], responses=example({"series": _SERIES, "findings": [_FINDING]}))
def get_series(series: SeriesId, state: State) -> SeriesFull:
    """Read a series and what changed in it."""
    store = state.kept.series
    record = store.get(series)
    return SeriesFull(record, store.findings(series=record.id))


@router.get("/{series}/points", dependencies=[readers], responses=example({"items": [_POINT], "next": None}))
def list_points(series: SeriesId, state: State, cursor: Cursor = None, limit: Limit = 500) -> Listed[Point]:
    """List the points of a series, oldest first, with what was around each."""
    store = state.kept.series
    return Listed.of(store.points_page(store.get(series).id, cursor, limit))


@findings_router.get("", dependencies=[readers], responses=example({"items": [_FINDING], "next": None}))
def list_findings(
    state: State,
    series: Text = "",
    benchmark: Text = "",
    wanted: StateName = "",
    since: Since = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Listed[KnownFinding]:
    """List findings, the newest first: where a series changed, by how much, how sure that is, and why."""
    return Listed.of(
        state.kept.series.findings_page(
            series=series, benchmark=benchmark, state=wanted, since=since, cursor=cursor, limit=limit
        )
    )


@findings_router.get("/{finding}", dependencies=[readers], responses=example(_FINDING))
def get_finding(finding: FindingId, state: State) -> KnownFinding:
    """Explain a finding: the change with its interval, its cause with the evidence, and all that differs."""
    return state.kept.series.finding(finding)


@findings_router.post(
    "/{finding}/expect",
    responses={**example({**_FINDING, "state": "expected"}), 409: {"description": "The finding is gone."}},
)
def expect_finding(finding: FindingId, state: State, by: User) -> KnownFinding:
    """Mark a change as expected: its series is judged from the new level."""
    expected = expect(state.kept.store, finding, state.clock)
    log_event("finding expected", finding=expected.id, series=expected.series.id, by=by.name)
    state.changed(jobs=False)
    return expected


def _import(state: ServerState, given: Points) -> ImportOutcome:
    points = []
    for number, point in enumerate(given.points):
        try:
            points.append(checked_point(point))
        except UsageError as problem:
            raise RequestProblem(422, problem.problem.message, code="series-line", at=f"points.{number}") from None
    taken, findings = take(state.kept.store, points, state.clock)
    return ImportOutcome(taken.series, taken.added, taken.known, tuple(finding.id for finding in findings))
