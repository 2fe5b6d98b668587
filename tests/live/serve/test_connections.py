"""Connections that do not get on are ended, so that others get in."""

import socket
from pathlib import Path

import pytest
from tests.live.serve.setups import Agent
from tests.support.running_server import PATIENCE_S

ROOT = Path(__file__).resolve().parents[3]
HEAD = b"POST /api/v1/campaigns HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


def connect(server, sent):
    """A raw connection that has sent something."""
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S)
    connection.sendall(sent)
    return connection


def rest(connection):
    """What comes until the server closes; fails after a while where it never does."""
    received = b""
    with connection:
        try:
            while block := connection.recv(65536):
                received += block
        except ConnectionResetError:
            pass
    return received


@pytest.mark.live
@pytest.mark.parametrize("sent", [b"", b"GE", b"GET / HTTP/1.1\r\nHost: a\r\nX-Unfinished: "])
def test_a_head_that_never_ends_is_ended_and_others_get_in(serve, sent):
    server = serve(header_timeout_s=0.3)
    waiting = [connect(server, sent) for _ in range(20)]
    assert server.client.get("/health").status_code == 200
    for connection in waiting:
        assert rest(connection).startswith(b"HTTP/1.1 408 ")
    assert server.client.get("/health").status_code == 200


@pytest.mark.live
def test_a_second_head_on_a_kept_connection_is_ended_too(serve):
    server = serve(header_timeout_s=0.3)
    connection = connect(server, b"GET /api/v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /api")
    received = rest(connection)
    assert received.startswith(b"HTTP/1.1 200 ")
    assert b"HTTP/1.1 408 " in received


@pytest.mark.live
def test_a_body_that_stops_is_ended(serve):
    server = serve(body_timeout_s=0.3)
    connection = connect(server, HEAD + b"Content-Length: 1000\r\n\r\n{")
    assert b" 200 " not in rest(connection)
    assert server.client.get("/health").status_code == 200


@pytest.mark.live
def test_an_answer_that_takes_long_is_not_ended(serve):
    server = serve(header_timeout_s=1.0, body_timeout_s=1.0)
    agent = Agent(server.client).id
    assert server.client.post(f"/agents/{agent}/lease", json={"wait_s": 2.0}).status_code == 204


@pytest.mark.live
def test_a_head_that_is_too_long_is_refused(server):
    long = b"GET /api/v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: " + b"x" * 2**20 + b"\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as connection:
        try:
            connection.sendall(long)
        except (BrokenPipeError, ConnectionResetError):
            return  # it was closed before all of it was sent
        assert connection.recv(100).startswith(b"HTTP/1.1 431 ")


def test_the_unit_of_the_server_allows_a_connection_for_every_agent():
    assert "\nLimitNOFILE=65536\n" in (ROOT / "deploy/systemd/assay-server.service").read_text()
