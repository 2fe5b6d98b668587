"""Answers of one block that were read in outline: what they say is put into columns all at once."""

from __future__ import annotations

from itertools import chain

import numpy as np
from numpy.typing import NDArray

from assay.run.targets.served.alike import Outline


class Outlines:
    """Outlines of one block, each with its row and where its body begins."""

    def __init__(self) -> None:
        self.finishes: list[int] = []
        self._rows: list[int] = []
        self._starts: list[int] = []
        self._found: list[Outline] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: int, start: int, outline: Outline, finish: int) -> None:
        """Keep one that is exact, with the code of its finish reason."""
        self.finishes.append(finish)
        self._rows.append(row)
        self._starts.append(start)
        self._found.append(outline)

    def rows(self) -> NDArray[np.int64]:
        return np.asarray(self._rows, dtype=np.int64)

    def events(self) -> list[int]:
        return [one.events for one in self._found]

    def usage(self, name: str) -> NDArray[np.int64]:
        """One of the server's counts of each; -1 where it gave none."""
        given = [getattr(one.usage, name) for one in self._found]
        return np.array([-1 if count is None else count for count in given], dtype=np.int64)

    def text_ends(self) -> NDArray[np.int64]:
        """Where the events with text end in the content."""
        found, starts = self._found, np.asarray(self._starts, dtype=np.int64)
        counts = np.array([len(one.sizes) for one in found], dtype=np.int64)
        reached = np.fromiter(chain.from_iterable(one.sizes for one in found), np.int64, int(counts.sum()))
        reached += np.repeat(np.array([one.around for one in found], dtype=np.int64), counts)
        np.cumsum(reached, out=reached)
        before = np.concatenate([np.zeros(1, dtype=np.int64), reached[np.cumsum(counts)[:-1] - 1]])
        # Two line breaks follow an event, and are not part of it.
        reached += np.repeat(starts + np.array([one.start for one in found], dtype=np.int64) - 2 - before, counts)
        edges = [
            begin + end
            for begin, one in zip(self._starts, found, strict=True)
            if one.lead or one.trail
            for end in (*one.lead, *one.trail)
        ]
        return np.concatenate([reached, np.array(edges, dtype=np.int64)])

    def finish_ends(self) -> NDArray[np.int64]:
        """Where the events end that gave the finish reason and one token without text."""
        ends = [
            begin + one.finish_end
            for begin, one in zip(self._starts, self._found, strict=True)
            if tokens_of(one) != one.events
        ]
        return np.array(ends, dtype=np.int64)


def tokens_of(outline: Outline) -> int:
    """Tokens that were sent: the server may have kept some to itself. -1 where it gave no count."""
    usage = outline.usage
    return -1 if usage.output is None else usage.output - min(usage.reasoning or 0, usage.output)


def is_exact(outline: Outline) -> bool:
    """Whether each event with text carried one token; the last may have come with the finish reason."""
    missing = tokens_of(outline) - outline.events
    return missing == 0 or (missing == 1 and outline.finish_end >= 0)
