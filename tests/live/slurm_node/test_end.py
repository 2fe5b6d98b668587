"""The end of a group: asked first, cancelled if it must be, and never the job of another group."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assay.engines.slurm.node.end import end_group
from assay.engines.slurm.scheduler import BatchState, comment_of
from assay.errors import MeasureError


class Cluster:
    """A scheduler whose jobs end after so many looks."""

    def __init__(self, *jobs: tuple[str, str, str, int | None], silent: int = 0) -> None:
        self.jobs = [
            (BatchState(id_, None, name, state, comment=comment_of("c1", name)), ends)
            for id_, name, state, ends in jobs
        ]
        self.looks, self.cancelled, self.silent = 0, [], silent

    def find(self, prefix):
        if self.silent:
            self.silent -= 1
            raise MeasureError("no answer")
        self.looks += 1
        found = [
            replace(job, state="COMPLETED") if ends is not None and self.looks > ends else job
            for job, ends in self.jobs
        ]
        return tuple(job for job in found if job.comment.startswith(prefix))

    def cancel(self, keys):
        self.cancelled += keys


def ended(cluster: Cluster, group: str = "point-1", **keys) -> tuple[str, ...]:
    return end_group(cluster, "c1", group, sleep=lambda _: None, **keys)


def test_services_that_end_by_themselves_are_not_cancelled():
    cluster = Cluster(("1", "point-1-llm", "RUNNING", 3), ("2", "point-1", "COMPLETED", None))
    assert ended(cluster) == ()
    assert (cluster.looks, cluster.cancelled) == (4, [])


def test_those_that_have_not_begun_are_cancelled_at_once_and_those_that_stay_after_a_while():
    cluster = Cluster(("1", "point-1-llm", "PENDING", None))
    assert ended(cluster) == ("1",)
    assert cluster.looks == 1
    cluster = Cluster(("1", "point-1-llm", "RUNNING", None), ("2", "point-1-db", "RUNNING", 1))
    assert ended(cluster, grace_s=0.05) == ("1",)
    assert cluster.cancelled == ["1"]


def test_only_its_own_jobs_and_not_itself():
    cluster = Cluster(
        ("1", "point-10-llm", "PENDING", None),
        ("2", "point-1-end", "RUNNING", None),
        ("3", "monitor", "RUNNING", None),
        ("4", "point-1.llm", "PENDING", None),
    )
    assert ended(cluster, own="2") == ("4",)


def test_one_silence_is_no_reason_to_leave_services_running():
    cluster = Cluster(("1", "point-1-llm", "PENDING", None), silent=1)
    assert ended(cluster) == ("1",)
    with pytest.raises(MeasureError, match="no answer"):
        ended(Cluster(silent=9))
