"""Agents as real processes: killed, stopped, out of room; measuring with the real `assay exec` where not said."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from tests.support.running_server import PATIENCE_S, wait_for

pytestmark = [pytest.mark.live, pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")]

ASSAY = [sys.executable, "-m", "assay"]
FAST = [sys.executable, str(Path(__file__).with_name("fast_agent.py"))]


@contextmanager
def process(command, **options):
    started = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options)
    try:
        yield started
    finally:
        if started.poll() is None:
            started.kill()
        started.wait()
        started.stderr.close()


def start_command(server, state, *options):
    return [
        *ASSAY,
        "agent",
        "start",
        "--server",
        server.url,
        "--state",
        str(state),
        "--allow",
        "command",
        "--min-free",
        "1MB",
        *options,
    ]


def sleepers(mark):
    found = []
    for one in psutil.process_iter():
        try:
            if mark in one.cmdline() and one.status() != psutil.STATUS_ZOMBIE:
                found.append(one)
        except psutil.Error:
            continue
    return found


def long_job(make_job, mark):
    return make_job(command=(sys.executable, "-c", "import time; time.sleep(600)", mark))


def test_a_command_is_measured_from_lease_to_result(server, make_job, tmp_path):
    metrics = [{"name": "speed_per_s", "pattern": "speed: ([0-9.]+)"}]
    server.add(make_job(command=(sys.executable, "-c", "print('speed: 3.5')"), runs=2, metrics=metrics))
    with process(start_command(server, tmp_path)) as agent:
        server.wait(server.accepted, 120, what="the result")
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(PATIENCE_S) == 0
    (_, _, _, result) = server.results[0]
    assert (result["state"], result["successful_runs"]) == ("done", 2)
    left = {digest for run in result["runs"] for digest in (run["samples"], *run["files"].values())}
    assert left == set(server.artefacts)
    phases = {told["phase"] for *_, told in server.progress}
    assert phases & {"measure", "score", "fetch"}
    assert any(line.startswith("run 1: ok") for *_, told in server.progress for line in told["log"])


def test_a_killed_agent_takes_its_measurement_with_it_and_the_next_one_says_so(server, make_job, tmp_path):
    mark = f"mark-{os.getpid()}-{tmp_path.name}"
    server.add(long_job(make_job, mark))
    with process(start_command(server, tmp_path)) as agent:
        wait_for(lambda: sleepers(mark), what="the measured command")
        agent.kill()
        agent.wait()
        wait_for(lambda: not sleepers(mark), what="the end of the measured command")
    with process(start_command(server, tmp_path)):
        server.wait(lambda: server.releases, 120, what="a release")
    (_, fence, said) = server.releases[0]
    assert (fence, said["crashed"]) == (1, True)
    assert "ended while it measured" in said["reason"]


def test_an_executor_that_is_killed_is_a_crash_of_the_job(server, make_job, tmp_path):
    mark = f"mark-{os.getpid()}-{tmp_path.name}"
    server.add(long_job(make_job, mark))
    with process(start_command(server, tmp_path)) as agent:
        wait_for(lambda: sleepers(mark), what="the measured command")
        for child in psutil.Process(agent.pid).children():
            child.kill()
        server.wait(lambda: server.releases, 120, what="a release")
        wait_for(lambda: not sleepers(mark), what="the end of the measured command")
    assert server.releases[0][2]["crashed"] is True
    assert "SIGKILL" in server.releases[0][2]["reason"]


def test_a_cancelled_command_is_gone_within_seconds(server, make_job, tmp_path):
    mark = f"mark-{os.getpid()}-{tmp_path.name}"
    job = long_job(make_job, mark)
    server.add(job)
    with process(start_command(server, tmp_path)):
        wait_for(lambda: sleepers(mark), what="the measured command")
        server.cancel(job.id)
        wait_for(lambda: not sleepers(mark), what="the end of the measured command")
        server.wait(lambda: server.beats[-1]["state"] == "active", what="an idle agent")
    assert not server.releases


def test_two_interrupts_give_a_running_job_back(server, make_job, tmp_path):
    mark = f"mark-{os.getpid()}-{tmp_path.name}"
    server.add(long_job(make_job, mark))
    with process(start_command(server, tmp_path)) as agent:
        wait_for(lambda: sleepers(mark), what="the measured command")
        agent.send_signal(signal.SIGINT)
        # Two signals that come at once are one signal: the second waits until the first was heard.
        assert any("stopping: the running attempt may" in line for line in agent.stderr)
        before = len(server.beats)
        server.wait(lambda: len(server.beats) > before, what="a beat")
        assert sleepers(mark)
        agent.send_signal(signal.SIGINT)
        assert agent.wait(PATIENCE_S) == 130
        assert not sleepers(mark)
    assert [said["crashed"] for *_, said in server.releases] == [False]


def test_an_idle_agent_is_small_and_ends_at_once(server, tmp_path):
    for number in (signal.SIGTERM, signal.SIGINT):
        with process(start_command(server, tmp_path)) as agent:
            before = len(server.beats)
            server.wait(lambda before=before: len(server.beats) > before + 2, what="beats")
            assert psutil.Process(agent.pid).memory_info().rss < 80e6
            began = time.monotonic()
            agent.send_signal(number)
            assert agent.wait(PATIENCE_S) == 0
            assert time.monotonic() - began < 30


def test_the_token_reaches_no_job(small_server_at, make_job, tmp_path):
    server = small_server_at(token="secret-of-the-agent")
    show = "import os; print('tokens:', [n for n in os.environ if 'TOKEN' in n], os.environ['ASSAY_URL_POLICY'])"
    out = tmp_path / "seen"
    code = f"{show}; open({str(out)!r}, 'w').write(' '.join(os.environ))"
    server.add(make_job(command=(sys.executable, "-c", code)))
    environment = {**os.environ, "ASSAY_TOKEN": "secret-of-the-agent"}
    with process(start_command(server, tmp_path / "state", "--log-level", "debug"), env=environment) as agent:
        server.wait(server.accepted, 120, what="the result")
        agent.terminate()
        said = agent.communicate()[1]
    assert "ASSAY_TOKEN" not in out.read_text().split()
    assert "secret-of-the-agent" not in said
    assert all("secret-of-the-agent" not in str(document) for *_, document in server.results)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc of Linux")
@pytest.mark.parametrize("how", ["environment", "option"])
def test_a_job_does_not_find_the_token_in_the_process_of_the_agent(small_server_at, make_job, tmp_path, how):
    """The job looks where every process of the same user may look, and root anyway."""
    token = "secret-of-the-agent"
    server = small_server_at(token=token)
    out = tmp_path / "seen"
    code = f"""
import os, pathlib
found, pid = b"", os.getpid()
while pid > 1:
    pid = int(pathlib.Path(f"/proc/{{pid}}/stat").read_text().rpartition(")")[2].split()[1])
    words = pathlib.Path(f"/proc/{{pid}}/cmdline").read_bytes()
    if b"agent\\0start" in words:
        found += words + pathlib.Path(f"/proc/{{pid}}/environ").read_bytes()
pathlib.Path({str(out)!r}).write_bytes(found)
"""
    server.add(make_job(command=(sys.executable, "-c", code)))
    environment = {**os.environ, **({"ASSAY_TOKEN": token} if how == "environment" else {})}
    options = ("--token", token) if how == "option" else ()
    with process(start_command(server, tmp_path / "state", *options), env=environment):
        server.wait(server.accepted, 120, what="the result")
    assert b"agent\0start" in out.read_bytes()
    assert b"PATH=" in out.read_bytes()
    assert token.encode() not in out.read_bytes()


@pytest.mark.skipif(sys.platform != "linux", reason="prctl of Linux")
def test_another_process_of_the_user_may_not_look_into_the_agent():
    code = """
import ctypes, os, subprocess, sys
from assay.agent.identity import keep_private
os.environ["OTHER"] = "stays"
keep_private(("ASSAY_TOKEN",), ("of-the-agent",))
dumpable = "import ctypes; print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"
print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), "ASSAY_TOKEN" in os.environ, os.environ["OTHER"])
sys.stdout.flush()
subprocess.run([sys.executable, "-c", dumpable])
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "ASSAY_TOKEN": "of-the-agent"},
    )
    assert done.stdout.split() == ["0", "False", "stays", "1"]  # what it starts can be looked at as ever


def test_killed_at_random_points_every_job_ends_exactly_once(server, make_job, tmp_path):
    """The agent of this test measures in no time, so that kills hit every step between lease and acknowledgement."""
    chance = random.Random(20)
    jobs = [make_job(index) for index in range(80)]  # enough for several kills
    server.add(*jobs)
    kills = 0
    while len(server.accepted()) < len(jobs):
        with process([*FAST, server.url, str(tmp_path)]) as agent:
            # By what it has done, not by time: a slow machine gets as far between two kills as a quick one.
            enough = len(server.requests) + chance.randint(2, 40)
            server.wait(lambda enough=enough: len(server.requests) >= enough, what="an agent at work")
            try:
                agent.wait(chance.uniform(0.0, 0.02))
            except subprocess.TimeoutExpired:
                agent.kill()
                kills += 1
        offer_again(server, jobs)
        assert kills < 400
    assert sorted(job for job, _ in server.accepted()) == sorted(job.id for job in jobs)
    assert kills >= 5
    assert {word for *_, word, _ in server.results} <= {"accepted", "repeated", "late"}


def offer_again(server, jobs):
    """What a server does: jobs whose lease was given back or ran out wait for the next agent."""
    with server.lock:
        waiting = {job.id for job in server.pending}
        for job in jobs:
            if server.states[job.id] == "pending" and job.id not in waiting:
                server.pending.append(job)
            elif server.states[job.id] == "running" and not on_disk(server, job.id):
                server.expire(job.id)
                server.pending.append(job)


def on_disk(server, job):
    return any(held["job"] == job for beat in server.beats[-3:] for held in beat["held"])


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0 or not shutil.which("mount"), reason="needs mount")
def test_a_full_disk_is_reported_survived_and_left_behind(server, make_job, tmp_path):
    state = tmp_path / "tiny"
    state.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(state)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("tmpfs cannot be mounted here")
    try:
        fill_and_empty(server, make_job, state)
    finally:
        subprocess.run(["umount", "-l", str(state)], check=True)


def fill(path):
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while file.write(bytes(4096)) > 0:
            continue


def fill_and_empty(server, make_job, state):
    command = [arg if arg != "1MB" else "300KB" for arg in start_command(server, state)]
    with process(command):
        server.wait(lambda: server.beats, 120, what="a beat")
        filler = state / "filler"
        fill(filler)
        server.add(make_job(command=(sys.executable, "-c", "print(1)")))
        server.wait(lambda: any(beat["state"] == "faulty" for beat in server.beats), 120, what="a faulty agent")
        assert not server.accepted()
        assert all(said["crashed"] is False for *_, said in server.releases)
        filler.unlink()
        with server.lock:
            if server.releases:
                server.add(make_job(command=(sys.executable, "-c", "print(1)")))
        server.wait(server.accepted, 120, what="the result")
        server.wait(lambda: server.beats[-1]["state"] == "active", what="a sound agent")
