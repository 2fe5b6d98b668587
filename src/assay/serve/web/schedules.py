"""What the API says about schedules and their firings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from pydantic import JsonValue

from assay.place.fleet.protocol import Submission
from assay.plan.cron import next_times, start_of
from assay.spec.watching import Schedule
from assay.store.firings import FiringRecord, Outcome
from assay.store.schedules import ScheduleRecord

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class NextTime:
    """A time at which a schedule will be due."""

    due: float
    local: str
    """The same as a clock of the schedule's zone shows it."""
    starts: float
    """When it begins: later by its share of the jitter."""


@dataclass(frozen=True, slots=True)
class FiringView:
    """One due time of a schedule, and what became of it."""

    id: int
    due: float
    local: str
    """The due time as a clock of the schedule's zone shows it."""
    outcome: Outcome
    """`submitted`, `skipped` (another run was in the way), `missed` (no server ran), `failed`; `waiting` and `taken`
    still go on."""
    fired_at: float | None
    campaign: str | None
    campaign_state: str | None
    """State of the campaign now; null when it was removed."""
    reason: str
    """Why it was late, left out or failed."""
    server: str
    """Who dealt with it."""

    @classmethod
    def of(cls, one: FiringRecord, schedule: Schedule) -> FiringView:
        """A firing as the store knows it."""
        return cls(
            id=one.id,
            due=one.due,
            local=local_time(schedule, one.due),
            outcome=one.outcome,
            fired_at=one.fired_at,
            campaign=one.campaign,
            campaign_state=one.campaign_state,
            reason=one.reason,
            server=one.server,
        )


@dataclass(frozen=True, slots=True)
class ScheduleView:
    """A benchmark that runs by itself."""

    id: str
    name: str
    """Name of the benchmark."""
    state: Literal["active", "paused"]
    schedule: Mapping[str, JsonValue]
    """Its section `schedule`, with every key."""
    next: tuple[NextTime, ...]
    """The next five times; none while it is paused."""
    last: FiringView | None
    """Its newest firing."""
    created_at: float
    changed_at: float
    submitted_by: str

    @classmethod
    def of(cls, one: ScheduleRecord, last: FiringRecord | None, now: datetime) -> ScheduleView:
        """A schedule as the store knows it, seen now."""
        coming = upcoming(one.schedule, one.name, now, _SHOWN) if one.state == "active" else ()
        return cls(
            id=one.id,
            name=one.name,
            state=one.state,
            schedule=one.schedule.model_dump(mode="json"),
            next=coming,
            last=None if last is None else FiringView.of(last, one.schedule),
            created_at=one.created_at,
            changed_at=one.changed_at,
            submitted_by=one.submitted_by,
        )


@dataclass(frozen=True, slots=True)
class ScheduleFull:
    """A schedule with what it submits."""

    summary: ScheduleView
    submission: Submission
    """What is submitted each time: the benchmark file and the files that it names."""


def upcoming(schedule: Schedule, name: str, after: datetime, count: int) -> tuple[NextTime, ...]:
    return tuple(
        NextTime(due.timestamp(), local_time(schedule, due.timestamp()), start_of(schedule, name, due).timestamp())
        for due in next_times(schedule, after, count)
    )


def local_time(schedule: Schedule, moment: float) -> str:
    """A moment as a clock of the schedule's zone shows it, with its distance from UTC."""
    return datetime.fromtimestamp(moment, UTC).astimezone(schedule.zone).isoformat(timespec="seconds")
