"""Where a request goes: the path of the endpoint's URL and the protocol's own path, put together once."""

from __future__ import annotations

import re

_VERSION = re.compile(r"^v\d+[a-z0-9.]*$")


def wire_path(endpoint_path: str, api_path: str) -> str:
    """The whole path of a request.

    What both have is said once: `/v1` and `/v1/chat/completions` give `/v1/chat/completions`. An endpoint that has a
    version of its own (`/v1beta/openai`) keeps it, and the protocol's version is left out.
    """
    rest, mark, query = api_path.partition("?")
    base = [part for part in endpoint_path.split("/") if part]
    own = [part for part in rest.split("/") if part]
    overlap = _overlap(base, own)
    if not overlap and own and _VERSION.match(own[0]) and any(_VERSION.match(part) for part in base):
        overlap = 1
    slash = "/" if rest.endswith("/") and own else ""
    return "/" + "/".join([*base, *own[overlap:]]) + (slash if own else "") + mark + query


def _overlap(base: list[str], own: list[str]) -> int:
    """How many of the protocol's first parts the endpoint's path already ends with."""
    for count in range(min(len(base), len(own)), 0, -1):
        if base[-count:] == own[:count]:
            return count
    return 0
