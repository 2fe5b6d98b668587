"""Ask an endpoint what it is: which models it lists, which protocol it speaks, whether it counts tokens.

For a command line and a starter file that name only its address; what is measured asks nothing of this.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import httpx

from assay.errors import MeasureError
from assay.http import failure_words, http_client
from assay.run.apis.contract import wire_path
from assay.spec.references import resolve_secrets
from assay.spec.starter import Endpoint

if TYPE_CHECKING:
    from pydantic import JsonValue

_PATIENCE_S = 5.0
# A server that is asked for its first token may load the model first.
_LOADING_S = 60.0
_MOST_BYTES = 1 << 20
_OK = 200
_DENIED = (401, 403)

# Protocol → the path and the smallest request that only it answers, and the key that its answer has.
_TRIED: Mapping[str, tuple[str, dict[str, JsonValue], str]] = {
    "openai-chat": (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1, "stream": False},
        "choices",
    ),
    "openai-completions": ("/v1/completions", {"prompt": "Hello", "max_tokens": 1, "stream": False}, "choices"),
    "openai-embeddings": ("/v1/embeddings", {"input": "Hello"}, "data"),
}
_USUAL = "openai-chat"
_COUNTED = ("openai-chat", "openai-completions")
# Ends of addresses that people copy whole, and the protocol that they name.
_ENDINGS = {
    "/chat/completions": "openai-chat",
    "/completions": "openai-completions",
    "/embeddings": "openai-embeddings",
    "/api/chat": "ollama",
}


def query_endpoint(
    url: str,
    *,
    api: str = "",
    model: str = "",
    headers: Mapping[str, str] | None = None,
    verify: bool = True,
    patience_s: float = _PATIENCE_S,
) -> Endpoint:
    """Ask an endpoint for what the command line leaves out; what goes wrong is an answer, not an error.

    Args:
        url: its address; secrets in it and in the headers are references.
        api: its protocol, where it is known.
        model: the model that is meant, where it is known.
    """
    named = next((name for ending, name in _ENDINGS.items() if _path(url).endswith(ending)), "")
    url = _cut(url, *_ENDINGS)
    known = {name: resolve_secrets(value) for name, value in (headers or {}).items()}
    try:
        with http_client(timeout_s=patience_s, proxies=True, headers=known, verify=verify) as client:
            asked = _Described(client, resolve_secrets(url))
            names, spoken, why = asked.models()
            chosen = model or next(iter(names), "")
            api = api or named or spoken or (asked.protocol(chosen) if chosen else _USUAL)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as problem:
        return Endpoint(url, api or named or _USUAL, (), failure_words(problem), is_down=True)
    if api == "ollama":
        return Endpoint(_cut(url, "/v1"), api, names, why)
    counts = bool(chosen) and api in _COUNTED and _counts(resolve_secrets(url), known, chosen, verify)
    return Endpoint(url, api, names, why, counts_tokens=counts)


class _Described:
    """An endpoint, and what it answers."""

    def __init__(self, client: httpx.Client, url: str) -> None:
        self._client, self._parts = client, urlsplit(url)

    def models(self) -> tuple[tuple[str, ...], str, str]:
        """The models that it lists, the protocol that only this list can mean, and why there are none."""
        names, why = self._listed("/v1/models", "data", "id")
        if names:
            return names, "", ""
        tags, _ = self._listed("/api/tags", "models", "name")
        return (tags, "ollama", "") if tags else ((), "", why)

    def protocol(self, model: str) -> str:
        """The first protocol in which it answers a request for one token; the usual one where it answers in none."""
        for api, (path, body, key) in _TRIED.items():
            try:
                answer = self._client.post(self._url(path), json={"model": model, **body}, timeout=_LOADING_S)
            except httpx.TimeoutException:
                return api
            if answer.status_code == _OK and key in _document(answer):
                return api
        return _USUAL

    def _listed(self, path: str, section: str, key: str) -> tuple[tuple[str, ...], str]:
        answer = self._client.get(self._url(path))
        shown = answer.request.url.path
        if answer.status_code in _DENIED:
            return (), f"GET {shown} was answered with {answer.status_code}: it wants a key"
        if answer.status_code != _OK or len(answer.content) > _MOST_BYTES:
            return (), f"GET {shown} was answered with {answer.status_code}"
        entries = _document(answer).get(section)
        listed = [entry.get(key) for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
        names = tuple(name for name in listed if isinstance(name, str) and name.isprintable() and name)
        return names, "" if names else f"GET {shown} lists no model"

    def _url(self, path: str) -> str:
        scheme, host, own, *_ = self._parts
        base = own if path.startswith("/v1/") else own.rstrip("/").removesuffix("/v1")
        return urlunsplit((scheme, host, wire_path(base, path), "", ""))


def _path(url: str) -> str:
    return urlsplit(url).path.rstrip("/")


def _cut(url: str, *endings: str) -> str:
    """The URL without the first of these endings that its path has."""
    ending = next((ending for ending in endings if _path(url).endswith(ending)), "")
    return urlsplit(url)._replace(path=_path(url).removesuffix(ending)).geturl() if ending else url


def _document(answer: httpx.Response) -> dict[str, Any]:
    try:
        document = answer.json()
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _counts(url: str, headers: Mapping[str, str], model: str, verify: bool) -> bool:
    from assay.run.tokens.sources import server_tokenizer

    try:
        return server_tokenizer(url, headers, model, verify=verify) is not None
    except (MeasureError, ValueError):
        return False
