"""Schedules through the API: made, changed, paused, asked for, read, removed."""

from __future__ import annotations

import pytest
from tests.live.serve.setups import Agent, benchmark, is_problem, submit

pytestmark = pytest.mark.live


def scheduled(cron="@hourly", name="nightly", *, ends=True, **section):
    """A benchmark with a schedule; one that ends does so at once, as no agent is enrolled that could take its job."""
    more = {"place": {"fleet": {"unplaceable": "fail"}}} if ends else {}
    return benchmark(name, (1,), schedule={"cron": cron, **section}, **more)


def test_submitting_a_file_with_a_schedule_makes_and_changes_it(server):
    client = server.client
    answer = submit(client, scheduled("0 3 * * *", timezone="Europe/Luxembourg"))
    schedule = answer["schedule"]
    assert (schedule["name"], schedule["state"], len(schedule["next"])) == ("nightly", "active", 5)
    assert all(one["local"][10:16] == "T03:00" for one in schedule["next"])
    again = submit(client, scheduled("0 4 * * *"))["schedule"]
    assert (again["id"], again["schedule"]["cron"]) == (schedule["id"], "0 4 * * *")
    assert submit(client, benchmark("once"))["schedule"] is None
    listed = client.get("/schedules").json()["items"]
    assert [one["id"] for one in listed] == [schedule["id"]]


def test_the_life_of_a_schedule(server):
    client = server.client
    made = client.post("/schedules", json={"document": scheduled(ends=False)})
    assert made.status_code == 201
    assert client.post("/schedules", json={"document": scheduled(ends=False)}).status_code == 200
    full = client.get("/schedules/nightly").json()
    assert full["submission"]["document"]["benchmark"] == "nightly"
    assert full["summary"]["id"] == made.json()["id"]
    paused = client.post("/schedules/nightly/pause").json()
    assert (paused["state"], paused["next"]) == ("paused", [])
    fired = client.post(f"/schedules/{made.json()['id']}/run").json()
    assert (fired["outcome"], fired["reason"]) == ("submitted", "asked for")
    assert client.get(f"/campaigns/{fired['campaign']}").json()["benchmark"] == "nightly"
    again = client.post("/schedules/nightly/run").json()
    assert again["outcome"] == "skipped"
    assert fired["campaign"] in again["reason"]
    assert len(client.post("/schedules/nightly/resume").json()["next"]) == 5
    history = client.get("/schedules/nightly/firings").json()["items"]
    assert [one["outcome"] for one in history] == ["skipped", "submitted"]
    assert client.get("/schedules").json()["items"][0]["last"]["outcome"] == "skipped"
    assert client.delete("/schedules/nightly").status_code == 204
    is_problem(client.get("/schedules/nightly"), 404, "unknown-schedule")
    assert client.get(f"/campaigns/{fired['campaign']}").status_code == 200


def test_what_cannot_be_scheduled_is_refused(server):
    client = server.client
    is_problem(client.post("/schedules", json={"document": benchmark()}), 422, "no-schedule")
    is_problem(client.post("/schedules", json={"document": scheduled("99 * * * *")}), 422, "value")
    is_problem(client.post("/schedules", json={"document": scheduled(name="a/b")}), 422, "name")
    lacking = {**scheduled(), "target": {"model": "m.onnx"}}
    files = {"m.onnx": [{"name": "m.onnx", "sha256": "a" * 64, "size_bytes": 5}]}
    is_problem(client.post("/schedules", json={"document": lacking, "files": files}), 409, "missing-artefact")
    is_problem(client.post("/campaigns", json={"document": scheduled("99 * * * *")}), 422, "value")
    for path in ("/schedules/none/run", "/schedules/none/pause", "/schedules/none/resume"):
        is_problem(client.post(path), 404, "unknown-schedule")
    assert client.get("/schedules").json()["items"] == []
    assert client.get("/campaigns").json()["items"] == []


def test_files_stay_with_the_schedule(server):
    client = server.client
    agent = Agent(client)
    digest = agent.upload(b"not really a model", "m.onnx")
    document = {**scheduled(), "target": {"model": "m.onnx"}}
    files = {"m.onnx": [{"name": "m.onnx", "sha256": digest, "size_bytes": 18}]}
    assert client.post("/schedules", json={"document": document, "files": files}).status_code == 201
    fired = client.post("/schedules/nightly/run").json()
    assert fired["outcome"] == "submitted", fired
    assert agent.lease().job.files["m.onnx"][0].sha256 == digest


def test_a_stored_benchmark_is_scheduled_as_it_is_now(server):
    client = server.client
    assert client.post("/benchmarks", json={"document": scheduled()}).status_code == 201
    assert client.post("/schedules", json={"benchmark": "nightly"}).status_code == 201
    client.delete("/benchmarks/nightly")
    assert client.post("/schedules/nightly/run").json()["outcome"] == "submitted"


def test_repeating_a_campaign_of_a_schedule_by_hand_works(server):
    client = server.client
    client.post("/schedules", json={"document": scheduled()})
    campaign = client.post("/schedules/nightly/run").json()["campaign"]
    assert client.post(f"/campaigns/{campaign}/resubmit").status_code == 201
    assert len(client.get("/schedules/nightly/firings").json()["items"]) == 1


def test_the_routes_have_examples(server):
    document = server.app.openapi()
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if path.startswith("/api/v1/schedules") and method != "delete":
                answer = "201" if path == "/api/v1/schedules" and method == "post" else "200"
                content = operation["responses"][answer]["content"]["application/json"]
                assert content["example"], (method, path)
                assert content["schema"], (method, path)
