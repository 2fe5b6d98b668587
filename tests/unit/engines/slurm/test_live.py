"""The engine on a real Slurm: what is submitted, what is told of it, and what is found again."""

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic, sleep

import pytest
from tests.support.slurm_cluster import PATH, PATIENCE_S, SlurmCluster

from assay.engines.slurm.commands import CommandLine
from assay.engines.slurm.rest import Rest
from assay.engines.slurm.scheduler import (
    BatchState,
    Dependency,
    Scheduler,
    comment_of,
    failure_of,
    is_final,
    waiting_words,
)
from assay.engines.slurm.script import Script, Variable, directives
from assay.errors import MeasureError
from assay.spec.benchmark import Needs
from assay.spec.slurm import Batch

pytestmark = pytest.mark.live
NASTY = "a b \"c\" 'd' #e $HOME `f` \\ %j ä"


def write(
    folder: Path,
    *words: str | Variable,
    name: str = "job",
    array: str | None = None,
    batch: Batch | None = None,
    needs: Needs | None = None,
    log: bool = False,
) -> Path:
    logs = {"output": folder / "%j.out", "error": folder / "%j.err"} if log else {"output": Path("/dev/null")}
    script = Script(name, directives(batch or Batch(), needs or Needs()), [words], array=array, work_dir=folder, **logs)
    path = folder / "script.sh"
    path.write_text(script.text())
    return path


def until(
    scheduler: Scheduler, ids: list[str], holds: Callable[[Mapping[str, BatchState]], bool]
) -> Mapping[str, BatchState]:
    by = monotonic() + PATIENCE_S
    while not holds(states := scheduler.states(ids)):
        assert monotonic() < by, states
        sleep(0.3)
    return states


def ended(states: Mapping[str, BatchState]) -> bool:
    return bool(states) and all(is_final(state.state) for state in states.values())


def test_an_array_runs_on_its_nodes_with_its_gpus_and_every_task_is_reported(slurm: SlurmCluster, tmp_path):
    line = 'echo "$SLURM_ARRAY_TASK_ID $CUDA_VISIBLE_DEVICES $1" > $1.$SLURM_ARRAY_TASK_ID; exit $SLURM_ARRAY_TASK_ID'
    batch = Batch(gpus="h200:1", cpus=2, memory=100 * 2**20, time=120.0)
    script = write(
        tmp_path, "/bin/sh", "-c", line, "sh", Variable("SLURM_JOB_NAME"), name="named", array="0-3%2", batch=batch
    )
    scheduler = CommandLine()
    number = scheduler.submit(script, comment=comment_of("c1", "jobs-0"))
    states = until(scheduler, [number], lambda found: len(found) == 4 and ended(found))
    assert {key: state.exit_code for key, state in states.items()} == {f"{number}_{index}": index for index in range(4)}
    assert states[f"{number}_0"].state == "COMPLETED"
    assert states[f"{number}_3"].state == "FAILED"
    assert (tmp_path / "named.2").read_text().split()[0] == "2"
    assert (tmp_path / "named.2").read_text().split()[1] in ("0", "1")
    one = states[f"{number}_1"]
    assert (one.name, one.comment, one.work_dir) == ("named", "assay:c1:jobs-0", str(tmp_path))
    assert one.time_limit_s == 120.0
    assert one.started_at is not None
    assert list(scheduler.states([f"{number}_1"])) == [f"{number}_1"], "one task may be asked for alone"


def test_names_and_comments_survive_whatever_is_in_them(slurm: SlurmCluster, tmp_path):
    scheduler = CommandLine()
    script = write(tmp_path, "true", name=NASTY, batch=Batch(options=("--begin=now+1hour",)))
    number = scheduler.submit(script, comment=f"assay:c2:{NASTY}")
    (state,) = scheduler.states([number]).values()
    assert (state.name, state.comment) == (NASTY, f"assay:c2:{NASTY}")
    assert state.reason == "BeginTime"


def test_a_job_whose_number_was_lost_is_found_by_its_comment(slurm: SlurmCluster, tmp_path):
    scheduler = CommandLine()
    script = write(tmp_path, "sleep", "600")
    number = scheduler.submit(script, comment=comment_of("lost", "monitor"))
    scheduler.submit(script, comment=comment_of("lost-too", "monitor"))
    assert [state.id for state in CommandLine().find(comment_of("lost", ""))] == [number]
    scheduler.cancel([number])
    until(scheduler, [number], ended)
    (found,) = CommandLine().find(comment_of("lost", ""), work_dir=tmp_path)
    assert (found.id, found.state) == (number, "CANCELLED")


def test_an_sbatch_that_did_not_answer_is_searched_for_before_it_is_called_failed(
    slurm: SlurmCluster, tmp_path, monkeypatch
):
    real = CommandLine._run

    def cut(self, words, environ=None):
        said = real(self, words, environ)
        if words[0] == "sbatch":
            raise MeasureError("no answer", code="slurm-silent")
        return said

    monkeypatch.setattr(CommandLine, "_run", cut)
    number = CommandLine().submit(write(tmp_path, "true"), comment=comment_of("c3", "end"))
    assert number.isdigit()

    def dead(self, words, environ=None):
        raise MeasureError("no answer", code="slurm-silent")

    monkeypatch.setattr(CommandLine, "_run", dead)
    with pytest.raises(MeasureError, match="no answer"):
        CommandLine().submit(write(tmp_path, "true"), comment=comment_of("c3", "other"))


def test_what_the_controller_forgot_comes_from_the_record_of_completed_jobs(slurm: SlurmCluster, tmp_path, monkeypatch):
    scheduler = CommandLine()
    single = scheduler.submit(write(tmp_path, "sh", "-c", "exit 5"), comment="x")
    array = scheduler.submit(write(tmp_path, "true", array="0-1"), comment="x")
    seen = until(scheduler, [single, array], lambda found: len(found) == 3 and ended(found))
    monkeypatch.setattr(CommandLine, "_queue", lambda *_: [])
    fresh = CommandLine().states([single, array])
    assert (fresh[single].state, fresh[single].exit_code, fresh[single].source) == ("FAILED", 5, "jobcomp")
    assert not any(state.task is not None for state in fresh.values()), "it does not tell which task was which"
    assert scheduler.states([single, array]) == seen, "what was once told stays true"
    knowing = CommandLine(_tasks=dict(scheduler._tasks))
    assert {f"{array}_0", f"{array}_1"} <= set(knowing.states([array]))
    assert knowing.states(["999999"]) == {}


@pytest.fixture(scope="module")
def endings(slurm_cluster: SlurmCluster, tmp_path_factory) -> Mapping[str, tuple[BatchState, str]]:
    """Jobs that end in every way, all at once: a time limit alone takes up to half a minute to be noticed."""
    folder = tmp_path_factory.mktemp("endings")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", str(slurm_cluster.conf))
        patch.setenv("PATH", PATH)
        scheduler, ids = CommandLine(), {}

        def submit(name: str, *words: str, after: tuple[Dependency, ...] = (), **batch) -> None:
            path = folder / name
            path.mkdir()
            script = write(path, *words, name=name, batch=Batch(**batch), log=True)
            ids[name] = scheduler.submit(script, after=after, comment=comment_of("endings", name))

        submit("timeout", "sleep", "300", time=60.0, options=("--nodelist=n1",))
        eat = "import time; held = bytearray(400 * 2**20); time.sleep(600)"
        submit("oom", "python3", "-c", eat, memory=60 * 2**20, options=("--nodelist=n2",))
        submit("node", "sleep", "300", options=("--nodelist=n3", "--no-requeue"))
        submit("back", "sleep", "300", options=("--nodelist=n3", "--requeue"))
        submit("cancelled", "sleep", "300", options=("--nodelist=n4",))
        submit("failed", "sh", "-c", "sleep 1; exit 3", options=("--nodelist=n4",))
        submit("child", "true", after=(Dependency("afterok", (ids["failed"],)),))
        submit("next", "true", after=(Dependency("afterany", (ids["failed"],)), Dependency("after", (ids["timeout"],))))
        submit("preempted", "sleep", "300", partition="lowest", exclusive=True)
        running = [ids[name] for name in ("timeout", "node", "back", "cancelled", "preempted")]
        until(scheduler, running, lambda found: all(state.state == "RUNNING" for state in found.values()))
        slurm_cluster.run("scontrol", "update", f"jobid={ids['timeout']}", "endtime=now+1seconds")
        submit("high", "sleep", "1", partition="high", exclusive=True)
        slurm_cluster.run("scontrol", "update", "nodename=n3", "state=down", "reason=test")
        scheduler.cancel([ids["cancelled"]])
        waited = [number for name, number in ids.items() if name != "back"]
        # Slurm starts it again after two minutes: it is looked at as soon as it was put back.
        back = until(scheduler, [ids["back"]], lambda found: found[ids["back"]].state == "PENDING")
        until(scheduler, waited, ended)
        states = {**scheduler.states(waited), **back}
        logs = {name: "".join(path.read_text() for path in (folder / name).glob("*.err")) for name in ids}
    yield {name: (states[number], logs[name]) for name, number in ids.items()}
    slurm_cluster.clear()


@pytest.mark.parametrize(
    ("name", "word", "code"),
    [
        ("timeout", "TIMEOUT", "slurm-timeout"),
        ("oom", "FAILED", "slurm-oom"),  # this cluster has no cgroups: only the log tells
        ("node", "NODE_FAIL", "slurm-node-fail"),
        ("cancelled", "CANCELLED", "slurm-cancelled"),
        ("failed", "FAILED", "slurm-failed"),
        ("child", "CANCELLED", "slurm-dependency"),
        ("next", "COMPLETED", None),
        ("preempted", "PREEMPTED", "slurm-preempted"),
        ("high", "COMPLETED", None),
    ],
)
def test_every_end_is_distinguished(endings, name, word, code):
    state, log = endings[name]
    assert state.state == word
    failure = failure_of(state, Batch(memory=60 * 2**20), log)
    assert (failure.code if failure else None) == code, (state, log)


def test_a_job_of_a_lost_node_goes_back_into_the_queue(endings):
    state, _ = endings["back"]
    assert (state.state, state.requeues) == ("PENDING", 1)
    assert failure_of(state, Batch()) is None
    assert waiting_words(state).startswith("waiting: ")


def test_a_held_job_says_so_and_a_waiting_one_has_an_estimate(slurm: SlurmCluster, tmp_path):
    scheduler = CommandLine()
    whole = Batch(exclusive=True, time=600.0, options=("--nodelist=n6",))
    first = scheduler.submit(write(tmp_path, "sleep", "300", batch=whole), comment="x")
    second = scheduler.submit(write(tmp_path, "true", batch=whole), comment="x")
    held = scheduler.submit(write(tmp_path, "true", batch=Batch(options=("--begin=now+1hour",))), comment="x")
    slurm.run("scontrol", "uhold", held)
    states = until(
        scheduler,
        [first, second, held],
        lambda found: found[second].estimated_start is not None and found[held].reason.startswith("JobHeld"),
    )
    told = failure_of(states[held], Batch())
    assert told is not None
    assert (told.code, told.try_) == ("slurm-held", f"scontrol release {held}")
    assert states[second].reason in ("Resources", "Priority"), "which of the two depends on Slurm's round"
    assert states[second].started_at is None
    assert f"({states[second].reason}); Slurm means to start it at" in waiting_words(states[second])


def test_cancel_reaches_waiting_and_running_jobs_and_forgives_ended_ones(slurm: SlurmCluster, tmp_path):
    scheduler = CommandLine()
    done = scheduler.submit(write(tmp_path, "true"), comment="x")
    until(scheduler, [done], ended)
    array = scheduler.submit(write(tmp_path, "sleep", "600", array="0-3%1"), comment="x")
    until(scheduler, [array], lambda found: any(state.state == "RUNNING" for state in found.values()))
    scheduler.cancel([done, array, "999999"])
    states = until(scheduler, [array], lambda found: len(found) == 4 and ended(found))
    assert {state.state for state in states.values()} == {"CANCELLED"}
    assert slurm.queued() == []


def test_variables_of_the_user_change_neither_the_job_nor_the_answer(slurm: SlurmCluster, tmp_path, monkeypatch):
    for name, value in {
        "SBATCH_TIMELIMIT": "1",
        "SBATCH_PARTITION": "low",
        "SQUEUE_STATES": "R",
        "SQUEUE_FORMAT": "%i",
        "SLURM_JOB_ID": "1",
        "SLURM_MEM_PER_CPU": "1",
        "SLURM_TIME_FORMAT": "relative",
        "SBATCH_ARRAY_INX": "0-9",
    }.items():
        monkeypatch.setenv(name, value)
    scheduler = CommandLine()
    later = ("--begin=now+1hour",)
    own = scheduler.submit(
        write(tmp_path, "true", batch=Batch(partition="high", time=300.0, options=later)), comment="x"
    )
    silent = scheduler.submit(write(tmp_path, "true", batch=Batch(options=later)), comment="x")
    states = scheduler.states([own, silent])
    assert (states[own].partition, states[own].time_limit_s, states[own].task) == ("high", 300.0, None)
    assert states[silent].partition == "low", "who pays and where is the user's own, if the file is silent"
    assert states[silent].time_limit_s == 3600.0


@pytest.mark.parametrize(
    ("batch", "key"),
    [
        (Batch(partition="nope"), "place.slurm.partition"),
        (Batch(gpus=9), "place.slurm"),
        (Batch(time=86400.0 * 9, partition="debug"), None),
        (Batch(options=("--no-such-option",)), "place.slurm.options"),
    ],
)
def test_a_refusal_is_reported_in_slurms_words_with_what_to_change(slurm: SlurmCluster, tmp_path, batch, key):
    scheduler, script = CommandLine(), write(tmp_path, "true", batch=batch)
    if key is None:  # taken, and then waits for ever
        number = scheduler.submit(script, comment="x")
        states = until(scheduler, [number], lambda found: failure_of(found[number], batch) is not None)
        told = failure_of(states[number], batch)
        assert told is not None
        assert (told.code, "place.slurm.time" in told.try_) == ("slurm-impossible", True)
        return
    with pytest.raises(MeasureError, match="sbatch refused: ") as caught:
        scheduler.submit(script, comment="x")
    assert caught.value.problem.code == "slurm-refused"
    assert key in caught.value.problem.try_


def test_a_controller_that_does_not_answer_is_a_clear_error_within_the_given_time(
    slurm: SlurmCluster, tmp_path, monkeypatch
):
    conf = tmp_path / "slurm.conf"
    conf.write_text(slurm.conf.read_text().replace("SlurmctldPort=", "SlurmctldPort=1#"))
    monkeypatch.setenv("SLURM_CONF", str(conf))
    begin = monotonic()
    with pytest.raises(MeasureError) as caught:
        CommandLine(patience_s=1.0).states(["1"])
    assert caught.value.problem.code == "slurm-silent"
    assert monotonic() - begin < 30
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MeasureError, match="there is no squeue on this machine"):
        CommandLine().states(["1"])


def test_a_cluster_says_what_it_is(slurm: SlurmCluster):
    facts = CommandLine().check()
    assert (facts.name, facts.accounting, facts.max_array, facts.kept_s) == ("assay-test", "jobcomp", 1001, 300)
    debug, *others = facts.partitions
    assert (debug.name, debug.default, debug.up, debug.nodes, debug.gres) == ("debug", True, True, 6, ("gpu:h200:2",))
    assert (debug.time_limit_s, debug.cpus_per_node, debug.memory_per_node_bytes) == (3600.0, 4, 4000 * 2**20)
    assert {other.name for other in others} == {"low", "lowest", "high"}


def test_a_script_can_be_submitted_by_hand(slurm: SlurmCluster, tmp_path):
    script = write(tmp_path, "sh", "-c", "echo by hand > done", name="hand")
    done = subprocess.run(
        ["sbatch", "--wait", str(script)], capture_output=True, text=True, env=slurm.environ, timeout=240
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "done").read_text() == "by hand\n"


@pytest.mark.parametrize("by", ["socket", "token"])
def test_slurmrestd_does_the_same_as_the_commands(slurm: SlurmCluster, tmp_path, by):
    url, token = (slurm.rest(), "") if by == "socket" else slurm.rest_by_token()
    rest = Rest(url, token, environ={"PATH": os.environ["PATH"], "OWN": "a b"})
    line = 'echo "$OWN $CUDA_VISIBLE_DEVICES" > out.$SLURM_ARRAY_TASK_ID; exit $SLURM_ARRAY_TASK_ID'
    batch = Batch(partition="debug", gpus="h200:1", memory=100 * 2**20, time=120.0, cpus=1)
    script = write(tmp_path, "/bin/sh", "-c", line, name=NASTY, array="0-2", batch=batch)
    comment = comment_of(f"rest-{by}", "jobs-0")
    number = rest.submit(script, comment=comment)
    later = rest.submit(
        write(tmp_path, "true"), after=(Dependency("afterok", (number,)),), comment=comment_of("rest", "end")
    )
    states = until(rest, [number], lambda found: len(found) == 3 and ended(found))
    assert {key: state.exit_code for key, state in states.items()} == {f"{number}_{index}": index for index in range(3)}
    assert (tmp_path / "out.1").read_text().startswith("a b ")
    assert (tmp_path / "out.1").read_text().split()[2] in ("0", "1")
    one = states[f"{number}_1"]
    assert (one.name, one.comment, one.time_limit_s, one.work_dir) == (NASTY, comment, 120.0, str(tmp_path))
    assert {state.id for state in rest.find(comment)} == {number}
    child = until(rest, [later], ended)[later]
    told = failure_of(child, Batch())
    assert told is not None
    assert told.code == "slurm-dependency"
    waiting = rest.submit(write(tmp_path, "sleep", "600"), comment="x")
    rest.cancel([waiting, number, "999999"])
    assert until(rest, [waiting], ended)[waiting].state == "CANCELLED"
    facts, same = rest.check(), CommandLine().check()
    assert facts.version == same.version
    assert facts.partitions == same.partitions


def test_slurmrestd_with_a_wrong_token_or_none_there_is_a_clear_error(slurm: SlurmCluster, tmp_path):
    url, token = slurm.rest_by_token()
    with pytest.raises(MeasureError) as caught:
        Rest(url, token[:-4] + "AAAA").check()
    assert caught.value.problem.code in ("slurm-token", "slurm-refused")
    assert token[:-4] not in str(caught.value)
    with pytest.raises(MeasureError, match="does not answer") as caught:
        Rest("http://127.0.0.1:1").states(["1"])
    assert caught.value.problem.code == "slurm-silent"
    with pytest.raises(MeasureError, match="slurmrestd refused") as caught:
        Rest(url, token).submit(write(tmp_path, "true", batch=Batch(partition="nope")), comment="x")


def test_a_node_that_dies_takes_its_steps_along(slurm: SlurmCluster, tmp_path):
    scheduler = CommandLine()
    number = scheduler.submit(write(tmp_path, "sleep", "300", batch=Batch(options=("--nodelist=n2",))), comment="x")
    until(scheduler, [number], lambda found: found[number].state == "RUNNING")
    until(scheduler, [number], lambda _: any("sleep" in one.name() for one in slurm.processes()))
    slurm.kill_node("n2")
    assert not [one for one in slurm.processes() if one.name() in ("sleep", "slurmstepd")]
