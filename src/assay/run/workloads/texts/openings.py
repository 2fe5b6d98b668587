"""How texts begin: each with another first token, so that no server answers one from what it kept of another."""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from assay.errors import MeasureError
from assay.run.tokens import Tokenizer

_NEXT = "and"
_MOST_TRIED = 20_000  # ids that are turned into text in search of further first tokens


@dataclass(frozen=True, slots=True)
class Opening:
    """The first words of a text, and what they cost."""

    words: tuple[str, ...]
    cost: int


@dataclass(frozen=True, slots=True)
class _Start:
    text: str
    cost: int


class Openings:
    """Gives out beginnings; those with a first token of their own come first."""

    def __init__(self, tokenizer: Tokenizer, words: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        self._words = words
        self._found: dict[bool, _Starts] = {}

    def take(self, rooms: Sequence[int], inside: bool) -> list[Opening]:
        """One beginning for each text.

        Args:
            inside: whether something stands before the texts, so that they begin after a space.
        """
        starts = self._found.setdefault(inside, _Starts(self._tokenizer, self._words, inside))
        fresh = sorted(starts.fresh(len(rooms), min(rooms, default=1)), key=lambda start: start.cost)
        taken = [Opening((), 0)] * len(rooms)
        for rank, place in enumerate(sorted(range(len(rooms)), key=lambda number: rooms[number])):
            fitting = fresh[rank : rank + 1] if rank < len(fresh) and fresh[rank].cost <= rooms[place] else []
            taken[place] = Opening((fitting[0].text,), fitting[0].cost) if fitting else starts.used(rooms[place])
        return taken


class _Starts:
    """Beginnings for one position: at the very start of a text, or after a space."""

    def __init__(self, tokenizer: Tokenizer, words: Sequence[str], inside: bool) -> None:
        self._tokenizer = tokenizer
        self._words = words
        self._lead = f"{_NEXT} " if inside else ""
        self._skipped = len(tokenizer.encode(_NEXT)) if inside else 0
        self._candidates = self._search()
        self._seen: set[int] = set()
        self._highest = 0
        self._all: list[_Start] = []
        self._reused = 0

    def fresh(self, count: int, most: int) -> list[_Start]:
        """Up to so many beginnings that nobody had, none of more than `most` tokens."""
        found: list[_Start] = []
        while len(found) < count and (candidate := next(self._candidates, None)) is not None:
            start = self._new(candidate, most)
            if start is not None:
                found.append(start)
        self._all += found
        return found

    def used(self, room: int) -> Opening:
        """A beginning that another text has too, with other words after it while there is room."""
        fitting = [start for start in self._all if start.cost <= room] or self._all[:1]
        if not fitting:
            return Opening((), 0)
        turn, place = divmod(self._reused, len(fitting))
        self._reused += 1
        start = fitting[place]
        words, cost = [start.text], start.cost
        while turn and cost < room:  # the number of the turn, written in words
            turn, digit = divmod(turn, len(self._words))
            word = self._words[digit]
            words.append(word)
            cost += max(1, len(self._tokenizer.encode(f"{_NEXT} {word}")) - len(self._tokenizer.encode(_NEXT)))
        if cost > room:
            return Opening((start.text,), start.cost)
        return Opening(tuple(words), cost)

    def _new(self, text: str, most: int) -> _Start | None:
        ids = self._tokenizer.encode(f"{self._lead}{text} {_NEXT}")
        if len(ids) <= self._skipped:
            return None
        self._highest = max(self._highest, *ids)
        first = ids[self._skipped]
        cost = max(1, len(self._tokenizer.encode(f"{self._lead}{text}")) - self._skipped)
        if first in self._seen or cost > most:
            return None
        self._seen.add(first)
        return _Start(text, cost)

    def _search(self) -> Iterator[str]:
        """What a text may begin with: words, then letters, then whatever single tokens read as words."""
        yield from (word.capitalize() for word in self._words)
        yield from self._words
        yield from string.ascii_uppercase + string.ascii_lowercase + string.digits
        # Steps of a prime visit all ids below the highest one that was seen, in no order that a reader would notice.
        step, at = 7919, 0
        for _ in range(min(_MOST_TRIED, self._highest)):
            at = (at + step) % (self._highest + 1)
            try:
                text = self._tokenizer.decode([at]).strip()
            except MeasureError:  # a server may not turn tokens into text, or not this one
                return
            if text.isascii() and text.isalpha():
                yield text
