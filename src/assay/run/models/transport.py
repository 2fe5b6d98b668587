"""An HTTP transport that connects only where a policy allows."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import httpx

from assay.run.policy import Resolve, UrlPolicy, check, pinned, resolved

# Connections are not kept: two names behind one address must not share what was negotiated for one of them.
_LIMITS = httpx.Limits(max_keepalive_connections=0)
_MAX_TRIED = 4  # addresses of one name; each may take the whole time-out


def plain() -> httpx.BaseTransport:
    return httpx.HTTPTransport(limits=_LIMITS)


def client_options(
    url: str, *, verify: ssl.SSLContext | bool, proxy: str | None, own: bool, at: str = "target.endpoint"
) -> dict[str, Any]:
    """How an `httpx.Client` for one server connects where the environment's policy allows."""
    policy = UrlPolicy.from_environment()
    if policy.anything or (own and proxy is None):
        return {"verify": verify, "proxy": proxy}
    if proxy is None:
        inner = httpx.HTTPTransport(verify=verify)  # one server alone, so its connections may be kept
        return {"transport": CheckedTransport(policy, None, inner, at, keep=True)}
    address = pinned(proxy, "target.proxy", policy)
    if not own:
        check_behind(url, policy, at)
    return {"verify": verify, "proxy": httpx.URL(proxy).copy_with(host=address)}


def check_behind(url: str, policy: UrlPolicy, at: str) -> None:
    """Refuse a server behind a proxy by what its name means here; a name that only the proxy knows is the proxy's."""
    host = urlsplit(url).hostname or ""
    try:
        addresses = resolved(host, 0)
    except (OSError, UnicodeError):
        addresses = ()
    check(policy, host, addresses, at)


class CheckedTransport(httpx.BaseTransport):
    """Resolves, checks, and hands requests on with the checked address in place of the name."""

    def __init__(
        self, policy: UrlPolicy, resolve: Resolve | None, inner: httpx.BaseTransport, at: str, *, keep: bool = False
    ) -> None:
        self._policy = policy
        self._resolve = resolve or _resolve
        self._inner = inner
        self._at = at
        self._keep = keep  # resolve a name once, and not for every request
        self._known: dict[tuple[str, int], Sequence[str]] = {}

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Connect to the first address that answers, after all of them were checked."""
        if self._policy.anything:
            return self._inner.handle_request(request)
        addresses = self._addresses(request.url)[:_MAX_TRIED]
        for address in addresses[:-1]:
            try:
                return self._inner.handle_request(_to(address, request))
            except (httpx.ConnectError, httpx.ConnectTimeout):
                continue
        return self._inner.handle_request(_to(addresses[-1], request))

    def close(self) -> None:
        self._inner.close()

    def _addresses(self, url: httpx.URL) -> Sequence[str]:
        host, port = url.raw_host.decode("ascii"), url.port or (443 if url.scheme == "https" else 80)
        if (host, port) in self._known:
            return self._known[host, port]
        check(self._policy, host, (), self._at)
        addresses = self._resolve(host, port)
        check(self._policy, host, addresses, self._at)
        if not addresses:
            raise httpx.ConnectError(f"{host} has no address")
        if self._keep:
            self._known[host, port] = addresses
        return addresses


def _to(address: str, request: httpx.Request) -> httpx.Request:
    """The same request for one address; the header and the certificate stay those of the name."""
    return httpx.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions={"sni_hostname": request.url.raw_host.decode("ascii"), **request.extensions},
    )


def _resolve(host: str, port: int) -> Sequence[str]:
    try:
        return resolved(host, port)
    except (OSError, UnicodeError) as problem:
        raise httpx.ConnectError(f"{host} cannot be resolved: {problem}") from None
