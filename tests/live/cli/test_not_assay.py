"""Every verb with --server against something that is no assay server: one clear error, exit code 3."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import typer
from tests.support.running_server import RunningServer

from assay.cli.main import app
from assay.errors import MeasureError
from assay.place.fleet.client import FleetClient
from assay.place.fleet.protocol import Enrolment
from assay.place.needs import Profile

pytestmark = pytest.mark.live

COMMAND = "benchmark: answer\ntarget: {command: echo 42}\nmeasure: {runs: 1}\n"
SCHEDULED = COMMAND + "schedule: {cron: 0 3 * * *}\n"
SERIES = "series,time,value\nmine,2026-01-01,1.0\nmine,2026-01-02,2.0\n"


def http(status: str, content: bytes, *headers: str) -> bytes:
    """An answer as it goes over the wire."""
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(content)}", "Connection: close", "", ""]
    return "\r\n".join(lines).encode() + content


HTML = b"<!doctype html><html><title>Welcome to nginx!</title></html>"
ANSWERS = {
    "html": http("200 OK", HTML, "Content-Type: text/html"),
    "other json": http("200 OK", b'{"hello": "world"}', "Content-Type: application/json"),
    "other health": http("200 OK", b'{"status": "ok", "version": "2.1"}', "Content-Type: application/json"),
    "json list": http("200 OK", b"[1, 2]", "Content-Type: application/json"),
    "404 html": http("404 Not Found", HTML, "Content-Type: text/html"),
    "404 json": http("404 Not Found", b'{"code": "no", "detail": "none"}', "Content-Type: application/json"),
    "500 html": http("500 Oops", HTML, "Content-Type: text/html"),
    "empty": http("200 OK", b""),
    "no content": b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
    "not text": http("200 OK", b"\xff\xfe\x80{", "Content-Type: application/json"),
    "redirect": http("302 Found", b"", "Location: https://somewhere.example/login?next=secret"),
    "no http": b"220 mail.example ESMTP\r\nready\r\n\r\n",
    "wrong encoding": http("200 OK", HTML, "Content-Type: text/html", "Content-Encoding: gzip"),
}


class _Handler(socketserver.BaseRequestHandler):
    answer = b""

    def handle(self) -> None:
        self.request.recv(65536)
        self.request.sendall(self.answer)


@pytest.fixture
def other_server() -> Iterator[Callable[[bytes], str]]:
    """A function that starts a server which answers everything with the same bytes; gives its URL."""
    started: list[socketserver.ThreadingTCPServer] = []

    def start(answer: bytes) -> str:
        handler = type("Handler", (_Handler,), {"answer": answer})
        server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        started.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield start
    for server in started:
        server.shutdown()
        server.server_close()


@dataclass(frozen=True)
class Verb:
    """A command with --server, and the words that it needs."""

    path: tuple[str, ...]
    words: tuple[str, ...]


def _commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command, groups too: some do something by themselves."""
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from _commands(below, (*path, name))


# What required arguments need to get as far as the server; all others are any word.
ARGUMENTS = {
    ("agents", "label"): ("box", "room=4"),
    ("alerts", "resend"): ("1",),
    ("alerts", "rules", "set"): ("late", "ttft_ms.p99 > 50"),
    ("run",): ("bench.yaml",),
    ("schedules", "add"): ("scheduled.yaml",),
    ("series", "import"): ("series.csv",),
}
OPTIONS = {("alerts", "snooze"): ("--for", "1h")}


def _verbs() -> list[Verb]:
    found = []
    for path, command in _commands(typer.main.get_command(app)):
        # An agent is a service: it waits for its server.
        if path[:1] != ("agent",) and any("--server" in parameter.opts for parameter in command.params):
            needed = tuple("x" for one in command.params if one.required and one.param_type_name == "argument")
            found.append(Verb(path, (*path, *ARGUMENTS.get(path, needed), *OPTIONS.get(path, ()))))
    return found


VERBS = _verbs()


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch) -> None:
    """A folder of its own with the files that verbs ask for."""
    (tmp_path / "bench.yaml").write_text(COMMAND)
    (tmp_path / "scheduled.yaml").write_text(SCHEDULED)
    (tmp_path / "series.csv").write_text(SERIES)
    monkeypatch.chdir(tmp_path)


def test_verbs_are_found():
    paths = {verb.path for verb in VERBS}
    assert {("run",), ("report",), ("logs",), ("agents", "list"), ("series", "list"), ("alerts", "rules")} <= paths
    assert len(VERBS) > 30


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: " ".join(verb.path))
def test_a_web_server_that_is_not_assay_is_said_to_be_none(verb, cli, other_server):
    url = other_server(ANSWERS["html"])
    code, out, err = cli(*verb.words, "--server", url)
    assert (code, out) == (3, "")
    assert err.startswith(f"error[not-assay] {url}")
    assert "200" in err
    assert "text/html" in err


@pytest.mark.parametrize("answer", ANSWERS)
def test_whatever_answers_is_distinguished_from_assay(answer, cli, other_server):
    url = other_server(ANSWERS[answer])
    code, out, err = cli("campaigns", "list", "--server", url)
    assert (code, out) == (3, "")
    assert err.startswith(f"error[not-assay] {url}")
    assert "Traceback" not in err
    assert "try: " in err
    assert "secret" not in err


def test_where_a_redirect_leads_is_said(cli, other_server):
    _, _, err = cli("agents", "list", "--server", other_server(ANSWERS["redirect"]))
    assert "302" in err
    assert "https://somewhere.example/login" in err


@pytest.mark.parametrize("answer", ["html", "404 html", "500 html", "not text", "other json", "empty"])
def test_a_client_without_a_greeting_says_it_too(answer, other_server):
    """Agents and relays, which come again by themselves, get an error of ours from every message."""
    client = FleetClient(other_server(ANSWERS[answer]))
    with pytest.raises(MeasureError) as caught:
        client.enroll(Enrolment("i" * 20, "box", Profile("box", "linux", 1, 1, {}, {})))
    assert caught.value.problem.code == "not-assay"


def test_one_that_closes_without_a_word_does_not_answer(cli, other_server):
    code, _, err = cli("campaigns", "list", "--server", other_server(b""))
    assert code == 3
    assert err.startswith("error[server-away]")


def test_an_assay_server_is_known_as_one(server: RunningServer, cli):
    code, _, _ = cli("campaigns", "list", "--server", server.url)
    assert code == 0
