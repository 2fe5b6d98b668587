"""Needs against agents: who can take what, and what is missing where."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from assay.clock import Clock, SteadyClock
from assay.documents import from_json
from assay.place.leasing import LeasePolicy, needs_key
from assay.place.needs import device_kind, machines_of, missing, needs_in_words
from assay.plan.job import Job
from assay.store.fleet.agents import full_profile, known_agent
from assay.store.fleet.transactions import Transactions, unknown_campaign
from assay.store.records import Fit, Placement
from assay.store.tables import AgentRow, CampaignRow, JobRow, NeedsRow

_COUNT = select(func.count()).select_from(NeedsRow)


@dataclass(frozen=True, slots=True)
class _Known:
    """What an agent was found able to do, and what that was found from."""

    profile: str
    name: str
    labels: Mapping[str, str]
    needs: int
    """How many sets of needs there were; they are never changed or removed."""
    met: frozenset[str]


class NeedsCache:
    """The distinct sets of needs, read once each; there are few, however many jobs there are."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}
        self._known: dict[str, _Known] = {}
        self._shared: tuple[Mapping[str, Job], Mapping[str, int]] = ({}, {})

    def all(self, session: Session) -> Mapping[str, Job]:
        """Every set of needs: its key → a job that has them."""
        count = session.scalar(_COUNT) or 0
        if count != len(self._jobs):
            known = self._jobs
            ids = session.scalars(select(NeedsRow.id)).all()
            new = [key for key in ids if key not in known]
            rows = session.scalars(select(NeedsRow).where(NeedsRow.id.in_(new))).all()
            read = {row.id: from_json(Job, row.document, source=row.id) for row in rows}
            with self._lock:
                self._jobs = {key: job for key, job in {**known, **read}.items() if key in set(ids)}
        return self._jobs

    def shared(self, session: Session) -> Mapping[str, int]:
        """The needs of loads that several machines share → how many machines."""
        jobs = self.all(session)
        if self._shared[0] is not jobs:
            found = {key: machines_of(job) for key, job in jobs.items() if machines_of(job) > 1}
            with self._lock:
                self._shared = (jobs, found)
        return self._shared[1]

    def met_by(self, session: Session, agent: AgentRow) -> frozenset[str]:
        """The keys of the needs that an agent meets."""
        jobs = self.all(session)
        known = self._known.get(agent.id)
        now = (agent.profile, agent.name, agent.labels, len(jobs))
        if known is not None and (known.profile, known.name, known.labels, known.needs) == now:
            return known.met
        profile = full_profile(agent)
        met = frozenset(key for key, job in jobs.items() if not missing(job, profile))
        with self._lock:
            self._known[agent.id] = _Known(*now, met)
        return met


class Matcher(Transactions):
    """Who can take what."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        policy: LeasePolicy | None = None,
        seed: int | None = None,
        steady: SteadyClock | None = None,
    ) -> None:
        super().__init__(engine, clock, policy, seed, steady)
        self._needs = NeedsCache()

    def suitable(self, agent_id: str, device: str = "") -> tuple[str, ...]:
        """The keys of the needs that an agent meets; only those for one kind of device, if it is given."""
        with self._reading() as session:
            return self._met(session, known_agent(session, agent_id), device)

    def placement(self, campaign: str) -> tuple[Placement, ...]:
        """Who can take the jobs of a campaign, for each distinct set of needs.

        Raises:
            UsageError: `unknown-campaign` if there is none.
        """
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
        found: dict[str, list[Job]] = {}
        for job in jobs:
            found.setdefault(needs_key(job), []).append(job)
        with self._reading() as session:
            agents = session.scalars(select(AgentRow).order_by(AgentRow.name)).all()
            return tuple(_placement(key, same[0], len(same), len(same), agents) for key, same in found.items())

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
