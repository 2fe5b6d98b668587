"""Services that all runs of a job share: one keeper, which ends them even when whoever started it is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from tests.support.running_server import wait_for
from tests.unit.run.services.conftest import LISTEN, await_gone, is_gone

from assay.clock import SYSTEM_CLOCK
from assay.plan.job import Job
from assay.run.execute import execute_job
from assay.run.processes import TAG_VARIABLE
from assay.run.services import held
from assay.spec.benchmark import Definition

pytestmark = pytest.mark.live

HOLD = """
import json, os, sys, time
from pathlib import Path
from assay.run.services import {how}
from assay.spec.benchmark import Service
base = Path(sys.argv[1])
with {how}({{"web": Service(command=(sys.executable, "web.py"))}}, base, base / "scratch") as running:
    keeper = __import__("psutil").Process(running["web"].pid).ppid()
    (base / "pids.part").write_text(json.dumps([running["web"].pid, keeper]))
    (base / "pids.part").rename(base / "pids")
    time.sleep(600)
"""


@pytest.mark.parametrize("how", ["held", "started"])
@pytest.mark.parametrize("which", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_it_ends_when_who_holds_it_is_killed(tmp_path, scratch, how, which):
    (tmp_path / "web.py").write_text(LISTEN + "server.serve_forever()")
    holder = subprocess.Popen([sys.executable, "-c", HOLD.format(how=how), str(tmp_path)], stderr=subprocess.DEVNULL)
    try:
        wait_for((tmp_path / "pids").exists, what="the service")
        service, keeper = json.loads((tmp_path / "pids").read_text())
        assert psutil.pid_exists(service)
        assert psutil.pid_exists(keeper)
    finally:
        holder.send_signal(which)
        holder.wait(120)
    await_gone(service, keeper)


def test_it_has_a_tag_of_its_own(tmp_path, scratch, service, monkeypatch):
    monkeypatch.setenv(TAG_VARIABLE, "of-somebody-else")
    with held({"web": service(LISTEN + "server.serve_forever()")}, tmp_path, scratch) as running:
        pid = running["web"].pid
        assert psutil.Process(pid).environ()[TAG_VARIABLE] != "of-somebody-else"
    assert is_gone(pid)


class Silent:
    """Watches and says nothing."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def phase(self, name: str) -> None: ...
    def progress(self, share: float, note: str) -> None:
        self.notes.append(note)

    def run(self, run_id: int, of: int) -> None: ...
    def log(self, lines) -> None: ...
    def run_done(self, result) -> None: ...


# The command finds the shared service as a target does: by its order.
USE = """
import json, os, urllib.request
from pathlib import Path
order = json.loads((Path(os.environ["ASSAY_EMIT"]).parents[1] / "order.json").read_text())
web = order["services"]["web"]
assert urllib.request.urlopen(web["base_url"]).read() == b"fine"
print("pid:", web["pid"])
"""


def job_with(tmp_path: Path, **service) -> Job:
    definition = Definition.model_validate(
        {
            "services": {"web": {"command": (sys.executable, "web.py"), "fresh": "job", **service}},
            "target": {
                "command": (sys.executable, "use.py"),
                "metrics": ({"name": "pid", "pattern": r"pid: (\d+)"},),
            },
            "measure": {"runs": 2},
        }
    )
    return Job("shared", "0" * 64, 0, definition, base=str(tmp_path))


def test_all_runs_of_a_job_use_the_same_service(tmp_path):
    (tmp_path / "web.py").write_text(LISTEN + "server.serve_forever()")
    from assay.emit import PIPE_VARIABLE

    (tmp_path / "use.py").write_text(USE.replace("ASSAY_EMIT", PIPE_VARIABLE))
    kept = []
    execute_job(job_with(tmp_path), cache=tmp_path, clock=SYSTEM_CLOCK, watch=Silent(), keep=kept.append)
    assert [outcome.result.error for outcome in kept] == [None, None]
    pids = {int(outcome.samples[0].value[0]) for outcome in kept}
    assert len(pids) == 1
    await_gone(*pids)


def test_a_shared_service_that_does_not_start_is_the_result_of_the_job(tmp_path):
    (tmp_path / "web.py").write_text("raise SystemExit('no such model')")
    kept = []
    execute_job(job_with(tmp_path), cache=tmp_path, clock=SYSTEM_CLOCK, watch=Silent(), keep=kept.append)
    (outcome,) = kept
    assert outcome.result.error.code == "service-ended"
    assert "no such model" in outcome.result.error.message


def test_a_killed_keeper_is_reported_and_leaves_nothing(tmp_path, scratch, service):
    with held({"web": service(LISTEN + "server.serve_forever()")}, tmp_path, scratch) as running:
        pid = running["web"].pid
        os.kill(psutil.Process(pid).ppid(), signal.SIGKILL)
    await_gone(pid)
