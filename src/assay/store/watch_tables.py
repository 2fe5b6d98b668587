"""The tables of what is watched over time: series and their points, findings, schedules, alerts and notices."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ForeignKey, Index, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from assay.store.tables import Table


class SeriesRow(Table):
    """One metric of one job definition on one kind of machine."""

    __tablename__ = "series"
    __table_args__ = (Index("ix_series_benchmark_metric", "benchmark", "metric"),)

    id: Mapped[str] = mapped_column(String(16), primary_key=True)  # beginning of the hash of its identity
    benchmark: Mapped[str] = mapped_column(String(200))
    metric: Mapped[str] = mapped_column(String(200))
    unit: Mapped[str] = mapped_column(String(40))
    better: Mapped[str | None] = mapped_column(String(8))
    point: Mapped[dict[str, Any]]  # of the matrix
    labels: Mapped[dict[str, Any]]
    machine: Mapped[dict[str, Any]]  # the kind of machine
    origin: Mapped[str] = mapped_column(String(16), default="results")  # results | import
    checked: Mapped[int] = mapped_column(default=0)  # points that the last check has seen
    report: Mapped[str] = mapped_column(Text, default="")  # of the last check


class PointRow(Table):
    """One result in a series, and what was around it."""

    __tablename__ = "points"
    __table_args__ = (
        UniqueConstraint("series_id", "job_id", name="uq_points_series_id_job_id"),
        Index("ix_points_series_id_at_id", "series_id", "at", "id"),
    )

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    series_id: Mapped[str] = mapped_column(ForeignKey("series.id", ondelete="CASCADE"))
    job_id: Mapped[str | None] = mapped_column(String(80))  # none for what was imported
    at: Mapped[float]
    value: Mapped[float | None]  # none where the job failed
    standard_error: Mapped[float | None]
    verdict: Mapped[str] = mapped_column(String(16), default="")
    context: Mapped[dict[str, Any]]  # commit, model, image, driver, packages, kernel, machine, spec, control …


class FindingRow(Table):
    """A change that was found in a series."""

    __tablename__ = "findings"
    __table_args__ = (
        Index("ix_findings_series_id_first_bad", "series_id", "first_bad"),
        Index("ix_findings_state_found_at_id", "state", "found_at", "id"),
    )

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    series_id: Mapped[str] = mapped_column(ForeignKey("series.id", ondelete="CASCADE"))
    last_good: Mapped[int]  # ids of points
    first_bad: Mapped[int]
    found_at: Mapped[float]
    state: Mapped[str] = mapped_column(String(16))  # open | expected | gone
    document: Mapped[str] = mapped_column(Text)  # the finding and its triage


class ScheduleRow(Table):
    """A benchmark that runs by itself."""

    __tablename__ = "schedules"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    name: Mapped[str] = mapped_column(String(200), unique=True)
    document: Mapped[dict[str, Any]]  # the submission: the benchmark file, and the files that it names
    schedule: Mapped[dict[str, Any]]  # its schedule
    state: Mapped[str] = mapped_column(String(16))  # active | paused
    created_at: Mapped[float]
    changed_at: Mapped[float]
    considered_to: Mapped[float]  # due times up to here have been dealt with
    submitted_by: Mapped[str] = mapped_column(String(200), default="")


class FiringRow(Table):
    """One due time of a schedule, dealt with by whichever server was first."""

    __tablename__ = "firings"
    __table_args__ = (
        UniqueConstraint("schedule_id", "due", name="uq_firings_schedule_id_due"),
        # What is under way or waits, and whose campaign runs, without reading years of history.
        Index("ix_firings_outcome_schedule_id_due", "outcome", "schedule_id", "due"),
        Index("ix_firings_campaign_id", "campaign_id"),
    )

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    schedule_id: Mapped[str] = mapped_column(ForeignKey("schedules.id", ondelete="CASCADE"))
    due: Mapped[float]
    fired_at: Mapped[float | None]
    campaign_id: Mapped[str | None] = mapped_column(String(64))
    outcome: Mapped[str] = mapped_column(String(16))  # taken | waiting | submitted | skipped | missed | failed
    reason: Mapped[str] = mapped_column(Text, default="")
    server: Mapped[str] = mapped_column(String(80), default="")


class AlertRow(Table):
    """Something that people are told about, from its opening to its end."""

    __tablename__ = "alerts"
    __table_args__ = (
        UniqueConstraint("key", name="uq_alerts_key"),
        Index("ix_alerts_state_changed_at", "state", "changed_at"),
    )

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    key: Mapped[str] = mapped_column(String(64))  # what it is about: the same trouble is the same alert
    state: Mapped[str] = mapped_column(String(16))  # open | acknowledged | snoozed | expected | resolved
    severity: Mapped[str] = mapped_column(String(16))
    benchmark: Mapped[str] = mapped_column(String(200))
    opened_at: Mapped[float]
    changed_at: Mapped[float]
    snoozed_until: Mapped[float | None]
    by: Mapped[str] = mapped_column(String(200), default="")
    document: Mapped[str] = mapped_column(Text)  # rule, series, finding, numbers, triage
    history: Mapped[str] = mapped_column(Text, default="[]")


class AlertRuleRow(Table):
    """A rule that says when people are told: given by API, or last seen in a benchmark file."""

    __tablename__ = "alert_rules"
    __table_args__ = (Index("ix_alert_rules_benchmark", "benchmark"),)

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    name: Mapped[str] = mapped_column(String(200), unique=True)
    origin: Mapped[str] = mapped_column(String(16))  # api | file
    benchmark: Mapped[str] = mapped_column(String(200))  # name of one, or a pattern such as chat-*
    document: Mapped[dict[str, Any]]  # the rule as a benchmark file has it, and when somebody was last told by it
    created_at: Mapped[float]
    changed_at: Mapped[float]
    by: Mapped[str] = mapped_column(String(200), default="")


class NoticeRow(Table):
    """A message for one channel: kept until it was taken, sent once."""

    __tablename__ = "notices"
    __table_args__ = (
        UniqueConstraint("key", name="uq_notices_key"),
        Index("ix_notices_state_not_before", "state", "not_before"),
    )

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    key: Mapped[str] = mapped_column(String(120))  # alert, its turn and the channel: never twice
    channel: Mapped[str] = mapped_column(String(100))
    alert_id: Mapped[str] = mapped_column(ForeignKey("alerts.id", ondelete="CASCADE"))
    state: Mapped[str] = mapped_column(String(16))  # waiting | sending | sent | given-up
    attempts: Mapped[int] = mapped_column(default=0)
    not_before: Mapped[float]
    taken_until: Mapped[float | None]  # whoever sends it holds it until then
    created_at: Mapped[float]
    sent_at: Mapped[float | None]
    document: Mapped[str] = mapped_column(Text)
    error: Mapped[str] = mapped_column(Text, default="")
