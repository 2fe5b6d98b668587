"""What is asked, independent of any protocol: items, and the set of them that one run uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pydantic import JsonValue

from assay.run.tokens import Tokenizer
from assay.spec.benchmark import Definition


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to ask: a prompt, a conversation, or the texts of one embedding request."""

    id: str
    """Stable name inside the task."""
    turns: tuple[str, ...]
    """What the user says, one turn after another; for embedding the texts of one request."""
    system: str | None = None
    reference: str | None = None
    """What a scorer compares the last answer with."""
    input_tokens: int | None = None
    """Tokens of the first turn, where the task makes prompts of a length."""
    output_tokens: int | None = None
    """Tokens asked for; the server's own default when None."""
    data: Mapping[str, JsonValue] = field(default_factory=dict)
    """What a custom scorer may want."""


@dataclass(frozen=True, slots=True)
class Workset:
    """All items of one run; session number s uses items[s % len(items)]."""

    task: str
    items: tuple[Item, ...]
    scorers: tuple[str, ...]
    facts: Mapping[str, JsonValue]


class Task(Protocol):
    """Makes the items of a definition. Registered by name under the entry-point group `assay.tasks`."""

    def __call__(self, definition: Definition, base: Path, tokenizer: Tokenizer | None, /) -> Workset:
        """Make them; raise MeasureError when they cannot be made as asked."""
        ...
