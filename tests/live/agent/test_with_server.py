"""Agents and the real server, each a process of its own: jobs from submission to result, through kills of both."""

import re
import signal
import subprocess
import sys
from contextlib import ExitStack

import httpx
import pytest
from tests.support.running_server import PATIENCE_S, wait_for

from assay.analyse.records import MultiRunJobResult
from assay.documents import from_json
from assay.errors import AssayError
from assay.place.fleet.client import FleetClient
from assay.place.fleet.protocol import Submission

pytest.importorskip("fastapi", reason="the server's packages are not installed")
pytestmark = [pytest.mark.live, pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")]

ASSAY = [sys.executable, "-m", "assay"]


class Fleet:
    """A server and its agents; everything ends with the test."""

    def __init__(self, folder, stack):
        self.folder, self.stack, self.port = folder, stack, 0
        self.server = self.start_server()
        self.client = FleetClient(self.url, patience_s=PATIENCE_S)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def start_server(self, *options):
        log = (self.folder / "server.log").open("ab")
        command = [
            *ASSAY,
            "serve",
            "--port",
            str(self.port),
            "--store",
            str(self.folder / "store"),
            "--heartbeat-s",
            "0.5",
            "--lease-s",
            "4",
            "--backoff-s",
            "0.1",
            *options,
        ]
        self.server = self._start(command, log)
        if not self.port:
            self.port = int(self._read(r"http://127\.0\.0\.1:(\d+)"))
        wait_for(self._answers, what="the server")
        return self.server

    def start_agent(self, name="one", *options):
        log = (self.folder / f"agent-{name}.log").open("ab")
        command = [
            *ASSAY,
            "agent",
            "start",
            "--host",
            self.url,
            "--state",
            str(self.folder / name),
            "--device-name",
            name,
            "--allow",
            "command",
            "--min-free",
            "1MB",
            *options,
        ]
        return self._start(command, log)

    def submit(self, document, **more):
        return self.client.submit(Submission(document=document, **more))["id"]

    def jobs(self, campaign):
        try:
            return {job["id"]: job for job in self.client.pages("/jobs", {"campaign": campaign})}
        except AssayError:
            return {}

    def ended(self, campaign, state="done"):
        found = self.jobs(campaign)
        return found if found and all(job["state"] == state for job in found.values()) else None

    def _start(self, command, log):
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        log.close()
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)
        return process

    def _read(self, pattern):
        path = self.folder / "server.log"
        return wait_for(lambda: re.search(pattern, path.read_text()), what="the address of the server")[1]

    def _answers(self):
        try:
            return httpx.get(f"{self.url}/api/v1/ready", trust_env=False, timeout=60).status_code == 200
        except httpx.HTTPError:
            return False


@pytest.fixture
def fleet(tmp_path):
    with ExitStack() as stack:
        yield Fleet(tmp_path, stack)


def command_benchmark(code, points=1, runs=1):
    return {
        "benchmark": "command",
        "target": {
            "command": [sys.executable, "-c", code],
            "metrics": [{"name": "speed_per_s", "pattern": "speed: ([0-9.]+)"}],
        },
        "measure": {"runs": runs},
        "matrix": {"target.env.POINT": [str(point) for point in range(points)]},
        "place": {"engine": "fleet"},
    }


def test_a_campaign_goes_through_a_fleet_and_back(fleet):
    agent = fleet.start_agent()
    campaign = fleet.submit(command_benchmark("print('speed: 3.5')", points=3, runs=2))
    jobs = wait_for(lambda: fleet.ended(campaign), what="the campaign")
    for job in jobs:
        result = from_json(MultiRunJobResult, fleet.client.text(f"/jobs/{job}/result"), source=job)
        assert (result.state, result.successful_runs) == ("done", 2)
        assert result.metrics["speed_per_s"].median == 3.5
        assert fleet.client.content(f"/jobs/{job}/runs/0/samples")
    agent.send_signal(signal.SIGTERM)
    assert agent.wait(PATIENCE_S) == 0


def test_a_model_that_is_uploaded_is_measured(fleet, tiny_model):
    fleet.start_agent()
    import hashlib

    digest = fleet.client.upload(tiny_model)
    size = tiny_model.stat().st_size
    assert digest == hashlib.sha256(tiny_model.read_bytes()).hexdigest()
    document = {
        "benchmark": "model",
        "target": {"model": "tiny.onnx"},
        "place": {"engine": "fleet"},
        "measure": {"runs": 2, "until": {"at_most": "1s"}},
    }
    part = {"name": "tiny.onnx", "sha256": digest, "size_bytes": size}
    from assay.plan.job import JobFile

    campaign = fleet.submit(document, files={"tiny.onnx": (JobFile(**part),)})
    (job,) = wait_for(lambda: fleet.ended(campaign), what="the campaign")
    result = from_json(MultiRunJobResult, fleet.client.text(f"/jobs/{job}/result"), source=job)
    assert result.metrics["latency_ms"].median > 0
    assert result.runs[0].device.used == "cpu"


def test_nothing_is_lost_when_agent_and_server_are_killed(fleet):
    """One job is interrupted by the death of its agent, the next by that of the server."""
    agent = fleet.start_agent()
    code = "import time; time.sleep(2); print('speed: 1')"
    campaign = fleet.submit(command_benchmark(code, points=3))
    wait_for(lambda: any(job["state"] == "running" for job in fleet.jobs(campaign).values()), what="a running job")
    agent.kill()
    agent.wait()
    fleet.start_agent()
    wait_for(lambda: any(job["state"] == "done" for job in fleet.jobs(campaign).values()), what="a first result")
    fleet.server.kill()
    fleet.server.wait()
    fleet.start_server()
    jobs = wait_for(lambda: fleet.ended(campaign), what="the campaign")
    for job in jobs:
        detail = fleet.client.get(f"/jobs/{job}")
        delivered = [one for one in detail["attempts"] if one["state"] == "delivered"]
        assert len(delivered) == 1


def test_a_cancelled_job_frees_its_agent(fleet):
    fleet.start_agent()
    campaign = fleet.submit(command_benchmark("import time; time.sleep(600)"))
    wait_for(lambda: any(job["state"] == "running" for job in fleet.jobs(campaign).values()), what="a running job")
    fleet.client.post(f"/campaigns/{campaign}/cancel")
    wait_for(lambda: fleet.ended(campaign, "cancelled"), what="the cancellation")
    after = fleet.submit(command_benchmark("print('speed: 1')"))
    wait_for(lambda: fleet.ended(after), what="the next job")


def test_a_command_waits_for_an_agent_that_is_allowed_to_run_it(fleet):
    log = (fleet.folder / "plain.log").open("ab")
    fleet._start(
        [*ASSAY, "agent", "start", "--server", fleet.url, "--state", str(fleet.folder / "plain"), "--min-free", "1MB"],
        log,
    )
    wait_for(lambda: list(fleet.client.pages("/agents")), what="the agent")
    campaign = fleet.submit(command_benchmark("print('speed: 1')"))
    placement = fleet.client.get(f"/campaigns/{campaign}/placement")
    assert "--allow command" in str(placement)
    assert not fleet.ended(campaign)
    fleet.start_agent("allowed")
    wait_for(lambda: fleet.ended(campaign), what="the campaign")


@pytest.fixture
def listener():
    """A server of the agent's network that notes what it is asked."""
    import threading
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Page(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.server.seen.append(self.headers.get("X-Key", ""))
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_): ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    server.seen = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def endpoint_benchmark(listener, header):
    return {
        "benchmark": "inside",
        "target": {
            "endpoint": f"http://127.0.0.1:{listener.server_port}",
            "api": "http",
            "body": {"a": 1},
            "headers": {"X-Key": header},
        },
        "load": {"requests": 3},
        "measure": {"runs": 1, "warmup": 0},
    }


@pytest.fixture
def closed_fleet(tmp_path, monkeypatch):
    """A server with a token, which answers under every name."""
    for name in ("ASSAY_SERVER_TOKEN", "ASSAY_TOKEN"):
        monkeypatch.setenv(name, "assay_" + "a" * 43)
    with ExitStack() as stack:
        made = Fleet(tmp_path, stack)
        made.client = FleetClient(made.url, "assay_" + "a" * 43, patience_s=PATIENCE_S)
        yield made


def test_an_agent_is_no_way_into_its_network_or_its_environment(closed_fleet, listener, monkeypatch):
    """An agent of a server elsewhere: here that is our own, by a name that nobody takes for loopback."""
    fleet = closed_fleet
    monkeypatch.setenv("DB_PASSWORD", "canary-of-the-agent")
    far = fleet.url.replace("127.0.0.1", "0x7f000001")
    plain = [*ASSAY, "agent", "start", "--server", far, "--min-free", "1MB", "--state"]

    def reason(campaign):
        (job,) = wait_for(lambda: fleet.ended(campaign, "failed"), what="the refusal").values()
        return str(fleet.client.get(f"/jobs/{job['id']}"))

    with (fleet.folder / "closed.log").open("ab") as log:
        closed = fleet._start([*plain, str(fleet.folder / "closed")], log)
    said = reason(fleet.submit(endpoint_benchmark(listener, "x")))
    assert "is a loopback address" in said
    closed.terminate()
    closed.wait(PATIENCE_S)
    with (fleet.folder / "near.log").open("ab") as log:
        near = fleet._start([*plain, str(fleet.folder / "near"), "--allow-private-urls"], log)
    said = reason(fleet.submit(endpoint_benchmark(listener, "${env:DB_PASSWORD}")))
    assert "DB_PASSWORD is not for jobs of this agent" in said
    assert "canary" not in said
    near.terminate()
    near.wait(PATIENCE_S)
    assert listener.seen == []
    with (fleet.folder / "open.log").open("ab") as log:
        options = ("--allow-private-urls", "--allow-env", "DB_PASSWORD,OTHER")
        fleet._start([*plain, str(fleet.folder / "open"), *options], log)
    campaign = fleet.submit(endpoint_benchmark(listener, "${env:DB_PASSWORD}"))
    wait_for(lambda: fleet.ended(campaign), what="the campaign")
    assert set(listener.seen) == {"canary-of-the-agent"}
