"""HTTP to a server that the user named, and the reason where it was not reached.

The processes that measure do not use it: they have connections of their own, which cost less to load.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import httpx


def is_loopback(host: str) -> bool:
    """Whether a name or address means this very machine."""
    name = host.lower().strip("[]")
    if name in ("localhost", "localhost.localdomain") or name.endswith(".localhost"):
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def is_loopback_url(url: str) -> bool:
    """Whether a URL names this very machine."""
    return is_loopback(urlsplit(url).hostname or "")


def http_client(
    url: str = "",
    *,
    timeout_s: float,
    connect_s: float | None = None,
    proxies: bool = False,
    **options: Any,  # noqa: ANN401  (httpx's own)
) -> httpx.Client:
    """A client for one server.

    Redirects are not followed: keys and tokens are for the server that was named.

    Args:
        proxies: whether a proxy that the environment names is used; never for this very machine, which it does not
            know.
    """
    import httpx

    return httpx.Client(
        base_url=url,
        timeout=httpx.Timeout(timeout_s, connect=timeout_s if connect_s is None else connect_s),
        follow_redirects=False,
        trust_env=proxies and not is_loopback_url(url),
        **options,
    )


def failure_words(problem: Exception) -> str:
    """Why a request failed, as one line; never empty."""
    return " ".join(str(problem).split()) or type(problem).__name__
