"""A small server that keeps the contract in memory, and can be told to misbehave. Real HTTP, real threads.

It stands in for the real one where a test must cut a connection in the middle of an answer or see every message.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import socket
import struct
import threading
import time
from collections import Counter, deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from assay.documents import from_json, to_json
from assay.place.fleet.protocol import Delivered, Enrolled, HeartbeatAnswer, Held, LeaseGiven
from assay.place.leasing import delivery
from assay.plan.job import Job

TOKEN = "token-of-the-test-0123456789"


class CutError(Exception):
    """Close the connection without an answer."""


class SmallServer:
    def __init__(self, port=0, token=None, heartbeat_s=0.1, lease_s=60.0):
        self.token, self.heartbeat_s, self.lease_s = token, heartbeat_s, lease_s
        self.lock = threading.RLock()
        self.wake = threading.Condition(self.lock)
        self.pending: deque[Job] = deque()
        self.fences: Counter[str] = Counter()
        self.states: dict[str, str] = {}  # job → pending | running | done | cancelled
        self.attempts: dict[tuple[str, int], str] = {}
        self.artefacts: dict[str, bytes] = {}
        self.results: list[tuple[str, int, str, dict]] = []  # job, fence, delivery, document
        self.releases: list[tuple[str, int, dict]] = []
        self.progress: list[tuple[str, int, dict]] = []
        self.beats: list[dict] = []
        self.enrolments: list[dict] = []
        self.agents: set[str] = set()
        self.requests: list[tuple[str, str]] = []
        self.mischief: deque[tuple[str, object, int]] = deque()  # pattern, what, how often
        self.draining = False
        self.queues: list[str] | None = None  # None: as a server that knows no queues
        self.connections: set[socket.socket] = set()
        self.start(port)

    # Life

    def start(self, port=0):
        handler = type("Handler", (_Handler,), {"small": self})
        self.http = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self.http.daemon_threads = True
        self.port = self.http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()

    def stop(self):
        self.http.shutdown()
        self.http.server_close()
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.thread.join()

    # What a test says

    def add(self, *jobs: Job):
        with self.wake:
            for job in jobs:
                self.states[job.id] = "pending"
                self.pending.append(job)
            self.wake.notify_all()

    def misbehave(self, pattern: str, what, times=1):
        """`what`: "cut" (no answer), "cut-after" (done, but the answer is lost), a status, or seconds to wait."""
        self.mischief.append((pattern, what, times))

    def expire(self, job: str):
        with self.wake:
            self.attempts[job, self.fences[job]] = "expired"
            self.states[job] = "pending"

    def cancel(self, job: str):
        with self.lock:
            self.attempts[job, self.fences[job]] = "cancelled"
            self.states[job] = "cancelled"

    def wait(self, condition, timeout_s=120.0, what="condition"):
        end = time.monotonic() + timeout_s
        with self.wake:
            while not condition():
                left = end - time.monotonic()
                assert left > 0, f"waited in vain for {what}; {self.states} {self.releases} {self.beats[-1:]}"
                self.wake.wait(min(left, 0.05))

    def accepted(self):
        return [(job, fence) for job, fence, word, _ in self.results if word == "accepted"]

    # What is answered

    def trouble(self, method, path):
        with self.lock:
            for index, (pattern, what, times) in enumerate(self.mischief):
                if re.search(pattern, f"{method} {path}"):
                    if times == 1:
                        del self.mischief[index]
                    else:
                        self.mischief[index] = (pattern, what, times - 1)
                    return what
        return None

    def enrol(self, body):
        self.enrolments.append(body)
        agent = f"agent-{body['identity'][:12]}"
        action = "updated" if agent in self.agents else "created"
        self.agents.add(agent)
        return 200, Enrolled(agent, action, self.heartbeat_s, self.lease_s)

    def heartbeat(self, agent, body):
        if agent not in self.agents:
            return 404, {"code": "unknown-agent", "detail": "not known", "status": 404}
        self.beats.append(body)
        lost = tuple(
            Held(held["job"], held["fence"])
            for held in body["held"]
            if self.attempts.get((held["job"], held["fence"])) != "leased"
        )
        return 200, HeartbeatAnswer(lost, self.draining)

    def lease(self, body):
        end = time.monotonic() + min(body["wait_s"], 1.0)
        while not self.pending or self.draining:
            left = end - time.monotonic()
            if left <= 0:
                return 204, None
            self.wake.wait(left)
        job = self.pending.popleft()
        self.fences[job.id] += 1
        self.states[job.id] = "running"
        self.attempts[job.id, self.fences[job.id]] = "leased"
        return 200, LeaseGiven(job, self.fences[job.id], self.lease_s)

    def claim(self, body):
        """Give out a job that an agent took from a queue of its own."""
        job = next((one for one in self.pending if one.id == body["job"]), None)
        if job is None or body["fence"] <= self.fences[job.id]:
            return 409, {"code": "not-yours", "detail": "another has it"}
        self.pending.remove(job)
        self.fences[job.id], self.states[job.id] = body["fence"], "running"
        self.attempts[job.id, body["fence"]] = "leased"
        return 200, LeaseGiven(job, body["fence"], self.lease_s)

    def release(self, job, fence, body):
        if self.attempts.get((job, fence)) == "leased":
            self.attempts[job, fence] = "released"
            self.states[job] = "pending"
            self.releases.append((job, fence, body))
        return 204, None

    def result(self, job, fence, document):
        missing = [
            run["samples"] for run in document["runs"] if run["samples"] and run["samples"] not in self.artefacts
        ]
        if missing:
            return 409, {"code": "missing-artefact", "detail": "samples are missing", "errors": missing}
        word = delivery(self.states.get(job, ""), self.fences[job], fence, self.attempts.get((job, fence)))
        if word == "accepted":
            self.states[job], self.attempts[job, fence] = "done", "delivered"
        self.results.append((job, fence, word, document))
        return 200, Delivered(word)


class _Handler(BaseHTTPRequestHandler):
    small: SmallServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self):
        super().setup()
        self.small.connections.add(self.connection)

    def finish(self):
        self.small.connections.discard(self.connection)
        with contextlib.suppress(OSError):
            super().finish()

    def handle(self):
        with contextlib.suppress(OSError):
            super().handle()

    def log_message(self, *args):
        pass

    def do_POST(self):
        self._serve("POST")

    def do_PUT(self):
        self._serve("PUT")

    def do_GET(self):
        self._serve("GET")

    def do_HEAD(self):
        self._serve("HEAD")

    def _serve(self, method):
        path = self.path.partition("?")[0]
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        what = self.small.trouble(method, path)
        try:
            _cut_if(what == "cut")
            if isinstance(what, int):
                return self._send(
                    what, {"code": "trouble", "detail": "told to", "status": what}, retry=what in (429, 503)
                )
            if isinstance(what, float):
                time.sleep(what)
            status, answer = self._answer(method, path.removeprefix("/api/v1"), body)
            _cut_if(what == "cut-after")
            self._send(status, answer, half=what == "half")
        except CutError:
            self.close_connection = True
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        return None

    def _answer(self, method, path, body):
        small = self.small
        if small.token and self.headers.get("authorization") != f"Bearer {small.token}":
            return 401, {"code": "unauthorized", "detail": "a token is needed", "try": "give one"}
        with small.wake:
            small.requests.append((method, path))
            try:
                return self._route(method, path, body)
            finally:
                small.wake.notify_all()

    def _route(self, method, path, body):
        small = self.small
        if path == "/health":
            return 200, {"status": "ok", "version": "0", "service": "assay"}
        if path == "/agents":
            return small.enrol(json.loads(body))
        if found := re.fullmatch(r"/agents/([^/]+)/(heartbeat|lease)", path):
            return (
                small.heartbeat(found[1], json.loads(body))
                if found[2] == "heartbeat"
                else small.lease(json.loads(body))
            )
        if re.fullmatch(r"/agents/[^/]+/queues", path) and small.queues is not None:
            return 200, {"queues": small.queues}
        if re.fullmatch(r"/agents/[^/]+/claim", path):
            return small.claim(json.loads(body))
        if found := re.fullmatch(r"/jobs/([^/]+)/attempts/(\d+)/(progress|release|result)", path):
            return self._attempt(found[1], int(found[2]), found[3], json.loads(body))
        if found := re.fullmatch(r"/artefacts/([0-9a-f]{64})", path):
            return self._artefact(method, found[1], body)
        return 404, {"code": "not-found", "detail": path}

    def _attempt(self, job, fence, what, body):
        small = self.small
        if what == "release":
            return small.release(job, fence, body)
        if what == "result":
            return small.result(job, fence, body)
        small.progress.append((job, fence, body))
        return (
            (204, None) if small.attempts.get((job, fence)) == "leased" else (409, {"code": "lost", "detail": "lost"})
        )

    def _artefact(self, method, digest, body):
        small = self.small
        if method == "PUT":
            if hashlib.sha256(body).hexdigest() != digest:
                return 422, {"code": "mismatch", "detail": "another file"}
            small.artefacts[digest] = body
            return 201, {}
        return (
            (200, small.artefacts[digest]) if digest in small.artefacts else (404, {"code": "unknown", "detail": "no"})
        )

    def _send(self, status, answer, *, retry=False, half=False):
        content = b"" if answer is None else answer if isinstance(answer, bytes) else _text(answer)
        start, code = 0, status
        if isinstance(answer, bytes) and (wanted := re.fullmatch(r"bytes=(\d+)-", self.headers.get("range", ""))):
            start, code = int(wanted[1]), 206
        self.send_response(code)
        self.send_header("content-length", str(len(content) - start))
        self.send_header("content-type", "application/json")
        if retry:
            self.send_header("retry-after", "0")
        self.end_headers()
        if self.command == "HEAD":
            return
        self.wfile.write(content[start : start + (len(content) - start) // 2] if half else content[start:])
        _cut_if(half)


def _cut_if(wanted):
    if wanted:
        raise CutError


def _text(answer) -> bytes:
    return json.dumps(answer).encode() if isinstance(answer, dict) else to_json(answer).encode()


def make_job(index=0, command=("true",), campaign="campaign-1", files=None, runs=1, metrics=()) -> Job:
    document = {
        "benchmark": "b",
        "digest": f"d{index}",
        "index": index,
        "campaign": campaign,
        "definition": {"target": {"command": list(command), "metrics": list(metrics)}, "measure": {"runs": runs}},
        "files": files or {},
    }
    return from_json(Job, json.dumps(document), source="test")
