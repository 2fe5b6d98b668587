"""Campaigns, jobs and runs."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "campaigns",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("benchmark", sa.String(200), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("created_at", sa.String(40), nullable=False),
        sa.Column("completed_at", sa.String(40)),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.Column("surroundings", sa.String(64), nullable=False),
        sa.Column("owner_pid", sa.Integer()),
        sa.Column("owner_started", sa.Double()),
        sa.PrimaryKeyConstraint("id", name="pk_campaigns"),
    )
    op.create_index("ix_campaigns_created_at_id", "campaigns", ["created_at", "id"])
    op.create_index("ix_campaigns_digest", "campaigns", ["digest"])
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(80), nullable=False),
        sa.Column("campaign_id", sa.String(64), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("verdict", sa.String(16)),
        sa.Column("seconds", sa.Double()),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("result", sa.Text()),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
        sa.ForeignKeyConstraint(
            ["campaign_id"], ["campaigns.id"], name="fk_jobs_campaign_id_campaigns", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_jobs_campaign_id_position", "jobs", ["campaign_id", "position"], unique=True)
    op.create_index("ix_jobs_digest", "jobs", ["digest"])
    op.create_table(
        "runs",
        sa.Column("job_id", sa.String(80), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.String(40), nullable=False),
        sa.Column("failed", sa.Boolean(), nullable=False),
        sa.Column("samples", sa.String(64)),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "run_id", name="pk_runs"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_runs_job_id_jobs", ondelete="CASCADE"),
    )
    op.create_index("ix_runs_samples", "runs", ["samples"])


def downgrade() -> None:
    op.drop_table("runs")
    op.drop_table("jobs")
    op.drop_table("campaigns")
