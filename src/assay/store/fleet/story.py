"""What happened, in order: the history of a job explains its state."""

from __future__ import annotations

from sqlalchemy import func, or_, select, text

from assay.store.fleet.transactions import Transactions, unknown_job
from assay.store.records import AttemptRecord, EventRecord, EvidenceRecord
from assay.store.tables import AttemptRow, EventRow, EvidenceRow, JobRow

# Numbers are given out before transactions end: one with a lower number may still be on its way. Only what no
# open transaction could precede is told, so that a reader who remembers the last number misses nothing.
_NOTHING_BEFORE = text("age(events.xmin) > age(pg_snapshot_xmin(pg_current_snapshot())::xid)")


class Story(Transactions):
    """Reading the history."""

    def history(self, job_id: str) -> tuple[EventRecord, ...]:
        """Everything that happened to a job and to its campaign, in order.

        Raises:
            UsageError: `unknown-job` if there is none.
        """
        with self._reading() as session:
            campaign = session.scalar(select(JobRow.campaign_id).where(JobRow.id == job_id))
            if campaign is None:
                raise unknown_job(job_id)
            whole = (EventRow.campaign_id == campaign) & EventRow.job_id.is_(None)
            rows = session.scalars(select(EventRow).where(or_(EventRow.job_id == job_id, whole)).order_by(EventRow.id))
            return tuple(map(_event, rows))

    def evidence(self, job_id: str) -> tuple[EvidenceRecord, ...]:
        """Results of a job that were kept and not counted."""
        with self._reading() as session:
            rows = session.scalars(select(EvidenceRow).where(EvidenceRow.job_id == job_id).order_by(EvidenceRow.id))
            return tuple(
                EvidenceRecord(row.job_id, row.fence, row.agent_id, row.at, row.reason, row.document) for row in rows
            )

    def attempts(self, job_id: str) -> tuple[AttemptRecord, ...]:
        with self._reading() as session:
            rows = session.scalars(select(AttemptRow).where(AttemptRow.job_id == job_id).order_by(AttemptRow.fence))
            return tuple(
                AttemptRecord(row.job_id, row.fence, row.agent_id, row.state, row.leased_at, row.ended_at)
                for row in rows
            )

    def events_after(self, event_id: int, campaign: str | None = None, limit: int = 500) -> tuple[EventRecord, ...]:
        """What happened after an event, in order; of one campaign, if it is given."""
        query = select(EventRow).where(EventRow.id > event_id).order_by(EventRow.id).limit(limit)
        if campaign is not None:
            query = query.where(EventRow.campaign_id == campaign)
        if self._engine.dialect.name == "postgresql":
            query = query.where(_NOTHING_BEFORE)
        with self._reading() as session:
            return tuple(map(_event, session.scalars(query)))

    def last_event(self) -> int:
        """Number of the newest event: where a reader begins who wants only what comes."""
        query = select(func.max(EventRow.id))
        if self._engine.dialect.name == "postgresql":
            query = query.where(_NOTHING_BEFORE)
        with self._reading() as session:
            return session.scalar(query) or 0


def _event(row: EventRow) -> EventRecord:
    return EventRecord(row.campaign_id, row.job_id, row.kind, row.at, row.detail, row.id)
