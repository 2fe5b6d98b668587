"""Schedules in real server processes, by the real clock: killed, restarted, and two on one database, each due time
fires once.

A due time falls on a full minute. So that nobody waits for many of them, the schedules were made before the last one,
and their jitter, which follows from the name, ends in the moment at which they are wanted.
"""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from tests.live.serve.setups import benchmark
from tests.support.ports import free_port
from tests.support.running_server import wait_for
from tests.unit.store.setups import FakeClock

from assay.place.fleet.protocol import Submission
from assay.plan.schedule import start_of
from assay.serve.settings import ServerSettings
from assay.serve.state import ServerState
from assay.serve.submission import keep_schedule, plan_submission
from assay.spec.schedule import Schedule

pytestmark = pytest.mark.live

ROOT = Path(__file__).resolve().parents[3]
PATIENCE_S = 120.0
NUMBERS = itertools.count()


def scheduled(name, cron, **section):
    """A benchmark whose campaigns end at once, as no agent is enrolled that could take their jobs."""
    return benchmark(name, (1,), schedule={"cron": cron, **section}, place={"fleet": {"unplaceable": "fail"}})


def make_due(folder: Path, count: int, in_s: float, url: str | None = None) -> set[str]:
    """Keep schedules that were made before the last full minute and all begin so many seconds from now; their names."""
    now = datetime.now(UTC)
    due, begin = now.replace(second=0, microsecond=0), now + timedelta(seconds=in_s)
    section = {"cron": f"{due.minute} {due.hour} * * *", "jitter": 120.0}
    schedule = Schedule.model_validate(section)
    names = (f"night {number}" for number in NUMBERS)
    wanted = (name for name in names if abs((start_of(schedule, name, due) - begin).total_seconds()) < 0.25)
    clock = FakeClock()
    clock.now = due - timedelta(minutes=1)
    state = ServerState(ServerSettings(folder=folder, database_url=url), clock)
    state.ensure_open()
    made = set()
    for name in itertools.islice(wanted, count):
        submission = Submission(document=scheduled(name, **section))
        made.add(keep_schedule(state, plan_submission(state, submission), submission, by="ann")[0].name)
    state.close()
    return made


class Server:
    """A server process of its own, which may be one that dies while it fires."""

    def __init__(self, folder: Path, url: str | None = None) -> None:
        self.folder, self.database, self.port = folder, url, free_port()
        self.url = f"http://127.0.0.1:{self.port}/api/v1"
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)

    def start(self, *death: str) -> None:
        """Start it; `death` says where and after how many firings it dies."""
        program = ("tests.live.serve.dying_server", *death) if death else ("assay", "serve")
        options = ["--port", str(self.port), "--store", str(self.folder)]
        options += ["--database-url", self.database] if self.database else []
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *program, *options], stdout=log, stderr=log, cwd=ROOT
            )

    def wait(self) -> None:
        """Wait until it answers."""
        wait_for(self._answers, PATIENCE_S, "the server's start")

    def get(self, path, **params):
        return httpx.get(f"{self.url}{path}", params=params, trust_env=False, timeout=60).json()

    def firings(self, schedule):
        return self.get(f"/schedules/{schedule}/firings", limit=500)["items"]

    def end(self, how: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(60)

    def is_dead(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    def _answers(self) -> bool:
        assert not self.is_dead(), (self.folder / "server.log").read_text()[-3000:]
        try:
            return self.get("/health")["status"] == "ok"
        except httpx.HTTPError:
            return False


@pytest.fixture(scope="module")
def servers():
    """A function that makes servers; those that still run at the end are killed."""
    made: list[Server] = []

    def make(*given):
        made.append(Server(*given))
        return made[-1]

    yield make
    for server in made:
        server.end(signal.SIGKILL)


@pytest.fixture(scope="module")
def pair(servers, tmp_path_factory, postgresql):
    """Two servers on one PostgreSQL, of which the first has died over its fourth firing; the second, and what was due.

    The time after which the second takes over, and the next full minute, come while the other test runs.
    """
    url, folder = postgresql.migrated(), tmp_path_factory.mktemp("pair")
    first, second = servers(folder, url), servers(folder, url)
    first.start("before", "3")
    second.start()
    first.wait()
    second.wait()
    minutely = scheduled("minutely", "* * * * *", missed="all", overlap="queue")
    made = httpx.post(f"{second.url}/schedules", json={"document": minutely}, trust_env=False, timeout=60)
    assert made.status_code == 201
    names: set[str] = set()
    until = time.monotonic() + PATIENCE_S
    while not first.is_dead():  # both are at it in the same moment, again and again
        assert time.monotonic() < until, "the first never came to its fourth firing"
        names |= make_due(folder, 10, in_s=1, url=url)
        time.sleep(2.5)
    return second, names


def fired(server, names):
    """What became of schedules that were due once, when all have ended; each has one firing, with its own campaign."""

    def ended():
        found = [server.firings(name) for name in names]
        return all(one and one[0]["outcome"] not in ("taken", "waiting") for one in found) and found

    found = wait_for(ended, PATIENCE_S, "the end of all firings")
    assert [len(one) for one in found] == [1] * len(names)
    firings = [one for (one,) in found]
    assert {one["outcome"] for one in firings} == {"submitted"}, firings
    return firings


def campaigns(server):
    """Benchmark → its campaigns."""
    listed = server.get("/campaigns", limit=500)["items"]
    assert len(listed) < 500
    return {
        name: [one["id"] for one in of]
        for name, of in itertools.groupby(
            sorted(listed, key=lambda one: one["benchmark"]), key=lambda one: one["benchmark"]
        )
    }


@pytest.mark.usefixtures("pair")
def test_a_server_that_is_killed_and_restarted_fires_each_due_time_once(servers, tmp_path):
    server = servers(tmp_path)
    server.start("inside", "3")  # in the transaction of its fourth firing
    server.wait()
    names = make_due(tmp_path, 12, in_s=2)
    wait_for(server.is_dead, PATIENCE_S, "its death")
    server.start("after", "3")  # when the campaign is kept and nobody was told
    wait_for(server.is_dead, PATIENCE_S, "its second death")
    server.start()
    server.wait()
    names |= make_due(tmp_path, 6, in_s=0.5)
    server.end(signal.SIGTERM)
    server.start()
    server.wait()
    firings = fired(server, sorted(names))
    assert campaigns(server) == {name: [one["campaign"]] for name, one in zip(sorted(names), firings, strict=True)}
    assert len({one["server"] for one in firings}) >= 3, "each of those that died had fired before"


def test_two_servers_on_one_postgresql_fire_once_and_one_takes_over_from_the_other(pair):
    server, names = pair
    firings = fired(server, sorted(names))
    every = campaigns(server)
    minutely = every.pop("minutely", [])
    assert every == {name: [one["campaign"]] for name, one in zip(sorted(names), firings, strict=True)}
    assert len({one["server"] for one in firings}) == 2
    check_minutes(server, minutely)


def check_minutes(server, known):
    """Each full minute since the schedule was made has one firing, and each firing one campaign."""
    wait_for(
        lambda: [one for one in server.firings("minutely") if one["outcome"] == "submitted"],
        PATIENCE_S,
        "a full minute",
    )
    history = server.firings("minutely")
    due = [one["due"] for one in reversed(history)]
    assert due == [due[0] + 60 * number for number in range(len(due))]
    assert due[0] % 60 == 0
    made = [one["campaign"] for one in history if one["outcome"] == "submitted"]
    assert len(made) == len(set(made))
    assert set(known) <= set(made)
    assert sum(one["outcome"] not in ("submitted", "taken", "waiting") for one in history) == 0, history
