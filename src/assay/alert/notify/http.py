"""Calls to receivers: TLS verified, redirects refused, a limit on the whole time, and never an address in an error."""

from __future__ import annotations

import json
import math
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from assay.alert.notify.protocol import (
    LONGEST_TIMEOUT_S,
    REPAIR_S,
    Address,
    Channel,
    NotifyError,
    check_address,
    revealed,
)
from assay.report.wording import one_line
from assay.version import __version__

MOST_BODY = 4_000_000
_SHOWN = 200
# The receiver has read the message and does not want it: it will not want it later either.
_NOT_THIS_ONE = (400, 413, 415, 422)
# The set-up must be fixed: an address that is wrong or gone, a token that is not accepted.
_REPAIR = (401, 402, 403, 404, 405, 407, 410, 421, 426, 451)


@dataclass(frozen=True, slots=True)
class HttpReply:
    """What a receiver answered."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes

    def document(self) -> Any:  # noqa: ANN401  (JSON has no narrower type)
        """The body as JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            raise NotifyError(
                "the answer is no JSON document", after_s=REPAIR_S, try_="check that the address is that of the API"
            ) from None


class HttpChannel(Channel):
    """A channel that is reached over HTTP."""

    url: Address
    """Where to send to."""
    proxy: Address | None = None
    """Proxy to go through; those of the environment are not used."""

    def caller(self) -> Caller:
        """Someone to make the calls of one message, within the time that they have together."""
        proxy = None if self.proxy is None else revealed(self.proxy)
        return Caller(self.timeout, self.ca, proxy)


@dataclass(frozen=True, slots=True)
class Caller:
    timeout_s: float
    ca: Path | None = None
    proxy: str | None = None
    now: Callable[[], float] = time.time
    _until_s: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_until_s", time.monotonic() + self.timeout_s)

    def post(self, url: str, document: object, headers: Mapping[str, str] | None = None) -> HttpReply:
        return self.call("POST", url, json.dumps(document, ensure_ascii=False).encode(), headers)

    def call(
        self, method: str, url: str, content: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> HttpReply:
        import anyio

        try:
            check_address(url)
        except ValueError as wrong:
            raise NotifyError(str(wrong), after_s=REPAIR_S, code="address") from None
        host = urlsplit(url).hostname or ""
        sent = {"User-Agent": f"assay/{__version__}", "Accept-Encoding": "identity", **(headers or {})}
        if content is not None:
            sent["Content-Type"] = "application/json; charset=utf-8"
        answer = anyio.run(self._call, method, url, content, sent, host)
        self._judge(answer, host)
        return answer

    async def _call(
        self, method: str, url: str, content: bytes | None, headers: Mapping[str, str], host: str
    ) -> HttpReply:
        import anyio
        import httpx

        try:
            # One limit for everything: a receiver that sends a byte now and then would never run into others.
            with anyio.fail_after(max(self._until_s - time.monotonic(), 0.0)):
                async with (
                    httpx.AsyncClient(
                        verify=certificates(self.ca),
                        trust_env=False,
                        proxy=self.proxy,
                        follow_redirects=False,
                        timeout=LONGEST_TIMEOUT_S,
                    ) as client,
                    client.stream(method, url, content=content, headers=dict(headers)) as response,
                ):
                    return await _read(response)
        except TimeoutError:
            raise NotifyError(f"{host} did not answer within {self.timeout_s:g} s", code="timeout") from None
        except httpx.ConnectError as problem:
            raise _no_connection(problem, host) from None
        except (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.LocalProtocolError):
            # Their texts repeat what they do not like, which may be a secret.
            raise NotifyError(
                f"the address or a header for {host} cannot be sent as it is",
                after_s=REPAIR_S,
                code="address",
                try_="look for spaces and line ends in them",
            ) from None
        except httpx.HTTPError as problem:
            raise NotifyError(f"{host} ended the connection before it answered ({type(problem).__name__})") from None

    def _judge(self, answer: HttpReply, host: str) -> None:
        """Tell a good answer from one after which to wait, to repair something, or to give up."""
        status = answer.status
        if 200 <= status < 300:
            return
        if 300 <= status < 400:
            raise NotifyError(
                f"{host} answered {status}, a redirect, which is not followed",
                after_s=REPAIR_S,
                code="redirect",
                try_="give the address that it leads to",
            ) from None
        wait_s = retry_after_s(answer.headers, self.now())
        words = one_line(answer.body[: 4 * _SHOWN].decode("utf-8", "replace"))[:_SHOWN]
        answered = f"{host} answered {status} {_phrase(status)}{f': {words}' if words else ''}"
        if wait_s is None and status in _REPAIR:
            wait_s = REPAIR_S
        raise NotifyError(answered, retry=status not in _NOT_THIS_ONE, after_s=wait_s, code=f"http-{status}")


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """How long a receiver asks to wait: `Retry-After` in seconds or as a date, or a limit of calls that is used up."""
    after = headers.get("retry-after", "").strip()
    if after:
        return _span(after, now)
    for prefix in ("x-ratelimit", "ratelimit"):
        if headers.get(f"{prefix}-remaining", "").strip() == "0":
            reset = _number(headers.get(f"{prefix}-reset", ""))
            return None if reset is None else max(reset - now, 1.0)
    return None


def _span(text: str, now: float) -> float | None:
    if (seconds := _number(text)) is not None:
        return max(seconds, 0.0)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max((aware - datetime.fromtimestamp(now, UTC)).total_seconds(), 0.0)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


async def _read(response: Any) -> HttpReply:  # noqa: ANN401  (httpx is loaded by the caller)
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > MOST_BODY:
            break
    return HttpReply(
        response.status_code, {name.lower(): value for name, value in response.headers.items()}, bytes(body)
    )


def certificates(ca: Path | None) -> ssl.SSLContext:
    """Whom to trust: the given authorities, or the public ones."""
    try:
        return _public() if ca is None else ssl.create_default_context(cafile=str(ca))
    except OSError as problem:
        raise NotifyError(
            f"the certificates cannot be read: {problem.strerror or 'no PEM file'}",
            after_s=REPAIR_S,
            code="certificate",
            at=str(ca),
        ) from None


@cache
def _public() -> ssl.SSLContext:
    import httpx

    return httpx.create_ssl_context()


def _no_connection(problem: Exception, host: str) -> NotifyError:
    cause: BaseException | None = problem
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return NotifyError(
                f"the certificate of {host} is not trusted: {cause.verify_message}",
                after_s=REPAIR_S,
                code="certificate",
                try_="give your authority's certificates with ca: FILE",
            )
        cause = cause.__cause__ or cause.__context__
    return NotifyError(f"cannot connect to {host}: {one_line(str(problem)) or 'refused'}", code="connect")


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
