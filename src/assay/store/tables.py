"""The tables. Every change here is an Alembic migration."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, BigInteger, ForeignKey, Index, MetaData, String, Text, UniqueConstraint
from sqlalchemy import false as sql_false
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


# Origin of a campaign that is measured elsewhere and reported to this server.
REPORTED = "told"


class Table(DeclarativeBase):
    metadata = MetaData(naming_convention=NAMES)
    type_annotation_map = {dict[str, Any]: JSON}  # noqa: RUF012  (SQLAlchemy reads it from the class)


class CampaignRow(Table):
    """One submission of a benchmark."""

    __tablename__ = "campaigns"
    __table_args__ = (
        Index("ix_campaigns_created_at_id", "created_at", "id"),
        Index("ix_campaigns_digest", "digest"),
        Index("ix_campaigns_benchmark_created_at_id", "benchmark", "created_at", "id"),
        Index("ix_campaigns_state_created_at_id", "state", "created_at", "id"),
    )

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    benchmark: Mapped[str] = mapped_column(String(200))
    digest: Mapped[str] = mapped_column(String(64))
    state: Mapped[str] = mapped_column(String(16))  # running | done | partial | failed | interrupted | cancelled
    created_at: Mapped[str] = mapped_column(String(40))
    completed_at: Mapped[str | None] = mapped_column(String(40))
    labels: Mapped[dict[str, Any]]
    document: Mapped[dict[str, Any]]  # the benchmark file as it was read
    surroundings: Mapped[str] = mapped_column(String(64))  # machine and software: runs of one job never mix two
    owner_pid: Mapped[int | None]
    owner_started: Mapped[float | None]
    engine: Mapped[str] = mapped_column(String(16), default="local", server_default="local")
    priority: Mapped[int] = mapped_column(default=0, server_default="0")
    served: Mapped[int] = mapped_column(default=0, server_default="0")  # leases given: the least served goes first
    version: Mapped[int | None]  # of the stored benchmark it was made from
    deadline: Mapped[float | None]  # when to give up on what has not ended
    unplaceable: Mapped[str] = mapped_column(String(8), default="wait", server_default="wait")  # wait | fail
    spread: Mapped[str] = mapped_column(String(8), default="any", server_default="any")  # any | spread | pack
    submitted_by: Mapped[str] = mapped_column(String(200), default="", server_default="")  # name of the token
    origin: Mapped[str] = mapped_column(String(16), default="", server_default="")  # "sark": by its API; or REPORTED


class JobRow(Table):
    """One point of a campaign's matrix."""

    __tablename__ = "jobs"
    __table_args__ = (
        Index("ix_jobs_campaign_id_position", "campaign_id", "position", unique=True),
        Index("ix_jobs_digest", "digest"),
        Index("ix_jobs_state_needs_not_before", "state", "needs", "not_before"),
        # The newest jobs, and what people search them by, without reading a job.
        Index("ix_jobs_submitted_at_id_campaign_id_label", "submitted_at", "id", "campaign_id", "label"),
        # Each of these answers a list, the newest first, and how many there are.
        Index("ix_jobs_agent_id_submitted_at_id", "agent_id", "submitted_at", "id"),
        Index("ix_jobs_verdict_submitted_at_id", "verdict", "submitted_at", "id"),
        Index("ix_jobs_state_ended_at_id", "state", "ended_at", "id"),
        # The next job of a campaign, and how many of its jobs are in which state, without reading a job.
        Index("ix_jobs_campaign_id_state_position_needs", "campaign_id", "state", "position", "needs"),
        Index("ix_jobs_state_submitted_at_id", "state", "submitted_at", "id"),
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
    needs: Mapped[str] = mapped_column(String(64), default="", server_default="")  # hash of what it needs
    agent_id: Mapped[str | None] = mapped_column(String(64))  # who holds it, or held it last
    fence: Mapped[int] = mapped_column(default=0, server_default="0")  # number of the newest lease; older ones are void
    not_before: Mapped[float] = mapped_column(default=0.0, server_default="0")  # back-off after a lost lease
    expires_at: Mapped[float | None]  # when the lease runs out
    label: Mapped[str] = mapped_column(String(500), default="", server_default="")  # the point in words, for people
    submitted_at: Mapped[float] = mapped_column(default=0.0, server_default="0")
    started_at: Mapped[float | None]  # first lease
    ended_at: Mapped[float | None]
    lost: Mapped[int] = mapped_column(default=0, server_default="0")  # leases lost since it was last (re)submitted
    reason: Mapped[str] = mapped_column(Text, default="", server_default="")  # why it ended without a result
    progress: Mapped[dict[str, Any] | None]  # the newest word of its agent


class RunRow(Table):
    """One repetition, kept the moment it ended."""

    __tablename__ = "runs"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    run_id: Mapped[int] = mapped_column(primary_key=True)
    started_at: Mapped[str] = mapped_column(String(40))
    failed: Mapped[bool]
    samples: Mapped[str | None] = mapped_column(String(64), index=True)  # content hash of the sample file
    document: Mapped[str] = mapped_column(Text)  # the run's record


class NeedsRow(Table):
    """One distinct set of needs: agents are matched against these few, never against every job."""

    __tablename__ = "needs"

    id: Mapped[str] = mapped_column(String(64), primary_key=True)  # hash of the definition's needs
    document: Mapped[str] = mapped_column(Text)  # a job document that has them


class AgentRow(Table):
    """A device that takes jobs."""

    __tablename__ = "agents"

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    identity: Mapped[str] = mapped_column(String(128), unique=True)  # what the device itself keeps, for ever
    name: Mapped[str] = mapped_column(String(200))
    state: Mapped[str] = mapped_column(String(16))  # active | busy | cleanup | faulty
    profile: Mapped[str] = mapped_column(Text)
    device: Mapped[dict[str, Any]]  # facts as SARK's workers send them, and the address
    enrolled_at: Mapped[float]
    last_seen: Mapped[float] = mapped_column(index=True)
    draining: Mapped[bool] = mapped_column(default=False, server_default=sql_false())
    labels: Mapped[dict[str, Any]] = mapped_column(default=dict, server_default="{}")  # given here, beside its own
    address: Mapped[str] = mapped_column(String(300), default="", server_default="")  # where it listens, if it does
    version: Mapped[str] = mapped_column(String(40), default="", server_default="")
    slots: Mapped[int] = mapped_column(default=1, server_default="1")  # jobs it may hold concurrently
    note: Mapped[str] = mapped_column(Text, default="", server_default="")  # why it is faulty
    key: Mapped[str] = mapped_column(String(64), default="", server_default="")  # hash of the key that proves who it is


class AttemptRow(Table):
    """One try at a job under one lease."""

    __tablename__ = "attempts"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    fence: Mapped[int] = mapped_column(primary_key=True)
    agent_id: Mapped[str] = mapped_column(String(64), index=True)
    state: Mapped[str] = mapped_column(String(16))  # leased | delivered | expired | crashed | cancelled | released
    leased_at: Mapped[float]
    ended_at: Mapped[float | None]


class EventRow(Table):
    """What happened to a job, in order: its history explains its state."""

    __tablename__ = "events"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    at: Mapped[float]
    campaign_id: Mapped[str] = mapped_column(ForeignKey("campaigns.id", ondelete="CASCADE"), index=True)
    job_id: Mapped[str | None] = mapped_column(String(80), index=True)
    kind: Mapped[str] = mapped_column(String(32))
    detail: Mapped[dict[str, Any]]


class EvidenceRow(Table):
    """A result that came late or twice: kept, never counted."""

    __tablename__ = "evidence"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), index=True)
    fence: Mapped[int]
    agent_id: Mapped[str] = mapped_column(String(64))
    at: Mapped[float]
    reason: Mapped[str] = mapped_column(String(32))  # late | repeated | replaced
    document: Mapped[str] = mapped_column(Text)


class TokenRow(Table):
    """A right to use the server; only the hash of the secret is kept."""

    __tablename__ = "tokens"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    name: Mapped[str] = mapped_column(String(200))
    role: Mapped[str] = mapped_column(String(16))  # admin | user | reader | agent
    hash: Mapped[str] = mapped_column(String(64), unique=True)
    created_at: Mapped[float]
    expires_at: Mapped[float | None]
    last_used: Mapped[float | None]


class ServerFactRow(Table):
    """Something that servers on this database remember between two starts."""

    __tablename__ = "server_facts"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    value: Mapped[str] = mapped_column(Text)


class BenchmarkRow(Table):
    """A stored benchmark; what it says is in its versions."""

    __tablename__ = "benchmarks"

    name: Mapped[str] = mapped_column(String(200), primary_key=True)
    version: Mapped[int]  # the newest
    created_at: Mapped[float]
    changed_at: Mapped[float] = mapped_column(index=True)
    deleted: Mapped[bool] = mapped_column(default=False, server_default=sql_false())


class BenchmarkVersionRow(Table):
    """One version of a stored benchmark; it never changes."""

    __tablename__ = "benchmark_versions"

    name: Mapped[str] = mapped_column(ForeignKey("benchmarks.name", ondelete="CASCADE"), primary_key=True)
    version: Mapped[int] = mapped_column(primary_key=True)
    document: Mapped[dict[str, Any]]
    files: Mapped[str] = mapped_column(Text)  # the files it names, by content
    digest: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[float]
    created_by: Mapped[str] = mapped_column(String(200), default="", server_default="")


class ArtefactRow(Table):
    """A file that jobs need or leave; its content lies beside the database by hash."""

    __tablename__ = "artefacts"

    sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    name: Mapped[str] = mapped_column(String(255))
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    created_at: Mapped[float] = mapped_column(index=True)


class JobArtefactRow(Table):
    """Which job left which file."""

    __tablename__ = "job_artefacts"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    fence: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(255), primary_key=True)
    sha256: Mapped[str] = mapped_column(String(64), index=True)


class LogRow(Table):
    """Lines that an attempt wrote, as they came."""

    __tablename__ = "logs"
    __table_args__ = (Index("ix_logs_job_id_id", "job_id", "id"),)

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    fence: Mapped[int]
    at: Mapped[float]
    text: Mapped[str] = mapped_column(Text)


class ScoreRow(Table):
    """What a scorer said about the answers of a job, some time after it was measured; it never changes."""

    __tablename__ = "scores"
    __table_args__ = (Index("ix_scores_job_id_id", "job_id", "id"),)

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    scorer: Mapped[str] = mapped_column(String(100))
    version: Mapped[str] = mapped_column(String(200))  # of the scorer, in words
    computed_at: Mapped[float]
    document: Mapped[str] = mapped_column(Text)  # statistics, and which answers they are of


class PriceRow(Table):
    """What a machine costs, as set on the server."""

    __tablename__ = "prices"

    machine: Mapped[str] = mapped_column(String(200), primary_key=True)  # its name, or a pattern of names
    per_hour: Mapped[float]
    currency: Mapped[str] = mapped_column(String(8))
    date: Mapped[str] = mapped_column(String(10))  # when it was looked up
    by: Mapped[str] = mapped_column(String(200))
    changed_at: Mapped[float]


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
    """Trouble that people are notified of, from its opening to its end."""

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
    """A rule that decides when to notify: given by API, or last seen in a benchmark file."""

    __tablename__ = "alert_rules"
    __table_args__ = (Index("ix_alert_rules_benchmark", "benchmark"),)

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    name: Mapped[str] = mapped_column(String(200), unique=True)
    origin: Mapped[str] = mapped_column(String(16))  # api | file
    benchmark: Mapped[str] = mapped_column(String(200))  # name of one, or a pattern such as chat-*
    document: Mapped[dict[str, Any]]  # the rule as a benchmark file has it, and when it last notified
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
    taken_until: Mapped[float | None]  # its sender holds it until then
    created_at: Mapped[float]
    sent_at: Mapped[float | None]
    document: Mapped[str] = mapped_column(Text)
    error: Mapped[str] = mapped_column(Text, default="")
