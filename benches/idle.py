"""What an agent that waits for work costs its machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

import httpx
import psutil

from benches.page import Page, Table
from benches.processes import PeerError
from benches.servers import ADMIN, agent_token, assay_server, workspace

RESIDENT_MB, CORE_SHARE = 80, 0.005
_EVERY_S = 0.05
_PATIENCE_S = 60.0
# After it has said who it is, it gets this long to put its things away.
_SETTLE_S = 5.0


@dataclass(frozen=True, slots=True)
class Watched:
    """Figures of an agent with all its children."""

    processes: int
    threads: int
    resident_mb: float
    """The most of all of them together, of many looks."""
    own_share_mb: float
    """Where memory that several processes share is counted in parts."""
    cpu_share: float
    switches_s: float


def bench(*, quick: bool = False) -> Page:
    """Watch a real agent and a real server with nothing to do."""
    idle_s = 10.0 if quick else 60.0
    with (
        workspace() as folder,
        assay_server(folder / "server") as server,
        _agent(folder, server.url) as (agent, start_mb),
    ):
        sleep(_SETTLE_S)
        seen = _watch(agent, idle_s)
        peak_mb = _kilobytes(agent.pid, "VmHWM") / 1000
    rows = [
        [
            "resident, the most while it waited",
            f"{seen.resident_mb:.1f} MB",
            f"< {RESIDENT_MB} MB",
            _below(seen.resident_mb, RESIDENT_MB),
        ],
        ["shared memory counted in parts (PSS), at the end", f"{seen.own_share_mb:.1f} MB", "", ""],
        [
            "resident, the most of the agent's own process since its start",
            f"{peak_mb:.1f} MB",
            f"< {RESIDENT_MB} MB",
            _below(peak_mb, RESIDENT_MB),
        ],
        ["resident, the most with children while it started", f"{start_mb:.1f} MB", "", ""],
        [
            "processor",
            f"{100 * seen.cpu_share:.2f} % of a core",
            f"< {100 * CORE_SHARE:g} %",
            _below(seen.cpu_share, CORE_SHARE),
        ],
        ["context switches", f"{seen.switches_s:.1f} per second", "", ""],
        ["processes, threads", f"{seen.processes}, {seen.threads}", "", ""],
    ]
    notes = [
        (
            f"`assay agent start` with a token against `assay serve`, watched for {idle_s:g} s from "
            f"{_SETTLE_S:g} s after it had enrolled. Sums over the agent and all its children, from /proc, every "
            f"{1000 * _EVERY_S:g} ms; processor time by the scheduler's own count."
        ),
        "While it starts, it tries the runtimes of the machine in another process, which then ends: the second peak.",
        "It sends a heartbeat every 10 s and holds a request for a job open.",
    ]
    table = Table("An agent that waits", ["what", "figure", "target", "kept"], rows, notes)
    return Page("idle", "What an idle agent costs", _ABOUT, [table])


@contextmanager
def _agent(folder: Path, url: str) -> Iterator[tuple[psutil.Process, float]]:
    """A running agent that has enrolled, and the most memory that it took so far."""
    environment = {**os.environ, "ASSAY_TOKEN": agent_token(url)}
    command = [sys.executable, "-m", "assay", "agent", "start", "--server", url, "--state", str(folder / "agent")]
    with (folder / "agent.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=folder)
    try:
        agent = psutil.Process(process.pid)
        yield agent, _until_enrolled(agent, url, folder / "agent.log")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(_PATIENCE_S)


def _until_enrolled(agent: psutil.Process, url: str, log: Path) -> float:
    most, until = 0.0, monotonic() + _PATIENCE_S
    with httpx.Client(headers={"Authorization": f"Bearer {ADMIN}"}, trust_env=False) as client:
        while not client.get(f"{url}/api/v1/agents").json()["items"]:
            if monotonic() > until or not agent.is_running() or agent.status() == psutil.STATUS_ZOMBIE:
                raise PeerError(f"the agent did not enrol: {log.read_text()[-500:]}")
            most = max(most, _resident_mb(agent))
            sleep(_EVERY_S)
    return most


def _watch(agent: psutil.Process, seconds: float) -> Watched:
    known: dict[int, tuple[int, int]] = {}
    before, begin, most = _spent(agent, known), monotonic(), 0.0
    while monotonic() - begin < seconds:
        most = max(most, _resident_mb(agent))
        _spent(agent, known)
        sleep(_EVERY_S)
    after, wall_s = _spent(agent, known), monotonic() - begin
    tree = _tree(agent)
    return Watched(
        processes=len(tree),
        threads=sum(len(_tasks(one.pid)) for one in tree),
        resident_mb=most,
        own_share_mb=sum(_kilobytes(one.pid, "Pss", "smaps_rollup") for one in tree) / 1000,
        cpu_share=(after[0] - before[0]) / 1e9 / wall_s,
        switches_s=(after[1] - before[1]) / wall_s,
    )


def _spent(agent: psutil.Process, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """Nanoseconds on a processor and context switches, of all threads that were ever seen."""
    for process in _tree(agent):
        for task in _tasks(process.pid):
            try:
                running = int((task / "schedstat").read_text().split()[0])
                lines = (task / "status").read_text().splitlines()
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended meanwhile
            known[int(task.name)] = running, sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)
    return sum(one[0] for one in known.values()), sum(one[1] for one in known.values())


def _tree(agent: psutil.Process) -> list[psutil.Process]:
    return [agent, *agent.children(recursive=True)]


def _tasks(pid: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{pid}/task").iterdir())
    except FileNotFoundError:
        return []


def _resident_mb(agent: psutil.Process) -> float:
    return sum(_kilobytes(one.pid, "VmRSS") for one in _tree(agent)) / 1000


def _kilobytes(pid: int, name: str, file: str = "status") -> float:
    """A figure of /proc in kB of 1,000 bytes; 0 for a process that has ended."""
    try:
        lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return next((int(line.split()[1]) * 1.024 for line in lines if line.startswith(f"{name}:")), 0.0)


def _below(value: float, target: float) -> str:
    return "pass" if value < target else "**fail**"


_ABOUT = "What `assay agent start` takes from a machine while there is nothing to measure."
