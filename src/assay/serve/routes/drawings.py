"""What one job's page shows beside its record: pictures, and the answers that its runs kept."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from assay.documents import to_json
from assay.serve.facts.outputs import outputs_page
from assay.serve.facts.panels import panels_of_job, panels_tag
from assay.serve.facts.records import Output, Panels
from assay.serve.web.access import readers
from assay.serve.web.parameters import Cursor, JobId, Limit, State, unchanged
from assay.serve.web.records import Listed

router = APIRouter(prefix="/api/v1/jobs", tags=["jobs"])


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
