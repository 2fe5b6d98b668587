"""An agent that waits to be called, and the command line around it."""

import json
import re
import signal
import subprocess
import sys
import threading
from dataclasses import replace

import httpx
import pytest
from tests.support.running_server import PATIENCE_S

from assay.agent.agent import Agent
from assay.agent.identity import AgentSettings
from assay.agent.listen import EnrolmentPost, listen
from assay.documents import adapter
from assay.place.fleet.protocol import Enrolment

pytestmark = pytest.mark.live

ASSAY = [sys.executable, "-m", "assay", "agent"]


@pytest.fixture
def device(tmp_path, fast):
    """A device that listens; returns a client for it."""
    opened = []

    def start(token=None):
        from assay.agent.host import HostFacts
        from assay.place.needs import Profile

        facts = HostFacts("linux", {"cpu": "x"}, ("CPU (ONNX)",), Profile("box", "linux", 2, 2**30, {}, {}))
        settings = AgentSettings("http://127.0.0.1", tmp_path / "state", allow=frozenset({"command"}), min_free=0)
        post = EnrolmentPost(
            settings,
            lambda: facts,
            lambda url, secret: Agent(
                replace(settings, server=url, token=secret), executor=fast(), probe=lambda: facts
            ),
        )
        server = listen(post, "127.0.0.1", 0, token)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        opened.append((post, server))
        post.resume()
        return httpx.Client(
            base_url=f"http://127.0.0.1:{server.server_address[1]}", trust_env=False, timeout=PATIENCE_S
        )

    yield start
    for post, server in opened:
        server.shutdown()
        server.server_close()
        post.stop()
        post.wait()


def test_a_called_device_says_who_it_is_works_and_remembers_for_whom(server, device, make_job):
    client = device()
    enrolment = adapter(Enrolment).validate_json(client.get("/info").content)
    assert (enrolment.name, enrolment.slots) == ("box", 1)
    assert client.get("/status").json()["server"] is None
    answer = client.post("/enrol", json={"server": server.url})
    assert answer.json()["agent"].startswith("agent-")
    server.add(make_job(0))
    server.wait(server.accepted, what="the result")
    assert client.get("/status").json()["server"] == server.url
    # The server has it a moment before the device forgets it.
    server.wait(lambda: client.get("/results").json() == {"items": [], "total": 0}, what="nothing left to deliver")
    assert client.post("/enrol", json={"server": server.url}).status_code == 200  # again is no conflict
    other = client.post("/enrol", json={"server": "http://127.0.0.1:9"})
    assert (other.status_code, other.json()["code"]) == (409, "taken")


def test_after_a_restart_it_works_for_the_same_server(server, device, make_job, tmp_path):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "server.json").write_text(json.dumps({"server": server.url, "token": None}))
    device()
    server.add(make_job(0))
    server.wait(server.accepted, what="the result")


def test_the_kept_token_is_for_its_owner_alone(small_server_at, device, tmp_path):
    server = small_server_at(token="secret")
    client = device()
    assert client.post("/enrol", json={"server": server.url, "token": "wrong"}).status_code == 409
    assert client.post("/enrol", json={"server": server.url, "token": "secret"}).status_code == 200
    assert (tmp_path / "state" / "server.json").stat().st_mode & 0o077 == 0
    assert "secret" not in client.get("/status").text + client.get("/info").text


def test_without_the_token_nothing_is_reported(server, device):
    client = device(token="open-sesame")
    for path in ("/info", "/status", "/results"):
        assert client.get(path).status_code == 401
        assert client.get(path, headers={"authorization": "Bearer open-sesame"}).status_code == 200
    assert client.post("/enrol", json={"server": server.url}).status_code == 401
    assert not server.enrolments


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"headers": {"content-type": "text/plain"}, "content": "{}"}, 415),
        ({"headers": {"host": "evil.example"}, "json": {"server": "http://x"}}, 403),
        ({"json": {"nothing": 1}}, 422),
        ({"json": ["x"]}, 422),
        ({"json": {"server": "x" * 70_000}}, 413),
        ({"json": {"server": "ftp://x"}}, 409),
        ({"json": {"server": "http://127.0.0.1:9"}}, 502),
    ],
)
def test_strange_calls_are_refused(device, options, status):
    assert device().post("/enrol", **options).status_code == status


DEEP = b'{"server": ' + b"[" * 20_000 + b"]" * 20_000 + b"}"
JSON = b"Content-Type: application/json\r\n"


@pytest.mark.parametrize(
    ("head", "body", "status"),
    [
        (JSON + b"Content-Length: -1\r\n", b"{}", 400),
        (JSON + b"Content-Length: abc\r\n", b"{}", 400),
        (JSON + b"Content-Length: 1_0\r\n", b"{}", 400),
        (JSON + b"Content-Length: 2\r\nContent-Length: 3\r\n", b"{}", 400),
        (JSON + b"Content-Length: 99999999999999999999\r\n", b"{}", 413),
        (JSON, b"", 411),
        (JSON + b"Transfer-Encoding: chunked\r\n", b"2\r\n{}\r\n0\r\n\r\n", 411),
        (JSON + b"Content-Length: %d\r\n" % len(DEEP), DEEP, 422),
        (JSON + b"Host: [::1\r\nContent-Length: 2\r\n", b"{}", 400),
        (JSON + b"Host: 127.0.0.1:x:y\r\nContent-Length: 2\r\n", b"{}", 400),
    ],
)
def test_broken_requests_are_answered(device, head, body, status, capfd):
    """The connection stays open on our side: an answer must come although no more bytes will."""
    import socket

    client = device()
    host = b"" if b"Host:" in head else b"Host: 127.0.0.1\r\n"
    with socket.create_connection(("127.0.0.1", client.base_url.port), timeout=PATIENCE_S) as raw:
        raw.sendall(b"POST /enrol HTTP/1.1\r\n" + host + head + b"\r\n" + body)
        answer = raw.makefile("rb").readline()
    assert answer.split()[1:2] == [str(status).encode()]
    assert "Traceback" not in capfd.readouterr().err
    assert client.get("/status").status_code == 200  # it goes on


def test_an_unknown_path_is_not_found(device):
    assert device().get("/../../etc/passwd").status_code == 404


# The command line


def assay(*arguments, **options):
    return subprocess.run([*ASSAY, *arguments], capture_output=True, text=True, timeout=120, **options)


def test_info_prints_only_json_when_asked():
    document = json.loads(assay("info", "--format", "json").stdout)
    assert {"platform", "device", "capabilities", "profile"} <= set(document)
    assert "CPU (ONNX)" in document["capabilities"]
    assert document["profile"]["commands"] is False
    assert "Available compute units:\n- CPU (ONNX)" in assay("info").stdout


def test_validate_proves_everything_and_fails_when_something_is_missing(tmp_path):
    done = assay("validate", "--state", str(tmp_path))
    assert done.returncode == 0, done.stdout
    assert "a job document became a result document" in done.stdout
    done = assay("validate", "--state", str(tmp_path), "--min-free", "9000TB")
    assert done.returncode == 1
    assert "missing  state folder" in done.stdout


def test_test_reports_what_answers(small_server_at):
    server = small_server_at(token="right")
    good = assay("test", "--server", server.url, "--token", "right")
    assert good.returncode == 0, good.stdout
    assert re.search(r"ok +token +accepted", good.stdout)
    assert re.search(r"ok +round trip +\d+\.\d ms", good.stdout)
    assert "--token is visible" in good.stderr
    bad = assay("test", "--server", server.url, "--token", "wrong")
    assert bad.returncode == 1
    assert "missing  token" in bad.stdout or "missing  server" in bad.stdout
    nobody = assay("test", "--server", "http://127.0.0.1:9")
    assert nobody.returncode == 1
    assert "does not answer" in nobody.stdout


def test_enroll_makes_the_machine_known(server, tmp_path):
    for action in ("created", "updated"):
        done = assay("enroll", "--server", server.url, "--state", str(tmp_path), "--label", "a=b", "--device-name", "n")
        assert done.stdout.split()[1] == action
    first, second = server.enrolments
    assert first["identity"] == second["identity"]
    assert first["profile"]["labels"]["a"] == "b"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["start"], "no-server"),
        (["start", "--server", "ftp://x"], "server-url"),
        (["start", "--server", "http://x", "--label", "a"], "label"),
        (["start", "--server", "http://x", "--allow", "everything"], "allow"),
        (["start", "--server", "http://x", "--allow-env", "KEY,NOT-A-NAME"], "allow-env"),
        (["start", "--server", "http://x", "--allow-env", "ASSAY_TOKEN"], "allow-env"),
        (["start", "--server", "http://x", "--device", "abacus"], "device"),
        (["start", "--server", "http://x", "--device", "cuda:0", "--device", "gpu:0"], "device"),
        (["start", "--server", "http://x", "--log-level", "loud"], "log-level"),
        (["start", "--server", "http://x", "--min-free", "some"], "size"),
        (["start", "--server", "http://x", "--token-file", "/nowhere"], "token-file"),
        (["start", "--server", "https://x", "--ca", "/nowhere"], "ca"),
        (["serve", "--listen", "nowhere"], "listen"),
    ],
)
def test_wrong_use_is_reported_with_exit_code_2(arguments, code, tmp_path, monkeypatch):
    monkeypatch.delenv("ASSAY_SERVER", raising=False)
    done = assay(*arguments, "--state", str(tmp_path))
    assert (done.returncode, f"error[{code}]" in done.stderr) == (2, True), done.stderr
    assert "Traceback" not in done.stderr


def test_a_service_file_is_printed_or_written_once(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    printed = assay("install-service", "--user", "--print", "--server", "http://s:1", "--label", "a=b")
    assert "agent start --server http://s:1 --label a=b" in printed.stdout
    assert not list(tmp_path.iterdir())
    written = assay("install-service", "--user", "--server", "http://s:1")
    assert written.returncode == 0
    again = assay("install-service", "--user", "--server", "http://s:2")
    assert (again.returncode, "service-exists" in again.stderr) == (2, True)


@pytest.mark.skipif(sys.platform != "linux", reason="units of systemd")
@pytest.mark.parametrize("words", [("--token", "secret-of-mine"), ("--token=secret-of-mine",)])
def test_the_token_of_a_service_is_for_its_owner_alone(tmp_path, monkeypatch, words):
    monkeypatch.setenv("HOME", str(tmp_path))
    printed = assay("install-service", "--user", "--print", "--server", "http://s:1", *words)
    assert "secret-of-mine" not in printed.stdout
    done = assay("install-service", "--user", "--server", "http://s:1", "--label", "a=b", *words)
    assert done.returncode == 0, done.stderr
    holding = [path for path in tmp_path.rglob("*") if path.is_file() and "secret-of-mine" in path.read_text()]
    assert [path.read_text() for path in holding] == ["ASSAY_TOKEN=secret-of-mine\n"]
    assert holding[0].stat().st_mode & 0o077 == 0
    unit = (tmp_path / ".config/systemd/user/assay-agent.service").read_text()
    assert f"EnvironmentFile={holding[0]}" in unit
    assert "agent start --server http://s:1 --label a=b\n" in unit


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_agent_serve_waits_enrols_and_ends(server, make_job, tmp_path):
    command = [*ASSAY, "serve", "--listen", "127.0.0.1:0", "--state", str(tmp_path), "--allow", "command"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            while not (found := re.search(r"listening at 127.0.0.1:(\d+)", process.stderr.readline())):
                assert process.poll() is None
            url = f"http://127.0.0.1:{found[1]}/enrol"
            stranger = httpx.post(url, json={"server": server.url}, timeout=60)
            assert stranger.status_code == 401, "another user of this machine is not its owner"
            kept = tmp_path / "listen-token"
            assert kept.stat().st_mode & 0o077 == 0
            owner = {"authorization": f"Bearer {kept.read_text()}"}
            answer = httpx.post(url, json={"server": server.url}, headers=owner, timeout=60)
            assert answer.status_code == 200, answer.text
            server.add(make_job(command=(sys.executable, "-c", "print(1)")))
            server.wait(server.accepted, 60, what="the result")
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()
