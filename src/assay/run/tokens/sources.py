"""A tokenizer that lies in a file: `tokenizer.json`, a folder that holds one, or a GGUF model.

Of a GGUF model the header is read, its weights are not. Only byte-level BPE vocabularies are rebuilt, and of these only
the ones whose way to split text is known here: a guess would give counts that look right and are not.
"""

from __future__ import annotations

import hashlib
import ssl
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import MeasureError
from assay.http import failure_words, http_client
from assay.run.tokens import SERVER, Tokenizer

if TYPE_CHECKING:
    import httpx
    from tokenizers import Tokenizer as Library
    from tokenizers.pre_tokenizers import PreTokenizer

_FILE = "tokenizer.json"
_ACCEPTED = f"give a {_FILE}, a folder that holds one, or a GGUF model file"
_DIGEST_CHARACTERS = 12


def local_tokenizer(path: Path) -> Tokenizer:
    """Load a tokenizer from this machine.

    Args:
        path: a `tokenizer.json`, a folder that holds one, or a GGUF file.
    """
    file = _file(path)
    try:
        import tokenizers  # noqa: F401  (said here, before a file is blamed)
    except ImportError:
        message = f"{file.name} needs the package tokenizers, which is not installed"
        raise _refused(message, "pip install 'assay-bench[llm]'") from None
    if _is_gguf(file):
        vocabulary = read_vocabulary(file)
        digest = vocabulary.sha256[:_DIGEST_CHARACTERS]
        return _Local(f"local {file.name} (sha256 of its vocabulary {digest})", tokenizer_of(vocabulary))
    return _from_json(file)


@dataclass(frozen=True, slots=True)
class _Local:
    """The library's tokenizer, without the tokens that it would add around a text."""

    name: str
    library: Library

    def count(self, texts: Sequence[str]) -> list[int]:
        # One after another: the threads of the library's batches would outlive the call and run into the measurement.
        return [len(self.encode(text)) for text in texts]

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self.library.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens; special ones are kept, for they were counted."""
        text: str = self.library.decode(list(ids), skip_special_tokens=False)
        return text


def _file(path: Path) -> Path:
    path = path.expanduser()
    if path.is_file():
        return path
    if path.is_dir():
        if (path / _FILE).is_file():
            return path / _FILE
        raise _refused(f"the folder {path} holds no {_FILE}", _instead(path))
    raise _refused(f"{path} does not exist", _ACCEPTED)


def _instead(folder: Path) -> str:
    """What to do with a folder that has another kind of tokenizer, or a model with one inside."""
    models = sorted(file.name for file in folder.glob("*.gguf"))
    if models:
        return f"name the model file: {folder / models[0]}"
    if any((folder / name).is_file() for name in ("tokenizer.model", "vocab.json", "vocab.txt")):
        return f"load it with AutoTokenizer of transformers and save it again, which writes a {_FILE}"
    return _ACCEPTED


def _is_gguf(file: Path) -> bool:
    try:
        with file.open("rb") as content:
            return content.read(4) == b"GGUF"
    except OSError as problem:
        raise _refused(f"{file} cannot be read: {problem.strerror or problem}", "check the permissions") from None


def _from_json(file: Path) -> Tokenizer:
    from tokenizers import Tokenizer as Library

    try:
        content = file.read_bytes()
        library = Library.from_str(content.decode())
    except OSError as problem:
        raise _refused(f"{file} cannot be read: {problem.strerror or problem}", "check the permissions") from None
    except UnicodeDecodeError:
        raise _refused(f"{file} is not text", _ACCEPTED) from None
    except Exception as problem:  # the library raises the bare class
        raise _refused(f"{file} is not a tokenizer: {problem}", _ACCEPTED) from None
    # A file may ask to cut or fill texts, which would falsify every count.
    library.no_truncation()
    library.no_padding()
    digest = hashlib.sha256(content).hexdigest()[:_DIGEST_CHARACTERS]
    return _Local(f"local {file.name} (sha256 {digest})", library)


def _refused(message: str, hint: str) -> MeasureError:
    return MeasureError(message, code="tokenizer", at="target.tokenizer", try_=hint)


_PREFIX = "tokenizer.ggml."
_LISTS = frozenset(f"{_PREFIX}{name}" for name in ("tokens", "merges", "token_type"))
_CONTROL, _USER_DEFINED = 3, 4

# How the published models of these families split text before merging.
_GPT_4_LIKE = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{digits}"
    r"| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What the header of a model says about its tokens."""

    file: str
    model: str
    pre: str
    tokens: tuple[str, ...]
    merges: tuple[str, ...]
    types: tuple[int, ...]

    @property
    def sha256(self) -> str:
        """Digest of everything that decides how text is cut."""
        digest = hashlib.sha256(f"{self.model}\0{self.pre}\0".encode())
        for text in (*self.tokens, *self.merges):
            digest.update(text.encode() + b"\0")
        return digest.hexdigest()


def read_vocabulary(path: Path) -> Vocabulary:
    """Read the vocabulary from the header of a GGUF file."""
    from assay.hardware.model_formats import read_settings

    try:
        settings = read_settings(path, _LISTS)
    except (OSError, ValueError) as problem:
        raise _refused_model(path.name, f"is not a whole GGUF file: {problem}") from None
    fields = {name.removeprefix(_PREFIX): value for name, value in settings.items() if name.startswith(_PREFIX)}
    if not fields.get("tokens"):
        raise _refused_model(path.name, "holds no tokenizer")
    return Vocabulary(
        path.name,
        str(fields.get("model", "")),
        str(fields.get("pre", "")),
        tuple(fields["tokens"]),
        tuple(fields.get("merges", ())),
        tuple(fields.get("token_type", ())),
    )


def tokenizer_of(vocabulary: Vocabulary) -> Library:
    from tokenizers import AddedToken, Tokenizer, decoders
    from tokenizers.models import BPE

    if vocabulary.model != "gpt2" or vocabulary.pre not in _SPLITS:
        kind = f"{vocabulary.model or 'unnamed'}, {vocabulary.pre or 'no pre-tokenizer'}"
        supported = ", ".join(sorted(_SPLITS))
        raise _refused_model(
            vocabulary.file, f"has a tokenizer of a kind ({kind}) that is not read here; known: gpt2 with {supported}"
        )
    merges = [tuple(merge.split(" ", 1)) for merge in vocabulary.merges]
    ids = {token: number for number, token in enumerate(vocabulary.tokens)}
    library = Tokenizer(BPE(ids, merges, ignore_merges=vocabulary.pre == "llama-bpe"))  # type: ignore[arg-type]
    library.pre_tokenizer = _SPLITS[vocabulary.pre]()
    library.decoder = decoders.ByteLevel()
    kinds = list(zip(vocabulary.tokens, vocabulary.types, strict=False))
    library.add_special_tokens([AddedToken(token, special=True) for token, kind in kinds if kind == _CONTROL])
    library.add_tokens([AddedToken(token) for token, kind in kinds if kind == _USER_DEFINED])
    return library


def _gpt_2() -> PreTokenizer:
    from tokenizers import pre_tokenizers

    return pre_tokenizers.ByteLevel(add_prefix_space=False)


def _single_digits() -> PreTokenizer:
    from tokenizers import pre_tokenizers

    return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), _gpt_2()])


def _gpt_4(digits: str) -> Callable[[], PreTokenizer]:
    def split() -> PreTokenizer:
        from tokenizers import Regex, pre_tokenizers

        pattern = Regex(_GPT_4_LIKE.format(digits=digits))
        bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        return pre_tokenizers.Sequence([pre_tokenizers.Split(pattern, "isolated"), bytes_only])

    return split


_SPLITS: Mapping[str, Callable[[], PreTokenizer]] = {
    "gpt-2": _gpt_2,
    "smollm": _single_digits,
    "starcoder": _single_digits,
    "llama-bpe": _gpt_4("{1,3}"),
    "qwen2": _gpt_4(""),
}


def _refused_model(name: str, why: str) -> MeasureError:
    try_ = "give the tokenizer.json of the same model, or leave it out where the server has /tokenize"
    return _refused(f"{name} {why}", try_)


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
    from assay.run.models.transport import client_options

    client = http_client(
        timeout_s=_ANSWER_S,
        connect_s=_CONNECT_S,
        headers=dict(headers),
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
        with ThreadPoolExecutor(min(_AT_ONCE, len(texts) or 1)) as pool:
            return [len(ids) for ids in pool.map(self.encode, texts)]

    def encode(self, text: str) -> list[int]:
        answer = self._post("tokenize", self._dialect.tokenize(text))
        ids = answer.get("tokens")
        if not isinstance(ids, list) or not all(type(token) is int for token in ids):
            raise _failed(f"{self._root}/tokenize", "its answer holds no list of tokens")
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        answer = self._post("detokenize", self._dialect.detokenize(ids))
        for key in self._dialect.texts:
            text = answer.get(key)
            if isinstance(text, str):
                return text
        raise _failed(f"{self._root}/detokenize", "its answer holds no text")

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        import httpx

        url = f"{self._root}/{path}"
        try:
            response = self._client.post(url, json=body)
            answer = response.json() if response.status_code == httpx.codes.OK else None
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as problem:
            raise _failed(url, failure_words(problem)) from None
        if not isinstance(answer, dict):
            raise _failed(url, f"it answered with status {response.status_code} and {response.text[:200]!r}")
        return answer


def _roots(base_url: str) -> tuple[str, ...]:
    """Where `/tokenize` may lie: beside `/v1`, seldom below it."""
    base = base_url.rstrip("/")
    return tuple(dict.fromkeys((base.removesuffix("/v1"), base)))


def _failed(url: str, why: str) -> MeasureError:
    from assay.run.models.download import shown

    message = f"the server's tokenizer at {shown(url)} failed: {why}"
    return _refused(message, "give the model's own tokenizer under target.tokenizer")
