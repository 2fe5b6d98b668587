"""The tokenizer of the simulated server: one word between spaces is one token, always.

Words that the server makes have the numbers 0 to 9999; every other word gets the next free number when it is first
seen, and keeps it. So counts are exact, and `detokenize(tokenize(text))` gives the text with single spaces.
"""

from __future__ import annotations

from collections.abc import Sequence

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


class Words:
    """Words and their numbers."""

    def __init__(self) -> None:
        self._words: list[str] = []
        self._numbers: dict[str, int] = {}

    def _prepare(self) -> None:
        # When it is first needed, so that the server starts faster.
        if not self._words:
            self._words = [made_word(number) for number in range(MADE)]
            self._numbers = {word: number for number, word in enumerate(self._words)}

    def encode(self, text: str) -> list[int]:
        """The number of each word.

        Raises:
            OverflowError: if more words than the server can know were seen.
        """
        self._prepare()
        return [self._number(word) for word in text.split()]

    def decode(self, numbers: Sequence[int]) -> str:
        """The words of some numbers, with single spaces.

        Raises:
            IndexError: if a number has no word.
        """
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
    """How many tokens a text has."""
    return len(text.split())
