"""Scores computed from kept answers after the result: added with their date, never changed."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Engine, select

from assay.store.database import reading, writing
from assay.store.tables import ScoreRow


def keep_score(engine: Engine, job_id: str, *, scorer: str, version: str, computed_at: float, document: str) -> None:
    """Add what a scorer said about the answers of a job."""
    with writing(engine) as session:
        session.add(
            ScoreRow(
                job_id=job_id, scorer=scorer[:100], version=version[:200], computed_at=computed_at, document=document
            )
        )


def scores_of(engine: Engine, jobs: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Job → the documents of its scores, oldest first; jobs without any are left out."""
    found: dict[str, tuple[str, ...]] = {}
    with reading(engine) as session:
        for job in jobs:
            query = select(ScoreRow.document).where(ScoreRow.job_id == job).order_by(ScoreRow.id)
            if documents := tuple(session.scalars(query)):
                found[job] = documents
    return found
