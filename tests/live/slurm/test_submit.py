"""Submission that can be cut off anywhere: nothing is submitted twice, nothing is left out."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from assay.engines.slurm.folder import BatchDependency, BatchPlan, SharedFolder, SlurmCampaign
from assay.engines.slurm.node.context import CODE
from assay.engines.slurm.node.publication import publish_failure
from assay.engines.slurm.scheduler import BatchState
from assay.engines.slurm.submission import SETTLE_S, note_cancelled, read_submitted, submit_all
from assay.errors import MeasureError, Problem
from assay.spec.slurm import Batch, Slurm


class Died(BaseException):
    """The process was killed here."""


class FakeSlurm:
    """Takes scripts, and can kill its caller before or after it took one."""

    def __init__(self):
        self.jobs: dict[str, str] = {}  # number → comment
        self.after: dict[str, list[str]] = {}
        self.cancelled: list[str] = []
        self.numbers = count(1)
        self.die_before = self.die_after = -1
        self.calls = 0

    def submit(self, script, *, after=(), comment):
        self.calls += 1
        if self.calls == self.die_before:
            raise Died
        number = str(next(self.numbers))
        self.jobs[number] = comment
        self.after[comment.rpartition(":")[2]] = [str(one) for one in after]
        if self.calls == self.die_after:
            raise Died
        return number

    def find(self, comment_prefix, *, work_dir=None):
        return tuple(
            BatchState(number, None, "n", "PENDING", comment=comment)
            for number, comment in self.jobs.items()
            if comment.startswith(comment_prefix)
        )

    def cancel(self, ids):
        self.cancelled += list(ids)


BATCHES = (
    BatchPlan("p-llm", "service", "p", Batch(), "llm"),
    BatchPlan("p", "jobs", "p", Batch(), tasks=2, after=(BatchDependency("after", ("p-llm",)),)),
    BatchPlan("p-end", "end", "p", Batch(), after=(BatchDependency("afterany", ("p",)),)),
)
DOCUMENT = SlurmCampaign("c1", "b", "", Slurm(), (), BATCHES)


@pytest.fixture
def folder(tmp_path) -> SharedFolder:
    made = SharedFolder(tmp_path / "c1")
    made.make()
    return made


def quiet(_: object) -> None:
    pass


def test_all_is_submitted_in_order_and_written_down(folder):
    slurm = FakeSlurm()
    assert submit_all(folder, DOCUMENT, slurm, quiet) == {"p-llm": "1", "p": "2", "p-end": "3"}
    assert slurm.after == {"p-llm": [], "p": ["after:1"], "p-end": ["afterany:2"]}
    assert read_submitted(folder).complete
    assert submit_all(folder, DOCUMENT, slurm, quiet) == {"p-llm": "1", "p": "2", "p-end": "3"}
    assert len(slurm.jobs) == 3


@pytest.mark.parametrize("at", [1, 2, 3])
@pytest.mark.parametrize("when", ["die_before", "die_after"])
def test_killed_anywhere_it_continues_and_submits_nothing_twice(folder, at, when):
    slurm, slept = FakeSlurm(), []
    setattr(slurm, when, at)
    with pytest.raises(Died):
        submit_all(folder, DOCUMENT, slurm, quiet)
    ids = submit_all(folder, DOCUMENT, slurm, quiet, sleep=slept.append)
    assert sorted(slurm.jobs.values()) == ["assay:c1:p", "assay:c1:p-end", "assay:c1:p-llm"]
    assert {slurm.jobs[number].rpartition(":")[2] for number in ids.values()} == set(ids)
    assert slept, "an sbatch on its way is waited for"
    assert 0 < slept[0] <= SETTLE_S


def test_a_job_that_slurm_took_twice_is_kept_once(folder):
    slurm = FakeSlurm()
    slurm.die_after = 1
    with pytest.raises(Died):
        submit_all(folder, DOCUMENT, slurm, quiet)
    slurm.jobs["99"] = "assay:c1:p-llm"
    ids = submit_all(folder, DOCUMENT, slurm, quiet, sleep=quiet)
    assert (ids["p-llm"], slurm.cancelled) == ("1", ["99"])


def test_a_line_that_was_cut_off_counts_for_nothing(folder):
    slurm = FakeSlurm()
    slurm.die_after = 2
    with pytest.raises(Died):
        submit_all(folder, DOCUMENT, slurm, quiet)
    with Path(folder.submitted).open("a") as file:
        file.write('{"name":"p","id":"7')
    assert submit_all(folder, DOCUMENT, slurm, quiet, sleep=quiet)["p"] == "2"
    assert len(slurm.jobs) == 3


def test_nothing_more_is_submitted_once_another_cancelled(folder):
    slurm = FakeSlurm()
    note_cancelled(folder)
    with pytest.raises(MeasureError) as caught:
        submit_all(folder, DOCUMENT, slurm, quiet)
    assert caught.value.problem.code == "cancelled"
    assert slurm.jobs == {}


def test_a_service_that_did_not_wait_for_the_rest_is_submitted_again(folder):
    slurm = FakeSlurm()
    slurm.die_before = 2
    with pytest.raises(Died):
        submit_all(folder, DOCUMENT, slurm, quiet)
    publish_failure(folder, "p", "llm", Problem("service-ended", "scancel"))
    told: list[str] = []
    slurm.die_before = 3
    with pytest.raises(Died):
        submit_all(folder, DOCUMENT, slurm, told.append, sleep=quiet)
    assert list(slurm.jobs.values()).count("assay:c1:p-llm") == 1, "one that was ended by somebody stays ended"
    publish_failure(folder, "p", "llm", Problem(CODE, "no process continued the submission"))
    ids = submit_all(folder, DOCUMENT, slurm, told.append, sleep=quiet)
    assert list(slurm.jobs.values()).count("assay:c1:p-llm") == 2
    assert ids["p-llm"] != "1"
    assert slurm.after["p"] == [f"after:{ids['p-llm']}"]
    assert not folder.failed_service("p", "llm").exists()
    assert any("submitting it again" in line for line in told)


def test_jobs_of_other_campaigns_are_left_alone(folder):
    slurm = FakeSlurm()
    slurm.jobs["50"] = "assay:c11:p-llm"
    slurm.die_before = 1
    with pytest.raises(Died):
        submit_all(folder, DOCUMENT, slurm, quiet)
    assert submit_all(folder, DOCUMENT, slurm, quiet, sleep=quiet)["p-llm"] != "50"
