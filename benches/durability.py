"""What it costs that an acknowledged result is on disk: results per second, and how long a delivery takes."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import httpx
import numpy as np
from tests.support.running_server import ServerProcess, wait_for

from assay.documents import to_plain
from assay.place.fleet.protocol import Enrolment
from assay.run.records import SampleSet
from benches.figures import median_of, ratio_of
from benches.fleet import benchmark, first_job, small_result
from benches.page import Page, Table
from benches.processes import CONTESTANTS, contest, there_and_back
from benches.servers import ADMIN, PROFILE, agent_token, workspace

MODES = {
    "unsynced": "before: synced at checkpoints only",
    "full": "each commit synced by SQLite (`FULL`)",
    "shared": "**assay**: one sync for all that wait",
}
_TITLE = "Durable results"
_ABOUT = """\
What it costs that a server on SQLite answers only when what it acknowledges is on disk. The same server takes
results over HTTP in three ways: as it did before (a power cut could take acknowledged results), with SQLite's own
`synchronous = FULL`, and as it does now: commits are written, then one sync of the log serves all answers that wait."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much of it."""

    results: int = 300
    connections: tuple[int, ...] = (1, 8, 32)
    rounds: int = 5
    commits: int = 500


QUICK = Size(results=60, connections=(1, 8), rounds=2, commits=100)


class _Server(ServerProcess):
    """`assay serve` with one way to commit."""

    def __init__(self, folder: Path, mode: str) -> None:
        self._mode = mode
        super().__init__(folder, environment={"ASSAY_SERVER_TOKEN": ADMIN})

    def start(self) -> None:
        """Start it."""
        command = [sys.executable, str(CONTESTANTS / "serve_with.py"), self._mode, "serve"]
        command += ["--port", str(self.port), "--store", str(self.folder)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=self._environment)
        wait_for(self._is_there, what="the server's start")


def bench(*, quick: bool = False) -> Page:
    """Deliver results to servers that commit in different ways, then time commits alone."""
    size = QUICK if quick else Size()
    delivered = [row for connections in size.connections for row in _delivery_rows(connections, size)]
    return Page("durability", _TITLE, _ABOUT, [_delivery_table(delivered, size), _commit_table(size)])


def _delivery_rows(connections: int, size: Size) -> list[list[str]]:
    found: dict[str, list[dict[str, Any]]] = {mode: [] for mode in MODES}
    for number, mode in enumerate(there_and_back(tuple(MODES), size.rounds)):
        with workspace() as folder:
            server = _Server(folder, mode)
            try:
                found[mode].append(_deliver(server, connections, size.results, number))
            finally:
                server.stop()
    before = [size.results / one["seconds"] for one in found["unsynced"]]
    rows = []
    for mode, words in MODES.items():
        rates = [size.results / one["seconds"] for one in found[mode]]
        took = np.concatenate([one["took_s"] for one in found[mode]]) * 1e3
        share = "" if mode == "unsynced" else ratio_of(rates, before).text(2)
        rows.append(
            [
                str(connections),
                words,
                median_of(rates).text(0),
                share,
                *(f"{np.percentile(took, one):.1f}" for one in (50, 99)),
            ]
        )
    return rows


def _deliver(server: ServerProcess, connections: int, results: int, number: int) -> dict[str, Any]:
    document = benchmark(f"durable-{number}", results)
    headers = {"Authorization": f"Bearer {ADMIN}"}
    url = f"{server.url}/api/v1/campaigns"
    httpx.post(url, json={"document": document}, headers=headers, trust_env=False, timeout=60).raise_for_status()
    few = np.arange(50)
    sets = (SampleSet("latency_ms", "measure", few * 10_000_000, 10.0 + 0.01 * few),)
    settings = {
        "url": server.url,
        "token": agent_token(server.url),
        "results": results,
        "connections": connections,
        "result": small_result(first_job(document), sets),
        "enrolment": to_plain(Enrolment("sender", "sender", PROFILE)),
    }
    path = server.folder / "settings.json"
    path.write_text(json.dumps(settings))
    return contest("deliver_http", path)


def _delivery_table(rows: list[list[str]], size: Size) -> Table:
    how = (
        f"{size.results} results of 3 kB on one server process with SQLite, each delivered by its own request; fresh "
        f"server and folder for each of {size.rounds} rounds, the ways in turn. Results per second: median of the "
        "rounds with its 95 % interval (the range, where rounds are few). Times: over all deliveries."
    )
    notes = [
        how,
        "A delivery is several commits: the result, its history, its series. Only the answer waits for the disk, once.",
    ]
    columns = ["connections", "way to commit", "results/s", "of before", "p50, ms", "p99, ms"]
    return Table("Results delivered over HTTP", columns, rows, notes)


def _commit_table(size: Size) -> Table:
    rows = []
    with workspace() as folder:
        for words, synchronous in (("not synced (`NORMAL`)", "NORMAL"), ("synced (`FULL`)", "FULL")):
            took = _commits(folder / f"{synchronous}.db", synchronous, size.commits)
            rows.append([words, *(f"{np.percentile(took, one) * 1e3:.3f}" for one in (50, 99))])
        took = _syncs(folder / "plain", size.commits)
        rows.append(
            ["4 kB appended to a file, and fsync", *(f"{np.percentile(took, one) * 1e3:.3f}" for one in (50, 99))]
        )
    notes = [f"{size.commits} each, one after the other, 3 kB in one row. This is the disk: the floor of every answer."]
    return Table("One commit", ["what", "p50, ms", "p99, ms"], rows, notes)


def _commits(path: Path, synchronous: str, count: int) -> list[float]:
    connection = sqlite3.connect(path, isolation_level=None)
    for words in ("PRAGMA journal_mode = WAL", f"PRAGMA synchronous = {synchronous}", "CREATE TABLE t (x TEXT)"):
        connection.execute(words)
    took = []
    for _ in range(count):
        begin = perf_counter()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO t VALUES (?)", ("x" * 3000,))
        connection.execute("COMMIT")
        took.append(perf_counter() - begin)
    connection.close()
    return took


def _syncs(path: Path, count: int) -> list[float]:
    took = []
    with path.open("wb", buffering=0) as file:
        for _ in range(count):
            begin = perf_counter()
            file.write(bytes(4096))
            os.fsync(file.fileno())
            took.append(perf_counter() - begin)
    return took
