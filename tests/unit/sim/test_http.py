"""HTTP/1.1 as the simulated server speaks it, byte by byte."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import time

import pytest
from tests.support.certificate import self_signed
from tests.support.running_server import wait_for
from tests.support.simulated import http_server, llm_server
from tests.unit.sim.raw import CHAT, Raw, ask, chat, fetch, get, post

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def sim():
    with llm_server(tokens=4, ttft_ms=5, itl_ms=1) as server:
        yield server


def test_one_connection_serves_many_requests(sim):
    with Raw(sim) as raw:
        ids = []
        for _ in range(3):
            raw.send(post(CHAT, chat()))
            answer = raw.answer()
            assert len(answer.events) == 6
            ids.append(answer.headers["x-request-id"])
        assert len(set(ids)) == 3


def test_requests_that_are_sent_ahead_are_answered_in_order(sim):
    with Raw(sim) as raw:
        raw.send(post(CHAT, chat()) + get("/health") + post(CHAT, chat(stream=False)) + get("/nowhere"))
        assert raw.answer().events[-1] == "[DONE]"
        assert raw.answer().json == {"status": "ok"}
        assert raw.answer().json["object"] == "chat.completion"
        assert raw.answer().status == 404


def test_a_request_may_come_byte_by_byte(sim):
    data = post(CHAT, chat())
    with Raw(sim) as raw:
        for at in range(len(data)):
            raw.send(data[at : at + 1])
        assert len(raw.answer().events) == 6


def test_a_body_in_chunks(sim):
    body = json.dumps(chat("one two three four", stream=False)).encode()
    parts = [body[:10], body[10:11], body[11:]]
    data = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
    with Raw(sim) as raw:
        raw.send(f"POST {CHAT} HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n".encode())
        for at in range(0, len(data), 7):
            raw.send(data[at : at + 7])
        assert raw.answer().json["usage"]["prompt_tokens"] == 4


def test_expect_100_continue(sim):
    body = json.dumps(chat(stream=False)).encode()
    with Raw(sim) as raw:
        raw.send(
            f"POST {CHAT} HTTP/1.1\r\nhost: h\r\nexpect: 100-continue\r\ncontent-length: {len(body)}\r\n\r\n".encode()
        )
        assert raw.answer().status == 100
        raw.send(body)
        assert raw.answer().status == 200


def test_a_head_request_gets_no_body(sim):
    with Raw(sim) as raw:
        raw.send(get("/health", method="HEAD") + get("/health"))
        answer = raw.answer(has_body=False)
        assert answer.headers["content-length"] == "15"
        assert raw.answer().json == {"status": "ok"}


def test_connection_close_is_said_and_done(sim):
    with Raw(sim) as raw:
        raw.send(post(CHAT, chat(), more="connection: close\r\n"))
        whole = raw.until_closed()
    assert b"connection: close\r\n" in whole
    assert whole.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")


def test_an_old_client_gets_a_stream_without_chunks(sim):
    with Raw(sim) as raw:
        raw.send(post(CHAT, chat(), version="1.0", more="connection: keep-alive\r\n"))
        head, _, body = raw.until_closed().partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head
    assert b"connection: close" in head
    assert body.count(b"data: ") == 6
    assert body.endswith(b"data: [DONE]\n\n")


def test_an_old_client_may_keep_its_connection_where_the_length_is_known(sim):
    with Raw(sim) as raw:
        for _ in range(2):
            raw.send(get("/health", version="1.0", more="connection: keep-alive\r\n"))
            assert raw.answer().headers["connection"] == "keep-alive"


def test_paths_and_methods_that_are_not_there(sim):
    assert fetch(sim, "/nowhere").status == 404
    answer = fetch(sim, CHAT)
    assert answer.status == 405
    assert answer.headers["allow"] == "POST"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GARBAGE\r\n\r\n", 400),
        (b"GET / HTTP/1.1\nhost: h\n\n", 400),
        (b"POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: gzip, chunked\r\n\r\n", 501),
        (b"GET / HTTP/1.1\r\nx: " + b"a" * 70_000 + b"\r\n\r\n", 431),
        (b"GET /" + b"a" * 70_000, 431),
        (b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 99999999999\r\n\r\n", 413),
    ],
)
def test_what_is_not_served_is_said_and_the_connection_closed(sim, data, status):
    with Raw(sim) as raw:
        raw.send(data)
        answer = raw.answer()
        assert answer.status == status
        assert answer.headers["connection"] == "close"
        assert not raw.more()
    assert fetch(sim, "/health").status == 200


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"messages": 5}'])
def test_bodies_that_are_wrong_get_400_and_the_connection_continues(sim, body):
    with Raw(sim) as raw:
        raw.send(post(CHAT, body) + get("/health"))
        answer = raw.answer()
        assert answer.status == 400
        assert answer.json["error"]["type"] == "invalid_request_error"
        assert raw.answer().status == 200


def test_a_client_that_goes_away_leaves_a_record_and_no_trace():
    with llm_server(ttft_ms=5, itl_ms=20, tokens=5000, capacity=1) as sim:
        with Raw(sim) as raw:
            raw.send(post(CHAT, chat()))
            while raw.got.count(b"data: ") < 3:
                raw.more()
        answer = ask(sim, CHAT, chat(max_tokens=1))  # has the slot of the one that left
        assert answer.status == 200
        records = sim.records()
        assert [records.outcomes[code] for code in records.outcome] == ["aborted", "ok"]
        assert 3 <= records.tokens[0] < 3000
        assert sim.state()["running"] == 0


def test_a_client_that_does_not_read_is_no_burden_for_others():
    with llm_server(tokens=2000, ttft_ms=0) as sim:
        with Raw(sim) as slow:
            for _ in range(40):
                slow.send(post(CHAT, chat()))
            wait_for(lambda: sim.state()["backed_up"] > 0, what="a full connection")
            assert len(ask(sim, CHAT, chat(max_tokens=3)).events) == 5
            for _ in range(40):
                assert len(slow.answer().events) == 2002
        assert sim.state()["backed_up"] > 0


def test_tls(tmp_path):
    cert, key = self_signed(tmp_path, "localhost")
    with llm_server(tls_cert=cert, tls_key=key, tokens=500, itl_ms=0.1) as sim:
        assert sim.url.startswith("https://")
        with Raw(sim) as raw:
            raw.send(post(CHAT, chat("word " * 50_000)) + post(CHAT, chat()))
            assert len(raw.answer().events) == 502
            assert len(raw.answer().events) == 502
            raw.send(get("/health", more="connection: close\r\n"))
            assert raw.answer().status == 200
            assert not raw.more()
        with socket.create_connection((sim.host, sim.port)) as plain:
            plain.sendall(get("/health"))
            with contextlib.suppress(ConnectionResetError):
                assert b"HTTP" not in plain.recv(1000)
        assert len(sim.records()) == 2


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_at_once_in_the_middle_of_a_stream(how):
    process = subprocess.Popen(
        [sys.executable, "-m", "assay.sim", "llm", "--itl", "100s"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    port = int(process.stdout.readline().rpartition(b":")[2])
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.sendall(post(CHAT, chat()))
        sock.recv(100)
        begin = time.monotonic()
        process.send_signal(how)
        assert process.wait(60) == 0
        assert time.monotonic() - begin < 50
    assert process.stderr.read() == b""
    process.stdout.close()
    process.stderr.close()


def test_it_ends_with_its_lifeline():
    with llm_server() as sim:
        sim._process.stdin.close()
        assert sim._process.wait(60) == 0


def test_a_port_that_is_taken_is_reported(sim):
    done = subprocess.run(
        [sys.executable, "-m", "assay.sim", "http", "--port", str(sim.port)], capture_output=True, text=True
    )
    assert done.returncode == 2  # as of the server with its dashboard
    assert f"error[address] 127.0.0.1:{sim.port}\n" in done.stderr


def test_a_port_that_cannot_be_is_not_taken_for_another():
    done = subprocess.run(
        [sys.executable, "-m", "assay.sim", "http", "--port", "99999"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert "'99999' is no port: the last one is 65535" in done.stderr


def test_the_plain_server_answers_any_path():
    with http_server(size="2kB", body='{"a": 1}') as sim:
        for path in ("/", "/any/thing?x=1"):
            answer = fetch(sim, path)
            assert answer.json == {"a": 1}
            assert len(answer.body) == 2000
        assert ask(sim, "/post", b"anything").status == 200
        assert len(sim.records()) == 3
        assert b"vllm:request_success_total" in fetch(sim, "/metrics").body
