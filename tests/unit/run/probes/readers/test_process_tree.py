"""Families of real processes: time, memory and disk of all of them, also of those that have ended."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from assay.run.probes.readers.processes import ProcessTree
from assay.run.probes.readers.psutil_reader import PsutilMachine, PsutilTree

pytestmark = [pytest.mark.live, pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")]

SPIN = "import time\nuntil = time.process_time() + {}\nwhile time.process_time() < until: pass\n"


def started(code: str, **more) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, **more)


def ended(process: subprocess.Popen) -> None:
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def test_time_of_children_that_ended_stays_counted():
    """Two children of 0.3 s each, one after the other, both gone when we look the second time."""
    code = (
        "import subprocess, sys\nsys.stdin.readline()\n"
        f"for _ in range(2): subprocess.run([sys.executable, '-c', {SPIN.format(0.3)!r}])\n"
        "print('done', flush=True)\nsys.stdin.readline()\n"
    )
    root = started(code)
    try:
        family = ProcessTree([root.pid])
        before = family.read().totals["cpu_s"]
        root.stdin.write(b"go\n")
        root.stdin.flush()
        root.stdout.readline()
        spent = family.read().totals["cpu_s"] - before
    finally:
        ended(root)
    assert 0.55 <= spent <= 1.5


def test_a_child_is_found_and_read_with_its_parent():
    child = "data = bytearray(80_000_000)\nprint('up', flush=True)\nimport sys; sys.stdin.readline()"
    code = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {child!r}])"
    root = started(code)
    try:
        family = ProcessTree([root.pid])
        root.stdout.readline()
        family._search_again_s = 0.0
        told = family.read()
        assert told.states["processes"] == 2
        assert told.states["rss_bytes"] > 80e6
        assert len(family.pids) == 2
        assert told.states["threads"] >= 2
    finally:
        for one in psutil.Process(root.pid).children():
            one.kill()
        ended(root)


def test_a_daemon_that_left_its_parent_is_known_by_its_session():
    code = (
        "import os, sys, time\nroot = os.getpid()\n"
        "if os.fork() == 0:\n    while os.getppid() == root: time.sleep(0.01)\n"
        "    print('alone', flush=True)\n    sys.stdin.readline()\n    sys.exit()\n"
        "os.read(0, 1)\n"
    )
    root = started(code, start_new_session=True)
    try:
        family = ProcessTree([root.pid])
        root.stdin.write(b".")
        root.stdin.flush()
        root.wait()
        root.stdout.readline()
        family._strangers.clear()
        family._search_again_s = 0.0
        told = family.read()
        assert told.states["processes"] == 1
    finally:
        root.stdin.close()
        root.stdout.close()


def test_bytes_that_go_to_the_disk_are_seen(tmp_path):
    code = (
        "import os, sys\nsys.stdin.readline()\n"
        f"f = open({str(tmp_path / 'file')!r}, 'wb')\nf.write(os.urandom(8_000_000))\nf.flush()\nos.fsync(f.fileno())\n"
        "print('written', flush=True)\nsys.stdin.readline()\n"
    )
    root = started(code)
    try:
        family = ProcessTree([root.pid])
        before = family.read().totals
        root.stdin.write(b"go\n")
        root.stdin.flush()
        root.stdout.readline()
        after = family.read().totals
    finally:
        ended(root)
    if "disk_write_bytes" not in after:
        pytest.skip(family.absent["job.disk"])
    if after["disk_write_bytes"] == before["disk_write_bytes"]:
        pytest.skip("this file system does not count bytes for processes")
    assert after["disk_write_bytes"] - before["disk_write_bytes"] >= 8_000_000


def test_a_family_that_is_gone_is_none():
    root = started("pass")
    root.wait()
    family = ProcessTree([root.pid])
    assert family.read() is None
    assert family.pids == set()
    root.stdin.close()
    root.stdout.close()


def test_files_are_closed():
    before = len(list(Path("/proc/self/fd").iterdir()))
    family = ProcessTree([os.getpid()])
    family.read()
    family.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_strangers_are_not_taken_in():
    other = started("import sys; sys.stdin.readline()")
    root = started("import sys; sys.stdin.readline()")
    try:
        family = ProcessTree([root.pid])
        assert family.read().states["processes"] == 1
        assert other.pid not in family.pids
    finally:
        ended(other)
        ended(root)


def test_other_systems_are_asked_through_psutil():
    root = started(SPIN.format(0.2) + "print('done', flush=True)\nimport sys; sys.stdin.readline()")
    try:
        family = PsutilTree([root.pid])
        family.read()
        root.stdout.readline()
        told = family.read()
        assert told.totals["cpu_s"] >= 0.18  # told in steps of 10 ms, of each kind of time
        assert told.states["processes"] == 1
        machine = PsutilMachine()
        first = machine.read(slow=True)
        time.sleep(0.05)
        assert machine.read(slow=False).totals["busy_s"] >= first.totals["busy_s"] - 1e-6  # sums of many numbers
        assert first.states["memory_available_bytes"] > 0
        assert machine.throttled((0, 1)) is None
    finally:
        ended(root)
    assert PsutilTree([root.pid]).read() is None
