"""The server: tokens, stored benchmarks, artefacts, logs, and what campaigns, jobs and agents say about themselves."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def _campaigns() -> list[sa.Column[Any]]:
    return [
        sa.Column("version", sa.Integer()),
        sa.Column("deadline", sa.Double()),
        sa.Column("unplaceable", sa.String(8), server_default="wait", nullable=False),
        sa.Column("spread", sa.String(8), server_default="any", nullable=False),
        sa.Column("submitted_by", sa.String(200), server_default="", nullable=False),
        sa.Column("origin", sa.String(16), server_default="", nullable=False),
    ]


def _jobs() -> list[sa.Column[Any]]:
    return [
        sa.Column("label", sa.String(500), server_default="", nullable=False),
        sa.Column("submitted_at", sa.Double(), server_default="0", nullable=False),
        sa.Column("started_at", sa.Double()),
        sa.Column("ended_at", sa.Double()),
        sa.Column("lost", sa.Integer(), server_default="0", nullable=False),
        sa.Column("reason", sa.Text(), server_default="", nullable=False),
        sa.Column("progress", sa.JSON()),
    ]


def _agents() -> list[sa.Column[Any]]:
    return [
        sa.Column("labels", sa.JSON(), server_default="{}", nullable=False),
        sa.Column("address", sa.String(300), server_default="", nullable=False),
        sa.Column("version", sa.String(40), server_default="", nullable=False),
        sa.Column("slots", sa.Integer(), server_default="1", nullable=False),
        sa.Column("note", sa.Text(), server_default="", nullable=False),
    ]


def upgrade() -> None:
    for table, columns in (("campaigns", _campaigns()), ("jobs", _jobs()), ("agents", _agents())):
        for column in columns:
            op.add_column(table, column)
    op.create_index("ix_campaigns_benchmark", "campaigns", ["benchmark"])
    newest = ["submitted_at", "id", "campaign_id", "label"]
    op.create_index("ix_jobs_submitted_at_id_campaign_id_label", "jobs", newest)
    op.create_index("ix_jobs_agent_id", "jobs", ["agent_id"])
    op.create_index("ix_campaigns_state_created_at_id", "campaigns", ["state", "created_at", "id"])
    op.create_index("ix_jobs_campaign_id_state_position_needs", "jobs", ["campaign_id", "state", "position", "needs"])
    op.create_index("ix_jobs_state_submitted_at_id", "jobs", ["state", "submitted_at", "id"])
    _create_standing_tables()
    _create_tables_of_jobs()


def _create_standing_tables() -> None:
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(16), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double()),
        sa.Column("last_used", sa.Double()),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
        sa.UniqueConstraint("hash", name="uq_tokens_hash"),
    )
    op.create_table(
        "benchmarks",
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("changed_at", sa.Double(), nullable=False),
        sa.Column("deleted", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_benchmarks"),
    )
    op.create_index("ix_benchmarks_changed_at", "benchmarks", ["changed_at"])
    named = sa.ForeignKeyConstraint(
        ["name"], ["benchmarks.name"], name="fk_benchmark_versions_name_benchmarks", ondelete="CASCADE"
    )
    op.create_table(
        "benchmark_versions",
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.Column("files", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("created_by", sa.String(200), server_default="", nullable=False),
        named,
        sa.PrimaryKeyConstraint("name", "version", name="pk_benchmark_versions"),
    )
    op.create_table(
        "artefacts",
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("sha256", name="pk_artefacts"),
    )
    op.create_index("ix_artefacts_created_at", "artefacts", ["created_at"])


def _create_tables_of_jobs() -> None:
    job = ["jobs.id"]
    op.create_table(
        "job_artefacts",
        sa.Column("job_id", sa.String(80), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], job, name="fk_job_artefacts_job_id_jobs", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", "fence", "name", name="pk_job_artefacts"),
    )
    op.create_index("ix_job_artefacts_sha256", "job_artefacts", ["sha256"])
    op.create_table(
        "logs",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("job_id", sa.String(80), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], job, name="fk_logs_job_id_jobs", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_logs"),
    )
    op.create_index("ix_logs_job_id_id", "logs", ["job_id", "id"])


def downgrade() -> None:
    for table in ("logs", "job_artefacts", "artefacts", "benchmark_versions", "benchmarks", "tokens"):
        op.drop_table(table)
    op.drop_index("ix_jobs_state_submitted_at_id", table_name="jobs")
    op.drop_index("ix_jobs_campaign_id_state_position_needs", table_name="jobs")
    op.drop_index("ix_campaigns_state_created_at_id", table_name="campaigns")
    op.drop_index("ix_jobs_agent_id", table_name="jobs")
    op.drop_index("ix_jobs_submitted_at_id_campaign_id_label", table_name="jobs")
    op.drop_index("ix_campaigns_benchmark", table_name="campaigns")
    for table, columns in (("agents", _agents()), ("jobs", _jobs()), ("campaigns", _campaigns())):
        for column in reversed(columns):
            op.drop_column(table, column.name)
