"""What a server has acknowledged is on its disk: a power cut takes everything that was never synced."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from tests.live.serve.setups import Agent, benchmark, is_problem, submit
from tests.support.running_server import PATIENCE_S

from assay.clock import SYSTEM_CLOCK
from assay.store.listing import Listing
from assay.store.store import DATABASE, Store
from assay.store.tokens import TokenStore

SHIM = Path(__file__).with_name("power_cut.c")


@pytest.fixture
def synced(tmp_path):
    """A folder that gets what was synced, and the environment that makes it so."""
    if sys.platform != "linux" or shutil.which("gcc") is None:
        pytest.skip("needs Linux and gcc, to see what is synced")
    folder, library = tmp_path / "synced", tmp_path / "power_cut.so"
    folder.mkdir()
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, SHIM, "-ldl", "-lpthread"], check=True)
    return folder, {"LD_PRELOAD": str(library), "SYNCED": str(folder)}


def cut_power(synced: Path, into: Path) -> Store:
    """The store as the disk has it: the last content of each file that was synced."""
    into.mkdir()
    for name in (DATABASE, f"{DATABASE}-wal"):
        if (synced / name).exists():
            shutil.copy(synced / name, into / name)
    return Store(into)


@pytest.mark.live
def test_what_was_acknowledged_is_there_after_a_power_cut(serve_process, synced, tmp_path):
    folder, environment = synced
    server = serve_process(**environment)
    with httpx.Client(base_url=f"{server.url}/api/v1", timeout=PATIENCE_S, trust_env=False) as client:
        campaign = submit(client, benchmark(batches=(1, 2)))["id"]
        after_submit = cut_power(folder, tmp_path / "after submit")
        agent = Agent(client)
        lease = agent.lease()
        after_lease = cut_power(folder, tmp_path / "after lease")
        token = client.post("/tokens", json={"name": "ci", "role": "reader"}).json()["token"]["id"]
        after_token = cut_power(folder, tmp_path / "after token")
        assert agent.deliver(lease).json() == {"delivery": "accepted"}
        after_result = cut_power(folder, tmp_path / "after result")
    assert Listing(after_submit.engine).campaign(campaign).id == campaign
    assert Listing(after_lease.engine).job(lease.job.id).summary.state == "running"
    assert [one.id for one in TokenStore(after_token.engine, SYSTEM_CLOCK).list()] == [token]
    assert Listing(after_result.engine).job(lease.job.id).summary.state == "done"
    for store in (after_submit, after_lease, after_token, after_result):
        store.close()


@pytest.mark.live
def test_an_answer_that_cannot_be_made_durable_is_no_success(server, monkeypatch):
    submit(server.client)

    def broken(fd):
        if Path(f"/proc/self/fd/{fd}").readlink().name.endswith("-wal"):
            raise OSError(5, "Input/output error")
        return real(fd)

    real = os.fsync
    monkeypatch.setattr(os, "fsync", broken)
    for _ in range(2):  # a second sync that works does not bring back what the first one lost
        refused = is_problem(server.client.post("/campaigns", json={"document": benchmark()}), 507, "disk")
        assert "Input/output error" in refused["detail"]
        monkeypatch.setattr(os, "fsync", real)
    assert server.client.get("/campaigns").status_code == 200
