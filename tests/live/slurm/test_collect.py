"""What nodes left, taken into the store: as much work for a job of a large campaign as for one of a small one."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import event

from assay.clock import SYSTEM_CLOCK
from assay.engines.base import FailureReason
from assay.engines.collect import Termination, collect
from assay.run.inputs import plan_of
from assay.spec.load import load
from assay.store.store import Store
from assay.store.tables import JobRow


class Outs:
    """The folder of nodes that left nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def out(self, index: int) -> Path:
        return self.folder / str(index)


@contextmanager
def jobs_read():
    """Counts the rows of jobs that are read."""
    found: list[str] = []

    def read(row: JobRow, _context: object) -> None:
        found.append(row.id)

    event.listen(JobRow, "load", read)
    try:
        yield found
    finally:
        event.remove(JobRow, "load", read)


def test_taking_in_one_job_reads_no_other_job(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    document = {"benchmark": "b", "target": {"command": "true"}, "matrix": {"measure.runs": list(range(1, 21))}}
    plan = store.create_campaign(plan_of(load(document)), document, {}, "here", SYSTEM_CLOCK)
    job = plan.jobs[7]
    with jobs_read() as seen:
        found = collect(
            store, Outs(tmp_path), job, Termination(None, FailureReason("lost", "gone", ""), {}, {}), SYSTEM_CLOCK.utc()
        )
    assert found.state == "failed"
    assert set(seen) == {job.id}
    store.close()
