"""Many heartbeats in one transaction: a thousand agents cost the database as little as a few."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from assay.place.fleet.protocol import Heartbeat, HeartbeatAnswer, Held
from assay.store.fleet.transactions import Transactions
from assay.store.tables import AgentRow, JobRow

_LONGEST_NOTE = 2000
Beat = tuple[str, Heartbeat]  # agent, what it says


class Beats(Transactions):
    """Who lives, noted together."""

    def heartbeats(self, beats: Sequence[Beat]) -> list[HeartbeatAnswer | None]:
        """Note that agents live and renew their leases; None for an agent that is not enrolled."""
        now = self._now()
        with self._writing() as session:
            draining = _known(session, {agent for agent, _ in beats})
            _note(session, [beat for beat in beats if beat[0] in draining], now)
            renewed = self._renew_all(session, [beat for beat in beats if beat[0] in draining])
            return [
                HeartbeatAnswer(
                    lost=tuple(one for one in beat.held if (agent, one) not in renewed), draining=draining[agent]
                )
                if agent in draining
                else None
                for agent, beat in beats
            ]

    def _renew_all(self, session: Session, beats: Sequence[Beat]) -> set[tuple[str, Held]]:
        wanted = {(agent, one) for agent, beat in beats for one in beat.held}
        if not wanted:
            return set()
        rows = session.execute(
            select(JobRow.id, JobRow.fence, JobRow.agent_id)
            .where(JobRow.id.in_({one.job for _, one in wanted}), JobRow.state == "running")
            .order_by(JobRow.id)
            .with_for_update()
        )
        mine = {(row.agent_id, Held(row.id, row.fence)) for row in rows} & wanted
        session.execute(
            update(JobRow)
            .where(JobRow.id.in_({one.job for _, one in mine}))
            .values(expires_at=self.lease_now() + self.policy.lease_s)
        )
        return mine


def _known(session: Session, agents: set[str]) -> dict[str, bool]:
    """Those of some agents that are enrolled, and whether they drain; locked in the order of their ids."""
    query = select(AgentRow.id, AgentRow.draining).where(AgentRow.id.in_(agents)).order_by(AgentRow.id)
    return {row.id: row.draining for row in session.execute(query.with_for_update())}


def _note(session: Session, beats: Sequence[Beat], now: float) -> None:
    """Keep what agents say; those that say the same are kept in one statement."""
    said: dict[tuple[str, str], list[str]] = {}
    for agent, beat in beats:
        said.setdefault((beat.state, beat.note[:_LONGEST_NOTE]), []).append(agent)
    for (state, note), agents in said.items():
        session.execute(update(AgentRow).where(AgentRow.id.in_(agents)).values(last_seen=now, state=state, note=note))
