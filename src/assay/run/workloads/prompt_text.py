"""Texts of exactly N tokens, made of plain words.

Random token ids would be quicker, but their text is cut into other tokens when the server reads it. So words are
put together by what each costs, and every text is counted as a whole, turned into tokens and back, and corrected until
it has the wanted length both times.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from string import ascii_letters

import numpy as np

from assay.errors import MeasureError
from assay.run.tokens import Tokenizer

_NEXT = "and"
_MOST_TRIED = 20_000  # ids that are turned into text in search of further first tokens


@dataclass(frozen=True, slots=True)
class Opening:
    """The first words of a text, and what they cost."""

    words: tuple[str, ...]
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
            taken[place] = fitting[0] if fitting else starts.used(rooms[place])
        return taken


class _Starts:
    """Beginnings for one position: at the very start of a text, or after a space."""

    def __init__(self, tokenizer: Tokenizer, words: Sequence[str], inside: bool) -> None:
        self._tokenizer = tokenizer
        self._words = words
        self._lead = f"{_NEXT} " if inside else ""
        self._skipped = len(tokenizer.encode(_NEXT)) if inside else 0
        self._candidates = self._search()
        self._used: set[int] = set()
        self._highest = 0
        self._all: list[Opening] = []
        self._reused = 0

    def fresh(self, count: int, most: int) -> list[Opening]:
        """Up to `count` beginnings that no text had, none of more than `most` tokens."""
        openings: list[Opening] = []
        while len(openings) < count and (candidate := next(self._candidates, None)) is not None:
            if (start := self._new(candidate, most)) is not None:
                openings.append(start)
        self._all += openings
        return openings

    def used(self, room: int) -> Opening:
        """A beginning that another text has too, with other words after it while there is room."""
        fitting = [start for start in self._all if start.cost <= room] or self._all[:1]
        if not fitting:
            return Opening((), 0)
        turn, place = divmod(self._reused, len(fitting))
        self._reused += 1
        start = fitting[place]
        words, cost = [*start.words], start.cost
        while turn and cost < room:  # the number of the turn, written in words
            turn, digit = divmod(turn, len(self._words))
            word = self._words[digit]
            words.append(word)
            cost += max(1, len(self._tokenizer.encode(f"{_NEXT} {word}")) - len(self._tokenizer.encode(_NEXT)))
        return start if cost > room else Opening(tuple(words), cost)

    def _new(self, text: str, most: int) -> Opening | None:
        ids = self._tokenizer.encode(f"{self._lead}{text} {_NEXT}")
        if len(ids) <= self._skipped:
            return None
        self._highest = max(self._highest, *ids)
        first = ids[self._skipped]
        cost = max(1, len(self._tokenizer.encode(f"{self._lead}{text}")) - self._skipped)
        if first in self._used or cost > most:
            return None
        self._used.add(first)
        return Opening((text,), cost)

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


@cache
def plain_words() -> tuple[str, ...]:
    """The shipped list: lower case, letters only, no word twice."""
    text = (files("assay.run.workloads") / "data" / "words.txt").read_text(encoding="ascii")
    return tuple(text.split())


_WORDS = 256  # different words; each is counted alone once, which costs a server's tokenizer one request
_FEWEST = 16
_TRIES = 120
_STUBBORN, _AFRESH = 40, 4  # this many tries keep the beginning; after them, one in this many takes another
_REMEMBERED = 64  # tokens that are kept of each text after what all begin with, to say how much two texts share
_AFTER = "and"
# What may end a text that lacks a token or two where no word is that short.
_ENDINGS = (".", "!", "?", ",", "s", "y", "a", "ed", "er", " a", " I", "..", "ing", ". A", " so", "zz")


@dataclass(frozen=True, slots=True)
class ExactText:
    """A text, and the tokens that it begins with."""

    text: str
    start: tuple[int, ...]


class Writer:
    """Writes texts of an exact length for one tokenizer, no two with the same beginning while beginnings last."""

    def __init__(self, tokenizer: Tokenizer, seed: int) -> None:
        self._tokenizer = tokenizer
        self._random = np.random.default_rng([seed, 20])
        words = [str(word) for word in self._random.permutation(plain_words())]
        self._words, costs, self.stays_checked = self._known(words[:_WORDS])
        self._costs = np.array(costs)
        self._of_cost = {int(cost): np.flatnonzero(self._costs == cost) for cost in set(costs)}
        self._openings = Openings(tokenizer, words)

    def write(
        self,
        lengths: Sequence[int],
        before: str = "",
        around: Callable[[str], str] = str,
        at: str = "workload.input_tokens",
    ) -> list[ExactText]:
        ids = self._tokenizer.encode(around(before))
        bare = len(ids)
        # A template with characters that the tokenizer does not know comes back as something else.
        self.stays_checked = self.stays_checked and self._round_trip(around(before), ids)
        openings = self._openings.take([max(length - bare, 1) for length in lengths], bool(bare))
        lead = f"{before} " if before else ""
        return [
            self._fit(opening, length, bare, lambda words: around(lead + " ".join(words)), at)
            for opening, length in zip(openings, lengths, strict=True)
        ]

    def _known(self, words: list[str]) -> tuple[list[str], list[int], bool]:
        """The words that are fit for use, what each costs inside a text, and whether round trips can be checked."""
        texts = [f"{_AFTER} {word}" for word in words]
        encoded = [self._tokenizer.encode(text) for text in texts]
        costs = [len(ids) - len(self._tokenizer.encode(_AFTER)) for ids in encoded]
        whole = [cost > 0 for cost in costs]
        try:
            stable = [fit and self._round_trip(text, ids) for fit, text, ids in zip(whole, texts, encoded, strict=True)]
        except MeasureError:  # a server that cuts text into tokens need not be able to put it together
            stable = []
        checked = sum(stable) >= _FEWEST
        fit = [number for number, good in enumerate(stable if checked else whole) if good]
        if not fit:
            message = f"{self._tokenizer.name} gives no tokens for plain words, such as {words[0]!r}"
            try_ = "check that it is the model's own tokenizer"
            raise MeasureError(message, code="tokenizer", at="target.tokenizer", try_=try_)
        return [words[number] for number in fit], [costs[number] for number in fit], checked

    def _fit(self, opening: Opening, length: int, bare: int, whole: Callable[[list[str]], str], at: str) -> ExactText:
        words = [*opening.words, *self._draft(length - bare - opening.cost)]
        for tried in range(_TRIES):
            if tried > _STUBBORN and tried % _AFRESH == 0:
                words = self._afresh(length - bare)
            text = whole(words)
            ids = self._tokenizer.encode(text)
            gap = length - len(ids)
            if gap == 0 and (not self.stays_checked or self._round_trip(text, ids)):
                return ExactText(text, tuple(ids[: bare + _REMEMBERED]))
            ended = self._ended(words, whole, length) if 0 < gap < self._costs.min() else None
            words = ended or self._corrected(words, gap, min(len(opening.words), len(words)))
        message = f"no plain text of exactly {length} tokens was found for {self._tokenizer.name} in {_TRIES} tries"
        try_ = "ask for another length, or give prompts of your own with workload.file"
        raise MeasureError(message, code="prompt-length", at=at, try_=try_)

    def _afresh(self, room: int) -> list[str]:
        """Words that begin in another way, where the first beginning leads nowhere."""
        begin = str(self._random.choice([*self._words, *ascii_letters]))
        return [begin, *self._draft(room - self._cost(begin))]

    def _round_trip(self, text: str, ids: Sequence[int]) -> bool:
        """Whether tokens that become text again are as many as before."""
        back = self._tokenizer.decode(ids)
        return back == text or len(self._tokenizer.encode(back)) == len(ids)

    def _draft(self, room: int) -> list[str]:
        """Words whose costs add up to the room that is left, or as near below it as words allow."""
        words: list[str] = []
        while room > 0:
            picked = self._random.integers(len(self._words), size=room // int(self._costs.min()) + 1)
            total = np.cumsum(self._costs[picked])
            fitting = int(np.searchsorted(total, room, side="right"))
            words += [self._words[number] for number in picked[:fitting]]
            room -= int(total[fitting - 1]) if fitting else 0
            if fitting < len(picked):  # the next word is too long for what is left
                return [*words, *self._last(room)]
        return words

    def _last(self, room: int) -> list[str]:
        """Words for a small room: one that fills it, else the longest that fits, and so on."""
        words = []
        while costs := [cost for cost in self._of_cost if cost <= room]:
            cost = room if room in self._of_cost else max(costs)
            words.append(self._words[int(self._random.choice(self._of_cost[cost]))])
            room -= cost
        return words

    def _corrected(self, words: list[str], gap: int, kept: int) -> list[str]:
        """The words with some at the end replaced, so that the gap should close; chance makes each try another."""
        taken = int(self._random.integers(1, 4)) if gap <= 0 or gap < self._costs.min() else 0
        cut = min(max(len(words) - kept, 0), taken + max(0, -gap) // int(self._costs.max()))
        left = words[: len(words) - cut]
        room = gap + sum(self._cost(word) for word in words[len(words) - cut :])
        while room < 0 and len(left) > kept:
            room += self._cost(left.pop())
        return [*left, *self._draft(room)]

    def _cost(self, word: str) -> int:
        """What a word was found to cost; a word with an ending costs about as much as its tokens alone."""
        try:
            return int(self._costs[self._words.index(word)])
        except ValueError:
            return max(1, len(self._tokenizer.encode(word)))

    def _ended(self, words: list[str], whole: Callable[[list[str]], str], length: int) -> list[str] | None:
        if not words:
            return None
        tried = [[*words[:-1], words[-1] + ending] for ending in _ENDINGS]
        counts = self._tokenizer.count([whole(candidate) for candidate in tried])
        good = [candidate for candidate, count in zip(tried, counts, strict=True) if count == length]
        return good[int(self._random.integers(len(good)))] if good else None
