"""What the pairs of an experiment say about one metric: better, worse or cannot tell; and whether run order matters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assay.analyse.ab.pairs import RUNS, Pair, Scale, Values, differences, scale_of, second_against_first
from assay.analyse.ab.sequential_test import MOST_BLOCKS, blocks_needed, fewest_blocks, interval, threshold, won
from assay.analyse.distributions import t_quantile
from assay.analyse.intervals import LEVEL
from assay.analyse.records import Answer, Interval
from assay.analyse.text import count, percent
from assay.metrics import Better


@dataclass(frozen=True, slots=True)
class ABDecision:
    """What is told about one metric, of b against a."""

    metric: str
    """With its statistic, where one was asked for."""
    unit: str
    better: Better | None
    a: float | None
    """Median over the runs of complete pairs."""
    b: float | None
    change: float | None
    """Relative; the middle of the differences of all blocks (Hodges and Lehmann)."""
    interval: Interval | None
    """Of the change; None where there are too few blocks for one."""
    answer: Answer
    because: tuple[str, ...]
    """One plain sentence per reason."""
    pairs: int
    """Complete ones."""
    failed: int
    """Pairs of which a run failed, or did not give the number."""
    failures: tuple[str, ...]
    """What went wrong, each once."""
    more_for_seen: int | None = None
    """After how many more pairs half of all experiments would tell a difference of the size seen, about.

    None for too many to name, or none seen.
    """
    more_for_smallest: int | None = None
    """The same for the smallest difference of interest."""
    differs: bool = False
    """Whether the sides were told apart, whatever is made of it."""
    alike: bool = False
    """Whether any difference is smaller than the smallest of interest."""

    @property
    def is_final(self) -> bool:
        """Whether more pairs are not needed."""
        return self.differs or self.alike


def decide(
    metric: str,
    unit: str,
    better: Better | None,
    pairs: Sequence[Pair],
    *,
    smallest: float = 0.0,
    level: float = LEVEL,
) -> ABDecision:
    """Say what the pairs tell so far; may be asked after every block, and keeps its promise all the same.

    Args:
        pairs: all that were measured, in order, the failed ones too.
        level: the promise: 1 - level is how often equal things are ever called different.
    """
    good = [pair for pair in pairs if pair.complete]
    scale = scale_of(good)
    values = differences(good, scale)
    told = _Evidence(scale, values, better, smallest, level)
    answer, because = told.answer()
    ends = told.ends
    return ABDecision(
        metric=metric,
        unit=unit,
        better=better,
        a=_median([pair.a for pair in good if pair.a is not None]),
        b=_median([pair.b for pair in good if pair.b is not None]),
        change=scale.relative(told.centre) if values.size and told.has_size else None,
        interval=None
        if ends is None
        else Interval(
            scale.relative(ends[0]),
            scale.relative(ends[1]),
            level,
            f"bets on the order of {count(values.size, 'block')}, drawn by lot; holds at every look",
        ),
        answer=answer,
        because=because,
        pairs=len(good),
        failed=len(pairs) - len(good),
        failures=tuple(dict.fromkeys(pair.why for pair in pairs if pair.why)),
        more_for_seen=told.more(told.centre),
        more_for_smallest=told.more(told.of_interest),
        differs=told.differs,
        alike=told.alike,
    )


def _median(values: Sequence[float]) -> float | None:
    return float(np.median(values)) if values else None


def centre_of(values: Values) -> float:
    """The middle of all means of two values (Hodges and Lehmann): hardly moved by outliers, and still precise."""
    first, second = np.triu_indices(values.size)
    return float(np.median((values[first] + values[second]) / 2))


class _Evidence:
    """The differences of an experiment, and what follows from them."""

    def __init__(self, scale: Scale, values: Values, better: Better | None, smallest: float, level: float) -> None:
        self.scale, self.values, self.better, self.smallest, self.level = scale, values, better, smallest, level
        self.has_size = scale.logarithmic or scale.base > 0
        self.centre = centre_of(values) if values.size else 0.0
        self.ends = interval(values, level) if self.has_size else None
        # Asked of the bets themselves: the end of an interval is found by halving, and may miss by its last digit.
        self.differs = bool(values.size) and won(values) >= threshold(level)
        self.margin = (scale.difference(-smallest), scale.difference(smallest)) if self.has_size else (0.0, 0.0)

    def answer(self) -> tuple[Answer, tuple[str, ...]]:
        if not self.values.size:
            return "cannot tell", ("no pair was measured whole",)
        if not self.has_size:
            return "cannot tell", ("the first side is zero, so no relative change exists",)
        if not self.differs:
            small = f"any difference is smaller than the {percent(self.smallest)} that is of interest"
            return "cannot tell", (small,) if self.alike else self._inconclusive()
        if self.better is None:
            return "cannot tell", ("it changed, but which direction is better was not declared",)
        improved = (self.centre > 0) == (self.better == "higher")
        return ("better" if improved else "worse"), self._may_be_small()

    def more(self, effect: float) -> int | None:
        """About how many more pairs tell such a difference, if blocks go on to differ as they did."""
        if self.values.size < RUNS or self.differs or self.alike:
            return None
        needed = blocks_needed(effect, float(self.values.std(ddof=1)), self.values, level=self.level)
        return None if needed is None else needed * RUNS

    @property
    def of_interest(self) -> float:
        """The smallest difference of interest, in the direction that is seen."""
        return math.copysign(self.margin[1], self.centre)

    @property
    def alike(self) -> bool:
        """Whether the whole interval lies within the margin."""
        ends = self.ends
        return bool(self.smallest) and ends is not None and self.margin[0] <= ends[0] and ends[1] <= self.margin[1]

    def _may_be_small(self) -> tuple[str, ...]:
        ends = self.ends
        if not self.smallest or ends is None:
            return ()
        if self.alike:
            return (f"by less than the {percent(self.smallest)} that is of interest",)
        nearest = min(abs(ends[0]), abs(ends[1])) if ends[0] * ends[1] > 0 else 0.0
        if nearest >= self.margin[1]:
            return ()
        return (f"whether by the {percent(self.smallest)} that is of interest is not certain",)

    def _inconclusive(self) -> tuple[str, ...]:
        fewest = fewest_blocks(self.level)
        if self.values.size < fewest:
            least = f"below {fewest * RUNS} pairs, luck in drawing their order could show any difference"
            return (f"{count(self.values.size, 'block')} of {RUNS} pairs cannot tell: {least}",)
        if not self.values.any():
            return ("both sides gave the same value in every pair",)
        return (f"the change may be {self._shown_ends()}, which includes none", self._needed())

    def _shown_ends(self) -> str:
        if self.ends is None:
            return "any"
        low, high = (percent(self.scale.relative(end), signed=True) for end in self.ends)
        return f"{low} to {high}"

    def _needed(self) -> str:
        """How many more pairs would tell what is seen, and what is of interest."""
        seen = self._pairs_for(self.centre, f"a difference of the size seen ({self._percent(self.centre)})")
        if not self.smallest:
            return seen
        return f"{seen}; {self._pairs_for(self.of_interest, f'one of {percent(self.smallest)}')}"

    def _pairs_for(self, effect: float, what: str) -> str:
        more = self.more(effect)
        number = f"more than {MOST_BLOCKS * RUNS:,} pairs" if more is None else f"about {more:,} more pairs"
        return f"{number} would tell {what}"

    def _percent(self, difference: float) -> str:
        return percent(self.scale.relative(difference), signed=True)


# Asked once, at the end, of every experiment: one in a hundred may be luck.
_LEVEL = 0.99


def order_note(pairs: Sequence[Pair]) -> str:
    """The sentence that says that order matters, and by how much; empty where the pairs do not show it."""
    scale = scale_of(pairs)
    if not scale.logarithmic and scale.base == 0:
        return ""
    found = second_against_first(pairs, scale)
    if found.size < fewest_blocks():
        return ""
    ends = _mean_interval(found)
    if ends[0] <= 0 <= ends[1]:
        return ""
    low, high = (percent(scale.relative(end), signed=True) for end in ends)
    shown = percent(scale.relative(float(found.mean())), signed=True)
    return (
        f"run order matters: the second run of a pair gives {shown} [{low}, {high}] against the first; the order is "
        "balanced and drawn by lot, so the comparison stands"
    )


def _mean_interval(values: Values) -> tuple[float, float]:
    half = t_quantile(_LEVEL, values.size - 1) * float(values.std(ddof=1)) / math.sqrt(values.size)
    mean = float(values.mean())
    return mean - half, mean + half
