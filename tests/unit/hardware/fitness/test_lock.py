"""The lock of a device, between real processes: who holds it, who waits for whom, and who gets it next."""

import fcntl
import json
import os
import platform
import re
import signal
import stat
import subprocess
import sys
import traceback
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.errors import UsageError
from assay.hardware.fitness import lock
from assay.hardware.fitness import lock_files as holder_words
from assay.hardware.fitness.lock import HeldLock, Holder, device_lock, holders, mode_from

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="between processes of a POSIX system")
needs_root = pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() != 0, reason="becomes another user")
NOBODY = 65534

# Takes devices as its words say, tells, and lets go when a line comes; as often as there are words for it.
HOLD = """
import json, sys
from pathlib import Path
from assay.hardware.fitness.lock import device_lock
folder, devices, purpose, mode, load, times = sys.argv[1:]
for _ in range(int(times)):
    told = lambda text: print("told", text, flush=True)
    with device_lock(devices.split(","), purpose, mode, told, load=load, folder=Path(folder)) as held:
        print("held", json.dumps(held.record()), flush=True)
        sys.stdin.readline()
"""
# Holds a device, and starts a program that wants it too.
AROUND = """
import subprocess, sys
from pathlib import Path
from assay.hardware.fitness.lock import device_lock
with device_lock(["cpu"], "outer", "wait", print, folder=Path(sys.argv[1])):
    inner = subprocess.run([sys.executable, "-c", sys.argv[2], sys.argv[1], "cpu", "inner", "wait", "", "1"],
                           stdin=subprocess.DEVNULL, capture_output=True, text=True)
    print(inner.stdout + inner.stderr, end="", flush=True)
"""


class Other:
    """Another process that holds devices or waits for them."""

    def __init__(self, process):
        self.process = process
        self.pid = process.pid

    def says(self, word):
        """The rest of its next line, which must begin with this word."""
        line = self.process.stdout.readline()
        assert line.startswith(word), f"it said {line!r}, {self.process.stderr.read() if not line else ''}"
        rest = line.removeprefix(word).strip()
        return json.loads(rest) if word == "held" else rest

    def lets_go(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def killed(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def other(tmp_path):
    """Start another process on the folder of this test."""
    started = []

    def start(devices="cpu", purpose="squeezenet", mode="wait", load="", times=1, folder=tmp_path):
        words = [str(folder), devices, purpose, mode, load, str(times)]
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, *words],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        started.append(process)
        return Other(process)

    yield start
    for process in started:
        process.kill()
        process.communicate()


def taken(tmp_path, devices=("cpu",), mode="try", **more):
    return device_lock(devices, "this test", mode, lambda _: None, folder=tmp_path, **more)


def test_a_free_device_is_held_at_once_and_says_for_whom(tmp_path):
    with taken(tmp_path, mode="wait") as held:
        assert held.held
        assert held.taken == ("cpu",)
        record = held.record()
        assert {**record, "waited_s": 0} == {"mode": "wait", "devices": ["cpu"], "held": True, "waited_s": 0}
        (holder,) = holders(tmp_path)
        assert (holder.device, holder.pid, holder.purpose) == ("cpu", os.getpid(), "this test")
        assert stat.S_IMODE((tmp_path / "cpu.lock").stat().st_mode) == 0o666
    assert holders(tmp_path) == ()
    assert (tmp_path / "cpu.lock").read_bytes() == b""


def test_the_second_waits_says_for_whom_and_continues_when_the_first_is_killed(tmp_path, other):
    first = other(purpose="squeezenet, batch=8")
    assert first.says("held")["held"] is True
    second = other(purpose="resnet50")
    said = second.says("told")
    user = holder_words._user()
    assert re.fullmatch(
        rf"waiting for cpu: held by {user} since \d\d:\d\d for squeezenet, batch=8 \(pid {first.pid}\)", said
    )
    first.killed()
    record = second.says("held")
    assert record["held"] is True
    assert record["waited_s"] > 0
    (holder,) = holders(tmp_path)
    assert (holder.pid, holder.purpose) == (second.pid, "resnet50")


def test_a_try_continues_beside_who_holds_it_and_says_so(tmp_path, other):
    first = other("cpu", "squeezenet")
    first.says("held")
    with taken(tmp_path, ("cpu", "gpu-1")) as held:
        record = held.record()
        assert record["held"] is False
        assert record["others"][0]["pid"] == first.pid
        assert record["others"][0]["purpose"] == "squeezenet"
        assert record["others"][0]["host"] == platform.node()
        assert held.taken == ("gpu-1",)  # what was free is ours all the same
        assert {one.device: one.pid for one in holders(tmp_path)} == {"cpu": first.pid, "gpu-1": os.getpid()}


def test_off_asks_nobody_and_holds_nothing(tmp_path, other):
    other().says("held")
    with taken(tmp_path, mode="off") as held:
        assert held.record() == {"mode": "off", "devices": ["cpu"], "held": None}


def test_who_waits_comes_before_who_lets_go_and_asks_again(other):
    first = other(times=2)
    first.says("held")
    second = other()
    second.says("told")
    first.lets_go()  # and asks again at once
    second.says("held")
    assert f"(pid {second.pid})" in first.says("told")
    second.lets_go()
    first.says("held")


def test_devices_are_taken_in_one_order_whatever_the_order_of_the_words(other):
    a, b = other("a"), other("b")
    a.says("held")
    b.says("held")
    both = other("b,a")
    assert both.says("told").startswith("waiting for a: ")
    a.killed()
    assert both.says("told").startswith("waiting for b: ")
    b.killed()
    assert both.says("held")["devices"] == ["a", "b"]


def test_a_program_that_is_measured_does_not_wait_for_who_measures_it(tmp_path):
    words = [sys.executable, "-c", AROUND, str(tmp_path), HOLD]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    record = json.loads(done.stdout.removeprefix("held"))
    assert record["held"] is True
    assert record["together"][0]["purpose"] == "outer"


def test_processes_of_one_load_hold_a_device_together(tmp_path, other):
    first = other(load="c1 point")
    first.says("held")
    together = other(load="c1 point").says("held")
    assert together["held"] is True
    assert together["together"][0]["pid"] == first.pid
    other(load="c2 point").says("told")


def test_words_of_a_dead_process_are_not_believed(tmp_path, other):
    first = other()
    first.says("held")
    first.killed()
    words = (tmp_path / "cpu.lock").read_text()
    assert str(first.pid) in words  # it had no time to take them back
    assert holders(tmp_path) == ()
    with (tmp_path / "cpu.lock").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # somebody holds it who has said nothing yet
        assert holders(tmp_path) == (Holder("cpu"),)
        with taken(tmp_path) as held:
            assert held.others == (Holder("cpu"),)
            assert held.others[0].sentence() == "held by a process that has not said who it is"
            assert held.record()["others"][0] == {"device": "cpu"}
    with taken(tmp_path) as held:
        assert held.held


def test_who_waits_is_reminded_every_half_minute_and_can_give_up(tmp_path, other):
    other().says("held")
    told, passed = [], [0.0]

    def sleep(_):
        passed[0] += 10
        if passed[0] > 85:
            raise KeyboardInterrupt

    waiting = device_lock(
        ["cpu"],
        "me",
        "wait",
        lambda text: told.append((passed[0], text)),
        folder=tmp_path,
        now=lambda: passed[0],
        sleep=sleep,
    )
    with pytest.raises(KeyboardInterrupt), waiting:
        pytest.fail("it is held by somebody else")
    assert [at for at, _ in told] == [0, 30, 60]
    # Whoever gave up is not first in the queue any more.
    handle = os.open(tmp_path / "cpu.queue", os.O_RDWR)
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(handle)


def test_an_error_of_the_measurement_passes_through_and_frees_the_device(tmp_path):
    with pytest.raises(OSError, match="of the body"), taken(tmp_path):
        raise OSError("of the body")
    assert holders(tmp_path) == ()


def test_a_file_that_is_removed_is_not_locked_in_vain(tmp_path, monkeypatch):
    real = lock.open_lock
    removed = []

    def removed_once(path):
        handle = real(path)
        if path.suffix == ".lock" and not removed:
            removed.append(path.unlink())
        return handle

    monkeypatch.setattr(lock, "open_lock", removed_once)
    with taken(tmp_path) as held:
        assert held.held
        assert [one.pid for one in holders(tmp_path)] == [os.getpid()]


def as_nobody(action):
    """Run something as another user, in a process of its own; returns what it gave."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.write(writing, json.dumps(action()).encode())
        except BaseException:
            os.write(writing, json.dumps(traceback.format_exc()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        told = json.loads(pipe.read())
    os.waitpid(child, 0)
    return told


@pytest.fixture
def shared():
    """A folder for everyone, in one that everyone can reach."""
    import shutil
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="assay-test-locks-", dir="/tmp"))
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


@needs_root
def test_another_user_takes_the_same_lock_and_each_sees_the_other(shared, other):
    with taken(shared):
        pass  # makes the file, as root

    def held_by_nobody():
        with taken(shared) as held:
            return held.record(), [one.user for one in holders(shared)]

    record, users = as_nobody(held_by_nobody)
    assert record["held"] is True, record
    assert users == [lock_user(NOBODY)]
    first = other(folder=shared)
    first.says("held")
    record, users = as_nobody(held_by_nobody)
    assert record["held"] is False
    assert (record["others"][0]["user"], record["others"][0]["pid"]) == ("root", first.pid)
    assert users == ["root"]


def lock_user(uid):
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


@needs_root
def test_a_file_that_another_user_made_is_ours_to_lock_as_well(shared):
    as_nobody(lambda: taken(shared).__enter__().record())
    assert (shared / "cpu.lock").stat().st_uid == NOBODY
    assert stat.S_IMODE((shared / "cpu.lock").stat().st_mode) == 0o666
    with taken(shared) as held:
        assert held.held


@needs_root
def test_a_file_that_may_not_be_opened_leaves_the_device_unlocked_and_says_why(shared):
    (shared / "cpu.lock").touch(mode=0o600)
    record = as_nobody(lambda: taken(shared).__enter__().record())
    assert record["held"] is False
    assert "Permission denied" in record["absent"]["cpu"]


def test_without_a_folder_the_measurement_continues_unlocked_and_says_why(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("ASSAY_LOCK_FOLDER", str(tmp_path / "file"))
    with device_lock(["cpu"], "me", "wait", lambda _: None) as held:
        assert held.held is False
        assert "it is not a folder" in held.record()["absent"]["cpu"]
    assert holders() == ()


def test_the_folder_comes_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_LOCK_FOLDER", str(tmp_path / "deep" / "locks"))
    assert holders() == ()
    with device_lock(["cuda:0"], "me", "wait", lambda _: None):
        assert [(one.device, one.pid) for one in holders()] == [("cuda:0", os.getpid())]
    assert (tmp_path / "deep" / "locks" / "cuda-0.lock").is_file()


@pytest.mark.parametrize("kind", ["symlink", "hard link", "pipe", "folder"])
def test_what_another_planted_is_neither_followed_nor_written_to(tmp_path, kind):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    path = tmp_path / "cpu.lock"
    if kind == "symlink":
        path.symlink_to(victim)
    elif kind == "hard link":
        path.hardlink_to(victim)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    with taken(tmp_path, mode="wait") as held:
        assert held.held is False
        assert list(held.absent) == ["cpu"]
    assert victim.read_text() == "precious"
    assert holders(tmp_path) == ()


@pytest.mark.parametrize(
    ("asked", "variable", "mode"), [(None, None, "wait"), (None, "try", "try"), ("off", "try", "off")]
)
def test_the_mode_is_requested_or_comes_from_the_environment(asked, variable, mode):
    assert mode_from(asked, {"ASSAY_LOCK": variable} if variable else {}) == mode


def test_a_mode_that_is_none_is_refused():
    with pytest.raises(UsageError, match="'never'") as refused:
        mode_from(None, {"ASSAY_LOCK": "never"})
    assert refused.value.problem.at == "ASSAY_LOCK"


def test_words_of_others_cannot_steer_a_terminal(tmp_path):
    words = {
        "pid": os.getpid(),
        "host": platform.node(),
        "space": holder_words.pid_namespace(),
        "purpose": "a\x1b[2Jb\nc",
        "user": "x" * 1000,
    }
    path = tmp_path / "cpu.lock"
    path.write_text(json.dumps(words))
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        (holder,) = holders(tmp_path)
    assert holder.purpose == "a [2Jb c"
    assert len(holder.user) == 200
    assert holder.device == "cpu"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=60)
@given(
    words=st.one_of(
        st.binary(max_size=200),
        st.dictionaries(
            st.sampled_from(["pid", "user", "since", "host"]),
            st.one_of(st.integers(), st.text(), st.none(), st.floats()),
        ).map(lambda told: json.dumps(told).encode()),
    )
)
def test_whatever_stands_in_a_file_is_read_without_harm(tmp_path, words):
    path = tmp_path / "odd.lock"
    path.write_bytes(words)
    handle = os.open(path, os.O_RDWR)
    try:
        found = holder_words.read_words(handle, "odd")
    finally:
        os.close(handle)
    assert found is None or (found.pid > 0 and found.sentence().startswith("held by "))


def test_a_holder_of_yesterday_and_elsewhere_is_reported_with_day_and_host():
    holder = Holder("cpu", "alice", 12, "far-away", "2001-02-03T04:05:06.000+00:00", "x")
    assert re.fullmatch(r"held by alice since 2001-02-0\d \d\d:\d\d for x \(pid 12 on far-away\)", holder.sentence())


def test_nothing_to_hold_is_held(tmp_path):
    with taken(tmp_path, ()) as held:
        assert held.held
    assert isinstance(held, HeldLock)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("words", "told"), [
    (["/usr/bin/assay", "run", "/home/a/chat.yaml", "--set", "target.headers.key=secret"], "assay run chat.yaml"),
    (["/x/assay/__main__.py", "exec", "job.json"], "assay exec job.json"),
    (["/home/a/study.py", "--password", "secret"], "study.py"),
])  # fmt: skip
def test_the_command_is_reported_without_words_that_may_be_secret(monkeypatch, words, told):
    monkeypatch.setattr(sys, "argv", words)
    assert holder_words._command() == told
