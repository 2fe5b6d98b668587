"""Campaigns on a real Slurm: what outsiders, nodes, limits and lost shells do to them. Each ends in a true state."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.live.slurm.conftest import Site
from tests.support.slurm_cluster import PATIENCE_S

from assay.analyse.records import MultiRunJobResult
from assay.store.telemetry import FILE, decode

pytestmark = pytest.mark.live
# A file lets it end: the tests do not depend on how fast the machine is.
WAITS = "touch {folder}/begun; while [ ! -e {folder}/go ]; do sleep 0.1; done; echo x=3"
LLM = "assay sim llm --host {host} --port {port} --ttft 5ms --itl 1ms --tokens 8"


def waiting(site: Site, points: int = 1, **more):
    document = site.document(WAITS.format(folder=site.folder), **more)
    return {**document, "matrix": {"target.env.N": [str(number) for number in range(points)]}}


def go(site: Site) -> None:
    (site.folder / "go").touch()


def late_answers(site: Site) -> Path:
    """A folder with an `sbatch` that submits, and answers when it may."""
    late = site.folder / "bin" / "sbatch"
    late.parent.mkdir()
    may = f"while [ ! -e {site.folder}/answer ]; do sleep 0.1; done"
    late.write_text(f'#!/bin/sh\nsaid=$({shutil.which("sbatch")} "$@") || exit\n{may}\necho "$said"\n')
    late.chmod(0o755)
    return late.parent


def answer(site: Site) -> None:
    (site.folder / "answer").touch()


def only(jobs):
    (one,) = jobs
    return one


@dataclass
class Begun:
    """A campaign that was submitted and left alone."""

    site: Site
    campaign: str

    def runs(self) -> None:
        """Wait until its command does."""
        self.site.until("it runs", (self.site.folder / "begun").exists)

    def follow(self) -> subprocess.Popen[bytes]:
        """Come back to it."""
        return self.site.assay("campaigns", "attach", self.campaign)

    def job(self) -> MultiRunJobResult:
        """What became of its only job; nothing is left in the queue."""
        assert self.site.queue(self.campaign) == []
        return only(self.site.jobs(self.campaign))


@pytest.fixture(scope="module")
def begun(cluster, tmp_path_factory):
    """Campaigns that go on in Slurm while the other tests run: one reaches its time limit of a minute, and so on."""
    eats = f"{sys.executable} -c 'import time; x = b\"1\" * 500_000_000; time.sleep(600)'"
    asked = {
        "late": {"time": "1m", "options": ["--nodelist=n6"]},
        "hungry": {"memory": "250MB", "options": ["--nodelist=n6"]},
        "preempted": {"partition": "lowest", "cpus": 4},
        "lost": {"options": ["--nodelist=n4", "--no-requeue"]},
        "put-back": {"options": ["--nodelist=n4", "--requeue"]},
    }
    sites = {name: Site(cluster, tmp_path_factory.mktemp(name)) for name in asked}
    documents = {name: waiting(site, slurm=asked[name]) for name, site in sites.items()}
    documents["hungry"] = sites["hungry"].document(eats, slurm=asked["hungry"])
    started = {name: site.start(documents[name], "--detach") for name, site in sites.items()}
    assert all(process.wait(PATIENCE_S) == 0 for process in started.values()), [site.said() for site in sites.values()]
    return {name: Begun(site, site.newest()) for name, site in sites.items()}


@pytest.fixture(scope="module")
def node_lost(begun):
    """Node n4 is down with the two jobs that ran on it."""
    for name in ("lost", "put-back"):
        begun[name].runs()
    slurm = begun["lost"].site.slurm
    slurm.run("scontrol", "update", "nodename=n4", "state=down", "reason=test")  # it need not find out by itself
    slurm.kill_node("n4")


@pytest.mark.usefixtures("begun")
def test_one_command_gives_clients_service_nodes_and_logs(site):
    document = {
        "benchmark": "served",
        "services": {"llm": {"command": LLM, "ready": {"http": "/health", "within": "2m"}}},
        "target": {"service": "llm", "api": "openai-chat", "model": "sim", "metrics": "/metrics"},
        "workload": {"output_tokens": 8},
        "load": {"concurrency": 4, "duration": "3s"},
        "measure": {"runs": 1, "warmup": "none", "timeout": "5m"},
        "monitoring": True,
        "place": {"engine": "slurm", "slurm": {"time": "10m", "memory": "500MB", "clients": 4}},
    }
    process = site.start(document, "--fail-on", "never", "--out", str(site.folder / "out"))
    assert process.wait(PATIENCE_S) == 0, site.said()
    campaign = site.newest()
    report = json.loads((site.folder / "out" / f"{campaign}.json").read_text())
    whole, *parts = report["jobs"]
    counts = [job["runs"][0]["sample_counts"]["e2e_ms"] for job in parts]
    assert len(parts) == 4
    assert min(counts) > 20
    # Merged as samples; those outside of the time that all four measured are left out.
    apart = whole["runs"][0]["facts"]["merged"]["starts"]["skew_s"] / 3
    assert (0.9 - 2 * apart) * sum(counts) < whole["runs"][0]["sample_counts"]["e2e_ms"] <= sum(counts)
    for job in parts:
        assert {FILE, "service-llm.out", "slurm.out"} <= set(job["runs"][0]["files"])
        assert job["environment"]["slurm"]["services"]["llm"]["node"] in site.slurm.nodes
    watched = parts[0]["runs"][0]["facts"]["monitoring"]
    assert {"llm"} <= set(json.dumps(watched).replace('"', " ").split())
    result = campaign_files(site, campaign, 0)
    names = {one.name for one in decode(result(FILE)).series}
    assert any(name.startswith("node_cpu") for name in names)
    assert any(one.labels.get("service") == "llm" for one in decode(result(FILE)).series)
    assert b"listening on" in result("service-llm.out")
    html = (site.folder / "out" / f"{campaign}.html").read_text()
    assert "Prometheus scraped every 1 s" in html
    assert site.queue(campaign) == []


def campaign_files(site: Site, campaign: str, index: int):
    from assay.report.result import kept_result, read_campaign
    from assay.store.store import Store

    store = Store(site.store)
    record = read_campaign(store, campaign)
    store.close()
    return lambda name: kept_result(site.store, record).file(f"{campaign}-job-{index}", 0, name)


def test_scancel_by_an_outsider_is_reported_and_the_others_go_on(site):
    process = site.start(waiting(site, points=3))
    campaign = site.newest()
    site.until("all run", lambda: len(site.running(campaign, "jobs-0")) == 3)
    site.slurm.run("scancel", site.running(campaign, "jobs-0")[1])
    go(site)
    assert process.wait(PATIENCE_S) == 3, site.said()
    jobs = site.jobs(campaign)
    assert [job.state for job in jobs] == ["done", "failed", "done"]
    assert jobs[1].error.code == "slurm-cancelled"
    assert "was cancelled after" in jobs[1].error.message
    assert site.queue(campaign) == []


def test_a_killed_shell_loses_nothing(site):
    process = site.start(waiting(site, points=2))
    campaign = site.newest()
    site.until("both run", lambda: len(site.running(campaign, "jobs-0")) == 2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    go(site)
    site.until("Slurm goes on without it", lambda: not site.queue(campaign))
    assert [job.state for job in site.jobs(campaign)] != ["done", "done"], "nobody has collected them yet"
    assert site.assay("campaigns", "attach", campaign).wait(PATIENCE_S) == 0, site.said()
    assert [job.metrics["x"].median for job in site.jobs(campaign)] == [3, 3]
    assert site.state(campaign) == "done"


def test_a_shell_killed_in_the_middle_of_submission_submits_nothing_twice(site):
    document = {
        **waiting(site),
        "services": {"llm": {"command": LLM, "ready": {"http": "/health", "within": "2m"}}},
    }
    # Slurm takes the job, and its answer comes late: the shell is killed before it could write the number down.
    process = site.start(document, "--detach", path=late_answers(site))
    campaign = site.newest()
    site.until("Slurm has the first", lambda: site.queue(campaign))
    process.send_signal(signal.SIGKILL)
    process.wait()
    answer(site)
    lines = site.shared(campaign) / "submitted.jsonl"
    assert '"id"' not in lines.read_text()
    attached = site.assay("campaigns", "attach", campaign)
    site.until("the rest is submitted", lambda: '"event":"all"' in lines.read_text())
    names = [name for _, _, name in site.queue(campaign)]
    assert sorted(names) == ["point-0000", "point-0000-end", "point-0000-llm"]
    go(site)
    assert attached.wait(PATIENCE_S) == 0, site.said()
    assert only(site.jobs(campaign)).metrics["x"].median == 3
    assert site.queue(campaign) == []


def test_a_service_of_a_campaign_that_nobody_submits_whole_ends_by_itself_and_may_come_again(site, monkeypatch):
    document = {
        **waiting(site),
        "services": {"llm": {"command": LLM, "ready": {"http": "/health", "within": "2m"}}},
    }
    monkeypatch.setenv("ASSAY_SUBMISSION_WITHIN", "2")
    process = site.start(document, "--detach", path=late_answers(site))
    campaign = site.newest()
    site.until("Slurm has the first", lambda: site.queue(campaign))
    process.send_signal(signal.SIGKILL)
    process.wait()
    answer(site)
    failed = site.shared(campaign) / "services" / "point-0000" / "llm.failed.json"
    site.until("it ended by itself", lambda: failed.is_file() and not site.queue(campaign))
    assert json.loads(failed.read_text())["code"] == "submission-abandoned"
    go(site)
    monkeypatch.delenv("ASSAY_SUBMISSION_WITHIN")  # on a slow machine one sbatch takes longer than that
    assert site.assay("campaigns", "attach", campaign).wait(120) == 0, site.said()
    assert "submitting it again" in site.said()
    assert only(site.jobs(campaign)).metrics["x"].median == 3
    assert site.queue(campaign) == []


def test_ctrl_c_leaves_it_to_slurm_and_cancel_ends_it(site):
    process = site.start(waiting(site, points=2))
    campaign = site.newest()
    site.until("both run", lambda: len(site.running(campaign, "jobs-0")) == 2)
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 130, site.said()
    assert f"assay campaigns attach {campaign}" in site.said()
    assert len(site.running(campaign, "jobs-0")) == 2
    assert site.assay("campaigns", "cancel", campaign).wait(PATIENCE_S) == 0, site.said()
    assert site.queue(campaign) == []
    assert {job.state for job in site.jobs(campaign)} == {"cancelled"}
    assert site.state(campaign) == "cancelled"


def test_a_job_on_hold_is_reported_and_continues_once_released(site):
    process = site.start(waiting(site, slurm={"options": ["--begin=now+1hour"]}))
    campaign = site.newest()
    site.until("it waits", lambda: site.queue(campaign))
    number = site.queue(campaign)[0][0]
    site.until("its reason is told", lambda: "its time has not come yet (BeginTime)" in site.said())
    assert "Slurm means to start it in" in site.said()
    site.slurm.run("scontrol", "uhold", number)
    site.until("the hold is told", lambda: "is on hold by you or Slurm" in site.said())
    site.slurm.run("scontrol", "release", number)
    site.slurm.run("scontrol", "update", f"jobid={number.partition('_')[0]}", "starttime=now")
    go(site)
    assert process.wait(PATIENCE_S) == 0, site.said()
    assert only(site.jobs(campaign)).state == "done"


def test_a_refusal_takes_back_what_was_submitted(site):
    document = {
        **waiting(site, slurm={"each": {"llm": {"partition": "debug"}}, "partition": "nowhere"}),
        "services": {"llm": {"command": LLM}},
    }
    assert site.start(document).wait(PATIENCE_S) == 3
    assert "sbatch refused" in site.said()
    assert "place.slurm.partition" in site.said()
    assert site.queue(site.newest()) == []
    assert site.state(site.newest()) == "failed"


@pytest.mark.usefixtures("node_lost")
def test_limit_memory_precedence_and_a_lost_node_are_distinguished_to_who_comes_later(begun):
    begun["preempted"].runs()
    begun["preempted"].site.slurm.sbatch("--partition=high", "--cpus-per-task=4")
    codes = {
        "late": ("slurm-timeout", "its time limit of 1 min"),
        "hungry": ("slurm-oom", "238.4 MiB was asked for"),
        "preempted": ("slurm-preempted", "in lowest"),
        "lost": ("slurm-node-fail", "n4 failed"),
    }
    followers = {name: begun[name].follow() for name in codes}
    for name, (code, words) in codes.items():
        assert followers[name].wait(240) == 3, begun[name].site.said()
        error = begun[name].job().error
        assert (error.code, words in error.message) == (code, True), error


@pytest.mark.usefixtures("node_lost")
def test_a_job_that_lost_its_node_and_was_put_back_runs_again(begun):
    again = begun["put-back"]
    slurm, number = again.site.slurm, again.site.queue(again.campaign)[0][0].partition("_")[0]
    go(again.site)
    slurm.start_node("n4")
    follower = again.follow()

    def over() -> bool:
        # Slurm itself waits two minutes, unless the job is still being put back or runs already.
        slurm.run("scontrol", "update", f"jobid={number}", "starttime=now", check=False)
        return follower.poll() is not None

    again.site.until("it ran again", over)
    assert follower.wait() == 0, again.site.said()
    assert (again.job().state, again.job().environment["slurm"]["requeues"]) == ("done", 1)


def test_ctrl_c_while_it_is_submitted_takes_everything_back(site):
    document = {
        **waiting(site),
        "services": {"llm": {"command": LLM, "ready": {"http": "/health", "within": "2m"}}},
    }
    process = site.start(document, path=late_answers(site))
    campaign = site.newest()
    site.until("Slurm has the first", lambda: site.queue(campaign))
    process.send_signal(signal.SIGINT)
    answer(site)
    assert process.wait(PATIENCE_S) == 130, site.said()
    assert "taking it back" in site.said()
    assert site.queue(campaign) == []
    assert only(site.jobs(campaign)).state in ("cancelled", "failed")


def test_ctrl_c_ends_it_where_that_was_requested(site):
    process = site.start(waiting(site), "--cancel-on-interrupt")
    campaign = site.newest()
    site.until("it runs", lambda: site.running(campaign, "jobs-0"))
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 130, site.said()
    assert site.queue(campaign) == []
    assert only(site.jobs(campaign)).state == "cancelled"


def test_slurm_is_reached_by_its_own_server_as_well(site):
    document = waiting(site, points=2, slurm={"rest": site.slurm.rest()})
    process = site.start(document)
    campaign = site.newest()
    go(site)
    assert process.wait(PATIENCE_S) == 0, site.said()
    assert [job.metrics["x"].median for job in site.jobs(campaign)] == [3, 3]
    assert site.queue(campaign) == []
