"""Who can take what, and which job goes next.

By priority, then the campaign served least; spread, packed, or in parts of a shared load.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
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

from assay.documents import from_json
from assay.place.leasing import needs_key
from assay.place.needs import device_kind, machines_of, missing, needs_in_words
from assay.plan.job import Job
from assay.store.fleet.agents import full_profile, known_agent
from assay.store.fleet.transactions import Transactions
from assay.store.listing import unknown_campaign
from assay.store.records import Fit, Placement
from assay.store.tables import AgentRow, AttemptRow, CampaignRow, JobRow, NeedsRow

_COUNT = select(func.count()).select_from(NeedsRow)


class NeedsCache:
    """The distinct sets of needs, read once each; there are few, however many jobs there are."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}
        # Agent → what its abilities were found from (profile, name, labels, number of needs), and the needs it meets.
        self._known: dict[str, tuple[tuple[object, ...], frozenset[str]]] = {}
        self._shared: tuple[Mapping[str, Job], Mapping[str, int]] = ({}, {})

    def all(self, session: Session) -> Mapping[str, Job]:
        """Every set of needs: its key → a job that has them."""
        count = session.scalar(_COUNT) or 0
        if count != len(self._jobs):
            previous = self._jobs
            ids = session.scalars(select(NeedsRow.id)).all()
            new = [key for key in ids if key not in previous]
            rows = session.scalars(select(NeedsRow).where(NeedsRow.id.in_(new))).all()
            read = {row.id: from_json(Job, row.document, source=row.id) for row in rows}
            with self._lock:
                self._jobs = {key: job for key, job in {**previous, **read}.items() if key in set(ids)}
        return self._jobs

    def shared(self, session: Session) -> Mapping[str, int]:
        """The needs of loads that several machines share → how many machines."""
        jobs = self.all(session)
        if self._shared[0] is not jobs:
            shared = {key: machines_of(job) for key, job in jobs.items() if machines_of(job) > 1}
            with self._lock:
                self._shared = (jobs, shared)
        return self._shared[1]

    def met_by(self, session: Session, agent: AgentRow) -> frozenset[str]:
        """The keys of the needs that an agent meets."""
        jobs = self.all(session)
        # Needs are never changed or removed, so that their number says which there are.
        now = (agent.profile, agent.name, agent.labels, len(jobs))
        before, met = self._known.get(agent.id, ((), frozenset[str]()))
        if before == now:
            return met
        profile = full_profile(agent)
        met = frozenset(key for key, job in jobs.items() if not missing(job, profile))
        with self._lock:
            self._known[agent.id] = (now, met)
        return met


class Matcher(Transactions):
    """Who can take what."""

    @cached_property
    def _needs(self) -> NeedsCache:
        return NeedsCache()

    def suitable(self, agent_id: str, device: str = "") -> tuple[str, ...]:
        """The keys of the needs that an agent meets; only those for one kind of device, if it is given."""
        with self._reading() as session:
            return self._met(session, known_agent(session, agent_id), device)

    def placement(self, campaign: str) -> tuple[Placement, ...]:
        """Who can take the jobs of a campaign, for each distinct set of needs."""
        with self._reading() as session:
            if session.get(CampaignRow, campaign) is None:
                raise unknown_campaign(campaign)
            counts: dict[str, dict[str, int]] = {}
            query = select(JobRow.needs, JobRow.state, func.count()).where(JobRow.campaign_id == campaign)
            for key, state, count in session.execute(query.group_by(JobRow.needs, JobRow.state)):
                counts.setdefault(key, {})[state] = count
            jobs = self._needs.all(session)
            agents = session.scalars(select(AgentRow).order_by(AgentRow.name)).all()
            return tuple(
                _placement(key, jobs[key], sum(states.values()), states.get("pending", 0), agents)
                for key, states in counts.items()
                if key in jobs
            )

    def preview(self, jobs: Iterable[Job]) -> tuple[Placement, ...]:
        """Who could take jobs that have not been submitted."""
        by_needs: dict[str, list[Job]] = {}
        for job in jobs:
            by_needs.setdefault(needs_key(job), []).append(job)
        with self._reading() as session:
            agents = session.scalars(select(AgentRow).order_by(AgentRow.name)).all()
            return tuple(_placement(key, same[0], len(same), len(same), agents) for key, same in by_needs.items())

    def _met(self, session: Session, agent: AgentRow, device: str) -> tuple[str, ...]:
        met = self._needs.met_by(session, agent)
        if device:
            jobs = self._needs.all(session)
            met = frozenset(key for key in met if device_kind(jobs[key]) == device.partition(":")[0])
        return tuple(sorted(met))


def _placement(key: str, job: Job, jobs: int, waiting: int, agents: Sequence[AgentRow]) -> Placement:
    fits = [
        Fit(row.id, row.name, missing(job, full_profile(row)), not row.draining and row.state != "faulty")
        for row in agents
    ]
    fits.sort(key=lambda fit: len(fit.missing))
    return Placement(key, needs_in_words(job), jobs, waiting, tuple(fits), machines_of(job))


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
    loads: dict[str, dict[str, int]] = {}
    for campaign, key, state in session.execute(query.distinct()):
        loads.setdefault(campaign, {})[key] = machines[key]
        states.setdefault((campaign, key), set()).add(state)
    return SharedLoads(loads, tuple(sorted(pair for pair, kinds in states.items() if len(kinds) > 1)))


def _parts_for(
    session: Session, who: LeaseCandidate, campaign: str, keys: Sequence[str], machines: Mapping[str, int]
) -> Turn:
    """Which of some needs an agent may be given of a campaign."""
    running = _jobs(session, campaign, JobRow.state == "running")
    busy = {job.needs for job in running}
    plain = tuple(key for key in keys if key not in machines and not busy & machines.keys())
    allowed: list[str] = []
    stays = False
    for key in (key for key in keys if key in machines):
        if busy - {key}:
            # It has just ended its own part, or is about to: the next point begins when the others have, too.
            others = _jobs(session, campaign, JobRow.needs.in_(busy & machines.keys()), JobRow.state != "pending")
            stays = stays or who.agent.id in {job.agent for job in others}
            continue
        parts = _jobs(session, campaign, JobRow.needs == key)
        agents = {job.agent for job in parts if job.state != "pending"}
        if who.agent.id in agents:
            continue
        waiting = sum(job.state == "pending" for job in parts)
        idle, living = _others(session, who, key, agents)
        if key in busy or 1 + idle >= waiting:
            allowed.append(key)
        else:
            stays = stays or 1 + living >= waiting
    return Turn((*plain, *allowed), stays)


def _jobs(session: Session, campaign: str, *conditions: ColumnElement[bool]) -> Sequence[Any]:
    columns = (JobRow.needs, JobRow.state, JobRow.agent_id.label("agent"))
    return session.execute(select(*columns).where(JobRow.campaign_id == campaign, *conditions)).all()


def _others(session: Session, who: LeaseCandidate, key: str, agents: set[str | None]) -> tuple[int, int]:
    """How many other agents could take a part now, and how many once they have ended what they do."""
    heard = AgentRow.last_seen >= who.now - who.patience_s
    rows = session.execute(
        select(AgentRow, _HOLDS.label("holds")).where(
            AgentRow.id != who.agent.id, AgentRow.draining.is_(False), AgentRow.state != "faulty", heard
        )
    ).all()
    able = [(agent, holds) for agent, holds in rows if agent.id not in agents and key in who.met(session, agent)]
    return sum(agent.slots > holds for agent, holds in able), len(able)


@dataclass(frozen=True, slots=True)
class LeaseCandidate:
    """An agent that asks for a job."""

    agent: AgentRow
    now: float
    """The calendar time, for the last heartbeats of others."""
    lease_now: float
    """The time by which jobs are due."""
    met: Met
    """The keys of the needs that an agent meets."""
    patience_s: float
    """How long an idle agent that does not ask may keep others from a job that is to be spread; one that was not heard
    of for this long is not counted on."""
    shared: SharedLoads = field(default_factory=SharedLoads)
    """Loads that several machines share."""


def due(now: float | BindParameter[float]) -> tuple[ColumnElement[bool], ...]:
    """What makes a job one that may go out now."""
    return (JobRow.state == "pending", JobRow.not_before <= now)


def with_work(session: Session, keys: Sequence[str], now: float) -> tuple[str, ...]:
    """Those of some sets of needs that have jobs to give out: one look into an index for each."""
    return tuple(session.scalars(_WITH_WORK, {"keys": keys, "now": now}))


def next_job(session: Session, candidate: LeaseCandidate, keys: Sequence[str]) -> JobRow | None:
    """The next job for an agent among those with certain needs; locked, so that no other agent gets it."""
    for campaign, spread, wanted in _in_order(session, candidate, keys):
        simple = spread == "any" and campaign not in candidate.shared.machines
        # What was locked for a campaign that has nothing for this agent is let go before the next is looked at.
        with nullcontext() if simple else session.begin_nested() as looking:
            now = Turn(tuple(wanted)) if simple else _turn(session, candidate, campaign, spread, wanted)
            row = _first(session, campaign, now.keys, candidate.lease_now) if now.keys else None
            if row is None and looking is not None:
                looking.rollback()
        if row is not None or now.stays:
            return row
    return None


def _in_order(
    session: Session, candidate: LeaseCandidate, keys: Sequence[str]
) -> Iterator[tuple[str, str, Sequence[str]]]:
    """Campaigns and the needs to look for in each: first the parts that others wait for, then by turn."""
    for campaign, key in candidate.shared.begun:
        if key in keys:
            yield campaign, "any", (key,)
    for campaign, spread in _campaigns(session, keys, candidate.lease_now):
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


def is_fair(session: Session, candidate: LeaseCandidate, job_id: str) -> bool:
    """Whether an agent may have a job that it names itself, as far as spreading and packing go.

    Asked before the job is locked: campaigns are locked before jobs, here as everywhere.
    """
    row = session.execute(
        select(CampaignRow.id, CampaignRow.spread, JobRow.needs)
        .join(JobRow, JobRow.campaign_id == CampaignRow.id)
        .where(JobRow.id == job_id)
    ).one_or_none()
    if row is None or (row.spread == "any" and row.id not in candidate.shared.machines):
        return True
    return bool(_turn(session, candidate, row.id, row.spread, (row.needs,)).keys)


def _turn(session: Session, candidate: LeaseCandidate, campaign: str, spread: str, keys: Sequence[str]) -> Turn:
    # Two agents that ask at the same time must not both be the first.
    session.execute(select(CampaignRow.id).where(CampaignRow.id == campaign).with_for_update(key_share=True))
    now = Turn(tuple(keys))
    machines = candidate.shared.machines.get(campaign, {})
    if machines:
        now = _parts_for(session, candidate, campaign, keys, machines)
    if spread == "any":
        return now
    fair = _is_its_own if spread == "pack" else _is_its_turn
    # Parts are spread in any case: what a campaign wishes for its jobs is about the others.
    keep = [key for key in now.keys if key in machines or fair(session, candidate, campaign, key)]
    return Turn(tuple(keep), now.stays)


def _is_its_own(session: Session, candidate: LeaseCandidate, campaign: str, key: str) -> bool:
    """Packed: the agent that began with these needs continues, unless it is gone or cannot."""
    began = session.scalars(
        select(AttemptRow.agent_id)
        .join(JobRow, JobRow.id == AttemptRow.job_id)
        .where(JobRow.campaign_id == campaign, JobRow.needs == key)
        .order_by(AttemptRow.leased_at.desc())
        .limit(1)
    ).one_or_none()
    if began is None or began == candidate.agent.id:
        return True
    holder = session.get(AgentRow, began)
    return holder is None or holder.draining or holder.state == "faulty" or key not in candidate.met(session, holder)


def _is_its_turn(session: Session, candidate: LeaseCandidate, campaign: str, key: str) -> bool:
    """Spread: no idle agent that could take it has had fewer jobs of this campaign."""
    held: dict[str, int] = dict(
        session.execute(
            select(AttemptRow.agent_id, func.count())
            .join(JobRow, JobRow.id == AttemptRow.job_id)
            .where(JobRow.campaign_id == campaign)
            .group_by(AttemptRow.agent_id)
        ).all()
    )
    own_jobs = held.get(candidate.agent.id, 0)
    if own_jobs == 0:
        return True
    return not any(
        held.get(agent, 0) < own_jobs and (row := session.get(AgentRow, agent)) and key in candidate.met(session, row)
        for agent in _idle(session, candidate, campaign)
    )


def _idle(session: Session, candidate: LeaseCandidate, campaign: str) -> list[str]:
    """Agents that have room for a job and asked for one recently: one that never asks holds up no other."""
    busy_until = select(func.max(AttemptRow.ended_at)).where(AttemptRow.agent_id == AgentRow.id).scalar_subquery()
    began = session.scalar(select(func.min(JobRow.submitted_at)).where(JobRow.campaign_id == campaign)) or 0.0
    rows = session.execute(
        select(AgentRow.id, AgentRow.enrolled_at, busy_until.label("busy_until"))
        .where(AgentRow.id != candidate.agent.id, AgentRow.draining.is_(False))
        .where(AgentRow.state.in_(("active", "busy")), AgentRow.slots > _HOLDS)
    ).all()
    since = {row.id: max(row.enrolled_at, row.busy_until or 0.0, began) for row in rows}
    return [agent for agent, idle_since in since.items() if candidate.now - idle_since < candidate.patience_s]
