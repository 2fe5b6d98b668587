"""Agents through the API: enrolled, labelled, drained, removed, added by their address."""

import json
import threading
import time
from contextlib import closing
from dataclasses import replace
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from tests.live.serve.setups import Agent, benchmark, enrolment, is_problem, submit
from tests.support.running_server import PATIENCE_S, wait_for

from assay.serve.live import dispatch

pytestmark = pytest.mark.live


def test_enrolment_is_refreshed_not_repeated(server):
    client = server.client
    first = client.post("/agents", json=enrolment())
    assert first.status_code == 201
    assert first.json() == {"agent": first.json()["agent"], "action": "created", "heartbeat_s": 10.0, "lease_s": 60.0}
    again = client.post("/agents", json=enrolment())
    assert (again.status_code, again.json()["action"], again.json()["agent"]) == (200, "updated", first.json()["agent"])
    assert len(client.get("/agents").json()["items"]) == 1
    is_problem(client.post("/agents", json={**enrolment(), "identity": ""}), 422, "request")
    is_problem(client.post("/agents", json={"identity": "x"}), 422, "request")


def test_an_agent_is_read_by_id_or_name(server):
    client = server.client
    agent = Agent(client)
    one = client.get(f"/agents/{agent.id}").json()
    assert client.get("/agents/box").json()["id"] == agent.id
    assert one["profile"]["runtimes"] == {"onnxruntime": "1.20"}
    assert one["healthy"]
    assert one["seconds_since_heartbeat"] < 30
    is_problem(client.get("/agents/nobody"), 404, "unknown-agent")


def test_labels_are_set_beside_those_it_has(server):
    client = server.client
    agent = Agent(client)
    client.patch(f"/agents/{agent.id}", json={"labels": {"rack": "3", "old": "yes"}})
    changed = client.patch(f"/agents/{agent.id}", json={"labels": {"old": None, "room": "b"}}).json()
    assert changed["labels"] == changed["profile"]["labels"] == {"rack": "3", "room": "b"}
    assert client.post("/agents", json=enrolment()).status_code == 200
    assert client.get(f"/agents/{agent.id}").json()["labels"] == {"rack": "3", "room": "b"}


def test_a_label_decides_who_gets_a_job_that_waits(server):
    client = server.client
    agent = Agent(client)
    submit(client, benchmark(needs={"labels": {"rack": "3"}}))
    assert agent.lease(wait_s=0.3) is None
    found = []
    waiting = threading.Thread(target=lambda: found.append(agent.lease()))
    waiting.start()
    wait_for(lambda: server.state.dispatcher.waiting == 1)
    client.patch(f"/agents/{agent.id}", json={"labels": {"rack": "3"}})
    waiting.join(PATIENCE_S)
    assert found[0].job.definition.needs.labels == {"rack": "3"}


def test_a_draining_agent_gets_nothing_new(server):
    client = server.client
    agent = Agent(client)
    submit(client)
    assert client.patch("/agents/box", json={"draining": True}).json()["draining"]
    assert agent.beat().json()["draining"]
    assert agent.lease(wait_s=0) is None
    client.patch("/agents/box", json={"draining": False})
    assert agent.lease(wait_s=0) is not None


def test_a_removed_agent_gives_its_jobs_back(server):
    client = server.client
    agent, other = Agent(client), Agent(client, "other")
    submit(client, benchmark(batches=(1,)))
    lease = agent.lease()
    assert client.delete(f"/agents/{agent.id}").status_code == 204
    is_problem(agent.beat(lease), 404, "unknown-agent")
    is_problem(client.post(f"/agents/{agent.id}/lease", json={"wait_s": 5}), 404, "unknown-agent")
    assert other.lease().job.id == lease.job.id
    is_problem(client.delete(f"/agents/{agent.id}"), 404, "unknown-agent")


def test_a_faulty_agent_is_reset(server):
    client = server.client
    agent = Agent(client)
    agent.beat(state="faulty")
    assert client.get("/agents", params={"state": "faulty"}).json()["items"][0]["id"] == agent.id
    assert client.post(f"/agents/{agent.id}/reset").json()["state"] == "active"


def test_a_silent_agent_loses_its_job_and_is_marked(serve):
    server = serve(lease_s=0.6, heartbeat_s=0.2, silent_after_s=0.6, backoff_s=0.1)
    client = server.client
    agent, other = Agent(client), Agent(client, "other")
    submit(client, benchmark(batches=(1,)))
    lease = agent.lease()
    wait_for(lambda: client.get(f"/agents/{agent.id}").json()["state"] == "faulty", what="the mark")
    control = server.state.kept.control
    control.policy = replace(control.policy, lease_s=600.0)  # the second agent may be as slow as it likes
    other.beat(state="active")
    again = wait_for(lambda: other.lease(wait_s=0.5) or (other.beat(state="active") and None), what="the second lease")
    assert (again.job.id, again.fence) == (lease.job.id, 2)
    assert agent.deliver(lease).json() == {"delivery": "late"}
    assert other.deliver(again).json() == {"delivery": "accepted"}
    assert "assay_leases_expired_total 1.0" in httpx.get(f"{server.url}/metrics", timeout=60).text


def test_a_poll_is_answered_the_moment_there_is_a_job(serve, monkeypatch):
    monkeypatch.setattr(dispatch, "POLL_S", 1000.0)  # it would not be found by asking
    server = serve()
    agent = Agent(server.client)
    found = []
    waiting = threading.Thread(target=lambda: found.append(agent.lease()))
    waiting.start()
    wait_for(lambda: server.state.dispatcher.waiting == 1)
    submit(server.client)
    waiting.join(PATIENCE_S)
    assert found[0] is not None


def test_a_poll_without_a_job_ends_in_time(server):
    agent = Agent(server.client)
    begin = time.monotonic()
    assert agent.lease(wait_s=0.5) is None
    assert 0.4 < time.monotonic() - begin < 50  # of the sixty that are the most
    assert server.client.post(f"/agents/{agent.id}/lease", json={"wait_s": -3}).status_code == 204


def test_who_goes_away_while_it_waits_gets_no_job(server):
    agent, other = Agent(server.client), Agent(server.client, "other")
    with closing(HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)) as hasty:
        headers = {"Content-Type": "application/json"}
        hasty.request("POST", f"/api/v1/agents/{agent.id}/lease", body='{"wait_s": 60}', headers=headers)
        wait_for(lambda: server.state.dispatcher.waiting == 1)
    wait_for(lambda: server.state.dispatcher.waiting == 0)
    submit(server.client, benchmark(batches=(1,)))
    lease = other.lease()
    assert lease is not None
    assert lease.fence == 1


def test_a_server_that_ends_answers_those_who_wait(serve):
    server = serve()
    agent = Agent(server.client)
    answers = []

    def wait():
        with server.with_token(None) as client:
            answers.append(client.post(f"/agents/{agent.id}/lease", json={"wait_s": 60}))

    waiting = threading.Thread(target=wait)
    waiting.start()
    wait_for(lambda: server.state.dispatcher.waiting == 1)
    begin = time.monotonic()
    server.stop()
    waiting.join(PATIENCE_S)
    assert answers[0].status_code == 204
    assert time.monotonic() - begin < 50  # of the sixty that it would wait


@pytest.fixture
def device():
    """A device that listens, as `assay agent serve` does."""
    asked = []

    class Listens(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.path, self.headers.get("Authorization")))
            self.reply(*{"/info": (200, json.dumps(enrolment("device")))}.get(self.path, (302, "")))

        def do_POST(self):
            asked.append((self.path, self.headers.get("Authorization")))
            order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            headers = {"Authorization": f"Bearer {order['token']}"} if order["token"] else {}
            answer = httpx.post(
                f"{order['server']}/api/v1/agents", json=enrolment("device"), headers=headers, timeout=60
            )
            self.reply(answer.status_code, answer.text)

        def reply(self, status, body):
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "/info")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_):
            pass

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Listens)
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{listener.server_port}", asked
    listener.shutdown()
    listener.server_close()


@pytest.mark.parametrize("admin", [None, "the admin token of this test"])
def test_a_device_is_enrolled_by_its_address(serve, device, admin):
    server = serve(token=admin)
    client = server.with_token(admin)
    url, asked = device
    added = client.post("/agents/add", json={"url": f"{url}/", "token": "secret of the device"})
    assert added.status_code == 201, added.text
    assert client.get("/agents/device").json()["id"] == added.json()["agent"]
    assert asked == [("/info", "Bearer secret of the device"), ("/enrol", "Bearer secret of the device")]
    assert [one["role"] for one in client.get("/tokens").json()["items"]] == (["agent"] if admin else [])
    is_problem(client.post("/agents/add", json={"url": f"{url}/elsewhere"}), 424, "agent-address")


@pytest.mark.parametrize("url", ["ftp://device", "http://", "file:///etc/passwd", "http://a b", "http://u:p@device/"])
def test_only_plain_addresses_are_asked(server, url):
    is_problem(server.client.post("/agents/add", json={"url": url}), 422, "agent-address")


def test_metadata_addresses_are_never_asked(server):
    said = is_problem(server.client.post("/agents/add", json={"url": "http://169.254.169.254"}), 422, "agent-address")
    assert "metadata" in said["detail"]


def test_a_server_for_others_asks_no_loopback_address(serve, device):
    server = serve(host="0.0.0.0", token="the admin token of this test")
    client = server.with_token("the admin token of this test")
    is_problem(client.post("/agents/add", json={"url": device[0]}), 422, "agent-address")
    assert device[1] == []
