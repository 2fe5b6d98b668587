"""Services and pods that go together, on a real Kubernetes: ready before the load, and gone in any case."""

from __future__ import annotations

import signal

import pytest
from tests.tiers.kubernetes.site import Site

LLM = "assay sim llm --host {host} --port {port} --ttft 5ms --itl 1ms --tokens 8"
TARGET = {"service": "llm", "api": "openai-chat", "model": "sim"}
READY = {"http": "/health", "within": "60s"}
# The first waits for what all the others tell it: they are there at the same time, and know where it is.
TOGETHER = """\
import os, socket, time

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
where = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    told = []
    with socket.create_server(("", where[1])) as server:
        while len(told) < size - 1:
            peer, _ = server.accept()
            with peer:
                told.append(int(peer.recv(16)))
    print(f"x={10 + sum(told)}")
else:
    for _ in range(600):
        try:
            with socket.create_connection(where, timeout=5) as first:
                first.sendall(str(rank).encode())
            break
        except OSError:
            time.sleep(0.1)
"""


def served(site: Site, command: str | list[str] = LLM, **more: object) -> dict[str, object]:
    return {
        **site.document(kubernetes=more.pop("kubernetes", {})),
        "services": {"llm": {"command": command, "ready": more.pop("ready", READY)}},
        "target": TARGET,
        "workload": {"output_tokens": 8},
        "load": {"concurrency": 4, "duration": "3s"},
        "measure": {"runs": 1, "warmup": "none", "timeout": "60s"},
        **more,
    }


def test_the_load_begins_once_the_service_is_ready(site):
    late = ["/bin/sh", "-c", f"sleep 8; exec {LLM}"]
    assert site.start(served(site, late), "--fail-on", "never").wait(180) == 0, site.said()
    (run,) = site.only_job().runs
    assert run.sample_counts["e2e_ms"] > 20
    assert run.facts["errors"] == {}, "none was sent before it was ready"
    site.until_nothing_left()


def test_several_pods_share_a_load_on_one_service(site):
    document = served(site, kubernetes={"clients": 2})
    process = site.start(document, "--fail-on", "never")
    site.until("the service runs", lambda: site.running("service"))
    (service,) = site.running("service")
    assert process.wait(180) == 0, site.said()
    jobs = site.jobs(site.newest())
    assert len(jobs) == 2
    assert min(job.runs[0].sample_counts["e2e_ms"] for job in jobs) > 10
    assert {job.environment["kubernetes"]["services"]["llm"]["pod"] for job in jobs} == {service}
    site.until_nothing_left()


def test_a_service_that_never_gets_ready_is_reported_with_its_last_words(site):
    broken = ["/bin/sh", "-c", "echo no model found; sleep 1000"]
    document = served(site, broken, ready={"http": "/health", "within": "20s"})
    assert site.start(document).wait(300) == 3, site.said()
    job = site.only_job()
    assert job.state == "failed"
    assert "llm" in job.error.message
    assert "no model found" in f"{job.error.message} {job.error.try_}"
    site.until_nothing_left()


def test_a_service_whose_image_is_missing_is_reported(site):
    document = served(site)
    document["services"]["llm"]["image"] = "docker://registry.invalid/nothing:1"
    assert site.start(document).wait(180) == 3, site.said()
    error = site.only_job().error
    assert (error.code, "registry.invalid/nothing:1" in error.message) == ("kubernetes-image-pull", True), error
    site.until_nothing_left()


def test_a_service_that_dies_under_the_load_is_reported(site):
    document = {**served(site), "load": {"concurrency": 2, "duration": "60s"}}
    process = site.start(document)
    site.until("the load runs", site.running)
    (service,) = site.running("service")
    site.cluster.kubectl("delete", "pod", service, f"--namespace={site.namespace}", "--now", "--wait=false")
    assert process.wait(180) != 0, site.said()
    job = site.only_job()
    assert job.state == "failed" or job.runs[0].facts["errors"], "numbers of two servers are never one result"
    site.until_nothing_left()


@pytest.mark.parametrize("how", ["cancel", "killed"])
def test_services_go_with_the_campaign_however_it_ends(site, how):
    document = {**served(site), "load": {"concurrency": 2, "duration": "10m"}}
    document["measure"] = {"runs": 1, "warmup": "none", "timeout": "15m"}
    process = site.start(document)
    site.until("the load runs", site.running)
    process.send_signal(signal.SIGKILL if how == "killed" else signal.SIGINT)
    process.wait(60)
    assert site.running("service"), "it belongs to the campaign, which goes on"
    assert site.assay("campaigns", "cancel", site.newest()).wait(90) == 0, site.said()
    site.until_nothing_left()


def test_several_pods_run_one_command_together(site):
    asked = {"distributed": {"pods": 2, "ranks": 1}, "one_per_node": True}
    document = site.document(kubernetes=asked)
    document["target"]["command"] = ["python3", "-c", TOGETHER]
    assert site.start(document).wait(180) == 0, site.said()
    assert site.only_job().metrics["x"].median == 10 + 1, "what the second told the first"
    site.until_nothing_left()


def test_pods_that_cannot_all_be_had_are_reported_and_none_is_left(site):
    asked = {"distributed": {"pods": 3}, "one_per_node": True, "unschedulable": "10s"}
    assert site.start(site.document("echo x=1", kubernetes=asked)).wait(180) == 3, site.said()
    error = site.only_job().error
    assert error.code == "kubernetes-unschedulable", error
    site.until_nothing_left()
