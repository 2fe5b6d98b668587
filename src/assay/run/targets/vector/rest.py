"""Plain JSON over HTTP for what happens outside the load: collections, inserts, readiness."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import httpx

from assay.errors import MeasureError
from assay.run.models.transport import client_options
from assay.spec.target import Tls

_TELL = 600  # characters of a server's complaint that are passed on


class Rest:
    """One server that speaks JSON."""

    def __init__(
        self,
        name: str,
        url: str,
        *,
        headers: Mapping[str, str],
        timeout_s: float,
        tls: Tls | None = None,
        proxy: str | None = None,
        base: Path | None = None,
        own: bool = False,
    ) -> None:
        self.name, self.url = name, url.rstrip("/")
        self.headers = dict(headers)
        try:
            verify = _verify(tls or Tls(), base)
            options = client_options(self.url, verify=verify, proxy=proxy, own=own)
            self._client = httpx.Client(headers=self.headers, timeout=timeout_s, trust_env=False, **options)
        except (OSError, ssl.SSLError, ValueError) as problem:
            raise MeasureError(
                f"cannot prepare a connection to {self.url}: {problem}",
                code="endpoint",
                at="target",
                try_="check target.tls and target.proxy",
            ) from None

    def ask(self, method: str, path: str, body: object = None, *, code: str = "vector-engine", at: str = "") -> Any:  # noqa: ANN401
        """Send one request and return its JSON.

        Raises:
            MeasureError: with the server's own words if it refuses, or why it could not be reached.
        """
        answer = self.send(method, path, encoded(body))
        if answer.status_code >= 400:
            raise self.refusal(answer, code=code, at=at)
        try:
            return answer.json() if answer.content else None
        except ValueError:
            raise MeasureError(
                f"{self.name} answered {method} {path} with something that is not JSON",
                code=code,
                at=self.url,
                try_="check that this is the right kind of server",
            ) from None

    def timed(self, method: str, path: str, body: bytes, *, code: str = "vector-engine", at: str = "") -> float:
        """Send one request that was made before; return how long it took in seconds."""
        start = perf_counter_ns()
        answer = self.send(method, path, body)
        taken = (perf_counter_ns() - start) / 1e9
        if answer.status_code >= 400:
            raise self.refusal(answer, code=code, at=at)
        return taken

    def send(self, method: str, path: str, body: bytes | None) -> httpx.Response:
        """Send one request; whatever status comes back is for the caller to judge."""
        headers = {"Content-Type": "application/json"} if body is not None else {}
        try:
            return self._client.request(method, self.url + path, content=body, headers=headers)
        except httpx.TimeoutException:
            raise MeasureError(
                f"{self.name} at {self.url} did not answer {method} {path} in time",
                code="timeout",
                at="target",
                try_="raise target.timeout, or look at what the server does",
            ) from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as problem:
            raise MeasureError(
                f"{self.name} at {self.url} cannot be reached: {problem or type(problem).__name__}",
                code="unreachable",
                at="target",
                try_="check the address and that the server runs, or start it under services",
            ) from None

    def refusal(self, answer: httpx.Response, *, code: str, at: str) -> MeasureError:
        """The server's own words."""
        said = _words(answer)
        if answer.status_code in (401, 403):
            return MeasureError(
                f"{self.name} at {self.url} refuses: {said}",
                code="auth",
                at="target.headers",
                try_="give the key as a header, such as api-key: ${env:NAME}",
            )
        return MeasureError(f"{self.name} answered {answer.status_code}: {said}", code=code, at=at or self.url)

    def close(self) -> None:
        self._client.close()


def encoded(body: object) -> bytes | None:
    if body is None or isinstance(body, bytes):
        return body
    return json.dumps(body, separators=(",", ":")).encode()


def _verify(tls: Tls, base: Path | None) -> ssl.SSLContext | bool:
    if not tls.verify:
        return False
    return True if tls.ca is None else ssl.create_default_context(cafile=str((base or Path()) / tls.ca))


def _words(answer: httpx.Response) -> str:
    """What a server says about a refusal, without the wrapping that it comes in."""
    try:
        said: Any = answer.json()
    except ValueError:
        said = answer.text.strip()
    for key in ("status", "error", "message"):
        if isinstance(said, dict) and isinstance(said.get(key), str | dict):
            # Chroma has a kind under `error` and the words under `message`; Qdrant wraps `error` in `status`.
            said = said["message"] if isinstance(said.get("message"), str) else said[key]
    text = said if isinstance(said, str) else json.dumps(said)
    return text[:_TELL] or "no words"
