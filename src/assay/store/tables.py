"""The tables. Every change here is an Alembic migration."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, ForeignKey, Index, MetaData, String, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


class Table(DeclarativeBase):
    """Base of all tables."""

    metadata = MetaData(naming_convention=NAMES)
    type_annotation_map = {dict[str, Any]: JSON}  # noqa: RUF012  (SQLAlchemy reads it from the class)


class CampaignRow(Table):
    """One submission of a benchmark."""

    __tablename__ = "campaigns"
    __table_args__ = (Index("ix_campaigns_created_at_id", "created_at", "id"), Index("ix_campaigns_digest", "digest"))

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    benchmark: Mapped[str] = mapped_column(String(200))
    digest: Mapped[str] = mapped_column(String(64))
    state: Mapped[str] = mapped_column(String(16))  # running | done | failed | interrupted
    created_at: Mapped[str] = mapped_column(String(40))
    completed_at: Mapped[str | None] = mapped_column(String(40))
    labels: Mapped[dict[str, Any]]
    document: Mapped[dict[str, Any]]  # the benchmark file as it was read
    surroundings: Mapped[str] = mapped_column(String(64))  # machine and software: runs of one job never mix two
    owner_pid: Mapped[int | None]
    owner_started: Mapped[float | None]


class JobRow(Table):
    """One point of a campaign's matrix."""

    __tablename__ = "jobs"
    __table_args__ = (
        Index("ix_jobs_campaign_id_position", "campaign_id", "position", unique=True),
        Index("ix_jobs_digest", "digest"),
    )

    id: Mapped[str] = mapped_column(String(80), primary_key=True)
    campaign_id: Mapped[str] = mapped_column(ForeignKey("campaigns.id", ondelete="CASCADE"))
    position: Mapped[int]
    digest: Mapped[str] = mapped_column(String(64))
    state: Mapped[str] = mapped_column(String(16))
    verdict: Mapped[str | None] = mapped_column(String(16))
    seconds: Mapped[float | None]  # how long it took, for the next estimate
    document: Mapped[str] = mapped_column(Text)  # the job document
    result: Mapped[str | None] = mapped_column(Text)  # the result document


class RunRow(Table):
    """One repetition, kept the moment it ended."""

    __tablename__ = "runs"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    run_id: Mapped[int] = mapped_column(primary_key=True)
    started_at: Mapped[str] = mapped_column(String(40))
    failed: Mapped[bool]
    samples: Mapped[str | None] = mapped_column(String(64), index=True)  # content hash of the sample file
    document: Mapped[str] = mapped_column(Text)  # the run's record
