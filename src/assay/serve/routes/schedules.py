"""Schedules: benchmarks that run by themselves, and what became of each due time."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Path, Query, Response

from assay.place.fleet.protocol import Submission
from assay.serve.intake.submission import demand_files, keep_schedule, plan_submission, schedule_view
from assay.serve.live.scheduler import ScheduleLoop
from assay.serve.observability import tell
from assay.serve.state import ServerState
from assay.serve.web.access import Answers, Cursor, Limit, State, Text, User, readers, users
from assay.serve.web.records import FiringView, Listed, ScheduleFull, ScheduleView
from assay.store.firings import Firings
from assay.store.schedules import ScheduleRecord, Schedules

router = APIRouter(prefix="/api/v1/schedules", tags=["schedules"])

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


def _shows(example: dict[str, Any], status: int = 200, said: str = "Successful Response") -> Answers:
    return {status: {"description": said, "content": {"application/json": {"example": example}}}}


_MADE: Answers = {
    **_shows(_VIEW, 201, "It is new."),
    200: {"description": "The one of this name was changed.", "model": ScheduleView},
    409: {"description": "Files must be uploaded first."},
}


@router.post("", dependencies=[users], status_code=201, responses=_MADE)
def add_schedule(submission: Annotated[Submission, _GIVEN], state: State, response: Response, by: User) -> ScheduleView:
    """Keep a benchmark with a `schedule` to be submitted at its times; one of the same name is changed."""
    planned = plan_submission(state, submission, by=by.name)
    demand_files(state.kept, planned.plan)
    view, new = keep_schedule(state, planned, submission, by=by.name)
    response.status_code = 201 if new else 200
    return view


@router.get("", dependencies=[readers], responses=_shows({"items": [_VIEW], "next": None}))
def list_schedules(
    state: State, cursor: Cursor = None, limit: Limit = 50, only: ScheduleStateName = "", text: Text = ""
) -> Listed[ScheduleView]:
    """List schedules by name, each with its next five times and its newest firing."""
    page = _schedules(state).schedules(state=only, text=text, cursor=cursor, limit=limit)
    newest = _firings(state).newest([one.id for one in page.items])
    now = state.clock.utc()
    return Listed(tuple(ScheduleView.of(one, newest.get(one.id), now) for one in page.items), page.next)


@router.get(
    "/{schedule}", dependencies=[readers], responses=_shows({"summary": _VIEW, "submission": {"document": _DOCUMENT}})
)
def get_schedule(schedule: ScheduleId, state: State) -> ScheduleFull:
    """Read a schedule with what it submits."""
    record = _schedules(state).get(schedule)
    return ScheduleFull(schedule_view(state, record), record.submission or Submission())


@router.delete("/{schedule}", dependencies=[users], status_code=204)
def remove_schedule(schedule: ScheduleId, state: State, by: User) -> None:
    """Remove a schedule with its history; the campaigns that it submitted stay."""
    removed = _schedules(state).remove(schedule)
    tell("schedule removed", schedule=removed, by=by.name)
    state.changed(jobs=False)


@router.post("/{schedule}/pause", dependencies=[users], responses=_shows({**_VIEW, "state": "paused", "next": []}))
def pause_schedule(schedule: ScheduleId, state: State, by: User) -> ScheduleView:
    """Let a schedule rest."""
    return _changed(state, _schedules(state).pause(schedule), "schedule paused", by.name)


@router.post("/{schedule}/resume", dependencies=[users], responses=_shows(_VIEW))
def resume_schedule(schedule: ScheduleId, state: State, by: User) -> ScheduleView:
    """Let a paused schedule go on; what was due meanwhile is not made up for."""
    return _changed(state, _schedules(state).resume(schedule), "schedule resumed", by.name)


@router.post("/{schedule}/run", dependencies=[users], responses=_shows({**_FIRING, "reason": "asked for"}))
def run_schedule(schedule: ScheduleId, state: State, by: User) -> FiringView:
    """Fire now, beside the due times and also while paused; what `overlap` says counts here too."""
    record = _schedules(state).get(schedule)
    tell("schedule asked for", schedule=record.id, by=by.name)
    scheduler = ScheduleLoop(state)
    firing = scheduler.fire(_firings(state).take_now(record.id, scheduler.server))
    return FiringView.of(firing, record.schedule)


@router.get("/{schedule}/firings", dependencies=[readers], responses=_shows({"items": [_FIRING], "next": None}))
def list_firings(schedule: ScheduleId, state: State, cursor: Cursor = None, limit: Limit = 50) -> Listed[FiringView]:
    """List what became of each due time, the newest first, with reasons."""
    record = _schedules(state).get(schedule)
    page = _firings(state).firings(record.id, cursor=cursor, limit=limit)
    return Listed(tuple(FiringView.of(one, record.schedule) for one in page.items), page.next)


def _changed(state: ServerState, record: ScheduleRecord, event: str, by: str) -> ScheduleView:
    tell(event, schedule=record.id, by=by)
    state.changed(jobs=False)
    return schedule_view(state, record)


def _schedules(state: ServerState) -> Schedules:
    return Schedules(state.kept.store.engine, state.clock)


def _firings(state: ServerState) -> Firings:
    return Firings(state.kept.store.engine, state.clock)
