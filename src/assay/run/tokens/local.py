"""A tokenizer that lies in a file: `tokenizer.json`, a folder that holds one, or a GGUF model."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assay.errors import MeasureError
from assay.run.tokens import Tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Library

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
        from assay.run.tokens.gguf import read_vocabulary, tokenizer_of

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
