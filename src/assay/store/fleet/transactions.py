"""What every part of the control plane needs: a database, the time, the rules, and a history to write.

Rows are always locked in the same order (agent, then jobs by id, then campaign), so that no two transactions wait
for each other.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import Engine, Select, Table, func, insert, or_, select, text
from sqlalchemy.orm import Session, defer

from assay.clock import Clock, SteadyClock
from assay.errors import UsageError
from assay.place.leasing import LeasePolicy
from assay.store.database import TableAccess, reading, record_from
from assay.store.listing import unknown_job
from assay.store.records import AttemptRecord, EventRecord, EvidenceRecord
from assay.store.tables import AttemptRow, EventRow, EvidenceRow, JobRow, LogRow

# A job's documents can be long; what only moves it along does not read them.
WITHOUT_DOCUMENTS = (defer(JobRow.document), defer(JobRow.result))
CHUNK = 500
# What others write about a row (an attempt at a job, an event of a campaign) need not wait for who changes the row.
LOCK = {"key_share": True}
# The table, not the class: rows that are not read back need no objects. Built once, as it is used all the time.
_NEW_EVENTS = insert(cast("Table", EventRow.__table__))
# Numbers are given out before transactions end: one with a lower number may still be on its way. Only what no
# open transaction could precede is returned, so that a reader who remembers the last number misses nothing.
_NOTHING_BEFORE = text("age(events.xmin) > age(pg_snapshot_xmin(pg_current_snapshot())::xid)")
LONGEST_LINE = 4000
MOST_AT_ONCE = 1000


class Transactions(TableAccess):
    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        policy: LeasePolicy | None = None,
        seed: int | None = None,
        steady: SteadyClock | None = None,
    ) -> None:
        super().__init__(engine, clock)
        self.steady = steady or SteadyClock(clock)
        self.policy = policy or LeasePolicy()
        self._random = random.Random(seed)  # noqa: S311  (spreads retries; nothing secret)

    def lease_now(self) -> float:
        """Now, for leases, waits and deadlines: a clock that is set ends none of them and prolongs none."""
        return self.steady.now_s()

    def _log_event(
        self, session: Session, campaign: str, job: str | None, kind: str, detail: Mapping[str, object]
    ) -> None:
        self._log_events(session, [(campaign, job)], kind, detail)

    def _log_events(
        self, session: Session, whom: Iterable[tuple[str, str | None]], kind: str, detail: Mapping[str, object]
    ) -> None:
        """Write the same line into the history of many; parts that say nothing are left out."""
        filled = {name: value for name, value in detail.items() if value not in (None, "")}
        line = {"at": self._now(), "kind": kind, "detail": filled}
        if rows := [{**line, "campaign_id": campaign, "job_id": job} for campaign, job in whom]:
            session.execute(_NEW_EVENTS, rows)


def unknown_agent(agent_id: str) -> UsageError:
    return UsageError(
        f"no agent {agent_id!r} is enrolled",
        code="unknown-agent",
        try_="`assay agents list` shows who is; `assay agent start` enrols a device",
    )


class JobHistory(Transactions):
    def history(self, job_id: str) -> tuple[EventRecord, ...]:
        with self._reading() as session:
            campaign = session.scalar(select(JobRow.campaign_id).where(JobRow.id == job_id))
            if campaign is None:
                raise unknown_job(job_id)
            whole = (EventRow.campaign_id == campaign) & EventRow.job_id.is_(None)
            rows = session.scalars(select(EventRow).where(or_(EventRow.job_id == job_id, whole)).order_by(EventRow.id))
            return tuple(map(_event, rows))

    def evidence(self, job_id: str) -> tuple[EvidenceRecord, ...]:
        """Results of a job that were kept and not counted."""
        rows = self._scalars(select(EvidenceRow).where(EvidenceRow.job_id == job_id).order_by(EvidenceRow.id))
        return tuple(record_from(EvidenceRecord, row, job=row.job_id, agent=row.agent_id) for row in rows)

    def attempts(self, job_id: str) -> tuple[AttemptRecord, ...]:
        rows = self._scalars(select(AttemptRow).where(AttemptRow.job_id == job_id).order_by(AttemptRow.fence))
        return tuple(record_from(AttemptRecord, row, job=row.job_id, agent=row.agent_id) for row in rows)

    def events_after(self, event_id: int, campaign: str | None = None, limit: int = 500) -> tuple[EventRecord, ...]:
        """What happened after an event, in order; of one campaign, if it is given."""
        query = self._settled(select(EventRow).where(EventRow.id > event_id))
        if campaign is not None:
            query = query.where(EventRow.campaign_id == campaign)
        return tuple(map(_event, self._scalars(query.order_by(EventRow.id).limit(limit))))

    def last_event(self) -> int:
        """Number of the newest event: where a reader begins who wants only what comes."""
        return self._scalar(self._settled(select(func.max(EventRow.id)))) or 0

    def _settled(self, query: Select[Any]) -> Select[Any]:
        return query.where(_NOTHING_BEFORE) if self._engine.dialect.name == "postgresql" else query


def _event(row: EventRow) -> EventRecord:
    return record_from(EventRecord, row, campaign=row.campaign_id, job=row.job_id)


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of an attempt."""

    id: int
    fence: int
    """Lease it was written under."""
    at: float
    """When the server got it."""
    text: str


@dataclass(frozen=True, slots=True)
class LogLines:
    """Lines of a job, and where to continue."""

    lines: tuple[LogLine, ...]
    next: int
    """Pass it as `after` to get what follows; the same when there is nothing new yet."""
    more: bool
    """There are further lines already."""


def append(session: Session, job_id: str, fence: int, at: float, lines: Iterable[str]) -> None:
    """Keep lines of an attempt, as part of a transaction; very long ones are cut, and of very many the last stay."""
    rows = [{"job_id": job_id, "fence": fence, "at": at, "text": _kept(line)} for line in list(lines)[-MOST_AT_ONCE:]]
    if rows:
        session.execute(insert(LogRow), rows)


def read_logs(engine: Engine, job_id: str, after: int = 0, limit: int = MOST_AT_ONCE) -> LogLines:
    """Lines of a job after a number, oldest first."""
    with reading(engine) as session:
        query = select(LogRow).where(LogRow.job_id == job_id, LogRow.id > after).order_by(LogRow.id)
        lines = tuple(record_from(LogLine, row) for row in session.scalars(query.limit(limit + 1)))
    shown = lines[:limit]
    return LogLines(shown, shown[-1].id if shown else after, len(lines) > limit)


def _kept(line: str) -> str:
    # PostgreSQL's text holds no NUL, and no database holds half a character.
    return (
        line.rstrip("\r\n").replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()[:LONGEST_LINE]
    )
