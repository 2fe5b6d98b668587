"""SARK's surface, path by path: its fields, its codes, and what its documentation promises where its code did not."""

from __future__ import annotations

import csv
import io

import pytest
from fastapi.testclient import TestClient
from tests.live.serve.setups import Agent, result_of
from tests.support.running_server import new_app, wait_for

from assay.report.export import SARK_COLUMNS
from assay.serve.settings import ServerSettings

WORKER = {
    "device_name": "bench box",
    "ip_address": "10.0.0.7",
    "capabilities": ["CPU (ONNX)", "GPU (ONNX)"],
    "device_info": {"DeviceName": "bench box", "Soc": "M2", "Ram": "16", "DeviceOs": "Linux", "DeviceOsVersion": "12"},
}
MODEL = "https://example.org/models/squeezenet.onnx"


@pytest.fixture
def client(tmp_path):
    app = new_app(ServerSettings(folder=tmp_path / "store"))
    with TestClient(app, base_url="http://127.0.0.1:8080") as made:
        yield made


@pytest.fixture
def v1(client):
    """The same server by its own API, as an agent uses it."""

    class _V1:
        def __getattr__(self, verb):
            return lambda path, **more: getattr(client, verb)(f"/api/v1{path}", **more)

    return _V1()


def campaign(client, *units, **more):
    jobs = [{"compute_unit": unit, "num_inference_runs": 10, **more} for unit in units or ("CPU (ONNX)",)]
    answer = client.post("/api/campaigns", json={"model_url": MODEL, "jobs": jobs})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_root_says_what_it_is(client):
    body = client.get("/api").json()
    assert set(body) == {"status", "version", "endpoints"}
    assert "POST /api/campaigns" in body["endpoints"]


def test_health_reports_about_redis(client):
    body = client.get("/api/health").json()
    assert body["status"] == "healthy"
    assert set(body["redis"]) == {"connected", "host", "port", "db", "timestamp"}
    assert body["redis"]["connected"] is False


def test_registration_creates_then_updates_and_keeps_new_facts(client):
    first = client.post("/api/register", json=WORKER)
    assert first.status_code == 200
    body = first.json()
    assert (body["status"], body["action"]) == ("registered", "created")
    assert body["worker_id"].startswith("worker-")
    again = client.post("/api/register", json={**WORKER, "capabilities": ["CPU (ONNX)"]}).json()
    assert again == {"worker_id": body["worker_id"], "status": "updated", "action": "updated"}
    assert client.get(f"/api/workers/{body['worker_id']}").json()["capabilities"] == ["CPU (ONNX)"]


def test_registration_does_not_need_a_content_type(client):
    import json

    assert client.post("/api/register", content=json.dumps(WORKER)).status_code == 200


@pytest.mark.parametrize("name", ["device_name", "ip_address", "capabilities", "device_info"])
def test_registration_demands_all_four_fields(client, name):
    answer = client.post("/api/register", json={key: value for key, value in WORKER.items() if key != name})
    assert answer.status_code == 400
    assert name in answer.json()["error"]


def test_equal_machines_do_not_collide(client):
    one = client.post("/api/register", json=WORKER).json()["worker_id"]
    other = client.post("/api/register", json={**WORKER, "ip_address": "10.0.0.8"}).json()["worker_id"]
    assert one != other


def test_worker_records_have_sarks_fields(client):
    worker = client.post("/api/register", json=WORKER).json()["worker_id"]
    listed = client.get("/api/workers").json()
    assert listed["count"] == 1
    record = listed["workers"][0]
    assert set(record) == {
        "worker_id",
        "device_name",
        "ip_address",
        "capabilities",
        "device_info",
        "soc",
        "ram_gb",
        "os",
        "os_version",
        "udid",
        "registered_at",
        "status",
        "last_seen",
    }
    assert (record["worker_id"], record["soc"], record["status"]) == (worker, "M2", "active")
    missing = client.get("/api/workers/worker-000000000000")
    assert (missing.status_code, missing.json()) == (404, {"error": "Worker not found"})


def test_states_heartbeats_and_reset(client):
    worker = client.post("/api/register", json=WORKER).json()["worker_id"]
    assert client.put(f"/api/workers/{worker}/status", json={"status": "sleeping"}).status_code == 400
    assert client.put(f"/api/workers/{worker}/reset").status_code == 400
    set_ = client.put(f"/api/workers/{worker}/status", json={"status": "faulty"})
    assert (set_.status_code, set_.json()) == (200, {"worker_id": worker, "status": "faulty"})
    beat = client.post(f"/api/workers/{worker}/heartbeat", json={"timestamp": 1}).json()
    assert (beat["status"], beat["previous_status"], beat["action"]) == ("active", "faulty", "recovered")
    client.put(f"/api/workers/{worker}/status", json={"status": "faulty"})
    assert client.put(f"/api/workers/{worker}/reset").json()["status"] == "active"
    assert client.post("/api/workers/worker-0/heartbeat").status_code == 404
    assert client.put("/api/workers/worker-0/status", json={"status": "busy"}).status_code == 200


def test_health_of_workers_is_reported(client):
    worker = client.post("/api/register", json=WORKER).json()["worker_id"]
    body = client.get(f"/api/workers/{worker}/health")
    assert body.status_code == 200
    assert body.json()["is_healthy"] is True
    assert {"time_since_heartbeat", "seconds_since_heartbeat", "heartbeat_timeout"} <= set(body.json())
    everybody = client.get("/api/health/workers")
    assert everybody.status_code == 200
    assert {key: everybody.json()[key] for key in ("total", "healthy", "unhealthy")} == {
        "total": 1,
        "healthy": 1,
        "unhealthy": 0,
    }
    assert client.get("/api/workers/worker-0/health").status_code == 404


def test_two_equal_jobs_are_two_jobs(client):
    body = campaign(client, "CPU (ONNX)", "CPU (ONNX)", "GPU (CoreML)")
    assert (body["total_jobs"], body["status"]) == (3, "running")
    assert [job["compute_unit"] for job in body["jobs"]] == ["CPU (ONNX)", "CPU (ONNX)", "GPU (CoreML)"]
    assert {job["status"] for job in body["jobs"]} == {"pending"}
    assert body["jobs"][1]["job_id"] == f"{body['campaign_id']}-job-1"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "model_url"),
        ({"model_url": MODEL}, "jobs"),
        ({"model_url": MODEL, "jobs": []}, "jobs"),
        ({"model_url": MODEL, "jobs": [{"compute_unit": "TPU"}]}, "TPU"),
        ({"model_url": MODEL, "jobs": [{"compute_unit": ""}]}, "compute_unit"),
        ({"model_url": MODEL, "jobs": [{"compute_unit": "CPU (ONNX)", "num_inference_runs": 0}]}, "num_inference_runs"),
        ({"model_url": "file:///etc/passwd", "jobs": [{"compute_unit": "CPU (ONNX)"}]}, "http"),
        ([], "object"),
    ],
)
def test_a_wrong_campaign_is_refused_in_words(client, body, says):
    answer = client.post("/api/campaigns", json=body)
    assert answer.status_code == 400
    assert says in answer.json()["error"]
    assert client.get("/api/campaigns").json()["count"] == 0


def test_two_campaigns_of_one_second_are_two(client):
    assert campaign(client)["campaign_id"] != campaign(client)["campaign_id"]
    assert client.get("/api/campaigns").json()["count"] == 2


def test_a_pinned_job_goes_to_its_worker_alone(client, v1):
    named = Agent(v1, "named")
    other = Agent(v1, "other")
    campaign(client, worker_id=f"worker-{named.id.removeprefix('agent-')}")
    assert other.lease(wait_s=0) is None
    queues = client.get("/api/queue/status").json()
    assert queues["worker_queues"][f"worker-{named.id.removeprefix('agent-')}"]["queue_size"] == 1
    assert named.lease(wait_s=0) is not None


def test_the_breakdown_counts_every_state(client, v1):
    agent = Agent(v1)
    made = campaign(client, *["CPU (ONNX)"] * 4)
    path = f"/api/campaigns/{made['campaign_id']}"
    assert client.get(path).json()["job_breakdown"] == {"pending": 4, "running": 0, "complete": 0, "failed": 0}
    agent.deliver(agent.lease(wait_s=0))
    failing = agent.lease(wait_s=0)
    agent.deliver(failing, result_of(failing.job, failed=True))
    running = agent.lease(wait_s=0)
    body = client.get(path).json()
    assert body["job_breakdown"] == {"pending": 1, "running": 1, "complete": 1, "failed": 1}
    assert (body["completed_jobs"], body["failed_jobs"], body["results_file"]) == (1, 1, None)
    assert [job["status"] for job in body["jobs"]] == ["Complete", "Failed", "running", "pending"]
    assert body["jobs"][0]["completed_at"] >= body["jobs"][0]["started_at"]
    assert running is not None
    assert client.get("/api/campaigns/unknown").status_code == 404


def test_results_of_an_unfinished_campaign_are_those_that_are_there(client, v1):
    agent = Agent(v1)
    made = campaign(client, "CPU (ONNX)", "CPU (ONNX)")
    path = f"/api/campaigns/{made['campaign_id']}/results"
    empty = client.get(path)
    assert empty.status_code == 404
    assert "error" in empty.json()
    agent.deliver(agent.lease(wait_s=0))
    answer = client.get(path)
    assert answer.headers["content-disposition"] == f'attachment; filename="{made["campaign_id"]}_results.csv"'
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert tuple(rows[0]) == SARK_COLUMNS
    assert (len(rows), rows[0]["Status"], rows[0]["UploadId"]) == (1, "Complete", made["campaign_id"])
    assert float(rows[0]["InferenceMsMedian"]) == pytest.approx(10, rel=0.05)


def test_result_files_are_listed_and_downloaded(client, v1):
    agent = Agent(v1)
    made = campaign(client)
    assert client.get("/api/results/files").json() == {"count": 0, "files": []}
    agent.deliver(agent.lease(wait_s=0))
    _until_settled(client, made["campaign_id"], "completed")
    listed = client.get("/api/results/files").json()
    assert listed["count"] == 1
    file = listed["files"][0]
    assert set(file) == {"filename", "path", "size_bytes", "size_mb", "modified"}
    assert file["filename"].startswith(made["campaign_id"])
    got = client.get(f"/api/results/download/{file['filename']}")
    assert len(got.content) == file["size_bytes"]
    assert client.get(f"/api/campaigns/{made['campaign_id']}").json()["results_file"] == file["filename"]
    everything = client.get("/api/results/all")
    assert everything.headers["content-disposition"].startswith('attachment; filename="all_results_')
    assert everything.text == got.text


@pytest.mark.parametrize(
    ("name", "status"),
    [("%2e%2e%2fassay.db", 400), ("..%5cassay.db", 400), ("/etc/passwd", 400),
     ("%2fetc%2fpasswd", 400), ("nothing_results.csv", 404), ("assay.db", 404)],
)  # fmt: skip
def test_a_name_never_becomes_a_path(client, name, status):
    # Sent as it is: a client library would tidy the path up. Which library that is, the test client decides.
    url = type(client.base_url)("http://127.0.0.1:8080", raw_path=b"/api/results/download/" + name.encode())
    answer = client.request("GET", url)
    assert answer.status_code == status, answer.text
    assert "error" in answer.json()


def test_a_campaign_whose_jobs_all_failed_is_failed_and_some_partial(client, v1):
    agent = Agent(v1)
    bad = campaign(client)
    lease = agent.lease(wait_s=0)
    agent.deliver(lease, result_of(lease.job, failed=True))
    _until_settled(client, bad["campaign_id"], "failed")
    mixed = campaign(client, "CPU (ONNX)", "CPU (ONNX)")
    agent.deliver(agent.lease(wait_s=0))
    lease = agent.lease(wait_s=0)
    agent.deliver(lease, result_of(lease.job, failed=True))
    _until_settled(client, mixed["campaign_id"], "partial")


def test_a_job_with_its_result(client, v1):
    agent = Agent(v1)
    made = campaign(client)
    name = made["jobs"][0]["job_id"]
    before = client.get(f"/api/jobs/{name}").json()
    assert before["result"] is None
    assert set(before["job"]) >= {
        "job_id",
        "campaign_id",
        "model_url",
        "compute_unit",
        "worker_id",
        "num_inference_runs",
        "submitted_at",
        "status",
        "retry_count",
        "started_at",
        "completed_at",
    }
    agent.deliver(agent.lease(wait_s=0))
    result = client.get(f"/api/jobs/{name}").json()["result"]
    assert {"LoadMsMedian", "LoadMsMin", "LoadMsMax", "InferenceMsMin", "InferenceMsMax", "ComputeUnits"} <= set(result)
    assert (result["status"], result["worker_id"]) == ("Complete", f"worker-{agent.id.removeprefix('agent-')}")
    assert client.get("/api/jobs/unknown").status_code == 404


def test_a_failed_result_has_a_remark_and_no_numbers(client, v1):
    agent = Agent(v1)
    name = campaign(client)["jobs"][0]["job_id"]
    lease = agent.lease(wait_s=0)
    agent.deliver(lease, result_of(lease.job, failed=True))
    result = client.get(f"/api/jobs/{name}").json()["result"]
    assert "the process died" in result["remark"]
    assert not [key for key in result if key.startswith("InferenceMs")]


def test_queues_and_monitoring(client):
    campaign(client, "CPU (ONNX)", "CPU (ONNX)", "GPU (ONNX)")
    queues = client.get("/api/queue/status").json()
    assert queues["capability_queues"]["CPU (ONNX)"] == 2
    assert queues["capability_queues"]["GPU (ONNX)"] == 1
    assert queues["results_queue_size"] == 0
    stats = client.get("/api/monitoring/stats").json()
    assert stats["health_monitor"]["heartbeat_timeout"] == 60
    assert stats["timeout_handler"]["max_retries"] == 3


def test_reset_clears_everything(client, v1):
    agent = Agent(v1)
    campaign(client)
    agent.deliver(agent.lease(wait_s=0))
    campaign(client)
    body = client.post("/api/reset").json()
    assert body["status"] == "reset"
    assert all(body[key] for key in ("workers_cleared", "jobs_cleared", "results_cleared", "campaigns_cleared"))
    assert client.get("/api/campaigns").json()["count"] == 0
    assert client.get("/api/workers").json()["count"] == 0
    assert client.get("/api/results/files").json()["count"] == 0


def _until_settled(client, name, state):
    wait_for(lambda: client.get(f"/api/campaigns/{name}").json()["status"] == state, what=f"{name} {state}")


def test_a_worker_of_sark_cannot_take_a_job_and_the_placement_says_so(client, v1):
    """It registers and heartbeats, and never asks for a job in a way that the server answers."""
    client.post("/api/register", json=WORKER)
    document = {"benchmark": "b", "target": {"model": "squeezenet"}}
    looked = v1.post("/benchmarks/read", json={"text": "benchmark: b\ntarget: {model: squeezenet}\n"}).json()
    assert not looked["preview"]["placement"]["placeable"]
    answer = v1.post("/campaigns", json={"document": document}).json()
    group = answer["placement"]["groups"][0]
    assert group["agents"] == []
    assert "worker of SARK" in group["missing"]["bench box"][0]
    assert "assay agent start" in group["missing"]["bench box"][0]
    Agent(v1, "ours")
    again = v1.get(f"/campaigns/{answer['id']}/placement").json()["groups"][0]
    assert again["agents"] == ["ours"]


def test_a_job_that_only_a_worker_of_sark_could_take_fails_when_asked_to(client, v1):
    client.post("/api/register", json=WORKER)
    document = {"benchmark": "b", "target": {"model": "squeezenet"}}
    made = v1.post("/campaigns", json={"document": document, "unplaceable": "fail"}).json()
    found = v1.get(f"/campaigns/{made['id']}").json()
    assert found["state"] == "failed"
    failed = v1.get(f"/campaigns/{made['id']}/result").json()["jobs"][0]
    assert "worker of SARK" in failed["error"]["message"]
