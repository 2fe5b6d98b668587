"""The API server as its administrator sees it: what the tests look at, and what outsiders do behind assay's back."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

Thing = dict[str, Any]
_MERGE = {"Content-Type": "application/strategic-merge-patch+json"}
_GROUPS = {"jobs": "/apis/batch/v1", "deployments": "/apis/apps/v1", "replicasets": "/apis/apps/v1",
           "leases": "/apis/coordination.k8s.io/v1", "roles": "/apis/rbac.authorization.k8s.io/v1",
           "rolebindings": "/apis/rbac.authorization.k8s.io/v1",
           "priorityclasses": "/apis/scheduling.k8s.io/v1"}  # fmt: skip


class Admin:
    """One connection with all rights."""

    def __init__(self, url: str, token: str, authority: Path) -> None:
        self._url, self._token, self._authority = url, token, authority
        self._client: httpx.Client | None = None

    @property
    def http(self) -> httpx.Client:
        """The connection, made with the first use: the server writes its certificate when it starts."""
        if self._client is None:
            self._client = httpx.Client(
                base_url=self._url,
                headers={"Authorization": f"Bearer {self._token}"},
                verify=ssl.create_default_context(cafile=str(self._authority)),
                timeout=30,
                trust_env=False,
            )
        return self._client

    def ready(self) -> bool:
        """Whether the server says that it is ready."""
        try:
            return self.http.get("/readyz").status_code == httpx.codes.OK
        except (httpx.HTTPError, OSError):
            return False

    def listed(self, kind: str, namespace: str = "", labels: str = "") -> list[Thing]:
        """All objects of a kind, such as `pods`, in a namespace or in all."""
        return self.page(kind, namespace, labels)["items"]

    def page(self, kind: str, namespace: str = "", labels: str = "") -> Thing:
        """The same with the version of the list."""
        return self._done(self.http.get(path(kind, namespace), params={"labelSelector": labels} if labels else None))

    def get(self, kind: str, name: str, namespace: str = "") -> Thing | None:
        """One object; None where there is none."""
        answer = self.http.get(f"{path(kind, namespace)}/{name}")
        return None if answer.status_code == httpx.codes.NOT_FOUND else self._done(answer)

    def create(self, kind: str, thing: Mapping[str, object], namespace: str = "", **params: str) -> Thing:
        """Make an object."""
        return self._done(self.http.post(path(kind, namespace), json=thing, params=params))

    def patch(
        self, kind: str, name: str, change: Mapping[str, object], namespace: str = "", *, status: bool = False
    ) -> Thing:
        """Change an object, or what it says of its state."""
        url = f"{path(kind, namespace)}/{name}{'/status' if status else ''}"
        return self._done(self.http.patch(url, json=change, headers=_MERGE))

    def delete(self, kind: str, name: str, namespace: str = "", *, grace_s: int | None = None) -> None:
        """Remove an object; nothing happens where there is none."""
        params = {} if grace_s is None else {"gracePeriodSeconds": grace_s}
        answer = self.http.delete(f"{path(kind, namespace)}/{name}", params=params)
        if answer.status_code != httpx.codes.NOT_FOUND:
            self._done(answer)

    @contextmanager
    def watched(self, kind: str, version: str, seconds: int) -> Iterator[Iterator[str]]:
        """The lines of a watch."""
        params = {"watch": "1", "resourceVersion": version, "timeoutSeconds": str(seconds)}
        with self.http.stream("GET", path(kind), params=params, timeout=seconds + 10) as answer:
            yield answer.iter_lines()

    def close(self) -> None:
        """Leave."""
        if self._client is not None:
            self._client.close()

    @staticmethod
    def _done(answer: httpx.Response) -> Thing:
        assert answer.is_success, f"{answer.request.method} {answer.request.url}: {answer.status_code} {answer.text}"
        return answer.json()


def path(kind: str, namespace: str = "") -> str:
    """Where objects of a kind lie."""
    return f"{_GROUPS.get(kind, '/api/v1')}/{f'namespaces/{namespace}/' if namespace else ''}{kind}"
