"""What goes wrong on clusters: each fault ends in a true state with the cluster's own reason, and nothing is left."""

from __future__ import annotations

import pytest
from tests.live.kubernetes.conftest import QUICK, Followed, Site
from tests.support.kube.cluster import KubeCluster

from assay.engines.kubernetes import phases
from assay.errors import MeasureError

pytestmark = pytest.mark.live
EATS = "python3 -c 'x = b\"1\" * 300_000_000; import time; time.sleep(600)'"


def failed(followed: Followed, code: str) -> str:
    """The message of a campaign whose only job failed with a code."""
    job = followed.job()
    assert job.state == "failed", followed.said.getvalue()
    assert job.error is not None
    assert job.error.code == code, job.error
    return job.error.message


def only(kube: KubeCluster, node: str) -> dict:
    """Options that bring a pod to one node."""
    assert kube.objects.find("nodes", "", node)
    return {"node_selector": {"kubernetes.io/hostname": node}}


def sites(kube: KubeCluster, folder, *names: str) -> list[Site]:
    """Several people on one cluster."""
    found = []
    for name in names:
        (folder / name).mkdir()
        found.append(Site(kube, folder / name))
    return found


def test_faults_before_a_pod_runs_are_distinguished(kube: KubeCluster, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(phases, "_CONFIG_PATIENCE_S", 1.0)
    image, room, never, quota, secret = sites(kube, tmp_path, "image", "room", "never", "quota", "secret")
    asked = {
        "image": (image, {"image": "nobody/nothing:1"}),
        "room": (room, {"gpus": 16, "unschedulable": "1s"}),
        "never": (never, {"image": "nobody/nothing:1", "pull": "never"}),
        "selector": (quota, {"node_selector": {"zone": "moon"}, "unschedulable": "1s"}),
        "secret": (secret, {"secrets": {"KEY": "nobody/key"}}),
    }
    begun = {name: site.run(site.document(kubernetes=options)) for name, (site, options) in asked.items()}
    assert "nobody/nothing:1" in failed(begun["image"], "kubernetes-image-pull")
    assert "Insufficient nvidia.com/gpu" in failed(begun["room"], "kubernetes-unschedulable")
    assert "nobody/nothing:1" in failed(begun["never"], "kubernetes-image-pull")
    assert "node affinity/selector" in failed(begun["selector"], "kubernetes-unschedulable")
    assert "nobody" in failed(begun["secret"], "kubernetes-start")
    assert kube.api.left() == []


def test_faults_of_running_pods_are_distinguished(kube: KubeCluster, tmp_path) -> None:
    kube.use((1, 20))  # where another pod takes the place of one that was deleted
    for name in ("d", "e", "o", "l"):
        kube.add_node(name, {"cpu": "2", "memory": "4Gi", "pods": "110"})
    deleted, evicted, hungry, late = sites(kube, tmp_path, "deleted", "evicted", "hungry", "late")
    followed = {
        "deleted": deleted.run(deleted.waiting(kubernetes=only(kube, "d"))),
        "evicted": evicted.run(evicted.waiting(kubernetes=only(kube, "e"))),
        "hungry": hungry.run(hungry.document(EATS, kubernetes={**only(kube, "o"), "memory": "200MiB"})),
        "late": late.run(late.waiting(kubernetes={**only(kube, "l"), "deadline": "15s"})),
    }
    (pod,) = (one for one in deleted.begun() if one["spec"]["nodeName"] == "d")
    kube.delete_pod(pod["metadata"]["name"])
    (pod,) = (one for one in evicted.begun() if one["spec"]["nodeName"] == "e")
    kube.evict(pod["metadata"]["name"])
    assert "deleted" in failed(followed["deleted"], "kubernetes-deleted")
    assert "low on resource: memory" in failed(followed["evicted"], "kubernetes-evicted")
    assert "200.0 MiB" in failed(followed["hungry"], "kubernetes-oom")
    assert failed(followed["late"], "kubernetes-deadline")
    kube.until("nothing is left", lambda: kube.api.left() == [])


def test_a_lost_node_fails_its_job_alone(site: Site) -> None:
    followed = site.run(site.waiting(points=2, measure={**QUICK, "runs": 2}))
    lost, kept = site.begun(2)
    site.kube.lose(lost["spec"]["nodeName"])
    site.go()
    record = followed.end()
    index = int(lost["metadata"]["labels"]["assay/job"])
    bad, good = record.jobs[index], record.jobs[1 - index]
    assert bad.error is not None
    assert bad.error.code == "kubernetes-node-lost", bad.error
    assert lost["spec"]["nodeName"] in bad.error.message
    assert good.state == "done", followed.said.getvalue()
    assert good.environment["kubernetes"]["node"] == kept["spec"]["nodeName"]
    site.kube.until("nothing is left", lambda: site.kube.api.left() == [])


def test_a_service_that_fails_dooms_its_clients(site: Site) -> None:
    document = {
        "benchmark": "served",
        "services": {"llm": {"command": "python3 -c 'print(1); raise SystemExit(3)'", "ready": {"tcp": True}}},
        "target": {"service": "llm", "api": "openai-chat", "model": "sim"},
        "load": {"concurrency": 1, "duration": "1s"},
        "measure": QUICK,
        "place": site.document()["place"],
    }
    followed = site.run(document)
    message = failed(followed, "kubernetes-failed")
    assert "llm" in message
    assert site.kube.api.left() == []


def test_an_api_server_that_restarts_and_forgets_loses_nothing(site: Site) -> None:
    followed = site.run(site.waiting(points=2))
    site.begun(1)
    site.kube.api.cut()  # watches break
    site.kube.objects.compact()  # and what happened meanwhile is not remembered: 410 Gone
    site.begun(2)
    site.kube.api.stop()
    site.kube.until("the silence is told", lambda: "the campaign continues" in followed.said.getvalue())
    site.kube.objects.compact()
    site.go()
    site.kube.until("the pods have ended", lambda: not site.kube.running(role="job"))
    site.kube.api.start()
    record = followed.end()
    assert [job.state for job in record.jobs] == ["done"] * 2, followed.said.getvalue()
    assert [job.metrics["x"].median for job in record.jobs] == [3.0, 3.0]
    assert site.kube.api.left() == []


def test_a_refused_campaign_is_taken_back(site: Site) -> None:
    site.kube.api.denied = {("create", "jobs")}
    with pytest.raises(MeasureError, match="jobs is forbidden") as refused:
        site.run(site.document()).end()
    assert refused.value.problem.code == "kubernetes-forbidden"
    assert site.state(site.newest()) == "failed"
    assert site.kube.api.left() == []
