"""Jobs: listed, read in full with pictures and answers, cancelled, retried."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import FileResponse

from assay.analyse.records import MultiRunJobResult
from assay.documents import to_json
from assay.report.wording import failed, is_advice
from assay.serve.facts.job_page import outputs_page, panels_of_job, panels_tag
from assay.serve.facts.records import Output, Panels
from assay.serve.observability import tell
from assay.serve.web.access import (
    Answers,
    Cursor,
    JobId,
    Limit,
    RunId,
    State,
    User,
    WantedJobs,
    readers,
    unchanged,
    users,
)
from assay.serve.web.problems import RequestProblem
from assay.serve.web.reading import job_result
from assay.serve.web.records import (
    BatchOutcome,
    BatchOutcomes,
    EvidenceView,
    JobBatch,
    JobChanged,
    JobFull,
    Listed,
)
from assay.store.artefacts import JobArtefact
from assay.store.fleet.transactions import LogLines, read_logs
from assay.store.records import JobSummary

router = APIRouter(prefix="/api/v1/jobs", tags=["jobs"])

_LARGEST_BATCH = 10_000
_PARQUET: Answers = {
    200: {"content": {"application/vnd.apache.parquet": {"schema": {"type": "string", "format": "binary"}}}}
}


@router.get("", dependencies=[readers])
def list_jobs(
    state: State,
    which: WantedJobs,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Listed[JobSummary]:
    """List jobs: of one campaign in the order of its matrix, else the newest first."""
    page = state.kept.listing.jobs(which, cursor=cursor, limit=limit)
    return Listed(page.items, page.next)


@router.post("/batch", dependencies=[users])
def change_jobs(batch: JobBatch, state: State, by: User) -> BatchOutcomes:
    """Cancel or retry many jobs; says what became of each."""
    if len(batch.jobs) > _LARGEST_BATCH:
        raise RequestProblem(422, f"a batch has at most {_LARGEST_BATCH} jobs", code="request", at="jobs")
    found = state.kept.control.batch(batch.action, batch.jobs, reason=batch.reason[:1000], by=by.name)
    if batch.action == "cancel":
        state.kept.queue.withdraw([job for job, outcome in found.items() if outcome.changed])
    tell(f"jobs {batch.action}", jobs=len(found), changed=sum(one.changed for one in found.values()), by=by.name)
    state.changed()
    return BatchOutcomes(tuple(BatchOutcome(job, one.changed, one.state, one.problem) for job, one in found.items()))


@router.get("/{job}", dependencies=[readers])
def get_job(job: JobId, state: State) -> JobFull:
    """Read everything about a job: definition, result, attempts, history, evidence, files."""
    kept = state.kept
    detail = kept.listing.job(job)
    evidence = tuple(EvidenceView(one.fence, one.agent, one.at, one.reason) for one in kept.control.evidence(job))
    result = job_result(kept, detail)
    return JobFull(
        summary=detail.summary,
        document=detail.job,
        result=result,
        advice=tuple(one.name for one in failed(result.checks) if is_advice(one)),
        attempts=kept.control.attempts(job),
        history=kept.control.history(job),
        evidence=evidence,
        artefacts=kept.artefacts.of_job(job),
    )


@router.post("/{job}/cancel", dependencies=[users])
def cancel_job(job: JobId, state: State, by: User) -> JobChanged:
    """Cancel a job, whether it waits or runs; one that has ended stays as it ended."""
    after = state.kept.control.cancel(job, by=by.name)
    state.kept.queue.withdraw([job])
    tell("job cancelled", job=job, state=after, by=by.name)
    state.changed()
    return JobChanged(job, after)


@router.post("/{job}/retry", dependencies=[users], responses={409: {"description": "It is in no state for that."}})
def retry_job(job: JobId, state: State, by: User) -> JobChanged:
    """Offer a job again that failed, was cancelled or was set aside."""
    after = state.kept.control.retry(job, by=by.name)
    tell("job retried", job=job, by=by.name)
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
    kept = state.kept
    kept.listing.job(job)
    digest = next((one.samples for one in kept.store.runs(job) if one.run_id == run), None)
    path = kept.store.samples.find(digest) if digest else None
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
    tag = panels_tag(state.kept, detail)
    if (answer := unchanged(request, tag)) is not None:
        return answer
    # Thousands of numbers that are known to be right: they are not checked once more on their way out.
    drawn = to_json(panels_of_job(state.kept, detail))
    return Response(drawn, media_type="application/json", headers={"ETag": tag, "Cache-Control": "no-cache"})


@router.get("/{job}/outputs", dependencies=[readers])
def list_job_outputs(job: JobId, state: State, cursor: Cursor = None, limit: Limit = 50) -> Listed[Output]:
    """List the answers that the runs of a job kept, in the order in which they were asked for."""
    page = outputs_page(state.kept, job, cursor, limit)
    return Listed(page.items, page.next)
