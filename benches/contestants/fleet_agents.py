"""Many agents in one process, as the protocol knows them: `python fleet_agents.py SETTINGS.json`.

Each has two connections, as a real one has: one for heartbeats, one for leases and results.
"""

import asyncio
import json
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

import psutil
import uvloop
from wire import Wire, WireError


@dataclass
class Tally:
    """What happened, in one phase."""

    late_ms: list = field(default_factory=list)  # of heartbeats, from when each was due
    lease_ms: list = field(default_factory=list)
    deliver_ms: list = field(default_factory=list)
    held_s: list = field(default_factory=list)  # of polls that ended with nothing
    done: list = field(default_factory=list)  # when each job was
    errors: list = field(default_factory=list)

    def error(self, what, status, body):
        self.errors.append(f"{what}: {status} {body[:200]!r}")


class Fleet:
    """All agents, and what they are told to do."""

    def __init__(self, settings):
        self.settings = settings
        self.tally = Tally()
        self.result = settings["result"].encode()
        self.jobs = settings["jobs"]
        self.finished = asyncio.Event()
        self.admin = Wire(settings["url"], settings["admin"])

    def wire(self):
        return Wire(self.settings["url"], self.settings["token"])

    async def enrol(self, number):
        name = f"device-{number:04d}"
        enrolment = {**self.settings["enrolment"], "identity": name, "name": name}
        wire = self.wire()
        status, answer = await wire.json("POST", "/agents", enrolment)
        if status != 201:
            sys.exit(f"enrolment: {status} {answer}")
        return Agent(self, answer["agent"], wire)


class Agent:
    """One simulated device."""

    def __init__(self, fleet, name, wire):
        self.fleet, self.id, self.work = fleet, name, wire
        self.beats = fleet.wire()
        self.held = []

    async def beat(self, offset_s):
        """Send heartbeats on a fixed schedule: one that is late makes the next one late, and it shows."""
        every_s, path = self.fleet.settings["heartbeat_s"], f"/agents/{self.id}/heartbeat"
        due = perf_counter() + offset_s
        while True:
            await asyncio.sleep(due - perf_counter())
            body = json.dumps({"state": "busy" if self.held else "active", "held": self.held}).encode()
            try:
                status, answer = await self.beats.ask("POST", path, body)
            except (OSError, WireError) as problem:
                status, answer = 0, str(problem).encode()
            tally = self.fleet.tally
            tally.late_ms.append(1000 * (perf_counter() - due))
            if status != 200:
                tally.error("heartbeat", status, answer)
            due += every_s

    async def take(self, offset_s):
        """Wait for jobs, one after another, and deliver each at once."""
        await asyncio.sleep(offset_s)
        body = json.dumps({"wait_s": self.fleet.settings["wait_s"], "device": ""}).encode()
        while True:
            try:
                await self._one(body)
            except (OSError, WireError) as problem:
                self.fleet.tally.error("connection", 0, str(problem).encode())

    async def _one(self, body):
        begin = perf_counter()
        status, answer = await self.work.ask("POST", f"/agents/{self.id}/lease", body)
        tally = self.fleet.tally
        if status == 204:
            tally.held_s.append(perf_counter() - begin)
        elif status == 200:
            tally.lease_ms.append(1000 * (perf_counter() - begin))
            await self._deliver(json.loads(answer))
        else:
            tally.error("lease", status, answer)

    async def _deliver(self, lease):
        job, fence = f"{lease['job']['campaign']}-job-{lease['job']['index']}", lease["fence"]
        self.held = [{"job": job, "fence": fence}]
        begin = perf_counter()
        path = f"/jobs/{job}/attempts/{fence}/result?agent={self.id}"
        status, answer = await self.work.ask("PUT", path, self.fleet.result)
        self.held = []
        tally = self.fleet.tally
        if (status, answer) != (200, b'{"delivery":"accepted"}'):
            tally.error("result", status, answer)
            return
        tally.deliver_ms.append(1000 * (perf_counter() - begin))
        tally.done.append(perf_counter())
        if len(tally.done) >= self.fleet.jobs:
            self.fleet.finished.set()


async def main(settings):
    """Enrol, hold on, then work."""
    fleet = Fleet(settings)
    begin = perf_counter()
    agents = []
    for start in range(0, settings["agents"], 50):
        some = range(start, min(start + 50, settings["agents"]))
        agents += await asyncio.gather(*map(fleet.enrol, some))
    enrol_s = perf_counter() - begin
    rng = random.Random(1)
    every_s = settings["heartbeat_s"]
    tasks = [asyncio.create_task(agent.beat(rng.uniform(0, every_s))) for agent in agents]
    tasks += [asyncio.create_task(agent.take(rng.uniform(0, every_s))) for agent in agents]
    idle = await _phase(fleet, settings, asyncio.sleep(settings["idle_s"]))
    busy = await _phase(fleet, settings, _submit_and_wait(fleet, settings))
    busy["campaign"] = await _campaign(fleet)
    print(json.dumps({"enrol_s": enrol_s, "idle": idle, "busy": busy}))
    sys.stdout.flush()
    for task in tasks:
        task.cancel()


async def _submit_and_wait(fleet, settings):
    begin = perf_counter()
    status, answer = await fleet.admin.json("POST", "/campaigns", {"document": settings["document"]})
    if status != 201:
        sys.exit(f"submission: {status} {answer}")
    submitted = perf_counter()
    try:
        async with asyncio.timeout(settings["patience_s"]):
            await fleet.finished.wait()
    except TimeoutError:
        fleet.tally.error("jobs", 0, f"{len(fleet.tally.done)} of {fleet.jobs} done in time".encode())
    first, last = (min(submitted, *fleet.tally.done), fleet.tally.done[-1]) if fleet.tally.done else (begin, begin)
    return {"submit_s": submitted - begin, "work_s": last - first, "done": len(fleet.tally.done)}


async def _campaign(fleet):
    """The campaign as the server counts it, once it has settled."""
    for _ in range(100):
        _, page = await fleet.admin.json("GET", "/campaigns")
        if page["items"][0]["state"] != "running":
            break
        await asyncio.sleep(0.1)
    return {key: page["items"][0][key] for key in ("state", "counts")}


async def _phase(fleet, settings, what):
    """Run one phase; what was seen in it, with the processor time of everybody."""
    fleet.tally = tally = Tally()
    before, begin = _seconds(settings["processes"]), perf_counter()
    more = await what or {}
    wall_s = perf_counter() - begin
    after = _seconds(settings["processes"])
    cpu = {name: after[name] - before[name] for name in before}
    rss = psutil.Process(settings["processes"]["server"]).memory_info().rss
    return {
        **vars(tally),
        "errors": len(tally.errors),
        "first_errors": tally.errors[:5],
        "done": len(tally.done),
        "wall_s": wall_s,
        "cpu_s": cpu,
        "rss_bytes": rss,
        **more,
    }


def _seconds(processes):
    return {name: _tree_s(pid) for name, pid in processes.items()} | {"agents": sum(psutil.Process().cpu_times()[:2])}


def _tree_s(pid):
    # Times of children that have ended are those of their parent.
    whole = psutil.Process(pid)
    return sum(sum(one.cpu_times()[:2]) for one in (whole, *whole.children(recursive=True))) + sum(
        whole.cpu_times()[2:4]
    )


if __name__ == "__main__":
    uvloop.run(main(json.loads(Path(sys.argv[1]).read_text())))
