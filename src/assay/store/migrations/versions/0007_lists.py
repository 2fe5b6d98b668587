"""Indexes for lists of many jobs: by verdict, by agent and by benchmark, each the newest first."""

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_index("ix_campaigns_benchmark", table_name="campaigns")
    op.create_index("ix_campaigns_benchmark_created_at_id", "campaigns", ["benchmark", "created_at", "id"])
    op.drop_index("ix_jobs_agent_id", table_name="jobs")
    op.create_index("ix_jobs_agent_id_submitted_at_id", "jobs", ["agent_id", "submitted_at", "id"])
    op.create_index("ix_jobs_verdict_submitted_at_id", "jobs", ["verdict", "submitted_at", "id"])
    op.create_index("ix_jobs_state_ended_at_id", "jobs", ["state", "ended_at", "id"])
    op.create_index("ix_findings_state_found_at_id", "findings", ["state", "found_at", "id"])


def downgrade() -> None:
    op.drop_index("ix_findings_state_found_at_id", table_name="findings")
    op.drop_index("ix_jobs_state_ended_at_id", table_name="jobs")
    op.drop_index("ix_jobs_verdict_submitted_at_id", table_name="jobs")
    op.drop_index("ix_jobs_agent_id_submitted_at_id", table_name="jobs")
    op.create_index("ix_jobs_agent_id", "jobs", ["agent_id"])
    op.drop_index("ix_campaigns_benchmark_created_at_id", table_name="campaigns")
    op.create_index("ix_campaigns_benchmark", "campaigns", ["benchmark"])
