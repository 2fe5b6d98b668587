"""Scores that were computed from kept answers, after the result."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "scores",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("job_id", sa.String(80), nullable=False),
        sa.Column("scorer", sa.String(100), nullable=False),
        sa.Column("version", sa.String(200), nullable=False),
        sa.Column("computed_at", sa.Double(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_scores_job_id_jobs", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_scores"),
    )
    op.create_index("ix_scores_job_id_id", "scores", ["job_id", "id"])


def downgrade() -> None:
    op.drop_table("scores")
