"""Lists of a large store are answered from indexes, in their order: nothing is sorted, and no table is read through."""

import pytest
from sqlalchemy import event
from sqlalchemy.orm import Session

from assay.store.listing import JobFilter, Listing
from assay.store.overview import OverviewReader
from assay.store.series import FindingRows
from assay.store.store import Store

LISTS = {
    "jobs by verdict": (lambda engine: Listing(engine).jobs(JobFilter(verdict="suspect")), "jobs_verdict_submitted_at"),
    "jobs by agent": (lambda engine: Listing(engine).jobs(JobFilter(agent="agent-1")), "jobs_agent_id_submitted_at"),
    "jobs by state": (lambda engine: Listing(engine).jobs(JobFilter(state="failed")), "jobs_state_submitted_at"),
    "newest jobs": (lambda engine: Listing(engine).jobs(), "jobs_submitted_at"),
    "newest results": (lambda engine: Listing(engine).results(), "jobs_submitted_at"),
    "campaigns by benchmark": (
        lambda engine: Listing(engine).campaigns(benchmark="mine"),
        "campaigns_benchmark_created_at",
    ),
    "campaigns by state": (lambda engine: Listing(engine).campaigns(state="running"), "campaigns_state_created_at"),
    "open findings": (lambda engine: FindingRows(engine).page(state="open"), "findings_state_found_at"),
    "jobs that failed lately": (lambda engine: OverviewReader(engine).failed(0.0, 10), "jobs_state_ended_at"),
}


@pytest.fixture
def store(tmp_path):
    kept = Store(tmp_path)
    yield kept
    kept.close()


def plans(engine, ask):
    """How SQLite goes about every question of a list, one line for each step."""
    asked = []

    def note(_connection, _cursor, statement, parameters, *_):
        asked.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", note)
    ask(engine)
    event.remove(engine, "before_cursor_execute", note)
    with Session(engine) as session:
        connection = session.connection().connection
        return [
            row[3]
            for statement, parameters in asked
            if statement.lstrip().upper().startswith("SELECT")
            for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall()
        ]


@pytest.mark.parametrize("name", LISTS)
def test_a_list_is_answered_from_its_index(store, name):
    ask, index = LISTS[name]
    steps = plans(store.engine, ask)
    assert any(f"ix_{index}" in step for step in steps), steps
    assert not [step for step in steps if step in ("SCAN jobs", "SCAN campaigns", "SCAN findings")], steps
