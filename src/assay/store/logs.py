"""Lines that attempts wrote, as they came."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Engine, insert, select
from sqlalchemy.orm import Session

from assay.store.database import reading
from assay.store.tables import LogRow

LONGEST_LINE = 4000
MOST_AT_ONCE = 1000


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
    """Lines of a job, and where to go on."""

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
        rows = session.scalars(query.limit(limit + 1)).all()
    shown = rows[:limit]
    lines = tuple(LogLine(row.id, row.fence, row.at, row.text) for row in shown)
    return LogLines(lines, shown[-1].id if shown else after, len(rows) > limit)


def _kept(line: str) -> str:
    # PostgreSQL's text holds no NUL, and no database holds half a character.
    return (
        line.rstrip("\r\n").replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()[:LONGEST_LINE]
    )
