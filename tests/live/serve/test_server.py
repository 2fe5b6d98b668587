"""The process: its first words, its first tokens, its end; and the commands around it."""

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys

import httpx
import pytest
from tests.live.serve.setups import Agent, benchmark, enrolment, submit
from tests.support.certificate import self_signed
from tests.support.ports import free_port
from tests.support.running_server import PATIENCE_S, wait_for

from assay.errors import UsageError
from assay.serve.server import listen, welcome
from assay.serve.settings import ServerSettings

pytestmark = pytest.mark.live

ASSAY = [sys.executable, "-m", "assay"]


def assay(*words, **environment):
    return subprocess.run(
        [*ASSAY, *words], capture_output=True, text=True, timeout=PATIENCE_S, env={**os.environ, **environment}
    )


def test_three_commands_are_named():
    lines = welcome(ServerSettings(), 8080, open_=True)
    assert lines[0] == "listening on http://127.0.0.1:8080"
    assert any("assay agent start --server http://127.0.0.1:8080" in line for line in lines)
    assert any("assay run bench.yaml --server http://127.0.0.1:8080" in line for line in lines)


def test_where_no_pages_were_built_no_address_of_them_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr("assay.serve.web.dashboard.BUILT", tmp_path)
    assert "dashboard not built: run `make web` in the checkout" in welcome(ServerSettings(), 8080, open_=True)
    (tmp_path / "index.html").touch()
    assert "dashboard http://127.0.0.1:8080/" in welcome(ServerSettings(), 8080, open_=True)


def test_a_server_from_the_command_line(serve_process):
    server = serve_process("--log-format", "json")
    with httpx.Client(base_url=f"{server.url}/api/v1", trust_env=False, timeout=PATIENCE_S) as client:
        agent = Agent(client)
        campaign = submit(client)["id"]
        assert agent.work() == 2
        wait_for(lambda: client.get(f"/campaigns/{campaign}").json()["state"] == "done", what="the end")
        server.kill()
        server.start()
        assert client.get(f"/campaigns/{campaign}").json()["state"] == "done"
    assert server.stop() == 0
    text = server.log.read_text()
    assert f"listening on {server.url}" in text
    assert text.rstrip().endswith("stopped")
    events = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    assert {"lease given", "campaign submitted", "result delivered"} <= {event["event"] for event in events}
    assert all({"at", "level", "event"} <= set(event) for event in events)


def test_leases_survive_a_server_that_was_killed(serve_process):
    server = serve_process("--lease-s", "600")
    with httpx.Client(base_url=f"{server.url}/api/v1", trust_env=False, timeout=PATIENCE_S) as client:
        agent = Agent(client)
        submit(client)
        lease = agent.lease()
        server.kill()
        server.start()
        assert agent.beat(lease).json()["lost"] == []
        assert agent.deliver(lease).json() == {"delivery": "accepted"}


def test_a_server_that_others_can_reach_makes_its_first_tokens(tmp_path):
    port = free_port()
    command = [*ASSAY, "serve", "--host", "0.0.0.0", "--port", str(port), "--store", str(tmp_path)]
    for first in (True, False):
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            wait_for(lambda: is_there(port))
            assert httpx.get(f"http://127.0.0.1:{port}/api/v1/campaigns", timeout=60).status_code == 401
            process.send_signal(signal.SIGTERM)
            said, logged = process.communicate(timeout=PATIENCE_S)
        found = re.findall(r"(admin|agent) token\s+(\S+)", said)
        assert [name for name, _ in found] == (["admin", "agent"] if first else [])
        assert not any(secret in logged for _, secret in found)
        if first:
            secrets = dict(found)
    listed = assay("tokens", "list", "--store", str(tmp_path)).stdout
    assert "first admin" in listed
    assert not any(secret in listed for secret in secrets.values())
    kept = json.loads(assay("tokens", "list", "--store", str(tmp_path), "--format", "json").stdout)
    assert {token["name"] for token in kept} >= {"first admin"}
    assert not any(secret in json.dumps(kept) for secret in secrets.values())


def is_there(port):
    try:
        return httpx.get(f"http://127.0.0.1:{port}/api/v1/health", trust_env=False, timeout=60).status_code == 200
    except httpx.HTTPError:
        return False


def test_a_taken_port_is_reported_with_what_to_do(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(UsageError, match="taken by another program"):
            listen(ServerSettings(port=port))
        done = assay("serve", "--port", str(port), "--store", str(tmp_path))
    assert done.returncode == 2
    assert "--port" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("host", ["203.0.113.7", "no such host"])
def test_an_address_of_others_is_reported(host):
    with pytest.raises(UsageError, match=r"address|listen"):
        listen(ServerSettings(host=host, port=0))


def test_tls(serve_process, tmp_path):
    certificate, key = self_signed(tmp_path)
    port = free_port()
    command = [
        *ASSAY,
        "serve",
        "--port",
        str(port),
        "--store",
        str(tmp_path),
        "--tls-cert",
        str(certificate),
        "--tls-key",
        str(key),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        context = ssl.create_default_context(cafile=str(certificate))

        def answers():
            try:
                return httpx.get(f"https://127.0.0.1:{port}/api/v1/health", verify=context, trust_env=False, timeout=60)
            except httpx.HTTPError:
                return None

        assert wait_for(answers).status_code == 200
        process.send_signal(signal.SIGTERM)
        assert "listening on https://" in process.communicate(timeout=30)[0]


def test_a_certificate_that_is_not_there_is_reported(tmp_path):
    done = assay("serve", "--port", "0", "--store", str(tmp_path), "--tls-cert", "none.pem", "--tls-key", "none.pem")
    assert done.returncode == 2
    assert "none.pem" in done.stderr


def test_without_the_extra_the_command_says_what_to_install(tmp_path):
    (tmp_path / "uvicorn.py").write_text("raise ImportError('not there', name='uvicorn')\n")
    done = assay("serve", PYTHONPATH=str(tmp_path))
    assert done.returncode == 2
    assert "pip install 'assay-bench[server]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_tables_of_a_database(postgresql, tmp_path):
    url = postgresql()
    before = assay("db", "current", "--database-url", url)
    assert before.returncode == 1
    assert "at nothing" in before.stdout
    refused = assay("serve", "--port", "0", "--store", str(tmp_path), "--database-url", url)
    assert refused.returncode == 3
    assert "assay db upgrade" in refused.stderr
    assert assay("db", "upgrade", "--database-url", url).returncode == 0
    assert "already" in assay("db", "upgrade", "--database-url", url).stdout
    assert assay("db", "current", "--database-url", url).returncode == 0


def test_tokens_are_made_at_the_machine(tmp_path, serve):
    folder = str(tmp_path / "server")
    made = assay("tokens", "create", "laptop", "--role", "reader", "--expires-in", "30d", "--store", folder)
    secret = made.stdout.strip()
    assert secret.startswith("assay_")
    assert made.returncode == 0
    server = serve()
    assert server.client.get("/campaigns").status_code == 401
    assert server.with_token(secret).get("/campaigns").status_code == 200
    listed = assay("tokens", "list", "--store", folder).stdout
    token = re.search(r"^(t\w+)\s+reader", listed, re.MULTILINE)[1]
    assert "laptop" in listed
    assert secret not in listed
    assert assay("tokens", "revoke", token, "--store", folder).returncode == 0
    wait_for(lambda: server.with_token(secret).get("/campaigns").status_code == 401, what="the end of the token")
    assert assay("tokens", "revoke", token, "--store", folder).returncode == 2
    assert assay("tokens", "create", "x", "--expires-in", "soon", "--store", folder).returncode == 2


def test_no_secret_reaches_a_log_an_answer_or_an_error(serve_process, postgresql):
    url = postgresql.migrated().replace("@", ":hunter2-database@", 1)
    server = serve_process(
        "--log-level", "debug", "--closed", ASSAY_SERVER_TOKEN="hunter2-admin", ASSAY_SERVER_DATABASE_URL=url
    )
    headers = {"Authorization": "Bearer hunter2-admin"}
    with httpx.Client(base_url=f"{server.url}/api/v1", headers=headers, trust_env=False, timeout=PATIENCE_S) as client:
        made = client.post("/tokens", json={"name": "ci", "role": "agent"}).json()["secret"]
        agent = Agent(client)
        document = benchmark(
            target={"model": "https://models.example/m.onnx", "headers": {"Authorization": "${env:KEY}"}}
        )
        submit(client, document)
        lease = agent.lease()
        agent.deliver(lease)
        answers = [
            client.post("/agents/add", json={"url": "http://169.254.169.254", "token": "hunter2-device"}),
            client.post("/campaigns", json={"document": {"hunter2-key": 1}, "priority": "hunter2-value"}),
            client.get("/campaigns", headers={"Authorization": "Bearer hunter2-wrong"}),
            client.post("/tokens", json={"name": "x", "role": "hunter2-role"}),
            client.get("/tokens"),
            client.get(f"/jobs/{lease.job.id}"),
            httpx.get(f"{server.url}/metrics", timeout=60),
        ]
    for answer in answers:
        assert "hunter2" not in answer.text
        assert made not in answer.text
        assert "hunter2" not in str(answer.headers)
    server.stop()
    log = server.log.read_text()
    assert "hunter2" not in log
    assert made not in log
    assert "token made" in log


def test_a_request_is_followed_by_its_id(server):
    given = server.client.get("/health", headers={"X-Request-ID": "my-own-id.1"})
    assert given.headers["x-request-id"] == "my-own-id.1"
    odd = server.client.get("/health", headers={"X-Request-ID": "odd id\twith spaces"})
    assert re.fullmatch(r"[0-9a-f]{16}", odd.headers["x-request-id"])


def test_every_answer_is_guarded(server):
    for answer in (server.client.get("/health"), server.client.get("/none"), server.client.get("/campaigns/none")):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "server" not in answer.headers


def test_paths_and_methods_that_are_not_there_are_problems(server):
    for method, path, status in (("GET", "/none", 404), ("PUT", "/campaigns", 405), ("GET", "/campaigns/", 404)):
        answer = server.client.request(method, path)
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/problem+json"


def test_a_body_that_is_no_json_is_a_problem(server):
    headers = {"Content-Type": "application/json"}
    for content in (b"{", b"\xff\xfe", b"[" * 100_000, b'{"document": NaN}', b"null"):
        answer = server.client.post("/campaigns", content=content, headers=headers)
        assert 400 <= answer.status_code < 500, (content[:10], answer.text)
    plain = server.client.post("/agents", content=json.dumps(enrolment()), headers={"Content-Type": "text/plain"})
    assert plain.status_code == 422, "a form of a foreign page could send this"


def test_our_own_mistake_is_reported_without_detail(server, monkeypatch, caplog):
    def fails(*_, **__):
        raise ZeroDivisionError("with a secret in its text")

    monkeypatch.setattr(type(server.state.kept.listing), "campaigns", fails)
    answer = server.client.get("/campaigns")
    assert answer.status_code == 500
    assert answer.json()["code"] == "internal"
    assert "secret" not in answer.text
    assert "x-request-id" in answer.headers


def test_metrics(server):
    agent = Agent(server.client)
    submit(server.client)
    agent.deliver(agent.lease())
    server.client.get("/campaigns/none")
    text = httpx.get(f"{server.url}/metrics", timeout=60).text
    assert 'assay_http_requests_total{method="GET",route="/api/v1/campaigns/{campaign}",status="404"} 1.0' in text
    assert 'assay_deliveries_total{word="accepted"} 1.0' in text
    assert 'assay_jobs{state="done"} 1.0' in text
    assert 'assay_jobs{state="pending"} 1.0' in text
    assert "assay_leases_given_total 1.0" in text
    assert 'assay_agents{state="busy"} 1.0' in text
    assert "assay_database_up 1.0" in text
    assert "assay_build_info" in text
    assert "assay_queue_ready{" in text
