"""The cluster of these tests is a real one: what they rely on holds without assay."""

from __future__ import annotations

import json

from tests.tiers.kubernetes.kubernetes_cluster import IMAGE
from tests.tiers.kubernetes.site import Site

SERVES = "python3 -m http.server --bind 0.0.0.0 8000"
ASKS = "import sys, urllib.request\nfor url in sys.argv[1:]:\n    print(urllib.request.urlopen(url, timeout=20).status)"


def pod(name: str, words: list[str], node: str, **more: object) -> dict[str, object]:
    container = {"name": "one", "image": IMAGE, "command": words, **more.pop("container", {})}
    spec = {"containers": [container], "restartPolicy": "Never", "nodeSelector": {"kubernetes.io/hostname": node}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"own": name}},
        "spec": {**spec, **more},
    }


def service(name: str, *, headless: bool) -> dict[str, object]:
    address = {"clusterIP": "None"} if headless else {}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {**address, "selector": {"own": "server"}, "ports": [{"port": 8000}]},
    }


def ended(site: Site, name: str) -> dict[str, object]:
    """How the only container of a pod ended."""

    def told():
        found = site.cluster.admin.get("pods", name, site.namespace)
        return (found["status"].get("containerStatuses") or [{}])[0].get("state", {}).get("terminated")

    site.until(f"{name} ends", told)
    return told()


def test_pods_run_on_both_nodes_and_reach_services_by_their_names(site):
    admin, space = site.cluster.admin, site.namespace
    admin.create("services", service("plain", headless=False), space)
    admin.create("services", service("each", headless=True), space)
    own = {"hostname": "first", "subdomain": "each"}
    admin.create("pods", pod("server", ["/bin/sh", "-c", SERVES], "real-1", **own), space)
    site.until("it serves", lambda: admin.get("endpoints", "plain", space).get("subsets"))
    urls = ["http://plain:8000", f"http://each.{space}:8000", "http://first.each:8000"]
    for node in ("real-1", "real-2"):
        admin.create("pods", pod(f"client-{node}", ["python3", "-c", ASKS, *urls], node), space)
        log = ended(site, f"client-{node}"), site.cluster.kubectl("logs", f"client-{node}", f"-n{space}")
        assert log[0]["exitCode"] == 0, log
        assert log[1].split() == ["200"] * 3


def test_memory_is_limited(site):
    eats = "x = b'1' * 400_000_000; print(len(x))"
    limit = {"resources": {"limits": {"memory": "100Mi"}}}
    site.cluster.admin.create("pods", pod("eats", ["python3", "-c", eats], "real-1", container=limit), site.namespace)
    assert ended(site, "eats")["reason"] == "OOMKilled"


def test_a_job_of_this_kubernetes_starts_again_what_another_deleted(site):
    """Why assay may not leave it to a Job that an attempt is one attempt: its limit of retries is 0 here."""
    template = {"spec": pod("", ["sleep", "1000"], "real-1")["spec"]}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "again"},
        "spec": {"backoffLimit": 0, "template": template},
    }
    site.cluster.admin.create("jobs", job, site.namespace)

    def uids():
        return {one["metadata"]["uid"] for one in site.cluster.admin.listed("pods", site.namespace, "job-name=again")}

    site.until("there is a pod", uids)
    (first,) = uids()
    site.cluster.kubectl("delete", "pod", f"-n{site.namespace}", "-ljob-name=again", "--wait=false", "--now")
    site.until("there is another", lambda: uids() - {first})


def test_a_person_has_no_rights_outside_of_the_namespace(site):
    def asked(*words: str) -> str:
        return site.cluster.kubectl("auth", "can-i", *words, config=site.kubeconfig, check=False).strip()

    assert asked("create", "jobs") == "yes"
    assert asked("create", "jobs", "--namespace=default").startswith("no")
    assert any(line.startswith("no") for line in asked("list", "nodes").splitlines()), "beside a warning"
    rules = json.loads(site.cluster.kubectl("get", "roles", f"-n{site.namespace}", "-ojson"))["items"][0]["rules"]
    assert all("*" not in (*rule["verbs"], *rule["resources"]) for rule in rules)
