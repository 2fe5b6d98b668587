"""Which job goes next: by priority, then the campaign served least; spread, packed, or in parts of a shared load."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Double,
    Integer,
    String,
    bindparam,
    exists,
    func,
    literal_column,
    select,
)
from sqlalchemy.orm import Session

from assay.store.tables import AgentRow, AttemptRow, CampaignRow, JobRow, NeedsRow

_HOLDS = select(func.count()).where(JobRow.agent_id == AgentRow.id, JobRow.state == "running").scalar_subquery()
# Campaigns looked at together; almost always the first one has a job.
_TOGETHER = 100
Met = Callable[[Session, AgentRow], frozenset[str]]
_NOW: BindParameter[float] = bindparam("now", type_=Double())
_KEYS: BindParameter[Any] = bindparam("keys", expanding=True)
# SQLite chooses an index by counting what it could use it for, and would look through all that waits for every
# campaign. The sign keeps it from using this column, and so leads it to the index of the campaign.
_NEEDS: dict[str, ColumnElement[str]] = {
    "sqlite": literal_column("+jobs.needs", String()),
    "postgresql": JobRow.needs.expression,
}
_ORDER = (CampaignRow.priority.desc(), CampaignRow.served, CampaignRow.created_at, CampaignRow.id)
_SOME = (
    select(CampaignRow.id, CampaignRow.spread, func.row_number().over(order_by=_ORDER).label("rank"))
    .where(CampaignRow.state == "running", CampaignRow.engine == "fleet")
    .order_by(*_ORDER)
    .offset(bindparam("skip", type_=Integer()))
    .limit(_TOGETHER)
    .subquery()
)


@dataclass(frozen=True, slots=True)
class Turn:
    """Which needs of a campaign an agent may be given now."""

    keys: tuple[str, ...]
    stays: bool = False
    """Whether it should wait for others, to take a part beside them, if this campaign has nothing for it now."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An agent that asks, and how to tell what agents can do."""

    agent: AgentRow
    now: float
    meets: Callable[[Session, AgentRow], frozenset[str]]
    patience_s: float
    """An agent that was not heard of for this long is not counted on."""


@dataclass(frozen=True, slots=True)
class _Job:
    needs: str
    state: str
    agent: str | None


@dataclass(frozen=True, slots=True)
class SharedLoads:
    """The shared loads that have not ended."""

    machines: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Campaign → needs of its shared loads → how many machines share them."""
    begun: tuple[tuple[str, str], ...] = ()
    """Campaign and needs of those of which a part runs and another waits: nothing else is as urgent."""


def open_parts(session: Session, machines: Mapping[str, int]) -> SharedLoads:
    """The shared loads that have not ended, among needs of which it is known how many machines share them."""
    if not machines:
        return SharedLoads()
    columns = (JobRow.campaign_id, JobRow.needs, JobRow.state)
    query = select(*columns).where(JobRow.state.in_(("pending", "running")), JobRow.needs.in_(tuple(machines)))
    states: dict[tuple[str, str], set[str]] = {}
    found: dict[str, dict[str, int]] = {}
    for campaign, key, state in session.execute(query.distinct()):
        found.setdefault(campaign, {})[key] = machines[key]
        states.setdefault((campaign, key), set()).add(state)
    return SharedLoads(found, tuple(sorted(one for one, seen in states.items() if len(seen) > 1)))


def turn(session: Session, who: Candidate, campaign: str, keys: Sequence[str], machines: Mapping[str, int]) -> Turn:
    """Which of some needs an agent may be given of a campaign."""
    running = _jobs(session, campaign, JobRow.state == "running")
    busy = {job.needs for job in running}
    plain = tuple(key for key in keys if key not in machines and not busy & machines.keys())
    allowed: list[str] = []
    stays = False
    for key in (key for key in keys if key in machines):
        if busy - {key}:
            # It has just ended its own part, or is about to: the next point begins when the others have, too.
            stays = stays or who.agent.id in _had(session, campaign, busy & machines.keys())
            continue
        parts = _jobs(session, campaign, JobRow.needs == key)
        if who.agent.id in {job.agent for job in parts if job.state != "pending"}:
            continue
        waiting = sum(job.state == "pending" for job in parts)
        idle, living = _others(session, who, key, {job.agent for job in parts if job.state != "pending"})
        if key in busy or 1 + idle >= waiting:
            allowed.append(key)
        else:
            stays = stays or 1 + living >= waiting
    return Turn((*plain, *allowed), stays)


def _jobs(session: Session, campaign: str, *conditions: object) -> list[_Job]:
    query = select(JobRow.needs, JobRow.state, JobRow.agent_id).where(JobRow.campaign_id == campaign, *conditions)  # type: ignore[arg-type]
    return [_Job(*row) for row in session.execute(query)]


def _had(session: Session, campaign: str, keys: set[str]) -> set[str | None]:
    """Agents that have or had a part of some points."""
    return {job.agent for job in _jobs(session, campaign, JobRow.needs.in_(keys), JobRow.state != "pending")}


def _others(session: Session, who: Candidate, key: str, had: set[str | None]) -> tuple[int, int]:
    """How many other agents could take a part now, and how many once they have ended what they do."""
    heard = AgentRow.last_seen >= who.now - who.patience_s
    rows = session.execute(
        select(AgentRow, _HOLDS.label("holds")).where(
            AgentRow.id != who.agent.id, AgentRow.draining.is_(False), AgentRow.state != "faulty", heard
        )
    ).all()
    able = [(agent, holds) for agent, holds in rows if agent.id not in had and key in who.meets(session, agent)]
    return sum(agent.slots > holds for agent, holds in able), len(able)


@dataclass(frozen=True, slots=True)
class LeaseCandidate:
    """An agent that asks for a job."""

    agent: AgentRow
    now: float
    """The calendar time, for what was heard of others when."""
    lease_now: float
    """The time by which jobs are due."""
    met: Met
    """The keys of the needs that an agent meets."""
    patience_s: float
    """How long an idle agent that does not ask may keep others from a job that is to be spread."""
    shared: SharedLoads = field(default_factory=SharedLoads)
    """Loads that several machines share."""


def due(now: float | BindParameter[float]) -> tuple[ColumnElement[bool], ...]:
    """What makes a job one that may go out now."""
    return (JobRow.state == "pending", JobRow.not_before <= now)


def with_work(session: Session, keys: Sequence[str], now: float) -> tuple[str, ...]:
    """Those of some sets of needs that have jobs to give out: one look into an index for each."""
    return tuple(session.scalars(_WITH_WORK, {"keys": keys, "now": now}))


def next_job(session: Session, asking: LeaseCandidate, keys: Sequence[str]) -> JobRow | None:
    """The next job for an agent among those with certain needs; locked, so that nobody else gets it."""
    for campaign, spread, wanted in _in_order(session, asking, keys):
        simple = spread == "any" and campaign not in asking.shared.machines
        # What was locked for a campaign that has nothing for this agent is let go before the next is looked at.
        with nullcontext() if simple else session.begin_nested() as looking:
            now = Turn(tuple(wanted)) if simple else _turn(session, asking, campaign, spread, wanted)
            row = _first(session, campaign, now.keys, asking.lease_now) if now.keys else None
            if row is None and looking is not None:
                looking.rollback()
        if row is not None or now.stays:
            return row
    return None


def _in_order(
    session: Session, asking: LeaseCandidate, keys: Sequence[str]
) -> Iterator[tuple[str, str, Sequence[str]]]:
    """Campaigns and the needs to look for in each: first the parts that others wait for, then whoever's turn it is."""
    for campaign, key in asking.shared.begun:
        if key in keys:
            yield campaign, "any", (key,)
    for campaign, spread in _campaigns(session, keys, asking.lease_now):
        yield campaign, spread, keys


def _first(session: Session, campaign: str, keys: Sequence[str], now: float) -> JobRow | None:
    statement = _FIRST[session.get_bind().dialect.name]
    return session.scalars(statement, {"campaign": campaign, "keys": keys, "now": now}).one_or_none()


def _campaigns(session: Session, keys: Sequence[str], now: float) -> Iterator[tuple[str, str]]:
    """Campaigns that have work of certain needs, in the order in which they are served."""
    statement = _CAMPAIGNS[session.get_bind().dialect.name]
    for offset in range(0, 1_000_000, _TOGETHER):
        rows = session.execute(statement, {"keys": keys, "now": now, "skip": offset}).all()
        yield from ((row.id, row.spread) for row in rows if row.work)
        if len(rows) < _TOGETHER:
            return


# The questions are put together once: doing so takes longer than asking them.

_WITH_WORK = select(NeedsRow.id).where(NeedsRow.id.in_(_KEYS), exists().where(*due(_NOW), JobRow.needs == NeedsRow.id))
_FIRST = {
    dialect: select(JobRow)
    .where(JobRow.campaign_id == bindparam("campaign"), *due(_NOW), needs.in_(_KEYS))
    .order_by(JobRow.position)
    .limit(1)
    .with_for_update(skip_locked=True, key_share=True)
    for dialect, needs in _NEEDS.items()
}
_CAMPAIGNS = {
    dialect: select(
        _SOME.c.id,
        _SOME.c.spread,
        exists().where(JobRow.campaign_id == _SOME.c.id, *due(_NOW), needs.in_(_KEYS)).label("work"),
    ).order_by(_SOME.c.rank)
    for dialect, needs in _NEEDS.items()
}


def is_fair(session: Session, asking: LeaseCandidate, job_id: str) -> bool:
    """Whether an agent may have a job that it names itself, as far as spreading and packing go.

    Asked before the job is locked: campaigns are locked before jobs, here as everywhere.
    """
    found = session.execute(
        select(CampaignRow.id, CampaignRow.spread, JobRow.needs)
        .join(JobRow, JobRow.campaign_id == CampaignRow.id)
        .where(JobRow.id == job_id)
    ).one_or_none()
    if found is None or (found.spread == "any" and found.id not in asking.shared.machines):
        return True
    return bool(_turn(session, asking, found.id, found.spread, (found.needs,)).keys)


def _turn(session: Session, asking: LeaseCandidate, campaign: str, spread: str, keys: Sequence[str]) -> Turn:
    # Two agents that ask at once must not both find that nobody has begun.
    session.execute(select(CampaignRow.id).where(CampaignRow.id == campaign).with_for_update(key_share=True))
    now = Turn(tuple(keys))
    machines = asking.shared.machines.get(campaign, {})
    if machines:
        who = Candidate(asking.agent, asking.now, asking.met, asking.patience_s)
        now = turn(session, who, campaign, keys, machines)
    if spread == "any":
        return now
    fair = _is_its_own if spread == "pack" else _is_its_turn
    # Parts are spread in any case: what a campaign wishes for its jobs is about the others.
    keep = [key for key in now.keys if key in machines or fair(session, asking, campaign, key)]
    return Turn(tuple(keep), now.stays)


def _is_its_own(session: Session, asking: LeaseCandidate, campaign: str, key: str) -> bool:
    """Packed: whoever began with these needs goes on, unless it is gone or cannot."""
    began = session.scalars(
        select(AttemptRow.agent_id)
        .join(JobRow, JobRow.id == AttemptRow.job_id)
        .where(JobRow.campaign_id == campaign, JobRow.needs == key)
        .order_by(AttemptRow.leased_at.desc())
        .limit(1)
    ).one_or_none()
    if began is None or began == asking.agent.id:
        return True
    other = session.get(AgentRow, began)
    return other is None or other.draining or other.state == "faulty" or key not in asking.met(session, other)


def _is_its_turn(session: Session, asking: LeaseCandidate, campaign: str, key: str) -> bool:
    """Spread: no idle agent that could take it has had fewer jobs of this campaign."""
    had: dict[str, int] = dict(
        session.execute(
            select(AttemptRow.agent_id, func.count())
            .join(JobRow, JobRow.id == AttemptRow.job_id)
            .where(JobRow.campaign_id == campaign)
            .group_by(AttemptRow.agent_id)
        ).all()
    )
    mine = had.get(asking.agent.id, 0)
    if mine == 0:
        return True
    return not any(
        had.get(agent, 0) < mine and (row := session.get(AgentRow, agent)) and key in asking.met(session, row)
        for agent in _idle(session, asking, campaign)
    )


def _idle(session: Session, asking: LeaseCandidate, campaign: str) -> list[str]:
    """Agents that have room for a job and have not let work lie for long: one that never asks holds up nobody."""
    holds = select(func.count()).where(JobRow.agent_id == AgentRow.id, JobRow.state == "running").scalar_subquery()
    busy_until = select(func.max(AttemptRow.ended_at)).where(AttemptRow.agent_id == AgentRow.id).scalar_subquery()
    began = session.scalar(select(func.min(JobRow.submitted_at)).where(JobRow.campaign_id == campaign)) or 0.0
    rows = session.execute(
        select(AgentRow.id, AgentRow.enrolled_at, busy_until.label("busy_until"))
        .where(AgentRow.id != asking.agent.id, AgentRow.draining.is_(False))
        .where(AgentRow.state.in_(("active", "busy")), AgentRow.slots > holds)
    ).all()
    since = {row.id: max(row.enrolled_at, row.busy_until or 0.0, began) for row in rows}
    return [agent for agent, idle_since in since.items() if asking.now - idle_since < asking.patience_s]
