"""A tokenizer that lies in a file: `tokenizer.json`, a folder that holds one, or a GGUF model.

Of a GGUF model the header is read, its weights are not. Only byte-level BPE vocabularies are rebuilt, and of these only
the ones whose way to split text is known here: a guess would give counts that look right and are not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assay.errors import MeasureError
from assay.run.tokens import Tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Library
    from tokenizers.pre_tokenizers import PreTokenizer

_FILE = "tokenizer.json"
_ACCEPTED = f"give a {_FILE}, a folder that holds one, or a GGUF model file"
_DIGEST_CHARACTERS = 12


def local_tokenizer(path: Path) -> Tokenizer:
    """Load a tokenizer from this machine.

    Args:
        path: a `tokenizer.json`, a folder that holds one, or a GGUF file.

    Raises:
        MeasureError: when there is none, it cannot be read, or the library is missing.
    """
    file = _file(path)
    try:
        import tokenizers  # noqa: F401  (said here, before a file is blamed)
    except ImportError:
        raise MeasureError(
            f"{file.name} needs the package tokenizers, which is not installed",
            code="tokenizer",
            at="target.tokenizer",
            try_="pip install 'assay-bench[llm]'",
        ) from None
    if _is_gguf(file):
        vocabulary = read_vocabulary(file)
        return _Local(
            f"local {file.name} (sha256 of its vocabulary {_short(vocabulary.sha256)})", tokenizer_of(vocabulary)
        )
    return _from_json(file)


@dataclass(frozen=True, slots=True)
class _Local:
    """The library's tokenizer, without the tokens that it would add around a text."""

    name: str
    library: Library

    def count(self, texts: Sequence[str]) -> list[int]:
        """How many tokens each text has."""
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
    models = sorted(one.name for one in folder.glob("*.gguf"))
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
    return _Local(f"local {file.name} (sha256 {_short(hashlib.sha256(content).hexdigest())})", library)


def _short(digest: str) -> str:
    return digest[:_DIGEST_CHARACTERS]


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
    """Read the vocabulary from the header of a GGUF file.

    Raises:
        MeasureError: when the file is damaged or holds no tokenizer.
    """
    from assay.hardware.models.gguf import read_settings

    try:
        settings = read_settings(path, _LISTS)
    except (OSError, ValueError) as problem:
        raise _refused_model(path.name, f"is not a whole GGUF file: {problem}") from None
    found = {name.removeprefix(_PREFIX): value for name, value in settings.items() if name.startswith(_PREFIX)}
    if not found.get("tokens"):
        raise _refused_model(path.name, "holds no tokenizer")
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
        raise _refused_model(
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


def _refused_model(name: str, why: str) -> MeasureError:
    return MeasureError(
        f"{name} {why}",
        code="tokenizer",
        at="target.tokenizer",
        try_="give the tokenizer.json of the same model, or leave it out where the server has /tokenize",
    )
