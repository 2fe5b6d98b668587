"""What goes wrong on purpose, as a client sees it."""

from __future__ import annotations

import json

import pytest
from tests.support.running_server import wait_for
from tests.support.simulated import http_server, llm_server
from tests.unit.sim.raw import CHAT, Raw, ask, chat, fetch, get, post

from assay.sim.faults import MEANING

pytestmark = pytest.mark.live

# So long nothing comes from a server that has become silent.
WAIT_S = 1.0
SILENT = ("hang", "silence")
# After these the connection is as good as before.
WHOLE = ("unfinished", "malformed-event", "error-event", "redirect", "429", "500", "503")


@pytest.fixture(scope="module")
def sims():
    """One server for each kind, which fails every request."""
    kinds = [*MEANING, "429", "503"]
    opened = []
    for kind in kinds:
        context = llm_server(tokens=6, ttft_ms=10, itl_ms=2, error=[f"{kind}:every=1"])
        opened.append((kind, context, context.__enter__()))
    yield {kind: sim for kind, _, sim in opened}
    for _, context, _ in opened:
        context.__exit__(None, None, None)


def seen(sims, kind, *, stream=True):
    """What comes until the end or for a while, and how it ends."""
    with Raw(sims[kind]) as raw:
        raw.send(post(CHAT, chat(stream=stream)))
        if kind in SILENT:
            raw.sock.settimeout(WAIT_S)
        elif kind in WHOLE:
            raw.answer()
            return raw.got, "whole"
        try:
            while raw.more():
                if len(raw.got) > 50_000:
                    return raw.got, "endless"
        except ConnectionResetError:
            return raw.got, "reset"
        except TimeoutError:
            return raw.got, "silent"
        return raw.got, "closed"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("status", [429, 503])
def test_a_status(sims, status, stream):
    sim = sims[str(status)]
    answer = ask(sim, CHAT, chat(stream=stream))
    assert answer.status == status
    assert answer.headers["retry-after"] == "1"
    assert answer.json["error"]["code"] == "simulated"
    assert isinstance(ask(sim, "/api/generate", {"prompt": "a"}).json["error"], str)
    assert ask(sim, "/v1/embeddings", {"input": "a"}).status == status


@pytest.mark.parametrize("stream", [True, False])
def test_a_reset_before_the_answer(sims, stream):
    assert seen(sims, "reset", stream=stream) == (b"", "reset")


@pytest.mark.parametrize(
    ("kind", "ends"), [("reset-inside", "reset"), ("truncated", "closed"), ("hang", "silent")]
)  # fmt: skip
def test_an_answer_that_breaks_off_in_the_middle(sims, kind, ends):
    got, ended = seen(sims, kind)
    assert ended == ends
    assert got.count(b"data: ") == 3
    assert b"[DONE]" not in got
    assert not got.endswith(b"0\r\n\r\n")
    got, ended = seen(sims, kind, stream=False)
    assert ended == ends
    head, _, body = got.partition(b"\r\n\r\n")
    length = int(dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:])[b"content-length"])
    assert 0 < len(body) < length


def test_a_stream_that_is_not_finished(sims):
    events = ask(sims["unfinished"], CHAT, chat()).events
    assert len(events) == 3
    assert events[-1]["choices"][0]["finish_reason"] is None
    with pytest.raises(json.JSONDecodeError):
        _ = ask(sims["unfinished"], CHAT, chat(stream=False)).json


def test_an_event_that_is_not_json(sims):
    body = ask(sims["malformed-event"], CHAT, chat()).body.decode()
    events = [line for line in body.split("\n\n") if line]
    assert len(events) == 8
    with pytest.raises(json.JSONDecodeError):
        json.loads(events[3].removeprefix("data: "))
    assert events[-1] == "data: [DONE]"
    lines = ask(sims["malformed-event"], "/api/generate", {"prompt": "a"}).body.decode().splitlines()
    with pytest.raises(json.JSONDecodeError):
        json.loads(lines[3])
    with pytest.raises(json.JSONDecodeError):
        _ = ask(sims["malformed-event"], CHAT, chat(stream=False)).json


def test_an_error_inside_a_stream(sims):
    answer = ask(sims["error-event"], CHAT, chat())
    assert answer.status == 200
    assert len(answer.events) == 4
    assert answer.events[-1]["error"]["code"] == "simulated"
    assert ask(sims["error-event"], "/api/chat", chat()).lines[-1]["error"]
    assert ask(sims["error-event"], CHAT, chat(stream=False)).json["error"]


@pytest.mark.parametrize("stream", [True, False])
def test_what_is_not_http(sims, stream):
    got, ended = seen(sims, "malformed-http", stream=stream)
    assert ended == "closed"
    assert not got.startswith(b"HTTP/")
    assert got


def test_a_chunk_without_a_size(sims):
    got, ended = seen(sims, "malformed-chunk")
    assert ended == "closed"
    assert got.count(b"data: ") == 3
    assert b"\r\nXYZ\r\n" in got


def test_tokens_without_end(sims):
    sim = sims["endless"]
    with Raw(sim) as raw:
        raw.send(post(CHAT, chat(max_tokens=3)))
        while raw.got.count(b"data: ") < 200:
            assert raw.more()
        assert b"[DONE]" not in raw.got
    assert fetch(sim, "/health").status == 200
    wait_for(lambda: sim.state()["running"] == 0, what="the end of the stream")
    records = sim.records()
    assert records.outcomes[records.outcome[-1]] == "aborted"
    assert records.tokens[-1] >= 200
    with Raw(sim) as raw:
        raw.send(post(CHAT, chat(stream=False)))
        while len(raw.got) < 3000:
            assert raw.more()


def test_silence(sims):
    assert seen(sims, "silence") == (b"", "silent")


def test_a_redirect(sims):
    answer = ask(sims["redirect"], CHAT, chat())
    assert (answer.status, answer.headers["location"]) == (307, "/elsewhere")


@pytest.mark.parametrize("stream", [True, False])
def test_a_length_that_is_not_true(sims, stream):
    got, ended = seen(sims, "wrong-length", stream=stream)
    head, _, body = got.partition(b"\r\n\r\n")
    length = int(dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:])[b"content-length"])
    assert ended == "closed"
    assert length == len(body) + 10
    assert (b"[DONE]" in body) is stream


@pytest.mark.parametrize("kind", [*MEANING, "429"])
def test_no_fault_hurts_the_server_and_all_are_recorded(sims, kind):
    sim = sims[kind]
    sim.clear()
    for stream in (True, False):
        seen(sims, kind, stream=stream)
    assert fetch(sim, "/health").status == 200
    wait_for(lambda: len(sim.records()) >= 2, what="both records")
    records = sim.records()
    assert len(records) == 2
    aborted = kind in ("endless", "silence", "hang")
    assert {records.outcomes[code] for code in records.outcome} == {"aborted" if aborted else "fault"}


def test_only_the_chosen_requests_fail():
    with llm_server(error=["500:every=3", "429:number=0"]) as sim, Raw(sim) as raw:
        statuses = []
        for _ in range(7):
            raw.send(post(CHAT, chat()))
            statuses.append(raw.answer().status)
    assert statuses == [429, 200, 500, 200, 200, 500, 200]


@pytest.mark.parametrize("kind", [*MEANING, "500"])
def test_the_plain_server_fails_too(kind):
    with http_server(error=[f"{kind}:number=0"], latency_ms=5) as sim:
        with Raw(sim) as raw:
            raw.send(get("/x"))
            if kind in (*SILENT, *WHOLE):
                raw.sock.settimeout(WAIT_S)
            try:
                while raw.more() and len(raw.got) < 3000:
                    pass
            except (ConnectionResetError, TimeoutError):
                pass
            assert kind == "wrong-length" or not raw.got.endswith(b'{"ok": true}')
        assert fetch(sim, "/x").json == {"ok": True}


def test_a_server_that_starts_slowly():
    with llm_server(ready_after_ms=4000) as sim:
        assert fetch(sim, "/health").status == 503
        assert ask(sim, CHAT, chat()).status == 503
        wait_for(lambda: fetch(sim, "/health").status == 200, what="its start")
        assert ask(sim, CHAT, chat()).status == 200
