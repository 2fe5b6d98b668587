"""Where a real scheduler puts the pods: labels, taints, GPUs, priorities, and one measuring pod on a node."""

from __future__ import annotations

import pytest
from tests.tiers.kubernetes.site import Site

GPU = "nvidia.com/gpu"
# Nothing runs on nodes that exist for the scheduler alone: campaigns are begun, looked at and cancelled.
FAKE = {"node_selector": {"fake": "yes"}, "memory": "1GiB"}


@pytest.fixture
def nodes(site: Site):
    """Three nodes with GPUs, of which one is reserved."""
    add = site.cluster.fake_nodes.add
    for number in (1, 2):
        add(f"gpu-{number}", resources={GPU: "4"}, labels={"fake": "yes", "model": f"h{number}00"})
    add(
        "kept",
        resources={GPU: "4"},
        labels={"fake": "yes", "model": "kept"},
        taints=[{"key": GPU, "value": "present", "effect": "NoSchedule"}],
    )
    return site.cluster.fake_nodes


def begun(site: Site, points: int = 1, before: int = 0, **asked: object) -> str:
    """A campaign that Kubernetes has, beside the pods that were there before."""
    more = {**FAKE, **asked, "node_selector": {**FAKE["node_selector"], **asked.get("node_selector", {})}}
    assert site.start(site.points(points, kubernetes=more), "--detach").wait(90) == 0, site.said()
    site.until("it has its pods", lambda: len(site.pods()) == before + points)
    return site.newest()


def places(site: Site) -> list[str]:
    """The nodes that the scheduler chose."""
    return sorted(pod["spec"]["nodeName"] for pod in site.pods() if pod["spec"].get("nodeName"))


def waiting(site: Site) -> int:
    """How many pods the scheduler has looked at and found no node for."""
    return sum("Unschedulable" in str(pod["status"].get("conditions")) for pod in site.pods())


def cancel(site: Site, campaign: str) -> None:
    assert site.assay("campaigns", "cancel", campaign).wait(90) == 0, site.said()
    site.until_nothing_left()


@pytest.mark.usefixtures("nodes")
def test_one_measuring_pod_on_a_node_over_all_campaigns(site):
    """Across namespaces only from 1.22 on: the scheduler of an older release cannot be told."""
    first = begun(site, points=1, one_per_node=True)
    site.until("the first has a node", lambda: len(places(site)) == 1)
    second = begun(site, points=2, one_per_node=True, before=1)
    site.until("one of the second has the other node", lambda: len(places(site)) == 2)
    assert places(site) == ["gpu-1", "gpu-2"]
    site.until("the third waits: every node that it may use has one", lambda: waiting(site) == 1)
    assert site.assay("campaigns", "cancel", first).wait(90) == 0, site.said()
    site.until("it takes the place that got free", lambda: places(site) == ["gpu-1", "gpu-2"] and len(site.pods()) == 2)
    cancel(site, second)


@pytest.mark.usefixtures("nodes")
def test_gpus_are_counted(site):
    campaign = begun(site, points=5, gpus=2, one_per_node=False)
    site.until("four have room", lambda: len(places(site)) == 4)
    assert places(site) == ["gpu-1", "gpu-1", "gpu-2", "gpu-2"]
    cancel(site, campaign)


@pytest.mark.usefixtures("nodes")
def test_a_label_and_a_taint_lead_to_the_one_node(site):
    asked = {"node_selector": {"model": "kept"}}
    campaign = begun(site, **asked)
    site.until("it is repelled", lambda: "taint" in str(site.pods()[0]["status"].get("conditions")))
    cancel(site, campaign)
    campaign = begun(site, **asked, tolerations=[f"{GPU}=present:NoSchedule"])
    site.until("it has the node", lambda: places(site) == ["kept"])
    cancel(site, campaign)


@pytest.mark.usefixtures("nodes")
def test_the_pod_is_what_was_requested(site):
    priority = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "measuring"},
        "value": 1000,
    }
    site.cluster.admin.create("priorityclasses", priority)
    try:
        campaign = begun(
            site,
            gpus=1,
            cpus=2,
            priority_class="measuring",
            shm="64MiB",
            queue="lane",
            env={"MODE": "fast"},
            labels={"team": "a"},
            pull_secret="login",
            deadline="5m",
        )
        (pod,), (job,) = site.pods(), site.cluster.admin.listed("jobs", site.namespace)
        spec, (container, *_) = pod["spec"], pod["spec"]["containers"]
        assert container["resources"]["limits"] == {"cpu": "2", "memory": str(2**30), GPU: "1"}
        assert container["resources"]["requests"] == container["resources"]["limits"]
        assert (spec["priority"], spec["priorityClassName"]) == (1000, "measuring")
        assert spec["imagePullSecrets"] == [{"name": "login"}]
        assert spec["restartPolicy"] == "Never"
        assert {"name": "MODE", "value": "fast"} in container["env"]
        assert pod["metadata"]["labels"]["team"] == "a"
        assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "lane"
        assert job["spec"]["backoffLimit"] == 0
        shared = {one["name"]: one["emptyDir"] for one in spec["volumes"] if "emptyDir" in one}
        mounted = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
        assert shared[mounted["/dev/shm"]] == {"medium": "Memory", "sizeLimit": str(64 * 2**20)}
        assert 300 in (spec.get("activeDeadlineSeconds"), job["spec"].get("activeDeadlineSeconds"))
        cancel(site, campaign)
    finally:
        site.cluster.admin.delete("priorityclasses", "measuring")
