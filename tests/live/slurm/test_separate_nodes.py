"""Nodes that are separate hosts: services are reached over their network, and a node that is cut off is told."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from tests.live.slurm.conftest import Site
from tests.support.lacking import lacking as refuse
from tests.support.separate_nodes import SeparateNodes
from tests.support.slurm_cluster import PATH, lacking

pytestmark = pytest.mark.live
# The controller looks after a node that is down in a few rounds only: between no time and a minute and a half.
BACK_S = 300.0
LLM = "assay sim llm --host {host} --port {port} --ttft 5ms --itl 1ms --tokens 8"


@pytest.fixture(scope="module")
def hosts() -> Iterator[SeparateNodes]:
    """Three nodes that share nothing but the file system."""
    if why := lacking() or ("" if shutil.which("ip", path=PATH) else "no `ip` to lay cables with"):
        refuse("SLURM", why)
    folder = Path(tempfile.mkdtemp(prefix="assay-hosts-"))
    folder.chmod(0o755)
    cluster = SeparateNodes(folder)
    try:
        cluster.start()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SLURM_CONF", str(cluster.conf))
            patch.setenv("PATH", PATH)
            yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


def test_a_service_is_reached_from_another_host_by_its_own_address(hosts, tmp_path):
    site = Site(hosts, tmp_path)
    document = {
        "benchmark": "served",
        "services": {"llm": {"command": LLM, "ready": {"http": "/health", "within": "60s"}}},
        "target": {"service": "llm", "api": "openai-chat", "model": "sim"},
        "workload": {"output_tokens": 8},
        "load": {"concurrency": 2, "duration": "2s"},
        "measure": {"runs": 1, "warmup": "none", "timeout": "60s"},
        "place": {
            "engine": "slurm",
            "slurm": {
                "time": "10m",
                "memory": "500MB",
                "clients": 2,
                "exclusive": True,
                "each": {"llm": {"options": ["--nodelist=n1"]}},
            },
        },
    }
    process = site.start(document, "--fail-on", "never", "--out", str(site.folder / "out"))
    assert process.wait(120) == 0, site.said()
    campaign = site.newest()
    whole, *parts = json.loads((site.folder / "out" / f"{campaign}.json").read_text())["jobs"]
    told = [part["environment"]["slurm"] for part in parts]
    assert sorted(one["node"] for one in told) == ["n2", "n3"], told
    assert told[0]["services"]["llm"]["node"] == "n1"
    (published,) = site.shared(campaign).glob("services/*/llm.json")
    assert json.loads(published.read_text())["host"] == hosts.address("n1")
    assert whole["runs"][0]["sample_counts"]["e2e_ms"] > 20


# Slurm's own timers, of up to five minutes; test_live.py sees a node that is lost.
@pytest.mark.nightly
def test_a_node_that_is_cut_off_ends_its_job_and_comes_back_clean(hosts, tmp_path):
    site = Site(hosts, tmp_path)
    document = site.document("sleep 300; echo x=3", slurm={"options": ["--nodelist=n3", "--no-requeue"]})
    process = site.start(document, "--fail-on", "never")
    campaign = site.newest()
    site.until("the job runs", lambda: site.running(campaign, "jobs-0"))
    hosts.pull_cable("n3")
    try:
        assert process.wait(120) == 3, site.said()
        (job,) = site.jobs(campaign)
        assert job.error is not None
        assert job.error.code == "slurm-node-fail"
        assert "n3" in job.error.message
        assert site.queue(campaign) == []
    finally:
        hosts.plug_in("n3")
    # It comes back by itself, and says then what still runs there; one that is put back by hand is not asked.
    site.until("the node is back", lambda: hosts.states()["n3"] == "idle", BACK_S)
    site.until("the job ends when its node came back", lambda: not sleeping(hosts), BACK_S)
    hosts.clear()


def sleeping(hosts) -> list[psutil.Process]:
    found = []
    for one in hosts.processes():
        with suppress(psutil.Error):
            found += [one] if "sleep" in one.name() else []
    return found
