"""A real agent whose measurements take a fraction of a second: everything else is as in `assay agent start`.

python -m tests.live.faults.quick_agent --server URL --state DIR --name N --ledger FILE --samples FILE --faults FILE
    [--redis-port P]

While the file of --faults is there, the last jobs do not end: no machine is so fast that its jobs are over before the
faults are.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from assay.agent.agent import Agent
from assay.agent.host import HostFacts
from assay.agent.identity import AgentSettings, RedisAddress
from assay.clock import SYSTEM_CLOCK
from assay.files import write_whole
from assay.place.needs import Profile

# Jobs of this seed and above are the last of the campaign.
LAST_SEEDS = 1_000_000


class SkewedClock:
    """A calendar that is wrong and jumps; durations stay true, as they do on a real machine."""

    def __init__(self) -> None:
        self.off_s = 0.0

    def monotonic_s(self) -> float:
        return SYSTEM_CLOCK.monotonic_s()

    def utc(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.off_s)


class QuickExecutor:
    """Writes a result after a short while, as the real executor would, and notes in a ledger that it did."""

    def __init__(self, ledger: Path, samples: Path, faults: Path, clock: SkewedClock, seed: int) -> None:
        self.ledger, self.samples, self.faults, self.clock = ledger, samples, faults, clock
        self.random = random.Random(seed)

    def start(self, entry, environment):
        return _Execution(self, entry, self.random.uniform(0.2, 1.0))


class _Execution:
    def __init__(self, executor, entry, lasts_s) -> None:
        self.executor, self.entry, self.lasts_s = executor, entry, lasts_s
        self.killed = threading.Event()

    def events(self):
        for run in range(2):
            yield {"event": "run", "run": run, "of": 2}
            yield {"event": "phase", "name": "measure"}
            if self.killed.wait(self.lasts_s / 2):
                return
        while self._is_one_of_the_last() and self.executor.faults.exists():
            if self.killed.wait(0.1):
                return
        self._leave_result()

    def kill(self):
        self.killed.set()

    def wait(self):
        return -9 if self.killed.is_set() else 0

    def _is_one_of_the_last(self):
        return json.loads(self.entry.document.read_text())["point"]["workload.seed"] >= LAST_SEEDS

    def _leave_result(self):
        entry = self.entry
        job = json.loads(entry.document.read_text())
        digest = self.executor.samples.stem
        place = entry.out / "samples" / digest[:2] / f"{digest}.parquet"
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self.executor.samples, place)
        now = self.executor.clock.utc().isoformat()
        run = {"run_id": 0, "is_cold_start": True, "started_at": now, "completed_at": now, "duration_seconds": 0.1}
        document = {
            "job": entry.job,
            "digest": job["digest"],
            "index": job["index"],
            "point": job["point"],
            "state": "done",
            "verdict": "valid",
            "checks": [],
            "gates": [],
            "metrics": {},
            "runs": [{**run, "samples": digest}],
            "total_runs": 1,
            "successful_runs": 1,
            "failed_runs": 0,
            "cold_start": {},
            "definition": {},
            "environment": {"fence": entry.fence},
            "started_at": now,
            "completed_at": now,
        }
        write_whole(entry.result, json.dumps(document).encode())
        # From here on the result is on disk: it must never be lost.
        with os.fdopen(os.open(self.executor.ledger, os.O_APPEND | os.O_CREAT | os.O_WRONLY), "w") as ledger:
            ledger.write(f"{entry.job} {entry.fence}\n")


def main() -> int:
    parser = argparse.ArgumentParser()
    for name in ("server", "state", "name", "ledger", "samples", "faults"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--redis-port", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    clock = SkewedClock()
    # The wall clock of this process jumps to and fro when it is told to.
    signal.signal(signal.SIGUSR1, lambda *_: _jump(clock))
    profile = Profile(asked.name, "linux", 2, 2**30, {"onnxruntime": "1"}, {"onnxruntime": {"cpu": "CPU"}})
    settings = AgentSettings(
        server=asked.server,
        state=Path(asked.state),
        name=asked.name,
        min_free=1_000_000,
        grace_s=1.0,
        redis=RedisAddress("127.0.0.1", asked.redis_port) if asked.redis_port else None,
    )
    executor = QuickExecutor(Path(asked.ledger), Path(asked.samples), Path(asked.faults), clock, asked.seed)
    facts = HostFacts("linux", {"cpu": "x"}, ("CPU (ONNX)",), profile)
    agent = Agent(settings, executor=executor, clock=clock, probe=lambda: facts)
    signal.signal(signal.SIGTERM, lambda *_: agent.request_stop())
    import logging

    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(message)s")
    return agent.run()


def _jump(clock: SkewedClock) -> None:
    clock.off_s = 0.0 if clock.off_s else -3600.0 if random.random() < 0.5 else 86_400.0
    off_s, real = clock.off_s, time.clock_gettime
    time.time = lambda: real(time.CLOCK_REALTIME) + off_s


if __name__ == "__main__":
    sys.exit(main())
