"""The documents of slurmrestd: scripts as submissions, answers old and new as records."""

import json
from pathlib import Path

import pytest

from assay.engines.slurm import rest_documents as documents
from assay.engines.slurm.scheduler import Dependency, failure_of
from assay.engines.slurm.script import Script, directives
from assay.errors import UsageError
from assay.spec.benchmark import Needs
from assay.spec.slurm import Batch

RECORDED = Path(__file__).parent / "recorded"
BATCH = Batch(
    partition="gpu",
    account="p1",
    time=90.0,
    nodes=2,
    tasks=4,
    cpus=8,
    memory=2**30,
    gpus="h200:2",
    exclusive=True,
    constraint="a&b",
    options=("--requeue",),
)


def script(batch: Batch = BATCH, name: str = 'a "b" # c') -> str:
    return Script(name, directives(batch, Needs()), [("true",)], array="0-3%2", output=Path("/s h/x-%A_%a.out")).text()


def sent(version: int, text: str | None = None):
    after = (Dependency("after", ("3", "4")), Dependency("afterany", ("5",)))
    made = documents.submission(
        text or script(), comment="assay:c:n", after=after, version=version, environ={"A": "b c"}
    )
    return made["job"]


def test_the_lines_of_a_script_become_fields():
    assert sent(38) == {
        "comment": "assay:c:n",
        "name": 'a "b" # c',
        "array": "0-3%2",
        "standard_output": "/s h/x-%A_%a.out",
        "partition": "gpu",
        "account": "p1",
        "time_limit": 2,
        "nodes": [2, 2],
        "tasks": 4,
        "cpus_per_task": 8,
        "memory_per_node": 1024,
        "gres": "gpu:h200:2",
        "constraints": "a&b",
        "exclusive": "true",
        "requeue": True,
        "dependency": "after:3:4,afterany:5",
        "kill_on_invalid_dependency": True,
        "environment": {"A": "b c"},
    }


def test_newer_versions_take_objects_and_lists():
    new = sent(41)
    assert new["time_limit"] == {"set": True, "infinite": False, "number": 2}
    assert new["memory_per_node"]["number"] == 1024
    assert (new["nodes"], new["tres_per_node"], new["shared"]) == ("2", "gres/gpu:h200:2", ["none"])
    assert new["environment"] == ["A=b c"]
    assert new["flags"] == ["KILL_INVALID_DEPENDENCY"]
    assert "gres" not in new


def test_an_option_that_slurmrestd_does_not_know_is_refused_and_not_dropped():
    with pytest.raises(UsageError, match="--switches=2 cannot be given to slurmrestd") as caught:
        sent(38, script(Batch(options=("--switches=2",))))
    assert "remove place.slurm.rest" in caught.value.problem.try_


def test_an_option_may_have_its_value_after_a_space():
    assert dict(documents.options_in("#!/bin/bash\n#SBATCH --nice 5 # why\n#SBATCH\ntrue\n")) == {"nice": "5"}


def test_jobs_of_old_and_new_versions_are_read_alike():
    old = {
        "job_id": 9,
        "array_job_id": 7,
        "array_task_id": 1,
        "array_task_string": "",
        "job_state": "FAILED",
        "name": "n",
        "exit_code": 768,
        "start_time": 100,
        "end_time": 103,
        "submit_time": 99,
        "time_limit": 2,
        "restart_cnt": 1,
        "state_reason": "NonZeroExitCode",
        "nodes": "n1",
        "comment": "c",
        "current_working_directory": "/w",
        "partition": "p",
    }

    def amount(value):
        return {"set": True, "infinite": False, "number": value}

    new = {
        **old,
        "array_job_id": amount(7),
        "array_task_id": amount(1),
        "job_state": ["FAILED"],
        "exit_code": {"return_code": amount(3), "status": ["ERROR"], "signal": {"id": {"set": False, "number": 0}}},
        "start_time": amount(100),
        "end_time": amount(103),
        "submit_time": amount(99),
        "time_limit": amount(2),
    }
    (one,), (other,) = documents.job_states({"jobs": [old]}), documents.job_states({"jobs": [new]})
    assert one == other
    assert (one.key, one.exit_code, one.elapsed_s, one.time_limit_s, one.requeues) == ("7_1", 3, 3.0, 120.0, 1)


def test_waiting_tasks_of_an_array_are_unfolded_and_have_an_estimate():
    waiting = {
        "job_id": 7,
        "array_job_id": 7,
        "array_task_id": None,
        "array_task_string": "2-4%2",
        "job_state": "PENDING",
        "start_time": 500,
        "exit_code": 0,
        "state_reason": "Resources",
    }
    states = documents.job_states({"jobs": [waiting]})
    assert [state.key for state in states] == ["7_2", "7_3", "7_4"]
    assert states[0].started_at is None
    assert states[0].estimated_start is not None


def test_accounting_by_slurmrestd_is_read_as_it_was_recorded():
    states = {
        state.key: state
        for state in documents.account_states(json.loads((RECORDED / "slurmdb-v0.0.38.json").read_text()))
    }
    told = {key: failure.code for key, state in states.items() if (failure := failure_of(state, Batch())) is not None}
    assert (told["3"], told["18"], told["11"]) == ("slurm-oom", "slurm-node-fail", "slurm-cancelled")
    assert states["3"].memory_max_bytes == 3387392
    assert (states["21"].state, states["21"].requeues) == ("PENDING", 1)
    assert {f"5_{index}" for index in range(6)} <= set(states)
    assert states["5_3"].exit_code is None, "this version says success of every failure, which is not told on"
    assert (states["3"].comment, states["3"].work_dir) == ("assay:c1:oom", "/shared/c1")


def test_complaints_are_reported_once():
    error = {"error": "Invalid job id specified", "description": "Unable to find JobId=9", "error_number": 2017}
    assert documents.complaints({"errors": [error, error]}) == "Invalid job id specified: Unable to find JobId=9"
    assert documents.complaints({"errors": []}) == documents.complaints([]) == ""
