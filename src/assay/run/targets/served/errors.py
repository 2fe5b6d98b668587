"""What a server says is wrong, in its own words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.run.targets.served.answers import WORDS_KEPT, parse_json, shown

_LARGEST_READ = 256 * 1024
_MEANING = {
    "skipped": "due while too many requests were open, and not sent",
    "unfinished": "still open when the run ended",
    "refused": "no connection could be made",
    "unresolved": "the host's name is not known",
    "tls": "no secure connection could be made",
    "proxy": "the proxy made no connection",
    "reset": "the connection broke before the answer began",
    "truncated": "the connection broke inside the answer",
    "malformed": "the answer is not HTTP",
    "redirect": "the answer points elsewhere, which is not followed",
    "timeout": "the answer did not end in time",
    "too-large": "the answer has more bytes than an answer may have",
}


def meaning_of(outcome: str) -> str:
    """One sentence for an outcome that comes without words of its own."""
    return _MEANING.get(outcome, outcome)


def server_words(body: bytes) -> str:
    """The message in the body of an error; its beginning where it has no known form."""
    if not body:
        return "no message"
    try:
        said = words_in(parse_json(body[:_LARGEST_READ]))
    except (ValueError, RecursionError):
        said = ""
    return (said or body[: 4 * WORDS_KEPT].decode("utf-8", "replace").strip() or shown(body))[:WORDS_KEPT]


def words_in(value: Any) -> str:  # noqa: ANN401  (whatever a server sends)
    """The message of a parsed error: OpenAI's, Ollama's, FastAPI's and problem+json's forms are known."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "; ".join(found for found in map(words_in, value[:5]) if found)
    if isinstance(value, Mapping):
        for key in ("error", "message", "detail", "msg", "title", "errors"):
            if value.get(key) and (found := words_in(value[key])):
                return found
    return ""
