"""One way to reach a server that somebody named, and one way to say why it was not reached."""

import socket
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import httpx
import pytest

from assay.http import failure_words, http_client, is_loopback, is_loopback_url


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("localhost", True),
        ("LOCALHOST.localdomain", True),
        ("a.localhost", True),
        ("127.8.9.1", True),
        ("[::1]", True),
        ("::1", True),
        ("10.0.0.1", False),
        ("localhost.example.org", False),
        ("", False),
    ],
)
def test_loopback_is_this_machine(host, here):
    assert is_loopback(host) is here


def test_of_a_url_the_host_counts():
    assert is_loopback_url("http://127.0.0.1:8080/x")
    assert not is_loopback_url("http://example.org/localhost")


@pytest.mark.parametrize(
    ("url", "proxies", "asked"),
    [
        ("http://assay.example.org", True, True),
        ("http://assay.example.org", False, False),
        ("http://127.0.0.1:1", True, False),
    ],
)
def test_a_proxy_is_used_where_it_may_be_and_never_for_this_machine(monkeypatch, url, proxies, asked):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with http_client(url, timeout_s=1.0, proxies=proxies) as client:
        assert client.trust_env is asked


def test_a_redirect_is_an_answer_and_is_not_followed():
    class Elsewhere(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(302)
            self.send_header("location", "http://127.0.0.1:9/")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Elsewhere)
    Thread(target=server.serve_forever, daemon=True).start()
    with http_client(f"http://127.0.0.1:{server.server_port}", timeout_s=30.0) as client:
        assert client.get("/").status_code == 302
    server.shutdown()
    server.server_close()


def test_words_of_a_failure_are_one_line_and_never_empty():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound and not listening: the port belongs to nobody else
        with (
            http_client(f"http://127.0.0.1:{closed.getsockname()[1]}", timeout_s=30.0) as client,
            pytest.raises(httpx.ConnectError) as failed,
        ):
            client.get("/")
    assert "refused" in failure_words(failed.value)
    assert failure_words(TimeoutError()) == "TimeoutError"
    assert failure_words(OSError("one\n  two")) == "one two"
