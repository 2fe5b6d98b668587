"""How many tokens there were, who says so, and when each arrived. A chunk is not a token, and words never are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from assay.run.apis.answers import AnswerDraft
from assay.run.tokens import Tokenizer

UNKNOWN, USAGE, SERVER, LOCAL, EVENTS = range(5)
SOURCES = (
    "not known",
    "server usage",
    "server tokenizer",
    "local tokenizer",
    "events of an answer that did not end, at the tokens per event of the others",
)

# Counts of one answer may differ by its stop token; more than this is another tokenizer.
_TOLERATED_TOKENS = 2
_TOLERATED_SHARE = 0.05
CHECKED = 200
# How much text before a chunk decides how the chunk is cut: longer than nearly every word.
_CONTEXT = 48
# A server's tokenizer is one request per text.
_MOST_COUNTED_BY_SERVER = 4000


class TokenPositions(NamedTuple):
    ends: Sequence[int]
    tokens: Sequence[int] | None  # for each end; None for one each
    how: str  # "exact", "tokenizer" or "even"


@dataclass(slots=True)
class Tally:
    """What counting saw on its way, for the result."""

    checked: list[tuple[int, int]] = field(default_factory=list)
    """Of some answers: the count that is used, and the local tokenizer's."""
    checked_inputs: list[tuple[int, int]] = field(default_factory=list)
    by_tokenizer: int = 0
    """Answers whose tokens a tokenizer assigned to their chunks."""
    evenly: int = 0
    """Answers whose tokens were spread evenly over their chunks."""
    largest_chunk: int = 0
    counted_by_server: int = 0


class Counter:
    """Counts tokens with what there is: the server's usage, its tokenizer, a local one, in this order."""

    def __init__(self, server: Tokenizer | None = None, local: Tokenizer | None = None) -> None:
        self.server = server
        self.local = local
        self.tally = Tally()

    @property
    def source(self) -> int:
        """What counts where the server gives no usage."""
        return SERVER if self.server is not None else LOCAL if self.local is not None else UNKNOWN

    def count(self, texts: Sequence[str]) -> list[int]:
        tokenizer = self.server or self.local
        return tokenizer.count(texts) if tokenizer is not None and texts else []

    def wants_check(self, waiting: int = 0) -> bool:
        """Whether one more answer is to be counted by the local tokenizer too, beside those that wait for it."""
        return self.local is not None and len(self.tally.checked) + waiting < CHECKED

    def check(self, used: Sequence[int], texts: Sequence[str]) -> None:
        if self.local is not None and texts:
            self.tally.checked += zip(used, self.local.count(texts), strict=True)

    def spread(self, draft: AnswerDraft, tokens: int) -> TokenPositions:
        """Say with which events the tokens of an answer came; they add up to the count whatever happens."""
        ends = exact_ends(draft, tokens)
        if ends is not None:
            self.tally.largest_chunk = max(self.tally.largest_chunk, int(tokens > 0))
            return TokenPositions(ends, None, "exact")
        weights = self._weights(draft.parts)
        if weights is None:
            self.tally.evenly += 1
        else:
            self.tally.by_tokenizer += 1
        shares = apportion(tokens, np.ones(len(draft.ends)) if weights is None else weights)
        self.tally.largest_chunk = max(self.tally.largest_chunk, int(shares.max(initial=0)))
        return TokenPositions(draft.ends, shares.tolist(), "even" if weights is None else "tokenizer")

    def _weights(self, parts: Sequence[str]) -> NDArray[np.float64] | None:
        """Tokens of each chunk as a tokenizer cuts it after the text before it; None where none can."""
        tokenizer = self.local or self.server
        if tokenizer is None or not parts:
            return None
        if self.local is None:
            self.tally.counted_by_server += 2 * len(parts)
            if self.tally.counted_by_server > _MOST_COUNTED_BY_SERVER:
                return None
        before = ""
        contexts, grown = [], []
        for part in parts:
            contexts.append(before)
            grown.append(before + part)
            before = grown[-1][-_CONTEXT:]
        counts = np.asarray(tokenizer.count([*contexts, *grown]), dtype=np.float64)
        weights: NDArray[np.float64] = np.maximum(counts[len(parts) :] - counts[: len(parts)], 0.0)
        return weights if weights.any() else None


def exact_ends(draft: AnswerDraft, tokens: int) -> Sequence[int] | None:
    """The events that carry one token each, if there is a way to see them so; None for a server that bundles.

    The token that stops an answer has no text: it comes with the event that gives the finish reason. So do tokens
    that are half a character, in events with an empty text.
    """
    ends = draft.ends
    if len(ends) == tokens:
        return ends
    missing = tokens - len(ends)
    last = [draft.finish_end] if draft.finish_end >= 0 else []
    all_blank = draft.blanks + last
    ways = [last, all_blank, draft.blanks] if draft.finish != "length" else [draft.blanks, last, all_blank]
    for more in ways:
        if more and len(more) == missing:
            return sorted([*ends, *more])
    return None


def apportion(tokens: int, weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Whole tokens for each weight that add up to the total; the first gets its share before the last does."""
    if not len(weights):
        return np.zeros(0, dtype=np.int64)
    reached = np.cumsum(weights)
    until = np.ceil(reached * (tokens / reached[-1]) - 1e-6).astype(np.int64)
    until[-1] = tokens
    shares: NDArray[np.int64] = np.diff(until, prepend=0)
    return shares


def disagreement(pairs: Sequence[tuple[int, int]]) -> dict[str, JsonValue] | None:
    """Both counts of the checked answers, if the local tokenizer is not the server's."""
    if not pairs:
        return None
    used, local = np.asarray(pairs, dtype=np.float64).T
    differs = np.abs(used - local) > np.maximum(_TOLERATED_TOKENS, _TOLERATED_SHARE * used)
    total = abs(float(used.sum() - local.sum()))
    # A single odd answer is not another tokenizer; most of them, or a sum that is off, is.
    if not (differs.mean() > 0.5 or total > _TOLERATED_SHARE * used.sum() + _TOLERATED_TOKENS * len(used)):
        return None
    return {"answers": len(used), "used": int(used.sum()), "local_tokenizer": int(local.sum())}


def input_disagreement(pairs: Sequence[tuple[int, int]]) -> dict[str, JsonValue] | None:
    """Both counts of the checked prompts, if they differ by more than one chat template can explain.

    A template adds the same number of tokens to every prompt; it never takes one away.
    """
    if not pairs:
        return None
    used, local = np.asarray(pairs, dtype=np.float64).T
    added = used - local
    tolerated = max(_TOLERATED_TOKENS, _TOLERATED_SHARE * float(local.mean()))
    if added.min() >= -tolerated and added.max() - added.min() <= tolerated:
        return None
    return {"prompts": len(used), "used": int(used.sum()), "local_tokenizer": int(local.sum())}
