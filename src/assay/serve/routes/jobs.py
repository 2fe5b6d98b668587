"""Jobs and their results: listed, read with pictures and answers, changed, compared, exported, scored again."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import FileResponse, StreamingResponse

from assay.analyse.answer import reasons_of
from assay.analyse.records import MultiRunJobResult
from assay.analyse.summary import ScoreRecord
from assay.api.rescore import in_store, keep_scores, kept_scores, rescore, scorers_of
from assay.documents import to_json
from assay.report.result import read_campaign
from assay.run.records import SingleRunResult
from assay.serve.facts.compare import Comparison, compare_sides, read_sides
from assay.serve.facts.frontier import Frontier, frontier_of
from assay.serve.facts.job_page import Output, Panels, outputs_page, panels_of_job, panels_tag
from assay.serve.observability import log_event
from assay.serve.state import ServerState, ServerStore
from assay.serve.web.access import (
    BINARY,
    Answers,
    Cursor,
    JobId,
    Limit,
    RunId,
    State,
    Text,
    Turns,
    User,
    WantedJobs,
    readers,
    tagged,
)
from assay.serve.web.problems import RequestProblem, bad_value
from assay.serve.web.reading import ComparisonMatrix, ResultView, comparison, job_result, result_view
from assay.serve.web.records import BatchOutcome, BatchOutcomes, EvidenceView, JobBatch, JobChanged, JobFull, Listed
from assay.store.artefacts import JobArtefact, plain_name
from assay.store.fleet.transactions import LogLines, read_logs
from assay.store.records import JobSummary

router = APIRouter(prefix="/api/v1/jobs", tags=["jobs"])

_LARGEST_BATCH = 10_000
_PARQUET: Answers = {200: {"content": {"application/vnd.apache.parquet": {"schema": BINARY}}}}


@router.get("", dependencies=[readers])
def list_jobs(
    state: State,
    which: WantedJobs,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Listed[JobSummary]:
    """List jobs: of one campaign in the order of its matrix, else the newest first."""
    return Listed.of(state.kept.listing.jobs(which, cursor=cursor, limit=limit))


@router.post("/batch")
def change_jobs(batch: JobBatch, state: State, by: User) -> BatchOutcomes:
    """Cancel or retry many jobs; returns the outcome of each."""
    if len(batch.jobs) > _LARGEST_BATCH:
        raise bad_value("jobs", f"a batch has at most {_LARGEST_BATCH} jobs")
    outcomes = state.kept.control.batch(batch.action, batch.jobs, reason=batch.reason[:1000], by=by.name)
    if batch.action == "cancel":
        state.kept.queue.withdraw([job for job, outcome in outcomes.items() if outcome.changed])
    log_event(
        f"jobs {batch.action}",
        jobs=len(outcomes),
        changed=sum(result.changed for result in outcomes.values()),
        by=by.name,
    )
    state.changed()
    return BatchOutcomes(
        tuple(BatchOutcome(job, result.changed, result.state, result.problem) for job, result in outcomes.items())
    )


@router.get("/{job}", dependencies=[readers])
def get_job(job: JobId, state: State) -> JobFull:
    """Read everything about a job: definition, result, attempts, history, evidence, files."""
    server_store = state.kept
    detail = server_store.listing.job(job)
    evidence = tuple(
        EvidenceView(entry.fence, entry.agent, entry.at, entry.reason) for entry in server_store.control.evidence(job)
    )
    result = job_result(server_store, detail)
    return JobFull(
        summary=detail.summary,
        document=detail.job,
        result=result,
        reasons=reasons_of(result),
        attempts=server_store.control.attempts(job),
        history=server_store.control.history(job),
        evidence=evidence,
        artefacts=server_store.artefacts.of_job(job),
    )


@router.post("/{job}/cancel")
def cancel_job(job: JobId, state: State, by: User) -> JobChanged:
    """Cancel a job, whether it waits or runs; one that has ended stays as it ended."""
    after = state.kept.control.cancel(job, by=by.name)
    state.kept.queue.withdraw([job])
    log_event("job cancelled", job=job, state=after, by=by.name)
    state.changed()
    return JobChanged(job, after)


@router.post("/{job}/retry", responses={409: {"description": "It is in no state for that."}})
def retry_job(job: JobId, state: State, by: User) -> JobChanged:
    """Offer a job again that failed, was cancelled or was set aside."""
    after = state.kept.control.retry(job, by=by.name)
    log_event("job retried", job=job, by=by.name)
    state.changed()
    return JobChanged(job, after)


@router.get("/{job}/result", dependencies=[readers], response_model=MultiRunJobResult)
def get_job_result(job: JobId, state: State) -> Response:
    """Read the result of a job, or what is known of it so far."""
    result = job_result(state.kept, state.kept.listing.job(job))
    return Response(to_json(result), media_type="application/json", headers={"Cache-Control": "no-cache"})


@router.get("/{job}/logs", dependencies=[readers])
def get_job_logs(
    job: JobId,
    state: State,
    after: Annotated[int, Query(ge=0, le=2**31 - 1, description="Number of the last line that was read.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 1000,
) -> LogLines:
    """Read the lines that a job's attempts wrote."""
    state.kept.listing.job(job)
    return read_logs(state.kept.store.engine, job, after, limit)


@router.get("/{job}/artefacts", dependencies=[readers])
def list_job_artefacts(job: JobId, state: State) -> Listed[JobArtefact]:
    """List the files that a job's attempts left."""
    state.kept.listing.job(job)
    return Listed(state.kept.artefacts.of_job(job))


@router.get("/{job}/runs/{run}/samples", dependencies=[readers], response_class=FileResponse, responses=_PARQUET)
def get_samples(job: JobId, run: RunId, state: State) -> FileResponse:
    """Download the samples of a run, as Parquet."""
    server_store = state.kept
    server_store.listing.job(job)
    digest = next((stored_run.samples for stored_run in server_store.store.runs(job) if stored_run.run_id == run), None)
    path = server_store.store.samples.find(digest) if digest else None
    if path is None:
        raise RequestProblem(404, f"run {run} of {job} has no samples", code="unknown-samples")
    return FileResponse(
        path,
        media_type="application/vnd.apache.parquet",
        filename=f"{job}-run-{run}.parquet",
        headers={"ETag": f'"{digest}"'},
    )


@router.get(
    "/{job}/panels",
    dependencies=[readers],
    response_model=Panels,
    responses={304: {"description": "They have not changed."}},
)
def get_job_panels(job: JobId, state: State, request: Request) -> Response:
    """Read the pictures of a job, drawn as the HTML report draws them, each with its numbers."""
    detail = state.kept.listing.job(job)
    # Thousands of numbers that are known to be right: they are not checked once more on their way out.
    return tagged(request, panels_tag(state.kept, detail), lambda: to_json(panels_of_job(state.kept, detail)))


@router.get("/{job}/outputs", dependencies=[readers])
def list_job_outputs(job: JobId, state: State, cursor: Cursor = None, limit: Limit = 50) -> Listed[Output]:
    """List the answers that the runs of a job kept, in the order in which they were asked for."""
    return Listed.of(outputs_page(state.kept, job, cursor, limit))


results_router = APIRouter(prefix="/api/v1/results", tags=["results"])

_PART = 1 << 20
Campaigns = Annotated[list[str], Query(min_length=1, max_length=20, description="May be given several times.")]
_FILES: Answers = {
    200: {"content": {"application/zip": {"schema": BINARY}, "application/x-ndjson": {"schema": {"type": "string"}}}}
}
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
_turns = Turns("turns of scoring")


@results_router.get("", dependencies=[readers])
def list_results(
    state: State,
    which: WantedJobs,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Listed[ResultView]:
    """List results: the headline metrics of each job with their intervals, and its verdict."""
    page = state.kept.listing.results(which, cursor=cursor, limit=limit)
    return Listed(tuple(map(result_view, page.items)), page.next)


@results_router.get("/matrix", dependencies=[readers])
def get_matrix(
    campaign: Campaigns, state: State, metric: Text = "", rows: Text = "", columns: Text = ""
) -> ComparisonMatrix:
    """Compare one metric across configurations: every cell against the first, with three answers."""
    return comparison(state.kept, campaign, metric, rows, columns)


@results_router.get("/export", dependencies=[readers], response_class=StreamingResponse, responses=_FILES)
def export_results(
    campaign: Campaigns, state: State, form: Annotated[Literal["zip", "ndjson"], Query(alias="format")] = "zip"
) -> StreamingResponse:
    """Export raw records: one result a line, or a ZIP of result documents with all samples and files of their runs."""
    server_store = state.kept
    for campaign_id in campaign:
        server_store.listing.campaign(campaign_id)
    name = "".join(char for char in campaign[0] if char.isalnum() or char in "-_") if len(campaign) == 1 else ""
    name = name or "results"
    headers = {"Content-Disposition": f'attachment; filename="{name}.{form}"'}
    content = _lines(server_store, campaign) if form == "ndjson" else _zipped(server_store, campaign)
    kind = "application/x-ndjson" if form == "ndjson" else "application/zip"
    return StreamingResponse(content, media_type=kind, headers=headers)


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
    """Place jobs between two metrics, and say which of them no other one dominates; `per` divides the second metric."""
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


@scores_router.post("", status_code=201)
async def compute_scores(job: JobId, judging: ScoreRequest, state: State, by: User) -> Listed[ScoreRecord]:
    """Judge the kept answers of a job, and keep what came out with its date; nothing is measured again."""
    if len(judging.scorers) > _MOST_SCORERS:
        raise bad_value("scorers", f"at most {_MOST_SCORERS} scorers can be asked for in one request")
    records = await _turns.run(lambda: _compute(state, job, judging))
    log_event("answers scored", job=job, scorers=",".join(record.scorer for record in records), by=by.name)
    return Listed(records)


def _compute(state: ServerState, job: str, judging: ScoreRequest) -> tuple[ScoreRecord, ...]:
    server_store = state.kept
    result = job_result(server_store, server_store.listing.job(job))
    records = rescore(result, in_store(server_store.store), scorers_of(result, judging.scorers), state.clock)
    keep_scores(server_store.store, records)
    return records
