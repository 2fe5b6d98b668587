"""What every part of the control plane needs: a database, the time, the rules, and a history to write.

Rows are always locked in the same order (agent, then jobs by id, then campaign), so that no two transactions wait
for each other.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import cast

from pydantic import JsonValue
from sqlalchemy import Engine, Table, insert
from sqlalchemy.orm import Session, defer

from assay.clock import Clock, SteadyClock
from assay.errors import UsageError
from assay.place.leasing import LeasePolicy
from assay.store.database import reading, writing
from assay.store.tables import EventRow, JobRow

# A job's documents can be long; what only moves it along does not read them.
WITHOUT_DOCUMENTS = (defer(JobRow.document), defer(JobRow.result))
CHUNK = 500
# What others write about a row (an attempt at a job, an event of a campaign) need not wait for who changes the row.
LOCK = {"key_share": True}
# The table, not the class: rows that nobody reads back need no objects. Put together once, as it is asked all the time.
_NEW_EVENTS = insert(cast("Table", EventRow.__table__))


class Transactions:
    """One database, one clock, one set of rules."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        policy: LeasePolicy | None = None,
        seed: int | None = None,
        steady: SteadyClock | None = None,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self.steady = steady or SteadyClock(clock)
        self.policy = policy or LeasePolicy()
        self._random = random.Random(seed)  # noqa: S311  (spreads retries; nothing secret)

    def lease_now(self) -> float:
        """Now, for leases, waits and deadlines: a clock that is set ends none of them and prolongs none."""
        return self.steady.now_s()

    def _now(self) -> float:
        return self._clock.utc().timestamp()

    def _writing(self) -> AbstractContextManager[Session]:
        return writing(self._engine)

    def _reading(self) -> AbstractContextManager[Session]:
        return reading(self._engine)

    def _tell(
        self, session: Session, campaign: str, job: str | None, kind: str, detail: Mapping[str, JsonValue]
    ) -> None:
        self._tell_all(session, [(campaign, job)], kind, detail)

    def _tell_all(
        self, session: Session, whom: Iterable[tuple[str, str | None]], kind: str, detail: Mapping[str, JsonValue]
    ) -> None:
        """Write the same line into the history of many; parts that say nothing are left out."""
        told = {name: value for name, value in detail.items() if value not in (None, "")}
        now = self._now()
        rows = [
            {"at": now, "campaign_id": campaign, "job_id": job, "kind": kind, "detail": told} for campaign, job in whom
        ]
        if rows:
            session.execute(_NEW_EVENTS, rows)


def unknown_job(job_id: str) -> UsageError:
    return UsageError(
        f"no job {job_id!r} in the store", code="unknown-job", try_="`assay jobs list` shows what is there"
    )


def unknown_campaign(campaign: str) -> UsageError:
    return UsageError(
        f"no campaign {campaign!r} in the store",
        code="unknown-campaign",
        try_="`assay campaigns list` shows what is there",
    )


def unknown_agent(agent_id: str) -> UsageError:
    return UsageError(
        f"no agent {agent_id!r} is enrolled",
        code="unknown-agent",
        try_="`assay agents list` shows who is; `assay agent start` enrols a device",
    )
