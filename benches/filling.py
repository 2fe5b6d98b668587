"""A store as it is after years: many campaigns and many more jobs, written in a few statements."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import insert, text

from assay.clock import iso
from assay.documents import to_json
from assay.place.leasing import needs_key
from assay.store.database import writing
from assay.store.store import Store
from assay.store.tables import AgentRow, CampaignRow, JobRow
from benches.fleet import benchmark, first_job, small_result

_AT_ONCE = 5_000
_BEGAN = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
_AGENTS = 20
# One campaign is of this benchmark: what a search finds that finds little.
RARE = "needle-in-a-haystack"
# One campaign in so many failed.
FAILED_EVERY = 50


def fill(store: Store, campaigns: int, jobs_each: int) -> None:
    """Write campaigns with jobs that have ended, each with a result document."""
    rows = [_campaign(number, campaigns) for number in range(campaigns)]
    with writing(store.engine) as session:
        session.execute(insert(AgentRow), [_agent(number) for number in range(_AGENTS)])
        _in_parts(session, CampaignRow, rows)
    pattern = _job_pattern()
    for start in range(0, campaigns, _AT_ONCE // jobs_each):
        some = rows[start : start + _AT_ONCE // jobs_each]
        with writing(store.engine) as session:
            session.execute(
                insert(JobRow), [_job(pattern, row, position) for row in some for position in range(jobs_each)]
            )
    if store.engine.dialect.name == "postgresql":
        # What its own upkeep does within a minute.
        with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("VACUUM ANALYZE"))


def _in_parts(session: Any, table: type, rows: list[dict[str, Any]]) -> None:
    for start in range(0, len(rows), _AT_ONCE):
        session.execute(insert(table), rows[start : start + _AT_ONCE])


def _campaign(number: int, of: int) -> dict[str, Any]:
    name = RARE if number == of // 3 else f"model-{number % 40}"
    at = datetime.fromtimestamp(_BEGAN + 60 * number, UTC)
    return {
        "id": f"c{number:08x}",
        "benchmark": name,
        "digest": "0" * 64,
        "state": "failed" if number % FAILED_EVERY == 0 else "done",
        "created_at": iso(at),
        "completed_at": iso(at),
        "labels": {"branch": f"work-{number % 100}"},
        "document": benchmark(name, 10),
        "surroundings": "",
        "engine": "fleet",
        "submitted_by": f"user-{number % 10}",
    }


def _agent(number: int) -> dict[str, Any]:
    return {
        "id": f"agent-{number:012x}",
        "identity": f"device-{number}",
        "name": f"device-{number}",
        "state": "active",
        "profile": "{}",
        "device": {},
        "enrolled_at": _BEGAN,
        "last_seen": _BEGAN,
    }


def _job_pattern() -> dict[str, Any]:
    job = replace(first_job(benchmark("model", 10)), campaign="c" + "0" * 8)
    return {"document": to_json(job), "result": small_result(job), "digest": job.digest, "needs": needs_key(job)}


def _job(pattern: dict[str, Any], campaign: dict[str, Any], position: int) -> dict[str, Any]:
    number = int(campaign["id"][1:], 16)
    failed = campaign["state"] == "failed" and position == 0
    at = _BEGAN + 60 * number
    return {
        **pattern,
        "id": f"{campaign['id']}-job-{position}",
        "campaign_id": campaign["id"],
        "position": position,
        "state": "failed" if failed else "done",
        "verdict": "invalid" if failed else "valid",
        "seconds": 30.0,
        "label": f"batch {position + 1}, device cpu, threads {number % 8 + 1}",
        "submitted_at": at,
        "agent_id": f"agent-{(number + position) % _AGENTS:012x}",
        "fence": 1,
        "started_at": at + 1,
        "ended_at": at + 31,
    }
