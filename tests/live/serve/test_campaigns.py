"""From a submission to its results, through the API."""

import csv
import io
import json

import pytest
from tests.live.serve.setups import Agent, benchmark, is_problem, result_of, samples_file, submit
from tests.support.running_server import wait_for

from assay.analyse.records import CampaignRecord
from assay.documents import from_json

pytestmark = pytest.mark.live


def ended(client, campaign, state="done"):
    return wait_for(lambda: client.get(f"/campaigns/{campaign}").json()["state"] == state, what=f"{campaign} {state}")


def test_a_campaign_from_submission_to_its_results(server):
    client = server.client
    agent = Agent(client)
    answer = submit(client, labels={"team": "blue"})
    assert answer["placement"]["placeable"]
    assert answer["placement"]["groups"][0]["agents"] == ["box"]
    campaign = answer["id"]
    full = client.get(f"/campaigns/{campaign}").json()
    assert (full["jobs"], full["runs"], full["counts"]) == (2, 6, {"pending": 2})
    assert [job["label"] for job in full["job_list"]] == ["batch=1", "batch=2"]
    assert agent.work() == 2
    ended(client, campaign)
    record = from_json(CampaignRecord, client.get(f"/campaigns/{campaign}/result").text, source="server")
    assert [job.state for job in record.jobs] == ["done", "done"]
    assert record.labels == {"team": "blue"}
    assert record.jobs[0].metrics["latency_ms"].runs == 3


def test_results_in_every_form(server):
    client = server.client
    agent = Agent(client)
    campaign = submit(client)["id"]
    agent.work()
    table = list(csv.DictReader(io.StringIO(client.get(f"/campaigns/{campaign}/results.csv").text)))
    assert [row["JobId"] for row in table] == [f"{campaign}-job-0", f"{campaign}-job-1"]
    assert client.get(f"/campaigns/{campaign}/results.json").json()["campaign"] == campaign
    assert client.get(f"/campaigns/{campaign}/results.md").text.startswith("# speed")
    page = client.get(f"/campaigns/{campaign}/results.html")
    assert "<html" in page.text
    assert "script-src" not in page.headers["content-security-policy"]
    is_problem(client.get(f"/campaigns/{campaign}/results.xlsx"), 404, "unknown-form")


def test_the_answer_in_words(server):
    client = server.client
    agent = Agent(client)
    campaign = submit(client)["id"]
    waiting = client.get(f"/campaigns/{campaign}/answer")
    assert waiting.json()["sentences"] == ["No job has ended yet: 2 not started."]
    agent.work()
    ended(client, campaign)
    answer = client.get(f"/campaigns/{campaign}/answer").json()
    assert answer["title"].startswith("speed · ")
    assert answer["columns"][0]["metric"] == "latency_ms"
    assert {line["label"] for line in answer["lines"]} == {"batch=1", "batch=2"}
    assert all(line["cells"][0]["value"] != "-" for line in answer["lines"])
    assert answer["sentences"]
    tag = {"If-None-Match": client.get(f"/campaigns/{campaign}/answer").headers["etag"]}
    assert client.get(f"/campaigns/{campaign}/answer", headers=tag).status_code == 304
    is_problem(client.get("/campaigns/none/answer"), 404, "unknown-campaign")
    (picture,) = client.get(f"/campaigns/{campaign}/panels").json()["items"]
    assert picture["title"] == "latency_ms of all jobs"
    assert picture["svg"].startswith("<svg")
    is_problem(client.get("/campaigns/none/panels"), 404, "unknown-campaign")


def test_an_unchanged_result_is_not_sent_again(server):
    client = server.client
    agent = Agent(client)
    campaign = submit(client)["id"]
    first = client.get(f"/campaigns/{campaign}/result")
    again = client.get(f"/campaigns/{campaign}/result", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    agent.work()
    changed = client.get(f"/campaigns/{campaign}/result", headers={"If-None-Match": first.headers["etag"]})
    assert changed.status_code == 200
    assert changed.headers["etag"] != first.headers["etag"]


def test_lists_are_paged_and_filtered(server):
    client = server.client
    ids = [submit(client, benchmark(f"bench {number}", (1,)))["id"] for number in range(5)]
    page = client.get("/campaigns", params={"limit": 2}).json()
    seen = [one["id"] for one in page["items"]]
    while page["next"]:
        page = client.get("/campaigns", params={"limit": 2, "cursor": page["next"]}).json()
        seen += [one["id"] for one in page["items"]]
    assert seen == list(reversed(ids))
    assert [one["id"] for one in client.get("/campaigns", params={"benchmark": "bench 3"}).json()["items"]] == [ids[3]]
    assert client.get("/campaigns", params={"state": "done"}).json()["items"] == []
    is_problem(client.get("/campaigns", params={"limit": 501}), 422, "request")
    is_problem(client.get("/campaigns", params={"cursor": "no cursor"}), 400, "cursor")
    jobs = client.get("/jobs", params={"text": "bench 2"}).json()["items"]
    assert [one["campaign"] for one in jobs] == [ids[2]]


def test_cancel_and_retry_a_campaign(server):
    client = server.client
    agent = Agent(client)
    campaign = submit(client)["id"]
    lease = agent.lease()
    is_problem(client.delete(f"/campaigns/{campaign}"), 409, "busy")
    cancelled = client.post(f"/campaigns/{campaign}/cancel").json()
    assert cancelled["state"] == "cancelled"
    assert len(cancelled["jobs"]) == 2
    assert agent.beat(lease).json()["lost"] == [{"job": lease.job.id, "fence": lease.fence}]
    assert agent.deliver(lease).json() == {"delivery": "late"}
    record = from_json(CampaignRecord, client.get(f"/campaigns/{campaign}/result").text, source="server")
    assert [job.state for job in record.jobs] == ["cancelled", "cancelled"]
    retried = client.post(f"/campaigns/{campaign}/retry").json()
    assert retried["state"] == "running"
    assert len(retried["jobs"]) == 2
    assert agent.work() == 2
    ended(client, campaign)
    assert client.get(f"/jobs/{lease.job.id}").json()["evidence"][0]["reason"] == "late"
    assert client.delete(f"/campaigns/{campaign}").status_code == 204
    is_problem(client.get(f"/campaigns/{campaign}"), 404, "unknown-campaign")


def test_resubmit_makes_an_equal_campaign(server):
    client = server.client
    first = submit(client, labels={"team": "blue"}, priority=3, agent="box")
    again = client.post(f"/campaigns/{first['id']}/resubmit")
    assert again.status_code == 201
    assert again.json()["id"] != first["id"]
    old, new = (client.get(f"/campaigns/{one['id']}").json() for one in (first, again.json()))
    assert (new["labels"], new["priority"]) == (old["labels"], old["priority"]) == ({"team": "blue"}, 3)
    assert new["jobs"] == old["jobs"]
    assert "on box" in again.json()["placement"]["groups"][0]["needs"]


def test_nobody_can_take_it_is_said_at_once(server):
    client = server.client
    alone = submit(client)
    assert "no agent is enrolled" in alone["placement"]["says"]
    Agent(client, "small")
    stuck = submit(client, benchmark(needs={"gpus": 2}))
    assert not stuck["placement"]["placeable"]
    assert stuck["placement"]["groups"][0]["missing"] == {"small": ["gpus: 2 needed, 0 there"]}
    assert client.get(f"/campaigns/{stuck['id']}/placement").json() == stuck["placement"]


def test_what_nobody_can_take_fails_when_asked_to(server):
    client = server.client
    Agent(client)
    stuck = submit(client, benchmark(needs={"gpus": 2}), unplaceable="fail")
    ended(client, stuck["id"], "failed")
    record = from_json(CampaignRecord, client.get(f"/campaigns/{stuck['id']}/result").text, source="server")
    assert record.jobs[0].state == "failed"
    assert "gpus: 2 needed" in record.jobs[0].error.message


def test_a_deadline_ends_what_has_not_ended(server):
    client = server.client
    campaign = submit(client, deadline_s=0.2)["id"]
    ended(client, campaign, "failed")
    job = client.get(f"/jobs/{campaign}-job-0/result").json()
    assert job["state"] == "failed"
    assert "deadline" in job["error"]["message"]


def test_the_result_of_a_job_before_during_and_after(server):
    client = server.client
    agent = Agent(client)
    campaign = submit(client)["id"]
    job = f"{campaign}-job-0"
    assert client.get(f"/jobs/{job}/result").json()["state"] == "pending"
    lease = agent.lease()
    content, digest = samples_file()
    answer = agent.deliver(lease, result_of(lease.job, samples=digest))
    body = is_problem(answer, 409, "missing-artefact")
    assert body["errors"][0]["sha256"] == digest
    agent.upload(content)
    assert agent.deliver(lease, result_of(lease.job, samples=digest)).json() == {"delivery": "accepted"}
    assert client.get(f"/jobs/{job}/result").json()["state"] == "done"
    samples = client.get(f"/jobs/{job}/runs/0/samples")
    assert samples.content == content
    assert samples.headers["content-type"].startswith("application/vnd.apache.parquet")
    is_problem(client.get(f"/jobs/{job}/runs/1/samples"), 404, "unknown-samples")
    assert client.head(f"/artefacts/{digest}").status_code == 200
    zipped = client.get("/results/export", params={"campaign": campaign})
    assert zipped.headers["content-type"] == "application/zip"
    assert zipped.content[:2] == b"PK"


def test_an_export_holds_every_record_and_sample(server, tmp_path):
    import zipfile

    client = server.client
    agent = Agent(client)
    campaign = submit(client)["id"]
    lease = agent.lease()
    content, digest = samples_file()
    agent.upload(content)
    agent.deliver(lease, result_of(lease.job, samples=digest))
    archive = zipfile.ZipFile(io.BytesIO(client.get("/results/export", params={"campaign": campaign}).content))
    assert archive.testzip() is None
    assert archive.read(f"{campaign}/samples/job-0-run-0.parquet") == content
    assert json.loads(archive.read(f"{campaign}/result.json"))["campaign"] == campaign
    lines = client.get("/results/export", params={"campaign": campaign, "format": "ndjson"}).text.splitlines()
    assert [json.loads(line)["index"] for line in lines] == [0, 1]
    is_problem(client.get("/results/export", params={"campaign": "c-none"}), 404, "unknown-campaign")


def test_results_in_lines_and_as_a_matrix(server):
    client = server.client
    agent = Agent(client)
    campaign = submit(client)["id"]
    while (lease := agent.lease(wait_s=0)) is not None:
        agent.deliver(lease, result_of(lease.job, scale=1.0 + lease.job.index))
    lines = client.get("/results", params={"campaign": campaign}).json()["items"]
    assert [line["index"] for line in lines] == [0, 1]
    assert (
        lines[0]["metrics"]["latency_ms"]["interval"]["low"]
        < 10
        < lines[0]["metrics"]["latency_ms"]["interval"]["high"]
    )
    matrix = client.get("/results/matrix", params={"campaign": campaign, "rows": "workload.batch"}).json()
    assert (matrix["metric"], matrix["row_values"]) == ("latency_ms", ["1", "2"])
    assert [cell["answer"] for cell in matrix["cells"]] == ["base", "worse"]
    assert 0.9 < matrix["cells"][1]["change"]["low"] < matrix["cells"][1]["change"]["high"] < 1.1
    is_problem(client.get("/results/matrix", params={"campaign": campaign, "rows": "colour"}), 400, "axis")
    empty = submit(client)["id"]
    assert client.get("/results/matrix", params={"campaign": empty}).json()["cells"] == []
