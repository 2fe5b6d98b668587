"""What all tests on a real Kubernetes share: the cluster, left as it was found, and persons in their namespaces."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from tests.tiers.kubernetes.kubernetes_cluster import KubernetesCluster, lacking
from tests.tiers.kubernetes.site import Site

_NUMBERS = count(1)


def pytest_collection_modifyitems(items):
    """All of these start real pods; the first of them waits for the cluster."""
    for item in items:
        item.add_marker(pytest.mark.live)
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(autouse=True)
def _own_places(tmp_path_factory, monkeypatch):
    """No test ever touches the user's results, clusters or devices."""
    monkeypatch.setenv("ASSAY_STORE", str(tmp_path_factory.mktemp("store")))
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setenv("ASSAY_LOCK", "off")
    monkeypatch.setenv("ASSAY_CONTROL", "off")
    monkeypatch.delenv("KUBECONFIG", raising=False)


@pytest.fixture(scope="session")
def kubernetes_cluster() -> Iterator[KubernetesCluster]:
    """The cluster of the session; tests use `cluster` or `site`, which leave it as they found it."""
    if why := lacking():
        pytest.fail(why)
    # The paths of sockets must be short.
    folder = Path(tempfile.mkdtemp(prefix="assay-k8s-", dir="/tmp"))
    cluster = KubernetesCluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def cluster(kubernetes_cluster: KubernetesCluster) -> Iterator[KubernetesCluster]:
    """The cluster, whole before and after."""
    yield kubernetes_cluster
    kubernetes_cluster.restore()


@pytest.fixture
def new_site(cluster: KubernetesCluster, tmp_path_factory) -> Iterator[Callable[..., Site]]:
    """Makes persons, each in a namespace of their own, which goes with the test."""
    made: list[str] = []

    def make(*, granted: bool = True) -> Site:
        namespace = f"test-{next(_NUMBERS)}"
        cluster.make_namespace(namespace)
        made.append(namespace)
        site = Site(cluster, namespace, Path(tmp_path_factory.mktemp(namespace)))
        if granted:
            site.grant()
        return site

    yield make
    cluster.restore()
    for namespace in made:
        cluster.admin.delete("namespaces", namespace)


@pytest.fixture
def site(new_site: Callable[..., Site]) -> Site:
    """One such person."""
    return new_site()
