"""One turn of a load generator against the simulated server: what it used, what it said, what the server saw."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.simulated import Simulated

from benches.load_clients import Ask, Client, Said, cores
from benches.processes import BUILD, CONTESTANTS, ENVIRONMENT, PeerError

_LIMIT_S = 300.0
# The limit is kept by the one that watches the tree; this much later it is given up itself.
_GRACE_S = 30.0


@dataclass(frozen=True, slots=True)
class Used:
    """What a command and all that it started used."""

    begin_ns: int
    """When it was started, by the clock of the server's record."""
    wall_s: float
    cpu_s: float
    peak_mb: float
    """The most at once of the whole tree, shared memory counted in parts; 0 where nobody looked."""
    processes: int
    """How many there were at that moment."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One run of one client."""

    used: Used
    said: Said
    answered: int
    """Answers that the server gave to their end."""

    @property
    def per_cpu_s(self) -> float:
        """Answers for each second of processor time, the start included."""
        return self.answered / self.used.cpu_s


def play(client: Client, ask: Ask, sim: Simulated, *, look_s: float = 0.0, limit_s: float = _LIMIT_S) -> Turn:
    """Let a client do what is asked.

    Raises:
        PeerError: if it fails, says nothing that can be read, or the server gave fewer answers than were asked for.
    """
    sim.clear()
    before = answered(sim)
    with workspace() as folder:
        command = client.command(ask, folder)
        used = tree(command, folder, client.environment, look_s=look_s, limit_s=limit_s)
        try:
            said = client.said(folder)
        except (OSError, ValueError, KeyError, IndexError, TypeError) as problem:
            raise PeerError(f"its report cannot be read: {type(problem).__name__}: {problem}") from None
    gave = answered(sim) - before
    if not client.name.startswith("wrk") and gave < ask.requests:
        raise PeerError(f"the server gave {gave:,} answers where {ask.requests:,} were asked for")
    return Turn(used, said, gave)


def tree(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str] | None = None,
    *,
    look_s: float = 0.0,
    limit_s: float = _LIMIT_S,
) -> Used:
    """Run a command on the client's core, and say what its whole tree used.

    Raises:
        PeerError: if it fails or takes too long.
    """
    script = str(CONTESTANTS / "load_tree.py")
    words = [sys.executable, script, str(cores()[1]), str(look_s), str(limit_s), str(folder), *command]
    settings = {**os.environ, **ENVIRONMENT, **(environment or {})}
    done = subprocess.run(words, capture_output=True, text=True, env=settings, cwd=folder, timeout=limit_s + _GRACE_S)
    if done.returncode:
        raise PeerError(done.stderr.strip().splitlines()[-1])
    seen = json.loads(done.stdout)
    if seen["rc"]:
        why = "took longer than it may" if seen["rc"] == 124 else f"ended with {seen['rc']}: {_last_words(folder)}"
        raise PeerError(f"{Path(command[0]).name} {why}")
    peak_mb = seen["peak_bytes"] / 1e6
    return Used(seen["begin_ns"], seen["wall_s"], seen["cpu_s"], peak_mb, seen["peak_processes"])


def usable(clients: Sequence[Client], trial: Callable[[Client], object]) -> tuple[list[Client], dict[str, str]]:
    """Those that can do something once, and the reasons of those that cannot."""
    found, absent = [], {}
    for client in clients:
        try:
            trial(client)
        except PeerError as problem:
            absent[client.name] = str(problem)
        else:
            found.append(client)
    return found, absent


def answered(sim: Simulated) -> int:
    """Answers that the server has given since it was started."""
    count: int = sim.state()["outcomes"]["ok"]
    return count


@contextmanager
def workspace() -> Iterator[Path]:
    """A folder that is gone afterwards."""
    BUILD.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="load-", dir=BUILD))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _last_words(folder: Path) -> str:
    for name in ("err.txt", "out.txt"):
        lines = [line.strip() for line in (folder / name).read_text(errors="replace").splitlines() if line.strip()]
        if lines:
            return lines[-1][:300]
    return "it said nothing"
