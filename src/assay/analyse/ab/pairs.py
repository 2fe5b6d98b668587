"""Runs of two sides put together: pairs, blocks of two pairs, and the difference that each block shows.

A block is A B B A or B A A B; a fair coin decides which. Whatever moves steadily while a block runs (a machine that
gets warm) takes as much from one side as from the other.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from assay.analyse.ab.readings import Reading, Wanted

Order = Literal["ABBA", "BAAB"]
# Heads and tails.
ORDERS: tuple[Order, Order] = ("ABBA", "BAAB")
# Of one side in a block.
RUNS = 2

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Pair:
    """The run of each side that were measured one right after the other."""

    block: int
    a_first: bool
    a: float | None
    """None where the run failed or did not give the number."""
    b: float | None
    why: str = ""
    """Why the pair does not count, with the run that is to blame; empty for a good one."""

    @property
    def complete(self) -> bool:
        """Whether both runs gave their number."""
        return self.a is not None and self.b is not None


@dataclass(frozen=True, slots=True)
class Scale:
    """How a difference is told: as a ratio where all numbers are positive, else relative to the first side."""

    logarithmic: bool
    base: float
    """What a plain difference is relative to; 0 where nothing can be."""

    def take(self, value: float) -> float:
        """A number on the scale on which sides are subtracted."""
        return math.log(value) if self.logarithmic else value

    def relative(self, difference: float) -> float:
        """A difference on that scale as a share of the first side."""
        return math.expm1(min(difference, 700.0)) if self.logarithmic else difference / self.base

    def difference(self, share: float) -> float:
        """A share of the first side as a difference on that scale; minus infinity for all of it or more."""
        if not self.logarithmic:
            return share * self.base
        return math.log1p(share) if share > -1 else -math.inf


def pairs_of(
    a: Sequence[Reading], b: Sequence[Reading], orders: Sequence[Order], wanted: Wanted, *, block: int = 0
) -> tuple[Pair, ...]:
    """Put the i-th run of one side beside the i-th run of the other, as far as both were made."""
    found = []
    for index, (one, other) in enumerate(zip(a, b, strict=False)):
        inside, second = divmod(index, RUNS)
        # Of A B B A the first pair begins with A and the second with B.
        a_first = (orders[inside] == "ABBA") != bool(second)
        blamed = [
            f"{side} run {run.run}: {why}" for side, run in (("a", one), ("b", other)) if (why := _why(run, wanted))
        ]
        found.append(Pair(block + inside, a_first, _finite(one, wanted), _finite(other, wanted), "; ".join(blamed)))
    return tuple(found)


def _finite(run: Reading, wanted: Wanted) -> float | None:
    value = run.value(wanted)
    return value if value is not None and math.isfinite(value) else None


def _why(run: Reading, wanted: Wanted) -> str:
    """Why a run cannot be compared; empty where it can."""
    return run.why_absent(wanted) or ("" if _finite(run, wanted) is not None else f"its {wanted} is no finite number")


def scale_of(pairs: Sequence[Pair]) -> Scale:
    """The scale on which the numbers of an experiment are compared."""
    first = [pair.a for pair in pairs if pair.a is not None]
    values = [*first, *(pair.b for pair in pairs if pair.b is not None)]
    base = abs(sum(first) / len(first)) if first else 0.0
    return Scale(bool(values) and min(values) > 0, base)


def differences(pairs: Sequence[Pair], scale: Scale) -> Values:
    """What each block says about b against a: the mean over its pairs; blocks without a complete pair are left out."""
    return _means((pair.block, change) for pair, change in _changes(pairs, scale))


def second_against_first(pairs: Sequence[Pair], scale: Scale) -> Values:
    """By how much the second run of a pair differs from the first, in blocks whose pairs are both complete.

    The two pairs of a block begin with different sides, so what the sides differ by falls out.
    """
    complete = Counter(pair.block for pair in pairs if pair.complete)
    whole = [pair for pair in pairs if complete[pair.block] == RUNS]
    return _means((pair.block, change if pair.a_first else -change) for pair, change in _changes(whole, scale))


def _changes(pairs: Sequence[Pair], scale: Scale) -> Iterator[tuple[Pair, float]]:
    for pair in pairs:
        if pair.a is not None and pair.b is not None:
            yield pair, scale.take(pair.b) - scale.take(pair.a)


def _means(found: Iterable[tuple[int, float]]) -> Values:
    blocks: dict[int, list[float]] = {}
    for block, change in found:
        blocks.setdefault(block, []).append(change)
    return np.array([sum(changes) / len(changes) for _, changes in sorted(blocks.items())], dtype=np.float64)
