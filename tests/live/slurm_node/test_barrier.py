"""Where the clients of a group meet: in the folder of the campaign, and again after they were requeued."""

from __future__ import annotations

import threading

import pytest
from tests.live.slurm_node.conftest import definition

from assay.engines.node import begin_together, give_up_all
from assay.engines.slurm.folder import SharedFolder
from assay.engines.slurm.node.task import clear_absences, meeting_of
from assay.errors import MeasureError
from assay.plan.job import Job


def job(host: int | None, hosts: int = 2) -> Job:
    return Job("b", "d" * 64, 0, definition(load={"concurrency": 2, "duration": 1.0, "hosts": hosts, "host": host}))


def test_a_part_meets_in_the_folder_of_its_group(tmp_path):
    folder = SharedFolder(tmp_path)
    meeting = meeting_of(folder, "point-0003", job(1))
    assert (meeting.who, meeting.of) == (1, 2)
    assert [meeting.of_run(run) for run in range(3)] == [folder.barrier("point-0003", run) for run in range(3)]
    assert meeting_of(folder, "point-0003", job(None, hosts=1)) is None


def both(folder: SharedFolder) -> list[float]:
    waited: list[float] = []
    threads = [
        threading.Thread(
            target=lambda host=host: waited.append(begin_together(meeting_of(folder, "g", job(host)), 120.0).waited_s)
        )
        for host in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return waited


def test_jobs_that_have_begun_once_do_not_wait_again(tmp_path):
    folder = SharedFolder(tmp_path)
    assert len(both(folder)) == 2
    assert begin_together(meeting_of(folder, "g", job(1)), 1.0).waited_s == 0, "its job was put back into the queue"


def test_a_group_that_is_put_back_into_the_queue_begins_again(tmp_path):
    folder = SharedFolder(tmp_path)
    meeting = meeting_of(folder, "g", job(1))
    give_up_all(meeting, 2, "preempted")
    assert (meeting.of_run(1) / "absent-1.json").exists()
    with pytest.raises(MeasureError, match="client 1 cannot take part in this run: preempted"):
        begin_together(meeting_of(folder, "g", job(0)), 120.0)
    give_up_all(meeting_of(folder, "g", job(0)), 2, "client 1 cannot come")
    clear_absences(meeting, 2, {})
    assert (meeting.of_run(1) / "absent-1.json").exists(), "this job begins for the first time"
    clear_absences(meeting, 2, {"SLURM_RESTART_COUNT": "1"})
    assert not list(meeting.of_run(1).glob("absent-*"))
    assert len(both(folder)) == 2
