"""How a store is filled with demo data: a year through the real code, and as many more as are asked for in bulk."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from sqlalchemy import Table as SqlTable
from sqlalchemy import insert, select, text
from sqlalchemy.orm import Session

from assay.analyse.headline import SeriesReading, readings
from assay.analyse.judge import judge
from assay.analyse.records import MultiRunJobResult
from assay.analyse.series.identity import context, identity, machine_kind
from assay.clock import iso
from assay.demo.machines import machine_facts
from assay.demo.player import DemoSize, Player
from assay.demo.runs import runs_of
from assay.demo.scenario import LABELS, STUDIES, chance, fleet, moment
from assay.demo.scene import Scene
from assay.documents import to_json
from assay.place.leasing import needs_key
from assay.plan.job import Job
from assay.plan.plan import Plan, make_plan
from assay.report.wording import label_of
from assay.run.records import RunOutcome
from assay.series.repository import SeriesStore
from assay.spec.load import load
from assay.store.database import writing
from assay.store.series import SeriesRecord, SeriesRows
from assay.store.store import Store
from assay.store.tables import AgentRow, AttemptRow, CampaignRow, EventRow, JobRow, PointRow

# More campaigns than this are not played one by one: they are copies of those that were.
PLAYED = 300
Notify = Callable[[int, int], None]
_BENCHMARKS = 40
_VARIANTS = 6
_LEAST_JOBS = 10
_AT_ONCE = 4000
_FAILED_EVERY = 50
# Ids of bulk campaigns count up from here, so that none meets one that was drawn by chance.
_FIRST_ID = 0x1_0000
# Names that stand for those of each campaign and benchmark.
_CAMPAIGN = "c00000000"
_NAME = "demo sweep 00"
_KEPT = frozenset({"latency_ms", "throughput_per_s"})
_THREADS = (1, 2, 4, 8, 12, 16, 20, 24, 32, 48)
_CHECKED = 200
_RUN_S = 24.0
_CAMPAIGN_S = 1800.0
_BEFORE_FIRST_S = 4.0
# Between the beginnings of two jobs of a campaign, at most.
_BETWEEN_JOBS_S = 10.0


@dataclass(frozen=True, slots=True)
class FillSummary:
    """How much was put into a store."""

    campaigns: int
    jobs: int
    days: int

    @property
    def in_words(self) -> str:
        """One line for people."""
        return f"{self.campaigns:,} simulated campaigns with {self.jobs:,} results over {self.days} days"


def fill(store: Store, amount: DemoSize, notify: Notify | None = None) -> FillSummary:
    played = min(amount.campaigns, PLAYED if amount.results is None else PLAYED // 2)
    jobs = Player(store, replace(amount, campaigns=played)).play(notify or (lambda _done, _of: None))
    if amount.campaigns <= played and (amount.results or 0) <= jobs:
        return FillSummary(played, jobs, amount.days)
    more = Bulk(store, amount.days, amount.seed).copy(
        max(amount.campaigns - played, 1), max((amount.results or 0) - jobs, 0), notify
    )
    return FillSummary(played + more.campaigns, jobs + more.jobs, amount.days)


@dataclass(frozen=True, slots=True)
class _Pattern:
    """One job of the bulk benchmarks in one of its variants, as its rows are made."""

    job: Job
    document: str
    """The job under the names of the template."""
    result: str
    verdict: str | None
    readings: tuple[SeriesReading, ...]
    """What goes into its series."""
    context: dict[str, Any]


class Bulk:
    """Writes campaigns by the thousand, spread over days up to now."""

    def __init__(self, store: Store, days: int, seed: int) -> None:
        self._store, self._days, self._seed = store, days, seed
        self._now = datetime.now(UTC) - timedelta(hours=1)
        self._first = self._now - timedelta(days=days - 1)
        self._series: dict[tuple[str, int, str], str] = {}
        with writing(store.engine) as session:
            self._agents: Sequence[str] = session.scalars(select(AgentRow.id).order_by(AgentRow.name)).all()

    def copy(self, campaigns: int, results: int, notify: Notify | None = None) -> FillSummary:
        """Write this many campaigns, with at least this many results in all."""
        jobs_each = max(_LEAST_JOBS, math.ceil(results / campaigns))
        plan = _plan(jobs_each).submitted_as(_CAMPAIGN)
        patterns = [[self._pattern(job, variant) for variant in range(_VARIANTS)] for job in plan.jobs]
        names = [f"demo sweep {number + 1:02}" for number in range(min(_BENCHMARKS, campaigns))]
        self._know_series(names, plan)
        portion = max(1, _AT_ONCE // jobs_each)
        for begin in range(0, campaigns, portion):
            numbers = range(begin, min(begin + portion, campaigns))
            with writing(self._store.engine) as session:
                self._write(session, numbers, campaigns, names, patterns)
            if notify is not None:
                notify(numbers.stop, campaigns)
        self._analyse()
        return FillSummary(campaigns, campaigns * jobs_each, self._days)

    def _pattern(self, job: Job, variant: int) -> _Pattern:
        result = _result(job, variant, self._seed)
        return _Pattern(job, to_json(job), to_json(result), result.verdict, readings(result), context(result))

    def _know_series(self, names: Sequence[str], plan: Plan) -> None:
        records = []
        for job in plan.jobs:
            result = _result(job, 0, self._seed)
            kind = machine_kind(result.environment)
            for name in names:
                for reading in readings(result):
                    series = identity(name, result.definition, result.point, kind, reading.metric, LABELS)
                    self._series[name, job.index, reading.metric] = series
                    records.append(
                        SeriesRecord(
                            series, name, reading.metric, reading.unit, reading.better, result.point, LABELS, kind
                        )
                    )
        rows = SeriesRows(self._store.engine)
        for begin in range(0, len(records), _AT_ONCE):
            rows.add(records[begin : begin + _AT_ONCE], ())

    def _write(
        self, session: Session, numbers: range, of: int, names: Sequence[str], patterns: Sequence[list[_Pattern]]
    ) -> None:
        campaigns: list[dict[str, Any]] = []
        jobs: list[dict[str, Any]] = []
        points: list[dict[str, Any]] = []
        for number in numbers:
            name = names[number % len(names)]
            campaign = self._campaign(number, of, name, len(patterns))
            campaigns.append(campaign)
            for position, variants in enumerate(patterns):
                pattern = variants[(number * 7 + position * 3) % _VARIANTS]
                jobs.append(self._job(campaign, number, position, pattern))
                points += self._points(jobs[-1], name, pattern, number)
        attempts = [
            {
                "job_id": job["id"],
                "fence": 1,
                "agent_id": job["agent_id"],
                "state": "delivered",
                "leased_at": job["started_at"],
                "ended_at": job["ended_at"],
            }
            for job in jobs
        ]
        tables = {CampaignRow: campaigns, JobRow: jobs, AttemptRow: attempts, EventRow: _events(campaigns, jobs)}
        for table, rows in (*tables.items(), (PointRow, points)):
            # The table, not the class: rows that are not read back need no objects.
            session.execute(insert(cast("SqlTable", table.__table__)), rows)

    def _campaign(self, number: int, of: int, name: str, jobs: int) -> dict[str, Any]:
        at = self._first + (self._now - self._first) * (number / max(of, 1))
        return {
            "id": f"c{_FIRST_ID + number:08x}",
            "benchmark": name,
            "digest": hashlib.sha256(name.encode()).hexdigest(),
            "state": "partial" if number % _FAILED_EVERY == 7 else "done",
            "created_at": iso(at),
            "completed_at": iso(at + timedelta(seconds=_CAMPAIGN_S)),
            "labels": LABELS,
            "document": _document(name),
            "surroundings": "",
            "engine": "fleet",
            "submitted_by": f"demo-user-{number % 12}",
            "served": jobs,
        }

    def _job(self, campaign: dict[str, Any], number: int, position: int, pattern: _Pattern) -> dict[str, Any]:
        name = str(campaign["id"])
        failed = campaign["state"] == "partial" and position == 1
        at = _timestamp(campaign)
        # So that all of them end within their campaign.
        between_s = min(_BETWEEN_JOBS_S, (_CAMPAIGN_S - _BEFORE_FIRST_S - _RUN_S) / int(campaign["served"]))
        begun = at + _BEFORE_FIRST_S + between_s * position
        return {
            "id": f"{name}-job-{position}",
            "campaign_id": name,
            "position": position,
            "digest": pattern.job.digest,
            "state": "failed" if failed else "done",
            "verdict": "invalid" if failed else pattern.verdict,
            "seconds": _RUN_S,
            "document": pattern.document.replace(_CAMPAIGN, name).replace(_NAME, campaign["benchmark"]),
            "result": pattern.result.replace(_CAMPAIGN, name),
            "needs": needs_key(pattern.job),
            "agent_id": self._agents[(number + position) % len(self._agents)],
            "fence": 1,
            "label": label_of(pattern.job),
            "submitted_at": at,
            "started_at": begun,
            "ended_at": begun + _RUN_S,
            "reason": "the process ended with signal SIGKILL" if failed else "",
            "not_before": 0.0,
            "lost": 0,
        }

    def _points(self, job: dict[str, Any], name: str, pattern: _Pattern, number: int) -> Iterator[dict[str, Any]]:
        """The rows of a job in its series: the numbers of its variant, moved a little."""
        moved = 1 + 0.004 * math.sin(number * 12.9898)
        failed = job["state"] == "failed"
        for reading in pattern.readings:
            yield {
                "series_id": self._series[name, job["position"], reading.metric],
                "job_id": job["id"],
                "at": job["ended_at"],
                "value": None if failed or reading.value is None else reading.value * moved,
                "standard_error": None if failed else reading.standard_error,
                "verdict": "failed" if failed else pattern.verdict or "",
                "context": pattern.context,
            }

    def _analyse(self) -> None:
        """Look at some of the series, as a server does; tell the database how its tables look now."""
        series_store = SeriesStore(self._store)
        series_store.check([record.id for record in series_store.list(text="demo sweep", limit=_CHECKED)])
        with self._store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("ANALYZE"))


def _timestamp(campaign: dict[str, Any]) -> float:
    return datetime.fromisoformat(campaign["created_at"]).timestamp()


def _events(campaigns: Sequence[dict[str, Any]], jobs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    rows = [
        (_timestamp(campaign), campaign["id"], None, "submitted", {"by": campaign["submitted_by"]})
        for campaign in campaigns
    ] + [
        (
            job["ended_at"],
            job["campaign_id"],
            job["id"],
            "result accepted",
            {"agent": job["agent_id"], "fence": 1, "state": job["state"]},
        )
        for job in jobs
    ]
    return [dict(zip(("at", "campaign_id", "job_id", "kind", "detail"), row, strict=True)) for row in rows]


def _document(name: str, batches: Sequence[int] = (1,)) -> dict[str, Any]:
    return {
        "benchmark": name,
        "description": "Simulated, in bulk: nothing of this was measured.",
        "labels": LABELS,
        "target": {"model": "https://models.example/squeezenet-1.1.onnx"},
        "measure": {"runs": 3},
        "matrix": {"workload.batch": list(batches), "target.threads": list(_THREADS)},
    }


def _plan(jobs: int) -> Plan:
    """The plan of the bulk benchmarks: batch over threads, with this many points."""
    batches = range(1, math.ceil(jobs / len(_THREADS)) + 1)
    plan = make_plan(load(_document(_NAME, batches)), lambda _definition: {})
    return replace(plan, jobs=plan.jobs[:jobs])


def _result(job: Job, variant: int, seed: int) -> MultiRunJobResult:
    """A result without what makes it long: no telemetry, few metrics, a short environment."""
    (machine,) = fleet(1).values()
    now = moment(STUDIES[0], machine, 1.0, seed)
    # Nothing is written: only scenes of which files are kept write any.
    scene = Scene(job, now, datetime(2026, 1, 1, tzinfo=UTC), chance(seed, job.index, variant), Path())
    runs = [
        RunOutcome(replace(outcome.result, seen=None, phases={}, absent={}, facts={}, window=None), outcome.samples)
        for outcome in runs_of("model", scene)
    ]
    result = judge(
        job,
        runs,
        {
            "machine": machine_facts(machine.name, machine.identity, machine),
            "git": {"commit": now.commit, "changed": False},
        },
    )
    metrics = {name: replace(stats, outliers=()) for name, stats in result.metrics.items() if name in _KEPT}
    return replace(result, metrics=metrics, runs=tuple(replace(run, metrics={}) for run in result.runs))
