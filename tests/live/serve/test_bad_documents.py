"""Whatever a client sends: a problem that says why, and the server goes on."""

import json

import pytest
from tests.live.serve.setups import Agent, benchmark, enrolment, is_problem, result_of, submit
from tests.unit.spec.bad_files import BAD_FILES, BadFile

from assay.serve.settings import ServerSettings
from assay.serve.web.middleware import SizeLimits, holds_zero, without_zero

TEXTS = [bad for bad in BAD_FILES if bad.is_text]
DOCUMENTS = [bad for bad in TEXTS if bad.name.startswith(("json", "spec"))]
JSON = {"Content-Type": "application/json"}


def text_of(bad: BadFile, folder) -> tuple[str, str]:
    path = bad.make(folder)
    try:
        return path.read_text(encoding="utf-8"), path.suffix.removeprefix(".")
    except UnicodeDecodeError:
        pytest.skip("no text that could be sent")


@pytest.fixture(scope="module")
def lasting(tmp_path_factory):
    """One server for all of them: each must leave it as it was."""
    from tests.support.running_server import RunningServer

    running = RunningServer(ServerSettings(host="127.0.0.1", port=0, folder=tmp_path_factory.mktemp("server")))
    yield running
    running.stop()


@pytest.mark.live
@pytest.mark.parametrize("bad", TEXTS, ids=lambda bad: bad.name)
def test_a_bad_text_is_read_and_its_errors_are_reported(bad, lasting, tmp_path):
    text, form = text_of(bad, tmp_path)
    answer = lasting.client.post("/benchmarks/read", json={"text": text, "format": form})
    assert answer.status_code in (200, 422), answer.text[:500]
    if answer.status_code == 200:
        told = answer.json()
        assert told["errors"][0]["message"]
        assert told["preview"] is None
    else:
        is_problem(answer, 422, "zero-byte" if "zero byte" in bad.name else "request")
    assert len(answer.content) < 2_000_000


@pytest.mark.live
@pytest.mark.parametrize("bad", DOCUMENTS, ids=lambda bad: bad.name)
@pytest.mark.parametrize("path", ["/campaigns", "/benchmarks"])
def test_a_bad_document_is_refused(bad, path, lasting, tmp_path):
    text, _ = text_of(bad, tmp_path)
    answer = lasting.client.post(path, content=f'{{"document": {text}}}'.encode(), headers=JSON)
    assert 400 <= answer.status_code < 500, answer.text[:500]
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"]
    assert lasting.client.get("/campaigns").json()["items"] == []


ZERO = "a\0b"
STORED = [
    ("POST", "/campaigns", {"document": benchmark(labels={"k\0": "v"})}),
    ("POST", "/campaigns", {"document": benchmark(), "labels": {"k": ZERO}}),
    ("POST", "/campaigns", {"document": benchmark(), "git": {"commit": ZERO}}),
    ("POST", "/campaigns", {"document": benchmark(), "agent": ZERO}),
    ("POST", "/campaigns", {"document": benchmark(), "files": {"m": [{"name": ZERO, "sha256": "0", "size_bytes": 3}]}}),
    ("POST", "/benchmarks", {"document": benchmark(description=ZERO)}),
    ("PUT", "/benchmarks/speed", {"document": benchmark(description=ZERO)}),
    ("POST", "/schedules", {"document": benchmark(schedule="@daily"), "labels": {"k": ZERO}}),
    ("POST", "/jobs/batch", {"action": "cancel", "jobs": [], "reason": ZERO}),
    ("PATCH", "/agents/box", {"labels": {"k\0": "v"}}),
    ("PUT", "/prices/box", {"per_hour": 1.0, "currency": ZERO}),
    ("POST", "/series/import", {"points": [{"series": ZERO, "at": 1.0, "value": 1.0}]}),
    ("POST", "/tokens", {"name": ZERO, "role": "reader"}),
    ("POST", "/alerts/x/acknowledge", {"why": ZERO}),
    ("POST", "/jobs/x/scores", {"scorers": [ZERO]}),
]


@pytest.mark.live
@pytest.mark.parametrize(("method", "path", "body"), STORED, ids=lambda one: one if isinstance(one, str) else "")
def test_a_zero_byte_is_refused_at_the_edge(lasting, method, path, body):
    problem = is_problem(lasting.client.request(method, path, json=body), 422, "zero-byte")
    assert "\\u0000" in problem["detail"]


@pytest.fixture(params=["sqlite", "postgresql"])
def anywhere(request, serve):
    """A server on each database."""
    if request.param == "sqlite":
        return serve()
    return serve(database_url=request.getfixturevalue("postgresql").migrated())


@pytest.mark.live
def test_what_programs_print_is_kept_without_its_zero_bytes(anywhere):
    client = anywhere.client
    agent = Agent(client, device={"model": "a board\0"})
    campaign = submit(client)["id"]
    lease = agent.lease()
    assert agent.progress(lease, note=ZERO, log=[ZERO, "\\u0000"]).status_code == 204
    document = result_of(lease.job) | {"environment": {"program": f"it said {ZERO} and \\u0000"}}
    assert agent.deliver(lease, document).json() == {"delivery": "accepted"}
    again = agent.lease()
    path = f"/jobs/{again.job.id}/attempts/{again.fence}/release"
    assert client.post(path, json={"agent": agent.id, "reason": ZERO}).status_code == 204
    assert [one["text"] for one in client.get(f"/jobs/{lease.job.id}/logs").json()["lines"]] == ["a\ufffdb", "\\u0000"]
    for page in ("/jobs", f"/campaigns/{campaign}", f"/jobs/{lease.job.id}", "/agents", "/results"):
        answer = client.get(page)
        assert answer.status_code == 200, answer.text
        assert not holds_zero(answer.content)
    result = client.get(f"/jobs/{lease.job.id}/result").text
    assert "it said a\ufffdb and \\\\u0000" in result


def test_a_backslash_before_the_letters_is_no_zero_byte():
    harmless, zero = json.dumps({"a": "\\u0000"}).encode(), json.dumps({"a": "\\\0"}).encode()
    assert not holds_zero(harmless)
    assert without_zero(harmless) == harmless
    assert holds_zero(zero)
    assert json.loads(without_zero(zero)) == {"a": "\\\ufffd"}


def test_a_request_with_a_document_is_smaller_than_others():
    limits = SizeLimits.of(ServerSettings())
    for path in ("/api/v1/campaigns", "/api/v1/benchmarks", "/api/v1/benchmarks/read", "/api/v1/schedules"):
        assert limits.for_request("POST", path) == 4 * 10**6
    assert limits.for_request("POST", "/api/v1/series/import") == 16 * 10**6
    assert SizeLimits.of(ServerSettings(max_body_mb=1)).for_request("POST", "/api/v1/campaigns") == 10**6


@pytest.mark.live
def test_a_name_with_a_zero_byte_comes_out_without(server):
    answer = server.client.post("/agents", json=enrolment("box") | {"name": "box\0"})
    assert answer.status_code == 201
    assert [one["name"] for one in server.client.get("/agents").json()["items"]] == ["box\ufffd"]
