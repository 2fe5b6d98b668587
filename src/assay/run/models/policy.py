"""Which addresses a model may be fetched from: checked on the very address that is connected to.

A name is resolved once per connection, all its addresses are checked, and the connection goes to a checked
one: a name that answers differently the second time gains nothing. Redirects are new connections, so each
hop is checked like the first.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import httpx

from assay.errors import MeasureError, UsageError

VARIABLE = "ASSAY_URL_POLICY"
_WORDS = ("any", "public", "private", "loopback")

Address = IPv4Address | IPv6Address
Resolve = Callable[[str, int], Sequence[str]]  # host, port → addresses

# Whoever reaches these gets the credentials of the machine; no network of one's own is a reason to.
_METADATA_NAMES = frozenset({"metadata", "metadata.google.internal", "metadata.goog", "instance-data"})
_METADATA = frozenset(
    ip_address(text)
    for text in ("169.254.169.254", "169.254.170.2", "fd00:ec2::254", "fd20:ce::254", "100.100.100.200",
                 "168.63.129.16", "192.0.0.192")
)  # fmt: skip
# Left here and not to `is_private`: what that means differs between versions of Python.
_PRIVATE = tuple(map(ip_network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")))
_LINK_LOCAL = tuple(map(ip_network, ("169.254.0.0/16", "fe80::/10", "fec0::/10")))
_LOOPBACK = tuple(map(ip_network, ("127.0.0.0/8", "::1/128")))
_UNSPECIFIED = tuple(map(ip_network, ("0.0.0.0/8", "::/128")))
_RESERVED = tuple(
    map(ip_network, ("192.0.0.0/24", "192.0.2.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
                     "240.0.0.0/4", "64:ff9b:1::/48", "100::/64", "2001:db8::/32", "3fff::/20", "5f00::/16"))
)  # fmt: skip
# IPv6 networks that carry an IPv4 address, and how many bits lie to the right of it.
_CARRIERS = (
    (ip_network("::ffff:0:0/96"), 0),  # mapped
    (ip_network("::ffff:0:0:0/96"), 0),  # translated
    (ip_network("64:ff9b::/96"), 0),  # NAT64
    (ip_network("::/96"), 0),  # compatible
    (ip_network("2002::/16"), 80),  # 6to4
)
_TEREDO = ip_network("2001::/32")


@dataclass(frozen=True, slots=True)
class UrlPolicy:
    """What may be connected to; public addresses always may."""

    private: bool = False
    loopback: bool = False
    anything: bool = False

    @classmethod
    def parse(cls, text: str) -> UrlPolicy:
        """Read a policy such as `public`, `public,loopback` or `any`.

        Raises:
            UsageError: for a word that is none of these, or no word at all.
        """
        words = [word.strip().lower() for word in text.split(",")]
        unknown = [word for word in words if word not in _WORDS]
        if unknown:
            raise UsageError(
                f"{unknown[0]!r} is no URL policy",
                code="url-policy",
                at=VARIABLE,
                try_=f"use some of {', '.join(_WORDS)}, with commas between them",
            )
        return cls("private" in words, "loopback" in words, "any" in words)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> UrlPolicy:
        """The policy that ASSAY_URL_POLICY names; anything goes where it is not set: a person's own machine."""
        text = (os.environ if environ is None else environ).get(VARIABLE)
        return cls(anything=True) if text is None else cls.parse(text)

    def __str__(self) -> str:
        if self.anything:
            return "any"
        return ",".join(["public", *(word for word in ("private", "loopback") if getattr(self, word))])

    def why_refused(self, address: str) -> str | None:
        """Which rule an address breaks, in words; None when it may be connected to."""
        if self.anything:
            return None
        try:
            return self._rule(ip_address(address.partition("%")[0]))
        except ValueError:
            return "not an address"

    def _rule(self, address: Address) -> str | None:
        if address in _METADATA:
            return "an address of cloud metadata"
        if _within(address, _LOOPBACK):
            return None if self.loopback else "a loopback address"
        if _within(address, _UNSPECIFIED):
            return "an unspecified address"
        carried = _carried(address)
        if carried is not None:
            rule = self._rule(carried)
            return None if rule is None else f"{rule} ({carried} inside an IPv6 address)"
        if _within(address, _PRIVATE):
            return None if self.private else "a private address"
        if _within(address, _LINK_LOCAL):
            return "a link-local address"
        if address.is_multicast:
            return "a multicast address"
        if address.is_reserved or _within(address, (*_RESERVED, _TEREDO)) or not address.is_global:
            return "a reserved address"
        return None


def checked_transport(
    policy: UrlPolicy, resolve: Resolve | None = None, *, inner: httpx.BaseTransport | None = None
) -> httpx.BaseTransport:
    """A transport for `httpx.Client` that connects only where a policy allows.

    Give the client `trust_env=False` as well: a proxy would connect for us, unchecked.

    Args:
        policy: what may be connected to.
        resolve: turns a host name into addresses; the system's resolver by default.
        inner: does the connecting; plain HTTP by default.
    """
    return _Checked(policy, resolve or _resolve, inner or httpx.HTTPTransport(limits=_LIMITS))


# Connections are not kept: two names behind one address must not share what was negotiated for one of them.
_LIMITS = httpx.Limits(max_keepalive_connections=0)
_MAX_TRIED = 4  # addresses of one name; each may take the whole time-out


class _Checked(httpx.BaseTransport):
    """Resolves, checks, and hands requests on with the checked address in place of the name."""

    def __init__(self, policy: UrlPolicy, resolve: Resolve, inner: httpx.BaseTransport) -> None:
        self._policy = policy
        self._resolve = resolve
        self._inner = inner

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
        """Close the connections."""
        self._inner.close()

    def _addresses(self, url: httpx.URL) -> Sequence[str]:
        host = url.raw_host.decode("ascii")
        if host.rstrip(".").lower() in _METADATA_NAMES:
            raise _refused(host, "", "a name of cloud metadata")
        addresses = self._resolve(host, url.port or (443 if url.scheme == "https" else 80))
        for address in addresses:
            rule = self._policy.why_refused(address)
            if rule is not None:
                raise _refused(host, address, rule)
        if not addresses:
            raise httpx.ConnectError(f"{host} has no address")
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
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as problem:
        raise httpx.ConnectError(f"{host} cannot be resolved: {problem}") from None
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))


def _within(address: Address, networks: Sequence[object]) -> bool:
    return any(address in network for network in networks)  # type: ignore[operator]


def _carried(address: Address) -> IPv4Address | None:
    """The IPv4 address that an IPv6 address stands for."""
    for network, shift in _CARRIERS:
        if address in network:
            return IPv4Address((int(address) >> shift) & 0xFFFFFFFF)
    return None


def _refused(host: str, address: str, rule: str) -> MeasureError:
    named = host if address in ("", host) else f"{host} ({address})"
    return MeasureError(
        f"{named} is {rule}, which the URL policy of this machine refuses",
        code="url-policy",
        at="target.model",
        try_="use a public URL; for a network of your own start the agent with --allow-private-urls",
    )
