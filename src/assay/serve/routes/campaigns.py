"""Campaigns: submitted, followed, cancelled, repeated, read; and schedules, by which they are submitted again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Literal, cast

from fastapi import APIRouter, Body, Path, Query, Request, Response

from assay.analyse.records import CampaignRecord
from assay.documents import to_json
from assay.place.fleet.protocol import Submission
from assay.plan.job import JobFile
from assay.plan.plan import Plan
from assay.report.answer import WrittenAnswer, write_answer
from assay.report.result import read_campaign
from assay.serve.facts.campaign_page import panels_of_campaign
from assay.serve.facts.job_page import Panels
from assay.serve.live.loops import ScheduleLoop
from assay.serve.observability import log_event
from assay.serve.state import ServerState, ServerStore
from assay.serve.submission import demand_files, keep, keep_schedule, plan_submission, schedule_view, submit
from assay.serve.web.access import (
    Answers,
    CampaignId,
    CampaignStateName,
    Cursor,
    Limit,
    State,
    Text,
    User,
    example,
    readers,
    tagged,
)
from assay.serve.web.problems import RequestProblem
from assay.serve.web.reading import result_tag
from assay.serve.web.records import (
    CampaignChanged,
    CampaignDetail,
    CampaignSubmitted,
    FiringView,
    Listed,
    PlacementView,
    ScheduleFull,
    ScheduleView,
)
from assay.store.listing import JobFilter
from assay.store.records import CampaignSummary
from assay.store.schedules import ScheduleRecord

router = APIRouter(prefix="/api/v1/campaigns", tags=["campaigns"])

Verdicts = Annotated[bool, Query(description="Also count the verdicts of their jobs.")]

_SHOWN = 500
_REMEMBERED = 1000
_MISSING: Answers = {409: {"description": "Files must be uploaded first."}}


@router.post("", status_code=201, responses=_MISSING)
def submit_campaign(submission: Submission, state: State, by: User) -> CampaignSubmitted:
    """Submit a benchmark; says immediately which agents can take its jobs, and what is missing where none can.

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
    verdicts: Verdicts = False,
) -> Listed[CampaignSummary]:
    """List campaigns, the newest first; `text` is part of an id, a name or a label."""
    listing = state.kept.listing
    return Listed.of(
        listing.campaigns(state=only, benchmark=benchmark, text=text, cursor=cursor, limit=limit, verdicts=verdicts)
    )


@router.get("/{campaign}", dependencies=[readers])
def get_campaign(campaign: CampaignId, state: State) -> CampaignDetail:
    """Read how far a campaign is, with its first 500 jobs."""
    server_store = state.kept
    summary = server_store.listing.campaign(campaign)
    jobs = server_store.listing.jobs(JobFilter(campaign=campaign), limit=_SHOWN).items
    return CampaignDetail.of(summary, _runs(state, campaign), jobs)


@router.delete("/{campaign}", status_code=204, responses={409: {"description": "It is running."}})
def remove_campaign(campaign: CampaignId, state: State, by: User) -> None:
    """Remove a campaign with its results; one that runs must be cancelled first."""
    state.kept.store.remove(campaign)
    state.feed.rewind(state.kept.control.last_event())
    log_event("campaign removed", campaign=campaign, by=by.name)


@router.post("/{campaign}/cancel")
def cancel_campaign(campaign: CampaignId, state: State, by: User) -> CampaignChanged:
    """Cancel what has not ended."""
    jobs = state.kept.control.cancel_campaign(campaign, by=by.name)
    state.kept.queue.withdraw(jobs)
    return _changed(state, campaign, jobs, "campaign cancelled", by.name)


@router.post("/{campaign}/retry")
def retry_campaign(campaign: CampaignId, state: State, by: User) -> CampaignChanged:
    """Offer jobs again that failed, were cancelled or were set aside."""
    jobs = state.kept.control.retry_campaign(campaign, by=by.name)
    return _changed(state, campaign, jobs, "campaign retried", by.name)


@router.post("/{campaign}/resubmit", status_code=201, responses=_MISSING)
def resubmit_campaign(campaign: CampaignId, state: State, by: User) -> CampaignSubmitted:
    """Submit the same benchmark once more, as a new campaign."""
    server_store = state.kept
    summary, jobs = server_store.store.campaign(campaign)
    files: dict[str, tuple[JobFile, ...]] = {
        text: job_files for stored in jobs for text, job_files in stored.job.files.items()
    }
    again = Submission(
        document=server_store.listing.campaign_document(campaign),
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
    return _tagged(state, campaign, request, to_json)


@router.get(
    "/{campaign}/answer",
    dependencies=[readers],
    response_model=WrittenAnswer,
    responses={304: {"description": "It has not changed."}},
)
def get_campaign_answer(campaign: CampaignId, state: State, request: Request) -> Response:
    """Read what a campaign answers, in words: the best point, the effect of each axis, doubts by reason, failures."""
    return _tagged(state, campaign, request, lambda record: to_json(write_answer(record)))


@router.get(
    "/{campaign}/panels",
    dependencies=[readers],
    response_model=Panels,
    responses={304: {"description": "They have not changed."}},
)
def get_campaign_panels(campaign: CampaignId, state: State, request: Request) -> Response:
    """Read the pictures over all jobs of a campaign, drawn as the HTML report draws them, each with its numbers."""
    return _tagged(state, campaign, request, lambda record: to_json(panels_of_campaign(record)))


def _tagged(state: ServerState, campaign: str, request: Request, make: Callable[[CampaignRecord], str]) -> Response:
    kept = state.kept
    return tagged(request, result_tag(kept, campaign), lambda: make(read_campaign(kept.store, campaign)))


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
        from assay.report.result import file_reader

        return render_html(record, kept.store.samples_of, file_reader(kept.store))
    return to_json(record, indent=2)


def _answer(state: ServerState, plan: Plan, by: str) -> CampaignSubmitted:
    campaign = plan.jobs[0].campaign
    log_event("campaign submitted", campaign=campaign, benchmark=plan.benchmark, jobs=len(plan.jobs), by=by)
    summary = state.kept.listing.campaign(campaign)
    placement = PlacementView.of(state.kept.control.placement(campaign))
    return CampaignSubmitted(campaign, plan.benchmark, summary.state, len(plan.jobs), placement)


def _changed(state: ServerState, campaign: str, jobs: tuple[str, ...], event: str, by: str) -> CampaignChanged:
    log_event(event, campaign=campaign, jobs=len(jobs), by=by)
    state.changed()
    return CampaignChanged(campaign, state.kept.listing.campaign(campaign).state, jobs)


def _runs(state: ServerState, campaign: str) -> int:
    """How many runs a campaign has in all; its jobs never change, so they are read once."""
    if campaign not in state.runs:
        if len(state.runs) >= _REMEMBERED:
            state.runs.clear()
        jobs = state.kept.store.campaign(campaign)[1]
        state.runs[campaign] = sum(stored.job.definition.measure.least_runs for stored in jobs)
    return state.runs[campaign]


schedules_router = APIRouter(prefix="/api/v1/schedules", tags=["schedules"])

ScheduleId = Annotated[str, Path(max_length=200, description="Id of the schedule, or the name of its benchmark.")]
ScheduleStateName = Annotated[Literal["", "active", "paused"], Query(alias="state")]

_SECTION = {"cron": "0 3 * * mon-fri", "timezone": "Europe/Luxembourg", "jitter": 600.0, "missed": "once",
            "overlap": "skip"}  # fmt: skip
_FIRING = {
    "id": 17, "due": 1795485600.0, "local": "2026-11-24T03:00:00+01:00", "outcome": "submitted",
    "fired_at": 1795485893.4, "campaign": "c4f7a21b9", "campaign_state": "done", "reason": "", "server": "lab-1:4711",
}  # fmt: skip
_VIEW = {
    "id": "s1f09ab34", "name": "nightly squeezenet", "state": "active", "schedule": _SECTION,
    "next": [{"due": 1795572000.0, "local": "2026-11-25T03:00:00+01:00", "starts": 1795572211.0}],
    "last": _FIRING, "created_at": 1795000000.0, "changed_at": 1795000000.0, "submitted_by": "ci",
}  # fmt: skip
_DOCUMENT = {"benchmark": "nightly squeezenet", "target": {"model": "squeezenet"}, "schedule": _SECTION}
_GIVEN = Body(openapi_examples={"nightly": {"summary": "Every night of the week", "value": {"document": _DOCUMENT}}})


_MADE: Answers = {
    **example(_VIEW, 201, description="It is new."),
    200: {"description": "The one of this name was changed.", "model": ScheduleView},
    409: {"description": "Files must be uploaded first."},
}


@schedules_router.post("", status_code=201, responses=_MADE)
def add_schedule(submission: Annotated[Submission, _GIVEN], state: State, response: Response, by: User) -> ScheduleView:
    """Keep a benchmark with a `schedule` to be submitted at its times; one of the same name is changed."""
    planned = plan_submission(state, submission, by=by.name)
    demand_files(state.kept, planned.plan)
    view, new = keep_schedule(state, planned, submission, by=by.name)
    response.status_code = 201 if new else 200
    return view


@schedules_router.get("", dependencies=[readers], responses=example({"items": [_VIEW], "next": None}))
def list_schedules(
    state: State, cursor: Cursor = None, limit: Limit = 50, only: ScheduleStateName = "", text: Text = ""
) -> Listed[ScheduleView]:
    """List schedules by name, each with its next five times and its newest firing."""
    page = state.kept.schedules.schedules(state=only, text=text, cursor=cursor, limit=limit)
    newest = state.kept.firings.newest([record.id for record in page.items])
    now = state.clock.utc()
    return Listed(tuple(ScheduleView.of(record, newest.get(record.id), now) for record in page.items), page.next)


@schedules_router.get(
    "/{schedule}", dependencies=[readers], responses=example({"summary": _VIEW, "submission": {"document": _DOCUMENT}})
)
def get_schedule(schedule: ScheduleId, state: State) -> ScheduleFull:
    """Read a schedule with what it submits."""
    record = state.kept.schedules.get(schedule)
    return ScheduleFull(schedule_view(state, record), record.submission or Submission())


@schedules_router.delete("/{schedule}", status_code=204)
def remove_schedule(schedule: ScheduleId, state: State, by: User) -> None:
    """Remove a schedule with its history; the campaigns that it submitted stay."""
    removed = state.kept.schedules.remove(schedule)
    log_event("schedule removed", schedule=removed, by=by.name)
    state.changed(jobs=False)


@schedules_router.post("/{schedule}/pause", responses=example({**_VIEW, "state": "paused", "next": []}))
def pause_schedule(schedule: ScheduleId, state: State, by: User) -> ScheduleView:
    """Let a schedule rest."""
    return _schedule_changed(state, state.kept.schedules.pause(schedule), "schedule paused", by.name)


@schedules_router.post("/{schedule}/resume", responses=example(_VIEW))
def resume_schedule(schedule: ScheduleId, state: State, by: User) -> ScheduleView:
    """Resume a paused schedule; missed times are not made up for."""
    return _schedule_changed(state, state.kept.schedules.resume(schedule), "schedule resumed", by.name)


@schedules_router.post("/{schedule}/run", responses=example({**_FIRING, "reason": "asked for"}))
def run_schedule(schedule: ScheduleId, state: State, by: User) -> FiringView:
    """Fire now, beside the due times and also while paused; what `overlap` says counts here too."""
    record = state.kept.schedules.get(schedule)
    log_event("schedule asked for", schedule=record.id, by=by.name)
    scheduler = ScheduleLoop(state)
    firing = scheduler.fire(state.kept.firings.take_now(record.id, scheduler.server))
    return FiringView.of(firing, record.schedule)


@schedules_router.get(
    "/{schedule}/firings", dependencies=[readers], responses=example({"items": [_FIRING], "next": None})
)
def list_firings(schedule: ScheduleId, state: State, cursor: Cursor = None, limit: Limit = 50) -> Listed[FiringView]:
    """List the outcome of each due time, the newest first, with reasons."""
    record = state.kept.schedules.get(schedule)
    page = state.kept.firings.firings(record.id, cursor=cursor, limit=limit)
    return Listed(tuple(FiringView.of(firing, record.schedule) for firing in page.items), page.next)


def _schedule_changed(state: ServerState, record: ScheduleRecord, event: str, by: str) -> ScheduleView:
    log_event(event, schedule=record.id, by=by)
    state.changed(jobs=False)
    return schedule_view(state, record)
