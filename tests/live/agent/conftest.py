"""An agent inside the test's process, with a measuring that the test steers."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from assay.agent.agent import Agent
from assay.agent.host import HostFacts
from assay.agent.identity import AgentSettings
from assay.place.needs import Profile


def _load(name):
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


small_server = sys.modules.get("small_server") or _load("small_server")

FACTS = HostFacts("linux", {"cpu": "x"}, ("CPU (ONNX)",), Profile("box", "linux", 2, 2**30, {}, {}, commands=False))


def result_document(job_id, *, samples=None, state="done", error=None):
    run = {"run_id": 0, "is_cold_start": True, "started_at": "t", "completed_at": "t", "duration_seconds": 0.1}
    return {
        "job": job_id,
        "digest": "d",
        "index": 0,
        "point": {},
        "state": state,
        "verdict": "valid",
        "checks": [],
        "gates": [],
        "metrics": {},
        "runs": [{**run, "samples": samples}],
        "total_runs": 1,
        "successful_runs": 1,
        "failed_runs": 0,
        "cold_start": {},
        "environment": {},
        "definition": {},
        "error": error,
    }


@dataclass
class FastExecutor:
    """Measures in no time, or waits until told; crashes when told."""

    gate: threading.Event | None = None
    crash: bool = False
    events: tuple = ()
    samples: bytes = b"samples"
    started: list = field(default_factory=list)
    environments: list = field(default_factory=list)
    killed: list = field(default_factory=list)
    error: dict | None = None

    def start(self, entry, environment):
        self.started.append(entry)
        self.environments.append(dict(environment))
        return _Execution(self, entry)


class _Execution:
    def __init__(self, executor, entry):
        self.executor, self.entry, self.dead = executor, entry, threading.Event()

    def events(self):
        yield from self.executor.events
        gate = self.executor.gate
        while gate is not None and not gate.is_set() and not self.dead.is_set():
            self.dead.wait(0.005)
        if not self.dead.is_set() and not self.executor.crash:
            self._write()

    def _write(self):
        digest = hashlib.sha256(self.executor.samples).hexdigest()
        place = self.entry.out / "samples" / digest[:2] / f"{digest}.parquet"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(self.executor.samples)
        document = result_document(self.entry.job, samples=digest, error=self.executor.error)
        part = self.entry.out / "part"
        part.write_text(json.dumps(document))
        part.replace(self.entry.result)

    def kill(self):
        self.executor.killed.append(self.entry.held)
        self.dead.set()

    def wait(self):
        return -9 if self.dead.is_set() else 1 if self.executor.crash else 0


@pytest.fixture
def make_job():
    return small_server.make_job


@pytest.fixture
def small_server_at():
    """Start a small server as wanted; all are stopped at the end."""
    made = []

    def start(**options):
        made.append(small_server.SmallServer(**options))
        return made[-1]

    yield start
    for one in made:
        with contextlib.suppress(OSError):
            one.stop()


@pytest.fixture
def fast():
    """The class of a measuring that the test steers."""
    return FastExecutor


@pytest.fixture
def server():
    made = small_server.SmallServer()
    yield made
    made.stop()


@dataclass
class RunningAgent:
    agent: Agent
    thread: threading.Thread
    codes: list

    def stop(self, times=1, timeout_s=120.0):
        for _ in range(times):
            self.agent.request_stop()
        self.thread.join(timeout_s)
        assert not self.thread.is_alive()
        return self.codes[0]


@pytest.fixture
def run_agent(tmp_path):
    """Start an agent in a thread; all are stopped at the end."""
    running = []

    def start(server, executor=None, state=None, **settings):
        settings = {"min_free": 0, "grace_s": 0.0, **settings}
        agent = Agent(
            AgentSettings(server.url, state or tmp_path / "state", **settings),
            executor=executor or FastExecutor(),
            probe=lambda: FACTS,
        )
        codes = []
        thread = threading.Thread(target=lambda: codes.append(agent.run()), daemon=True)
        thread.start()
        running.append(RunningAgent(agent, thread, codes))
        return running[-1]

    yield start
    for one in running:
        if one.thread.is_alive():
            with contextlib.suppress(AssertionError):
                one.stop(2)
