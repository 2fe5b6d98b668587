"""What turns text into tokens: the model's own tokenizer in a file, or the server's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

# How the name of a server's own tokenizer begins.
SERVER = "server "


class Tokenizer(Protocol):
    """Counts and cuts plain text as one model does; it adds no special tokens of its own."""

    @property
    def name(self) -> str:
        """Where it comes from, for the result: `server /tokenize (vLLM)`, `local tokenizer.json (sha256 …)`."""
        ...

    def count(self, texts: Sequence[str]) -> list[int]: ...

    def encode(self, text: str) -> list[int]: ...

    def decode(self, ids: Sequence[int]) -> str: ...


def is_remote(tokenizer: Tokenizer) -> bool:
    """Whether every question to it is a request to the server that is measured."""
    return tokenizer.name.startswith(SERVER)
