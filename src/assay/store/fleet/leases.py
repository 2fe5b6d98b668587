"""Leases: given out once, renewed, given back, lost, or ended by a result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from pydantic import JsonValue
from sqlalchemy import Table, bindparam, delete, func, insert, select, update
from sqlalchemy.orm import Session

from assay.documents import from_json, to_json
from assay.place.fleet.protocol import JobProgress, Progress
from assay.place.leasing import Delivery, JobOffer, Lease, after_loss, backoff_s, delivery
from assay.plan.job import Event, Job, State, after
from assay.run.records import SingleRunResult
from assay.store.fleet.agents import end_attempt, give_back, known_agent
from assay.store.fleet.matching import LeaseCandidate, Matcher, due, is_fair, next_job, open_parts, with_work
from assay.store.fleet.transactions import CHUNK, LOCK, WITHOUT_DOCUMENTS, append
from assay.store.tables import AgentRow, AttemptRow, CampaignRow, EvidenceRow, JobRow, NeedsRow, RunRow

_MOST_LEFT_OUT = 1_000_000
_HOLDS = (
    select(func.count()).select_from(JobRow).where(JobRow.agent_id == bindparam("agent"), JobRow.state == "running")
)
_NEW_RUNS = insert(cast("Table", RunRow.__table__))


class Leases(Matcher):
    def take(self, agent_id: str, device: str = "") -> Lease | None:
        """Give an agent the next job that it can do, or nothing."""
        with self._writing() as session:
            agent = known_agent(session, agent_id, lock=True)
            if not _has_room(session, agent):
                return None
            keys = with_work(session, self._met(session, agent, device), self.lease_now())
            row = next_job(session, self._candidate(session, agent), keys) if keys else None
            return None if row is None else self._lease(session, row, agent)

    def claim(self, agent_id: str, job_id: str, fence: int) -> Lease | None:
        """Give an agent the very job that it took from a queue, if the offer still stands.

        Claiming again what the agent already holds gives the same lease: an answer may get lost on its way.
        """
        with self._writing() as session:
            agent = known_agent(session, agent_id, lock=True)
            fair = is_fair(session, self._candidate(session, agent), job_id)
            row = session.get(JobRow, job_id, with_for_update=LOCK)
            if row is None:
                return None
            if (row.state, row.agent_id, row.fence) == ("running", agent_id, fence):
                row.expires_at = self.lease_now() + self.policy.lease_s
                return self._lease_of(row, agent)
            # A queue counts every time that it hands a job out: numbers may be left out, but never used twice.
            newer = row.fence < fence <= row.fence + _MOST_LEFT_OUT
            stands = fair and row.state == "pending" and newer and row.not_before <= self.lease_now()
            if not stands or not _has_room(session, agent) or row.needs not in self._met(session, agent, ""):
                return None
            return self._lease(session, row, agent, fence)

    def _candidate(self, session: Session, agent: AgentRow) -> LeaseCandidate:
        shared = open_parts(session, self._needs.shared(session))
        return LeaseCandidate(agent, self._now(), self.lease_now(), self._needs.met_by, self.policy.lease_s, shared)

    def ready(self) -> dict[str, int]:
        """How many jobs may go out now, by the key of their needs."""
        query = select(JobRow.needs, func.count()).where(*due(self.lease_now()), JobRow.needs != "")
        return dict(self._rows(query.group_by(JobRow.needs)))

    def queued(self) -> tuple[tuple[Job, int], ...]:
        """How many jobs wait, by their needs: one job that stands for all with the same ones, and their number."""
        waiting = (
            select(JobRow.needs, func.count().label("jobs"))
            .where(JobRow.state == "pending", JobRow.needs != "")
            .group_by(JobRow.needs)
            .subquery()
        )
        query = select(NeedsRow.document, waiting.c.jobs).join(waiting, waiting.c.needs == NeedsRow.id)
        return tuple((from_json(Job, document, source="needs"), jobs) for document, jobs in self._rows(query))

    def offers(self, limit: int = 10_000) -> tuple[JobOffer, ...]:
        """Jobs that may go out now, in the order in which they should."""
        query = (
            select(JobRow.id, JobRow.needs, JobRow.campaign_id, CampaignRow.priority, JobRow.fence)
            .join(CampaignRow, CampaignRow.id == JobRow.campaign_id)
            .where(*due(self.lease_now()), CampaignRow.engine == "fleet")
            .order_by(CampaignRow.priority.desc(), CampaignRow.served, CampaignRow.created_at, JobRow.position)
        )
        return tuple(JobOffer(*row) for row in self._rows(query.limit(limit)))

    def expire(self, until: float | None = None) -> tuple[str, ...]:
        """Take back leases that ran out; their jobs are offered again after a wait, or set aside. Return the jobs."""
        jobs: list[str] = []
        over = self.lease_now() if until is None else until
        while expired := self._expire_some(over):
            jobs += expired
        return tuple(jobs)

    def renew_all(self) -> int:
        """Renew every lease: for a server that was down or stood still, when no agent could. Return how many there are.

        No job waits longer than the longest wait: one that does was put off by a clock that was wrong.
        """
        now = self.lease_now()
        with self._writing() as session:
            session.execute(
                update(JobRow)
                .where(JobRow.state == "pending", JobRow.not_before > now + self.policy.longest_backoff_s)
                .values(not_before=now)
            )
            renewed = session.execute(
                update(JobRow)
                .where(JobRow.state == "running", JobRow.expires_at.is_not(None))
                .values(expires_at=now + self.policy.lease_s)
            )
            return int(renewed.rowcount)  # type: ignore[attr-defined]

    def release(self, job_id: str, fence: int, agent_id: str, reason: str, *, crashed: bool = False) -> bool:
        """Take a lease back unfinished; return whether it was still the agent's.

        Args:
            crashed: it took its agent down: counts against the job, as a lease that ran out does.
        """
        now = self._now()
        with self._writing() as session:
            row = self._held_job(session, job_id, fence, agent_id)
            if row is None:
                return False
            if crashed:
                self._lose(session, row, now, "crashed", reason)
            else:
                give_back(session, row, now)
                detail = {"agent": agent_id, "fence": fence, "reason": reason}
                self._log_event(session, row.campaign_id, row.id, "released", detail)
            return True

    def progress(self, job_id: str, fence: int, progress: Progress) -> bool:
        """Note how far an attempt is and what it wrote, which also renews its lease; False when it is lost."""
        now = self._now()
        with self._writing() as session:
            row = self._held_job(session, job_id, fence, progress.agent)
            if row is None:
                return False
            if progress.runs and (row.progress or {}).get("run") != progress.run:
                detail = {"run": progress.run + 1, "of": progress.runs, "agent": row.agent_id, "fence": fence}
                self._log_event(session, row.campaign_id, row.id, "run began", detail)
            row.progress = {**progress_detail(progress), "at": now}
            row.expires_at = self.lease_now() + self.policy.lease_s
            append(session, job_id, fence, now, progress.log)
            return True

    def deliver(
        self,
        job_id: str,
        fence: int,
        agent_id: str,
        *,
        event: Event,
        verdict: str | None,
        result: str,
        runs: Sequence[SingleRunResult] = (),
        reason: str = "",
    ) -> Delivery:
        """Take a result with its runs, once: a late or repeated one is kept as evidence and not counted."""
        now = self._now()
        with self._writing() as session:
            row = session.get(JobRow, job_id, with_for_update=LOCK, options=WITHOUT_DOCUMENTS)
            attempt = session.get(AttemptRow, (job_id, fence))
            if row is None or attempt is None or attempt.agent_id != agent_id:
                return "unknown"
            taken = delivery(row.state, row.fence, fence, attempt.state)
            detail: dict[str, JsonValue] = {"agent": agent_id, "fence": fence}
            if taken == "accepted":
                _accept(row, attempt, event, verdict, result, now)
                row.reason = reason
                _replace_runs(session, job_id, runs, first=fence == 1)
                detail |= {"state": row.state, "verdict": verdict, "reason": reason}
            else:
                session.add(
                    EvidenceRow(job_id=job_id, fence=fence, agent_id=agent_id, at=now, reason=taken, document=result)
                )
                detail |= {"lease": attempt.state, "job": row.state}
            self._log_event(session, row.campaign_id, row.id, f"result {taken}", detail)
            return taken

    # What one transaction is made of

    def _lease(self, session: Session, row: JobRow, agent: AgentRow, fence: int | None = None) -> Lease:
        now = self._now()
        row.state = after(cast("State", row.state), "start")
        row.fence, row.agent_id = fence or row.fence + 1, agent.id
        row.expires_at = self.lease_now() + self.policy.lease_s
        row.started_at, row.progress, agent.state = row.started_at or now, None, "busy"
        session.add(AttemptRow(job_id=row.id, fence=row.fence, agent_id=agent.id, state="leased", leased_at=now))
        detail = {"agent": agent.id, "name": agent.name, "fence": row.fence}
        self._log_event(session, row.campaign_id, row.id, "leased", detail)
        session.flush()
        # Last: every lease of a campaign changes this row, and the lock on it lasts until the end.
        session.execute(
            update(CampaignRow).where(CampaignRow.id == row.campaign_id).values(served=CampaignRow.served + 1)
        )
        return self._lease_of(row, agent)

    def _lease_of(self, row: JobRow, agent: AgentRow) -> Lease:
        return Lease(from_json(Job, row.document, source=row.id), row.fence, agent.id, self.policy.lease_s)

    def _expire_some(self, until: float) -> list[str]:
        now = self._now()
        over = (JobRow.state == "running", JobRow.expires_at < until)
        if self._scalar(select(JobRow.id).where(*over).limit(1)) is None:
            return []
        with self._writing() as session:
            rows = session.scalars(
                select(JobRow)
                .where(*over)
                .order_by(JobRow.id)
                .limit(CHUNK)
                .options(*WITHOUT_DOCUMENTS)
                .with_for_update(skip_locked=True, key_share=True)
            ).all()
            for row in rows:
                self._lose(session, row, now, "expired", "")
            return [row.id for row in rows]

    def _lose(self, session: Session, row: JobRow, now: float, how: str, reason: str) -> None:
        """End a lease that was lost: the job waits a while and goes out again, or is set aside."""
        end_attempt(session, row, how, now)
        row.lost += 1
        event = after_loss(self.policy, row.lost)
        row.state, row.expires_at, row.progress = after(cast("State", row.state), event), None, None
        detail: dict[str, JsonValue] = {"agent": row.agent_id, "fence": row.fence, "lost": row.lost, "reason": reason}
        if event == "expire":
            wait_s = backoff_s(self.policy, row.lost, self._random.random())
            row.not_before = self.lease_now() + wait_s
            kind = "lease expired" if how == "expired" else "attempt crashed"
            self._log_event(session, row.campaign_id, row.id, kind, {**detail, "again_in_s": round(wait_s, 2)})
        else:
            row.ended_at, row.reason = now, f"{row.lost} agents in a row were lost while they measured it"
            self._log_event(session, row.campaign_id, row.id, "set aside as poisoned", {**detail, "last": how})

    def _held_job(self, session: Session, job_id: str, fence: int, agent_id: str) -> JobRow | None:
        """The job of a lease that is still an agent's own, locked."""
        row = session.get(JobRow, job_id, with_for_update=LOCK, options=WITHOUT_DOCUMENTS)
        mine = row is not None and (row.state, row.fence, row.agent_id) == ("running", fence, agent_id)
        return row if mine else None


def _has_room(session: Session, agent: AgentRow) -> bool:
    if agent.draining or agent.state == "faulty":
        return False
    return (session.scalar(_HOLDS, {"agent": agent.id}) or 0) < agent.slots


def _accept(row: JobRow, attempt: AttemptRow, event: Event, verdict: str | None, result: str, now: float) -> None:
    attempt.state, attempt.ended_at = "delivered", now
    row.state, row.verdict, row.result = after(cast("State", row.state), event), verdict, result
    took_s = now - attempt.leased_at
    row.seconds = took_s if took_s >= 0 else None  # the clock was set back meanwhile: the duration is unknown
    row.expires_at, row.ended_at, row.progress = None, now, None


def _replace_runs(session: Session, job_id: str, runs: Sequence[SingleRunResult], *, first: bool) -> None:
    if not first:  # under the first lease there are none yet
        session.execute(delete(RunRow).where(RunRow.job_id == job_id))
    if runs:
        session.execute(_NEW_RUNS, list({run.run_id: run_values(job_id, run) for run in runs}.values()))


def progress_detail(progress: Progress | JobProgress) -> dict[str, JsonValue]:
    """How far a job is, as its row and its history keep it."""
    return {name: getattr(progress, name) for name in ("run", "runs", "phase", "share", "note")}


def run_values(job_id: str, run: SingleRunResult) -> dict[str, object]:
    return {
        "job_id": job_id,
        "run_id": run.run_id,
        "started_at": run.started_at,
        "failed": run.error is not None,
        "samples": run.samples,
        "document": to_json(run),
    }
