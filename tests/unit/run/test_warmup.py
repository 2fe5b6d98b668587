"""Warm models: one small request to the simulator and to servers that are slow, refuse or never come."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from assay.errors import MeasureError
from assay.run.endpoint import warm
from assay.spec.target import ServiceTarget


@pytest.fixture
def server():
    """A server that answers with a list of statuses, the last one again and again, and keeps what it was asked."""

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            made.asked.append((self.path, body, dict(self.headers)))
            self.send_response(made.statuses.pop(0) if len(made.statuses) > 1 else made.statuses[0])
            if made.location:
                self.send_header("Location", made.location)
            self.end_headers()
            self.wfile.write(b"so it is")

        def log_message(self, *_):
            pass

    made = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    made.asked, made.statuses, made.location = [], [200], None
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def url(server) -> str:
    return f"http://127.0.0.1:{server.server_port}"


def target(api: str, **keys) -> ServiceTarget:
    return ServiceTarget(service="llm", api=api, **keys)


@pytest.mark.parametrize(
    ("api", "path", "body"),
    [
        ("openai-chat", "/v1/chat/completions", {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1}),
        ("openai-completions", "/v1/completions", {"prompt": "Hello", "max_tokens": 1}),
        ("ollama", "/api/generate", {"keep_alive": "1h"}),
    ],
)
def test_one_small_request_loads_the_model(server, api, path, body, monkeypatch):
    monkeypatch.setenv("MODEL_KEY", "sesame")
    keys = {"options": {"keep_alive": "1h"}} if api == "ollama" else {}
    found = warm(
        target(api, model="m", headers={"Authorization": "Bearer ${env:MODEL_KEY}"}, **keys), url(server), 60.0
    )
    ((asked, sent, headers),) = server.asked
    assert asked == path
    assert sent == {"model": "m", "stream": False, **body}
    assert headers["Authorization"] == "Bearer sesame"
    assert found.how == f"POST {path}"
    assert found.seconds is not None
    assert set(found.facts()) == {"warm", "warm_s"}


def test_a_model_that_is_loading_is_waited_for(server):
    server.statuses = [503, 503, 200]
    assert warm(target("openai-chat", model="m"), url(server), 60.0).seconds > 0.9
    assert len(server.asked) == 3


def test_a_redirect_does_not_carry_the_key_to_another_host(server, monkeypatch):
    monkeypatch.setenv("MODEL_KEY", "sesame")
    taken = []

    class Elsewhere(BaseHTTPRequestHandler):
        def do_GET(self):
            taken.append(dict(self.headers))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    other = ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)
    threading.Thread(target=other.serve_forever, daemon=True).start()
    server.statuses, server.location = [302], url(other)
    found = warm(target("openai-chat", model="m", headers={"X-Key": "${env:MODEL_KEY}"}), url(server), 60.0)
    other.shutdown()
    other.server_close()
    assert taken == []
    assert found.seconds is None or "302" in found.how


def test_a_refusal_is_reported_and_no_more(server):
    server.statuses = [404]
    found = warm(target("openai-chat", model="m"), url(server), 60.0)
    assert found.seconds is None
    assert "refused with status 404: so it is" in found.facts()["warm"]


def test_one_that_never_gets_warm_is_given_up(server):
    server.statuses = [503]
    with pytest.raises(MeasureError, match=r"not warm within 2 s; last answer to POST .*: so it is") as caught:
        warm(target("openai-chat", model="m"), url(server), 2.0)
    assert caught.value.problem.code == "service-not-warm"


def test_others_are_left_alone(server):
    assert warm(target("qdrant"), url(server), 1.0).facts()["warm"].endswith("the protocol is qdrant")
    assert "no model" in warm(target("openai-chat"), url(server), 1.0).how
    assert server.asked == []


def test_it_can_be_called_off(server):
    server.statuses = [503]

    def stop() -> None:
        if server.asked:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        warm(target("openai-chat", model="m"), url(server), 30.0, unless=stop)
