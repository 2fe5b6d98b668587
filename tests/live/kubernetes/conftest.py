"""Somebody with a kubeconfig: a store, a cluster of the tests, and campaigns of small commands on it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep

import pytest
from tests.support.kube.cluster import IMAGE, PATIENCE_S, KubeCluster

from assay.analyse.records import CampaignRecord, MultiRunJobResult
from assay.api.run import run
from assay.clock import SYSTEM_CLOCK
from assay.engines.base import engine_in
from assay.engines.drive import attach, cancel
from assay.report.live import PlainView
from assay.report.result import read_campaign
from assay.spec.load import load
from assay.store.store import Store

# A file lets it end: no test depends on how fast the machine is.
WAITS = "echo begun; touch {folder}/begun.$$; while [ ! -e {folder}/go ]; do sleep 0.05; done; echo x=3"
QUICK = {"runs": 1, "timeout": "10m", "probe": "off", "control": False}


@dataclass
class Followed:
    """A campaign that a thread follows."""

    said: io.StringIO = field(default_factory=io.StringIO)
    record: CampaignRecord | None = None
    failure: BaseException | None = None
    thread: threading.Thread | None = None

    def end(self) -> CampaignRecord:
        """Its results, once it has ended."""
        assert self.thread is not None
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive(), f"not within {PATIENCE_S:g} s\n{self.said.getvalue()}"
        if self.failure is not None:
            raise self.failure
        assert self.record is not None
        return self.record

    def job(self) -> MultiRunJobResult:
        """The result of its only job."""
        (one,) = self.end().jobs
        return one


@dataclass
class Site:
    """Somebody who runs benchmarks on the cluster."""

    kube: KubeCluster
    folder: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def store(self) -> Path:
        return self.folder / "store"

    def document(self, command: str = "echo x=3", **more) -> dict:
        """A benchmark of one small command."""
        kubernetes = {"image": IMAGE, **more.pop("kubernetes", {})}
        return {
            "benchmark": "small",
            "target": {"command": ["/bin/sh", "-c", command], "metrics": [{"name": "x", "pattern": r"x=(\d+)"}]},
            "measure": QUICK,
            "place": {"engine": "kubernetes", "kubernetes": kubernetes},
            **more,
        }

    def waiting(self, points: int = 1, **more) -> dict:
        """One whose runs wait until the test lets them go."""
        document = self.document(WAITS.format(folder=self.folder), **more)
        return {**document, "matrix": {"target.env.N": [str(number) for number in range(points)]}}

    def go(self) -> None:
        """Let them end."""
        (self.folder / "go").touch()

    # In this process

    def run(self, document: dict, **more) -> Followed:
        """Begin `assay run` in a thread."""
        loaded = load(document, base=self.folder)
        return self._begin(lambda view: run(loaded, store=self.store, view=view, **more).record)

    def attach(self, campaign: str) -> Followed:
        """Come back to a campaign."""
        return self._begin(
            lambda view: self._with_store(lambda store: attach(self._opened(store, campaign, view), view).record)
        )

    def cancel(self, campaign: str) -> Followed:
        """End one."""

        def act(store: Store, view: PlainView):
            cancel(self._opened(store, campaign, view), view)
            return read_campaign(store, campaign)

        return self._begin(lambda view: self._with_store(lambda store: act(store, view)))

    def _opened(self, store: Store, campaign: str, view: PlainView):
        return engine_in(store.folder, campaign).open(store, campaign, view, SYSTEM_CLOCK)

    def _begin(self, act) -> Followed:
        followed = Followed()

        def work() -> None:
            try:
                followed.record = act(PlainView(followed.said))
            except BaseException as failure:
                followed.failure = failure

        followed.thread = threading.Thread(target=work, daemon=True)
        followed.thread.start()
        return followed

    # As a command

    def assay(self, *words: str) -> subprocess.Popen[bytes]:
        """Run the command as a person does."""
        environ = {**os.environ, "ASSAY_STORE": str(self.store)}
        log = (self.folder / "said.log").open("ab")
        process = subprocess.Popen([sys.executable, "-m", "assay", *words], env=environ, stdout=log, stderr=log)
        self.processes.append(process)
        return process

    def start(self, document: dict, *words: str) -> subprocess.Popen[bytes]:
        """Begin `assay run`."""
        file = self.folder / f"{len(list(self.folder.glob('*.json')))}.json"
        file.write_text(json.dumps(document))
        return self.assay("run", str(file), *words)

    def said(self) -> str:
        return (self.folder / "said.log").read_text()

    # What there is

    def newest(self) -> str:
        """The newest campaign, once there is one."""
        self.until("there is a campaign", lambda: self.store.is_dir() and self._with_store(lambda one: one.campaigns()))
        return self._with_store(lambda store: store.campaigns()[0].id)

    def jobs(self, campaign: str) -> tuple[MultiRunJobResult, ...]:
        """The results as the store has them."""
        return self._with_store(lambda store: read_campaign(store, campaign).jobs)

    def state(self, campaign: str) -> str:
        return self._with_store(lambda store: store.campaign(campaign)[0].state)

    def file(self, job: str, name: str, run_id: int = 0) -> str:
        """A file that was kept with a run."""

        def read(store: Store) -> str:
            path = store.file_of(job, run_id, name)
            assert path is not None, name
            return path.read_text()

        return self._with_store(read)

    def running(self, **labels: str) -> list[dict]:
        """Pods that run, once there is one."""
        return self.kube.until(f"a pod {labels} runs", lambda: self.kube.running(**labels))

    def begun(self, count: int = 1) -> list[dict]:
        """The measuring pods, once so many commands have begun."""
        self.until(f"{count} commands have begun", lambda: len(list(self.folder.glob("begun.*"))) >= count)
        return self.kube.running(role="job")

    def until(self, what: str, holds) -> None:
        until_s = monotonic() + PATIENCE_S
        while not holds():
            assert self.kube.failure is None, self.kube.failure
            assert monotonic() < until_s, f"{what}: not within {PATIENCE_S:g} s"
            sleep(0.05)

    def _with_store(self, act):
        store = Store(self.store)
        try:
            return act(store)
        finally:
            store.close()


@pytest.fixture
def site(kube: KubeCluster, tmp_path: Path) -> Iterator[Site]:
    """Somebody who runs benchmarks on a cluster of its own; nothing is left there afterwards."""
    found = Site(kube, tmp_path)
    yield found
    for one in found.processes:
        if one.poll() is None:
            one.kill()
        one.wait()
