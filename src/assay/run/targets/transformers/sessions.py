"""Who asks what in which call: each row of a batch goes through the turns of an item, then takes the next item."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from assay.run.targets.transformers.prompts import Ask
from assay.run.workloads import Item


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
