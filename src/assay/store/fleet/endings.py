"""How jobs and campaigns end without a result, and how they begin again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from sqlalchemy import delete, exists, func, insert, literal, select, update
from sqlalchemy.orm import Session

from assay.clock import iso
from assay.errors import UsageError
from assay.place.needs import machines_of, missing
from assay.plan.job import FINAL, TABLE, Event, State, after, campaign_state
from assay.store.database import parts_of
from assay.store.fleet.agents import full_profile
from assay.store.fleet.matching import Matcher
from assay.store.fleet.transactions import CHUNK, LOCK
from assay.store.listing import unknown_campaign, unknown_job
from assay.store.records import Outcome
from assay.store.tables import REPORTED, AgentRow, AttemptRow, CampaignRow, EvidenceRow, JobRow, RunRow

OPEN: tuple[State, ...] = ("pending", "running")
AGAIN: tuple[State, ...] = tuple(state for state, event in TABLE if event == "retry")
# Machines named in a reason; the placement of the campaign names all of them.
_NAMED = 5


@dataclass(frozen=True, slots=True)
class LockedJob:
    """A job as it stands, without its documents."""

    id: str
    campaign_id: str
    state: State


class Endings(Matcher):
    def cancel(self, job_id: str, reason: str = "", *, by: str = "") -> State:
        outcome = self.batch("cancel", (job_id,), reason=reason, by=by)[job_id]
        if outcome.state is None:
            raise unknown_job(job_id)
        if outcome.problem and outcome.state not in FINAL:
            raise UsageError(outcome.problem, code="not-fleet")
        return outcome.state

    def retry(self, job_id: str, *, by: str = "") -> State:
        outcome = self.batch("retry", (job_id,), by=by)[job_id]
        if outcome.state is None:
            raise unknown_job(job_id)
        if outcome.problem:
            raise UsageError(outcome.problem, code="conflict", try_="cancel it first, or submit it again")
        return outcome.state

    def batch(
        self, action: Literal["cancel", "retry"], jobs: Sequence[str], *, reason: str = "", by: str = ""
    ) -> dict[str, Outcome]:
        """Cancel or retry many jobs; return the outcome of each."""
        outcomes: dict[str, Outcome] = {}
        for chunk in parts_of(sorted(set(jobs)), CHUNK):
            with self._writing() as session:
                rows = _standing(session, JobRow.id.in_(chunk))
                fleet = _in_fleet(session, {row.campaign_id for row in rows})
                can = [row for row in rows if row.campaign_id in fleet and row.state in _FROM[action]]
                if action == "cancel":
                    self._end(session, can, "cancel", kind="cancelled", reason=reason, by=by)
                else:
                    self._again(session, can, by=by)
                changed = {row.id for row in can}
                outcomes |= {row.id: _outcome(row, action, row.id in changed, row.campaign_id in fleet) for row in rows}
        return {job: outcomes.get(job, Outcome(None, changed=False, problem=f"no job {job!r}")) for job in jobs}

    def cancel_campaign(self, campaign: str, reason: str = "", *, by: str = "") -> tuple[str, ...]:
        with self._writing() as session:
            _refuse_foreign(session, campaign)
            rows = _standing(session, JobRow.campaign_id == campaign, JobRow.state.in_(OPEN))
            self._end(session, rows, "cancel", kind="cancelled", reason=reason, by=by)
            self._settle(session, campaign)
            return tuple(row.id for row in rows)

    def retry_campaign(self, campaign: str, *, by: str = "") -> tuple[str, ...]:
        """Retry what failed, was cancelled or was set aside of a campaign; return those jobs."""
        with self._writing() as session:
            _refuse_foreign(session, campaign)
            rows = _standing(session, JobRow.campaign_id == campaign, JobRow.state.in_(AGAIN))
            self._again(session, rows, by=by)
            return tuple(row.id for row in rows)

    def enforce_deadlines(self) -> tuple[str, ...]:
        """Fail what has not ended of campaigns whose deadline has passed; return those jobs."""
        over = (CampaignRow.state == "running", CampaignRow.engine == "fleet", CampaignRow.deadline <= self.lease_now())
        ended: list[str] = []
        for campaign in self._campaigns(*over):
            with self._writing() as session:
                rows = _standing(session, JobRow.campaign_id == campaign, JobRow.state.in_(OPEN))
                if session.scalar(select(CampaignRow.id).where(CampaignRow.id == campaign, *over)) is None:
                    continue  # a retry gave it more time
                self._end(session, rows, "fail", kind="deadline passed", reason="the deadline of its campaign passed")
                self._settle(session, campaign)
                ended += [row.id for row in rows]
        return tuple(ended)

    def fail_unplaceable(self, campaign: str | None = None) -> tuple[str, ...]:
        """Fail waiting jobs that no enrolled agent can take, where the campaign asks for it; return those jobs."""
        strict = (CampaignRow.state == "running", CampaignRow.engine == "fleet", CampaignRow.unplaceable == "fail")
        which = strict if campaign is None else (*strict, CampaignRow.id == campaign)
        ended: list[str] = []
        for name in self._campaigns(*which):
            with self._writing() as session:
                reasons = self._hopeless(session, name)
                for key, reason in reasons.items():
                    waits = (JobRow.campaign_id == name, JobRow.state == "pending", JobRow.needs == key)
                    rows = _standing(session, *waits)
                    self._end(session, rows, "fail", kind="no agent can take it", reason=reason)
                    ended += [row.id for row in rows]
                if reasons:
                    self._settle(session, name)
        return tuple(ended)

    def settle_campaigns(self) -> dict[str, str]:
        """End running campaigns whose jobs have all ended; return the state in which each ended."""
        unfinished = exists().where(JobRow.campaign_id == CampaignRow.id, JobRow.state.in_(OPEN))
        settled: dict[str, str] = {}
        for campaign in self._campaigns(CampaignRow.state == "running", CampaignRow.engine == "fleet", ~unfinished):
            with self._writing() as session:
                state = self._settle(session, campaign)
            if state:
                settled[campaign] = state
        return settled

    # What one transaction is made of

    def _campaigns(self, *conditions: Any) -> tuple[str, ...]:  # noqa: ANN401  (SQLAlchemy's own kind)
        return tuple(self._scalars(select(CampaignRow.id).where(*conditions).order_by(CampaignRow.id)))

    def _end(
        self, session: Session, rows: Sequence[LockedJob], event: Event, *, kind: str, reason: str, by: str = ""
    ) -> None:
        """End jobs that wait or run, and the leases they have; their agents learn of it with the next heartbeat."""
        now = self._now()
        for chunk in parts_of(rows, CHUNK):
            ids = [row.id for row in chunk]
            leased = (AttemptRow.job_id.in_(ids), AttemptRow.state == "leased")
            session.execute(update(AttemptRow).where(*leased).values(state="cancelled", ended_at=now))
            for state in OPEN:
                session.execute(
                    update(JobRow)
                    .where(JobRow.id.in_(ids), JobRow.state == state)
                    .values(state=after(state, event), reason=reason, ended_at=now, expires_at=None)
                )
            self._log_events(session, [(row.campaign_id, row.id) for row in chunk], kind, {"reason": reason, "by": by})

    def _again(self, session: Session, rows: Sequence[LockedJob], *, by: str) -> None:
        """Let ended jobs wait again, as if they were new; a result they had is kept as evidence."""
        now = self._now()
        nothing = dict.fromkeys(
            ("result", "verdict", "seconds", "started_at", "ended_at", "expires_at", "progress"), None
        )
        for chunk in parts_of(rows, CHUNK):
            ids = [row.id for row in chunk]
            _keep_replaced(session, ids, now)
            session.execute(delete(RunRow).where(RunRow.job_id.in_(ids)))
            for state in AGAIN:
                new = {"state": after(state, "retry"), "lost": 0, "not_before": 0.0, "reason": "", **nothing}
                session.execute(update(JobRow).where(JobRow.id.in_(ids), JobRow.state == state).values(**new))
            self._log_events(session, [(row.campaign_id, row.id) for row in chunk], "retried", {"by": by})
        for campaign in sorted({row.campaign_id for row in rows}):
            row = session.get_one(CampaignRow, campaign, with_for_update=LOCK)
            if row.deadline is not None and row.deadline <= self.lease_now():
                row.deadline = None  # a retry after the deadline is meant to run anyway
            if row.state != "running":
                row.state, row.completed_at = "running", None
                self._log_event(session, campaign, None, "campaign reopened", {"by": by})

    def _settle(self, session: Session, campaign: str) -> str | None:
        """End a campaign if all its jobs have ended; the row is locked, so that a retry comes before or after."""
        row = session.get(CampaignRow, campaign, with_for_update=LOCK)
        if row is None or row.state != "running" or (row.engine != "fleet" and row.origin != REPORTED):
            return None
        query = select(JobRow.state, func.count()).where(JobRow.campaign_id == campaign).group_by(JobRow.state)
        counts: dict[str, int] = dict(session.execute(query).all())
        if any(state in counts for state in OPEN):
            return None
        row.state, row.completed_at = campaign_state(counts), iso(self._clock.utc())
        self._log_event(session, campaign, None, "campaign settled", {"state": row.state, **counts})
        return row.state

    def _hopeless(self, session: Session, campaign: str) -> dict[str, str]:
        """Needs of waiting jobs that no enrolled agent meets → why, in words."""
        waiting = select(JobRow.needs).where(JobRow.campaign_id == campaign, JobRow.state == "pending").distinct()
        agents = [full_profile(row) for row in session.scalars(select(AgentRow).order_by(AgentRow.name))]
        jobs = self._needs.all(session)
        reasons: dict[str, str] = {}
        for key in session.scalars(waiting):
            lacks = [missing(jobs[key], profile) for profile in agents]
            able = sum(not lacking for lacking in lacks)
            if 0 < able < machines_of(jobs[key]):
                reasons[key] = f"{machines_of(jobs[key])} agents must share it, and {able} can take it"
            elif not able:
                words = "; ".join(dict.fromkeys(why for lacking in lacks[:_NAMED] for why in lacking))
                reasons[key] = f"no agent can take it: {words}" if words else "no agent is enrolled"
        return reasons


_FROM: dict[str, tuple[State, ...]] = {"cancel": OPEN, "retry": AGAIN}


def _outcome(row: LockedJob, action: Literal["cancel", "retry"], changed: bool, fleet: bool) -> Outcome:
    state = row.state
    if changed:
        return Outcome(after(state, action), changed=True)
    why = f"a job that is {state} cannot be {'cancelled' if action == 'cancel' else 'retried'}"
    return Outcome(state, changed=False, problem=why if fleet else "it belongs to a campaign that no server runs")


def _standing(session: Session, *conditions: Any) -> Sequence[LockedJob]:  # noqa: ANN401  (SQLAlchemy's own kind)
    """Jobs as they stand, locked in the order of their ids."""
    query = select(JobRow.id, JobRow.campaign_id, JobRow.state).where(*conditions)
    rows = session.execute(query.order_by(JobRow.id).with_for_update(key_share=True))
    return [LockedJob(job, campaign, cast("State", state)) for job, campaign, state in rows]


def _in_fleet(session: Session, campaigns: set[str]) -> set[str]:
    query = select(CampaignRow.id).where(CampaignRow.id.in_(campaigns), CampaignRow.engine == "fleet")
    return set(session.scalars(query))


def _refuse_foreign(session: Session, campaign: str) -> None:
    """Make sure that a campaign is there and a server's own."""
    engine = session.scalar(select(CampaignRow.engine).where(CampaignRow.id == campaign))
    if engine is None:
        raise unknown_campaign(campaign)
    if engine != "fleet":
        raise UsageError(
            f"no server runs the campaign {campaign}",
            code="not-fleet",
            try_="it is measured elsewhere: use `assay campaigns` there",
        )


def _keep_replaced(session: Session, ids: Sequence[str], now: float) -> None:
    columns = ["job_id", "fence", "agent_id", "at", "reason", "document"]
    replaced = select(
        JobRow.id, JobRow.fence, func.coalesce(JobRow.agent_id, ""), literal(now), literal("replaced"), JobRow.result
    ).where(JobRow.id.in_(ids), JobRow.result.is_not(None))
    session.execute(insert(EvidenceRow).from_select(columns, replaced))
