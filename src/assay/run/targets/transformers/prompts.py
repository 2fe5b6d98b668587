"""Prompts as the model reads them, chat template, tokens and padding, and which of them each call asks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from assay.run.workloads import Item, Workset

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Ask:
    """One prompt: an item, which of its turns, and the answers before."""

    item: Item
    session: int
    turn: int = 0
    answers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class PromptBatch:
    """Prompts as tensors, filled up on the left so that all end where the answer begins."""

    ids: Tensor
    mask: Tensor
    lengths: tuple[int, ...]


class OwnTokenizer:
    """The model's tokenizer as tasks know one: plain text, no special tokens."""

    def __init__(self, tokenizer: Any, folder: Path) -> None:  # noqa: ANN401  (a tokenizer of Transformers)
        self._tokenizer = tokenizer
        file = folder / "tokenizer.json"
        digest = f", sha256 {hashlib.sha256(file.read_bytes()).hexdigest()[:12]}" if file.is_file() else ""
        self.name = f"the model's own ({type(tokenizer).__name__}{digest})"

    def count(self, texts: Sequence[str]) -> list[int]:
        """How many tokens each text has."""
        if not texts:  # the library would fail on nothing
            return []
        return [len(ids) for ids in self._tokenizer(list(texts), add_special_tokens=False)["input_ids"]]

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text


class Prompter:
    """Turns asks into tensors on the host."""

    def __init__(self, tokenizer: Any, workset: Workset) -> None:  # noqa: ANN401  (a tokenizer of Transformers)
        self._tokenizer = tokenizer
        # A prompt that was made N tokens long is read as it is: a template or a special token would lengthen it.
        as_it_is = workset.task != "conversation" and any(item.input_tokens is not None for item in workset.items)
        self.chat = not as_it_is and bool(getattr(tokenizer, "chat_template", None))
        self._special = not as_it_is and not self.chat  # a template writes them itself
        self._pad = tokenizer.pad_token_id
        if self._pad is None:  # any token will do: the mask hides it
            self._pad = tokenizer.eos_token_id if tokenizer.eos_token_id is not None else 0

    def text(self, ask: Ask) -> str:
        said = [ask.item.turns[0]]
        for answer, turn in zip(ask.answers, ask.item.turns[1:], strict=False):
            said += [answer, turn]
        if not self.chat:
            system = [ask.item.system] if ask.item.system else []
            return "\n\n".join([*system, *said])
        roles = ["user", "assistant"] * len(said)
        messages = [{"role": role, "content": text} for role, text in zip(roles, said, strict=False)]
        if ask.item.system:
            messages.insert(0, {"role": "system", "content": ask.item.system})
        text: str = self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        return text

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        ids: list[list[int]] = self._tokenizer(list(texts), add_special_tokens=self._special)["input_ids"]
        return ids

    def batch(self, texts: Sequence[str]) -> PromptBatch:
        """The prompts of one call."""
        import torch

        rows = self.tokens(texts)
        lengths = tuple(len(row) for row in rows)
        width = max(lengths)
        ids = torch.tensor([[self._pad] * (width - len(row)) + row for row in rows], dtype=torch.long)
        mask = torch.tensor([[0] * (width - size) + [1] * size for size in lengths], dtype=torch.long)
        return PromptBatch(ids, mask, lengths)

    def facts(self) -> dict[str, JsonValue]:
        return {
            "chat_template": self.chat,
            "special_tokens_added": self._special,
            "padding": "left, hidden by the attention mask",
            "pad_token": self._pad,
        }


@dataclass(slots=True)
class Sessions:
    """The rows of a batch; session number s asks items[s % len(items)], as with a service."""

    items: Sequence[Item]
    rows: int
    asks: list[Ask] = field(default_factory=list)
    _next: int = 0

    def begin(self) -> None:
        """Start again from the first item, so that each phase of each run is asked the same."""
        self._next = 0
        self.asks = [self._fresh() for _ in range(self.rows)]

    def advance(self, answer: Callable[[int], str]) -> None:
        """Go on to the next turns; `answer` tells what a row was answered, and is asked only where it matters."""
        self.asks = [self._after(row, ask, answer) for row, ask in enumerate(self.asks)]

    def _after(self, row: int, ask: Ask, answer: Callable[[int], str]) -> Ask:
        if ask.turn + 1 < len(ask.item.turns):
            return replace(ask, turn=ask.turn + 1, answers=(*ask.answers, answer(row)))
        return self._fresh()

    def _fresh(self) -> Ask:
        session, self._next = self._next, self._next + 1
        return Ask(self.items[session % len(self.items)], session)
