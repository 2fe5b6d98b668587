"""A real server takes every object that assay makes, and keeps every field of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.kube.manifests import FILES, manifests
from tests.tiers.kubernetes.kubernetes_cluster import KubernetesCluster

PLURALS = {"ConfigMap": "configmaps", "Deployment": "deployments", "Job": "jobs", "Pod": "pods", "Secret": "secrets",
           "Service": "services"}  # fmt: skip
# Their pods name classes, accounts and secrets of somebody's cluster, without which a server takes no pod.
ELSEWHERE = ("everything", "services")


@pytest.fixture(scope="module")
def namespace(kubernetes_cluster: KubernetesCluster) -> Iterator[str]:
    kubernetes_cluster.make_namespace("test-manifests")
    yield "test-manifests"
    kubernetes_cluster.admin.delete("namespaces", "test-manifests")


def dropped(asked: object, kept: object, at: str = "") -> list[str]:
    """What of an object a server did not keep as it was asked to."""
    if isinstance(asked, dict) and isinstance(kept, dict):
        return [line for key, value in asked.items() for line in dropped(value, kept.get(key), f"{at}.{key}")]
    if isinstance(asked, list) and isinstance(kept, list) and len(asked) == len(kept):
        pairs = zip(asked, kept, strict=True)
        return [line for number, (one, other) in enumerate(pairs) for line in dropped(one, other, f"{at}[{number}]")]
    # An empty selector and the like are kept as nothing.
    return [] if asked == kept or (not asked and not kept) else [f"{at}: {asked!r} became {kept!r}"]


@pytest.mark.parametrize("name", FILES)
def test_nothing_is_refused_or_dropped(kubernetes_cluster, namespace, name):
    minor = int(kubernetes_cluster.admin.http.get("/version").json()["minor"].rstrip("+"))
    for thing in manifests(name, minor):
        kept = kubernetes_cluster.admin.create(PLURALS[thing["kind"]], thing, namespace, dryRun="All")
        assert dropped(thing, kept) == []


@pytest.mark.parametrize("name", [name for name in FILES if name not in ELSEWHERE])
def test_their_pods_are_taken_too(kubernetes_cluster, namespace, name):
    """A Job is taken whatever its pods say; whether those can be made shows only when they are."""
    admin = kubernetes_cluster.admin
    templates = [thing["spec"]["template"] for thing in manifests(name, 20) if "template" in thing.get("spec", {})]
    assert templates
    for template in templates:
        pod = {"apiVersion": "v1", "kind": "Pod", **template}
        pod["metadata"] = {**template["metadata"], "name": "one"}
        assert dropped(pod, admin.create("pods", pod, namespace, dryRun="All")) == []


def test_what_a_server_does_not_know_is_found(kubernetes_cluster, namespace):
    newer = next(one for one in manifests("plain", 34) if one["kind"] == "Job")
    kept = kubernetes_cluster.admin.create("jobs", newer, namespace, dryRun="All")
    assert any("podFailurePolicy" in line for line in dropped(newer, kept))
