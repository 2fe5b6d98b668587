"""Campaigns that are measured elsewhere: who may tell them, what is refused, what the fleet never gets."""

from __future__ import annotations

import json

from tests.live.serve.setups import Agent, is_problem, result_of, samples_file

from assay.documents import to_json
from assay.place.fleet.protocol import Elsewhere
from assay.run.inputs import plan_of
from assay.spec.load import load

ID = "c0ffee01"
DOCUMENT = {"benchmark": "there", "target": {"model": "squeezenet"}, "measure": {"runs": 3},
            "matrix": {"workload.batch": [1, 2]}, "place": {"engine": "slurm"}}  # fmt: skip
PLAN = plan_of(load(DOCUMENT)).submitted_as(ID)


def told(**more) -> dict:
    whole = Elsewhere("slurm", "there", "2026-01-01T00:00:00+00:00", DOCUMENT, PLAN.jobs)
    return {**json.loads(to_json(whole)), **more}


def know(server, **more):
    return server.client.put(f"/elsewhere/{ID}", json=told(**more))


def stand(server, *jobs):
    return server.client.post(f"/elsewhere/{ID}/standings", json={"jobs": list(jobs)})


def deliver(server, index=0, **more):
    return server.client.put(f"/elsewhere/{ID}/jobs/{index}/result", json=result_of(PLAN.jobs[index], **more))


def test_a_campaign_is_known_once_under_its_own_name(server):
    assert know(server).json() == {"campaign": ID, "new": True}
    assert know(server).json() == {"campaign": ID, "new": False}
    found = server.client.get(f"/campaigns/{ID}").json()
    assert (found["engine"], found["state"], found["jobs"]) == ("slurm", "running", 2)
    assert [job["id"] for job in found["job_list"]] == [f"{ID}-job-0", f"{ID}-job-1"]
    assert found["job_list"][0]["label"]
    other = plan_of(load({**DOCUMENT, "matrix": {"workload.batch": [4]}})).submitted_as(ID)
    is_problem(know(server, jobs=[json.loads(to_json(job)) for job in other.jobs]), 409, "conflict")


def test_no_agent_gets_such_a_job_and_nobody_here_can_end_or_repeat_it(server):
    agent = Agent(server.client)
    know(server)
    assert agent.lease(wait_s=0) is None
    for verb in ("cancel", "retry"):
        is_problem(server.client.post(f"/campaigns/{ID}/{verb}"), 400, "not-fleet")
        assert server.client.post(f"/jobs/{ID}-job-0/{verb}").status_code >= 400
    is_problem(server.client.post(f"/campaigns/{ID}/resubmit"), 422, "engine")
    assert server.client.get("/jobs", params={"state": "pending"}).json()["items"]


def test_a_result_is_taken_once_and_makes_a_series(server):
    know(server)
    content, digest = samples_file()
    is_problem(deliver(server, samples=digest), 409, "missing-artefact")
    server.client.put(f"/artefacts/{digest}", content=content)
    assert deliver(server, samples=digest).json() == {"delivery": "accepted"}
    assert deliver(server, samples=digest).json() == {"delivery": "repeated"}
    assert deliver(server, samples=digest, scale=2.0).json() == {"delivery": "replaced"}
    assert deliver(server, 1, failed=True).json() == {"delivery": "accepted"}
    # What came late about a job that has ended changes nothing.
    assert stand(server, {"index": 0, "state": "running"}).status_code == 204
    found = server.client.get(f"/campaigns/{ID}").json()
    assert found["state"] == "partial"
    assert [job["state"] for job in found["job_list"]] == ["done", "failed"]
    assert server.client.get("/series").json()["items"]


def test_a_job_that_fails_elsewhere_is_an_alert_once(server):
    server.client.post("/alert-rules", json={"name": "failures", "when": "job failed"})
    know(server, document={**DOCUMENT, "alerts": [{"when": "job failed"}]})
    deliver(server, failed=True)
    alerts = server.client.get("/alerts").json()["items"]
    assert [one["kind"] for one in alerts] == ["failed"]


WRONG = [
    ({"engine": "fleet"}, "engine"),
    ({"engine": "Slurm; rm"}, "engine"),
    ({"benchmark": ""}, "benchmark"),
    ({"benchmark": "another"}, "jobs.0"),
    ({"created_at": "yesterday"}, "created_at"),
    ({"created_at": "2026-01-01T00:00:00"}, "created_at"),
    ({"jobs": []}, "jobs"),
]


def test_what_cannot_be_kept_is_refused(server):
    for change, at in WRONG:
        assert is_problem(know(server, **change), 422, "request")["at"] == at
    assert is_problem(know(server, jobs=[{"benchmark": "there"}]), 422, "request")["errors"]
    assert server.client.get("/campaigns").json()["items"] == []


def test_only_what_was_set_can_be_reported_about(server):
    is_problem(stand(server, {"index": 0, "state": "running"}), 404, "unknown-campaign")
    is_problem(deliver(server), 404, "unknown-job")
    know(server)
    assert stand(server, {"index": 7, "state": "running"}).status_code == 204
    is_problem(stand(server, {"index": -1, "state": "running"}), 422, "request")
    is_problem(deliver(server, 0) and server.client.put(f"/elsewhere/{ID}/jobs/0/result", content=b"{}"), 422, "result")
    fleet = server.client.post("/campaigns", json={"document": {**DOCUMENT, "place": {}}}).json()["id"]
    is_problem(server.client.post(f"/elsewhere/{fleet}/standings", json={"jobs": []}), 404, "unknown-campaign")
    result = result_of(PLAN.jobs[0])
    is_problem(server.client.put(f"/elsewhere/{fleet}/jobs/0/result", json=result), 404, "unknown-job")
