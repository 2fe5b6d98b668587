"""What a load generator costs before and beside its load: time to its first request, and memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tests.support.simulated import Simulated, http_server, llm_server

from benches import load_clients
from benches.figures import median_of
from benches.load_clients import Ask, Client, assay_command, cores
from benches.load_play import Turn, play, tree, workspace
from benches.page import Page, Table
from benches.processes import PeerError

START_S, MEMORY_MB, MILLION_MB = 1.0, 100.0, 500.0
REQUESTS, USERS, TOKENS = 2_000, 64, 32
_POLL_S = 0.05
# A million answers take minutes; the run may take half an hour before it is given up.
_LONG_S = 1_800.0


@dataclass(frozen=True, slots=True)
class Seen:
    """One run: the time to its first request, and the most memory of its tree."""

    start_s: float
    turn: Turn


def bench(*, quick: bool = False) -> Page:
    """Runs as people make them, then ever longer ones."""
    peers, absent = load_clients.peers()
    peers = [one for one in peers if not (quick and one.slow)]
    with llm_server(cpu=cores()[0], tokens=TOKENS, flush="each") as sim:
        tables = [_normal(sim, peers, absent, quick=quick)]
    with http_server(cpu=cores()[0], no_record=True) as sim:
        tables.append(_long(sim, (5_000, 20_000) if quick else (10_000, 100_000, 1_000_000)))
    return Page("load_cost", _TITLE, _ABOUT, tables)


def _normal(sim: Simulated, peers: Sequence[Client], absent: dict[str, str], *, quick: bool) -> Table:
    requests, rounds = (500, 2) if quick else (REQUESTS, 7)
    ours = load_clients.ours()
    _run(sim, ours, requests)  # what is measured once on a machine is measured here
    starts = [_run(sim, ours, requests).start_s for _ in range(rounds)]
    seen = [_run(sim, ours, requests, look_s=_POLL_S) for _ in range(max(2, rounds // 2))]
    rows = [_row("**assay run**", starts, seen, judged=True)]
    for peer in peers:
        try:
            _run(sim, peer, USERS)
            found = [_run(sim, peer, requests, look_s=_POLL_S) for _ in range(1 if quick else 2)]
        except PeerError as problem:
            rows.append([peer.name, f"not measured: {problem}", "", "", "", "", ""])
        else:
            rows.append(_row(peer.name, [one.start_s for one in found], found))
    rows += [[name, f"not measured: {reason}", "", "", "", "", ""] for name, reason in absent.items()]
    columns = [
        "client",
        "start to first request, s",
        f"< {START_S:g} s",
        "peak of the tree, MB",
        "processes then",
        f"< {MEMORY_MB:g} MB",
        "whole command, s",
    ]
    notes = [
        (
            f"{requests:,} streamed answers of {TOKENS} tokens, {USERS} at a time, a server as fast as it can be. The "
            "first request is the first that the server's record has; the clock starts just before the command does. A "
            "run before fills caches."
        ),
        (
            f"Memory: the sum over the client's process tree of resident pages, those that processes share counted in "
            f"parts (PSS), looked at every {1000 * _POLL_S:.0f} ms. Ours: {rounds} rounds for the start, without "
            f"anybody looking, and {max(2, rounds // 2)} for the memory."
        ),
    ]
    return Table("A normal run", columns, rows, notes)


def _run(sim: Simulated, client: Client, requests: int, *, look_s: float = 0.0) -> Seen:
    turn = play(client, Ask(sim.url, TOKENS, requests, USERS), sim, look_s=look_s)
    return Seen((int(sim.records().arrival_ns.min()) - turn.used.begin_ns) / 1e9, turn)


def _row(name: str, starts: Sequence[float], seen: Sequence[Seen], *, judged: bool = False) -> list[str]:
    start, peak = median_of(starts), median_of([one.turn.used.peak_mb for one in seen])
    whole = median_of([one.turn.used.wall_s for one in seen])
    return [
        name,
        start.text(2),
        start.below(START_S) if judged else "",
        peak.text(0),
        f"{np.median([one.turn.used.processes for one in seen]):.0f}",
        peak.below(MEMORY_MB) if judged else "",
        whole.text(1),
    ]


def _long(sim: Simulated, counts: Sequence[int]) -> Table:
    rows = []
    for requests in counts:
        with workspace() as folder:
            used = tree(
                _plain(sim, requests, folder), folder, load_clients.ours().environment, look_s=_POLL_S, limit_s=_LONG_S
            )
        last = requests == counts[-1]
        verdict = median_of([used.peak_mb]).below(MILLION_MB) if last else ""
        rate = requests / used.cpu_s
        rows.append([f"{requests:,}", f"{used.peak_mb:.0f}", f"{used.wall_s:.0f}", f"{rate:,.0f}", verdict])
    columns = ["requests", "peak of the tree, MB", "whole command, s", "requests per CPU s", f"< {MILLION_MB:g} MB"]
    notes = [
        (
            f"`api: http`, small answers, {USERS} at a time, one run, no warm-up, every request a row in the stored "
            "result. Memory as above."
        )
    ]
    return Table("Ever longer runs of assay", columns, rows, notes)


def _plain(sim: Simulated, requests: int, folder: Path) -> list[str]:
    file = {
        "benchmark": "many",
        "target": {"endpoint": sim.url, "api": "http", "path": "/", "body": {"ask": "$prompt"}},
        "load": {"concurrency": USERS, "requests": requests},
        "measure": {"runs": 1, "warmup": "none", "timeout": f"{_LONG_S:.0f}s"},
    }
    return assay_command(folder, file)


_TITLE = "Cost of the load generator"
_ABOUT = """What a load generator takes before its first request, and how much memory its processes hold: a client that
is heavy measures itself."""
