"""Requests to a server: connections are kept, what can be repeated is repeated, errors come in our own words.

The token travels in a header and in nothing else: no error, log line or address shows it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

import httpx

from assay.clock import SYSTEM_CLOCK, Clock
from assay.errors import MeasureError, Problem, UsageError
from assay.http import failure_words, http_client

AWAY = "server-away"
NOT_ASSAY = "not-assay"
BASE = "/api/v1"
_BUSY = frozenset({429, 502, 503, 504})
_FIRST_WAIT_S = 0.25
_LONGEST_WAIT_S = 30.0
# Longer than a long poll, so that heartbeats find the connection of the one before.
_KEEP_S = 65.0
_CONNECT_S = 10.0
# How much of a strange answer an error shows.
_SHOWN = 120
_ADDRESS_TIP = (
    "check the address and port: `assay serve` prints the right one; a proxy must pass /api/v1 on to the server"
)

_TIPS = {401: "give a token with ASSAY_TOKEN or --token-file", 403: "use a token with the right role"}
Body = Callable[[], Iterator[bytes]]


class RefusedError(UsageError):
    """The server understood the request and will not do it; asking again changes nothing."""

    status = 0


class AwayError(MeasureError):
    """The server did not answer or is unavailable; a retry may help."""

    status = 0


class NotAssayError(AwayError):
    """Something answered that is no assay server; it may be a page that stands before one for a while."""


E = TypeVar("E", RefusedError, AwayError)


def server_url(text: str) -> str:
    """The address of a server as it is used everywhere: without credentials, path or final slash."""
    whole = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(whole)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    if not host or parts.scheme not in ("http", "https"):
        raise UsageError(
            f"{shown(whole)!r} is not the address of a server", code="server-url", try_="write http://host:port"
        )
    place = f"[{host}]" if ":" in host else host
    path = parts.path.rstrip("/").removesuffix(BASE)
    return urlunsplit((parts.scheme, f"{place}:{port}" if port else place, path, "", ""))


def shown(url: str) -> str:
    """An address without the credentials and the query that it may hold."""
    return url.partition("?")[0].rpartition("@")[2] if "@" in url else url.partition("?")[0]


class Transport:
    """One server, reached by HTTP; thread-safe."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        ca: Path | None = None,
        verify: bool = True,
        timeout_s: float = 30.0,
        patience_s: float = 10.0,
        clock: Clock = SYSTEM_CLOCK,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = server_url(url)
        self.patience_s = patience_s
        self._timeout_s = timeout_s
        self._clock = clock
        self._pause = pause
        self._client = http_client(
            self.url + BASE,
            timeout_s=timeout_s,
            connect_s=min(_CONNECT_S, timeout_s),
            proxies=True,
            headers={"authorization": f"Bearer {token}"} if token else {},
            verify=_trust(self.url, ca, verify=verify),
            limits=httpx.Limits(keepalive_expiry=_KEEP_S),
        )

    def close(self) -> None:
        """Drop all connections."""
        self._client.close()

    def send(
        self,
        method: str,
        path: str,
        *,
        repeat: bool | None = None,
        patience_s: float | None = None,
        timeout_s: float | None = None,
        body: Body | None = None,
        expect: tuple[int, ...] = (),
        **options: Any,  # noqa: ANN401  (httpx's own)
    ) -> httpx.Response:
        """Send a request and return its answer, which is read whole.

        Args:
            repeat: whether doing it twice does no harm; by default what HTTP says of the method.
        """

        def once() -> httpx.Response:
            content: dict[str, Any] = {"content": body()} if body else {}
            response = self._client.request(
                method, path, timeout=_timeout(timeout_s or self._timeout_s), **content, **options
            )
            return response if response.status_code in expect else self._answered(response)

        idempotent = method in ("GET", "HEAD", "PUT", "DELETE") if repeat is None else repeat
        return self.insist(once, repeat=idempotent, patience_s=patience_s)

    def insist(
        self, once: Callable[[], httpx.Response], *, repeat: bool = True, patience_s: float | None = None
    ) -> httpx.Response:
        """Do something until it works, is refused, or patience ends; wait longer each time, and never in step."""
        end_s = self._clock.monotonic_s() + (self.patience_s if patience_s is None else patience_s)
        failures = 0
        while True:
            try:
                return once()
            except httpx.HTTPError as problem:
                if _is_no_http(problem):
                    reason = _cut(" ".join(str(problem).split()))
                    raise self._foreign(f"what answers there does not speak HTTP: {reason}") from None
                away = self._away(problem)
                may_repeat = repeat or isinstance(problem, httpx.ConnectError | httpx.ConnectTimeout)
                retry_after_s = 0.0
            except _BusyError as busy:
                away, may_repeat, retry_after_s = busy.error, repeat, busy.wait_s
            failures += 1
            wait_s = max(retry_after_s, back_off_s(failures))
            if not may_repeat or self._clock.monotonic_s() + wait_s > end_s:
                raise away from None
            self._pause(wait_s)

    @contextmanager
    def stream(self, path: str, headers: Mapping[str, str]) -> Iterator[httpx.Response]:
        """An answer whose content is read bit by bit; errors as `insist` wants them."""
        with self._client.stream("GET", path, headers=dict(headers)) as response:
            if response.status_code >= 300:
                response.read()
                self._answered(response)
            yield response

    def not_assay(self, response: httpx.Response) -> NotAssayError:
        """The error for an answer that no assay server gives."""
        return self._foreign(_described(response), response.status_code)

    def _foreign(self, message: str, status: int = 0) -> NotAssayError:
        error = NotAssayError(message, code=NOT_ASSAY, at=self.url, try_=_ADDRESS_TIP)
        error.status = status
        return error

    def json_of(self, response: httpx.Response) -> Any:  # noqa: ANN401  (JSON)
        try:
            return response.json()
        except ValueError:  # no JSON, or no text
            raise self.not_assay(response) from None

    def _answered(self, response: httpx.Response) -> httpx.Response:
        status = response.status_code
        if status < 300:
            return response
        document = _problem_document(response)
        if status in _BUSY or status == 408:
            raise _BusyError(_error(AwayError, _problems(response, document), status), _retry_after_s(response))
        if document is None and response.request.method != "HEAD":  # an answer to HEAD has no document
            raise self.not_assay(response)
        problems = _problems(response, document)
        raise _error(AwayError, problems, status) if status >= 500 else _error(RefusedError, problems, status)

    def _away(self, problem: httpx.HTTPError) -> AwayError:
        reason = failure_words(problem)
        tip = "check the address, that the server runs, and the network"
        if "CERTIFICATE_VERIFY_FAILED" in reason:
            tip = "name the certificate of the server's authority with --ca"
        return AwayError(f"the server does not answer: {reason}", code=AWAY, at=self.url, try_=tip)


def back_off_s(failures: int, longest_s: float = _LONGEST_WAIT_S) -> float:
    """How long to wait after this many failures in a row: twice as long each time, with jitter."""
    return min(_FIRST_WAIT_S * 2.0 ** min(failures - 1, 20), longest_s) * random.uniform(0.5, 1.0)  # noqa: S311


class _BusyError(Exception):
    """The server, or something before it, asks to come back later."""

    def __init__(self, error: AwayError, wait_s: float) -> None:
        super().__init__(str(error))
        self.error = error
        self.wait_s = wait_s


def _is_no_http(problem: httpx.HTTPError) -> bool:
    """Whether bytes came that are no HTTP; a connection that was only closed too early is not meant."""
    if isinstance(problem, httpx.DecodingError):
        return True
    reason = str(problem)
    return isinstance(problem, httpx.RemoteProtocolError) and "disconnected" not in reason and "closed" not in reason


def _described(response: httpx.Response) -> str:
    kind = response.headers.get("content-type", "").partition(";")[0].strip() or "no content type"
    parts = [f"{response.request.method} {response.request.url.path} was answered with {response.status_code}, {kind}"]
    if location := response.headers.get("location"):
        parts.append(f"and refers to {_cut(shown(location))}")
    elif response.is_stream_consumed or response.is_closed:
        text = " ".join(response.content.decode(errors="replace").split())
        parts.append(repr(_cut(text)) if text else "an empty body")
    return f"this is not an assay server: {', '.join(parts)}"


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _error(kind: type[E], problems: tuple[Problem, ...], status: int) -> E:
    error = kind(problems[0].message)
    error.problems, error.status = problems, status
    return error


def _problem_document(response: httpx.Response) -> dict[str, Any] | None:
    """The problem document of an answer; None where something else than the server answered."""
    try:
        document = response.json()
    except ValueError:
        return None
    texts = [document.get(key) for key in ("code", "detail")] if isinstance(document, dict) else [None]
    return document if all(isinstance(text, str) for text in texts) else None


def _problems(response: httpx.Response, document: Mapping[str, Any] | None) -> tuple[Problem, ...]:
    """The problems of a problem document; without one, what the status says."""
    document = document or {}
    listed = document.get("errors")
    several = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    return tuple(_problem(response, entry) for entry in several) or (_problem(response, document),)


def _problem(response: httpx.Response, document: Mapping[str, Any]) -> Problem:
    status, request = response.status_code, response.request
    message = (
        document.get("message") or document.get("detail") or document.get("title") or f"the server answered {status}"
    )
    return Problem(
        code=str(document.get("code") or f"http-{status}"),
        message=str(message),
        at=str(document.get("at") or f"{request.method} {shown(str(request.url))}"),
        try_=str(document.get("try") or _TIPS.get(status, "")),
    )


def _retry_after_s(response: httpx.Response) -> float:
    try:
        return min(max(float(response.headers.get("retry-after", 0)), 0.0), _LONGEST_WAIT_S)
    except ValueError:
        return 0.0


def _timeout(silent_s: float) -> httpx.Timeout:
    return httpx.Timeout(silent_s, connect=min(_CONNECT_S, silent_s))


def _trust(url: str, ca: Path | None, *, verify: bool) -> Any:  # noqa: ANN401  (a flag or a context)
    """Whom to trust; without TLS the list of all authorities stays out of memory."""
    if not url.startswith("https://") or not verify:
        return False
    if ca is None:
        return True
    import ssl

    try:
        return ssl.create_default_context(cafile=str(ca))
    except (OSError, ssl.SSLError) as problem:
        raise UsageError(f"the certificate cannot be read: {problem}", code="ca", at=str(ca)) from None
