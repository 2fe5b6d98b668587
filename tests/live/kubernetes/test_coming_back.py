"""A campaign goes on without the process that submitted it: lost shells, Ctrl-C, other shells, cancelling."""

from __future__ import annotations

import signal

import pytest
from tests.live.kubernetes.conftest import QUICK, WAITS, Site

from assay.engines.base import FollowOptions

pytestmark = pytest.mark.live


def pods_of(site: Site) -> int:
    """How many measuring pods were ever made."""
    made = [one for one in site.kube.made if one.get("labels", {}).get("assay/role") == "job"]
    return len(made)


def test_a_killed_process_loses_nothing(site: Site) -> None:
    process = site.start(site.waiting(points=2, kubernetes={"at_once": 1}), "--fail-on", "never")
    site.begun(1)
    process.kill()
    process.wait()
    site.go()  # pods end while nobody looks
    campaign = site.newest()
    site.kube.until("pods have ended", lambda: not site.kube.running(role="job"))
    assert site.state(campaign) == "running"
    followed = site.attach(campaign)
    record = followed.end()
    assert [job.state for job in record.jobs] == ["done"] * 2, followed.said.getvalue()
    assert all(job.metrics["x"].median == 3.0 for job in record.jobs)
    assert pods_of(site) == 2  # each job ran once
    assert site.kube.api.left() == []
    assert site.attach(campaign).end().jobs == record.jobs  # coming back once more changes nothing


def test_ctrl_c_leaves_the_campaign_and_the_same_command_comes_back(site: Site) -> None:
    document = site.waiting()
    process = site.start(document)
    site.begun()
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 130, site.said()
    assert "continues in Kubernetes without this process" in site.said()
    campaign = site.newest()
    assert site.kube.running(role="job")
    logs = site.assay("logs", campaign)
    assert logs.wait(120) == 0, site.said()
    assert "==> assay-" in site.said()  # asked of the pod itself: nobody follows the campaign
    followed = site.run(document)
    site.kube.until("it is taken up", lambda: "of the same plan continues" in followed.said.getvalue())
    site.go()
    assert followed.job().state == "done", followed.said.getvalue()
    assert followed.end().campaign == campaign
    assert pods_of(site) == 1
    assert "@assay" not in site.said()
    assert site.kube.api.left() == []


def test_ctrl_c_can_end_the_campaign(site: Site) -> None:
    process = site.start(site.waiting(points=2), "--cancel-on-interrupt")
    site.begun(2)
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 130, site.said()
    campaign = site.newest()
    assert site.state(campaign) == "cancelled"
    assert {job.state for job in site.jobs(campaign)} == {"cancelled"}
    assert site.kube.api.left() == []


def test_another_shell_cancels_and_what_was_measured_stays(site: Site) -> None:
    first = "[ -e {0}/first ] && {{ {1}; }}; touch {0}/first; echo x=3"
    command = first.format(site.folder, WAITS.format(folder=site.folder))
    document = site.document(command, measure={**QUICK, "runs": 2})
    followed = site.run(document)
    site.begun()
    campaign = site.newest()
    other = site.cancel(campaign)
    ended = other.end()
    assert ended.state == "cancelled"
    assert followed.end().state == "cancelled"
    (job,) = ended.jobs
    assert [run.error is None for run in job.runs] == [True, False]  # its first run was finished, and came out
    assert site.kube.api.left() == []


def test_a_detached_campaign_is_collected_later(site: Site) -> None:
    site.go()
    record = site.run(site.waiting(), follow=FollowOptions(detach=True)).end()
    assert [job.state for job in record.jobs] == ["pending"]
    followed = site.attach(record.campaign)
    assert [job.state for job in followed.end().jobs] == ["done"], followed.said.getvalue()
    assert site.kube.api.left() == []
