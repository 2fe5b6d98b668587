"""Schedules: benchmarks that run by themselves, kept by name."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from pydantic import ValidationError
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session, defer

from assay.clock import Clock
from assay.documents import adapter, to_plain
from assay.errors import StoreError, UsageError
from assay.place.fleet.protocol import Submission
from assay.spec.schedule import Schedule
from assay.store.database import insert_into, reading, writing
from assay.store.listing import Page, bounded, from_cursor, page_of
from assay.store.tables import ScheduleRow

ScheduleState = Literal["active", "paused"]


@dataclass(frozen=True, slots=True)
class ScheduleRecord:
    """A benchmark that runs by itself."""

    id: str
    name: str
    """Of the benchmark; there is one schedule for each name."""
    schedule: Schedule
    state: ScheduleState
    created_at: float
    changed_at: float
    considered_to: float
    """Due times up to here have been dealt with."""
    submitted_by: str
    submission: Submission | None = None
    """What is submitted each time; lists leave it out."""


@dataclass(frozen=True, slots=True)
class ScheduleTiming:
    """What a server must know of a schedule to see whether it is due."""

    id: str
    name: str
    section: Mapping[str, Any]
    considered_to: float
    changed_at: float


class Schedules:
    """Keeping, reading, pausing and removing schedules."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    def keep(self, name: str, schedule: Schedule, submission: Submission, by: str) -> tuple[ScheduleRecord, bool]:
        """Make a schedule, or change the one of this name; the second part says whether it is new.

        A schedule whose times change begins anew with them: what the old ones missed is not made up for. A paused one
        stays paused.
        """
        now = self._now()
        values: dict[str, Any] = {
            "id": "s" + secrets.token_hex(4),
            "name": name,
            "document": to_plain(submission),
            "schedule": schedule.model_dump(mode="json"),
            "submitted_by": by,
        }
        fresh = {"state": "active", "created_at": now, "changed_at": now, "considered_to": now}
        with writing(self._engine) as session:
            session.execute(
                insert_into(session, ScheduleRow)
                .values(**values, **fresh)
                .on_conflict_do_nothing(index_elements=["name"])
            )
            row = session.scalars(
                select(ScheduleRow).where(ScheduleRow.name == name).with_for_update(key_share=True)
            ).one()
            if row.id == values["id"]:
                return _record(row), True
            if row.schedule != values["schedule"]:
                row.schedule, row.considered_to = values["schedule"], now
            row.document, row.submitted_by, row.changed_at = values["document"], by, now
            session.flush()
            return _record(row), False

    def get(self, reference: str) -> ScheduleRecord:
        """A schedule by its id or its name.

        Raises:
            UsageError: `unknown-schedule` if there is none.
        """
        with reading(self._engine) as session:
            return _record(_find(session, reference))

    def schedules(
        self, *, state: str = "", text: str = "", cursor: str | None = None, limit: int = 50
    ) -> Page[ScheduleRecord]:
        """Schedules by name, without what they submit.

        Raises:
            UsageError: `cursor` if it is not one of this list.
        """
        query = select(ScheduleRow).options(defer(ScheduleRow.document))
        if state:
            query = query.where(ScheduleRow.state == state)
        if text:
            query = query.where(ScheduleRow.name.icontains(text, autoescape=True))
        if cursor:
            query = query.where(ScheduleRow.name > from_cursor(cursor, str)[0])
        with reading(self._engine) as session:
            rows = session.scalars(query.order_by(ScheduleRow.name).limit(bounded(limit) + 1)).all()
        return page_of(rows, bounded(limit), lambda row: (row.name,), lambda row: _record(row, whole=False))

    def watched(self) -> Sequence[ScheduleTiming]:
        query = select(
            ScheduleRow.id, ScheduleRow.name, ScheduleRow.schedule, ScheduleRow.considered_to, ScheduleRow.changed_at
        ).where(ScheduleRow.state == "active")
        with reading(self._engine) as session:
            return [ScheduleTiming(*row) for row in session.execute(query.order_by(ScheduleRow.id))]

    def pause(self, reference: str) -> ScheduleRecord:
        """Let a schedule rest: nothing fires until it is resumed."""
        return self._set(reference, "paused")

    def resume(self, reference: str) -> ScheduleRecord:
        """Let a paused schedule go on; what was due meanwhile was not wanted and is not made up for."""
        return self._set(reference, "active")

    def remove(self, reference: str) -> str:
        """Forget a schedule and its firings, not the campaigns that it submitted; return its id."""
        with writing(self._engine) as session:
            row = _find(session, reference, lock=True)
            session.delete(row)
            return row.id

    def _set(self, reference: str, state: ScheduleState) -> ScheduleRecord:
        with writing(self._engine) as session:
            row = _find(session, reference, lock=True)
            if row.state != state:
                row.state, row.changed_at = state, self._now()
                if state == "active":
                    row.considered_to = self._now()
                session.flush()
            return _record(row)

    def _now(self) -> float:
        return self._clock.utc().timestamp()


def unknown_schedule(reference: str) -> UsageError:
    return UsageError(
        f"no schedule {reference!r} is kept", code="unknown-schedule", try_="`assay schedule list` shows what is there"
    )


def read_schedule(section: Mapping[str, Any], name: str) -> Schedule:
    """The times of a schedule, as its row keeps them.

    Raises:
        StoreError: `schedule` if this machine cannot make sense of them, such as of a time zone that it does not know.
    """
    try:
        return Schedule.model_validate(section)
    except ValidationError as invalid:
        said = invalid.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
        raise StoreError(f"the schedule of {name!r} cannot be read here: {said}", code="schedule") from None


def _find(session: Session, reference: str, *, lock: bool = False) -> ScheduleRow:
    query = select(ScheduleRow).where((ScheduleRow.id == reference) | (ScheduleRow.name == reference))
    rows = session.scalars(query.with_for_update(key_share=True) if lock else query).all()
    if not rows:
        raise unknown_schedule(reference)
    return next((row for row in rows if row.id == reference), rows[0])


def _record(row: ScheduleRow, *, whole: bool = True) -> ScheduleRecord:
    return ScheduleRecord(
        id=row.id,
        name=row.name,
        schedule=read_schedule(row.schedule, row.name),
        state=cast("ScheduleState", row.state),
        created_at=row.created_at,
        changed_at=row.changed_at,
        considered_to=row.considered_to,
        submitted_by=row.submitted_by,
        submission=adapter(Submission).validate_python(row.document) if whole else None,
    )
