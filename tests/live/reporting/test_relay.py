"""A campaign of a store, told to a real server in a thread: what it has, what it misses, what is told twice."""

from __future__ import annotations

from dataclasses import replace
from time import monotonic, sleep

import pytest
from tests.live.serve.setups import result_of
from tests.unit.store.setups import FakeClock

from assay.analyse.records import MultiRunJobResult
from assay.documents import adapter, from_json, to_json
from assay.engines.base import NullReporter
from assay.engines.ledger import StoreLedger
from assay.engines.reporting import remembered_server, reporting_to
from assay.engines.slurm.folder import SharedFolder
from assay.place.fleet.client import FleetClient
from assay.place.fleet.protocol import JobProgress
from assay.run.inputs import plan_of
from assay.run.records import RunOutcome
from assay.spec.load import load
from assay.store.store import Store

pytestmark = pytest.mark.live
PATIENCE_S = 120.0
DOCUMENT = {"benchmark": "there", "target": {"command": ["true"]}, "measure": {"runs": 3},
            "matrix": {"target.env.N": ["1", "2"]}, "place": {"engine": "slurm"}}  # fmt: skip


class Campaign:
    """Two jobs of a cluster in a store."""

    def __init__(self, folder) -> None:
        self.folder, self.clock, self.notes = folder, FakeClock(), []
        self.store = Store(folder / "store")
        loaded = load(DOCUMENT)
        plan = self.store.create_campaign(
            plan_of(loaded), loaded.source.document, {"team": "a"}, "", self.clock, "slurm"
        )
        self.jobs, self.id = plan.jobs, plan.jobs[0].campaign

    def end(self, index: int, *, state: str = "done", files=None) -> None:
        job = self.jobs[index]
        result = adapter(MultiRunJobResult).validate_python(result_of(job, failed=state != "done"))
        kept = tuple(self.store.keep_run(job.id, RunOutcome(run, files=files or {})) for run in result.runs)
        self.store.move_job(job.id, "start")
        event = {"done": "finish", "failed": "fail", "cancelled": "cancel"}[state]
        told = to_json(replace(result, state=state, runs=kept))
        self.store.end_job(job.id, event, verdict="valid", result=told, seconds=1.0)

    def told(self, url: str, token: str | None = None):
        client = FleetClient(url, token)
        return reporting_to(client, self.store, self.id, self.folder, self.notes.append)


@pytest.fixture
def campaign(tmp_path):
    made = Campaign(tmp_path / "here")
    yield made
    made.store.close()


def shown(server, campaign):
    return server.client.get(f"/campaigns/{campaign.id}").json()


def states(server, campaign):
    return [job["state"] for job in shown(server, campaign).get("job_list", [])]


def until(holds) -> None:
    until_s = monotonic() + PATIENCE_S
    while not holds():
        assert monotonic() < until_s, "it never happened"
        sleep(0.02)


def history(server, campaign, index):
    lines = server.client.get(f"/jobs/{campaign.id}-job-{index}").json()["history"]
    return [one["kind"] for one in lines if one["kind"] not in ("submitted", "campaign settled")]


def test_what_stands_and_ends_here_stands_and_ends_there(server, campaign, tmp_path):
    log = tmp_path / "log"
    log.write_text("a line")
    with campaign.told(server.url) as relay:
        relay.progressed([JobProgress(0, "waiting", "priority"), JobProgress(1, "running", "on n1", 0, 3, "load", 0.5)])
        until(lambda: states(server, campaign) == ["pending", "running"])
        first, second = (job["progress"] for job in shown(server, campaign)["job_list"])
        assert first["note"] == "priority"
        assert (second["note"], second["phase"], second["share"]) == ("on n1", "load", 0.5)
        relay.progressed([JobProgress(1, "waiting", "put back into the queue")])
        until(lambda: states(server, campaign) == ["pending", "pending"])
        for index in (0, 1):
            campaign.end(index, files={"log": log})
            relay.ended(index)
    there = shown(server, campaign)
    assert (there["state"], there["engine"], there["labels"]) == ("done", "slurm", {"team": "a"})
    job = server.client.get(f"/jobs/{campaign.id}-job-1").json()
    assert history(server, campaign, 1) == ["began", "run began", "waits again", "result told"]
    assert {one["name"] for one in job["artefacts"]} == {"run-0-log", "run-1-log", "run-2-log"}
    result = server.client.get(f"/jobs/{campaign.id}-job-0/result").text
    assert from_json(MultiRunJobResult, result, source="there").metrics
    assert campaign.notes == []
    assert remembered_server(campaign.folder) == server.url


def test_everything_is_reported_once_by_who_comes_next(server, campaign):
    campaign.end(0)
    with campaign.told(server.url):
        pass
    campaign.end(1, state="cancelled")
    (campaign.folder / "server.json").unlink()
    with campaign.told(server.url):
        pass
    assert states(server, campaign) == ["done", "cancelled"]
    assert history(server, campaign, 0) == ["result told"]
    assert [one["id"] for one in server.client.get("/campaigns").json()["items"]] == [campaign.id]


def test_a_result_with_more_in_it_takes_the_place_of_the_first(server, campaign):
    with campaign.told(server.url) as relay:
        campaign.end(0)
        relay.ended(0)
        until(lambda: states(server, campaign)[:1] == ["done"])
        job = campaign.jobs[0]
        found = from_json(MultiRunJobResult, campaign.store.campaign(campaign.id)[1][0].result, source="here")
        more = replace(found, environment={**found.environment, "metrics": "joined"})
        campaign.store.replace_result(job.id, verdict="valid", result=to_json(more))
        relay.all_ended()
    assert history(server, campaign, 0) == ["result told", "result replaced"]
    assert server.client.get(f"/jobs/{job.id}/result").json()["environment"]["metrics"] == "joined"


def test_a_file_that_is_too_large_for_the_server_costs_nothing_else(serve, campaign, tmp_path):
    server = serve(max_artefact_mb=0.1)
    large = tmp_path / "large"
    large.write_bytes(bytes(200_000))
    campaign.end(0, files={"large": large})
    with campaign.told(server.url):
        pass
    assert states(server, campaign) == ["done", "pending"]
    run = server.client.get(f"/jobs/{campaign.id}-job-0/result").json()["runs"][0]
    assert "large" not in run["files"]
    assert "did not take it" in run["absent"]["large"]


def test_no_server_of_any_kind_ends_a_campaign(serve, campaign):
    first = serve()
    first.token("user")
    first.stop()
    server = serve()
    campaign.end(0)
    # One that nobody listens at, one that asks for a token, one that has another campaign of this name.
    with campaign.told("http://127.0.0.1:9") as relay:
        relay.progressed([JobProgress(1, "running", "on n1")])
    assert any("does not answer" in note for note in campaign.notes)
    assert any("has not received 1 result" in note for note in campaign.notes)
    campaign.notes.clear()
    with campaign.told(server.url, "wrong"):
        pass
    assert any("the token is not known" in note for note in campaign.notes)


def test_a_campaign_of_which_no_server_is_reported_has_a_reporter_that_does_nothing(campaign):
    folder = SharedFolder(campaign.folder)
    ledger = StoreLedger(campaign.store, campaign.id, campaign.clock, folder, folder)
    with ledger.following(None, campaign.notes.append) as nobody:
        assert isinstance(nobody, NullReporter)


def test_a_server_on_the_same_store_needs_no_telling(serve, campaign):
    server = serve(folder=campaign.folder / "store")
    campaign.end(0)
    with campaign.told(server.url):
        pass
    (note,) = campaign.notes
    assert "is this server's own" in note
    assert states(server, campaign) == ["done", "pending"]


def test_a_campaign_that_was_removed_there_is_reported_again_only_by_the_next_one(server, campaign):
    campaign.end(0)
    with campaign.told(server.url) as relay:
        until(lambda: states(server, campaign) == ["done", "pending"])
        assert server.client.delete(f"/campaigns/{campaign.id}").status_code == 204
        campaign.end(1)
        relay.ended(1)
        until(lambda: relay._given_up)
    assert any("no more is sent" in note for note in campaign.notes)
    assert states(server, campaign) == []
    with campaign.told(server.url):
        pass
    assert states(server, campaign) == ["done", "done"]


def test_a_server_that_comes_back_gets_what_it_missed(serve, campaign):
    server = serve()
    port = server.port
    server.stop()
    campaign.end(0)
    with campaign.told(f"http://127.0.0.1:{port}") as relay:
        until(lambda: relay._failures > 0)
        again = serve(port=port)
        campaign.end(1)
        relay.ended(1)
    assert states(again, campaign) == ["done", "done"]
    assert not any("sends it later" in note for note in campaign.notes)
