"""The client against a small server that misbehaves when told."""

import hashlib
import importlib.util
import sys
from pathlib import Path

import pytest

from assay.clock import SystemClock
from assay.errors import MeasureError, UsageError
from assay.http import is_loopback_url
from assay.place.fleet.client import AwayError, FleetClient, RefusedError, read_token, server_url
from assay.place.fleet.protocol import Enrolment, Heartbeat, LeaseRequest, Progress, Release
from assay.place.fleet.transport import back_off_s, shown
from assay.place.needs import Profile

PROFILE = Profile("box", "linux", 1, 1, {}, {})
SECRET = "secret-token-0123456789"


def _small_server():
    name = "small_server"
    if name not in sys.modules:
        path = Path(__file__).parents[2] / "live" / "agent" / f"{name}.py"
        spec = importlib.util.spec_from_file_location(name, path)
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.fixture
def server():
    made = _small_server().SmallServer(token=SECRET)
    yield made
    made.stop()


@pytest.fixture
def client(server):
    return FleetClient(server.url, SECRET, patience_s=60.0, timeout_s=60.0)


# Addresses and tokens


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("localhost:8080", "http://localhost:8080"),
        ("http://h:1/", "http://h:1"),
        ("https://user:secret@h/api/v1/", "https://h"),
        ("http://[::1]:80/x/", "http://[::1]:80/x"),
    ],
)
def test_addresses_are_cleaned(text, url):
    assert server_url(text) == url


@pytest.mark.parametrize("text", ["", "ftp://h", "http://", "http://h:99999999", "http://[::1"])
def test_what_is_no_address_is_refused(text):
    with pytest.raises(UsageError, match="not the address"):
        server_url(text)


def test_an_address_is_shown_without_its_secrets():
    assert shown("http://user:secret@h/path?token=secret") == "h/path"
    with pytest.raises(UsageError) as caught:
        server_url("ftp://user:hunter2@host")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "here"),
    [("http://localhost", True), ("http://127.9.9.9:1", True), ("http://[::1]", True), ("http://10.0.0.1", False),
     ("http://localhost.evil.com", False), ("http://127.0.0.1.evil.com", False)],
)  # fmt: skip
def test_loopback_is_distinguished_from_its_look_alikes(url, here):
    assert is_loopback_url(url) is here


def test_tokens_come_from_files_and_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_TOKEN", " from-env ")
    (tmp_path / "token").write_text("from-file\n")
    assert read_token() == "from-env"
    assert read_token(tmp_path / "token") == "from-file"
    monkeypatch.delenv("ASSAY_TOKEN")
    assert read_token() is None
    (tmp_path / "empty").write_text(" \n")
    (tmp_path / "two").write_text("a\nb")
    for bad in ("missing", "empty", "two"):
        with pytest.raises(UsageError, match="token file"):
            read_token(tmp_path / bad)


# Messages


@pytest.mark.live
def test_one_method_per_message(server, client, tmp_path):
    enrolled = client.enroll(Enrolment("i" * 20, "box", PROFILE))
    assert (enrolled.agent, enrolled.action) == ("agent-iiiiiiiiiiii", "created")
    assert client.heartbeat(enrolled.agent, Heartbeat("active")).lost == ()
    assert client.lease(enrolled.agent, LeaseRequest()) is None
    server.add(_small_server().make_job())
    given = client.lease(enrolled.agent, LeaseRequest(wait_s=5))
    assert (given.job.id, given.fence) == ("campaign-1-job-0", 1)
    assert client.progress(given.job.id, 1, Progress(enrolled.agent)) is True
    client.release(given.job.id, 1, Release(enrolled.agent, "why"))
    assert client.progress(given.job.id, 1, Progress(enrolled.agent)) is False
    result = tmp_path / "result.json"
    result.write_text('{"runs": []}')
    assert client.deliver(given.job.id, 1, enrolled.agent, result).delivery == "late"


@pytest.mark.live
def test_a_problem_keeps_its_code_place_and_advice(server):
    with pytest.raises(RefusedError) as caught:
        FleetClient(server.url, "wrong-secret-token").heartbeat("a", Heartbeat("active"))
    problem = caught.value.problem
    assert (caught.value.status, problem.code, problem.try_) == (401, "unauthorized", "give one")
    assert "a token is needed" in problem.message
    assert "wrong-secret-token" not in str(caught.value)


@pytest.mark.live
@pytest.mark.parametrize("trouble", ["cut", 502, 503, 504, 429])
def test_what_can_be_repeated_is_repeated(server, client, trouble):
    server.misbehave("/agents$", trouble, 3)
    assert client.enroll(Enrolment("i" * 20, "box", PROFILE)).action == "created"


@pytest.mark.live
@pytest.mark.parametrize("trouble", ["cut", 503])
def test_a_lease_is_never_requested_twice_in_one_call(server, client, trouble):
    client.enroll(Enrolment("i" * 20, "box", PROFILE))
    server.add(_small_server().make_job())
    server.misbehave("/lease", trouble, 2)
    with pytest.raises(AwayError):
        client.lease("agent-iiiiiiiiiiii", LeaseRequest())
    assert len(server.mischief) == 1


@pytest.mark.live
def test_a_refusal_is_not_repeated(server, client):
    server.misbehave("/agents$", 422, 2)
    with pytest.raises(RefusedError) as caught:
        client.enroll(Enrolment("i" * 20, "box", PROFILE))
    assert caught.value.problem.code == "trouble"
    assert len(server.mischief) == 1


class FastClock(SystemClock):
    """Time passes only by waiting."""

    def __init__(self):
        self.now, self.waits = 0.0, []

    def monotonic_s(self):
        return self.now

    def pause(self, wait_s):
        self.waits.append(wait_s)
        self.now += wait_s


@pytest.mark.live
def test_patience_ends_and_waits_grow_with_jitter():
    clock = FastClock()
    client = FleetClient("http://127.0.0.1:9", SECRET, patience_s=600.0, clock=clock, pause=clock.pause)
    with pytest.raises(AwayError) as caught:
        client.get("/jobs")
    assert caught.value.problem.code == "server-away"
    assert SECRET not in str(caught.value)
    assert 500 < clock.now <= 600
    assert max(clock.waits) <= 30
    assert clock.waits[5] > clock.waits[0]


def test_back_off_is_bounded_and_never_in_step():
    assert 0.125 <= back_off_s(1) <= 0.25
    assert all(15 <= back_off_s(n) <= 30 for n in (9, 50, 10_000))
    assert len({back_off_s(9) for _ in range(20)}) > 1


@pytest.mark.live
def test_a_redirect_never_carries_the_token_elsewhere(server, client):
    server.misbehave("/jobs", 307, 1)
    with pytest.raises(RefusedError) as caught:
        client.get("/jobs")
    assert caught.value.status == 307


# Files


@pytest.mark.live
def test_files_go_up_once(server, client, tmp_path):
    path = tmp_path / "file.bin"
    path.write_bytes(b"x" * 3_000_000)
    digest = client.upload(path)
    assert digest == hashlib.sha256(path.read_bytes()).hexdigest()
    assert client.has(digest)
    client.upload(path)
    assert server.requests.count(("PUT", f"/artefacts/{digest}")) == 1


@pytest.mark.live
def test_a_cut_upload_is_sent_again_whole(server, client, tmp_path):
    path = tmp_path / "file.bin"
    path.write_bytes(b"y" * 3_000_000)
    server.misbehave("PUT /api/v1/artefacts", "cut", 2)
    digest = client.upload(path)
    assert server.artefacts[digest] == path.read_bytes()


@pytest.mark.live
def test_a_cut_download_continues_where_it_was_cut(server, client, tmp_path):
    content = bytes(range(256)) * 8000
    digest = hashlib.sha256(content).hexdigest()
    server.artefacts[digest] = content
    server.misbehave("GET /api/v1/artefacts", "half", 3)
    client.download(digest, tmp_path / "sub" / "file")
    assert (tmp_path / "sub" / "file").read_bytes() == content
    assert [path.name for path in (tmp_path / "sub").iterdir()] == ["file"]


@pytest.mark.live
def test_another_file_than_requested_is_refused_and_leaves_nothing(server, client, tmp_path):
    server.artefacts["0" * 64] = b"not that"
    with pytest.raises(MeasureError, match="another file"):
        client.download("0" * 64, tmp_path / "file")
    with pytest.raises(RefusedError):
        client.download("1" * 64, tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.live
def test_a_name_cannot_leave_its_path(server, client):
    with pytest.raises(RefusedError):
        client.heartbeat("../../agents", Heartbeat("active"))
    assert all("/../" not in path for _, path in server.requests)
