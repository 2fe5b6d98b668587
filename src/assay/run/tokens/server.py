"""The server's own tokenizer, where it offers one: `/tokenize` of vLLM and of llama.cpp."""

from __future__ import annotations

import ssl
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assay.errors import MeasureError
from assay.run.tokens import SERVER, Tokenizer

if TYPE_CHECKING:
    import httpx

_PROBE = "The quick brown fox jumps over the lazy dog."
_AT_ONCE = 8  # one text per request; waiting for one after another would take most of the time
_CONNECT_S, _ANSWER_S = 5.0, 30.0


def server_tokenizer(
    base_url: str,
    headers: Mapping[str, str],
    model: str | None,
    *,
    verify: ssl.SSLContext | bool = True,
    proxy: str | None = None,
    own: bool = False,
) -> Tokenizer | None:
    """The tokenizer of a server, found by trying.

    Args:
        model: the model's name inside the server, where it serves several.

    Returns:
        The tokenizer, or None where the server offers none that is known here.
    """
    import httpx

    from assay.run.models.transport import client_options

    # No proxy of the environment sees the prompts, and a redirect would send the key elsewhere.
    client = httpx.Client(
        headers=dict(headers),
        timeout=httpx.Timeout(_ANSWER_S, connect=_CONNECT_S),
        follow_redirects=False,
        trust_env=False,
        **client_options(base_url, verify=verify, proxy=proxy, own=own),
    )
    for root in _roots(base_url):
        for dialect in (_vllm(model), _LLAMA_CPP):
            tokenizer = _Server(client, root, dialect)
            if tokenizer.answers():
                return tokenizer
    client.close()
    return None


@dataclass(frozen=True, slots=True)
class _Dialect:
    """How one kind of server is asked."""

    name: str
    tokenize: Callable[[str], dict[str, Any]]
    detokenize: Callable[[Sequence[int]], dict[str, Any]]
    texts: tuple[str, ...]  # where the text of an answer may lie


def _vllm(model: str | None) -> _Dialect:
    named = {} if model is None else {"model": model}
    return _Dialect(
        "vLLM",
        lambda text: {**named, "prompt": text, "add_special_tokens": False},
        lambda ids: {**named, "tokens": list(ids)},
        ("prompt", "text"),
    )


_LLAMA_CPP = _Dialect(
    "llama.cpp",
    lambda text: {"content": text, "add_special": False},
    lambda ids: {"tokens": list(ids)},
    ("content",),
)


class _Server:
    """Asks over one client, which is closed when this is no longer used."""

    def __init__(self, client: httpx.Client, root: str, dialect: _Dialect) -> None:
        self.name = f"{SERVER}/tokenize ({dialect.name})"
        self._client = client
        self._root = root
        self._dialect = dialect

    def answers(self) -> bool:
        """Whether the server speaks this dialect: an unknown field is not an error for every server."""
        try:
            if not self.encode(_PROBE):
                return False
        except MeasureError as problem:
            if problem.problem.code == "url-policy":
                raise
            return False
        weakref.finalize(self, self._client.close)
        return True

    def count(self, texts: Sequence[str]) -> list[int]:
        """How many tokens each text has."""
        with ThreadPoolExecutor(min(_AT_ONCE, len(texts) or 1)) as pool:
            return [len(ids) for ids in pool.map(self.encode, texts)]

    def encode(self, text: str) -> list[int]:
        answer = self._ask("tokenize", self._dialect.tokenize(text))
        ids = answer.get("tokens")
        if not isinstance(ids, list) or not all(type(one) is int for one in ids):
            raise _failed(f"{self._root}/tokenize", "its answer holds no list of tokens")
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens."""
        answer = self._ask("detokenize", self._dialect.detokenize(ids))
        for key in self._dialect.texts:
            text = answer.get(key)
            if isinstance(text, str):
                return text
        raise _failed(f"{self._root}/detokenize", "its answer holds no text")

    def _ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        import httpx

        url = f"{self._root}/{path}"
        try:
            response = self._client.post(url, json=body)
            answer = response.json() if response.status_code == httpx.codes.OK else None
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as problem:
            raise _failed(url, str(problem) or type(problem).__name__) from None
        if not isinstance(answer, dict):
            raise _failed(url, f"it answered with status {response.status_code} and {response.text[:200]!r}")
        return answer


def _roots(base_url: str) -> tuple[str, ...]:
    """Where `/tokenize` may lie: beside `/v1`, seldom below it."""
    base = base_url.rstrip("/")
    return tuple(dict.fromkeys((base.removesuffix("/v1"), base)))


def _failed(url: str, why: str) -> MeasureError:
    from assay.run.models.download import shown

    return MeasureError(
        f"the server's tokenizer at {shown(url)} failed: {why}",
        code="tokenizer",
        at="target.tokenizer",
        try_="give the model's own tokenizer under target.tokenizer",
    )
