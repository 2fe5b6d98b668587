"""The text of requests and replies: prompts and limits, the tokenizer (one word is one token), embeddings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from typing import Any

from assay.sim.wire.connection import HttpError

_FIRST = ("b", "d", "f", "g", "k", "l", "m", "n", "p", "r")
_VOWELS = ("a", "e", "i", "o", "u")
MADE = 10_000
# A client that sends new words for ever must not fill the memory.
MOST = 2_000_000


def made_word(number: int) -> str:
    """The made word of a number below MADE: one syllable for each of four digits."""
    syllables: list[str] = []
    for _ in range(4):
        number, digit = divmod(number, 10)
        syllables.append(_FIRST[digit] + _VOWELS[(digit + len(syllables)) % 5])
    return "".join(reversed(syllables))


class WordTokenizer:
    def __init__(self) -> None:
        self._words: list[str] = []
        self._numbers: dict[str, int] = {}

    def _prepare(self) -> None:
        # When it is first needed, so that the server starts faster.
        if not self._words:
            self._words = [made_word(number) for number in range(MADE)]
            self._numbers = {word: number for number, word in enumerate(self._words)}

    def encode(self, text: str) -> list[int]:
        self._prepare()
        return [self._number(word) for word in text.split()]

    def decode(self, numbers: Sequence[int]) -> str:
        if any(not isinstance(number, int) or number < 0 for number in numbers):
            raise IndexError("a token is a number of 0 or more")
        self._prepare()
        return " ".join([self._words[number] for number in numbers])

    def _number(self, word: str) -> int:
        number = self._numbers.get(word)
        if number is None:
            number = len(self._words)
            if number >= MOST:
                raise OverflowError(f"the server knows {MOST:,} words and takes no more")
            self._numbers[word] = number
            self._words.append(word)
        return number


def count(text: str) -> int:
    return len(text.split())


def chat_texts(request: dict[str, Any]) -> list[str]:
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages:
        raise HttpError(400, "messages is not a list with at least one message")
    return [_text(message) for message in messages]


def _text(message: object) -> str:
    if not isinstance(message, dict):
        raise HttpError(400, "a message is not an object")
    content = message.get("content")
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if not isinstance(content, list):
        raise HttpError(400, "the content of a message is neither a text nor a list of parts")
    texts = [part.get("text") for part in content if isinstance(part, dict)]
    return " ".join(text for text in texts if isinstance(text, str))


def one_prompt(request: dict[str, Any]) -> object:
    """The prompt of a completion; more than one in a request is refused."""
    prompt = request.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and not isinstance(prompt[0], int):
        return prompt[0]
    if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):
        raise HttpError(400, f"one prompt a request is served here, this has {len(prompt)}")
    return prompt


def prompt_tokens(prompt: object) -> int:
    """How many tokens a prompt has: the words of a text, or its numbers."""
    if isinstance(prompt, str):
        return count(prompt)
    if isinstance(prompt, list) and prompt and all(isinstance(token, int) for token in prompt):
        return len(prompt)
    raise HttpError(400, "the prompt is neither a text nor a list of tokens")


def texts_of(value: object, words: WordTokenizer) -> list[str]:
    """The texts of an embedding request: one text, several, or their tokens."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and value:
        if all(isinstance(entry, str) for entry in value):
            return value
        rows = value if isinstance(value[0], list) else [value]
        try:
            return [words.decode(row) for row in rows]
        except (IndexError, TypeError):
            raise HttpError(400, "a token is not one of this server's") from None
    raise HttpError(400, "input is neither a text nor a list of texts")


def limit(request: dict[str, Any], *names: str) -> int | None:
    """A bound of a request: the first of some keys that has one."""
    for name in names:
        value = request.get(name)
        if value is not None:
            if isinstance(value, bool) or not isinstance(value, int) or (value < 1 and value != -1):
                raise HttpError(400, f"{name} is {value!r}, not a whole number of 1 or more")
            return None if value == -1 else value
    return None


def vector(text: str, dimensions: int) -> list[float]:
    """The sum of a fixed direction for each word, made to length 1; texts that share words are near each other."""
    total = [0.0] * dimensions
    for word in text.split() or [""]:
        source = Random(word)  # noqa: S311  (no secret)
        for at in range(dimensions):
            total[at] += source.gauss(0.0, 1.0)
    length = math.sqrt(sum(part * part for part in total)) or 1.0
    return [round(part / length, 7) for part in total]
