"""Two measurements at once on one device, with real processes: the second waits for the first, or goes on in doubt."""

import json
import re
import signal
import subprocess
import sys

import pytest
from tests.support.running_server import wait_for

from assay.documents import to_json
from assay.plan.job import Job
from assay.spec.benchmark import Definition

pytestmark = [pytest.mark.live, pytest.mark.skipif(sys.platform == "win32", reason="signals of a POSIX system")]

ASSAY = [sys.executable, "-m", "assay"]
# Says that it runs, and goes on when it may.
PROGRAM = """
import os, sys, time, assay
name = sys.argv[1]
open(f"{name}-started-{os.environ['ASSAY_RUN_ID']}", "w").close()
while not os.path.exists(f"{name}-go"): time.sleep(0.01)
assay.emit({"speed": 7})
"""


@pytest.fixture(autouse=True)
def _own_locks(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_LOCK_FOLDER", str(tmp_path / "locks"))
    monkeypatch.setenv("ASSAY_CONTROL", "off")
    monkeypatch.delenv("ASSAY_LOCK", raising=False)


def definition(name, runs=1):
    target = {"command": [sys.executable, "work.py", name], "metrics": [{"name": "speed", "better": "higher"}]}
    return {"target": target, "measure": {"runs": runs}}


@pytest.fixture
def bench(write):
    """A benchmark file of a program that waits for a word."""

    def make(name, jobs=1):
        write("work.py", PROGRAM)
        document = {"benchmark": name, **definition(name)}
        if jobs > 1:
            document["matrix"] = {"measure.timeout": [600 + index for index in range(jobs)]}
        return write(f"{name}.json", json.dumps(document))

    return make


@pytest.fixture
def start(tmp_path):
    started = []

    def begin(*words):
        process = subprocess.Popen(
            [*ASSAY, *map(str, words)], cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def until(stream, pattern):
    """Read lines until one holds the pattern."""
    for line in stream:
        if found := re.search(pattern, line):
            return found
    raise AssertionError(f"nothing like {pattern!r} was said")


def jobs_of(process):
    out, err = process.communicate(timeout=120)
    assert process.returncode in (0, 1), err
    return json.loads(out)["jobs"]


def check(job, name="device held alone"):
    return next(one for one in job["checks"] if one["name"] == name)


def test_the_second_run_on_a_device_waits_says_for_whom_and_has_its_turn_between_two_jobs(bench, start, tmp_path):
    first = start("run", bench("first", jobs=2), "--format", "json", "--store", tmp_path / "one")
    wait_for((tmp_path / "first-started-0").exists)
    (tmp_path / "second-go").touch()
    second = start("run", bench("second"), "--format", "json", "--store", tmp_path / "two")
    said = until(second.stderr, r"waiting for cpu: held by (\S+) since \d\d:\d\d for first, timeout=600 \(pid (\d+)\)")
    assert int(said[2]) == first.pid
    assert not (tmp_path / "second-started-0").exists()
    (tmp_path / "first-go").touch()
    (waited,) = jobs_of(second)
    alone, later = jobs_of(first)
    lock = waited["environment"]["lock"]
    assert (lock["mode"], lock["devices"], lock["held"]) == ("wait", ["cpu"], True)
    assert lock["waited_s"] > 0
    for job in (alone, waited, later):
        assert job["environment"]["lock"]["held"] is True
        assert check(job)["passed"] is True
        assert "fitness" in job["environment"]["before"]
        assert "fitness" in job["environment"]["after"]
    assert alone["completed_at"] <= waited["started_at"] <= waited["completed_at"] <= later["started_at"]


def test_a_run_that_does_not_wait_is_measured_in_doubt(bench, start, tmp_path):
    first = start("run", bench("first"), "--store", tmp_path / "one")
    wait_for((tmp_path / "first-started-0").exists)
    (tmp_path / "second-go").touch()
    second = bench("second")
    (job,) = jobs_of(start("run", second, "--lock", "try", "--format", "json", "--store", tmp_path / "two"))
    lock = job["environment"]["lock"]
    assert lock["held"] is False
    assert (lock["others"][0]["pid"], lock["others"][0]["purpose"]) == (first.pid, "first")
    assert check(job)["passed"] is False
    assert "for first" in check(job)["detail"]
    assert job["verdict"] == "suspect"
    # Without a lock nothing is claimed, and what this machine cannot take waits for nobody.
    (job,) = jobs_of(start("run", second, "--lock", "off", "--format", "json", "--store", tmp_path / "two"))
    assert check(job)["passed"] is None
    refused = start("run", second, "--set", "needs.memory=900TiB", "--store", tmp_path / "two")
    out, _ = refused.communicate(timeout=120)
    assert refused.returncode == 3
    assert "cannot take the job" in " ".join(out.split())
    assert first.poll() is None  # all were measured beside it


def test_a_quiet_run_says_once_that_it_waits_and_nothing_else(bench, start, tmp_path):
    first = start("run", bench("first"), "--store", tmp_path / "one")
    wait_for((tmp_path / "first-started-0").exists)
    (tmp_path / "second-go").touch()
    second = start("run", bench("second"), "--store", tmp_path / "two", "--quiet")
    until(second.stderr, r"waiting for cpu: held by \S+ since")
    first.send_signal(signal.SIGKILL)
    _, err = second.communicate(timeout=120)
    assert second.returncode == 0
    assert err == ""


def test_who_waits_can_be_interrupted_and_the_end_of_the_first_by_force_frees_the_device(bench, start, tmp_path):
    first = start("run", bench("first"), "--store", tmp_path / "one")
    wait_for((tmp_path / "first-started-0").exists)
    (tmp_path / "second-go").touch()
    words = ("run", bench("second"), "--store", tmp_path / "two", "--format", "json")
    second = start(*words)
    until(second.stderr, "waiting for cpu")
    second.send_signal(signal.SIGINT)
    _, err = second.communicate(timeout=120)
    assert second.returncode == 130
    assert "the same command continues it" in err
    again = start(*words)
    until(again.stderr, "waiting for cpu")
    first.send_signal(signal.SIGKILL)
    (job,) = jobs_of(again)
    assert job["state"] == "done"
    assert job["environment"]["lock"]["held"] is True


def test_a_job_document_waits_too_and_says_so_as_an_event(write, start, tmp_path):
    write("work.py", PROGRAM)
    paths = {}
    for name in ("first", "second"):
        whole = Definition.model_validate_json(json.dumps(definition(name)))
        paths[name] = write(f"{name}.json", to_json(Job(name, name[0] * 64, 0, whole, base=str(tmp_path))))
    first = start("exec", paths["first"], "--out", tmp_path / "one", "--events")
    wait_for((tmp_path / "first-started-0").exists)
    (tmp_path / "second-go").touch()
    second = start("exec", paths["second"], "--out", tmp_path / "two", "--events")
    note = json.loads(until(second.stdout, ".*waiting for cpu.*")[0])
    assert note["event"] == "note"
    assert f"for first (pid {first.pid})" in note["text"]
    (tmp_path / "first-go").touch()
    for process in (first, second):
        process.communicate(timeout=120)
        assert process.returncode == 0
    result = json.loads((tmp_path / "two" / "result.json").read_text())
    assert result["environment"]["lock"]["held"] is True


def test_a_word_that_is_no_mode_is_refused(bench, start):
    process = start("run", bench("first"), "--lock", "never")
    assert process.wait(timeout=120) == 2
