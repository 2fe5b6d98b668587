"""Short jobs on 5 agents while everything that can fail does: every job ends once, and nothing is lost."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from tests.live.faults.quick_agent import LAST_SEEDS
from tests.live.faults.world import LEASE_S, World, until

from assay.place.fleet.protocol import Submission

SEED = int(os.environ.get("ASSAY_FAULT_SEED", "7"))
# More than there are agents, so that some of them wait and can be cancelled.
LAST_JOBS = 10
ENDED = {"done", "failed", "cancelled", "poisoned"}
# What an event makes of a job; every other kind leaves it as it is.
STEPS = {
    "submitted": "pending", "leased": "running", "lease expired": "pending", "released": "pending",
    "attempt crashed": "pending", "set aside as poisoned": "poisoned", "result accepted": "done",
    "cancelled": "cancelled", "retried": "pending",
}  # fmt: skip

pytestmark = pytest.mark.live


@pytest.fixture
def disk(tmp_path):
    """A disk of 8 MB that can be filled; only root may make one."""
    if os.geteuid() != 0:
        yield None
        return
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)], capture_output=True)
    yield folder if made.returncode == 0 else None
    if made.returncode == 0:
        subprocess.run(["umount", "-l", str(folder)], check=False)


@pytest.fixture
def world(tmp_path, postgresql, redis_server, disk):
    made = World(tmp_path, postgresql, redis_server, disk=disk)
    yield made
    made.stop()
    if made.redis._process is None:
        redis_server.start()


class Faults:
    """One method per fault; each leaves the world as it found it."""

    def __init__(self, world: World, campaign: str, chance: random.Random, disk: Path | None) -> None:
        self.world, self.campaign, self.chance, self.disk = world, campaign, chance, disk
        self.injected: Counter[str] = Counter()
        self.answers: Counter[str] = Counter()

    def schedule(self, rounds: int) -> list[str]:
        names = [
            "kill an agent",
            "kill the server",
            "restart Redis",
            "restart PostgreSQL",
            "cut the network",
            "skew a clock",
            "deliver twice",
            "deliver late",
            "freeze an agent",
            "cancel",
        ]
        names += ["fill a disk"] if self.disk else []
        order = names * rounds
        self.chance.shuffle(order)
        return order

    def inject(self, name: str) -> None:
        state = self.world.client.get(f"/campaigns/{self.campaign}")["state"]
        assert state == "running", f"the jobs were over before the faults were: {state}"
        {
            "kill an agent": self._kill_agent,
            "kill the server": self._kill_server,
            "restart Redis": self._redis,
            "restart PostgreSQL": self._postgresql,
            "cut the network": self._cut,
            "fill a disk": self._fill,
            "skew a clock": self._skew,
            "deliver twice": self._twice,
            "deliver late": self._late,
            "freeze an agent": self._freeze,
            "cancel": self._cancel,
        }[name]()
        self.injected[name] += 1

    def _busy(self):
        """A device that measures right now, so that the fault falls into a run."""
        held = {one["name"] for one in self.world.client.pages("/agents") if one["jobs"]}
        return self.chance.choice([one for one in self.world.devices if one.name in held] or self.world.devices)

    def _kill_agent(self) -> None:
        device = self._busy()
        device.kill()
        self._wait(0.2, 1.0)
        device.start()

    def _kill_server(self) -> None:
        self.world.kill_server()
        self._wait(0.2, 1.0)
        self.world.start_server()

    def _redis(self) -> None:
        if self.chance.random() < 0.5:
            self.world.redis.kill()
        else:
            self.world.redis.stop()
        self._wait(0.1, 0.8)
        self.world.redis.start()

    def _postgresql(self) -> None:
        self.world.postgresql.stop(self.chance.choice(["fast", "immediate"]))
        self._wait(0.1, 0.8)
        self.world.postgresql.start()
        until(self.world.is_ready, "the server found its database again")

    def _cut(self) -> None:
        device = self._busy()
        device.wire.cut()
        # Half of the cuts outlast a lease.
        self._wait(0.3, 2 * LEASE_S)
        device.wire.mend()

    def _fill(self) -> None:
        assert self.disk is not None
        ballast = self.disk / "ballast"
        with suppress(OSError), ballast.open("wb", buffering=0) as file:
            while file.write(bytes(65536)):
                pass
        self._wait(1.0, 2.0)
        ballast.unlink(missing_ok=True)

    def _skew(self) -> None:
        self.chance.choice(self.world.devices).signal(signal.SIGUSR1)

    def _freeze(self) -> None:
        """A machine that sleeps longer than its lease wakes up with a result that comes too late."""
        device = self._busy()
        device.signal(signal.SIGSTOP)
        time.sleep(LEASE_S + 1.5)
        device.signal(signal.SIGCONT)

    def _twice(self) -> None:
        """Repeat a result that was accepted, word for word."""
        job = self._some("done")
        if job is not None:
            detail = self.world.client.get(f"/jobs/{job['id']}")
            accepted = next(one for one in detail["attempts"] if one["state"] == "delivered")
            self._deliver(job["id"], accepted["fence"], accepted["agent"], "repeated")

    def _late(self) -> None:
        """Deliver under a lease that was lost before."""
        for job in self.world.client.get("/jobs", {"campaign": self.campaign, "limit": 500})["items"]:
            if job["fence"] > 1:
                detail = self.world.client.get(f"/jobs/{job['id']}")
                lost = [one for one in detail["attempts"] if one["state"] in ("expired", "crashed")]
                if lost and job["state"] == "done":
                    self._deliver(job["id"], lost[0]["fence"], lost[0]["agent"], "late")
                    return

    def _deliver(self, job: str, fence: int, agent: str, expected: str) -> None:
        path = self.world.folder / "again.json"
        path.write_text(self.world.client.text(f"/jobs/{job}/result"))
        word = self.world.client_as(agent).deliver(job, fence, agent, path).delivery
        assert word == expected, f"{job} under {fence} of {agent} was {word}"
        self.answers[word] += 1

    def _cancel(self) -> None:
        """One job in every state; those that have ended stay as they ended."""
        for state in ("pending", "running", "done", "cancelled"):
            job = self._some(state)
            if job is not None:
                after = self.world.client.post(f"/jobs/{job['id']}/cancel")["state"]
                # A running job may end by itself between the look and the cancel.
                assert after in ({"cancelled", "done"} if state != "cancelled" else {"cancelled"})
                assert state != "done" or after == "done"

    def _some(self, state: str):
        found = self.world.client.get("/jobs", {"campaign": self.campaign, "state": state, "limit": 500})["items"]
        return self.chance.choice(found) if found else None

    def _wait(self, low: float, high: float) -> None:
        time.sleep(self.chance.uniform(low, high))


# Each fault once for every 150 jobs, so that it falls into their time.
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("count", "rounds"), [(150, 1), pytest.param(500, 3, marks=pytest.mark.nightly)])
def test_every_job_ends_once_and_nothing_is_lost(world, disk, capsys, count, rounds):
    world.start()
    document = {
        "benchmark": "faults",
        "target": {"model": "squeezenet"},
        "matrix": {"workload.seed": [*range(count - LAST_JOBS), *range(LAST_SEEDS, LAST_SEEDS + LAST_JOBS)]},
    }
    campaign = world.client.submit(Submission(document=document))["id"]
    faults = Faults(world, campaign, random.Random(SEED), disk)
    for name in faults.schedule(rounds):
        faults.inject(name)
        time.sleep(faults.chance.uniform(0.1, 0.5))
    world.faults.unlink()
    until(lambda: world.client.get(f"/campaigns/{campaign}")["state"] != "running", "the campaign ends", 300)
    until(lambda: not undelivered(world), "every result on a disk is delivered", 60)
    jobs = [world.client.get(f"/jobs/{one['id']}") for one in world.client.pages("/jobs", {"campaign": campaign})]
    assert len(jobs) == count
    problems = [problem for job in jobs for problem in explain(job)]
    lost = lost_results(world, jobs)
    table = render(faults, jobs, lost)
    with capsys.disabled():
        print(f"\n{table}")
    if path := os.environ.get("ASSAY_FAULT_TABLE"):
        Path(path).write_text(table)
    assert not problems
    assert not lost
    assert all(job["summary"]["state"] in ("done", "cancelled") for job in jobs)


def explain(job) -> list[str]:
    """What the history of a job leaves unexplained: nothing, or a sentence for each thing."""
    name, state, fence, accepted, found = job["summary"]["id"], "", 0, 0, []
    for event in job["history"]:
        kind, told = event["kind"], event["detail"]
        if kind == "leased":
            if state != "pending" or told["fence"] <= fence:
                found.append(f"{name}: leased as {told['fence']} while {state} under {fence}")
            fence = told["fence"]
        if kind == "result accepted":
            accepted += 1
            if state != "running" or told["fence"] != fence:
                found.append(f"{name}: a result of lease {told['fence']} accepted while {state} under {fence}")
        state = STEPS.get(kind, state)
    if state != job["summary"]["state"]:
        found.append(f"{name}: the history ends {state}, the job is {job['summary']['state']}")
    if state not in ENDED or accepted != (state == "done"):
        found.append(f"{name}: {state} with {accepted} accepted results")
    if state == "done" and job["result"]["environment"]["fence"] != fence:
        found.append(f"{name}: the result kept is not that of lease {fence}")
    return found


def undelivered(world: World) -> list[str]:
    """Attempts with a result that still lie on a device."""
    return [str(path) for device in world.devices for path in device.state.rglob("result.json")]


def lost_results(world: World, jobs) -> list[str]:
    """Results that an agent had on disk and the server neither counted nor kept as evidence."""
    known = {(job["summary"]["id"], one["fence"]) for job in jobs for one in job["evidence"]}
    known |= {
        (job["summary"]["id"], event["detail"]["fence"])
        for job in jobs
        for event in job["history"]
        if event["kind"].startswith("result ")
    }
    written = [line.split() for line in world.ledger.read_text().splitlines()]
    return [f"{job} under lease {fence}" for job, fence in written if (job, int(fence)) not in known]


def render(faults: Faults, jobs, lost: list[str]) -> str:
    """The table that says what was done and what came of it."""
    kinds = Counter(event["kind"] for job in jobs for event in job["history"])
    states = Counter(job["summary"]["state"] for job in jobs)
    accepted = Counter(job["summary"]["id"] for job in jobs for e in job["history"] if e["kind"] == "result accepted")
    rows = [(f"fault: {name}", count) for name, count in sorted(faults.injected.items())]
    rows += [("jobs", len(jobs)), *((f"jobs {state}", count) for state, count in sorted(states.items()))]
    rows += [
        ("results counted", sum(accepted.values())),
        ("jobs with more than one result counted", sum(count > 1 for count in accepted.values())),
    ]
    rows += [
        ("late results kept as evidence", kinds["result late"]),
        ("repeated results kept as evidence", kinds["result repeated"]),
        ("results lost", len(lost)),
        ("leases given", kinds["leased"]),
        ("leases expired", kinds["lease expired"]),
        ("attempts that crashed", kinds["attempt crashed"]),
        ("leases given back", kinds["released"]),
    ]
    lines = [f"| {name} | {count} |" for name, count in rows]
    return "\n".join([f"seed {SEED}", "", "| what | how many |", "|---|---:|", *lines, ""])


def test_the_checks_of_this_test_can_fail():
    job = {"summary": {"id": "j", "state": "done"}, "result": {"environment": {"fence": 1}}, "evidence": []}
    good = [
        {"kind": "submitted", "detail": {}},
        {"kind": "leased", "detail": {"fence": 1}},
        {"kind": "result accepted", "detail": {"fence": 1}},
    ]
    assert explain({**job, "history": good}) == []
    assert explain({**job, "history": [*good, good[-1]]})
    assert explain({**job, "history": good[:2]})
    assert explain({**job, "history": [good[0], good[2]]})
    assert json.dumps(good)
