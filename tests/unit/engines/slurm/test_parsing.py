"""What Slurm's commands answer, as records: recorded answers of a real cluster, and whatever may come."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.engines.slurm import parsing
from assay.engines.slurm.commands import _recorded
from assay.engines.slurm.scheduler import failure_of, is_final
from assay.errors import MeasureError
from assay.spec.slurm import Batch

RECORDED = Path(__file__).parent / "recorded"
PLAIN = st.text(st.characters(exclude_characters=parsing.FIELD + parsing.RECORD), max_size=30)


def read(name):
    """One recorded answer: of all jobs of a user, or of jobs that were asked for by number."""
    return parsing.account_states(_recorded((RECORDED / name).read_text()))


@pytest.fixture(scope="module")
def accounted():
    """What sacct of Slurm 22.05 with slurmdbd said of jobs that ended in every way."""
    states = [*read("sacct-22.05.txt"), *read("sacct-jobs-22.05.txt")]
    return {state.comment.removeprefix("assay:c1:") or state.name: state for state in states if state.task is None}


@pytest.mark.parametrize(
    ("name", "state", "code", "signal", "told"),
    [
        ("done", "COMPLETED", 0, None, None),
        ("failed", "FAILED", 7, None, "slurm-failed"),
        ("oom", "OUT_OF_MEMORY", 0, 125, "slurm-oom"),
        ("time", "TIMEOUT", 0, None, "slurm-timeout"),
        ("cancel", "CANCELLED", 0, None, "slurm-cancelled"),
        ("pre", "PREEMPTED", 0, None, "slurm-preempted"),
        ("nf", "NODE_FAIL", 0, None, "slurm-node-fail"),
        ("dep", "CANCELLED", 0, None, "slurm-dependency"),
    ],
)
def test_every_end_is_distinguished_by_accounting(accounted, name, state, code, signal, told):
    found = accounted[name]
    assert (found.state, found.exit_code, found.signal) == (state, code, signal)
    failure = failure_of(found, Batch())
    assert (failure.code if failure else None) == told
    assert is_final(found.state)


def test_accounting_reports_names_times_memory_and_folder(accounted):
    done = accounted["done"]
    assert (done.id, done.name, done.node, done.partition, done.work_dir) == ("1", "done", "n1", "debug", "/shared/c1")
    assert done.started_at is not None
    assert done.started_at.tzinfo is UTC
    assert (done.elapsed_s, done.time_limit_s, done.memory_max_bytes) == (0.0, 3600.0, 3396 * 1024)
    assert accounted["failed"].name == "a name `with` | it", "sacct itself makes ` of each quote"
    assert accounted["time"].time_limit_s == 60.0


def test_a_job_that_was_put_back_is_waiting_and_its_first_life_is_counted(accounted):
    again = accounted["req"]
    assert (again.state, again.requeues, again.reason, again.node) == ("PENDING", 1, "BeginTime", "")
    assert (again.started_at, again.ended_at) == (None, None)


def test_tasks_of_arrays_are_reported_one_by_one():
    states = read("sacct-22.05.txt")
    tasks = {state.key: state for state in states if state.id == "5"}
    assert {key: state.exit_code for key, state in tasks.items()} == {f"5_{index}": index for index in range(6)}
    assert tasks["5_5"].raw == "5"
    assert {state.reason for state in tasks.values()} == {""}, "why it waited is not why it failed"


def test_an_array_that_was_cancelled_before_it_began_is_unfolded():
    states = [state for state in read("sacct-jobs-22.05.txt") if state.id == "12"]
    assert [state.key for state in states] == ["12_0", "12_1", "12_2", "12_3"]
    assert {(state.state, state.reason, state.node) for state in states} == {("CANCELLED", "By 0", "")}
    told = failure_of(states[0], Batch())
    assert told is not None
    assert "before it began (By 0)" in told.message


def test_the_plain_record_of_completed_jobs_is_read_as_far_as_it_goes():
    rows = [
        ("4", "wrap", "COMPLETED", "0:0", "n1", "1794782592", "1794782595", "60", "debug", "/w"),
        ("5", "wrap", "FAILED", "1:0", "n1", "1794782592", "1794782595", "60", "debug", "/w"),
        ("9", "a", "", "0:0", "n1", "1794782592", "1794782595", "60", "debug", "/w"),  # its name had a space
    ]
    text = "".join(parsing.FIELD.join(row) + parsing.FIELD + "\n" for row in rows)
    states = parsing.completion_states(_recorded(text), {"5": ("2", 1)})
    assert [(state.key, state.state, state.exit_code) for state in states] == [
        ("4", "COMPLETED", 0),
        ("2_1", "FAILED", 1),
    ]
    assert (states[0].elapsed_s, states[0].requeues, states[0].submitted_at, states[0].comment) == (3.0, None, None, "")


def queue_row(**given: str) -> str:
    row = (
        dict.fromkeys(parsing.QUEUE_FIELDS, "")
        | {
            "ArrayJobID": "7",
            "ArrayTaskID": "N/A",
            "JobID": "7",
            "Name": "j",
            "State": "RUNNING",
            "Reason": "None",
            "TimeLimit": "1:00:00",
            "TimeUsed": "0:05",
            "exit_code": "0",
            "RestartCnt": "0",
            "Comment": "(null)",
        }
        | given
    )
    return parsing.FIELD.join(row.values()) + parsing.RECORD + "\n"


@given(PLAIN, PLAIN)
def test_any_name_and_comment_is_read_back_as_it_was(name, comment):
    (state,) = parsing.queue_states(queue_row(Name=name, Comment=comment + "x"))
    assert (state.name, state.comment) == (name, comment + "x")


def test_a_waiting_job_has_an_estimate_and_no_start():
    (state,) = parsing.queue_states(queue_row(State="PENDING", Reason="Priority", StartTime="1794783441"))
    assert state.estimated_start == datetime.fromtimestamp(1794783441, UTC)
    assert (state.started_at, state.elapsed_s, state.reason) == (None, None, "Priority")
    (state,) = parsing.queue_states(queue_row(State="PENDING", StartTime="N/A", TimeLimit="UNLIMITED"))
    assert (state.estimated_start, state.time_limit_s) == (None, None)


def test_waiting_tasks_of_an_array_are_unfolded():
    states = parsing.queue_states(queue_row(ArrayTaskID="3-5,9%2", State="PENDING"))
    assert [state.key for state in states] == ["7_3", "7_4", "7_5", "7_9"]


@pytest.mark.parametrize(("status", "told"), [("0", (0, None)), ("768", (3, None)), ("9", (0, 9)), ("", (None, None))])
def test_the_status_of_a_process_is_code_and_signal(status, told):
    (state,) = parsing.queue_states(queue_row(exit_code=status))
    assert (state.exit_code, state.signal) == told


def test_an_answer_of_another_shape_is_a_clear_error():
    with pytest.raises(MeasureError, match="squeue answered 'JOBID PARTITION'") as caught:
        parsing.queue_states("JOBID PARTITION\n")
    assert caught.value.problem.code == "slurm-answer"
    assert parsing.queue_states("") == ()
    assert parsing.queue_states("\n") == ()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0:05", 5),
        ("1:00:00", 3600),
        ("2-03:04:05", 183845),
        ("12", 12),
        ("UNLIMITED", None),
        ("INVALID", None),
        ("", None),
    ],
)
def test_spans_are_read(text, value):
    assert parsing.seconds(text) == value


@pytest.mark.parametrize(
    ("text", "value"), [("3396K", 3477504), ("1.50G", 1610612736), ("0", 0), ("", None), ("12M", 12582912)]
)
def test_sizes_are_read(text, value):
    assert parsing.size(text) == value


@given(st.sets(st.integers(0, 500), min_size=1))
def test_indexes_are_unfolded_as_slurm_folds_them(wanted):
    ordered = sorted(wanted)
    spans, begin = [], 0
    for place in range(1, len(ordered) + 1):
        if place == len(ordered) or ordered[place] != ordered[place - 1] + 1:
            first, last = ordered[begin], ordered[place - 1]
            spans.append(str(first) if first == last else f"{first}-{last}")
            begin = place
    assert list(parsing.indexes(",".join(spans) + "%10")) == ordered
    assert list(parsing.indexes("0-10:5,...")) == [0, 5, 10]


def test_partitions_are_put_together_from_the_lines_of_their_nodes():
    lines = [
        ("gpu", "up", "2-00:00:00", "3", "idle", "64", "512000", "gpu:h200:4(S:0-1)", "gpu*"),
        ("gpu", "up", "2-00:00:00", "1", "mixed", "32+", "256000", "gpu:h200:4(S:0,1),shard:16", "gpu*"),
        ("cpu", "inact", "infinite", "8", "allocated", "128", "256000", "(null)", "cpu"),
    ]
    gpu, cpu = parsing.partitions("".join(parsing.FIELD.join(one) + parsing.RECORD + "\n" for one in lines))
    assert (gpu.name, gpu.default, gpu.up, gpu.time_limit_s, gpu.nodes, gpu.idle) == ("gpu", True, True, 172800, 4, 3)
    assert (gpu.cpus_per_node, gpu.memory_per_node_bytes) == (32, 256000 * 2**20)
    assert gpu.gres == ("gpu:h200:4(S:0-1)", "gpu:h200:4(S:0,1)", "shard:16")
    assert (cpu.default, cpu.up, cpu.time_limit_s, cpu.gres) == (False, False, None, ())
