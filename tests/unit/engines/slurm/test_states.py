"""What the states of Slurm mean to a user: whether a job ended, why, what to change, what it waits for."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from assay.engines.slurm.scheduler import (
    FINAL,
    WAITING,
    BatchState,
    comment_of,
    failure_of,
    forgotten,
    is_final,
    named_in,
    waiting_words,
)
from assay.spec.slurm import Batch

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
JOB = BatchState("17", 3, "jobs-0", "FAILED", node="n4", exit_code=1, elapsed_s=5.0, started_at=NOW, partition="gpu")


def told(state="FAILED", batch=None, log="", **changes):
    return failure_of(replace(JOB, state=state, **changes), batch or Batch(), log)


@pytest.mark.parametrize(
    ("changes", "batch", "code", "said", "change"),
    [
        (
            {"state": "TIMEOUT", "time_limit_s": 1800.0},
            Batch(time=1800.0),
            "slurm-timeout",
            "time limit of 30 min",
            "place.slurm.time",
        ),
        (
            {"state": "TIMEOUT", "time_limit_s": 1800.0},
            Batch(),
            "slurm-timeout",
            "the partition's own",
            "place.slurm.time",
        ),
        (
            {"state": "OUT_OF_MEMORY", "memory_max_bytes": 2**30},
            Batch(memory=2**30),
            "slurm-oom",
            "1.0 GiB was asked for; it was last seen with 1.0 GiB",
            "place.slurm.memory",
        ),
        (
            {"state": "OUT_OF_MEMORY", "memory_max_bytes": 2**20},
            Batch(),
            "slurm-oom",
            "the partition's default was asked for",
            "place.slurm.memory",
        ),
        (
            {"state": "PREEMPTED", "requeues": 2},
            Batch(),
            "slurm-preempted",
            "in gpu, after it had been put back 2 times",
            "--requeue",
        ),
        ({"state": "NODE_FAIL"}, Batch(), "slurm-node-fail", "because n4 failed", "--exclude=n4"),
        (
            {"state": "CANCELLED", "reason": "By 1000"},
            Batch(),
            "slurm-cancelled",
            "after 5.0 s (By 1000)",
            "run the campaign",
        ),
        (
            {"state": "CANCELLED", "started_at": None, "elapsed_s": None},
            Batch(),
            "slurm-cancelled",
            "before it began",
            "again",
        ),
        (
            {"state": "CANCELLED", "reason": "DependencyNeverSatisfied"},
            Batch(),
            "slurm-dependency",
            "depends on failed",
            "services",
        ),
        ({"state": "DEADLINE"}, Batch(), "slurm-deadline", "before its deadline", "--deadline"),
        ({"state": "BOOT_FAIL"}, Batch(), "slurm-boot-fail", "n4 did not start", "run it again"),
        ({"state": "FAILED", "exit_code": 7}, Batch(), "slurm-failed", "on n4 with exit code 7", "assay logs"),
        ({"state": "FAILED", "exit_code": 0, "signal": 11}, Batch(), "slurm-failed", "signal 11", "assay logs"),
        ({"state": "FAILED", "exit_code": 0, "signal": 125}, Batch(), "slurm-oom", "memory ran out", "memory"),
        ({"state": "COMPLETED", "exit_code": 3}, Batch(), "slurm-failed", "exit code 3", "assay logs"),
        ({"state": "PENDING", "reason": "JobHeldUser"}, Batch(), "slurm-held", "on hold", "scontrol release 17_3"),
        ({"state": "PENDING", "reason": "JobHeldAdmin"}, Batch(), "slurm-held", "by an administrator", "ask"),
        (
            {"state": "PENDING", "reason": "DependencyNeverSatisfied"},
            Batch(),
            "slurm-dependency",
            "depends on failed",
            "services",
        ),
        ({"state": "PENDING", "reason": "PartitionTimeLimit"}, Batch(), "slurm-impossible", "can never run", "lower"),
    ],
)
def test_each_failure_has_a_code_the_value_and_what_to_change(changes, batch, code, said, change):
    failure = told(batch=batch, **changes)
    assert failure is not None
    assert failure.code == code
    assert said in failure.message
    assert "17_3" in failure.message
    assert change in failure.try_


def test_a_kill_for_memory_is_known_by_the_log_where_the_state_hides_it():
    log = "slurmstepd: error: Step 3.batch exceeded memory limit (314572800 > 52428800), being killed\n"
    killed = {"exit_code": 0, "signal": 9, "reason": "JobLaunchFailure"}
    failure = told(log=log, **killed)
    assert failure is not None
    assert failure.code == "slurm-oom"
    other = told(log="killed by hand", **killed)
    assert other is not None
    assert other.code == "slurm-failed"
    own = told(log=log, exit_code=1)  # the words alone prove nothing
    assert own is not None
    assert own.code == "slurm-failed"


@pytest.mark.parametrize("state", ["RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STAGE_OUT", "SIGNALING"])
def test_a_job_that_may_still_give_a_result_has_not_failed(state):
    assert told(state=state, exit_code=1) is None
    assert not is_final(state)


def test_an_ordinary_wait_and_a_good_end_are_no_failures():
    assert told(state="PENDING", reason="Priority") is None
    assert told(state="COMPLETED", exit_code=0) is None


def test_every_final_state_but_a_good_end_is_a_failure():
    for state in FINAL - {"COMPLETED"}:
        assert told(state=state) is not None, state
    assert not FINAL & WAITING


def test_what_slurm_forgot_is_not_invented():
    assert forgotten("17_3").code == "slurm-forgotten"
    assert "does not remember" in forgotten("17_3").message


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("Priority", "waiting: others come first (Priority)"),
        ("Resources", "its resources are busy"),
        ("ReqNodeNotAvail, UnavailableNodes:n1", "down, drained or reserved (ReqNodeNotAvail, UnavailableNodes:n1)"),
        ("AssocGrpGRES", "your group uses as many GPUs as it may"),
        ("SomethingNew", "for a reason of its own (SomethingNew)"),
        ("", "Slurm has not reported a reason yet; no estimate"),
    ],
)
def test_a_wait_is_reported_in_words(reason, said):
    assert said in waiting_words(replace(JOB, state="PENDING", reason=reason))


def test_the_estimate_is_reported_and_never_made_up():
    job = replace(JOB, state="PENDING", reason="Priority")
    assert waiting_words(job).endswith("no estimate of its start yet")
    ahead = replace(job, estimated_start=NOW + timedelta(minutes=90))
    assert waiting_words(ahead, NOW).endswith("Slurm means to start it in 1 h 30 min")
    assert waiting_words(ahead).endswith("at 2026-11-15 13:30 UTC")
    assert waiting_words(ahead, NOW + timedelta(hours=2)).endswith("start it now")


def test_a_comment_names_campaign_and_part():
    comment = comment_of("2026-chat", "point-0000-llm")
    assert comment == "assay:2026-chat:point-0000-llm"
    assert named_in(comment, "2026-chat") == "point-0000-llm"
    assert named_in(comment, "2026") is None
    assert named_in("something else", "2026-chat") is None
