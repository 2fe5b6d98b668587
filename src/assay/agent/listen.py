"""An agent that waits to be called: a server that knows its address asks what it is, and has it work for it."""

from __future__ import annotations

import hmac
import json
import logging
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from assay.agent.agent import Agent
from assay.agent.host import HostFacts, enrolment_of, probe_host
from assay.agent.identity import AgentSettings, identity
from assay.agent.spool import Spool
from assay.documents import to_plain
from assay.errors import AssayError, UsageError
from assay.files import write_whole
from assay.http import is_loopback_url
from assay.place.fleet.transport import server_url

_log = logging.getLogger("assay.agent")
_MAX_BODY = 64 * 1024
_LONGEST_LENGTH = 20  # digits of a Content-Length
_MOST_RESULTS = 20
_SERVER_FILE = "server.json"

MakeAgent = Callable[[str, str | None], Agent]


class HttpAnswer(Exception):  # noqa: N818  (an answer, not an error)
    """What is answered to a request."""

    def __init__(self, status: int, document: dict[str, Any]) -> None:
        super().__init__(status)
        self.status = status
        self.document = document

    @classmethod
    def refusal(cls, status: int, code: str, detail: str, try_: str = "") -> HttpAnswer:
        return cls(status, {"code": code, "detail": detail, "try": try_})


class EnrolmentPost:
    """The device's side of server-initiated enrolment: which server it works for, kept across restarts."""

    def __init__(self, settings: AgentSettings, facts: Callable[[], HostFacts], make: MakeAgent) -> None:
        self._settings = settings
        self._facts = facts
        self._make = make
        self._lock = threading.Lock()
        self._agent: Agent | None = None
        self._thread: threading.Thread | None = None
        self._trouble = ""

    def resume(self) -> None:
        """Work again for the server of last time, if there was one."""
        try:
            record = json.loads((self._settings.state / _SERVER_FILE).read_text(encoding="utf-8"))
            server, token = str(record["server"]), record.get("token")
        except (OSError, ValueError, KeyError, TypeError):
            return
        with self._lock:
            self._work_for(self._make(server, token))

    def info(self) -> dict[str, Any]:
        """What this device is: an enrolment, and what people want to know."""
        from assay.hardware.machine import machine_id

        facts = self._facts()
        enrolment = enrolment_of(identity(self._settings.state, machine_id()).id, facts, self._settings)
        return {**to_plain(enrolment), "platform": facts.platform, "capabilities": list(facts.capabilities)}

    def status(self) -> dict[str, Any]:
        agent = self._agent
        if agent is None:
            return {"server": None, "state": "faulty" if self._trouble else "active", "note": self._trouble, "held": []}
        return agent.status()

    def results(self) -> dict[str, Any]:
        """Results that no server has acknowledged yet."""
        entries = [entry for entry in Spool(self._settings.state).entries() if entry.result.is_file()]
        return {
            "items": [
                {"server": entry.server, "job": entry.job, "fence": entry.fence, "result": _document(entry.result)}
                for entry in entries[:_MOST_RESULTS]
            ],
            "total": len(entries),
        }

    def enrol(self, server: str, token: str | None) -> dict[str, Any]:
        """Work for a server from now on."""
        address = server_url(server)
        with self._lock:
            working = self._agent
            if working is not None and server_url(working.settings.server) != address:
                raise UsageError(
                    f"this agent works for {working.settings.server}",
                    code="taken",
                    try_="stop it, and remove server.json from its state folder",
                )
            agent = self._make(address, token)
            enrolled = agent.enrol()
            document = json.dumps({"server": address, "token": token}).encode()
            write_whole(self._settings.state / _SERVER_FILE, document, mode=0o600)
            if working is None:
                self._work_for(agent)
        return dict(to_plain(enrolled))

    def stop(self) -> None:
        """Ask the agent to stop; a second time, immediately."""
        if self._agent is not None:
            self._agent.request_stop()

    def wait(self) -> None:
        thread = self._thread
        while thread is not None and thread.is_alive():
            thread.join(0.5)  # signals get through in between

    def _work_for(self, agent: Agent) -> None:
        self._agent, self._trouble = agent, ""
        self._thread = threading.Thread(target=self._run, args=(agent,), name="agent")
        self._thread.start()

    def _run(self, agent: Agent) -> None:
        try:
            agent.run()
        except AssayError as problem:
            _log.error("%s", problem)
            self._trouble = problem.problem.message
        finally:
            self._agent = None


def listen(post: EnrolmentPost, host: str, port: int, token: str | None) -> ThreadingHTTPServer:
    """Open the port; requests are served once `serve_forever` is called."""
    handler = type("Requests", (_Requests,), {"post": post, "token": token})
    try:
        return ThreadingHTTPServer((host, port), handler)
    except OSError as problem:
        raise UsageError(
            f"cannot listen: {problem.strerror}",
            code="listen",
            at=f"{host}:{port}",
            try_="name another address with --listen",
        ) from None


def work_on_call(
    settings: AgentSettings,
    host: str,
    port: int,
    token: str | None,
    on_signals: Callable[[Callable[[bool], None]], None],
) -> None:
    """Listen, and work for whichever server calls, until asked to stop."""
    look, lock = cache(probe_host), threading.Lock()

    def facts() -> HostFacts:
        with lock:  # so that two callers do not look at the same time
            return look()

    def read_ahead() -> None:
        with suppress(AssayError):  # a later caller gets what went wrong
            facts()

    post = EnrolmentPost(settings, facts, lambda server, secret: Agent(replace(settings, server=server, token=secret)))
    server = listen(post, host, port, token)
    done = threading.Event()

    def request_end(interrupted: bool) -> None:  # noqa: ARG001  (either way the same)
        done.set()
        post.stop()

    on_signals(request_end)
    threading.Thread(target=read_ahead, name="look", daemon=True).start()  # so that the first caller need not wait
    threading.Thread(target=server.serve_forever, name="listen", daemon=True).start()
    _log.info("listening at %s:%d", host, server.server_address[1])
    post.resume()
    while not done.wait(0.5 if sys.platform == "win32" else None):
        continue
    server.shutdown()
    post.wait()


class _Requests(BaseHTTPRequestHandler):
    """Four requests, answered in JSON."""

    post: EnrolmentPost
    token: str | None
    timeout = 15
    server_version = "assay-agent"
    sys_version = ""

    def do_GET(self) -> None:
        self._serve({"/info": self.post.info, "/status": self.post.status, "/results": self.post.results})

    def do_POST(self) -> None:
        self._serve({"/enrol": self._enrol})

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ANN401  (http.server's signature)
        _log.debug("asked: " + format, *args)

    def _serve(self, routes: dict[str, Callable[[], dict[str, Any]]]) -> None:
        try:
            self._check()
            work = routes.get(self.path.partition("?")[0])
            answer = HttpAnswer(200, work()) if work else HttpAnswer.refusal(404, "not-found", "there is nothing here")
        except HttpAnswer as refusal:
            answer = refusal
        except AssayError as error:
            said = error.problem
            status = 409 if isinstance(error, UsageError) else 502
            answer = HttpAnswer.refusal(status, said.code, said.message, said.try_)
        except Exception:  # the caller gets an answer, and the log the trace
            _log.exception("cannot answer %s", self.path[:200])
            answer = HttpAnswer.refusal(500, "failed", "the agent failed; see its log")
        self._send(answer)

    def _check(self) -> None:
        """Let in only callers that know the token; without one, only what cannot come from a page in a browser."""
        if self.token is not None:
            given = self.headers.get("authorization", "").removeprefix("Bearer ").strip()
            if not hmac.compare_digest(given.encode(), self.token.encode()):
                raise HttpAnswer.refusal(401, "unauthorised", "this agent asks for its token")
            return
        host = f"http://{self.headers.get('host', '')}"
        try:
            near = urlsplit(host).port != 0 and is_loopback_url(host)  # reading the port checks it
        except ValueError:
            raise HttpAnswer.refusal(400, "host", "the Host header cannot be read") from None
        if not near:
            raise HttpAnswer.refusal(403, "host", "ask for this agent by a loopback address")

    def _enrol(self) -> dict[str, Any]:
        if self.headers.get_content_type() != "application/json":
            raise HttpAnswer.refusal(415, "content-type", "send application/json")
        lengths = self.headers.get_all("content-length", [])
        if not lengths or "transfer-encoding" in self.headers:
            raise HttpAnswer.refusal(411, "length", "send a Content-Length")
        if len(set(lengths)) > 1 or not (lengths[0].isascii() and lengths[0].isdigit()):
            raise HttpAnswer.refusal(400, "length", f"Content-Length is {lengths[0][:40]!r}, which is no length")
        if len(lengths[0]) > _LONGEST_LENGTH or int(lengths[0]) > _MAX_BODY:
            raise HttpAnswer.refusal(413, "too-large", f"more than {_MAX_BODY} bytes")
        body = self.rfile.read(int(lengths[0]))
        try:
            wanted = json.loads(body)
            server, token = wanted["server"], wanted.get("token")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise HttpAnswer.refusal(422, "document", 'send {"server": URL, "token": …}') from None
        return self.post.enrol(str(server), str(token) if token else None)

    def _send(self, answer: HttpAnswer) -> None:
        content = json.dumps(answer.document).encode()
        kind = "application/json" if answer.status < 400 else "application/problem+json"
        try:
            self.send_response(answer.status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        except OSError:
            return  # the caller has gone


def _document(path: Path) -> Any:  # noqa: ANN401  (JSON)
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
