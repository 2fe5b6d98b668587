"""Benchmark AI's samples on a real Kubernetes, from their descriptors to the results in the store."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import httpx
import pytest
from tests.support.ports import free_port
from tests.tiers.kubernetes.kubernetes_cluster import IMAGE, NODES, ROOT
from tests.tiers.kubernetes.real_node import NODES_NETWORK
from tests.tiers.kubernetes.site import Site

SAMPLES = ROOT / "tests" / "fixtures" / "benchmark_ai"
# The image of their descriptors, which would come from a registry; ours holds the samples too.
THEIRS = "docker.io/assay/benchmark-ai-fixtures:1"
INSTANCE = "node.kubernetes.io/instance-type"
OURS = ("--set", f"place.kubernetes.image={IMAGE}")


@pytest.fixture
def folder(site: Site) -> Iterator[Path]:
    """The descriptors in a folder of their own, and nodes of the instance type that they name."""
    for node in site.cluster.nodes.values():
        node.tag(IMAGE, THEIRS)
        site.cluster.kubectl("label", "node", node.name, f"{INSTANCE}=t3.small")
    yield Path(shutil.copytree(SAMPLES, site.folder / "samples"))
    for name in NODES:
        site.cluster.kubectl("label", "node", name, f"{INSTANCE}-")


@pytest.fixture
def models(folder: Path) -> Iterator[str]:
    """A server of files, where pods reach it."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer((f"{NODES_NETWORK}.1", 0), partial(Quiet, directory=str(folder)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://{NODES_NETWORK}.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def measured(site: Site, file: Path, *words: str):
    """The only job of a descriptor, run as a user of theirs would; nothing is left of it."""
    assert site.assay("run", str(file), *OURS, *words).wait(240) == 0, site.said()
    job = site.only_job()
    assert job.state == "done", job.error
    site.until_nothing_left()
    return job


def test_hello_world(site, folder):
    job = measured(site, folder / "hello-world.toml")
    told = job.environment["kubernetes"]
    assert told["node"] in NODES
    assert told["program"]["image"] == THEIRS
    assert len(job.runs) == 5
    assert job.metrics["accuracy"].median == pytest.approx(0.65)
    for run in job.runs:
        assert run.sample_counts["train_loss"] == run.sample_counts["accuracy"] == 4
        assert run.sample_counts["throughput"] == 4, "what their client library emits comes through its pipe"


def test_inference(site, folder, models):
    file = folder / "inference.toml"
    file.write_text(file.read_text().replace("https://models.example", models))
    job = measured(site, file, "--set", "measure.runs=2")
    assert 0 < job.metrics["response_time"].median < 5
    assert [run.sample_counts["response_time"] for run in job.runs] == [20, 20]
    told = job.environment["kubernetes"]
    assert told["services"]["server"]["node"] != told["node"], "client and server have a node each"


def test_inference_with_another_model_is_not_measured(site, folder, models):
    file = folder / "inference.toml"
    file.write_text(file.read_text().replace("https://models.example", models))
    (folder / "doubling.json").write_text('{"factor": 3}')
    assert site.assay("run", str(file), *OURS).wait(240) == 3, site.said()
    job = site.only_job()
    assert job.state == "failed"
    assert "6decd7ab78362fb7e13d5c38cd50580e was asked for" in job.error.message, job.error
    site.until_nothing_left()


def test_scheduled_runs_now(site, folder):
    job = measured(site, folder / "scheduled.toml", "--set", "measure.runs=2")
    assert [run.sample_counts["train_loss"] for run in job.runs] == [2, 2]
    assert "schedule is kept with the campaign" in site.said()


def test_code_that_travels_with_its_descriptor(site, folder):
    job = measured(site, folder / "script-mode.toml", "--set", f"target.code={folder}/scripts")
    assert job.metrics["answer"].median == 6


@pytest.fixture
def server(site: Site) -> Iterator[str]:
    """A server of assay, and an agent of it in a pod."""
    url = f"http://127.0.0.1:{(port := free_port())}"
    process = site.assay("serve", "--port", str(port), "--open", "--store", str(site.folder / "server"))
    site.until("it answers", lambda: _answers(url))
    words = ["assay", "agent", "start", "--server", url, "--allow", "command", "--device-name", "in-a-pod"]
    container = {"name": "agent", "image": IMAGE, "command": words, "env": [{"name": "ASSAY_CONTROL", "value": "off"}]}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "agent"},
        "spec": {"hostNetwork": True, "containers": [container], "nodeSelector": {"real": "yes"}},
    }
    site.cluster.admin.create("pods", pod, site.namespace)
    yield url
    site.cluster.admin.delete("pods", "agent", site.namespace, grace_s=0)
    process.terminate()
    process.wait(30)


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/api/v1/health", trust_env=False).is_success
    except httpx.HTTPError:
        return False


def test_scheduled_is_run_when_it_is_due(site, folder, server):
    """At its time the server hands it out, and an agent in the cluster measures it in its own container."""
    words = (
        "--set",
        "place.engine=fleet",
        "--set",
        "target.image=null",
        "--set",
        "measure.runs=1",
        "--set",
        "schedule=* * * * *",
        "--server",
        server,
    )
    assert site.assay("schedules", "add", str(folder / "scheduled.toml"), *words).wait(60) == 0, site.said()
    asking = httpx.Client(base_url=f"{server}/api/v1", trust_env=False)

    def done():
        found = asking.get("/campaigns").json()["items"]
        return next((one for one in found if one["state"] == "done"), None)

    site.until("it was due, and is measured", done, 180)
    site.assay("schedules", "rm", "hello_every_night", "--server", server).wait(60)
    (job,) = asking.get(f"/campaigns/{done()['id']}/result").json()["jobs"]
    assert job["runs"][0]["sample_counts"]["train_loss"] == 2
