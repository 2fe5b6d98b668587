"""Agents as the server knows them: enrolled, alive, draining, gone."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from sqlalchemy import Select, delete, select, update
from sqlalchemy.orm import Session

from assay.documents import from_json, to_json
from assay.errors import UsageError
from assay.place.fleet.protocol import Enrolment, Heartbeat, HeartbeatAnswer, Held
from assay.place.needs import Profile
from assay.plan.job import after, content_hash
from assay.store.database import insert_into, record_from
from assay.store.fleet.transactions import LOCK, WITHOUT_DOCUMENTS, Transactions, unknown_agent
from assay.store.listing import Page, read_page
from assay.store.records import AgentRecord
from assay.store.tables import AgentRow, AttemptRow, JobRow

_LONGEST_NOTE = 2000
Beat = tuple[str, Heartbeat]  # agent, what it says


class Agents(Transactions):
    """Who is there."""

    def enroll(self, enrolment: Enrolment, key: str = "") -> tuple[AgentRecord, str]:
        """Make a device known, or refresh what is known of it; the word says which: created, updated, recovered.

        Labels given on the server and a wish to drain outlive a restart of the device.
        """
        now = self._now()
        with self._writing() as session:
            row, fresh = _found_or_new(session, enrolment, now)
            if row.key and not hmac.compare_digest(row.key, key_hash(key)):
                raise wrong_key(row.id)
            row.key = key_hash(key)
            done = "created" if fresh else "recovered" if row.state == "faulty" else "updated"
            _refresh(row, enrolment, now)
            session.flush()
            return self._record(session, row), done

    def heartbeat(self, agent_id: str, beat: Heartbeat) -> HeartbeatAnswer:
        """Note that an agent lives and renew its leases; tell it which are no longer its own."""
        answer = self.heartbeats([(agent_id, beat)])[0]
        if answer is None:
            raise unknown_agent(agent_id)
        return answer

    def heartbeats(self, received: Sequence[Beat]) -> list[HeartbeatAnswer | None]:
        """Note that agents live and renew their leases; None for an agent that is not enrolled."""
        now = self._now()
        with self._writing() as session:
            draining = _known(session, {agent for agent, _ in received})
            accepted = [(agent, beat) for agent, beat in received if agent in draining]
            _note(session, accepted, now)
            renewed = self._renew_held(session, accepted)
            lost = [tuple(held for held in beat.held if (agent, held) not in renewed) for agent, beat in received]
            return [
                HeartbeatAnswer(lost=gone, draining=draining[agent]) if agent in draining else None
                for (agent, _), gone in zip(received, lost, strict=True)
            ]

    def agents(self, state: str = "") -> tuple[AgentRecord, ...]:
        with self._reading() as session:
            rows = session.scalars(_in_state(state).order_by(AgentRow.name, AgentRow.id)).all()
            return self._records(session, rows)

    def agent_page(self, cursor: str | None = None, limit: int = 100, state: str = "") -> Page[AgentRecord]:
        with self._reading() as session:
            page = read_page(session, _in_state(state), (AgentRow.name, AgentRow.id), cursor, limit)
            return Page(self._records(session, page.items), page.next)

    def agent(self, agent_id: str) -> AgentRecord:
        with self._reading() as session:
            return self._record(session, known_agent(session, agent_id))

    def key_of(self, agent_id: str) -> str:
        """The hash of an agent's key; empty when it has none, or is not known."""
        return self._scalar(select(AgentRow.key).where(AgentRow.id == agent_id)) or ""

    def patch_agent(
        self, agent_id: str, *, labels: Mapping[str, str] | None = None, draining: bool | None = None
    ) -> AgentRecord:
        """Change an agent's labels, drain it (it finishes what it holds and gets nothing new), or end the draining."""
        with self._writing() as session:
            row = known_agent(session, agent_id, lock=True)
            if labels is not None:
                row.labels = dict(labels)
            if draining is not None:
                row.draining = draining
            session.flush()
            return self._record(session, row)

    def remove_agent(self, agent_id: str, *, by: str = "") -> tuple[str, ...]:
        """Forget an agent; what it held is offered to others immediately. Return those jobs."""
        now = self._now()
        with self._writing() as session:
            known_agent(session, agent_id, lock=True)
            rows = session.scalars(
                select(JobRow)
                .where(JobRow.agent_id == agent_id, JobRow.state == "running")
                .order_by(JobRow.id)
                .options(*WITHOUT_DOCUMENTS)
                .with_for_update(key_share=True)
            ).all()
            for row in rows:
                give_back(session, row, now)
                detail = {"agent": agent_id, "fence": row.fence, "reason": "its agent was removed", "by": by}
                self._log_event(session, row.campaign_id, row.id, "released", detail)
            session.execute(delete(AgentRow).where(AgentRow.id == agent_id))
            return tuple(row.id for row in rows)

    def reset_agent(self, agent_id: str) -> AgentRecord:
        """Let an agent that was found faulty take jobs again."""
        with self._writing() as session:
            row = known_agent(session, agent_id, lock=True)
            if row.state == "faulty":
                row.state, row.note = "active", ""
            session.flush()
            return self._record(session, row)

    def mark_silent(self, after_s: float) -> tuple[str, ...]:
        """Mark agents without a heartbeat for a while as faulty; return them."""
        now = self._now()
        silent = (AgentRow.last_seen < now - after_s, AgentRow.state != "faulty")
        if self._scalar(select(AgentRow.id).where(*silent).limit(1)) is None:
            return ()
        with self._writing() as session:
            note = f"no heartbeat for {after_s:g} s"
            marked = session.scalars(
                update(AgentRow).where(*silent).values(state="faulty", note=note).returning(AgentRow.id)
            )
            return tuple(sorted(marked))

    def after_step(self) -> None:
        """After a step of the clock: bring last heartbeats that lie in the future back to now."""
        now = self._now()
        with self._writing() as session:
            session.execute(update(AgentRow).where(AgentRow.last_seen > now).values(last_seen=now))

    def _record(self, session: Session, row: AgentRow) -> AgentRecord:
        return self._records(session, [row])[0]

    def _records(self, session: Session, rows: Sequence[AgentRow]) -> tuple[AgentRecord, ...]:
        held, now = _held_by(session, [row.id for row in rows]), self._now()
        return tuple(
            record_from(
                AgentRecord,
                row,
                healthy=row.state != "faulty",
                profile=full_profile(row),
                jobs=tuple(held.get(row.id, ())),
                seconds_since_heartbeat=max(0.0, now - row.last_seen),
            )
            for row in rows
        )

    def _renew_held(self, session: Session, accepted: Sequence[Beat]) -> set[tuple[str, Held]]:
        wanted = {(agent, held) for agent, beat in accepted for held in beat.held}
        if not wanted:
            return set()
        rows = session.execute(
            select(JobRow.id, JobRow.fence, JobRow.agent_id)
            .where(JobRow.id.in_({held.job for _, held in wanted}), JobRow.state == "running")
            .order_by(JobRow.id)
            .with_for_update()
        )
        renewable = {(row.agent_id, Held(row.id, row.fence)) for row in rows} & wanted
        session.execute(
            update(JobRow)
            .where(JobRow.id.in_({held.job for _, held in renewable}))
            .values(expires_at=self.lease_now() + self.policy.lease_s)
        )
        return renewable


def key_hash(key: str) -> str:
    """What is kept of a key; nothing of none."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest() if key else ""


def wrong_key(agent_id: str) -> UsageError:
    """The error for a request in the name of an agent with another key."""
    return UsageError(
        f"this is not the key of {agent_id}: only the agent itself may act as it",
        code="agent-key",
        try_="start the agent from its own state folder; if that is lost, remove the agent here first: "
        "`assay agents remove`",
    )


def known_agent(session: Session, agent_id: str, *, lock: bool = False) -> AgentRow:
    row = session.get(AgentRow, agent_id, with_for_update=LOCK if lock else None)
    if row is None:
        raise unknown_agent(agent_id)
    return row


def _in_state(state: str) -> Select[AgentRow]:
    query = select(AgentRow)
    return query.where(AgentRow.state == state) if state else query


def _held_by(session: Session, agents: Sequence[str]) -> dict[str | None, list[str]]:
    """The jobs that each of some agents holds."""
    jobs: dict[str | None, list[str]] = {}
    query = select(JobRow.agent_id, JobRow.id).where(JobRow.state == "running", JobRow.agent_id.in_(agents))
    for agent, job in session.execute(query.order_by(JobRow.id)):
        jobs.setdefault(agent, []).append(job)
    return jobs


def give_back(session: Session, row: JobRow, now: float) -> None:
    """End a lease without a result and through no fault of the job: it waits again, due immediately."""
    end_attempt(session, row, "released", now)
    row.state, row.expires_at, row.progress = after("running", "release"), None, None


def end_attempt(session: Session, row: JobRow, state: str, now: float) -> None:
    newest = (AttemptRow.job_id == row.id, AttemptRow.fence == row.fence)
    session.execute(update(AttemptRow).where(*newest).values(state=state, ended_at=now))


def full_profile(row: AgentRow) -> Profile:
    """What an agent offers, under the name the server knows it by and with the labels given here."""
    own = from_json(Profile, row.profile, source=row.id)
    labels = {**own.labels, **cast("dict[str, str]", row.labels)}
    return replace(own, id=row.id, name=row.name, labels=labels, takes_jobs=row.device.get("registered_by") != "sark")


def _found_or_new(session: Session, enrolment: Enrolment, now: float) -> tuple[AgentRow, bool]:
    this = select(AgentRow).where(AgentRow.identity == enrolment.identity).with_for_update(key_share=True)
    while True:
        fresh = _insert_new(session, enrolment, now)
        row = session.scalars(this).one_or_none()
        if row is not None:  # else it existed and was removed in between
            return row, fresh


def _insert_new(session: Session, enrolment: Enrolment, now: float) -> bool:
    """Keep an agent that is not there yet; two requests at the same moment make one."""
    added = session.execute(
        insert_into(session, AgentRow)
        .values(
            id=f"agent-{content_hash(enrolment.identity)[:12]}",
            identity=enrolment.identity,
            name=enrolment.name,
            state="active",
            profile=to_json(enrolment.profile),
            device={},
            labels={},
            enrolled_at=now,
            last_seen=now,
        )
        .on_conflict_do_nothing()
        .returning(AgentRow.id)
    )
    return added.scalar_one_or_none() is not None


def _refresh(row: AgentRow, enrolment: Enrolment, now: float) -> None:
    row.name, row.profile, row.device = enrolment.name, to_json(enrolment.profile), dict(enrolment.device)
    row.address, row.version, row.slots = enrolment.address, enrolment.version, max(1, enrolment.slots)
    row.state, row.note, row.last_seen = "active", "", now


def _known(session: Session, agents: set[str]) -> dict[str, bool]:
    """Those of some agents that are enrolled, and whether they drain; locked in the order of their ids."""
    query = select(AgentRow.id, AgentRow.draining).where(AgentRow.id.in_(agents)).order_by(AgentRow.id)
    return {row.id: row.draining for row in session.execute(query.with_for_update())}


def _note(session: Session, accepted: Sequence[Beat], now: float) -> None:
    """Keep what agents say; those that say the same are kept in one statement."""
    agents_by_note: dict[tuple[str, str], list[str]] = {}
    for agent, beat in accepted:
        agents_by_note.setdefault((beat.state, beat.note[:_LONGEST_NOTE]), []).append(agent)
    for (state, note), agents in agents_by_note.items():
        session.execute(update(AgentRow).where(AgentRow.id.in_(agents)).values(last_seen=now, state=state, note=note))
