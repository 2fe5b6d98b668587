"""The parts of a shared load go to as many agents, at the same time, and nothing else of their campaign meanwhile.

All parts of one point have needs of their own, so a key of needs stands for the point here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from assay.store.tables import AgentRow, JobRow

_HOLDS = select(func.count()).where(JobRow.agent_id == AgentRow.id, JobRow.state == "running").scalar_subquery()


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
class Open:
    """The shared loads that have not ended."""

    machines: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Campaign → needs of its shared loads → how many machines share them."""
    begun: tuple[tuple[str, str], ...] = ()
    """Campaign and needs of those of which a part runs and another waits: nothing else is as urgent."""


def open_parts(session: Session, machines: Mapping[str, int]) -> Open:
    """The shared loads that have not ended, among needs of which it is known how many machines share them."""
    if not machines:
        return Open()
    columns = (JobRow.campaign_id, JobRow.needs, JobRow.state)
    query = select(*columns).where(JobRow.state.in_(("pending", "running")), JobRow.needs.in_(tuple(machines)))
    states: dict[tuple[str, str], set[str]] = {}
    found: dict[str, dict[str, int]] = {}
    for campaign, key, state in session.execute(query.distinct()):
        found.setdefault(campaign, {})[key] = machines[key]
        states.setdefault((campaign, key), set()).add(state)
    return Open(found, tuple(sorted(one for one, seen in states.items() if len(seen) > 1)))


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
