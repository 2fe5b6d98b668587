"""What became of the messages of each channel: when the last was taken, what waits, what the newest failed with."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import Engine, func, select

from assay.store.database import reading
from assay.store.watch_tables import NoticeRow

_OPEN = ("waiting", "sending")


@dataclass(frozen=True, slots=True)
class Told:
    """How it goes with one channel."""

    last_sent: float | None = None
    waiting: int = 0
    error: str = ""
    """Why the newest try failed; empty where something was taken since, or nothing was tried."""


def told_by(engine: Engine, names: Collection[str]) -> dict[str, Told]:
    """Channel → how it goes with it, for those through which something went or was to go."""
    of_these = NoticeRow.channel.in_(list(names))
    sent = (
        select(NoticeRow.channel, func.max(NoticeRow.sent_at), func.max(NoticeRow.id))
        .where(of_these, NoticeRow.state == "sent")
        .group_by(NoticeRow.channel)
    )
    waits = (
        select(NoticeRow.channel, func.count()).where(of_these, NoticeRow.state.in_(_OPEN)).group_by(NoticeRow.channel)
    )
    failed = (
        select(func.max(NoticeRow.id))
        .where(of_these, NoticeRow.state != "sent", NoticeRow.error != "")
        .group_by(NoticeRow.channel)
    )
    with reading(engine) as session:
        taken = {channel: (at, newest) for channel, at, newest in session.execute(sent)}
        waiting = {row[0]: row[1] for row in session.execute(waits)}
        wrong = session.execute(
            select(NoticeRow.channel, NoticeRow.id, NoticeRow.error).where(NoticeRow.id.in_(failed))
        ).all()
    errors = {channel: error for channel, notice, error in wrong if notice > taken.get(channel, (0, -1))[1]}
    return {
        name: Told(taken.get(name, (None, 0))[0], waiting.get(name, 0), errors.get(name, ""))
        for name in {*taken, *waiting, *errors}
    }
