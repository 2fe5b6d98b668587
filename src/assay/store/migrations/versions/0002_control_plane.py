"""The control plane: agents, leases, history, evidence."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _create_standing_tables()
    _create_history_tables()
    op.add_column("campaigns", sa.Column("engine", sa.String(16), server_default="local", nullable=False))
    op.add_column("campaigns", sa.Column("priority", sa.Integer(), server_default="0", nullable=False))
    op.add_column("campaigns", sa.Column("served", sa.Integer(), server_default="0", nullable=False))
    op.add_column("jobs", sa.Column("needs", sa.String(64), server_default="", nullable=False))
    op.add_column("jobs", sa.Column("agent_id", sa.String(64)))
    op.add_column("jobs", sa.Column("fence", sa.Integer(), server_default="0", nullable=False))
    op.add_column("jobs", sa.Column("not_before", sa.Double(), server_default="0", nullable=False))
    op.add_column("jobs", sa.Column("expires_at", sa.Double()))
    op.create_index("ix_jobs_state_needs_not_before", "jobs", ["state", "needs", "not_before"])


def _create_standing_tables() -> None:
    op.create_table(
        "agents",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("identity", sa.String(128), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("profile", sa.Text(), nullable=False),
        sa.Column("device", sa.JSON(), nullable=False),
        sa.Column("enrolled_at", sa.Double(), nullable=False),
        sa.Column("last_seen", sa.Double(), nullable=False),
        sa.Column("draining", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_agents"),
        sa.UniqueConstraint("identity", name="uq_agents_identity"),
    )
    op.create_index("ix_agents_last_seen", "agents", ["last_seen"])
    op.create_table(
        "needs",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_needs"),
    )


def _create_history_tables() -> None:
    campaign = ["campaigns.id"]
    job = ["jobs.id"]
    op.create_table(
        "events",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("campaign_id", sa.String(64), nullable=False),
        sa.Column("job_id", sa.String(80)),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["campaign_id"], campaign, name="fk_events_campaign_id_campaigns", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_events"),
    )
    op.create_index("ix_events_campaign_id", "events", ["campaign_id"])
    op.create_index("ix_events_job_id", "events", ["job_id"])
    op.create_table(
        "attempts",
        sa.Column("job_id", sa.String(80), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("agent_id", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("leased_at", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double()),
        sa.ForeignKeyConstraint(["job_id"], job, name="fk_attempts_job_id_jobs", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", "fence", name="pk_attempts"),
    )
    op.create_index("ix_attempts_agent_id", "attempts", ["agent_id"])
    op.create_table(
        "evidence",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("job_id", sa.String(80), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("agent_id", sa.String(64), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("reason", sa.String(32), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], job, name="fk_evidence_job_id_jobs", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_evidence"),
    )
    op.create_index("ix_evidence_job_id", "evidence", ["job_id"])


def downgrade() -> None:
    op.drop_index("ix_jobs_state_needs_not_before", table_name="jobs")
    for column in ("expires_at", "not_before", "fence", "agent_id", "needs"):
        op.drop_column("jobs", column)
    for column in ("served", "priority", "engine"):
        op.drop_column("campaigns", column)
    for table in ("evidence", "attempts", "events", "needs", "agents"):
        op.drop_table(table)
