"""Schedules: benchmarks that run by themselves, kept by name; and their firings: due times and their outcomes."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from pydantic import ValidationError
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, defer

from assay.documents import adapter, to_plain
from assay.errors import StoreError, UsageError
from assay.place.fleet.protocol import Submission
from assay.plan.schedule import MOST_AT_ONCE, ScheduleDecision, decide, due_between, in_words, start_of
from assay.spec.schedule import Schedule
from assay.store.database import TableAccess, insert_into, record_from
from assay.store.listing import Page, page_of, page_query, read_page
from assay.store.tables import CampaignRow, FiringRow, ScheduleRow

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


class Schedules(TableAccess):
    def keep(self, name: str, schedule: Schedule, submission: Submission, by: str) -> tuple[ScheduleRecord, bool]:
        """Make a schedule, or change the one of this name; the second part says whether it is new.

        A schedule whose times change starts over with them: what the old ones missed is not made up for. A paused one
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
        with self._writing() as session:
            session.execute(
                insert_into(session, ScheduleRow)
                .values(**values, **fresh)
                .on_conflict_do_nothing(index_elements=["name"])
            )
            row = session.scalars(
                select(ScheduleRow).where(ScheduleRow.name == name).with_for_update(key_share=True)
            ).one()
            if row.id == values["id"]:
                return _schedule(row), True
            if row.schedule != values["schedule"]:
                row.schedule, row.considered_to = values["schedule"], now
            row.document, row.submitted_by, row.changed_at = values["document"], by, now
            session.flush()
            return _schedule(row), False

    def get(self, reference: str) -> ScheduleRecord:
        with self._reading() as session:
            return _schedule(_find(session, reference))

    def schedules(
        self, *, state: str = "", text: str = "", cursor: str | None = None, limit: int = 50
    ) -> Page[ScheduleRecord]:
        query = select(ScheduleRow).options(defer(ScheduleRow.document))
        if state:
            query = query.where(ScheduleRow.state == state)
        if text:
            query = query.where(ScheduleRow.name.icontains(text, autoescape=True))
        with self._reading() as session:
            page = read_page(session, query, (ScheduleRow.name,), cursor, limit)
        return page.map(lambda row: _schedule(row, whole=False))

    def watched(self) -> Sequence[ScheduleTiming]:
        row = ScheduleRow
        query = select(row.id, row.name, row.schedule, row.considered_to, row.changed_at).where(row.state == "active")
        return [ScheduleTiming(*timing) for timing in self._rows(query.order_by(row.id))]

    def pause(self, reference: str) -> ScheduleRecord:
        return self._set(reference, "paused")

    def resume(self, reference: str) -> ScheduleRecord:
        """Resume a paused schedule; due times in between are not made up for."""
        return self._set(reference, "active")

    def remove(self, reference: str) -> str:
        """Forget a schedule and its firings, not the campaigns that it submitted; return its id."""
        with self._writing() as session:
            row = _find(session, reference, lock=True)
            session.delete(row)
            return row.id

    def _set(self, reference: str, state: ScheduleState) -> ScheduleRecord:
        with self._writing() as session:
            row = _find(session, reference, lock=True)
            if row.state != state:
                row.state, row.changed_at = state, self._now()
                if state == "active":
                    row.considered_to = self._now()
                session.flush()
            return _schedule(row)


def unknown_schedule(reference: str) -> UsageError:
    return UsageError(
        f"no schedule {reference!r} is kept", code="unknown-schedule", try_="`assay schedules list` shows what is there"
    )


def read_schedule(section: Mapping[str, Any], name: str) -> Schedule:
    """The times of a schedule, as its row keeps them."""
    try:
        return Schedule.model_validate(section)
    except ValidationError as invalid:
        reason = invalid.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
        raise StoreError(f"the schedule of {name!r} cannot be read here: {reason}", code="schedule") from None


def _find(session: Session, reference: str, *, lock: bool = False) -> ScheduleRow:
    query = select(ScheduleRow).where((ScheduleRow.id == reference) | (ScheduleRow.name == reference))
    rows = session.scalars(query.with_for_update(key_share=True) if lock else query).all()
    if not rows:
        raise unknown_schedule(reference)
    return next((row for row in rows if row.id == reference), rows[0])


def _schedule(row: ScheduleRow, *, whole: bool = True) -> ScheduleRecord:
    return record_from(
        ScheduleRecord,
        row,
        schedule=read_schedule(row.schedule, row.name),
        submission=adapter(Submission).validate_python(row.document) if whole else None,
    )


Outcome = Literal["taken", "waiting", "submitted", "skipped", "missed", "failed"]

# Planning and keeping a campaign takes well under a second: a server that needs longer than this is taken to be gone.
# One that was only slow does no harm: the first one keeps its campaign.
LEASE_S = 20.0
# Due times of one outage that get a row each; of older ones the first row says that there were some.
_MOST_ROWS = 100
_OVER_AT_ONCE = 20
_WORDS: dict[str, Outcome] = {"fire": "taken", "wait": "waiting", "miss": "missed"}
_WITH_STATE = select(FiringRow, CampaignRow.state, FiringRow.due).outerjoin(
    CampaignRow, CampaignRow.id == FiringRow.campaign_id
)


@dataclass(frozen=True, slots=True)
class FiringRecord:
    """One due time of a schedule, and its outcome."""

    id: int
    schedule: str
    """Id of the schedule."""
    due: float
    outcome: Outcome
    """`taken` and `waiting` are not final; the others are."""
    fired_at: float | None
    """When it was taken, or submitted."""
    campaign: str | None
    reason: str
    """Why it was late, left out or failed."""
    server: str
    """Who dealt with it."""
    campaign_state: str | None = None
    """State of the campaign now; None when it was removed."""


@dataclass(frozen=True, slots=True)
class FiringObstacles:
    """What stands in the way of a firing."""

    campaigns: tuple[str, ...]
    """Campaigns of the same schedule that still run."""
    before: tuple[FiringRecord, ...]
    """Firings of earlier due times that are under way or wait."""

    @property
    def in_words(self) -> str:
        """Why it cannot begin; empty when it can."""
        if self.campaigns:
            return f"campaign {self.campaigns[0]} still runs"
        if self.before:
            word = "still waits" if self.before[0].outcome == "waiting" else "is still under way"
            return f"the firing of {in_words(datetime.fromtimestamp(self.before[0].due, UTC))} {word}"
        return ""


class FiringLostError(Exception):
    """The firing is no longer this server's: another one dealt with it, or its schedule was removed."""


class OverlapError(Exception):
    """A campaign of the same schedule began to run in this very moment."""


class Firings(TableAccess):
    # Taking

    def take_due(self, schedule: str, server: str) -> tuple[FiringRecord, ...]:
        """Take what is due of a schedule; nothing when another server is at it, or it is paused."""
        with self._writing() as session:
            query = select(ScheduleRow).where(ScheduleRow.id == schedule, ScheduleRow.state == "active")
            row = session.scalars(query.with_for_update(key_share=True, skip_locked=True)).one_or_none()
            decided = () if row is None else self._decide(row)
            if row is None or not decided:
                return ()
            ids = [
                self._insert(session, row.id, decision.due.timestamp(), _WORDS[decision.word], decision.because, server)
                for decision in decided
            ]
            row.considered_to = decided[-1].due.timestamp()
            session.flush()
            return _taken(session, ids)

    def take_now(self, schedule: str, server: str) -> FiringRecord:
        """Take a firing that is due because it was requested."""
        due = self._now()
        with self._writing() as session:
            if session.get(ScheduleRow, schedule) is None:
                raise unknown_schedule(schedule)
            while (firing := self._insert(session, schedule, due, "taken", "asked for", server)) is None:
                due += 1e-6  # two may ask in the same moment
            return _taken(session, [firing])[0]

    def take_over(self, server: str) -> tuple[FiringRecord, ...]:
        """Take the firings of servers that took them and then fell silent."""
        now = self._now()
        left = (FiringRow.outcome == "taken", FiringRow.fired_at < now - LEASE_S)
        taken: list[FiringRecord] = []
        for firing in self._scalars(select(FiringRow.id).where(*left).order_by(FiringRow.due).limit(_OVER_AT_ONCE)):
            change = update(FiringRow).where(FiringRow.id == firing, *left).values(server=server, fired_at=now)
            with self._writing() as session:
                taken += _taken(session, [session.scalar(change.returning(FiringRow.id))])
        return tuple(taken)

    def take_waiting(self, server: str) -> tuple[FiringRecord, ...]:
        """Take the oldest waiting firing of each active schedule that nothing stands in the way of."""
        waiting = select(FiringRow.schedule_id).join(ScheduleRow, ScheduleRow.id == FiringRow.schedule_id)
        waiting = waiting.where(FiringRow.outcome == "waiting", ScheduleRow.state == "active").distinct()
        taken: list[FiringRecord] = []
        for schedule in sorted(self._scalars(waiting)):
            with self._writing() as session:
                if _lock(session, schedule, skip_locked=True):
                    taken += self._next_waiting(session, schedule, server)
        return tuple(taken)

    # Outcomes

    def standing(self, firing: FiringRecord) -> FiringObstacles:
        earlier = (
            FiringRow.schedule_id == firing.schedule,
            FiringRow.outcome.in_(("taken", "waiting")),
            FiringRow.due < firing.due,
        )
        with self._reading() as session:
            if session.scalar(select(FiringRow.outcome).where(FiringRow.id == firing.id)) != "taken":
                raise FiringLostError
            rows = session.scalars(select(FiringRow).where(*earlier).order_by(FiringRow.due)).all()
            return FiringObstacles(_running(session, firing.schedule), tuple(map(_record, rows)))

    def confirm(self, session: Session, firing: FiringRecord, campaign: str) -> None:
        """Keep that a firing submitted a campaign, in the transaction that keeps the campaign."""
        _lock(session, firing.schedule)
        row = session.get(FiringRow, firing.id, with_for_update=True, populate_existing=True)
        if row is None or row.outcome != "taken":
            raise FiringLostError
        if _running(session, firing.schedule):
            raise OverlapError
        row.outcome, row.campaign_id, row.fired_at = "submitted", campaign, self._now()
        session.flush()

    def end(self, firing: FiringRecord, outcome: Literal["skipped", "failed"], reason: str) -> None:
        """Keep why a firing that was taken submits nothing."""
        with self._writing() as session:
            _move(session, [firing.id], ("taken",), outcome, reason)

    def wait(self, firing: FiringRecord, reason: str) -> None:
        """Let a firing wait for its turn; one too many is left out."""
        with self._writing() as session:
            _lock(session, firing.schedule)
            count = select(func.count()).where(FiringRow.schedule_id == firing.schedule, FiringRow.outcome == "waiting")
            if (session.scalar(count) or 0) < MOST_AT_ONCE:
                _move(session, [firing.id], ("taken",), "waiting", reason)
            else:
                _move(session, [firing.id], ("taken",), "skipped", f"{MOST_AT_ONCE} firings of this schedule wait")

    def replace(self, firings: Iterable[FiringRecord], by: FiringRecord) -> None:
        """Give up firings that a later one takes the place of."""
        reason = f"the firing of {in_words(datetime.fromtimestamp(by.due, UTC))} took its place"
        with self._writing() as session:
            _lock(session, by.schedule)
            _move(session, [firing.id for firing in firings], ("taken", "waiting"), "skipped", reason)

    # Reading

    def get(self, firing: int) -> FiringRecord | None:
        return next(map(_with_state, self._rows(_WITH_STATE.where(FiringRow.id == firing))), None)

    def firings(self, schedule: str, *, cursor: str | None = None, limit: int = 50) -> Page[FiringRecord]:
        query, order = _WITH_STATE.where(FiringRow.schedule_id == schedule), (FiringRow.due,)
        rows = self._rows(page_query(query, order, cursor, limit, newest_first=True))
        return page_of(rows, order, limit).map(_with_state)

    def newest(self, schedules: Collection[str]) -> dict[str, FiringRecord]:
        last = (
            select(FiringRow.schedule_id, func.max(FiringRow.due).label("due"))
            .where(FiringRow.schedule_id.in_(schedules))
            .group_by(FiringRow.schedule_id)
            .subquery()
        )
        query = _WITH_STATE.join(last, (FiringRow.schedule_id == last.c.schedule_id) & (FiringRow.due == last.c.due))
        return {firing.schedule: firing for firing in map(_with_state, self._rows(query))}

    # What these are made of

    def _decide(self, row: ScheduleRow) -> tuple[ScheduleDecision, ...]:
        now, schedule = self._clock.utc(), read_schedule(row.schedule, row.name)
        since = datetime.fromtimestamp(row.considered_to, UTC)
        # Before this all have begun; after it some may not have, and those must not crowd out the others.
        sure = max(since, now - timedelta(seconds=schedule.jitter))
        due = due_between(schedule, since, sure, _MOST_ROWS + 1) + due_between(schedule, sure, now)
        # In order: one whose jitter is long holds up the next, so that all before `considered_to` are dealt with.
        starts = itertools.accumulate((start_of(schedule, row.name, moment) for moment in due), max)
        begins = dict(zip(due, starts, strict=True))
        begun = [moment for moment in due if begins[moment] <= now]
        return decide(begun[-_MOST_ROWS:], now, schedule.missed, start=begins.__getitem__, more=len(begun) > _MOST_ROWS)

    def _insert(
        self, session: Session, schedule: str, due: float, outcome: Outcome, reason: str, server: str
    ) -> int | None:
        """Make the row of a due time; None when another server made it."""
        values = {
            "schedule_id": schedule,
            "due": due,
            "outcome": outcome,
            "reason": reason,
            "server": server,
            "fired_at": self._now() if outcome == "taken" else None,
        }
        return session.scalar(
            insert_into(session, FiringRow).values(**values).on_conflict_do_nothing().returning(FiringRow.id)
        )

    def _next_waiting(self, session: Session, schedule: str, server: str) -> tuple[FiringRecord, ...]:
        open_ = select(FiringRow).where(FiringRow.schedule_id == schedule, FiringRow.outcome.in_(("taken", "waiting")))
        rows = session.scalars(open_.order_by(FiringRow.due)).all()
        waiting = [row for row in rows if row.outcome == "waiting"]
        if not waiting or len(waiting) < len(rows) or _running(session, schedule):
            return ()
        waiting[0].outcome, waiting[0].server, waiting[0].fired_at = "taken", server, self._now()
        session.flush()
        return (_record(waiting[0]),)


def _lock(session: Session, schedule: str, *, skip_locked: bool = False) -> bool:
    """Lock a schedule until the transaction ends; False when it is gone or locked by another server."""
    query = select(ScheduleRow.id).where(ScheduleRow.id == schedule)
    return session.scalar(query.with_for_update(key_share=True, skip_locked=skip_locked)) is not None


def _running(session: Session, schedule: str) -> tuple[str, ...]:
    query = (
        select(CampaignRow.id)
        .join(FiringRow, FiringRow.campaign_id == CampaignRow.id)
        .where(CampaignRow.state == "running", FiringRow.schedule_id == schedule, FiringRow.outcome == "submitted")
    )
    return tuple(session.scalars(query.order_by(FiringRow.due)))


def _move(session: Session, firings: Sequence[int], before: tuple[Outcome, ...], outcome: Outcome, reason: str) -> None:
    movable = (FiringRow.id.in_(firings), FiringRow.outcome.in_(before))
    session.execute(update(FiringRow).where(*movable).values(outcome=outcome, reason=reason))


def _taken(session: Session, firings: Iterable[int | None]) -> tuple[FiringRecord, ...]:
    """Those of some firings that were made just now and are to be submitted, in order."""
    ids = [firing for firing in firings if firing is not None]
    query = select(FiringRow).where(FiringRow.id.in_(ids), FiringRow.outcome == "taken").order_by(FiringRow.due)
    return tuple(map(_record, session.scalars(query)))


def _record(row: FiringRow, state: str | None = None) -> FiringRecord:
    return record_from(FiringRecord, row, schedule=row.schedule_id, campaign=row.campaign_id, campaign_state=state)


def _with_state(row: Any) -> FiringRecord:  # noqa: ANN401  (a row of `_WITH_STATE`)
    return _record(row[0], row[1])
