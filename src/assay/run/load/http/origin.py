"""Where requests go: host, port, TLS and proxy, worked out once before the load."""

from __future__ import annotations

import base64
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from assay.errors import MeasureError
from assay.run.policy import UrlPolicy, check, resolved
from assay.spec.target import Tls

_PORTS = {"http": 80, "https": 443}
Address = tuple[int, tuple[str, int]]  # address family, and what connect() takes


@dataclass(frozen=True, slots=True)
class Origin:
    """One server, as requests reach it."""

    scheme: str
    host: str
    port: int
    path: str
    """Path of the URL, without a slash at its end."""
    addresses: tuple[Address, ...]
    """Where to connect: the server's own, or the proxy's."""
    tls: ssl.SSLContext | None = None
    tunnel: bytes = b""
    """What is sent to a proxy first to reach an https server through it."""
    prefix: str = ""
    """What stands before the path on the request line: a plain proxy wants the whole URL."""
    proxy_header: str = ""
    """A header that a plain proxy wants with every request."""

    @property
    def authority(self) -> str:
        """Host and port, as the Host header has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> bytes:
        lines = [f"{method} {self.prefix}{path} HTTP/1.1", f"Host: {self.authority}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if self.proxy_header:
            lines.append(self.proxy_header)
        if body or method != "GET":
            lines.append(f"Content-Length: {len(body)}")
        head = "\r\n".join(lines) + "\r\n\r\n"
        if any(mark in line for line in lines for mark in "\r\n\0"):
            message = "a header or path has a line break in it"
            raise MeasureError(message, code="header", at=self.authority, try_="check target.headers and target.path")
        return head.encode("latin-1") + body


def origin_of(
    url: str, *, tls: Tls | None = None, proxy: str | None = None, base: Path | None = None, own: bool = False
) -> Origin:
    """Work out where a URL leads; connections go to the addresses that are found and checked here."""
    policy = UrlPolicy.from_environment()
    reach = UrlPolicy(anything=True) if own else policy
    parts = _split(url, "target.endpoint")
    context = _context(tls or Tls(), base) if parts.scheme == "https" else None
    host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    path = parts.path.rstrip("/")
    if proxy is None:
        return Origin(parts.scheme, host, port, path, _addresses(host, port, url, reach, "target.endpoint"), context)
    through = _split(proxy, "target.proxy")
    if through.scheme != "http":
        message = f"{through.scheme} proxies are not spoken"
        raise MeasureError(message, code="proxy", at=proxy, try_="give an http:// one")
    if not reach.anything:
        check(reach, host, _known(host, port), "target.endpoint")
    via = _addresses(through.hostname or "", through.port or 80, proxy, policy, "target.proxy")
    login = _login(through)
    if context is not None:
        words = [f"CONNECT {host}:{port} HTTP/1.1", f"Host: {host}:{port}", *([login] if login else [])]
        return Origin("https", host, port, path, via, context, tunnel=("\r\n".join(words) + "\r\n\r\n").encode())
    authority = f"{host}:{port}" if port != _PORTS["http"] else host
    return Origin("http", host, port, path, via, prefix=f"http://{authority}", proxy_header=login)


def _split(url: str, at: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in _PORTS and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        message = f"{url!r} is not an http or https URL"
        raise MeasureError(message, code="endpoint", at=at, try_="write it like http://127.0.0.1:8000/v1")
    return parts


def _login(parts: SplitResult) -> str:
    if parts.username is None:
        return ""
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return f"Proxy-Authorization: Basic {base64.b64encode(pair.encode()).decode()}"


def _addresses(host: str, port: int, url: str, policy: UrlPolicy, at: str) -> tuple[Address, ...]:
    check(policy, host, (), at)
    try:
        resolved = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as problem:
        message = f"the host {host!r} is not known: {problem}"
        raise MeasureError(message, code="unresolved", at=url, try_="check the name, or give its address") from None
    check(policy, host, [str(address[0]) for *_, address in resolved], at)
    return tuple((int(family), (str(address[0]), int(address[1]))) for family, _, _, _, address in resolved)


def _known(host: str, port: int) -> tuple[str, ...]:
    """What a name behind a proxy means here; a name that only the proxy knows means nothing."""
    try:
        return resolved(host, port)
    except (OSError, UnicodeError):
        return ()


def _context(tls: Tls, base: Path | None) -> ssl.SSLContext:
    file = None if tls.ca is None else str((base or Path()) / tls.ca)
    try:
        context = ssl.create_default_context(cafile=file)
    except (OSError, ssl.SSLError) as problem:
        message = f"cannot read certificates: {problem}"
        raise MeasureError(message, code="tls", at=str(file), try_="give target.tls.ca a PEM file") from None
    context.set_alpn_protocols(["http/1.1"])
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
