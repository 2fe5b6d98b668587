"""Jobs and the agents that hold them, through the API."""

import pytest
from tests.live.serve.setups import Agent, benchmark, is_problem, result_of, submit
from tests.support.running_server import wait_for

pytestmark = pytest.mark.live


def test_a_job_in_full(server):
    client = server.client
    agent = Agent(client)
    campaign = submit(client)["id"]
    lease = agent.lease()
    assert agent.progress(lease, log=["first line", "second line"]).status_code == 204
    job = client.get(f"/jobs/{lease.job.id}").json()
    assert job["summary"]["progress"]["phase"] == "measure"
    assert job["summary"]["agent_name"] == "box"
    assert job["document"]["definition"]["target"]["model"] == "squeezenet"
    agent.deliver(lease)
    job = client.get(f"/jobs/{lease.job.id}").json()
    assert job["result"]["verdict"]
    assert job["attempts"][0]["state"] == "delivered"
    kinds = [event["kind"] for event in job["history"]]
    assert kinds[:2] == ["submitted", "leased"]
    assert "result accepted" in kinds
    logs = client.get(f"/jobs/{lease.job.id}/logs").json()
    assert [line["text"] for line in logs["lines"]] == ["first line", "second line"]
    assert client.get(f"/jobs/{lease.job.id}/logs", params={"after": logs["next"]}).json()["lines"] == []
    assert client.get("/jobs", params={"campaign": campaign, "state": "done"}).json()["items"][0]["id"] == lease.job.id
    is_problem(client.get("/jobs/no-such-job"), 404, "unknown-job")
    is_problem(client.get("/jobs/no-such-job/logs"), 404, "unknown-job")


def test_reasons_come_with_what_they_do_and_the_main_one_first(server):
    client = server.client
    agent = Agent(client)
    submit(client)
    lease = agent.lease()
    document = result_of(lease.job)
    document["verdict"] = "suspect"
    document["checks"] += [
        {"name": "turbo off or steady", "passed": False, "detail": "turbo is on"},
        {"name": "enough samples", "passed": False, "detail": "20 of 100"},
        {"name": "machine quiet", "passed": False, "detail": "others used 18 % of it"},
    ]
    agent.deliver(lease, document)
    reasons = client.get(f"/jobs/{lease.job.id}").json()["reasons"]
    assert [(reason["severity"], reason["check"]["name"]) for reason in reasons] == [
        ("suspect", "machine quiet"),
        ("suspect", "enough samples"),
        ("advice", "turbo off or steady"),
    ]


def test_an_agent_may_not_rename_what_it_measured(server):
    agent = Agent(server.client)
    submit(server.client)
    lease = agent.lease()
    forged = {
        **result_of(lease.job),
        "job": "c1-job-9",
        "index": 7,
        "digest": "0" * 64,
        "point": {},
        "definition": {"target": {"model": "/var/agent/other.onnx"}},
    }
    assert agent.deliver(lease, forged).json() == {"delivery": "accepted"}
    kept = server.client.get(f"/jobs/{lease.job.id}/result").json()
    assert (kept["job"], kept["index"], kept["digest"]) == (lease.job.id, 0, lease.job.digest)
    assert kept["point"] == {"workload.batch": 1}
    assert kept["definition"]["target"] == {"model": "squeezenet"}


@pytest.mark.parametrize("wrong", [{}, {"state": "running"}, {"runs": "none"}])
def test_what_is_no_result_is_refused_and_the_lease_stays(server, wrong):
    agent = Agent(server.client)
    submit(server.client)
    lease = agent.lease()
    document = {**result_of(lease.job), **wrong} if wrong else {}
    is_problem(agent.deliver(lease, document), 422, "result")
    assert agent.beat(lease).json()["lost"] == []
    assert agent.deliver(lease).json() == {"delivery": "accepted"}


def test_a_result_counts_once(server):
    agent = Agent(server.client)
    submit(server.client)
    lease = agent.lease()
    assert [agent.deliver(lease).json()["delivery"] for _ in range(2)] == ["accepted", "repeated"]
    stranger = Agent(server.client, "stranger")
    assert stranger.deliver(lease).json() == {"delivery": "unknown"}
    assert [one["reason"] for one in server.client.get(f"/jobs/{lease.job.id}").json()["evidence"]] == ["repeated"]
    unknown = server.client.put("/jobs/none/attempts/1/result", params={"agent": agent.id}, json=result_of(lease.job))
    is_problem(unknown, 404, "unknown-job")


def test_a_failed_result_says_why(server):
    agent = Agent(server.client)
    campaign = submit(server.client, benchmark(batches=(1,)))["id"]
    lease = agent.lease()
    agent.deliver(lease, result_of(lease.job, failed=True))
    job = server.client.get("/jobs", params={"campaign": campaign}).json()["items"][0]
    assert job["state"] == "failed"
    assert "the process died" in job["reason"]
    wait_for(lambda: server.client.get(f"/campaigns/{campaign}").json()["state"] == "failed")


def test_single_jobs_are_cancelled_and_retried(server):
    client = server.client
    campaign = submit(client)["id"]
    job = f"{campaign}-job-0"
    assert client.post(f"/jobs/{job}/cancel").json() == {"job": job, "state": "cancelled"}
    assert client.post(f"/jobs/{job}/cancel").json() == {"job": job, "state": "cancelled"}
    assert client.post(f"/jobs/{job}/retry").json() == {"job": job, "state": "pending"}
    is_problem(client.post(f"/jobs/{job}/retry"), 409, "conflict")
    is_problem(client.post("/jobs/none/cancel"), 404, "unknown-job")


def test_a_batch_says_what_became_of_each(server):
    client = server.client
    campaign = submit(client)["id"]
    names = [f"{campaign}-job-0", f"{campaign}-job-1", "none"]
    outcomes = client.post("/jobs/batch", json={"action": "cancel", "jobs": names}).json()["outcomes"]
    assert [(one["job"], one["done"], one["state"]) for one in outcomes] == [
        (names[0], True, "cancelled"),
        (names[1], True, "cancelled"),
        ("none", False, None),
    ]
    again = client.post("/jobs/batch", json={"action": "cancel", "jobs": names[:1]}).json()["outcomes"][0]
    assert not again["done"]
    assert again["reason"]
    is_problem(client.post("/jobs/batch", json={"action": "explode", "jobs": []}), 422, "request")


def test_a_lost_lease_is_reported(server):
    client = server.client
    agent, other = Agent(client), Agent(client, "other")
    submit(client)
    lease = agent.lease()
    is_problem(other.progress(lease), 409, "lost")
    release = {"agent": agent.id, "reason": "shutting down"}
    path = f"/jobs/{lease.job.id}/attempts/{lease.fence}/release"
    assert [client.post(path, json=release).status_code for _ in range(2)] == [204, 204]
    is_problem(agent.progress(lease), 409, "lost")
    assert other.lease().fence == 2


def test_a_claim_counts_once(server):
    client = server.client
    agent, other = Agent(client), Agent(client, "other")
    campaign = submit(client)["id"]
    claim = {"job": f"{campaign}-job-1", "fence": 1}
    given = client.post(f"/agents/{agent.id}/claim", json=claim)
    assert given.status_code == 200
    assert given.json()["fence"] == 1
    assert client.post(f"/agents/{agent.id}/claim", json=claim).status_code == 200
    is_problem(client.post(f"/agents/{other.id}/claim", json=claim), 409, "not-yours")
    is_problem(client.post("/agents/agent-none/claim", json=claim), 404, "unknown-agent")


def test_files_that_an_attempt_leaves(server):
    client = server.client
    agent = Agent(client)
    submit(client)
    lease = agent.lease()
    digest = agent.upload(b"lines of a log", "run.log")
    path = f"/jobs/{lease.job.id}/attempts/{lease.fence}/artefacts"
    attached = client.put(f"{path}/run.log", params={"agent": agent.id, "sha256": digest})
    assert attached.status_code == 204
    missing = client.put(f"{path}/run.log", params={"agent": agent.id, "sha256": "0" * 64})
    is_problem(missing, 409, "missing-artefact")
    stranger = client.put(f"{path}/x", params={"agent": "agent-none", "sha256": digest})
    is_problem(stranger, 404, "unknown-attempt")
    files = client.get(f"/jobs/{lease.job.id}/artefacts").json()["items"]
    assert [(one["name"], one["sha256"], one["size_bytes"]) for one in files] == [("run.log", digest, 14)]


@pytest.mark.parametrize("path", ["/jobs", "/results", "/campaigns", "/agents"])
def test_a_slip_of_the_pen_is_no_empty_list(server, path):
    answer = server.client.get(path, params={"state": "runing"})
    assert is_problem(answer, 422, "request")["detail"].startswith("query.state: it must be")
    assert server.client.get(path).json() == {"items": [], "next": None}
