"""`assay exec` as an agent uses it: events, interruption, a lost reader, and going on where it stopped."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from tests.support.running_server import PATIENCE_S, wait_for

from assay.documents import from_json, to_json
from assay.errors import StoreError
from assay.exec.document import execute_document
from assay.plan.job import Job
from assay.report.live import SilentView
from assay.spec.benchmark import Definition

pytestmark = pytest.mark.live

ASSAY = [sys.executable, "-m", "assay"]


@pytest.fixture(autouse=True)
def _own_temporary_folder(tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))


# Each start of the program leaves a line; it goes on when the file `go`, or one with its run's number, is there.
PROGRAM = """
import os, sys, time, assay
with open("started", "a") as file: file.write(os.environ["ASSAY_RUN_ID"] + "\\n")
print("hello from", os.environ["ASSAY_RUN_ID"])
while not (os.path.exists("go") or os.path.exists("go" + os.environ["ASSAY_RUN_ID"])): time.sleep(0.01)
assay.emit({"speed": 7})
with open("finished", "a") as file: file.write(os.environ["ASSAY_RUN_ID"] + "\\n")
"""


def job_file(folder, *, runs=3, digest="d" * 64, go=True, **more):
    (folder / "job.py").write_text(PROGRAM)
    if go:
        (folder / "go").touch()
    command = {"target": {"command": [sys.executable, "job.py"], "metrics": [{"name": "speed"}]}}
    definition = Definition.model_validate_json(json.dumps({**command, "measure": {"runs": runs}, **more}))
    path = folder / "job.json"
    path.write_text(to_json(Job("b", digest, 0, definition, base=str(folder), campaign="c")))
    return path


def lines(path):
    return path.read_text().split() if path.exists() else []


def command(job, out, *options):
    return [*ASSAY, "exec", str(job), "--out", str(out), "--events", *options]


def start(job, out, **how):
    return subprocess.Popen(command(job, out), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how)


def execute(job, out, *options):
    done = subprocess.run(command(job, out, *options), capture_output=True, text=True)
    return done, [json.loads(line) for line in done.stdout.splitlines()]


def tree(pid):
    return psutil.Process(pid).children(recursive=True)


def gone(processes):
    return not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in processes)


def test_events_report_the_whole_story_and_nothing_else_is_printed(tmp_path):
    out = tmp_path / "out"
    done, events = execute(job_file(tmp_path, runs=2), out)
    assert (done.returncode, done.stderr) == (0, "")
    assert [event["event"] for event in events if event["event"] not in ("phase", "progress")] == [
        "job",
        "run",
        "log",
        "run_done",
        "run",
        "log",
        "run_done",
        "result",
    ]
    assert events[0] == {"event": "job", "job": "c-job-0", "label": events[0]["label"], "index": 0, "of": 1}
    assert {"event": "run", "run": 1, "of": 2} in events
    assert {"event": "phase", "name": "measure"} in events
    assert {"event": "log", "lines": ["hello from 1"]} in events
    told = [event for event in events if event["event"] == "run_done"]
    assert [(one["run"], one["ok"], one["sentence"][:5]) for one in told] == [(0, True, "ok in"), (1, True, "ok in")]
    result = json.loads((out / "result.json").read_text())
    assert events[-1] == {
        "event": "result",
        "path": str(out / "result.json"),
        "state": "done",
        "verdict": result["verdict"],
    }
    assert [run["run_id"] for run in result["runs"]] == [0, 1]


def test_a_failed_job_and_a_wrong_document_are_reported_too(tmp_path):
    job = job_file(tmp_path, runs=1, needs={"cpus": 100_000})
    done, events = execute(job, tmp_path / "out")
    assert done.returncode == 3
    assert (events[-1]["event"], events[-1]["state"]) == ("result", "failed")
    job.write_text("{}")
    done, events = execute(job, tmp_path / "out")
    assert done.returncode == 2
    assert [(event["event"], event["code"]) for event in events] == [("error", "document")]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_an_ended_attempt_leaves_no_process_and_the_next_one_continues(tmp_path, how):
    job, out = job_file(tmp_path, go=False), tmp_path / "out"
    first = start(job, out, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    (tmp_path / "go0").touch()
    wait_for(lambda: lines(tmp_path / "started") == ["0", "1"])
    below = tree(first.pid)
    assert len(below) >= 2
    first.send_signal(how)
    first.communicate(timeout=PATIENCE_S)
    assert first.returncode == (-9 if how == signal.SIGKILL else 130)
    wait_for(lambda: gone(below))
    assert not (out / "result.json").exists()
    assert lines(tmp_path / "finished") == ["0"]
    (tmp_path / "go").touch()
    done, events = execute(job, out)
    assert done.returncode == 0, done.stderr
    assert any(event["event"] == "note" and "resumed" in event["text"] for event in events)
    assert lines(tmp_path / "finished") == ["0", "1", "2"]
    result = json.loads((out / "result.json").read_text())
    assert [run["run_id"] for run in result["runs"]] == [0, 1, 2]
    assert result["metrics"]["speed"]["count"] == 3
    wait_for(lambda: not list(Path(os.environ["TMPDIR"]).iterdir()))


def test_a_reader_that_goes_away_does_not_stop_the_measurement(tmp_path):
    job, out = job_file(tmp_path, go=False), tmp_path / "out"
    process = start(job, out)
    wait_for(lambda: lines(tmp_path / "started"))
    process.stdout.close()
    process.stderr.close()
    (tmp_path / "go").touch()
    assert process.wait(PATIENCE_S) == 0
    assert json.loads((out / "result.json").read_text())["successful_runs"] == 3


def test_a_second_process_waits_for_the_first_and_takes_its_result(tmp_path):
    job, out = job_file(tmp_path, go=False), tmp_path / "out"
    first = start(job, out)
    wait_for(lambda: lines(tmp_path / "started"))
    second = start(job, out)
    assert "another process measures" in json.loads(second.stdout.readline())["text"]
    (tmp_path / "go").touch()
    told = [json.loads(line) for line in second.communicate(timeout=PATIENCE_S)[0].splitlines()]
    first.communicate(timeout=PATIENCE_S)
    assert (first.returncode, second.returncode) == (0, 0)
    assert [event["event"] for event in told] == ["note", "result"]
    assert lines(tmp_path / "finished") == ["0", "1", "2"]


def test_runs_of_another_job_are_never_kept(tmp_path):
    out = tmp_path / "out"
    execute_document(job_file(tmp_path, runs=2), out, SilentView())
    other = job_file(tmp_path, runs=2, digest="e" * 64)
    (out / "result.json").write_text("what another job left")
    result = execute_document(other, out, SilentView())
    assert lines(tmp_path / "finished") == ["0", "1"] * 2
    assert (result.digest, len(result.runs)) == ("e" * 64, 2)
    assert json.loads((out / "result.json").read_text())["digest"] == "e" * 64


def test_a_finished_job_is_not_measured_again_unless_asked(tmp_path):
    job, out = job_file(tmp_path, runs=1), tmp_path / "out"
    execute_document(job, out, SilentView())
    before = (out / "result.json").read_bytes()
    execute_document(job, out, SilentView())
    assert (out / "result.json").read_bytes() == before
    assert lines(tmp_path / "finished") == ["0"]
    execute_document(job, out, SilentView(), fresh=True)
    assert lines(tmp_path / "finished") == ["0", "0"]


@pytest.mark.parametrize("damage", ["record", "samples"])
def test_a_damaged_run_is_measured_again(tmp_path, damage):
    job, out = job_file(tmp_path, runs=2), tmp_path / "out"
    execute_document(job, out, SilentView())
    (out / "result.json").unlink()
    if damage == "record":
        (out / "runs" / "1.json").write_text("{")
    else:
        digest = json.loads((out / "runs" / "1.json").read_text())["samples"]
        (out / "samples" / digest[:2] / f"{digest}.parquet").write_bytes(b"")
    result = execute_document(job, out, SilentView())
    assert lines(tmp_path / "finished") == ["0", "1", "1"]
    assert result.successful_runs == 2


def test_who_may_take_a_job_was_settled_before_it_came_here(tmp_path):
    job = job_file(tmp_path, runs=1, needs={"agent": "bench-03", "labels": {"room": "cold"}})
    assert execute_document(job, tmp_path / "out", SilentView()).state == "done"


def test_a_folder_that_cannot_be_used_is_reported(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(StoreError) as caught:
        execute_document(job_file(tmp_path), tmp_path / "file" / "out", SilentView())
    assert caught.value.problem.code == "disk"
    assert not lines(tmp_path / "started")


def test_a_job_whose_index_changed_is_another_one(tmp_path):
    """Two equal jobs of one campaign are two jobs, even in one folder."""
    job, out = job_file(tmp_path, runs=1), tmp_path / "out"
    execute_document(job, out, SilentView())
    twin = replace(from_json(Job, job.read_bytes(), source="job"), index=1)
    job.write_text(to_json(twin))
    assert execute_document(job, out, SilentView()).job == "c-job-1"
    assert lines(tmp_path / "finished") == ["0", "0"]
