"""Real child processes: what they measure, and how they fail."""

import json
import os
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from tests.support.running_server import wait_for
from tests.unit.run.children import children

from assay.clock import SYSTEM_CLOCK
from assay.plan.job import Job
from assay.run.execute import execute_job, is_hopeless
from assay.run.records import Failure, SingleRunResult
from assay.run.scratch import scratch_folder, sweep_abandoned
from assay.spec.benchmark import Definition

pytestmark = pytest.mark.live


class Watching:
    def __init__(self):
        self.phases = []
        self.lines = []

    def phase(self, name):
        self.phases.append(name)

    def progress(self, share, note):
        pass

    def run(self, run_id, of):
        pass

    def log(self, lines):
        self.lines.append(list(lines))

    def run_done(self, result):
        pass


def execute(tmp_path, target, watch=None, **sections):
    definition = Definition.model_validate_json(json.dumps({"target": target, "measure": {"runs": 1}, **sections}))
    outcomes = []
    execute_job(
        Job("b", "d", 0, definition, base=str(tmp_path)),
        cache=Path(os.environ["ASSAY_CACHE"]),
        clock=SYSTEM_CLOCK,
        watch=watch or Watching(),
        keep=outcomes.append,
    )
    return outcomes


def shell(command, **more):
    return {"command": command, "shell": True, **more}


WHICH = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text(sys.executable)"


@pytest.mark.parametrize("path", ["/usr/bin:/bin", None])
def test_python_in_a_command_is_the_interpreter_of_assay(tmp_path, monkeypatch, path):
    if path is None:
        monkeypatch.delenv("PATH")
    else:
        monkeypatch.setenv("PATH", path)
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    (outcome,) = execute(tmp_path, {"command": ["python", "-c", WHICH, "which"]})
    assert outcome.result.error is None
    assert Path((tmp_path / "which").read_text()).parent == Path(sys.executable).parent


@pytest.mark.parametrize("name", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_python_in_a_command_is_that_of_an_environment_that_was_activated(tmp_path, monkeypatch, name):
    programs = tmp_path / "project" / "bin"
    programs.mkdir(parents=True)
    python = programs / "python"
    python.write_text(f"#!/bin/sh\nexec \"{sys.executable}\" -c \"open('which', 'w').write('project')\"\n")
    python.chmod(0o755)
    for other in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, str(programs.parent))
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    (outcome,) = execute(tmp_path, {"command": ["python", "-c", WHICH, "which"]})
    assert outcome.result.error is None
    assert (tmp_path / "which").read_text() == "project"


def assert_nothing_left(marker):
    def left():
        for one in psutil.process_iter(["cmdline"]):
            with suppress(psutil.NoSuchProcess):
                own = marker in " ".join(one.info["cmdline"] or []) and one.pid != os.getpid()
                if own and one.status() != psutil.STATUS_ZOMBIE:
                    return True
        return False

    wait_for(lambda: not left(), what=f"the end of {marker}")


def test_a_model_is_measured_in_a_fresh_process(tmp_path, tiny_model):
    watch = Watching()
    short = {"runs": 2, "until": {"samples": 200}}
    outcomes = execute(tmp_path, {"model": tiny_model.name}, watch, measure=short)
    assert [one.result.error for one in outcomes] == [None, None]
    result = outcomes[0].result
    assert watch.phases[:7] == ["prepare", "load", "first", "warmup", "measure", "score", "cleanup"]
    assert result.sample_counts == {"latency_ms": 200}
    assert result.device.used == "cpu"
    assert result.device.nodes["CPUExecutionProvider"] >= 1
    assert {"load_ms", "first_ms", "throughput_per_s", "cpu_pct", "peak_run_rss_mb", "baseline_rss_mb"} <= set(
        result.metrics
    )
    assert result.window.wall_s > 0
    assert result.facts["model"]["file"] == "tiny.onnx"
    assert outcomes[0].result.is_cold_start
    assert not outcomes[1].result.is_cold_start


def test_a_program_prints_and_emits(tmp_path):
    (tmp_path / "job.py").write_text(
        "import assay\nprint('speed: -1.5e3 x')\nprint('speed: nan x')\n"
        "for i in range(3): assay.emit({'loss': i, 'extra': 2})\nprint('{\"printed\": 7}')\n"
    )
    metrics = [{"name": "speed", "pattern": r"speed: (\S+)"}, {"name": "loss"}, {"name": "gone", "pattern": "g (.)"}]
    (outcome,) = execute(tmp_path, {"command": [sys.executable, "job.py"], "metrics": metrics})
    values = {one.metric: one.value.tolist() for one in outcome.samples}
    assert values["loss"] == [0, 1, 2]
    assert values["extra"] == [2, 2, 2]
    assert values["printed"] == [7]
    assert values["speed"][0] == -1500
    assert "nothing in 3 lines" in outcome.result.absent["gone"]
    assert outcome.result.metrics["duration_s"] > 0
    assert outcome.result.metrics["cpu_s"] > 0


def test_a_metric_after_more_output_than_is_kept_is_found_and_what_was_dropped_is_said(tmp_path):
    flood = 70 * 2**20
    command = shell(
        f"echo first: 1; yes | head -c {flood}; echo; echo last: 2",
        metrics=[{"name": name, "pattern": rf"{name}: (\d+)"} for name in ("first", "last")],
    )
    (outcome,) = execute(tmp_path, command)
    assert {one.metric: one.value.tolist() for one in outcome.samples} == {"first": [1], "last": [2]}
    assert not {"first", "last"} & set(outcome.result.absent)
    assert outcome.result.facts["output_bytes_dropped"] >= flood - 64 * 2**20


def test_the_last_lines_of_a_program_that_is_ended_are_its_last_lines_however_much_it_wrote(tmp_path):
    command = shell(f"yes | head -c {40 * 2**20}; echo; echo last words; sleep 600")
    watch = Watching()
    (outcome,) = execute(tmp_path, command, watch, measure={"runs": 1, "timeout": "10s"})
    assert outcome.result.error.code == "timeout"
    assert outcome.result.error.log_tail[-1] == "last words"


def test_a_line_that_nests_without_end_is_ordinary_output(tmp_path):
    (tmp_path / "job.py").write_text("print('{\"a\":' * 200_000)\nprint('speed: 7')\n")
    metrics = [{"name": "speed", "pattern": r"speed: (\d+)"}]
    (outcome,) = execute(tmp_path, {"command": [sys.executable, "job.py"], "metrics": metrics})
    assert outcome.result.error is None
    assert {one.metric: one.value.tolist() for one in outcome.samples} == {"speed": [7]}


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("import assay; assay.emit({f'm{i}': i for i in range(220_000)})", "too-many-metrics", "220,000 metrics"),
        ("for i in range(5000): print(f'step {i}'); print('speed: 7')", "too-many-metrics", "5,000 metrics"),
        ("print('speed: 1\\n' * 1_100_000)", "too-many-values", "more than 1,000,000 values"),
        ("print('{\"loss\": 1}\\n' * 1_100_000)", "too-many-values", "more than 1,000,000 values"),
    ],
    ids=["emitted", "by-context", "printed", "printed-lines"],
)
def test_a_program_that_reports_without_bound_fails_with_the_reason_and_is_not_tried_again(tmp_path, text, code, said):
    (tmp_path / "job.py").write_text(text)
    metrics = [{"name": "speed", "pattern": r"speed: (\d+)", "context": {"step": r"step (\d+)"}}]
    command = {"command": [sys.executable, "job.py"], "metrics": metrics}
    (outcome,) = execute(tmp_path, command, measure={"runs": 3})
    assert outcome.result.error.code == code
    assert said in outcome.result.error.message


def test_a_program_that_uses_memory_is_charged_for_it(tmp_path):
    code = "x = bytearray(200_000_000); x[::4096] = b'1' * len(x[::4096])"
    (outcome,) = execute(tmp_path, {"command": [sys.executable, "-c", code]})
    assert 200 < outcome.result.metrics["peak_run_rss_mb"] < 300


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("echo last words; exit 7", "command", "code 7"),
        ("kill -SEGV $$", "command", "signal 11"),
        ("no-such-command-here", "command", "127"),
    ],
)
def test_a_failing_command_says_how_and_keeps_its_last_words(tmp_path, command, code, words):
    (outcome,) = execute(tmp_path, shell(command))
    assert outcome.result.error.code == code
    assert words in outcome.result.error.message
    if "echo" in command:
        assert "last words" in outcome.result.error.log_tail
    assert not outcome.result.metrics


def test_a_command_that_does_not_exist(tmp_path):
    (outcome,) = execute(tmp_path, {"command": "no-such-program --x"})
    assert "no-such-program" in outcome.result.error.message
    assert outcome.result.error.try_


def test_a_hanging_command_is_ended_with_its_whole_tree(tmp_path):
    marker = f"9{os.getpid()}1"
    command = f"setsid sleep {marker} & sleep {marker} & sleep {marker}"
    (outcome,) = execute(tmp_path, shell(command), measure={"runs": 1, "timeout": "8s"})
    assert outcome.result.error.code == "timeout"
    assert outcome.result.error.phase == "measure"
    assert outcome.result.error.memory_mb > 0
    assert_nothing_left(f"sleep {marker}")


# A daemon as they are written: a session of its own, no parent, nothing open, and an environment without a mark.
DAEMON = """
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in range(3): os.dup2(null, fd)
    os.write(int(sys.argv[2]), b"x")
    os.execve("/bin/sleep", ["sleep", sys.argv[1]], {})
"""


def daemon(tmp_path, marker, then):
    """A command that leaves a daemon, once that one runs by itself, and does something more."""
    (tmp_path / "daemon.py").write_text(DAEMON)
    fifo = tmp_path / "begun"
    os.mkfifo(fifo)
    python = f"{sys.executable} daemon.py {marker} 9 9<>begun"
    return shell(f"{python}; head -c 1 begun >/dev/null; {then}")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems give an orphan to their first process")
@pytest.mark.parametrize(
    ("then", "code", "left"),
    [("echo done", None, 1), ("exit 3", "command", None), ("sleep 600", "timeout", None)],
    ids=["good", "failed", "ended"],
)
def test_a_daemon_without_a_mark_is_ended_with_its_run(tmp_path, then, code, left):
    marker = f"9{os.getpid()}7"
    timeout = "8s" if code == "timeout" else "2m"
    (outcome,) = execute(tmp_path, daemon(tmp_path, marker, then), measure={"runs": 1, "timeout": timeout})
    try:
        assert (outcome.result.error.code if outcome.result.error else None) == code, outcome.result.error
        assert outcome.result.facts.get("processes_left_behind") == left
        assert_nothing_left(f"sleep {marker}")
    finally:
        for one in psutil.process_iter(["cmdline"]):
            if one.info["cmdline"] == ["sleep", marker]:
                one.kill()


def test_what_a_command_leaves_behind_is_ended(tmp_path):
    marker = f"9{os.getpid()}2"
    (outcome,) = execute(tmp_path, shell(f"setsid nohup sleep {marker} >/dev/null 2>&1 & echo done"))
    assert outcome.result.error is None
    assert outcome.result.facts["processes_left_behind"] == 1
    assert_nothing_left(f"sleep {marker}")


def test_endless_output_does_not_fill_the_disk(tmp_path, monkeypatch):
    (outcome,) = execute(
        tmp_path, shell("yes | head -c 100000000; echo speed 3", metrics=[{"name": "s", "pattern": "speed (.)"}])
    )
    assert outcome.result.error is None
    assert outcome.result.facts["output_bytes_dropped"] > 30_000_000


def test_a_run_killed_from_outside_leaves_evidence_and_the_others_go_on(tmp_path, tiny_model):
    killed = threading.Event()

    class Killer(Watching):
        def phase(self, name):
            if name == "measure" and not killed.is_set():
                killed.set()
                (child,) = children("assay.exec.child")
                child.send_signal(signal.SIGKILL)

    measure = {"runs": 3, "until": {"at_least": "300ms", "at_most": "400ms"}}
    first, *others = execute(tmp_path, {"model": tiny_model.name}, Killer(), measure=measure)
    assert first.result.error.signal == "SIGKILL"
    assert first.result.error.phase == "measure"
    assert first.result.error.memory_mb > 10
    assert [one.result.error for one in others] == [None, None]


def test_a_segfault_of_the_runtime_is_a_failed_run(tmp_path, tiny_model, monkeypatch):
    # The target of a third party that crashes in native code.
    (tmp_path / "crashing.py").write_text("import ctypes\ndef measure(order, stage, rules):\n    ctypes.string_at(0)\n")
    info = tmp_path / "crashing-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: crashing\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[assay.targets]\ncrash = crashing:measure\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (outcome,) = execute(tmp_path, {"model": tiny_model.name, "runtime": "crash"})
    assert outcome.result.error.code == "crashed"
    assert outcome.result.error.signal == "SIGSEGV"
    assert any("Segmentation fault" in line for line in outcome.result.error.log_tail)


def test_an_unknown_runtime_lists_the_known_ones(tmp_path, tiny_model):
    (outcome,) = execute(tmp_path, {"model": tiny_model.name, "runtime": "abacus"})
    assert outcome.result.error.code == "target"
    assert "onnxruntime" in outcome.result.error.try_


def test_a_model_that_wants_too_much_memory(tmp_path):
    from onnx import TensorProto, helper, save

    shape = helper.make_tensor("shape", TensorProto.INT64, [1], [1 << 36])
    node = helper.make_node("ConstantOfShape", ["shape"], ["big"])
    total = helper.make_node("ReduceSum", ["big"], ["y"])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    out = helper.make_node("Add", ["x", "y"], ["z"])
    z = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
    graph = helper.make_graph([node, total, out], "big", [x], [z], [shape])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "big.onnx")
    (outcome,) = execute(tmp_path, {"model": "big.onnx"}, measure={"runs": 1, "memory_limit": "8GiB"})
    assert outcome.result.error.code in ("out-of-memory", "model")
    assert "memory" in outcome.result.error.message.lower() or "alloc" in outcome.result.error.message.lower()


@pytest.mark.parametrize("kept", ["exec", ""], ids=["the command", "a child of its shell"])
def test_a_command_that_the_kernel_kills_for_memory(tmp_path, kept):
    group = Path(f"/sys/fs/cgroup/memory/assay-test-{os.getpid()}")
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text("300M")
    except OSError:
        pytest.skip("a memory limit of its own needs root and version 1 of cgroups")
    eats = f"{sys.executable} -c 'x = [bytearray(10**7) for _ in range(10**4)]'"
    hungry = f"echo $$ > {group}/cgroup.procs; {kept} {eats}; exit 1"
    try:
        (outcome,) = execute(tmp_path, shell(hungry))
    finally:
        group.rmdir()
    assert outcome.result.error.code == "out-of-memory"
    assert "killed it for memory" in outcome.result.error.message


def test_a_certain_failure_is_not_repeated(tmp_path):
    outcomes = execute(tmp_path, {"model": "missing.onnx"}, measure={"runs": 5})
    assert len(outcomes) == 1
    assert outcomes[0].result.error.phase == "prepare"


def test_a_secret_never_reaches_the_record(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_SECRET", "hush-hush-123")
    watch = Watching()
    (outcome,) = execute(tmp_path, shell("echo key is $KEY; exit 1", env={"KEY": "${env:MY_SECRET}"}), watch)
    assert "hush-hush" not in str(outcome.result)
    assert "key is ***" in outcome.result.error.log_tail
    assert "hush-hush" not in str(watch.lines)
    assert "key is ***" in watch.lines[0]


def test_who_watches_is_given_the_last_lines_of_a_good_run_too(tmp_path):
    watch = Watching()
    (outcome,) = execute(tmp_path, shell("seq 1000"), watch)
    assert outcome.result.error is None
    assert watch.lines == [[str(number) for number in range(961, 1001)]]


def test_scratch_folders_of_dead_processes_are_swept(tmp_path, monkeypatch):
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "assay-run-999999-1-abc").mkdir()
    with scratch_folder() as mine:
        assert sweep_abandoned() == 1
        assert mine.exists()
    assert list(tmp_path.iterdir()) == []


def run_with(code):
    error = Failure(code, "x") if code else None
    return SingleRunResult(0, True, "", "", 0.0, error=error)


@pytest.mark.parametrize(
    ("codes", "hopeless"),
    [
        ([], False),
        (["device"], True),
        (["crashed"], False),
        (["crashed", "timeout"], True),
        ([None, "crashed", "crashed"], False),
    ],
)
def test_when_more_runs_would_not_help(codes, hopeless):
    assert is_hopeless([run_with(code) for code in codes]) is hopeless
