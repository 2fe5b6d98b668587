"""What outsiders, nodes, limits and lost shells do to campaigns on a real Kubernetes: each ends in a true state."""

from __future__ import annotations

import json
import signal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from tests.tiers.kubernetes.kubernetes_cluster import NODES, SILENT_S
from tests.tiers.kubernetes.site import Site

# For what no time limit of the tests would do: the node must be silent first, and its pods given up.
LOST_S = 4.0 * SILENT_S + 60


def failed(site: Site, code: str, *words: str):
    """The only job of the newest campaign, which failed for one reason; nothing is left of it."""
    job = site.only_job()
    assert job.state == "failed"
    assert job.error.code in code.split("|"), job.error
    told = f"{job.error.message} {job.error.try_}"
    for word in words:
        assert word in told, told
    site.until_nothing_left()
    return job


def test_a_campaign_is_measured_and_leaves_nothing(site):
    process = site.start(site.points(3))
    for pod in site.begun(3):
        assert site.node(pod) in NODES
    site.go()
    assert process.wait(90) == 0, site.said()
    jobs = site.jobs(site.newest())
    assert [job.metrics["x"].median for job in jobs] == [3, 3, 3]
    assert {job.environment["kubernetes"]["node"] for job in jobs} <= set(NODES)
    site.until_nothing_left()


def test_a_pod_that_an_outsider_deletes_is_reported_and_the_others_go_on(site):
    process = site.start(site.points(3))
    pods = site.begun(3)
    site.cluster.kubectl("delete", "pod", pods[1], f"--namespace={site.namespace}", "--now", "--wait=false")
    campaign = site.newest()
    site.until("it is told", lambda: "failed" in {job.state for job in site.jobs(campaign)})
    site.go()
    assert process.wait(90) == 3, site.said()
    jobs = site.jobs(campaign)
    assert sorted(job.state for job in jobs) == ["done", "done", "failed"]
    (lost,) = (job for job in jobs if job.state == "failed")
    assert lost.error.code == "kubernetes-deleted", lost.error
    assert pods[1] in lost.error.message
    # Kubernetes itself starts a new pod for a deleted one; a second try that nobody asked for gives no result.
    assert len(lost.runs) <= 1
    site.until_nothing_left()


def test_a_deleted_job_is_reported(site):
    process = site.start(site.document())
    site.begun()
    (job,) = site.cluster.admin.listed("jobs", site.namespace)
    site.cluster.kubectl("delete", "job", job["metadata"]["name"], f"--namespace={site.namespace}", "--wait=false")
    assert process.wait(90) == 3, site.said()
    failed(site, "kubernetes-deleted")


@pytest.mark.timeout(900)
def test_a_node_that_is_gone_takes_its_job_with_it_and_no_other(site):
    kept, lost = ({"node_selector": {"kubernetes.io/hostname": name}} for name in NODES)
    other = Site(site.cluster, site.namespace, site.folder / "other")
    other.folder.mkdir()
    stays, goes = site.start(site.document(kubernetes=kept)), other.start(site.document(kubernetes=lost))
    site.begun(2)
    site.cluster.nodes[NODES[1]].kill()
    assert goes.wait(LOST_S) == 3, other.said()
    job = other.only_job()
    assert (job.state, job.error.code) == ("failed", "kubernetes-node-lost"), job.error
    assert NODES[1] in job.error.message
    site.go()
    assert stays.wait(90) == 0, site.said()
    assert site.only_job().metrics["x"].median == 3
    # Kubernetes waits for the node's own word before it forgets a pod.
    site.cluster.restore()
    site.until_nothing_left()


@pytest.mark.timeout(900)
def test_a_node_that_is_silent_for_a_while_is_waited_for(site):
    process = site.start(site.document())
    (pod,) = site.begun()
    node = site.cluster.nodes[site.node(pod)]
    node.silence()
    site.until("Kubernetes thinks it is lost", lambda: not site.cluster.is_ready(node.name), LOST_S)
    node.speak()
    site.until("it is back", lambda: site.cluster.is_ready(node.name), LOST_S)
    site.until("its pod is back, or given up", lambda: process.poll() is not None or site.running())
    site.go()
    code = process.wait(LOST_S)
    job = site.only_job()
    # What Kubernetes gave up meanwhile is lost, and told as such; what it did not is measured.
    assert (code, job.state) in ((0, "done"), (3, "failed")), site.said()
    assert job.error is None or job.error.code in ("kubernetes-node-lost", "kubernetes-deleted"), job.error
    site.until_nothing_left()


class EmptyRegistry(BaseHTTPRequestHandler):
    """A registry that has no image at all."""

    def do_GET(self):
        body = json.dumps({"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}).encode()
        self.send_response(200 if self.path == "/v2/" else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def do_HEAD(self):
        self.do_GET()

    def log_message(self, *_):
        pass


@pytest.fixture
def registry():
    """Where that registry is; nodes ask it without TLS, since it is on their own machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), EmptyRegistry)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"localhost:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_an_image_that_is_not_there_is_reported(new_site, registry):
    """At once where that is sure, and after two minutes where nobody answers, which may pass."""
    cases = {
        f"{registry}/nothing:1": {},
        "registry.invalid/nothing:1": {},
        "registry.invalid/nothing:2": {"pull": "never"},
    }
    sites = {image: new_site() for image in cases}
    begun = {
        image: site.start(site.document(kubernetes={"image": image, **cases[image]})) for image, site in sites.items()
    }
    for image, within_s in zip(cases, (90, 300, 90), strict=True):
        assert begun[image].wait(within_s) == 3, sites[image].said()
        failed(sites[image], "kubernetes-image-pull", image)


def test_what_no_node_has_is_reported_in_the_schedulers_words(site):
    asked = {"gpus": 1, "unschedulable": "5s"}
    process = site.start(site.document(kubernetes=asked))
    site.until("its reason is told while it waits", lambda: "Insufficient nvidia.com/gpu" in site.said())
    assert process.wait(90) == 3, site.said()
    failed(site, "kubernetes-unschedulable", "Insufficient nvidia.com/gpu")


def test_what_waits_for_a_node_continues_once_there_is_one(site):
    for name in NODES:
        site.cluster.kubectl("cordon", name)
    try:
        process = site.start(site.document())
        site.until("it waits", lambda: "unschedulable" in site.said().lower())
    finally:
        for name in NODES:
            site.cluster.kubectl("uncordon", name)
    site.begun()
    site.go()
    assert process.wait(90) == 0, site.said()
    site.until_nothing_left()


def test_a_restart_of_the_api_server_loses_nothing(site):
    process = site.start(site.points(2))
    pods = site.begun(2)
    site.cluster.stop_api()
    site.cluster.start_api()
    site.until("both still run", lambda: site.running() == pods)
    site.go()
    assert process.wait(90) == 0, site.said()
    jobs = site.jobs(site.newest())
    assert [(job.state, job.metrics["x"].median) for job in jobs] == [("done", 3)] * 2
    site.until_nothing_left()


def test_what_ended_while_the_api_server_was_away_is_collected(site):
    process = site.start(site.document(f"{'sleep 1; ' * 4}echo x=3"))
    site.until("it runs", site.running)
    site.cluster.stop_api()
    try:
        site.until("assay says that nobody answers", lambda: "does not answer" in site.said())
    finally:
        site.cluster.start_api()
    assert process.wait(90) == 0, site.said()
    assert site.only_job().metrics["x"].median == 3
    site.until_nothing_left()


def test_a_killed_shell_loses_nothing(site):
    process = site.start(site.points(2))
    site.begun(2)
    campaign = site.newest()
    process.send_signal(signal.SIGKILL)
    process.wait()
    site.go()
    site.until("Kubernetes goes on without it", lambda: not site.running())
    assert [job.state for job in site.jobs(campaign)] != ["done", "done"], "nobody has collected them yet"
    assert site.assay("campaigns", "attach", campaign).wait(90) == 0, site.said()
    assert [job.metrics["x"].median for job in site.jobs(campaign)] == [3, 3]
    assert site.state(campaign) == "done"
    site.until_nothing_left()


def test_a_shell_that_is_killed_while_it_submits_submits_nothing_twice(site):
    process = site.start(site.points(20))
    site.until("the first are there", lambda: site.cluster.admin.listed("jobs", site.namespace))
    process.send_signal(signal.SIGKILL)
    process.wait()
    campaign = site.newest()
    attached = site.assay("campaigns", "attach", campaign)
    site.until("all are there", lambda: len(site.cluster.admin.listed("jobs", site.namespace)) == 20)
    while attached.poll() is None:
        site.until("another runs", lambda: site.running() or attached.poll() is not None)
        site.go()
    assert attached.wait() == 0, site.said()
    jobs = site.jobs(campaign)
    assert [job.metrics["x"].median for job in jobs] == [3] * 20
    assert {len(job.runs) for job in jobs} == {1}
    site.until_nothing_left()


def test_ctrl_c_leaves_it_to_kubernetes_and_cancel_ends_it(site):
    process = site.start(site.points(2))
    pods = site.begun(2)
    campaign = site.newest()
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    assert f"assay campaigns attach {campaign}" in site.said()
    assert site.running() == pods
    assert site.assay("campaigns", "cancel", campaign).wait(90) == 0, site.said()
    assert {job.state for job in site.jobs(campaign)} == {"cancelled"}
    assert site.state(campaign) == "cancelled"
    site.until_nothing_left()


def test_ctrl_c_ends_it_where_that_was_requested(site):
    process = site.start(site.document(), "--cancel-on-interrupt")
    site.begun()
    process.send_signal(signal.SIGINT)
    assert process.wait(90) == 130, site.said()
    assert site.only_job().state == "cancelled"
    site.until_nothing_left()


def test_memory_and_time_and_disk_are_distinguished(new_site):
    # The kernel kills the command alone, and the pod lives to tell of it, unless the node kills whole containers.
    eats = "python3 -c 'import os, time; x = b\"1\" * 600_000_000; time.sleep(60)'; exit 1"
    fills = "head -c 60000000 /dev/zero > /tmp/much; sleep 120"
    cases = {
        "out-of-memory|kubernetes-oom": (eats, {"memory": "200MB"}, "memory"),
        "kubernetes-deadline": ("sleep 120", {"deadline": "10s"}, "10 s"),
        "kubernetes-evicted": (fills, {"storage": "20MB"}, "ephemeral"),
    }
    sites = {code: new_site() for code in cases}
    begun = {code: site.start(site.document(cases[code][0], kubernetes=cases[code][1])) for code, site in sites.items()}
    for code, site in sites.items():
        assert begun[code].wait(200) == 3, site.said()
        failed(site, code, cases[code][2])


def test_a_quota_that_lets_no_pod_in_is_reported(site):
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    site.cluster.admin.create("resourcequotas", quota, site.namespace)
    asked = {"unschedulable": "5s"}
    assert site.start(site.document(kubernetes=asked)).wait(120) == 3, site.said()
    failed(site, "kubernetes-not-created", "exceeded quota")


def test_a_secret_that_is_not_there_is_reported(site):
    asked = {"secrets": {"TOKEN": "nothing/key"}}
    assert site.start(site.document(kubernetes=asked)).wait(120) == 3, site.said()
    failed(site, "kubernetes-start", 'secret "nothing" not found')


def test_a_failing_command_is_a_failed_run_and_not_a_fault_of_the_cluster(site):
    assert site.start(site.document("echo broken >&2; exit 7")).wait(90) == 3, site.said()
    job = site.only_job()
    assert job.state == "failed"
    assert not job.error.code.startswith("kubernetes-"), job.error
    assert "7" in job.error.message
    site.until_nothing_left()
