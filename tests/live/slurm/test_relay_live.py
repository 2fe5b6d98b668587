"""A campaign on a real Slurm, told to a real server: live, across a dead server, and across a dead login shell."""

from __future__ import annotations

import json
import signal
import threading

import httpx
import pytest
from tests.live.slurm.test_live import go, waiting
from tests.support.slurm_cluster import PATIENCE_S

pytestmark = pytest.mark.live
# Two points, of which Slurm starts the second only when the first has ended.
IN_TURN = {"at_once": 1, "options": ["--nodelist=n3"]}


class Watched:
    """What a server shows of a campaign."""

    def __init__(self, server, site, campaign: str) -> None:
        self.server, self.site, self.campaign = server, site, campaign
        self.client = httpx.Client(base_url=f"{server.url}/api/v1", timeout=PATIENCE_S, trust_env=False)

    def get(self, path: str):
        answer = self.client.get(path)
        return answer.json() if answer.status_code == 200 else {}

    def jobs(self) -> list[dict]:
        return self.get(f"/campaigns/{self.campaign}").get("job_list", [])

    def states(self) -> list[str]:
        return [job["state"] for job in self.jobs()]

    def until(self, what: str, holds) -> None:
        self.site.until(what, holds)

    def history(self, index: int) -> list[str]:
        return [line["kind"] for line in self.get(f"/jobs/{self.campaign}-job-{index}")["history"]]

    def is_whole(self) -> bool:
        """Whether the server has every result, each once, as the store has them."""
        own = {job.job: (job.state, len(job.runs)) for job in self.site.jobs(self.campaign)}
        told = self.get(f"/campaigns/{self.campaign}/result")["jobs"]
        once = all(self.history(job["index"]).count("result told") == 1 for job in told)
        return once and {job["job"]: (job["state"], len(job["runs"])) for job in told} == own


def test_a_server_sees_what_waits_what_runs_and_every_result_as_it_comes(site, serve_process):
    server = serve_process()
    document = waiting(site, 2, slurm=IN_TURN, alerts=[{"when": "job failed"}])
    process = site.start(document, "--server", server.url)
    seen = Watched(server, site, site.newest())
    seen.until("one job runs, the other waits", lambda: seen.states() == ["running", "pending"])
    seen.until("it says where", lambda: "on n3" in seen.jobs()[0]["progress"]["note"])
    seen.until("it says how far", lambda: seen.jobs()[0]["progress"]["phase"])
    seen.until("it says for what", lambda: "JobArrayTaskLimit" in seen.jobs()[1]["progress"]["note"])
    events: list[dict] = []
    listening = threading.Thread(target=_listen, args=(server.url, seen.campaign, events), daemon=True)
    listening.start()
    go(site)
    assert process.wait(PATIENCE_S) == 0, site.said()
    assert seen.states() == ["done", "done"]
    assert seen.get(f"/campaigns/{seen.campaign}")["state"] == "done"
    assert seen.is_whole()
    listening.join(PATIENCE_S)
    kinds = [one["kind"] for one in events]
    assert kinds[0] == "submitted"
    assert {"began", "run began", "result told"} <= set(kinds)
    assert kinds[-1] == "campaign settled"
    # A result of another campaign would be measured by the fleet; this one is the cluster's.
    assert seen.client.post(f"/campaigns/{seen.campaign}/retry").status_code == 400
    assert seen.get("/series?benchmark=small")["items"], "results of a cluster make series as any others"


def _listen(url: str, campaign: str, events: list[dict]) -> None:
    with httpx.stream(
        "GET", f"{url}/api/v1/campaigns/{campaign}/events", timeout=PATIENCE_S, trust_env=False
    ) as stream:
        for line in stream.iter_lines():
            if line.startswith("data: "):
                events.append(json.loads(line[6:]))
                if events[-1]["kind"] == "campaign settled":
                    return


def test_a_server_that_dies_in_the_middle_ends_nothing_and_is_reported_later(site, serve_process):
    server = serve_process()
    process = site.start(waiting(site, 2, slurm=IN_TURN), "--server", server.url)
    seen = Watched(server, site, site.newest())
    seen.until("a job runs", lambda: seen.states() == ["running", "pending"])
    server.kill()
    go(site)
    assert process.wait(PATIENCE_S) == 0, site.said()
    assert site.state(seen.campaign) == "done"
    assert "the server gets the rest later" in site.said()
    assert f"`assay campaigns attach {seen.campaign}` sends it later" in site.said()
    server.start()
    assert seen.states() == ["running", "pending"]
    assert site.assay("campaigns", "attach", seen.campaign).wait(PATIENCE_S) == 0, site.said()
    assert seen.states() == ["done", "done"]
    assert seen.is_whole()
    # Nothing is left to tell, and the same once more changes nothing.
    (site.shared(seen.campaign) / "server.json").unlink()
    assert site.assay("campaigns", "attach", seen.campaign, "--server", server.url).wait(PATIENCE_S) == 0
    assert seen.is_whole()
    assert site.assay("results", "rm", seen.campaign).wait(PATIENCE_S) == 0
    assert not site.shared(seen.campaign).exists()


def test_a_lost_login_shell_loses_nothing_on_the_server(site, serve_process):
    server = serve_process()
    process = site.start(waiting(site, 2), "--server", server.url)
    seen = Watched(server, site, site.newest())
    seen.until("both run", lambda: seen.states() == ["running", "running"])
    process.send_signal(signal.SIGKILL)
    process.wait(PATIENCE_S)
    # The server is found again by the campaign alone; who leaves in good order says so.
    again = site.assay("campaigns", "attach", seen.campaign)
    site.until("it is followed again", lambda: site.said().count("2 running on") == 2)
    again.send_signal(signal.SIGINT)
    assert again.wait(PATIENCE_S) == 130
    assert all("no process follows it for now" in job["progress"]["note"] for job in seen.jobs())
    go(site)
    site.until("Slurm has done both", lambda: site.queue(seen.campaign) == [])
    assert seen.states() == ["running", "running"]
    assert site.assay("campaigns", "attach", seen.campaign).wait(PATIENCE_S) == 0, site.said()
    assert seen.states() == ["done", "done"]
    assert seen.is_whole()
    assert [one["id"] for one in seen.get("/campaigns")["items"]] == [seen.campaign]
