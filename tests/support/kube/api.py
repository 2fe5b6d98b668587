"""A Kubernetes API server for the tests: real HTTP, stateful objects, watches that resume and expire, logs, exec.

It keeps what is written to it as the real one does (names, versions, labels, owners, graceful deletion), and answers
the official client. What runs the pods is in `kube_nodes.py`: they are processes of this machine.
"""

from __future__ import annotations

import itertools
import json
import re
import secrets
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.kube.exec_ import serve_exec
from tests.support.kube.objects import KINDS, Object, Objects, RefusedError, fields_match, labels_match, merged

_PATH = re.compile(
    r"^/(?:api/v1|apis/(?P<group>[^/]+)/(?P<version>[^/]+))"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/))?/(?P<resource>[a-z]+)(?:/(?P<name>[^/]+)(?:/(?P<sub>[a-z]+))?)?$"
)
# The largest request that the real one takes for an object.
_LARGEST = 1_500_000


class KubeApi:
    """The server: objects, who may do what, and faults on demand."""

    def __init__(self, version: tuple[int, int] = (1, 31)) -> None:
        self.objects = Objects()
        self.version = version
        self.token = secrets.token_hex(8)
        self.denied: set[tuple[str, str]] = set()
        """Verb and resource that nobody may, such as ("create", "pods/exec")."""
        self.refusals: list[tuple[str, RefusedError]] = []
        """Resource → what the next creations of it are answered."""
        self.requests: deque[tuple[str, str]] = deque(maxlen=50_000)
        self.logs: Callable[[Object, dict[str, str]], Iterator[bytes]] = lambda _pod, _asked: iter(())
        self.run_in: Callable[[Object, str, list[str]], tuple[int, bytes, bytes]] = lambda *_: (1, b"", b"no kubelet")
        self.on_delete: Callable[[str, Object, float | None], None] = self._forget
        self._server: ThreadingHTTPServer | None = None
        self._open: set[socket.socket] = set()
        self.port = 0
        self.stopping = threading.Event()
        self.objects.create("namespaces", "", {"metadata": {"name": "bench"}})

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Listen, on the same port as before where it was stopped."""
        self.stopping.clear()
        self._server = _Server(("127.0.0.1", self.port), _handler(self))
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        """Stop listening and cut every connection; what it knows stays."""
        self.stopping.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        self.cut()

    def cut(self) -> None:
        """Cut every connection, watches among them."""
        for one in list(self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def kubeconfig(self, path: Path) -> Path:
        """Write the file with which clients find and enter it."""
        path.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "test",
                    "clusters": [{"name": "test", "cluster": {"server": self.url}}],
                    "users": [{"name": "me", "user": {"token": self.token}}],
                    "contexts": [{"name": "test", "context": {"cluster": "test", "user": "me", "namespace": "bench"}}],
                }
            )
        )
        return path

    def left(self, namespace: str = "bench") -> list[str]:
        """Everything that somebody made and that is still there, as `Kind/name`; events are no such things."""
        kinds = ("pods", "jobs", "deployments", "services", "configmaps", "secrets")
        return [
            f"{one['kind']}/{one['metadata']['name']}" for kind in kinds for one in self.objects.all(kind, namespace)
        ]

    def _forget(self, resource: str, one: Object, _grace_s: float | None) -> None:
        self.objects.remove(resource, one["metadata"].get("namespace", ""), one["metadata"]["name"])

    def opened(self, connection: socket.socket) -> None:
        """Remember a connection, to be able to cut it."""
        self._open.add(connection)

    def closed(self, connection: socket.socket) -> None:
        """Forget a connection."""
        self._open.discard(connection)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128


def _handler(api: KubeApi) -> type[BaseHTTPRequestHandler]:
    class Handler(_Handler):
        kube = api

    return Handler


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    kube: KubeApi

    def setup(self) -> None:
        super().setup()
        self.kube.opened(self.connection)

    def finish(self) -> None:
        self.kube.closed(self.connection)
        with suppress(OSError):
            super().finish()

    def handle(self) -> None:
        with suppress(OSError):
            super().handle()

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815  (the names of the base class)

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        self.asked = {name: values[-1] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        self.many = parse_qs(parts.query, keep_blank_values=True)
        length = int(self.headers.get("Content-Length") or 0)
        content = self.rfile.read(length) if length else b""
        self.kube.requests.append((self.command, parts.path))
        try:
            self._authorised()
            self._route(parts.path, json.loads(content) if content else None)
        except RefusedError as refused:
            self._send(refused.code, refused.status)

    def _authorised(self) -> None:
        if int(self.headers.get("Content-Length") or 0) > _LARGEST:
            raise RefusedError(413, "RequestEntityTooLarge", "limit is 3145728")
        if self.headers.get("Authorization") != f"Bearer {self.kube.token}":
            raise RefusedError(401, "Unauthorized", "Unauthorized")

    def _route(self, path: str, body: Any) -> None:
        if path == "/version":
            major, minor = self.kube.version
            self._send(200, {"major": str(major), "minor": str(minor), "gitVersion": f"v{major}.{minor}.0"})
            return
        match = _PATH.match(path)
        if match is None or match["resource"] not in KINDS:
            raise RefusedError(404, "NotFound", "the server could not find the requested resource")
        self.resource, self.namespace = match["resource"], match["namespace"] or ""
        name, sub = match["name"], match["sub"]
        self._may(sub, name)
        if self.resource == "selfsubjectaccessreviews":
            self._review(body)
        elif sub == "log":
            self._log(name)
        elif sub == "exec":
            serve_exec(
                self,
                lambda words: self.kube.run_in(self._pod(name), self.asked.get("container", ""), words),
                self.many.get("command", []),
            )
        else:
            self._on_object(name, body)

    def _may(self, sub: str | None, name: str | None) -> None:
        resource = f"{self.resource}/{sub}" if sub and sub != "status" else self.resource
        verb = self._verb(name, sub)
        if (verb, resource) in self.kube.denied:
            raise RefusedError(
                403,
                "Forbidden",
                f'{resource} is forbidden: User "me" cannot {verb} resource '
                f'"{resource}" in API group "" in the namespace "{self.namespace}"',
            )

    def _verb(self, name: str | None, sub: str | None) -> str:
        if self.command == "GET":
            if sub == "exec":
                return "create"
            return "get" if name else "watch" if self.asked.get("watch") in ("1", "true", "True") else "list"
        verbs = {"POST": "create", "PUT": "update", "PATCH": "patch"}
        return verbs.get(self.command) or ("delete" if name else "deletecollection")

    def _on_object(self, name: str | None, body: Any) -> None:
        if self.command == "GET" and name:
            self._send(200, self._whole(self.kube.objects.get(self.resource, self.namespace, name)))
        elif self.command == "GET":
            self._watch() if self.asked.get("watch") in ("1", "true", "True") else self._list()
        elif self.command == "POST":
            self._create(body)
        elif self.command in ("PUT", "PATCH") and name:
            self._change(name, body)
        elif self.command == "DELETE":
            self._delete(name, body or {})
        else:
            raise RefusedError(405, "MethodNotAllowed", "the server does not allow this method on the resource")

    def _create(self, body: Object) -> None:
        if self.namespace and self.kube.objects.find("namespaces", "", self.namespace) is None:
            raise RefusedError(404, "NotFound", f'namespaces "{self.namespace}" not found')
        refused = next((one for one in self.kube.refusals if one[0] == self.resource), None)
        if refused is not None:
            self.kube.refusals.remove(refused)
            raise refused[1]
        if self.kube.version < (1, 21) and self.resource == "jobs":  # fields that it does not know are dropped
            for field in ("completionMode", "podFailurePolicy", "suspend", "podReplacementPolicy"):
                body.get("spec", {}).pop(field, None)
        self._send(201, self.kube.objects.create(self.resource, self.namespace, body))

    def _change(self, name: str, body: Any) -> None:
        def act(one: Object) -> None:
            new = merged(one, body) if self.command == "PATCH" else body
            kept = {key: one["metadata"][key] for key in ("uid", "creationTimestamp", "namespace", "name")}
            one.clear()
            one.update(new)
            one["metadata"].update(kept)

        if self.kube.objects.change(self.resource, self.namespace, name, act) is None:
            raise RefusedError(404, "NotFound", f'{self.resource} "{name}" not found')
        self._send(200, self.kube.objects.get(self.resource, self.namespace, name))

    def _delete(self, name: str | None, options: Object) -> None:
        grace = options.get("gracePeriodSeconds", self.asked.get("gracePeriodSeconds"))
        grace_s = None if grace is None else float(grace)
        if name:
            one = self.kube.objects.get(self.resource, self.namespace, name)
            self.kube.on_delete(self.resource, one, grace_s)
            self._send(200, {"kind": "Status", "apiVersion": "v1", "status": "Success", "metadata": {}, "code": 200})
            return
        for one in self._matching():
            self.kube.on_delete(self.resource, one, grace_s)
        self._send(200, {"kind": f"{KINDS[self.resource]}List", "apiVersion": "v1", "metadata": {}, "items": []})

    def _matching(self) -> list[Object]:
        return self.kube.objects.all(self.resource, self.namespace, self._selected)

    def _selected(self, one: Object) -> bool:
        return labels_match(self.asked.get("labelSelector", ""), one) and fields_match(
            self.asked.get("fieldSelector", ""), one
        )

    def _list(self) -> None:
        version = self.kube.objects.version
        found = self._matching()
        begin = int(self.asked.get("continue") or 0)
        limit = int(self.asked.get("limit") or 0) or len(found)
        more = str(begin + limit) if begin + limit < len(found) else ""
        self._send(
            200,
            {
                "kind": f"{KINDS[self.resource]}List",
                "apiVersion": "v1",
                "metadata": {"resourceVersion": str(version), **({"continue": more} if more else {})},
                # In a list the items do not say what they are, as with the real one.
                "items": [self._bare(one) for one in found[begin : begin + limit]],
            },
        )

    def _bare(self, one: Object) -> Object:
        return {key: value for key, value in one.items() if key not in ("kind", "apiVersion")}

    def _whole(self, one: Object) -> Object:
        group = urlsplit(self.path).path.split("/")[2:4] if self.path.startswith("/apis/") else []
        return {"kind": KINDS[self.resource], "apiVersion": "/".join(group) or "v1", **one}

    def _watch(self) -> None:
        since = int(self.asked.get("resourceVersion") or self.kube.objects.version)
        seconds = float(self.asked.get("timeoutSeconds") or 300)
        self._begin("application/json")
        try:
            for change in self.kube.objects.changes(self.resource, self.namespace, since, monotonic() + seconds):
                if self.kube.stopping.is_set():
                    return
                if change is not None and self._selected(change[1]):
                    self._chunk(json.dumps({"type": change[0], "object": self._whole(change[1])}).encode() + b"\n")
        except RefusedError as gone:
            self._chunk(json.dumps({"type": "ERROR", "object": gone.status}).encode() + b"\n")
        self._chunk(b"")

    def _log(self, name: str) -> None:
        pieces = self.kube.logs(self._pod(name), self.asked)
        first = next(pieces, b"")  # a refusal comes before anything is sent
        self._begin("text/plain")
        for piece in itertools.chain([first], pieces):
            if piece:  # an empty one would end the answer
                self._chunk(piece)
        self._chunk(b"")

    def _pod(self, name: str) -> Object:
        return self.kube.objects.get("pods", self.namespace, name)

    def _review(self, body: Object) -> None:
        wanted = body["spec"]["resourceAttributes"]
        resource = wanted.get("resource", "") + (f"/{wanted['subresource']}" if wanted.get("subresource") else "")
        allowed = (wanted.get("verb"), resource) not in self.kube.denied
        self._send(
            201,
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "metadata": {},
                "spec": body["spec"],
                "status": {"allowed": allowed},
            },
        )

    def _begin(self, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _chunk(self, content: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))
        self.wfile.flush()

    def _send(self, code: int, answer: Object) -> None:
        content = json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
