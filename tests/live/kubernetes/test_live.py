"""Campaigns on a cluster of the tests: pods that really run, from submission to results in the store."""

from __future__ import annotations

import pytest
from tests.live.kubernetes.conftest import QUICK, Site
from tests.support.kube.cluster import IMAGE

pytestmark = pytest.mark.live
LLM = "assay sim llm --host {host} --port {port} --ttft 5ms --itl 1ms --tokens 4"


def served(**kubernetes) -> dict:
    """A service that is asked by clients."""
    return {
        "benchmark": "served",
        "services": {"llm": {"command": LLM, "ready": {"http": "/health", "within": "2m"}}},
        "target": {"service": "llm", "api": "openai-chat", "model": "sim"},
        "workload": {"output_tokens": 4},
        "load": {"concurrency": 3, "duration": "1s"},
        "measure": {**QUICK, "warmup": "none"},
        "place": {"engine": "kubernetes", "kubernetes": {"image": IMAGE, **kubernetes}},
    }


def test_a_command_runs_in_a_pod_and_leaves_nothing(site: Site) -> None:
    script = site.folder / "work.py"
    script.write_text("import os; print('x=3', os.environ['GREETING'], os.environ['TEAM_KEY'])")
    options = {"env": {"GREETING": "hello"}, "secrets": {"TEAM_KEY": "team/key"}, "cpus": 0.5}
    document = site.document(kubernetes=options)
    document["target"]["command"] = ["python3", "work.py"]
    key = {"metadata": {"name": "team"}, "data": {"key": "czNjcjN0"}}
    site.kube.objects.create("secrets", "bench", key)
    followed = site.run(document)
    job = followed.job()
    assert job.state == "done", followed.said.getvalue()
    assert job.metrics["x"].median == 3.0
    told = job.environment["kubernetes"]
    assert told["node"] in ("n1", "n2", "g1")
    assert told["namespace"] == "bench"
    assert "suspect" in site.file(job.job, "pod.log") or "valid" in site.file(job.job, "pod.log")
    assert "on Kubernetes v1.31.0" in followed.said.getvalue()
    assert f"1 running on {told['node']}" in followed.said.getvalue()
    assert site.kube.api.left() == ["Secret/team"]
    assert "s3cr3t" not in "".join(path.read_text(errors="replace") for path in site.store.rglob("*.json"))


def test_clients_share_a_service_that_is_torn_down(site: Site) -> None:
    followed = site.run(served(clients=2))
    record = followed.end()
    said = followed.said.getvalue()
    assert [job.state for job in record.jobs] == ["done", "done"], said
    assert "the service llm is ready on" in said
    for job in record.jobs:
        assert job.metrics["e2e_ms"].count > 3
        assert job.environment["kubernetes"]["services"]["llm"]["node"]
        assert "listening on" in site.file(job.job, "service-llm.out")
    nodes = {job.environment["kubernetes"]["node"] for job in record.jobs}
    assert len(nodes) == 2  # no two measuring pods share a node
    assert site.kube.api.left() == []


@pytest.mark.parametrize("version", [(1, 31), (1, 20)])
def test_pods_that_go_together_know_their_ranks(site: Site, version) -> None:
    site.kube.use(version)
    words = "echo rank=$RANK of=$WORLD_SIZE at $MASTER_ADDR:$MASTER_PORT; touch {0}/rank.$RANK; echo x=3"
    document = site.document(words.format(site.folder), kubernetes={"distributed": {"pods": 2}})
    followed = site.run(document)
    job = followed.job()
    assert job.state == "done", followed.said.getvalue()
    assert {path.name for path in site.folder.glob("rank.*")} == {"rank.0", "rank.1"}
    assert {"pod.log", "pod-1.log"} <= set(job.runs[0].files)
    assert job.environment["kubernetes"]["pods"] == 2
    assert site.kube.api.left() == []


def test_files_too_large_for_a_log_are_fetched_from_the_pod(site: Site) -> None:
    site.kube.kubelet.environ = {"ASSAY_POD_LOG_BYTES": "0"}
    followed = site.run(site.document())
    job = followed.job()
    assert job.state == "done", followed.said.getvalue()
    assert "fetching 2 files" in followed.said.getvalue()  # the samples, and what the program printed
    assert "command.log" in job.runs[0].files
    assert not {"samples", "command.log"} & set(job.runs[0].absent), job.runs[0].absent
    assert site.kube.api.left() == []


def test_what_may_not_be_fetched_is_reported(site: Site) -> None:
    site.kube.kubelet.environ = {"ASSAY_POD_LOG_BYTES": "0"}
    site.kube.api.denied = {("create", "pods/exec"), ("get", "pods/exec")}
    followed = site.run(site.document())
    job = followed.job()
    assert job.state == "done", followed.said.getvalue()  # its figures stand without the samples
    assert "may not `create pods/exec`" in job.runs[0].absent["samples"]
    assert site.kube.api.left() == []
