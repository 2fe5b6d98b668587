"""Results across jobs: in lines, as a matrix, raw, compared; and scores computed again from the answers kept."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar
from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from assay.analyse.scores import ScoreRecord
from assay.api.rescore import in_store, keep_scores, kept_scores, rescore, scorers_of
from assay.documents import to_json
from assay.report.reading import read_campaign
from assay.run.records import SingleRunResult
from assay.serve.facts.compare import compare_sides, read_sides
from assay.serve.facts.frontier import frontier_of
from assay.serve.facts.records import Comparison, Frontier
from assay.serve.observability import tell
from assay.serve.state import ServerState, ServerStore
from assay.serve.web.access import Answers, Cursor, JobId, Limit, State, Text, User, WantedJobs, readers, users
from assay.serve.web.problems import RequestProblem
from assay.serve.web.reading import ComparisonMatrix, ResultView, comparison, job_result, result_view
from assay.serve.web.records import Listed
from assay.store.artefacts import plain_name

router = APIRouter(prefix="/api/v1/results", tags=["results"])

_PART = 1 << 20
Campaigns = Annotated[list[str], Query(min_length=1, max_length=20, description="May be given several times.")]
_FILES: Answers = {
    200: {"content": {"application/zip": {"schema": {"type": "string", "format": "binary"}},
                      "application/x-ndjson": {"schema": {"type": "string"}}}}
}  # fmt: skip
compare_router = APIRouter(prefix="/api/v1", tags=["results"])
_SIDE = "`campaign:ID`, `job:ID`, `agent:NAME` or `label:KEY=VALUE`; may be given several times."
Side = Annotated[str, Query(max_length=300)]
Sides = Annotated[list[Side], Query(min_length=2, max_length=8, description=f"{_SIDE} The first is the base.")]
OneSide = Annotated[list[Side], Query(min_length=1, max_length=8, description=_SIDE)]
Metrics = Annotated[list[str], Query(max_length=20, description="Only these metrics; the headline ones when left out.")]
Metric = Annotated[str, Query(min_length=1, max_length=200)]
Anyway = Annotated[
    bool | None,
    Query(description="Compare although machine or settings differ; as agents are compared when left out."),
]
scores_router = APIRouter(prefix="/api/v1/jobs/{job}/scores", tags=["jobs"])
_MOST_SCORERS = 20
_turns: RunVar[anyio.CapacityLimiter] = RunVar("turns of scoring")


@router.get("", dependencies=[readers])
def list_results(
    state: State,
    which: WantedJobs,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Listed[ResultView]:
    """List results: the headline metrics of each job with their intervals, and its verdict."""
    page = state.kept.listing.results(which, cursor=cursor, limit=limit)
    return Listed(tuple(map(result_view, page.items)), page.next)


@router.get("/matrix", dependencies=[readers])
def get_matrix(
    campaign: Campaigns, state: State, metric: Text = "", rows: Text = "", columns: Text = ""
) -> ComparisonMatrix:
    """Compare one metric across configurations: every cell against the first, with three answers."""
    return comparison(state.kept, campaign, metric, rows, columns)


@router.get("/export", dependencies=[readers], response_class=StreamingResponse, responses=_FILES)
def export_results(
    campaign: Campaigns, state: State, form: Annotated[Literal["zip", "ndjson"], Query(alias="format")] = "zip"
) -> StreamingResponse:
    """Export raw records: one result a line, or a ZIP of result documents with all samples and files of their runs."""
    kept = state.kept
    for one in campaign:
        kept.listing.campaign(one)
    name = campaign[0] if len(campaign) == 1 else "results"
    headers = {"Content-Disposition": f'attachment; filename="{_plain(name)}.{form}"'}
    content = _lines(kept, campaign) if form == "ndjson" else _zipped(kept, campaign)
    kind = "application/x-ndjson" if form == "ndjson" else "application/zip"
    return StreamingResponse(content, media_type=kind, headers=headers)


def _plain(name: str) -> str:
    return "".join(char for char in name if char.isalnum() or char in "-_") or "results"


def _lines(kept: ServerStore, campaigns: list[str]) -> Iterator[bytes]:
    for campaign in campaigns:
        for job in read_campaign(kept.store, campaign).jobs:
            yield to_json(job).encode() + b"\n"


def _zipped(kept: ServerStore, campaigns: list[str]) -> Iterator[bytes]:
    """A ZIP, made while it is sent: samples are large and are read one at a time."""
    sink = _Sink()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for campaign in campaigns:
            record = read_campaign(kept.store, campaign)
            archive.writestr(f"{record.campaign}/result.json", to_json(record, indent=2))
            yield sink.taken()
            for job in record.jobs:
                for run in job.runs:
                    path = kept.store.samples.find(run.samples) if run.samples else None
                    if path is not None:
                        name = f"{record.campaign}/samples/job-{job.index}-run-{run.run_id}.parquet"
                        archive.writestr(zipfile.ZipInfo(name), path.read_bytes())  # packed already
                        yield sink.taken()
                    yield from _files(kept, archive, sink, f"{record.campaign}/files/job-{job.index}-run-", run)
    yield sink.taken()


def _files(
    kept: ServerStore, archive: zipfile.ZipFile, sink: _Sink, place: str, run: SingleRunResult
) -> Iterator[bytes]:
    """The files that a run left, each in parts: they may be large."""
    for name, digest in run.files.items():
        path = kept.store.artefacts.find(digest)
        if path is not None:
            entry = zipfile.ZipInfo(f"{place}{run.run_id}-{plain_name(name)}")
            with path.open("rb") as source, archive.open(entry, "w") as target:
                while block := source.read(_PART):
                    target.write(block)
                    yield sink.taken()


class _Sink(io.RawIOBase):
    """Where a ZIP is written to; what was written is taken away bit by bit."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:  # noqa: ANN401  (any buffer)
        self._parts.append(bytes(content))
        return len(content)

    def taken(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


@compare_router.get("/compare", dependencies=[readers])
def compare(
    side: Sides,
    state: State,
    metric: Metrics = [],  # noqa: B006 - FastAPI copies it
    benchmark: Text = "",
    anyway: Anyway = None,
) -> Comparison:
    """Compare sides with the first of them: better, worse, or cannot tell and why."""
    return compare_sides(read_sides(state.kept, side, benchmark), metric, anyway=anyway)


@compare_router.get("/frontier", dependencies=[readers])
def get_frontier(
    side: OneSide, x: Metric, y: Metric, state: State, per: Literal["", "watt", "dollar"] = "", benchmark: Text = ""
) -> Frontier:
    """Hold jobs between two metrics, and say which of them no other one beats; `per` divides the second metric."""
    return frontier_of(state.kept, read_sides(state.kept, side, benchmark), x, y, per)


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """Who is to judge."""

    scorers: tuple[str, ...] = ()
    """Names of scorers that the server has; those of the benchmark when empty."""


@scores_router.get("", dependencies=[readers])
def list_scores(job: JobId, state: State) -> Listed[ScoreRecord]:
    """List the scores that were computed of a job's answers after its result, oldest first."""
    result = job_result(state.kept, state.kept.listing.job(job))
    return Listed(kept_scores(state.kept.store, [result]).get(job, ()))


@scores_router.post("", dependencies=[users], status_code=201)
async def compute_scores(job: JobId, judging: ScoreRequest, state: State, by: User) -> Listed[ScoreRecord]:
    """Judge the kept answers of a job, and keep what came out with its date; nothing is measured again."""
    if len(judging.scorers) > _MOST_SCORERS:
        raise RequestProblem(422, f"at most {_MOST_SCORERS} scorers can be asked at once", code="request", at="scorers")
    records = await anyio.to_thread.run_sync(lambda: _compute(state, job, judging), limiter=_one_at_a_time())
    tell("answers scored", job=job, scorers=",".join(one.scorer for one in records), by=by.name)
    return Listed(records)


def _one_at_a_time() -> anyio.CapacityLimiter:
    """Scoring is arithmetic in Python: two at once would only slow each other, and everybody else."""
    try:
        return _turns.get()
    except LookupError:
        _turns.set(limiter := anyio.CapacityLimiter(1))
        return limiter


def _compute(state: ServerState, job: str, judging: ScoreRequest) -> tuple[ScoreRecord, ...]:
    kept = state.kept
    result = job_result(kept, kept.listing.job(job))
    records = rescore(result, in_store(kept.store), scorers_of(result, judging.scorers), state.clock)
    keep_scores(kept.store, records)
    return records
