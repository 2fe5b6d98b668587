"""A fleet of a thousand agents on one server: what a heartbeat waits, and how many jobs go through."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import func, select
from tests.support.running_server import ServerProcess

from assay.analyse.judge import judge
from assay.documents import to_json, to_plain
from assay.place.fleet.protocol import Enrolment
from assay.plan.job import Job
from assay.plan.plan import make_plan
from assay.run.records import DeviceProof, RunOutcome, SampleSet, SingleRunResult
from assay.spec.load import load
from assay.store.tables import AttemptRow, EventRow, EvidenceRow
from benches.figures import Figure, order_statistic_interval
from benches.page import Page, Table
from benches.processes import contest
from benches.servers import (
    ADMIN,
    PROFILE,
    DurablePostgresql,
    agent_token,
    assay_server,
    opened,
    postgresql,
    redis,
    workspace,
)

HEARTBEAT_MS = 100
AT = "2026-01-01T00:00:00.000+00:00"


@dataclass(frozen=True, slots=True)
class Size:
    """How much of it."""

    agents: int = 1_000
    jobs: int = 10_000
    heartbeat_s: float = 10.0
    wait_s: float = 60.0
    idle_s: float = 75.0
    """Long enough that every agent's first poll is held to its end."""


QUICK = Size(agents=100, jobs=500, heartbeat_s=2.0, wait_s=5.0, idle_s=8.0)


def bench(*, quick: bool = False) -> Page:
    """Take the same fleet through the queue in the database and through Redis."""
    size = QUICK if quick else Size()
    with postgresql() as database, redis() as queue:
        if database is None:
            table = Table("Fleet", ["queue", "figure"], [["all", "not measured: no PostgreSQL; scripts/postgresql.sh"]])
            return Page("fleet", _TITLE, _ABOUT, [table])
        seen = {"SQL": _play(database, size, ())}
        if queue is not None:
            seen["Redis"] = _play(database, size, ("--redis-url", queue.fresh()))
    return Page("fleet", _TITLE, _ABOUT, [_idle_table(seen, size), _busy_table(seen, size)])


def _play(database: DurablePostgresql, size: Size, options: tuple[str, ...]) -> dict[str, Any]:
    """One server, one fleet: what the agents saw, and what the database says of it."""
    with workspace() as folder:
        url = database()
        with assay_server(folder / "server", *options, database=url) as server:
            settings = folder / "settings.json"
            settings.write_text(json.dumps(_settings(server, database, size)))
            seen = contest("fleet_agents", settings, timeout_s=size.idle_s + 420)
        return {**seen, "kept": _kept(folder / "server", url)}


def _settings(server: ServerProcess, database: DurablePostgresql, size: Size) -> dict[str, Any]:
    assert server.process is not None
    document = benchmark("no-op", size.jobs)
    return {
        "url": server.url,
        "admin": ADMIN,
        "token": agent_token(server.url),
        "agents": size.agents,
        "jobs": size.jobs,
        "heartbeat_s": size.heartbeat_s,
        "wait_s": size.wait_s,
        "idle_s": size.idle_s,
        "patience_s": 300,
        "document": document,
        "result": small_result(first_job(document)),
        "enrolment": to_plain(Enrolment("", "", PROFILE, version="0.1.0")),
        "processes": {"server": server.process.pid, "PostgreSQL": database.pid},
    }


def benchmark(name: str, jobs: int) -> dict[str, Any]:
    """A benchmark file with so many points."""
    return {
        "benchmark": name,
        "target": {"model": "squeezenet"},
        "measure": {"runs": 3},
        "matrix": {"workload.batch": list(range(1, jobs + 1))},
    }


def first_job(document: dict[str, Any]) -> Job:
    """The first point of a benchmark file."""
    return make_plan(load(document), lambda _: {}).jobs[0]


def small_result(job: Job, sets: tuple[SampleSet, ...] = (), samples: str | None = None) -> str:
    """A result document as `assay exec` writes one, of one run."""
    ran = SingleRunResult(
        0,
        True,
        AT,
        AT,
        1.0,
        metrics={"load_ms": 5.0, "first_ms": 2.0},
        samples=samples,
        device=DeviceProof("cpu", "cpu", {"CPUExecutionProvider": 5}, "the profile"),
    )
    return to_json(judge(job, [RunOutcome(ran, sets)], {"machine": {"name": "box"}}, planned_runs=1))


def _kept(folder: Path, url: str) -> dict[str, int]:
    """What the database has, asked directly."""
    questions = {
        "attempts": select(func.count()).select_from(AttemptRow),
        "accepted": select(func.count()).select_from(EventRow).where(EventRow.kind == "result accepted"),
        "jobs accepted": select(func.count(EventRow.job_id.distinct())).where(EventRow.kind == "result accepted"),
        "evidence": select(func.count()).select_from(EvidenceRow),
    }
    with opened(folder, url) as store, store.engine.connect() as connection:
        return {name: int(connection.scalar(question) or 0) for name, question in questions.items()}


def _idle_table(seen: dict[str, dict[str, Any]], size: Size) -> Table:
    rows = []
    for name, one in seen.items():
        idle = one["idle"]
        p99 = percentile(idle["late_ms"], 0.99)
        held = np.asarray(idle["held_s"])
        polls = f"{held.size:,}, {held.min():.1f} to {held.max():.1f} s" if held.size else "none ended"
        rows.append(
            [
                name,
                f"{size.agents / one['enrol_s']:,.0f}",
                f"{len(idle['late_ms']):,}",
                *_quantiles(idle["late_ms"]),
                polls,
                str(idle["errors"]),
                *_usage(idle),
                f"{idle['rss_bytes'] / 1e6:.0f}",
                _verdict(p99, idle["errors"]),
            ]
        )
    columns = [
        "queue",
        "enrolled/s",
        "heartbeats",
        "p50, ms",
        "p99, ms",
        "max, ms",
        "polls held",
        "errors",
        "server, % of a core",
        "PostgreSQL, %",
        "agents, %",
        "server RSS, MB",
        f"p99 < {HEARTBEAT_MS} ms, no error",
    ]
    notes = [
        (
            f"{size.agents:,} agents for {size.idle_s:g} s: a heartbeat every {size.heartbeat_s:g} s each, spread, and "
            f"a request for a job that the server holds for {size.wait_s:g} s. All agents are one other process with "
            "two connections each, and an agent's token."
        ),
        "A heartbeat is timed from when it was due, not from when it was sent; the p99 has its 95 % interval.",
    ]
    notes += _told(seen, "idle")
    return Table(f"{size.agents:,} agents that wait", columns, rows, notes)


def _busy_table(seen: dict[str, dict[str, Any]], size: Size) -> Table:
    rows = []
    for name, one in seen.items():
        busy, kept = one["busy"], one["kept"]
        rate = busy["done"] / busy["work_s"] if busy["work_s"] else 0.0
        once = busy["campaign"]["counts"] == {"done": size.jobs} and kept == {
            "attempts": size.jobs,
            "accepted": size.jobs,
            "jobs accepted": size.jobs,
            "evidence": 0,
        }
        rows.append(
            [
                name,
                f"{busy['submit_s']:.2f}",
                f"{rate:,.0f}",
                f"{np.median(busy['deliver_ms'] or [0]):.0f}",
                f"{busy['done']:,}",
                str(busy["errors"]),
                *_quantiles(busy["late_ms"]),
                *_usage(busy),
                f"{1000 * busy['cpu_s']['server'] / max(busy['done'], 1):.1f}",
                f"{busy['rss_bytes'] / 1e6:.0f}",
                "pass" if once and not busy["errors"] else "**fail**",
            ]
        )
    columns = [
        "queue",
        "submitted in, s",
        "jobs/s",
        "delivery p50, ms",
        "done",
        "errors",
        "heartbeat p50, ms",
        "p99, ms",
        "max, ms",
        "server, % of a core",
        "PostgreSQL, %",
        "agents, %",
        "server CPU per job, ms",
        "server RSS, MB",
        "each done once, no error",
    ]
    notes = [
        (
            f"{size.jobs:,} jobs of one campaign: each is leased, and a result of one run without samples "
            "is delivered at once. Heartbeats go on. The clock runs from the answer to the submission to the last "
            "acknowledged result."
        ),
        "Done once: the campaign counts every job as done, and the database has one attempt and one accepted result of each.",  # noqa: E501
        "Every agent asks again the moment it has delivered: more than real fleets do, whose jobs take minutes.",
    ]
    notes += _told(seen, "busy")
    return Table(f"{size.jobs:,} jobs that do nothing", columns, rows, notes)


def percentile(values: list[float], q: float) -> Figure:
    """A percentile with its 95 % interval, or the range up to the largest where values are few."""
    found = np.asarray(values, dtype=np.float64)
    at = float(np.quantile(found, q))
    interval = order_statistic_interval(found, q)
    low, high = (interval.low, interval.high) if interval else (at, float(found.max()))
    return Figure(at, low, high, found.size)


def _quantiles(values: list[float]) -> tuple[str, str, str]:
    return f"{np.median(values):.1f}", percentile(values, 0.99).text(1), f"{max(values):.1f}"


def _verdict(p99: Figure, errors: int) -> str:
    return "**fail**" if errors else p99.below(HEARTBEAT_MS)


def _usage(phase: dict[str, Any]) -> list[str]:
    return [f"{100 * phase['cpu_s'][name] / phase['wall_s']:.0f}" for name in ("server", "PostgreSQL", "agents")]


def _told(seen: dict[str, dict[str, Any]], phase: str) -> list[str]:
    return [f"{name}: `{error}`" for name, one in seen.items() for error in one[phase]["first_errors"]]


_TITLE = "A thousand agents on one server"
_ABOUT = """One `assay serve` process with PostgreSQL, which keeps what it acknowledges on disk, and a fleet of
simulated agents that speak the real protocol over real HTTP, all on the same machine."""
