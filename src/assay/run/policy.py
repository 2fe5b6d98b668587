"""What a job may do on this machine: which addresses it may connect to, and whether it may run programs.

Addresses are checked on the very address that is connected to: a name is resolved once per connection, all its
addresses are checked, and the connection goes to a checked one. A name that answers differently the second time gains
nothing. Redirects are new connections, so each hop is checked like the first.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from assay.errors import MeasureError, UsageError

if TYPE_CHECKING:
    import httpx

URL_POLICY = "ASSAY_URL_POLICY"
_WORDS = ("any", "public", "private", "loopback")

Address = IPv4Address | IPv6Address
Resolve = Callable[[str, int], Sequence[str]]  # host, port → addresses


def _networks(text: str) -> tuple[IPv4Network | IPv6Network, ...]:
    return tuple(map(ip_network, text.split()))


# These give away the credentials of the machine; no private network is a reason to reach them.
_METADATA_NAMES = frozenset({"metadata", "metadata.google.internal", "metadata.goog", "instance-data"})
_METADATA = frozenset(
    ip_address(text)
    for text in ("169.254.169.254", "169.254.170.2", "169.254.170.23", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254",
                 "100.100.100.200", "168.63.129.16", "192.0.0.192")
)  # fmt: skip
# Left here and not to `is_private`: what that means differs between versions of Python.
_PRIVATE = _networks("10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10 fc00::/7")
_LINK_LOCAL = _networks("169.254.0.0/16 fe80::/10 fec0::/10")
_LOOPBACK = _networks("127.0.0.0/8 ::1/128")
_UNSPECIFIED = _networks("0.0.0.0/8 ::/128")
_RESERVED = _networks(
    "192.0.0.0/24 192.0.2.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 240.0.0.0/4 "
    "64:ff9b:1::/48 100::/64 2001:db8::/32 3fff::/20 5f00::/16 2001::/32"  # the last is Teredo's
)
# IPv6 networks that carry an IPv4 address, and how many bits lie to the right of it.
_CARRIERS = (
    (ip_network("::ffff:0:0/96"), 0),  # mapped
    (ip_network("::ffff:0:0:0/96"), 0),  # translated
    (ip_network("64:ff9b::/96"), 0),  # NAT64
    (ip_network("::/96"), 0),  # compatible
    (ip_network("2002::/16"), 80),  # 6to4
)


@dataclass(frozen=True, slots=True)
class UrlPolicy:
    """What may be connected to; public addresses always may."""

    private: bool = False
    loopback: bool = False
    anything: bool = False

    @classmethod
    def parse(cls, text: str) -> UrlPolicy:
        """Read a policy such as `public`, `public,loopback` or `any`."""
        words = [word.strip().lower() for word in text.split(",")]
        if unknown := [word for word in words if word not in _WORDS]:
            raise UsageError(
                f"{unknown[0]!r} is no URL policy",
                code="url-policy",
                at=URL_POLICY,
                try_=f"use some of {', '.join(_WORDS)}, with commas between them",
            )
        return cls("private" in words, "loopback" in words, "any" in words)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> UrlPolicy:
        """The policy that ASSAY_URL_POLICY names; anything goes where it is not set: a person's own machine."""
        text = (os.environ if environ is None else environ).get(URL_POLICY)
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
        if (carried := _carried(address)) is not None:
            rule = self._rule(carried)
            return rule and f"{rule} ({carried} inside an IPv6 address)"
        if _within(address, _PRIVATE):
            return None if self.private else "a private address"
        if _within(address, _LINK_LOCAL):
            return "a link-local address"
        if address.is_multicast:
            return "a multicast address"
        if address.is_reserved or _within(address, _RESERVED) or not address.is_global:
            return "a reserved address"
        return None


def check(policy: UrlPolicy, host: str, addresses: Sequence[str], at: str = "target.model") -> None:
    """Refuse a host of which one address may not be connected to."""
    if not policy.anything and host.rstrip(".").lower() in _METADATA_NAMES:
        raise _refused(host, "", "a name of cloud metadata", at)
    for address in addresses:
        if (rule := policy.why_refused(address)) is not None:
            raise _refused(host, address, rule, at)


def pinned(url: str, at: str, policy: UrlPolicy | None = None) -> str | None:
    """The address to connect to for a URL, resolved now and checked; None where anything may be connected to."""
    policy = policy or UrlPolicy.from_environment()
    if policy.anything:
        return None
    host = ""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        addresses = resolved(host, parts.port or (443 if parts.scheme == "https" else 80))
    except (OSError, ValueError) as problem:  # UnicodeError is a ValueError
        raise MeasureError(
            f"the host {host!r} is not known: {problem}",
            code="unresolved",
            at=at,
            try_="check the name, or give its address",
        ) from None
    check(policy, host, addresses, at)
    return addresses[0]


def resolved(host: str, port: int) -> tuple[str, ...]:
    """All addresses of a host."""
    resolved = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in resolved))


def checked_transport(
    policy: UrlPolicy,
    resolve: Resolve | None = None,
    *,
    inner: httpx.BaseTransport | None = None,
    at: str = "target.model",
) -> httpx.BaseTransport:
    """A transport for `httpx.Client` that connects only where a policy allows.

    Give the client `trust_env=False` as well: a proxy would connect for us, unchecked.

    Args:
        resolve: turns a host name into addresses; the system's resolver by default.
    """
    from assay.run.models.transport import CheckedTransport, plain

    return CheckedTransport(policy, resolve, inner or plain(), at)


def _within(address: Address, networks: Iterable[IPv4Network | IPv6Network]) -> bool:
    return any(address in network for network in networks)


def _carried(address: Address) -> IPv4Address | None:
    """The IPv4 address that an IPv6 address stands for."""
    for network, shift in _CARRIERS:
        if address in network:
            return IPv4Address((int(address) >> shift) & 0xFFFFFFFF)
    return None


# Rules that the owner of an agent can lift.
_LIFTED = ("a loopback address", "a private address")


def _refused(host: str, address: str, rule: str, at: str) -> MeasureError:
    named = host if address in ("", host) else f"{host} ({address})"
    lifted = rule.startswith(_LIFTED)
    return MeasureError(
        f"{named} is {rule}, which the URL policy of this machine refuses",
        code="url-policy",
        at=at,
        try_="use a public URL; for a network of your own start the agent with --allow-private-urls"
        if lifted
        else "use another address; no option of an agent allows this one",
    )


JOB_ALLOW = "ASSAY_JOB_ALLOW"


def programs_allowed() -> bool:
    """Whether a job may run programs here: its commands, and models that can run code."""
    text = os.environ.get(JOB_ALLOW)
    return text is None or "command" in text.split(",")


def refuse_program(what: str, at: str = "target.model") -> None:
    """Refuse something that can run code, on an agent that allows none.

    Args:
        what: what is refused and why, as a sentence without a full stop.

    Raises:
        MeasureError: if this machine's agent was not started with `--allow command`.
    """
    if programs_allowed():
        return
    raise MeasureError(
        f"{what}; this agent allows no commands",
        code="not-allowed",
        at=at,
        try_="start the agent with --allow command, or choose another one",
    )
