"""What is watched over time: series, points, findings, schedules, firings, alerts, their rules, and notices."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _create_series()
    _create_findings()
    _create_schedules()
    _create_alerts()
    _create_notices()


def _create_series() -> None:
    op.create_table(
        "series",
        sa.Column("id", sa.String(16), nullable=False),
        sa.Column("benchmark", sa.String(200), nullable=False),
        sa.Column("metric", sa.String(200), nullable=False),
        sa.Column("unit", sa.String(40), nullable=False),
        sa.Column("better", sa.String(8)),
        sa.Column("point", sa.JSON(), nullable=False),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("machine", sa.JSON(), nullable=False),
        sa.Column("origin", sa.String(16), nullable=False),
        sa.Column("checked", sa.Integer(), nullable=False),
        sa.Column("report", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_series"),
    )
    op.create_index("ix_series_benchmark_metric", "series", ["benchmark", "metric"])
    op.create_table(
        "points",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("series_id", sa.String(16), nullable=False),
        sa.Column("job_id", sa.String(80)),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("value", sa.Double()),
        sa.Column("standard_error", sa.Double()),
        sa.Column("verdict", sa.String(16), nullable=False),
        sa.Column("context", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["series_id"], ["series.id"], name="fk_points_series_id_series", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_points"),
        sa.UniqueConstraint("series_id", "job_id", name="uq_points_series_id_job_id"),
    )
    op.create_index("ix_points_series_id_at_id", "points", ["series_id", "at", "id"])


def _create_findings() -> None:
    op.create_table(
        "findings",
        sa.Column("id", sa.String(16), nullable=False),
        sa.Column("series_id", sa.String(16), nullable=False),
        sa.Column("last_good", sa.Integer(), nullable=False),
        sa.Column("first_bad", sa.Integer(), nullable=False),
        sa.Column("found_at", sa.Double(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["series_id"], ["series.id"], name="fk_findings_series_id_series", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_findings"),
    )
    op.create_index("ix_findings_series_id_first_bad", "findings", ["series_id", "first_bad"])


def _create_schedules() -> None:
    op.create_table(
        "schedules",
        sa.Column("id", sa.String(16), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.Column("schedule", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("changed_at", sa.Double(), nullable=False),
        sa.Column("considered_to", sa.Double(), nullable=False),
        sa.Column("submitted_by", sa.String(200), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_schedules"),
        sa.UniqueConstraint("name", name="uq_schedules_name"),
    )
    schedule = sa.ForeignKeyConstraint(
        ["schedule_id"], ["schedules.id"], name="fk_firings_schedule_id_schedules", ondelete="CASCADE"
    )
    op.create_table(
        "firings",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("schedule_id", sa.String(16), nullable=False),
        sa.Column("due", sa.Double(), nullable=False),
        sa.Column("fired_at", sa.Double()),
        sa.Column("campaign_id", sa.String(64)),
        sa.Column("outcome", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("server", sa.String(80), nullable=False),
        schedule,
        sa.PrimaryKeyConstraint("id", name="pk_firings"),
        sa.UniqueConstraint("schedule_id", "due", name="uq_firings_schedule_id_due"),
    )
    op.create_index("ix_firings_outcome_schedule_id_due", "firings", ["outcome", "schedule_id", "due"])
    op.create_index("ix_firings_campaign_id", "firings", ["campaign_id"])


def _create_alerts() -> None:
    op.create_table(
        "alerts",
        sa.Column("id", sa.String(16), nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("severity", sa.String(16), nullable=False),
        sa.Column("benchmark", sa.String(200), nullable=False),
        sa.Column("opened_at", sa.Double(), nullable=False),
        sa.Column("changed_at", sa.Double(), nullable=False),
        sa.Column("snoozed_until", sa.Double()),
        sa.Column("by", sa.String(200), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("history", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_alerts"),
        sa.UniqueConstraint("key", name="uq_alerts_key"),
    )
    op.create_index("ix_alerts_state_changed_at", "alerts", ["state", "changed_at"])
    op.create_table(
        "alert_rules",
        sa.Column("id", sa.String(16), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("origin", sa.String(16), nullable=False),
        sa.Column("benchmark", sa.String(200), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("changed_at", sa.Double(), nullable=False),
        sa.Column("by", sa.String(200), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_alert_rules"),
        sa.UniqueConstraint("name", name="uq_alert_rules_name"),
    )
    op.create_index("ix_alert_rules_benchmark", "alert_rules", ["benchmark"])


def _create_notices() -> None:
    alert = sa.ForeignKeyConstraint(["alert_id"], ["alerts.id"], name="fk_notices_alert_id_alerts", ondelete="CASCADE")
    op.create_table(
        "notices",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("key", sa.String(120), nullable=False),
        sa.Column("channel", sa.String(100), nullable=False),
        sa.Column("alert_id", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("not_before", sa.Double(), nullable=False),
        sa.Column("taken_until", sa.Double()),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("sent_at", sa.Double()),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        alert,
        sa.PrimaryKeyConstraint("id", name="pk_notices"),
        sa.UniqueConstraint("key", name="uq_notices_key"),
    )
    op.create_index("ix_notices_state_not_before", "notices", ["state", "not_before"])


def downgrade() -> None:
    for table in ("notices", "alert_rules", "alerts", "firings", "schedules", "findings", "points", "series"):
        op.drop_table(table)
