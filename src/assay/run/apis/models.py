"""Which models an endpoint has, asked in the way of OpenAI's protocol; for starter files, not for measuring."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

import httpx

from assay.http import failure_words, http_client
from assay.run.apis.contract import wire_path

_PATIENCE_S = 5.0
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Models:
    """The models that an endpoint lists, or why there are none."""

    names: tuple[str, ...]
    why: str = ""


def listed_models(endpoint: str, *, patience_s: float = _PATIENCE_S) -> Models:
    """Ask an endpoint for its models; what goes wrong is an answer, not an error."""
    try:
        parts = urlsplit(endpoint)
        url = urlunsplit((parts.scheme, parts.netloc, wire_path(parts.path, "/v1/models"), "", ""))
        with http_client(timeout_s=patience_s, proxies=True) as client:
            answer = client.get(url)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as problem:
        return Models((), failure_words(problem))
    if answer.status_code != 200 or len(answer.content) > _MOST_BYTES:
        return Models((), f"GET {answer.request.url.path} was answered with {answer.status_code}")
    try:
        listed = [model["id"] for model in answer.json()["data"]]
    except (ValueError, TypeError, KeyError):
        listed = []
    names = tuple(name for name in listed if isinstance(name, str) and name.isprintable() and name)
    return Models(names, "" if names else f"GET {answer.request.url.path} lists no model")
