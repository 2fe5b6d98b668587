"""What else goes on while something is measured, and what this machine offers."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from assay.hardware.environment import UsageSample, machine_state
from assay.plan.plan import make_plan
from assay.run import capabilities as profile
from assay.spec.load import load


@pytest.fixture
def busy():
    """A process that takes all that it can get of a core."""
    process = subprocess.Popen([sys.executable, "-c", "print(flush=True)\nwhile True: pass"], stdout=subprocess.PIPE)
    process.stdout.readline()
    yield process.pid
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_look_that_lasts_already_waits_for_nothing_and_sees_who_is_busy(busy, monkeypatch):
    look = UsageSample()
    time.sleep(1.0)
    waited = []
    monkeypatch.setattr(time, "sleep", waited.append)
    seen = machine_state(look)["busy_processes"]
    assert waited == [0.0]
    assert busy in [one["pid"] for one in seen] or len(seen) == 5  # the five busiest of a machine that has more
    assert all(one["cpu_pct"] >= 5 for one in seen)


def test_a_look_that_has_just_begun_lasts_a_while():
    begin = time.perf_counter()
    machine_state()
    assert time.perf_counter() - begin >= 0.1


def jobs(target):
    return make_plan(load({"benchmark": "one", "target": target}), lambda _definition: {}).jobs


def test_runtimes_are_tried_only_for_jobs_that_ask_for_one(monkeypatch):
    tried = []
    monkeypatch.setattr(profile, "_runtimes", lambda: tried.append(1) or ({"onnxruntime": "1"}, {}))
    profile.local_profile.cache_clear()
    try:
        bare = profile.profile_for(jobs({"endpoint": "http://127.0.0.1:9", "api": "http", "path": "/"}))
        assert (tried, bare.runtimes) == ([], {})
        whole = profile.profile_for([*jobs({"command": "true"}), *jobs({"model": "builtin:tiny"})])
        assert (tried, whole.runtimes) == ([1], {"onnxruntime": "1"})
        assert (bare.name, bare.cpus, bare.memory_bytes) == (whole.name, whole.cpus, whole.memory_bytes)
    finally:
        profile.local_profile.cache_clear()
