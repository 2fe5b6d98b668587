"""Campaigns: submitted, followed, cancelled, repeated, read."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, cast

from fastapi import APIRouter, Request, Response

from assay.analyse.records import CampaignRecord
from assay.documents import to_json
from assay.place.fleet.protocol import Submission
from assay.plan.job import JobFile
from assay.plan.plan import Plan
from assay.report.reading import read_campaign
from assay.serve.intake.submission import demand_files, keep, keep_schedule, plan_submission, submit
from assay.serve.observability import tell
from assay.serve.state import ServerState, ServerStore
from assay.serve.web.access import (
    Answers,
    CampaignId,
    CampaignStateName,
    Cursor,
    Limit,
    State,
    Text,
    User,
    readers,
    unchanged,
    users,
)
from assay.serve.web.problems import RequestProblem
from assay.serve.web.reading import result_tag
from assay.serve.web.records import (
    CampaignChanged,
    CampaignDetail,
    CampaignSubmitted,
    Listed,
    PlacementView,
)
from assay.store.listing import JobFilter
from assay.store.records import CampaignSummary

router = APIRouter(prefix="/api/v1/campaigns", tags=["campaigns"])

_SHOWN = 500
_REMEMBERED = 1000
_MISSING: Answers = {409: {"description": "Files must be uploaded first."}}


@router.post("", dependencies=[users], status_code=201, responses=_MISSING)
def submit_campaign(submission: Submission, state: State, by: User) -> CampaignSubmitted:
    """Submit a benchmark; says at once who can take its jobs, and what is missing where nobody can.

    One with a `schedule` is also kept to be submitted again at its times.
    """
    planned = plan_submission(state, submission, by=by.name)
    demand_files(state.kept, planned.plan)
    scheduled = None
    if planned.document.get("schedule") is not None:
        scheduled, _ = keep_schedule(state, planned, submission, by=by.name)
    return replace(_answer(state, keep(state, planned), by.name), schedule=scheduled)


@router.get("", dependencies=[readers])
def list_campaigns(
    state: State,
    cursor: Cursor = None,
    limit: Limit = 50,
    only: CampaignStateName = "",
    benchmark: Text = "",
    text: Text = "",
) -> Listed[CampaignSummary]:
    """List campaigns, the newest first; `text` is part of an id, a name or a label."""
    page = state.kept.listing.campaigns(state=only, benchmark=benchmark, text=text, cursor=cursor, limit=limit)
    return Listed(page.items, page.next)


@router.get("/{campaign}", dependencies=[readers])
def get_campaign(campaign: CampaignId, state: State) -> CampaignDetail:
    """Read how far a campaign is, with its first 500 jobs."""
    kept = state.kept
    summary = kept.listing.campaign(campaign)
    jobs = kept.listing.jobs(JobFilter(campaign=campaign), limit=_SHOWN).items
    return CampaignDetail.of(summary, _runs(state, campaign), jobs)


@router.delete("/{campaign}", dependencies=[users], status_code=204, responses={409: {"description": "It is running."}})
def remove_campaign(campaign: CampaignId, state: State, by: User) -> None:
    """Remove a campaign with its results; one that runs must be cancelled first."""
    state.kept.store.remove(campaign)
    state.feed.rewind(state.kept.control.last_event())
    tell("campaign removed", campaign=campaign, by=by.name)


@router.post("/{campaign}/cancel", dependencies=[users])
def cancel_campaign(campaign: CampaignId, state: State, by: User) -> CampaignChanged:
    """Cancel what has not ended."""
    jobs = state.kept.control.cancel_campaign(campaign, by=by.name)
    state.kept.queue.withdraw(jobs)
    return _changed(state, campaign, jobs, "campaign cancelled", by.name)


@router.post("/{campaign}/retry", dependencies=[users])
def retry_campaign(campaign: CampaignId, state: State, by: User) -> CampaignChanged:
    """Offer jobs again that failed, were cancelled or were set aside."""
    jobs = state.kept.control.retry_campaign(campaign, by=by.name)
    return _changed(state, campaign, jobs, "campaign retried", by.name)


@router.post("/{campaign}/resubmit", dependencies=[users], status_code=201, responses=_MISSING)
def resubmit_campaign(campaign: CampaignId, state: State, by: User) -> CampaignSubmitted:
    """Submit the same benchmark once more, as a new campaign."""
    kept = state.kept
    summary, jobs = kept.store.campaign(campaign)
    files: dict[str, tuple[JobFile, ...]] = {text: found for one in jobs for text, found in one.job.files.items()}
    again = Submission(
        document=kept.listing.campaign_document(campaign),
        files=files,
        labels=summary.labels,
        priority=summary.priority,
        unplaceable=cast("Literal['wait', 'fail']", summary.unplaceable),
        spread=cast("Literal['any', 'spread', 'pack']", summary.spread),
    )
    return _answer(state, submit(state, again, by=by.name, origin=summary.origin), by.name)


@router.get("/{campaign}/placement", dependencies=[readers])
def get_placement(campaign: CampaignId, state: State) -> PlacementView:
    """Read who can take the jobs, and what every other agent lacks."""
    return PlacementView.of(state.kept.control.placement(campaign))


@router.get(
    "/{campaign}/result",
    dependencies=[readers],
    response_model=CampaignRecord,
    responses={304: {"description": "It has not changed."}},
)
def get_campaign_result(campaign: CampaignId, state: State, request: Request) -> Response:
    """Read the result document as it is now, finished or not."""
    tag = result_tag(state.kept, campaign)
    same = unchanged(request, tag)
    if same is not None:
        return same
    record = read_campaign(state.kept.store, campaign)
    return Response(to_json(record), media_type="application/json", headers={"ETag": tag, "Cache-Control": "no-cache"})


_FORMS = {"csv": "text/csv", "json": "application/json", "md": "text/markdown", "html": "text/html"}
_FORM_ANSWERS: Answers = {200: {"content": {kind: {"schema": {"type": "string"}} for kind in _FORMS.values()}}}


@router.get("/{campaign}/results.{form}", dependencies=[readers], response_class=Response, responses=_FORM_ANSWERS)
def download_results(campaign: CampaignId, form: str, state: State) -> Response:
    """Download the results as `csv`, `json`, `md` or `html`."""
    if form not in _FORMS:
        raise RequestProblem(404, f"there is no form {form[:20]!r}", code="unknown-form", try_="csv, json, md or html")
    record = read_campaign(state.kept.store, campaign)
    headers = {"Content-Disposition": f'attachment; filename="{record.campaign}.{form}"'}
    if form == "html":  # its styles are inside
        headers = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:"}
    return Response(_rendered(state.kept, record, form), media_type=_FORMS[form], headers=headers)


def _rendered(kept: ServerStore, record: CampaignRecord, form: str) -> str:
    if form == "csv":
        from assay.report.export import render_csv

        return render_csv(record)
    if form == "md":
        from assay.report.markdown import render_markdown

        return render_markdown(record)
    if form == "html":
        from assay.report.html import render_html
        from assay.report.reading import file_reader

        return render_html(record, kept.store.samples_of, file_reader(kept.store))
    return to_json(record, indent=2)


def _answer(state: ServerState, plan: Plan, by: str) -> CampaignSubmitted:
    campaign = plan.jobs[0].campaign
    tell("campaign submitted", campaign=campaign, benchmark=plan.benchmark, jobs=len(plan.jobs), by=by)
    summary = state.kept.listing.campaign(campaign)
    placement = PlacementView.of(state.kept.control.placement(campaign))
    return CampaignSubmitted(campaign, plan.benchmark, summary.state, len(plan.jobs), placement)


def _changed(state: ServerState, campaign: str, jobs: tuple[str, ...], event: str, by: str) -> CampaignChanged:
    tell(event, campaign=campaign, jobs=len(jobs), by=by)
    state.changed()
    return CampaignChanged(campaign, state.kept.listing.campaign(campaign).state, jobs)


def _runs(state: ServerState, campaign: str) -> int:
    """How many runs a campaign has in all; its jobs never change, so they are read once."""
    if campaign not in state.runs:
        if len(state.runs) >= _REMEMBERED:
            state.runs.clear()
        jobs = state.kept.store.campaign(campaign)[1]
        state.runs[campaign] = sum(one.job.definition.measure.runs for one in jobs)
    return state.runs[campaign]
