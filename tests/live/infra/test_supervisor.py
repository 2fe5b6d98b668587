"""The supervisor with small real processes: order, restarts, give-up, and an end that leaves nobody."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from time import monotonic, sleep

import psutil
import pytest

pytestmark = pytest.mark.live

PATIENCE_S = 120.0
# Runs a supervisor over parts that are plain programs; a part works once it has written its file.
HOST = """
import json, os, signal, sys
from pathlib import Path
from assay.infra.processes import supervisor
from assay.infra.processes.parts import SystemPart
from assay.run.processes import adopt_orphans
from assay.infra.processes.supervisor import Supervisor

folder = Path(sys.argv[1])
parts = tuple(
    SystemPart(one["name"], (sys.executable, "-c", one["code"]), {"FOLDER": str(folder)}, inherits=True, cwd=folder,
               once=one.get("once", False), grace_s=one.get("grace_s", 5.0))
    for one in json.loads(sys.argv[2])
)
adopt_orphans()
supervisor.FIRST_WAIT_S = 0.02
ask = lambda part: None if (folder / part).exists() else "no file yet"
Supervisor(folder, parts, ask, os.environ, seldom_s=0.3).run()
"""
STAYS = "import os, time, pathlib; pathlib.Path(os.environ['FOLDER'], {name!r}).write_text('x'); time.sleep(600)"


class World:
    def __init__(self, folder: Path, parts: list[dict]) -> None:
        self.folder = folder
        (folder / "logs").mkdir()
        with (folder / "out.log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", HOST, str(folder), json.dumps(parts)], stdout=log, stderr=log
            )

    def parts(self) -> dict[str, dict]:
        path = self.folder / "status.json"
        return {one["name"]: one for one in json.loads(path.read_text())["parts"]} if path.exists() else {}

    def state(self, part: str) -> str:
        return self.parts().get(part, {}).get("state", "")

    def log(self) -> str:
        return (self.folder / "out.log").read_text()


@pytest.fixture
def world(tmp_path):
    made: list[World] = []

    def start(*parts: dict) -> World:
        made.append(World(tmp_path, list(parts)))
        return made[-1]

    yield start
    for one in made:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()


def until(condition, what: str):
    end = monotonic() + PATIENCE_S
    while not (found := condition()):
        assert monotonic() < end, f"in vain: {what}"
        sleep(0.02)
    return found


def stays(name: str) -> dict:
    return {"name": name, "code": STAYS.format(name=name)}


def test_each_part_waits_for_the_one_before_and_a_step_must_end_well(world, tmp_path):
    slow = {"name": "first", "code": "import time; time.sleep(0.5); " + STAYS.format(name="first")}
    step = {
        "name": "step",
        "code": "import os, pathlib; p = pathlib.Path(os.environ['FOLDER'], 'tries');"
        "n = len(p.read_text()) if p.exists() else 0; p.write_text('x' * (n + 1)); raise SystemExit(n == 0)",
        "once": True,
    }
    one = world(slow, step, stays("last"))
    until(lambda: one.state("last") == "healthy", "the last is healthy")
    assert [one.state(name) for name in ("first", "step")] == ["healthy", "done"]
    said = [line.split(" ", 2)[2] for line in one.log().splitlines()]
    order = [
        "first started",
        "first is healthy",
        "step started",
        "step ended with code 1",
        "step started",
        "step ended with code 0",
        "last started",
        "last is healthy",
    ]
    places = []
    for beginning in order:
        places.append(next(p for p, line in enumerate(said) if line.startswith(beginning) and p not in places))
    assert places == sorted(places), one.log()


def test_a_part_that_never_works_is_given_up_and_the_others_are_not_started(world):
    one = world({"name": "bad", "code": "raise SystemExit('no disk')"}, stays("after"))
    until(lambda: one.state("bad") == "failed", "it is given up")
    assert "5 times in a row" in one.parts()["bad"]["detail"]
    assert one.state("after") == "waiting"
    assert (one.folder / "logs" / "bad.log").read_text().count("no disk") == 5
    assert one.process.poll() is None, "it stays, to tell"


def test_a_program_that_is_not_there_is_given_up_too(tmp_path, world, monkeypatch):
    code = HOST.replace("(sys.executable,", '("/no/such/program",')
    monkeypatch.setattr(sys.modules[__name__], "HOST", code)
    one = world(stays("gone"))
    until(lambda: one.state("gone") == "failed", "it is given up")
    assert "cannot be started" in one.parts()["gone"]["detail"]
    assert "No such file" in one.log()


def test_asked_to_end_it_ends_children_of_children_too_and_even_those_that_do_not_listen(world):
    deaf = textwrap.dedent("""
        import os, pathlib, signal, subprocess, sys, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        folder = pathlib.Path(os.environ["FOLDER"])
        (folder / "child").write_text(str(child.pid))
        (folder / "deaf").write_text("x")
        time.sleep(600)
    """)
    one = world({"name": "deaf", "code": deaf, "grace_s": 0.5})
    until(lambda: one.state("deaf") == "healthy", "it is healthy")
    child = psutil.Process(int((one.folder / "child").read_text()))
    pid = one.parts()["deaf"]["pid"]
    one.process.send_signal(signal.SIGTERM)
    assert one.process.wait(PATIENCE_S) == 0, one.log()
    until(lambda: not psutil.pid_exists(pid), "it is gone")
    until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, "its child is gone")
    assert one.state("deaf") == "stopped"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ties processes")
def test_killed_it_takes_its_parts_along(world):
    one = world(stays("first"))
    until(lambda: one.state("first") == "healthy", "it is healthy")
    part = psutil.Process(one.parts()["first"]["pid"])
    one.process.kill()
    one.process.wait()
    until(lambda: not part.is_running() or part.status() == psutil.STATUS_ZOMBIE, "the part is gone")


def test_a_part_that_ends_is_started_again_and_counted(world):
    one = world(stays("first"))
    until(lambda: one.state("first") == "healthy", "it is healthy")
    before = one.parts()["first"]["pid"]
    os.kill(before, signal.SIGKILL)
    until(lambda: one.parts()["first"]["pid"] not in (None, before), "another process")
    until(lambda: one.state("first") == "healthy", "it is healthy again")
    assert one.parts()["first"]["restarts"] == 1


def test_one_that_stops_answering_is_reported_and_left_alone(world):
    one = world(stays("first"))
    until(lambda: one.state("first") == "healthy", "it is healthy")
    pid = one.parts()["first"]["pid"]
    (one.folder / "first").unlink()
    until(lambda: one.state("first") == "unhealthy", "it is unhealthy")
    assert one.parts()["first"]["detail"] == "no file yet"
    assert one.parts()["first"]["pid"] == pid
    (one.folder / "first").write_text("x")
    until(lambda: one.state("first") == "healthy", "it is healthy again")
