"""Kubernetes through its official client: that finds and enters the cluster and keeps the connections.

Objects stay JSON on the way there and back: the client's own models know the fields of one version alone, and loading
them takes longer than most requests.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from assay.engines.kubernetes.client.api import (
    CONFIG,
    FORBIDDEN,
    MISSING,
    NOT_FOUND,
    REFUSED,
    SILENT,
    TOKEN,
    Answer,
    Change,
    Document,
    Kind,
    ObjectList,
    Right,
    Version,
    change_in,
    content_of,
    document_of,
    is_not_begun,
    name_of,
    no_answer,
    not_ready_yet,
    read_version,
    reason_of,
    refuse_failed,
    retry_after,
)
from assay.engines.kubernetes.objects.names import refuse_foreign
from assay.errors import MeasureError, UsageError
from assay.spec.kubernetes import Kubernetes

if TYPE_CHECKING:
    import urllib3

_USUAL = "~/.kube/config"
_INSIDE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def connect(section: Kubernetes | None = None) -> Client:
    """The way to the cluster that a section names.

    A context that the file names is taken from the kubeconfig (KUBECONFIG, else ~/.kube/config). Without one, its
    current context is; in a pod without a kubeconfig, the pod's own account.

    Args:
        section: `place.kubernetes`; the current context and its namespace when left out.
    """
    wanted = section or Kubernetes()
    try:
        from kubernetes import client, config
    except ImportError:
        raise MeasureError(
            "the package kubernetes is not installed", code=MISSING, try_="pip install 'assay-bench[kubernetes]'"
        ) from None
    # We report a silent server ourselves; the library's lines about every retry would only add noise.
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)
    settings = client.Configuration()
    # Watches, logs and requests of several threads at the same time.
    settings.connection_pool_maxsize = 32
    place = os.environ.get("KUBECONFIG") or _USUAL
    inside = wanted.context is None and not _is_there(place) and _INSIDE.is_file()
    try:
        namespace = _from_pod(config, settings) if inside else _from_file(config, settings, place, wanted.context)
    except (config.ConfigException, OSError, KeyError, TypeError) as problem:
        message = f"nothing says how to enter a cluster: {problem}"
        remedy = "name a kubeconfig by KUBECONFIG, and a context in it by place.kubernetes.context"
        raise UsageError(message, code=CONFIG, at=str(_INSIDE) if inside else place, try_=remedy) from None
    return Client(client.ApiClient(configuration=settings), wanted.namespace or namespace or "default")


def _from_file(config: Any, settings: Any, place: str, context: str | None) -> str:  # noqa: ANN401
    contexts, current = config.list_kube_config_contexts(config_file=place)
    chosen = current if context is None else next((entry for entry in contexts if entry["name"] == context), None)
    if chosen is None:
        names = ", ".join(str(entry["name"]) for entry in contexts) or "none"
        remedy = "change place.kubernetes.context: kubectl config get-contexts"
        raise UsageError(f"there is no context {context!r} (there is {names})", code=CONFIG, at=place, try_=remedy)
    config.load_kube_config(config_file=place, context=context, client_configuration=settings)
    return str(chosen["context"].get("namespace") or "")


def _from_pod(config: Any, settings: Any) -> str:  # noqa: ANN401
    """Take the account of the pod that this runs in; return its namespace."""
    config.load_incluster_config(client_configuration=settings)
    return _INSIDE.read_text().strip()


def _is_there(place: str) -> bool:
    return any(Path(path).expanduser().is_file() for path in place.split(os.pathsep) if path)


# Kind → where its objects are.
_PATHS: dict[str, tuple[str, str]] = {
    "Job": ("/apis/batch/v1", "jobs"),
    "Deployment": ("/apis/apps/v1", "deployments"),
    "Pod": ("/api/v1", "pods"),
    "Service": ("/api/v1", "services"),
    "ConfigMap": ("/api/v1", "configmaps"),
    "Secret": ("/api/v1", "secrets"),
    "Event": ("/api/v1", "events"),
    "Node": ("/api/v1", "nodes"),
}
_WHOLE_CLUSTER = ("Node",)
_PAGE = 500
_CONNECT_S, PATIENCE_S = 10.0, 60.0
# A server that starts or has too much to do says so, and means that nothing was done.
_BUSY, _TRIES, _LONGEST_S = (429, 503), 6, 10.0
# For a moment after its start a server knows no user's rights, not even those that it accepted a moment before.
_UNKNOWN, _FEW_TRIES = (401, 403), 3
# How long after a silence that may be.
_LEARNING_S = 60.0
_STDOUT, _STDERR, _STATUS = 1, 2, 3
Pieces = Generator[bytes, None, None]
# What the handshake of a command in a pod was answered.
_SIGNS = {" 404": NOT_FOUND, " 403": FORBIDDEN, " 401": TOKEN, " 400": REFUSED}


@dataclass(slots=True)
class Client:
    """Reaches the objects of one namespace.

    Every call raises MeasureError: with the code `kubernetes-silent` where the server does not answer and asking again
    may help, `kubernetes-forbidden` where the account lacks a right, `kubernetes-refused` where the request is wrong.
    """

    api_client: Any
    """The official client, already configured: `kubernetes.client.ApiClient`."""
    namespace: str
    patience_s: float = PATIENCE_S
    sleep: Callable[[float], None] = time.sleep
    _entered: bool = field(default=False, repr=False)
    """Whether the server has answered before."""
    _silent_s: float = field(default=float("-inf"), repr=False)
    """When it was silent last."""

    @property
    def address(self) -> str:
        """Where the server is, for messages."""
        return str(self.api_client.configuration.host)

    def version(self) -> Version:
        return read_version(self._document("GET", "/version"))

    def create(self, document: Document) -> Document:
        """Make an object and return it as the server keeps it.

        An object of the same name and the same campaign is returned as it is: a caller that asks again because no
        answer came makes nothing twice.

        Raises:
            MeasureError: with the code `kubernetes-exists` if the name is taken by an object of another owner.
        """
        kind: Any = document["kind"]
        answer = self._sent("POST", self._path(kind), body=document)
        if answer.status == HTTPStatus.CONFLICT and "AlreadyExists" in reason_of(answer.content):
            if kind == "Secret":  # the right to make Secrets does not include reading them; its name says whose it is
                return document
            existing = self.get(kind, name_of(document))
            if existing is not None:
                refuse_foreign(existing, document)
                return existing
        return document_of(answer, self.address, f"{kind} {name_of(document)}")

    def get(self, kind: Kind, name: str) -> Document | None:
        answer = self._sent("GET", self._path(kind, name))
        return None if answer.status == HTTPStatus.NOT_FOUND else document_of(answer, self.address, f"{kind} {name}")

    def list(self, kind: Kind, selector: str = "", *, fields: str = "") -> ObjectList:
        """All objects of a kind whose labels (and fields) match."""
        items: list[Document] = []
        going = ""
        while True:
            query = {"labelSelector": selector, "fieldSelector": fields, "limit": str(_PAGE), "continue": going}
            answer = self._sent("GET", self._path(kind), query)
            if answer.status == HTTPStatus.GONE and going:  # the first pages are too old: list again, without pages
                answer = self._sent("GET", self._path(kind), {"labelSelector": selector, "fieldSelector": fields})
                items = []
            page = document_of(answer, self.address, f"{kind} list")
            # The items of a list do not say what they are.
            version = _PATHS[kind][0].partition("/")[2].partition("/")[2]
            items += [{"kind": kind, "apiVersion": version, **entry} for entry in page.get("items") or ()]
            about = page.get("metadata") or {}
            going = str(about.get("continue") or "")
            if not going:
                return ObjectList(tuple(items), str(about.get("resourceVersion") or ""))

    def watch(
        self, kind: Kind, selector: str = "", *, fields: str = "", since: str, within_s: float
    ) -> Iterator[Change]:
        """What happens to objects after a moment; ends when the server ends it, at the latest after a time."""
        query = {
            "watch": "true",
            "labelSelector": selector,
            "fieldSelector": fields,
            "resourceVersion": since,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(max(1, round(within_s))),
        }
        with closing(self._lines(self._path(kind), query, within_s + self.patience_s)) as lines:
            for line in lines:
                yield change_in(line, self.address)

    def patch(self, kind: Kind, name: str, change: Document) -> Document | None:
        """Merge a part into an object; return it, or None where there is none."""
        answer = self._sent("PATCH", self._path(kind, name), body=change, content="application/merge-patch+json")
        return None if answer.status == HTTPStatus.NOT_FOUND else document_of(answer, self.address, f"{kind} {name}")

    def delete(self, kind: Kind, name: str, *, uid: str = "", grace_s: float | None = None) -> bool:
        """Have an object removed, together with everything that it owns; return whether it was there.

        Args:
            uid: remove only this very one, and none that has taken its name since.
            grace_s: how long a pod may take to end; its own setting when left out.
        """
        options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        options |= {"preconditions": {"uid": uid}} if uid else {}
        options |= {"gracePeriodSeconds": max(0, round(grace_s))} if grace_s is not None else {}
        answer = self._sent("DELETE", self._path(kind, name), body=options)
        if answer.status == HTTPStatus.NOT_FOUND or (uid and answer.status == HTTPStatus.CONFLICT):
            return False
        document_of(answer, self.address, f"{kind} {name}")
        return True

    def logs(
        self, pod: str, container: str, *, since_s: float | None = None, timestamps: bool = False
    ) -> Iterator[bytes]:
        """What a container of a pod wrote, in pieces; they break anywhere, also inside lines.

        Raises:
            MeasureError: with the code `kubernetes-not-found` if there is no such pod.
        """
        query = {
            "container": container,
            "sinceSeconds": "" if since_s is None else str(max(1, round(since_s))),
            "timestamps": "true" if timestamps else "",
        }
        path = f"{self._path('Pod', pod)}/log"
        with closing(self._pieces(path, query, self.patience_s)) as pieces:
            yield from pieces

    def execute(self, pod: str, container: str, words: Sequence[str], *, within_s: float) -> Iterator[bytes]:
        """Run a command in a container; its stdout in pieces."""
        query = [("container", container), ("stdout", "true"), ("stderr", "true")]
        url = self._url(f"{self._path('Pod', pod)}/exec", [*query, *(("command", word) for word in words)])
        until_s, errors, status = time.monotonic() + within_s, b"", b""
        with closing(self._socket(url)) as socket:
            while socket.is_open():
                if (left_s := until_s - time.monotonic()) <= 0:
                    message = f"{words[0]!r} did not end in the pod {pod} within {within_s:g} s"
                    raise MeasureError(message, code="kubernetes-exec", at=self.address)
                socket.update(timeout=min(1.0, left_s))
                if piece := socket.read_channel(_STDOUT):
                    yield bytes(piece)
                errors += bytes(socket.read_channel(_STDERR))
                status += bytes(socket.read_channel(_STATUS))
            if piece := socket.read_channel(_STDOUT):
                yield bytes(piece)
            errors += bytes(socket.read_channel(_STDERR))
            status += bytes(socket.read_channel(_STATUS))
        refuse_failed(words[0], pod, status, errors, self.address)

    def may(self, rights: Sequence[Right]) -> Mapping[Right, bool]:
        """Which of these things this account may do in the namespace."""
        return {right: self._may(right) for right in rights}

    def _may(self, right: Right) -> bool:
        resource, _, part = right.resource.partition("/")
        plain, _, group = resource.partition(".")
        attributes = {
            "namespace": self.namespace,
            "verb": right.verb,
            "group": group,
            "resource": plain,
            "subresource": part,
        }
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {name: text for name, text in attributes.items() if text}},
        }
        answer = self._document("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body=review)
        return bool((answer.get("status") or {}).get("allowed"))

    # Requests

    def _path(self, kind: Kind, name: str = "") -> str:
        prefix, plural = _PATHS[kind]
        inside = "" if kind in _WHOLE_CLUSTER else f"/namespaces/{quote(self.namespace, safe='')}"
        return f"{prefix}{inside}/{plural}" + (f"/{quote(name, safe='')}" if name else "")

    def _url(self, path: str, query: Sequence[tuple[str, str]] | Mapping[str, str] = ()) -> str:
        pairs = query.items() if isinstance(query, Mapping) else query
        given = urlencode([(name, text) for name, text in pairs if text])
        return f"{self.address}{path}" + (f"?{given}" if given else "")

    def _headers(self, content: str) -> dict[str, str]:
        """How this account enters, fresh each time: tokens of clouds last for minutes."""
        settings = self.api_client.configuration.auth_settings().values()
        entry = {
            str(setting["key"]): str(setting["value"])
            for setting in settings
            if setting.get("in") == "header" and setting.get("value")
        }
        return {"Accept": "application/json", "User-Agent": "assay", "Content-Type": content, **entry}

    def _document(self, method: str, path: str, *, body: Document | None = None) -> Mapping[str, Any]:
        return document_of(self._sent(method, path, body=body), self.address, path)

    def _sent(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        body: Document | None = None,
        content: str = "application/json",
    ) -> Answer:
        """One question and its answer, asked again while the server says that it has done nothing."""
        tries = 0
        while True:
            tries += 1
            response = self._send(method, self._url(path, query or {}), body, content, self.patience_s)
            answer = Answer(response.status, content_of(response, self.address))
            self._refuse_learning(answer)
            passing = answer.status in _BUSY or (answer.status in _UNKNOWN and self._entered)
            if not passing or tries >= (_TRIES if answer.status in _BUSY else _FEW_TRIES):
                self._entered = self._entered or answer.status < HTTPStatus.BAD_REQUEST
                return answer
            self.sleep(min(_LONGEST_S, retry_after(response.headers, 0.25 * 2**tries)))

    def _send(
        self, method: str, url: str, body: Document | None, content: str, read_s: float
    ) -> urllib3.BaseHTTPResponse:
        import urllib3

        timeout = urllib3.Timeout(connect=_CONNECT_S, read=read_s)
        # A connection that was cut while idle is opened again; what may have arrived is not sent twice.
        retries = urllib3.Retry(total=2, connect=2, read=0, redirect=0, status=0, other=0)
        try:
            pool: urllib3.PoolManager = self.api_client.rest_client.pool_manager
            return pool.request(
                method,
                url,
                body=None if body is None else json.dumps(body),
                timeout=timeout,
                headers=self._headers(content),
                preload_content=False,
                retries=retries,
            )
        except urllib3.exceptions.HTTPError as problem:
            raise self._silence(problem) from None

    def _silence(self, problem: Exception) -> MeasureError:
        self._silent_s = time.monotonic()
        return no_answer(problem, self.address)

    def _refuse_learning(self, answer: Answer) -> None:
        """Count a refusal as silence where the server has only just come back."""
        if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            self._silent_s = time.monotonic()
        if self._entered and answer.status in _UNKNOWN and time.monotonic() - self._silent_s < _LEARNING_S:
            raise not_ready_yet(answer, self.address)

    def _pieces(self, path: str, query: Mapping[str, str], read_s: float, *, ends: bool = False) -> Pieces:
        """What comes, as it comes; `ends` where silence is the end, and no failure."""
        import urllib3

        response = self._send("GET", self._url(path, query), None, "application/json", read_s)
        try:
            if response.status >= HTTPStatus.BAD_REQUEST:
                answer = Answer(response.status, content_of(response, self.address))
                self._refuse_learning(answer)
                if not is_not_begun(answer.status, answer.content):
                    document_of(answer, self.address, path)
                return
            self._entered = True
            yield from response.stream(None, decode_content=True)
        except urllib3.exceptions.ReadTimeoutError as problem:
            if not ends:
                raise self._silence(problem) from None
        except urllib3.exceptions.HTTPError as problem:
            raise self._silence(problem) from None
        finally:
            response.close()

    def _lines(self, path: str, query: Mapping[str, str], read_s: float) -> Pieces:
        left = b""
        with closing(self._pieces(path, query, read_s, ends=True)) as pieces:
            for piece in pieces:
                *whole, left = (left + piece).split(b"\n")
                yield from (line for line in whole if line.strip())

    def _socket(self, url: str) -> Any:  # noqa: ANN401  (the official client has no types for it)
        from kubernetes.client.exceptions import ApiException
        from kubernetes.stream import ws_client

        try:
            return ws_client.websocket_call(
                self.api_client.configuration,
                "GET",
                url,
                headers=self._headers(""),
                _preload_content=False,
                binary=True,
            )
        except ApiException as problem:
            said = str(problem.reason)
            code = next((code for sign, code in _SIGNS.items() if sign in said), SILENT)
            message = f"no command can be run in the pod: {said}"
            remedy = "is the pod still there, and may this account `create pods/exec`?"
            raise MeasureError(message, code=code, at=self.address, try_=remedy) from None
