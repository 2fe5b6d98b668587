"""The outbox: a message is stored before it is sent, until its channel has taken it; and the state of channels."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, Engine, and_, func, or_, select, update
from sqlalchemy.orm import Session, aliased

from assay.clock import Clock
from assay.errors import UsageError
from assay.store.database import TableAccess, insert_into, reading, record_from
from assay.store.tables import AlertRow, NoticeRow

NoticeState = Literal["waiting", "sending", "sent", "given-up"]

EVERY_CHANNEL = "*"
"""Stands for all channels that the server has; whichever server sees it first makes one notice for each."""

_OPEN_STATES = ("waiting", "sending")
_LONGEST_ERROR = 1000
# A notice that is due for so long is not being looked at by anybody.
_ORPHANED_S = 3600.0


@dataclass(frozen=True, slots=True)
class NoticePolicy:
    """The rules of sending."""

    lease_s: float = 180.0
    """How long a sender holds a notice; longer than any channel may take."""
    first_wait_s: float = 5.0
    """Wait before the second try; it doubles with each further one."""
    longest_wait_s: float = 300.0
    """No wait is longer, unless the receiver asks for it."""
    jitter: float = 0.5
    """Share by which a wait may be shorter, so that what failed together does not come back together."""
    longest_asked_s: float = 86_400.0
    """A receiver may ask for a wait of up to this long."""
    give_up_after_s: float = 3 * 86_400.0
    """A notice that could not be sent for this long is given up; it stays, and can be sent again by hand."""


@dataclass(frozen=True, slots=True)
class NewNotice:
    """A message that is to be sent."""

    key: str
    """The alert, its turn and the channel: a second one with the same key is not kept."""
    channel: str
    alert: str
    """Id of the alert, which must be in the store."""
    document: str
    """What the message is made of."""
    not_before: float | None = None
    """Not sent earlier than this; due immediately when left out."""


@dataclass(frozen=True, slots=True)
class Notice:
    """A message in the outbox."""

    id: int
    key: str
    channel: str
    alert: str
    state: NoticeState
    attempts: int
    not_before: float
    created_at: float
    sent_at: float | None
    error: str
    """Why the last try failed, or what was wrong although it was sent."""
    document: str


def wait_s(policy: NoticePolicy, attempts: int, chance: float) -> float:
    """How long to wait after a try that failed."""
    plain = min(policy.first_wait_s * 2.0 ** min(max(attempts, 1) - 1, 60), policy.longest_wait_s)
    return plain * (1 - policy.jitter * chance)


def put_in(session: Session, notices: Iterable[NewNotice], now: float) -> int:
    """Keep notices as part of a transaction, such as the one that opens their alert; return how many are new."""
    count = 0
    fresh = {"state": "waiting", "attempts": 0, "created_at": now, "error": ""}
    for notice in notices:
        values = asdict(notice)
        values |= {"alert_id": values.pop("alert"), "not_before": max(notice.not_before or now, now), **fresh}
        added = insert_into(session, NoticeRow).values(**values).on_conflict_do_nothing(index_elements=["key"])
        count += session.scalar(added.returning(NoticeRow.id)) is not None
    return count


class Notices(TableAccess):
    def __init__(
        self, engine: Engine, clock: Clock, policy: NoticePolicy | None = None, seed: int | None = None
    ) -> None:
        super().__init__(engine, clock)
        self.policy = policy or NoticePolicy()
        self._random = random.Random(seed)  # noqa: S311  (spreads retries; nothing secret)

    def put(self, notices: Iterable[NewNotice]) -> int:
        """Keep notices; those whose key is known are left as they are. Return how many are new."""
        with self._writing() as session:
            return put_in(session, notices, self._now())

    # Sending

    def due(self) -> tuple[str, ...]:
        """The channels for which something can be sent now."""
        query = select(NoticeRow.channel).where(_is_due(self._now()), ~_follows_another())
        return tuple(self._scalars(query.distinct()))

    def take(self, channel: str) -> Notice | None:
        """Take the oldest notice for a channel that is due, for the length of a lease; None when there is none."""
        now = self._now()
        with self._writing() as session:
            row = session.scalars(
                select(NoticeRow)
                .where(NoticeRow.channel == channel, _is_due(now), ~_follows_another())
                .order_by(NoticeRow.id)
                .limit(1)
                .with_for_update(skip_locked=True, of=NoticeRow)
            ).one_or_none()
            if row is None:
                return None
            row.state, row.attempts, row.taken_until = "sending", row.attempts + 1, now + self.policy.lease_s
            return _notice(row)

    def keep(self, taken: Notice, document: str) -> bool:
        """Keep what a message is made of as it is sent for the first time; False when the lease was lost."""
        return self._change(_held(taken), document=document)

    def sent(self, taken: Notice, note: str = "") -> bool:
        """Note that the receiver has taken a notice; False when that was known already.

        It is a fact, so it counts even if the lease was lost meanwhile.
        """
        still = and_(NoticeRow.id == taken.id, NoticeRow.state.in_(_OPEN_STATES))
        return self._change(still, state="sent", sent_at=self._now(), taken_until=None, error=note[:_LONGEST_ERROR])

    def failed(
        self,
        taken: Notice,
        error: str,
        *,
        retry: bool = True,
        after_s: float | None = None,
        document: str | None = None,
    ) -> NoticeState | None:
        """Note that a try failed, and when the next one is due.

        Returns:
            The notice after it; None when the lease was lost, and another server decides.
        """
        now = self._now()
        last = taken.created_at + self.policy.give_up_after_s
        values: dict[str, object] = {"error": error[:_LONGEST_ERROR], "taken_until": None}
        values |= {"document": document} if document is not None else {}
        state: NoticeState = "waiting" if retry and now < last else "given-up"
        if state == "waiting":
            requested_s = min(after_s or 0.0, self.policy.longest_asked_s)
            wait = max(wait_s(self.policy, taken.attempts, self._random.random()), requested_s)
            values["not_before"] = min(now + wait, max(last, now + requested_s))  # one last try before it is given up
        return state if self._change(_held(taken), state=state, **values) else None

    # Housekeeping

    def spread(self, channels: Collection[str]) -> int:
        now = self._now()
        due = and_(NoticeRow.channel == EVERY_CHANNEL, NoticeRow.state == "waiting", NoticeRow.not_before <= now)
        if not channels or not self._any(due):
            return 0
        with self._writing() as session:
            rows = session.scalars(
                select(NoticeRow).where(due).order_by(NoticeRow.id).with_for_update(skip_locked=True)
            ).all()
            count = 0
            for row in rows:
                # The same key as if the channel had been named: another rule's notice is not repeated.
                parts = [
                    NewNotice(f"{row.key.removesuffix(EVERY_CHANNEL)}{name}", name, row.alert_id, row.document)
                    for name in sorted(channels)
                ]
                count += put_in(session, parts, now)
                row.state, row.sent_at = "sent", now
            return count

    def give_up_unclaimed(self, channels: Collection[str]) -> tuple[Notice, ...]:
        """Give up what no server could send because none has its channel; return what was given up."""
        now = self._now()
        # A server that has the channel would have tried meanwhile.
        unclaimed = or_(
            and_(NoticeRow.state == "waiting", NoticeRow.not_before < now - _ORPHANED_S),
            and_(NoticeRow.state == "sending", NoticeRow.taken_until < now - _ORPHANED_S),
        )
        old = and_(
            unclaimed, NoticeRow.channel.not_in(channels), NoticeRow.created_at < now - self.policy.give_up_after_s
        )
        if not self._any(old):
            return ()
        with self._writing() as session:
            rows = session.scalars(select(NoticeRow).where(old).with_for_update(skip_locked=True)).all()
            for row in rows:
                row.state, row.error = "given-up", f"no server has a channel named {row.channel!r}"
            return tuple(map(_notice, rows))

    def again(self, notice_id: int) -> Notice:
        """Send a notice after all that was given up."""
        with self._writing() as session:
            row = session.get(NoticeRow, notice_id, with_for_update=True)
            if row is None:
                raise UsageError(f"no notice {notice_id}", code="unknown-notice")
            if row.state != "given-up":
                raise UsageError(f"notice {notice_id} is {row.state}, not given up", code="lifecycle")
            now = self._now()
            row.state, row.attempts, row.not_before, row.created_at = "waiting", 0, now, now
            return _notice(row)

    # Reading

    def list(
        self, *, alert: str | None = None, state: NoticeState | None = None, limit: int = 100
    ) -> tuple[Notice, ...]:
        """The newest notices, of one alert or in one state if asked."""
        wanted = [NoticeRow.alert_id == alert] if alert is not None else []
        wanted += [NoticeRow.state == state] if state is not None else []
        query = select(NoticeRow).where(*wanted).order_by(NoticeRow.id.desc()).limit(limit)
        return tuple(map(_notice, self._scalars(query)))

    def unclaimed(self, channels: Collection[str]) -> tuple[str, ...]:
        """Names of channels for which something waits and that are none of these."""
        waits = and_(NoticeRow.state == "waiting", NoticeRow.channel.not_in([*channels, EVERY_CHANNEL]))
        return tuple(self._scalars(select(NoticeRow.channel).where(waits).distinct().order_by(NoticeRow.channel)))

    def standing(self, channel: str, states: Collection[str]) -> tuple[Notice, ...]:
        """The last notice that a channel was sent about each alert that is in one of some states."""
        newest = (
            select(func.max(NoticeRow.id))
            .where(NoticeRow.channel == channel, NoticeRow.state == "sent")
            .group_by(NoticeRow.alert_id)
        )
        query = select(NoticeRow).join(AlertRow, AlertRow.id == NoticeRow.alert_id)
        query = query.where(NoticeRow.id.in_(newest), AlertRow.state.in_(states))
        return tuple(map(_notice, self._scalars(query.order_by(NoticeRow.id))))

    def _change(self, which: ColumnElement[bool], **values: object) -> bool:
        with self._writing() as session:
            done: Any = session.execute(
                update(NoticeRow).where(which).values(**values), execution_options={"synchronize_session": False}
            )
            return bool(done.rowcount)

    def _any(self, which: ColumnElement[bool]) -> bool:
        return self._scalar(select(NoticeRow.id).where(which).limit(1)) is not None


def _is_due(now: float) -> ColumnElement[bool]:
    """It waits and its time has come, or its sender is gone."""
    return or_(
        and_(NoticeRow.state == "waiting", NoticeRow.not_before <= now),
        and_(NoticeRow.state == "sending", NoticeRow.taken_until < now),
    )


def _follows_another() -> ColumnElement[bool]:
    """An older notice about the same alert has not left this channel yet."""
    older = aliased(NoticeRow)
    return (
        select(older.id)
        .where(older.channel == NoticeRow.channel, older.alert_id == NoticeRow.alert_id)
        .where(older.id < NoticeRow.id, older.state.in_(_OPEN_STATES))
        .exists()
    )


def _held(taken: Notice) -> ColumnElement[bool]:
    """The lease is still the one that was taken: no other server has tried since."""
    return and_(NoticeRow.id == taken.id, NoticeRow.state == "sending", NoticeRow.attempts == taken.attempts)


def _notice(row: NoticeRow) -> Notice:
    return record_from(Notice, row, alert=row.alert_id)


@dataclass(frozen=True, slots=True)
class ChannelStatus:
    """How it goes with one channel."""

    last_sent: float | None = None
    waiting: int = 0
    error: str = ""
    """Why the newest try failed; empty where something was taken since, or nothing was tried."""


def channel_status(engine: Engine, names: Collection[str]) -> dict[str, ChannelStatus]:
    """Channel → how it goes with it, for those through which something went or was to go."""
    of_these = NoticeRow.channel.in_(list(names))
    sent = (
        select(NoticeRow.channel, func.max(NoticeRow.sent_at), func.max(NoticeRow.id))
        .where(of_these, NoticeRow.state == "sent")
        .group_by(NoticeRow.channel)
    )
    waits = select(NoticeRow.channel, func.count()).where(of_these, NoticeRow.state.in_(_OPEN_STATES))
    waits = waits.group_by(NoticeRow.channel)
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
        name: ChannelStatus(taken.get(name, (None, 0))[0], waiting.get(name, 0), errors.get(name, ""))
        for name in {*taken, *waiting, *errors}
    }
