"""The tokenizer inside a GGUF model: its header is read, its weights are not.

Only byte-level BPE vocabularies are rebuilt, and of these only the ones whose way to split text is known here:
a guess would give counts that look right and are not.
"""

from __future__ import annotations

import hashlib
import mmap
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import MeasureError

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Library
    from tokenizers.pre_tokenizers import PreTokenizer

_PREFIX = "tokenizer.ggml."
_WANTED = frozenset({"model", "pre", "tokens", "merges", "token_type"})
_CONTROL, _USER_DEFINED = 3, 4
_STRING, _ARRAY = 8, 9
# Code of a value's type in the header → how struct reads it.
_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}

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
    """Read the vocabulary from the header of a GGUF file.

    Raises:
        MeasureError: when the file is damaged or holds no tokenizer.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            found = _Header(content).read()
    except (OSError, ValueError, struct.error, KeyError, UnicodeDecodeError) as problem:
        raise _refused(path.name, f"is not a whole GGUF file: {problem}") from None
    if not found.get("tokens"):
        raise _refused(path.name, "holds no tokenizer")
    return Vocabulary(
        path.name,
        str(found.get("model", "")),
        str(found.get("pre", "")),
        tuple(found["tokens"]),
        tuple(found.get("merges", ())),
        tuple(found.get("token_type", ())),
    )


def tokenizer_of(vocabulary: Vocabulary) -> Library:
    """Rebuild the tokenizer.

    Raises:
        MeasureError: when it is of a kind that is not known here.
    """
    from tokenizers import AddedToken, Tokenizer, decoders
    from tokenizers.models import BPE

    if vocabulary.model != "gpt2" or vocabulary.pre not in _SPLITS:
        kind = f"{vocabulary.model or 'unnamed'}, {vocabulary.pre or 'no pre-tokenizer'}"
        known = ", ".join(sorted(_SPLITS))
        raise _refused(
            vocabulary.file, f"has a tokenizer of a kind ({kind}) that is not read here; known: gpt2 with {known}"
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


class _Header:
    """Walks the key-value pairs at the start of the file."""

    def __init__(self, content: mmap.mmap) -> None:
        self._content = content
        self._at = 0

    def read(self) -> dict[str, Any]:
        """The values that a tokenizer is made of."""
        magic, version, _, pairs = self._unpack("<4sIQQ")
        if magic != b"GGUF" or version not in (2, 3):
            raise ValueError(f"version {version} is not known")
        found: dict[str, Any] = {}
        for _ in range(pairs):
            key = self._text()
            value = self._value(self._unpack("<I")[0])
            if key.startswith(_PREFIX) and key.removeprefix(_PREFIX) in _WANTED:
                found[key.removeprefix(_PREFIX)] = value
        return found

    def _value(self, kind: int) -> Any:  # noqa: ANN401
        if kind == _STRING:
            return self._text()
        if kind != _ARRAY:
            return self._unpack(_SCALARS[kind])[0]
        inner, length = self._unpack("<IQ")
        if inner == _STRING:
            return [self._text() for _ in range(length)]
        code = _SCALARS[inner][1]
        return list(self._unpack(f"<{length}{code}"))

    def _text(self) -> str:
        length = self._unpack("<Q")[0]
        if self._at + length > len(self._content):
            raise ValueError("it ends inside a text")
        self._at += length
        return self._content[self._at - length : self._at].decode()

    def _unpack(self, shape: str) -> tuple[Any, ...]:
        found = struct.unpack_from(shape, self._content, self._at)
        self._at += struct.calcsize(shape)
        return found


def _refused(name: str, why: str) -> MeasureError:
    return MeasureError(
        f"{name} {why}",
        code="tokenizer",
        at="target.tokenizer",
        try_="give the tokenizer.json of the same model, or leave it out where the server has /tokenize",
    )
