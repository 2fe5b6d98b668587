"""A cluster that stays as it is between the tests of a module, and campaigns of small commands on it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

import pytest
from tests.support.slurm_cluster import PATH, PATIENCE_S, SlurmCluster

from assay.report.result import read_campaign
from assay.store.store import Store

METRICS = [{"name": "x", "pattern": "x=(.*)"}]


@dataclass
class Site:
    """A login node: a store, a folder, and the commands of Slurm."""

    slurm: SlurmCluster
    folder: Path

    @property
    def store(self) -> Path:
        return self.folder / "store"

    def document(self, command: str, **more) -> dict:
        slurm = {"time": "10m", "memory": "400MB", **more.pop("slurm", {})}
        return {
            "benchmark": "small",
            "target": {"command": ["/bin/sh", "-c", command], "metrics": METRICS},
            "measure": {"runs": 1, "timeout": "5m"},
            "place": {"engine": "slurm", "slurm": slurm},
            **more,
        }

    def start(self, document: dict, *words: str, path: Path | None = None) -> subprocess.Popen[bytes]:
        """Begin `assay run` as a person on the login node does."""
        file = self.folder / f"{len(list(self.folder.glob('*.json')))}.json"
        file.write_text(json.dumps(document))
        return self.assay("run", str(file), *words, path=path)

    def assay(self, *words: str, path: Path | None = None) -> subprocess.Popen[bytes]:
        """Run the command; programs in `path` are found before others of their name."""
        found = os.environ["PATH"] if path is None else f"{path}:{os.environ['PATH']}"
        environ = {**os.environ, "ASSAY_STORE": str(self.store), "PATH": found}
        log = (self.folder / "said.log").open("ab")
        return subprocess.Popen([sys.executable, "-m", "assay", *words], env=environ, stdout=log, stderr=log)

    def said(self) -> str:
        return (self.folder / "said.log").read_text()

    def newest(self) -> str:
        self.until("there is a campaign", lambda: self.store.is_dir() and self._campaigns())
        return self._campaigns()[0].id

    def jobs(self, campaign: str):
        """The results as the store has them."""
        store = Store(self.store)
        try:
            return read_campaign(store, campaign).jobs
        finally:
            store.close()

    def state(self, campaign: str) -> str:
        return next(one.state for one in self._campaigns() if one.id == campaign)

    def queue(self, campaign: str) -> list[tuple[str, str, str]]:
        """The batch jobs of a campaign that have not ended: number, state, name."""
        told = self.slurm.run("squeue", "--noheader", "--array", "--format=%i|%T|%j|%k")
        rows = [line.strip().split("|") for line in told.splitlines()]
        return [(row[0], row[1], row[2]) for row in rows if row[3].startswith(f"assay:{campaign}:")]

    def running(self, campaign: str, name: str) -> list[str]:
        return [number for number, state, own in self.queue(campaign) if own == name and state == "RUNNING"]

    def node(self, number: str) -> str:
        return self.slurm.run("squeue", "--noheader", f"--jobs={number}", "--format=%N").strip()

    def shared(self, campaign: str) -> Path:
        return self.store / "clusters" / campaign

    def until(self, what: str, holds, within_s: float = PATIENCE_S) -> None:
        until_s = monotonic() + within_s
        while not holds():
            assert monotonic() < until_s, f"{what}: not within {within_s:g} s\n{self.said()}"
            sleep(0.1)

    def _campaigns(self):
        store = Store(self.store)
        try:
            return store.campaigns()
        finally:
            store.close()


@pytest.fixture(scope="module")
def cluster(slurm_cluster: SlurmCluster) -> Iterator[SlurmCluster]:
    """The cluster, found by Slurm's commands, with no job in it before and after the module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", str(slurm_cluster.conf))
        patch.setenv("PATH", PATH)
        yield slurm_cluster
        slurm_cluster.clear()


@pytest.fixture
def site(cluster: SlurmCluster, tmp_path: Path) -> Site:
    """A person on the login node."""
    return Site(cluster, tmp_path)
