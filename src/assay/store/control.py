"""The control plane's records: agents, leases, deliveries and the history that explains them.

Every function is one short transaction. On PostgreSQL several servers may share the tables: jobs are taken with
SKIP LOCKED, so that two never give out the same one. On SQLite transactions take turns.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import cast

from pydantic import JsonValue
from sqlalchemy import Engine, select, update
from sqlalchemy.orm import Session

from assay.clock import Clock
from assay.documents import from_json, to_json
from assay.errors import UsageError
from assay.place.leasing import Delivery, Lease, LeasePolicy, after_loss, backoff_s, delivery
from assay.place.needs import Profile, missing
from assay.plan.digest import content_hash
from assay.plan.job import Job
from assay.plan.lifecycle import Event, State, after
from assay.store.tables import AgentRow, AttemptRow, CampaignRow, EventRow, EvidenceRow, JobRow, NeedsRow


@dataclass(frozen=True, slots=True)
class AgentRecord:
    """A device as the server knows it."""

    id: str
    name: str
    state: str
    profile: Profile
    device: Mapping[str, JsonValue]
    enrolled_at: float
    last_seen: float
    draining: bool
    jobs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JobEvent:
    """One line of a job's history."""

    at: float
    kind: str
    detail: Mapping[str, JsonValue] = field(default_factory=dict)


class Control:
    """Who may measure what, and what came of it."""

    def __init__(
        self, engine: Engine, clock: Clock, policy: LeasePolicy | None = None, seed: int | None = None
    ) -> None:
        self._engine = engine
        self._clock = clock
        self.policy = policy or LeasePolicy()
        self._random = random.Random(seed)  # noqa: S311  (spreads retries; nothing secret)

    # Agents

    def enroll(
        self, identity: str, name: str, profile: Profile, device: Mapping[str, JsonValue] | None = None
    ) -> tuple[AgentRecord, str]:
        """Make a device known, or refresh what is known of it; the word says which: created, updated, recovered."""
        now = self._now()
        with self._session() as session:
            row = session.scalars(select(AgentRow).where(AgentRow.identity == identity)).one_or_none()
            done = "created" if row is None else "recovered" if row.state == "faulty" else "updated"
            if row is None:
                row = AgentRow(id=f"agent-{content_hash(identity)[:12]}", identity=identity, enrolled_at=now)
                session.add(row)
            row.name, row.profile, row.device = name, to_json(profile), dict(device or {})
            row.state, row.last_seen, row.draining = "active", now, False
            session.flush()
            return _agent(row, self._held(session, row.id)), done

    def heartbeat(self, agent_id: str, state: str, held: Sequence[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
        """Renew an agent's leases; return those that are no longer its own, which it must stop."""
        now = self._now()
        with self._session() as session:
            row = self._known(session, agent_id)
            row.last_seen, row.state = now, state
            lost = []
            for job_id, fence in held:
                renewed = session.execute(
                    update(JobRow)
                    .where(JobRow.id == job_id, JobRow.fence == fence, JobRow.agent_id == agent_id)
                    .where(JobRow.state == "running")
                    .values(expires_at=now + self.policy.lease_s)
                )
                if renewed.rowcount == 0:  # type: ignore[attr-defined]
                    lost.append((job_id, fence))
            return tuple(lost)

    def agents(self) -> tuple[AgentRecord, ...]:
        """All agents, by name."""
        with self._session() as session:
            rows = session.scalars(select(AgentRow).order_by(AgentRow.name, AgentRow.id)).all()
            return tuple(_agent(row, self._held(session, row.id)) for row in rows)

    def set_draining(self, agent_id: str, *, draining: bool) -> None:
        """Let an agent finish what it holds and give it nothing new, or let it take jobs again."""
        with self._session() as session:
            self._known(session, agent_id).draining = draining

    def mark_silent(self, after_s: float) -> tuple[str, ...]:
        """Mark agents that have not been heard of for a while as faulty; return them."""
        with self._session() as session:
            rows = session.scalars(
                select(AgentRow).where(AgentRow.last_seen < self._now() - after_s, AgentRow.state != "faulty")
            ).all()
            for row in rows:
                row.state = "faulty"
            return tuple(row.id for row in rows)

    # Leases

    def take(self, agent_id: str) -> Lease | None:
        """Give an agent the next job that it can do: highest priority, then the campaign that was served least."""
        now = self._now()
        with self._session() as session:
            agent = self._known(session, agent_id)
            if agent.draining or agent.state == "faulty":
                return None
            row = session.scalars(
                select(JobRow)
                .join(CampaignRow, CampaignRow.id == JobRow.campaign_id)
                .where(JobRow.state == "pending", JobRow.not_before <= now, CampaignRow.engine == "fleet")
                .where(JobRow.needs.in_(self._suitable(session, agent)))
                .order_by(CampaignRow.priority.desc(), CampaignRow.served, CampaignRow.created_at, JobRow.position)
                .limit(1)
                .with_for_update(of=JobRow, skip_locked=True)
            ).one_or_none()
            return None if row is None else self._lease(session, row, agent, now)

    def expire(self) -> tuple[str, ...]:
        """Take back leases that ran out; their jobs are offered again after a wait, or set aside. Return the jobs."""
        now = self._now()
        with self._session() as session:
            rows = session.scalars(
                select(JobRow)
                .where(JobRow.state == "running", JobRow.expires_at < now)
                .with_for_update(skip_locked=True)
            ).all()
            for row in rows:
                self._lose(session, row, now)
            return tuple(row.id for row in rows)

    def deliver(
        self, job_id: str, fence: int, agent_id: str, *, event: Event, verdict: str | None, result: str
    ) -> Delivery:
        """Take a result, once: a late or repeated one is kept as evidence and not counted."""
        now = self._now()
        with self._session() as session:
            row = session.get(JobRow, job_id, with_for_update=True)
            attempt = session.get(AttemptRow, (job_id, fence))
            if row is None or attempt is None or attempt.agent_id != agent_id:
                return "unknown"
            taken = delivery(row.state, row.fence, fence, attempt.state)
            if taken == "accepted":
                _accept(row, attempt, event, verdict, result, now)
            elif taken in ("late", "repeated"):
                session.add(
                    EvidenceRow(job_id=job_id, fence=fence, agent_id=agent_id, at=now, reason=taken, document=result)
                )
            self._tell(session, row, f"result {taken}", {"agent": agent_id, "fence": fence})
            return taken

    def evidence(self, job_id: str) -> tuple[tuple[str, int], ...]:
        """Results of a job that were kept and not counted: why, and under which lease."""
        with self._session() as session:
            rows = session.scalars(select(EvidenceRow).where(EvidenceRow.job_id == job_id).order_by(EvidenceRow.id))
            return tuple((row.reason, row.fence) for row in rows)

    def cancel(self, job_id: str) -> State:
        """Cancel a job in whatever state it is; one that has ended stays as it ended."""
        with self._session() as session:
            row = session.get_one(JobRow, job_id, with_for_update=True)
            if row.state in ("pending", "running"):
                attempt = session.get(AttemptRow, (job_id, row.fence))
                if attempt is not None and attempt.state == "leased":
                    attempt.state, attempt.ended_at = "cancelled", self._now()
                row.state = after(cast("State", row.state), "cancel")
                self._tell(session, row, "cancelled", {})
            return cast("State", row.state)

    def history(self, job_id: str) -> tuple[JobEvent, ...]:
        """Everything that happened to a job, in order."""
        with self._session() as session:
            rows = session.scalars(select(EventRow).where(EventRow.job_id == job_id).order_by(EventRow.id))
            return tuple(JobEvent(row.at, row.kind, row.detail) for row in rows)

    # What one transaction is made of

    def _lease(self, session: Session, row: JobRow, agent: AgentRow, now: float) -> Lease:
        row.state = after(cast("State", row.state), "start")
        row.fence, row.agent_id, row.expires_at = row.fence + 1, agent.id, now + self.policy.lease_s
        agent.state = "busy"
        session.add(AttemptRow(job_id=row.id, fence=row.fence, agent_id=agent.id, state="leased", leased_at=now))
        session.execute(
            update(CampaignRow).where(CampaignRow.id == row.campaign_id).values(served=CampaignRow.served + 1)
        )
        self._tell(session, row, "leased", {"agent": agent.id, "fence": row.fence})
        return Lease(from_json(Job, row.document, source=row.id), row.fence, agent.id, self.policy.lease_s)

    def _lose(self, session: Session, row: JobRow, now: float) -> None:
        attempt = session.get_one(AttemptRow, (row.id, row.fence))
        attempt.state, attempt.ended_at = "expired", now
        session.flush()
        lost = len(
            session.scalars(
                select(AttemptRow.fence).where(AttemptRow.job_id == row.id, AttemptRow.state == "expired")
            ).all()
        )
        event = after_loss(self.policy, lost)
        row.state, row.expires_at = after(cast("State", row.state), event), None
        wait_s = backoff_s(self.policy, lost, self._random.random())
        row.not_before = now + wait_s
        detail: dict[str, JsonValue] = {"agent": row.agent_id, "fence": row.fence, "lost": lost}
        if event == "expire":
            self._tell(session, row, "lease expired", {**detail, "again_in_s": round(wait_s, 2)})
        else:
            self._tell(session, row, "set aside as poisoned", detail)

    def _suitable(self, session: Session, agent: AgentRow) -> list[str]:
        """The sets of needs that an agent meets; there are few, however many jobs there are."""
        profile = from_json(Profile, agent.profile, source=agent.id)
        rows = session.scalars(select(NeedsRow)).all()
        return [row.id for row in rows if not missing(from_json(Job, row.document, source=row.id), profile)]

    def _known(self, session: Session, agent_id: str) -> AgentRow:
        row = session.get(AgentRow, agent_id)
        if row is None:
            raise UsageError(f"no agent {agent_id!r} is enrolled", code="unknown-agent", try_="enrol it first")
        return row

    def _held(self, session: Session, agent_id: str) -> tuple[str, ...]:
        return tuple(session.scalars(select(JobRow.id).where(JobRow.agent_id == agent_id, JobRow.state == "running")))

    def _tell(self, session: Session, row: JobRow, kind: str, detail: Mapping[str, JsonValue]) -> None:
        session.add(
            EventRow(at=self._now(), campaign_id=row.campaign_id, job_id=row.id, kind=kind, detail=dict(detail))
        )

    def _now(self) -> float:
        return self._clock.utc().timestamp()

    @contextmanager
    def _session(self) -> Iterator[Session]:
        with Session(self._engine) as session, session.begin():
            yield session


def _accept(row: JobRow, attempt: AttemptRow, event: Event, verdict: str | None, result: str, now: float) -> None:
    attempt.state, attempt.ended_at = "delivered", now
    row.state, row.verdict, row.result = after(cast("State", row.state), event), verdict, result
    row.seconds, row.expires_at = now - attempt.leased_at, None


def _agent(row: AgentRow, jobs: tuple[str, ...]) -> AgentRecord:
    profile = from_json(Profile, row.profile, source=row.id)
    return AgentRecord(
        row.id, row.name, row.state, profile, row.device, row.enrolled_at, row.last_seen, row.draining, jobs
    )
