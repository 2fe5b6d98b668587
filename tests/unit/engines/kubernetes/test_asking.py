"""What a pod asks for: its section, what its needs add, and what is refused."""

import pytest

from assay.engines.kubernetes.objects.plan import PodResources, cpu_words, pod_resources
from assay.errors import UsageError
from assay.spec.benchmark import Needs
from assay.spec.kubernetes import Pod


def test_needs_are_requested_where_the_section_is_silent():
    resources = pod_resources(Pod(), Needs(cpus=4, memory=2**30, gpus=1))
    assert resources.section() == {
        "requests": {"cpu": "4", "memory": str(2**30), "nvidia.com/gpu": "1"},
        "limits": {"cpu": "4", "memory": str(2**30), "nvidia.com/gpu": "1"},
    }
    own = pod_resources(Pod(cpus=8.0, memory=2**31, gpus=2), Needs(cpus=4, memory=2**30, gpus=1))
    assert (own.cpus, own.memory, own.gpus) == (8.0, 2**31, 2)


def test_nothing_is_requested_where_nothing_is_needed():
    assert pod_resources(Pod(), Needs()).section() == {}
    assert PodResources() == pod_resources(Pod(), Needs())


def test_devices_are_limited_also_where_memory_is_not():
    resources = pod_resources(
        Pod(cpus=0.5, gpus=2, gpu_resource="amd.com/gpu", limits="none", resources={"rdma/hca": 1}, storage=5), Needs()
    )
    assert resources.section() == {
        "requests": {"cpu": "500m", "ephemeral-storage": "5", "amd.com/gpu": "2", "rdma/hca": "1"},
        "limits": {"amd.com/gpu": "2", "rdma/hca": "1"},
    }
    assert "limits" not in pod_resources(Pod(cpus=1.0, limits="none"), Needs()).section()
    assert pod_resources(Pod(gpus=0), Needs()).section() == {}


@pytest.mark.parametrize(
    ("cpus", "words"), [(2.0, "2"), (0.5, "500m"), (1.25, "1250m"), (0.0001, "1m"), (128.0, "128")]
)
def test_processors_are_written_as_kubernetes_reads_them(cpus, words):
    assert cpu_words(cpus) == words


def test_needs_of_the_machine_choose_the_node():
    resources = pod_resources(
        Pod(node_selector={"zone": "a"}), Needs(os="linux", labels={"gpu": "h200"}, agent="node-7")
    )
    assert resources.nodes == {
        "gpu": "h200",
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": "node-7",
        "zone": "a",
    }


@pytest.mark.parametrize(
    ("pod", "needs", "said"),
    [
        (Pod(cpus=2.0), Needs(cpus=4), "needs.cpus is 4, and place.kubernetes asks for 2"),
        (Pod(memory=2**30), Needs(memory=2**31), "needs.memory is 2.0 GiB, and place.kubernetes asks for 1.0 GiB"),
        (Pod(gpus=0), Needs(gpus=1), "needs.gpus is 1, and place.kubernetes asks for 0"),
        (Pod(), Needs(os="macos"), "no node of Kubernetes is"),
        (Pod(), Needs(labels={"a b": "c"}), "which no node of Kubernetes can carry"),
        (Pod(node_selector={"zone": "a"}), Needs(labels={"zone": "b"}), "no node carries both"),
    ],
)
def test_what_contradicts_the_needs_is_refused(pod, needs, said):
    with pytest.raises(UsageError) as caught:
        pod_resources(pod, needs)
    assert said in str(caught.value)
    assert caught.value.problem.code == "kubernetes-option"


def test_a_pod_without_limits_may_ask_for_less_than_it_needs() -> None:
    modest = Pod.model_validate({"cpus": 0.1, "memory": "128MiB", "limits": "none"})
    resources = pod_resources(modest, Needs.model_validate({"cpus": 8, "memory": "16GiB", "gpus": 1}))
    assert resources.section() == {
        "requests": {"cpu": "100m", "memory": str(128 * 2**20), "nvidia.com/gpu": "1"},
        "limits": {"nvidia.com/gpu": "1"},
    }
