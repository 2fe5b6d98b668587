"""A service held on a node: published when ready and warm, and gone however its process ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from tests.live.slurm_node.conftest import SIM, definition
from tests.support.running_server import PATIENCE_S, wait_for
from tests.unit.run.services.conftest import LISTEN, await_gone

from assay.engines.slurm.node.end import request_end

pytestmark = [pytest.mark.live, pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")]

# A service with a child that will not be asked and a daemon that has left its group: both must end with it.
FAMILY = (
    """
import os, signal, subprocess, sys, time
deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", deaf])
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open("daemon", "w").write(str(os.getpid())); time.sleep(600)
    os._exit(0)
os.wait()
while not os.path.exists("daemon") or not open("daemon").read(): time.sleep(0.01)
open("child", "w").write(str(child.pid))
open("own", "w").write(str(os.getpid()))
"""
    + LISTEN
    + "server.serve_forever()"
)


def family(tmp_path: Path, script: str = FAMILY, **keys):
    (tmp_path / "family.py").write_text(script)
    service = {"command": f"{sys.executable} family.py", "ready": {"http": "/", "within": 120.0}, **keys}
    target = {"service": "web", "api": "http", "path": "/"}
    return definition(services={"web": service}, target=target, workload={"output_tokens": None})


def pids(tmp_path: Path) -> list[int]:
    return [int((tmp_path / name).read_text()) for name in ("own", "child", "daemon")]


def test_it_is_published_when_it_is_ready_and_its_model_is_warm(campaign, tmp_path):
    target = {"service": "llm", "api": "openai-chat", "model": "sim", "metrics": "/metrics"}
    here = campaign(definition(target=target))
    process = here.start("service", "llm")
    told = here.service()
    port = told["port"]
    assert (told["host"], told["base_url"], told["node"], told["slurm_job"]) == (
        "127.0.0.1",
        f"http://127.0.0.1:{port}",
        "n1",
        "77",
    )
    assert told["metrics"] == f"http://127.0.0.1:{port}/metrics"
    assert told["facts"]["warm"] == "POST /v1/chat/completions"
    assert float(told["facts"]["warm_s"]) > 0
    assert told["start_to_ready_s"] > 0
    with urllib.request.urlopen(f"{told['base_url']}/sim/state", timeout=PATIENCE_S) as answer:
        assert json.load(answer)["records"] == 1, "one small request has loaded the model"
    request_end(here.folder, here.group)
    assert process.wait(PATIENCE_S) == 0
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(told["base_url"], timeout=PATIENCE_S)
    assert not here.folder.failed_service(here.group, "llm").exists()
    assert Path(told["stdout"]) == here.folder.service_log(here.group, "llm", "out")
    assert Path(told["stderr"]).exists()


@pytest.mark.parametrize("how", ["stop", "SIGTERM", "SIGKILL", "all", "parent"])
def test_everything_it_started_ends_however_it_ends(campaign, tmp_path, how):
    """By the file, by scancel, killed alone, with every process of the job signalled, or by the loss of its parent."""
    here = campaign(family(tmp_path))
    if how == "parent":
        shell = f"{sys.executable} -m assay.engines.slurm.node.service {here.folder.path} {here.group} web & wait"
        process = subprocess.Popen(["/bin/sh", "-c", shell], env=here.environ)
        here.processes.append(process)
    else:
        process = here.start("service", "web")
    here.service("web")
    started = pids(tmp_path)
    tree = [one.pid for one in psutil.Process(process.pid).children(recursive=True)]
    assert set(started) <= {*tree, *started}
    if how == "stop":
        request_end(here.folder, here.group)
    elif how == "all":
        for pid in {process.pid, *tree, *started}:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
    else:
        process.send_signal(signal.SIGKILL if how in ("SIGKILL", "parent") else signal.SIGTERM)
    code = process.wait(PATIENCE_S)
    await_gone(*tree, *started)
    if how == "stop":
        assert code == 0
    elif how in ("SIGTERM", "all"):
        assert code == 143
        assert "SIGTERM: cancelled, preempted or out of time" in here.failure("web")["message"]
    elif how == "parent":
        wait_for(lambda: "parent process is gone" in here.failure("web")["message"], what="the word of its end")


def test_it_is_ended_while_it_still_starts(campaign, tmp_path):
    never = FAMILY.replace("server.serve_forever()", "time.sleep(600)")
    here = campaign(family(tmp_path, never, ready={"http": "/", "within": 300.0}))
    process = here.start("service", "web")
    wait_for((tmp_path / "own").exists, what="the service")
    request_end(here.folder, here.group)
    assert process.wait(PATIENCE_S) == 0
    await_gone(*pids(tmp_path))
    assert not here.folder.service(here.group, "web").exists()


def test_one_that_fails_says_why_and_nobody_waits(campaign, tmp_path):
    here = campaign(family(tmp_path, "import sys; sys.exit('no model at all')"))
    assert here.start("service", "web").wait(PATIENCE_S) == 1
    told = here.failure("web")
    assert told["code"] == "service-ended"
    assert "no model at all" in told["message"]


def test_one_that_dies_while_it_is_used_says_so(campaign, tmp_path):
    script = LISTEN + "open('own', 'w').write(str(os.getpid()))\nserver.serve_forever()"
    here = campaign(family(tmp_path, script))
    process = here.start("service", "web")
    here.service("web")
    os.kill(int((tmp_path / "own").read_text()), signal.SIGKILL)
    assert process.wait(PATIENCE_S) == 1
    assert "killed by signal 9" in here.failure("web")["message"]
    assert json.loads(here.folder.service_log(here.group, "web", "exit").read_text())["code"] == -9


def test_a_group_that_has_ended_starts_nothing_more(campaign, tmp_path):
    here = campaign(family(tmp_path))
    request_end(here.folder, here.group)
    assert here.start("service", "web").wait(PATIENCE_S) == 0
    assert not (tmp_path / "own").exists()


def test_a_service_learns_where_another_one_is(campaign, tmp_path):
    front = {"command": f"{sys.executable} front.py {{host:llm}} {{port:llm}}", "ready": {"http": "/", "within": 120.0}}
    (tmp_path / "front.py").write_text(
        "import sys; open('told', 'w').write(' '.join(sys.argv[1:]))\n" + LISTEN + "server.serve_forever()"
    )
    back = {"command": SIM, "ready": {"http": "/health", "within": 120.0}}
    here = campaign(definition(services={"llm": back, "front": front}))
    one = here.start("service", "front")
    other = here.start("service", "llm")
    here.service("front")
    assert (tmp_path / "told").read_text() == f"127.0.0.1 {here.service()['port']}"
    request_end(here.folder, here.group)
    assert [one.wait(PATIENCE_S), other.wait(PATIENCE_S)] == [0, 0]
