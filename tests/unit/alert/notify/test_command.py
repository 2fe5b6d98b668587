"""A program of one's own: JSON on its input, a deadline, no shell, and no secrets that it does not need."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import psutil
import pytest
from tests.support.running_server import wait_for
from tests.unit.alert.notify.samples import message

from assay.alert.notify.command import Command
from assay.alert.notify.protocol import REPAIR_S, NotifyError


def program(write, code, **more):
    script = write("program.py", code)
    return Command(kind="command", command=(sys.executable, str(script), *more.pop("arguments", ())), **more)


def failure(one):
    with pytest.raises(NotifyError) as caught:
        one.send(message())
    return caught.value


def is_over(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_it_gets_the_document_and_as_little_of_the_environment_as_it_needs(write, tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_SERVER_TOKEN", "s3cret")
    monkeypatch.setenv("PAGER_KEY", "k3y")
    code = (
        "import json, os, sys\n"
        "json.dump([json.load(sys.stdin), sys.argv[2:], dict(os.environ), os.getcwd()],\n"
        "          open(sys.argv[1], 'w'))"
    )
    out = tmp_path / "out.json"
    program(write, code, arguments=(str(out), "a b", "$HOME", "; touch x"), env={"KEY": "${env:PAGER_KEY}"}).send(
        message()
    )
    document, arguments, environment, folder = json.loads(out.read_text())
    assert (document["event"], document["key"]) == ("opened", message().key)
    assert document["alert"]["title"] == message().alert.title
    assert arguments == ["a b", "$HOME", "; touch x"]
    assert environment["KEY"] == "k3y"
    assert (environment["ASSAY_KEY"], environment["ASSAY_EVENT"]) == (message().key, "opened")
    assert environment["PATH"] == os.environ["PATH"]
    assert not {"ASSAY_SERVER_TOKEN", "PAGER_KEY"} & set(environment)
    assert folder == "/"


def test_a_program_that_reads_nothing_is_fine(write):
    program(write, "pass").send(message())


def test_its_exit_code_and_last_words_are_reported(write):
    failed = failure(program(write, "import sys\nprint('x' * 100000)\nprint('the pager is off')\nsys.exit(3)"))
    assert failed.retry
    assert failed.problem.message.startswith(f"{os.path.basename(sys.executable)} ended with 3: ")  # noqa: PTH119
    assert failed.problem.message.endswith("the pager is off")
    assert len(failed.problem.message) < 400


def test_it_can_say_that_it_will_never_take_it(write):
    assert not failure(program(write, "import sys; sys.exit(65)")).retry


def test_after_its_deadline_it_is_ended_with_all_that_it_started(write, tmp_path, monkeypatch):
    mark = tmp_path / "child.pid"

    class Started(subprocess.Popen):
        """Its time runs from when it has said and started everything, however slow the machine is."""

        def communicate(self, *arguments, **more):
            wait_for(mark.exists, what="the child")
            return super().communicate(*arguments, **more)

    monkeypatch.setattr(subprocess, "Popen", Started)
    code = (
        "import os, subprocess, sys, time\nprint('working', flush=True)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)\n"
        f"open('{mark}.part', 'w').write(str(child.pid))\n"
        f"os.rename('{mark}.part', '{mark}')\ntime.sleep(600)"
    )
    began = time.monotonic()
    failed = failure(program(write, code, timeout=0.5))
    assert time.monotonic() - began < 120
    assert (failed.retry, failed.problem.code) == (True, "timeout")
    assert "working" in failed.problem.message
    child = int(mark.read_text())
    wait_for(lambda: is_over(child), what="the child's end")


def test_a_program_that_is_not_there_is_for_another_to_repair():
    failed = failure(Command(kind="command", command=("/no/such/program",)))
    assert (failed.retry, failed.after_s) == (True, REPAIR_S)
    assert "program cannot be started: No such file" in failed.problem.message
