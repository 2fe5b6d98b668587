"""A whole fleet in real processes: PostgreSQL, Redis, one server, five agents, and a wire to each that can be cut."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import numpy as np
from tests.live.faults.proxy import Wire
from tests.support.ports import free_port

from assay.place.fleet.client import FleetClient
from assay.place.fleet.protocol import AGENT_KEY, agent_key
from assay.run.records import SampleSet
from assay.store.samples import encode

ROOT = Path(__file__).resolve().parents[3]
LEASE_S = 3.0
HEARTBEAT_S = 0.5
PATIENCE_S = 120.0


def until(met: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    """Wait for something that must happen."""
    end = time.monotonic() + patience_s
    while not met():
        assert time.monotonic() < end, f"in vain: {what}"
        time.sleep(0.05)


class Device:
    """One agent with its own state folder and its own wire to the server."""

    def __init__(self, world: World, number: int, state: Path, *, by_redis: bool) -> None:
        self.name = f"device-{number}"
        self.state = state
        self.wire = Wire(world.port)
        self._world, self._number, self._by_redis = world, number, by_redis
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        world = self._world
        command = [
            sys.executable,
            "-m",
            "tests.live.faults.quick_agent",
            "--server",
            f"http://127.0.0.1:{self.wire.port}",
            "--state",
            str(self.state),
            "--name",
            self.name,
            "--ledger",
            str(world.ledger),
            "--samples",
            str(world.samples),
            "--faults",
            str(world.faults),
            "--seed",
            str(self._number),
        ]
        command += ["--redis-port", str(world.redis.port)] if self._by_redis else []
        self.process = world.spawn(command, f"{self.name}.log")

    def signal(self, which: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(which)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(60)


class World:
    """Everything that takes part, started and stopped by the test."""

    def __init__(self, folder: Path, postgresql, redis, *, disk: Path | None) -> None:
        self.folder, self.postgresql, self.redis = folder, postgresql, redis
        self.port = free_port()
        self.ledger = folder / "ledger"
        self.ledger.touch()
        # While this file is there, the last jobs of a campaign do not end.
        self.faults = folder / "faults"
        self.faults.touch()
        self.samples = self._make_samples()
        self.database = postgresql.migrated()
        self.redis_url = redis.fresh(appendonly=False)
        self.server: subprocess.Popen[bytes] | None = None
        states = [folder / f"state-{number}" for number in range(5)]
        if disk is not None:
            states[0] = disk / "state-0"
        # Two of the five take their jobs from Redis directly.
        self.devices = [Device(self, number, state, by_redis=number >= 3) for number, state in enumerate(states)]
        self.client = FleetClient(f"http://127.0.0.1:{self.port}")

    def client_as(self, agent: str) -> FleetClient:
        """A client that acts as one of the agents, with that agent's key."""
        name = next(one["name"] for one in self.client.pages("/agents") if one["id"] == agent)
        device = next(one for one in self.devices if one.name == name)
        identity = json.loads((device.state / "identity.json").read_bytes())["id"]
        client = FleetClient(f"http://127.0.0.1:{self.port}")
        client._client.headers[AGENT_KEY] = agent_key(identity)
        return client

    def start(self) -> None:
        self.start_server()
        for device in self.devices:
            device.start()

    def start_server(self) -> None:
        command = [
            sys.executable,
            "-m",
            "assay",
            "serve",
            "--port",
            str(self.port),
            "--store",
            str(self.folder / "store"),
            "--lease-s",
            str(LEASE_S),
            "--heartbeat-s",
            str(HEARTBEAT_S),
            "--silent-after-s",
            "6",
            "--tries",
            "20",
            "--backoff-s",
            "0.1",
            "--log-level",
            "warning",
            "--database-url",
            self.database,
            "--redis-url",
            self.redis_url,
        ]
        self.server = self.spawn(command, "server.log")
        until(self.is_ready, "the server is ready")

    def is_ready(self) -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{self.port}/api/v1/ready", timeout=5).status_code == 200
        except httpx.HTTPError:
            return False

    def kill_server(self) -> None:
        assert self.server is not None
        self.server.kill()
        self.server.wait(60)

    def spawn(self, command: list[str], log: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "ASSAY_CACHE": str(self.folder / "cache")}
        with (self.folder / log).open("ab") as out:
            return subprocess.Popen(command, stdout=out, stderr=out, env=environment, cwd=ROOT)

    def stop(self) -> None:
        processes = [device.process for device in self.devices] + [self.server]
        for process in processes:
            if process is not None and process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait(60)
        for device in self.devices:
            device.wire.close()

    def _make_samples(self) -> Path:
        times = np.arange(100, dtype=np.int64)
        content = bytes(encode((SampleSet("latency_ms", "measure", times, times.astype(float)),)))
        path = self.folder / f"{hashlib.sha256(content).hexdigest()}.parquet"
        path.write_bytes(content)
        return path
