"""Firings: each due time of a schedule is one row, and whoever makes the row deals with it.

A firing is taken for a while. The campaign that it submits and the word that it has are kept in one transaction: a
server that dies before has submitted nothing and another one takes its firing over, one that dies after leaves nothing
to be done. Rows are locked in the same order everywhere: the schedule, then its firings.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, cast

from sqlalchemy import Engine, func, select, update
from sqlalchemy.orm import Session

from assay.clock import Clock
from assay.plan.schedule import MOST_AT_ONCE, ScheduleDecision, decide, due_between, in_words, start_of
from assay.store.database import insert_into, reading, writing
from assay.store.listing import Page, bounded, from_cursor, page_of
from assay.store.schedules import read_schedule, unknown_schedule
from assay.store.tables import CampaignRow, FiringRow, ScheduleRow

Outcome = Literal["taken", "waiting", "submitted", "skipped", "missed", "failed"]

# Planning and keeping a campaign takes well under a second: whoever needs longer than this is taken to be gone. One
# that was only slow does no harm: whoever is first keeps its campaign.
LEASE_S = 20.0
# Due times of one outage that get a row each; of older ones the first row says that there were some.
_MOST_ROWS = 100
_OVER_AT_ONCE = 20
_WORDS: dict[str, Outcome] = {"fire": "taken", "wait": "waiting", "miss": "missed"}
_WITH_STATE = select(FiringRow, CampaignRow.state).outerjoin(CampaignRow, CampaignRow.id == FiringRow.campaign_id)


@dataclass(frozen=True, slots=True)
class FiringRecord:
    """One due time of a schedule, and what became of it."""

    id: int
    schedule: str
    """Id of the schedule."""
    due: float
    outcome: Outcome
    """`taken` and `waiting` go on; the others are final."""
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
    """The firing is not ours any more: another server dealt with it, or its schedule was removed."""


class OverlapError(Exception):
    """A campaign of the same schedule began to run in this very moment."""


class Firings:
    """Taking due times, and keeping what became of each."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    # Taking

    def take_due(self, schedule: str, server: str) -> tuple[FiringRecord, ...]:
        """Take what is due of a schedule; nothing when another server is at it, or it is paused."""
        with writing(self._engine) as session:
            query = select(ScheduleRow).where(ScheduleRow.id == schedule, ScheduleRow.state == "active")
            row = session.scalars(query.with_for_update(key_share=True, skip_locked=True)).one_or_none()
            decided = () if row is None else self._decide(row)
            if row is None or not decided:
                return ()
            made = [self._insert(session, row.id, one, server) for one in decided]
            row.considered_to = decided[-1].due.timestamp()
            session.flush()
            return _taken(session, made)

    def take_now(self, schedule: str, server: str) -> FiringRecord:
        """Take a firing that is due because somebody asks for it.

        Raises:
            UsageError: `unknown-schedule` if there is none.
        """
        due = self._now()
        with writing(self._engine) as session:
            if session.get(ScheduleRow, schedule) is None:
                raise unknown_schedule(schedule)
            while (made := self._insert_row(session, schedule, due, "taken", "asked for", server)) is None:
                due += 1e-6  # two may ask in the same moment
            return _taken(session, [made])[0]

    def take_over(self, server: str) -> tuple[FiringRecord, ...]:
        """Take the firings of servers that took them and were not heard of again."""
        now = self._now()
        left = (FiringRow.outcome == "taken", FiringRow.fired_at < now - LEASE_S)
        with reading(self._engine) as session:
            found = session.scalars(
                select(FiringRow.id).where(*left).order_by(FiringRow.due).limit(_OVER_AT_ONCE)
            ).all()
        mine: list[FiringRecord] = []
        for one in found:
            with writing(self._engine) as session:
                changed = session.scalar(
                    update(FiringRow)
                    .where(FiringRow.id == one, *left)
                    .values(server=server, fired_at=now)
                    .returning(FiringRow.id)
                )
                mine += _taken(session, [changed])
        return tuple(mine)

    def take_waiting(self, server: str) -> tuple[FiringRecord, ...]:
        """Take the oldest waiting firing of each active schedule that nothing stands in the way of."""
        waiting = select(FiringRow.schedule_id).join(ScheduleRow, ScheduleRow.id == FiringRow.schedule_id)
        with reading(self._engine) as session:
            ids = session.scalars(
                waiting.where(FiringRow.outcome == "waiting", ScheduleRow.state == "active").distinct()
            ).all()
        mine: list[FiringRecord] = []
        for schedule in sorted(ids):
            with writing(self._engine) as session:
                if _lock(session, schedule, skip_locked=True):
                    mine += self._next_waiting(session, schedule, server)
        return tuple(mine)

    # What became of them

    def standing(self, firing: FiringRecord) -> FiringObstacles:
        """What stands in the way of a firing now.

        Raises:
            FiringLostError: if it is not ours any more; then nothing may be done about what stands there.
        """
        earlier = (
            FiringRow.schedule_id == firing.schedule,
            FiringRow.outcome.in_(("taken", "waiting")),
            FiringRow.due < firing.due,
        )
        with reading(self._engine) as session:
            if session.scalar(select(FiringRow.outcome).where(FiringRow.id == firing.id)) != "taken":
                raise FiringLostError
            rows = session.scalars(select(FiringRow).where(*earlier).order_by(FiringRow.due)).all()
            return FiringObstacles(_running(session, firing.schedule), tuple(map(_record, rows)))

    def confirm(self, session: Session, firing: FiringRecord, campaign: str) -> None:
        """Keep that a firing submitted a campaign, in the transaction that keeps the campaign.

        Raises:
            FiringLostError: if it is not ours to submit any more; the campaign must not be kept.
            OverlapError: if another campaign of the schedule runs; the same.
        """
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
        with writing(self._engine) as session:
            _move(session, [firing.id], ("taken",), outcome, reason)

    def wait(self, firing: FiringRecord, reason: str) -> None:
        """Let a firing wait for its turn; one too many is left out."""
        with writing(self._engine) as session:
            _lock(session, firing.schedule)
            count = select(func.count()).where(FiringRow.schedule_id == firing.schedule, FiringRow.outcome == "waiting")
            if (session.scalar(count) or 0) < MOST_AT_ONCE:
                _move(session, [firing.id], ("taken",), "waiting", reason)
            else:
                _move(session, [firing.id], ("taken",), "skipped", f"{MOST_AT_ONCE} firings of this schedule wait")

    def replace(self, firings: Iterable[FiringRecord], by: FiringRecord) -> None:
        """Give up firings that a later one takes the place of."""
        told = f"the firing of {in_words(datetime.fromtimestamp(by.due, UTC))} took its place"
        with writing(self._engine) as session:
            _lock(session, by.schedule)
            _move(session, [one.id for one in firings], ("taken", "waiting"), "skipped", told)

    # Reading

    def get(self, firing: int) -> FiringRecord | None:
        with reading(self._engine) as session:
            found = session.execute(_WITH_STATE.where(FiringRow.id == firing)).one_or_none()
            return None if found is None else _record(found[0], found[1])

    def firings(self, schedule: str, *, cursor: str | None = None, limit: int = 50) -> Page[FiringRecord]:
        """The firings of a schedule, the newest first.

        Raises:
            UsageError: `cursor` if it is not one of this list.
        """
        query = _WITH_STATE.where(FiringRow.schedule_id == schedule)
        if cursor:
            query = query.where(FiringRow.due < from_cursor(cursor, float)[0])
        with reading(self._engine) as session:
            rows = session.execute(query.order_by(FiringRow.due.desc()).limit(bounded(limit) + 1)).all()
        return page_of(rows, bounded(limit), lambda row: (row[0].due,), lambda row: _record(row[0], row[1]))

    def newest(self, schedules: Collection[str]) -> dict[str, FiringRecord]:
        last = (
            select(FiringRow.schedule_id, func.max(FiringRow.due).label("due"))
            .where(FiringRow.schedule_id.in_(schedules))
            .group_by(FiringRow.schedule_id)
            .subquery()
        )
        query = _WITH_STATE.join(last, (FiringRow.schedule_id == last.c.schedule_id) & (FiringRow.due == last.c.due))
        with reading(self._engine) as session:
            return {row.schedule_id: _record(row, state) for row, state in session.execute(query)}

    # What these are made of

    def _decide(self, row: ScheduleRow) -> tuple[ScheduleDecision, ...]:
        now, schedule = self._clock.utc(), read_schedule(row.schedule, row.name)
        since = datetime.fromtimestamp(row.considered_to, UTC)
        # Before this all have begun; after it some may not have, and those must not crowd out the others.
        sure = max(since, now - timedelta(seconds=schedule.jitter))
        due = due_between(schedule, since, sure, _MOST_ROWS + 1) + due_between(schedule, sure, now)
        # In order: one whose jitter is long holds up the next, so that all before `considered_to` are dealt with.
        starts = itertools.accumulate((start_of(schedule, row.name, one) for one in due), max)
        begins = dict(zip(due, starts, strict=True))
        begun = [one for one in due if begins[one] <= now]
        return decide(begun[-_MOST_ROWS:], now, schedule.missed, start=begins.__getitem__, more=len(begun) > _MOST_ROWS)

    def _insert(self, session: Session, schedule: str, one: ScheduleDecision, server: str) -> int | None:
        return self._insert_row(session, schedule, one.due.timestamp(), _WORDS[one.word], one.because, server)

    def _insert_row(
        self, session: Session, schedule: str, due: float, outcome: Outcome, reason: str, server: str
    ) -> int | None:
        """Make the row of a due time; None when somebody else made it."""
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

    def _now(self) -> float:
        return self._clock.utc().timestamp()


def _lock(session: Session, schedule: str, *, skip_locked: bool = False) -> bool:
    """Have a schedule to ourselves until the transaction ends; False when it is gone or somebody else has it."""
    query = select(ScheduleRow.id).where(ScheduleRow.id == schedule)
    return session.scalar(query.with_for_update(key_share=True, skip_locked=skip_locked)) is not None


def _running(session: Session, schedule: str) -> tuple[str, ...]:
    """The campaigns of a schedule that still run."""
    query = (
        select(CampaignRow.id)
        .join(FiringRow, FiringRow.campaign_id == CampaignRow.id)
        .where(CampaignRow.state == "running", FiringRow.schedule_id == schedule, FiringRow.outcome == "submitted")
    )
    return tuple(session.scalars(query.order_by(FiringRow.due)))


def _move(session: Session, firings: Sequence[int], before: tuple[Outcome, ...], outcome: Outcome, reason: str) -> None:
    mine = (FiringRow.id.in_(firings), FiringRow.outcome.in_(before))
    session.execute(update(FiringRow).where(*mine).values(outcome=outcome, reason=reason))


def _taken(session: Session, firings: Iterable[int | None]) -> tuple[FiringRecord, ...]:
    """Those of some firings that were made just now and are to be submitted, in order."""
    ids = [one for one in firings if one is not None]
    query = select(FiringRow).where(FiringRow.id.in_(ids), FiringRow.outcome == "taken").order_by(FiringRow.due)
    return tuple(map(_record, session.scalars(query)))


def _record(row: FiringRow, state: str | None = None) -> FiringRecord:
    return FiringRecord(
        id=row.id,
        schedule=row.schedule_id,
        due=row.due,
        outcome=cast("Outcome", row.outcome),
        fired_at=row.fired_at,
        campaign=row.campaign_id,
        reason=row.reason,
        server=row.server,
        campaign_state=state,
    )
