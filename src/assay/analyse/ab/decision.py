"""What the pairs of an experiment say about one metric: better, worse or cannot tell; and whether run order matters.

What both designs trust. A fair coin decides whether a block runs A B B A or B A A B. If the two sides are the same,
then the four numbers of a block would have been what they are whichever way the coin had fallen; only the sign of the
block's difference comes from the coin. So under "no difference" each difference is +d or -d with equal chance, given
everything before it and given its size d. Nothing else is assumed: noise may have heavy tails, drift, remember the run
before, come in bursts or in steps of a clock. The promise rests on the coin alone, which assay throws itself.

With a declared number of pairs, looks are planned ahead (`planned`): the design with the most power. Without one, the
evidence is looked at after every block (`bets`): it may stop and continue at any time, and needs about twice the pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assay.analyse.ab import bets, planned
from assay.analyse.ab.evidence import Design, Evidence
from assay.analyse.ab.pairs import RUNS, Pair, Scale, Values, differences, scale_of, second_against_first
from assay.analyse.ab.planned import PairPlan
from assay.analyse.intervals import LEVEL, t_interval
from assay.analyse.records import Answer, Interval
from assay.analyse.text import count, percent
from assay.metrics import Better


@dataclass(frozen=True, slots=True)
class ABDecision:
    """What can be claimed about one metric, of b against a."""

    metric: str
    """With its statistic, where one was asked for."""
    unit: str
    better: Better | None
    a: float | None
    """Median over the runs of complete pairs."""
    b: float | None
    change: float | None
    """Relative. Of a planned design corrected for its looks, of an open-ended one the middle of all blocks' differences
    (Hodges and Lehmann)."""
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
    """After how many more pairs half of all open-ended experiments would detect a difference of this size, about.

    None for too many to name, none seen, or a planned design, which must not be continued.
    """
    more_for_smallest: int | None = None
    """The same for the smallest difference of interest."""
    plan_for_seen: int | None = None
    """How many pairs a new planned experiment needs to detect a difference of this size four times in five, about.

    None for too many to name, or none seen.
    """
    plan_for_smallest: int | None = None
    """The same for the smallest difference of interest."""
    differs: bool = False
    """Whether the sides were distinguished, whatever follows from it."""
    alike: bool = False
    """Whether any difference is smaller than the smallest of interest."""
    design: Design = "open-ended"
    """Which test was used: looks planned ahead, or bets that may be looked at after every block."""

    @property
    def is_final(self) -> bool:
        return self.differs or self.alike


def decide(
    metric: str,
    unit: str,
    better: Better | None,
    pairs: Sequence[Pair],
    *,
    smallest: float = 0.0,
    level: float = LEVEL,
    plan: PairPlan | None = None,
    ended: bool = False,
) -> ABDecision:
    """What the pairs show so far; may be asked after every block without losing its promise.

    Args:
        pairs: all that were measured, in order, the failed ones too.
        level: the promise: 1 - level is how often equal things are ever called different.
        plan: the looks that were planned ahead; left out, the experiment is open-ended.
        ended: nothing more is measured, whatever the pairs say: the plan's last look is now.
    """
    good = [pair for pair in pairs if pair.complete]
    scale = scale_of(good)
    values = differences(good, scale)
    evidence = _evidence(values, level, plan, ended=ended)
    concluded = _Conclusion(scale, values, evidence, plan, better, smallest, level)
    answer, because = concluded.answer()
    ends = concluded.ends
    return ABDecision(
        metric=metric,
        unit=unit,
        better=better,
        a=_median([pair.a for pair in good if pair.a is not None]),
        b=_median([pair.b for pair in good if pair.b is not None]),
        change=scale.relative(concluded.centre) if values.size and concluded.has_size else None,
        interval=None
        if ends is None
        else Interval(scale.relative(ends[0]), scale.relative(ends[1]), level, concluded.evidence.method),
        answer=answer,
        because=because,
        pairs=len(good),
        failed=len(pairs) - len(good),
        failures=tuple(dict.fromkeys(pair.why for pair in pairs if pair.why)),
        more_for_seen=concluded.more(concluded.centre),
        more_for_smallest=concluded.more(concluded.of_interest),
        plan_for_seen=concluded.to_plan(concluded.centre),
        plan_for_smallest=concluded.to_plan(concluded.of_interest),
        differs=concluded.differs,
        alike=concluded.alike,
        design="open-ended" if plan is None else "planned",
    )


def _evidence(values: Values, level: float, plan: PairPlan | None, *, ended: bool) -> Evidence:
    if plan is None:
        return bets.evidence(values, level)
    look = planned.look_at(values, plan, level, ended=ended)
    return Evidence(differs=False, centre=0.0, ends=None, method="") if look is None else look.evidence()


def _median(values: Sequence[float]) -> float | None:
    return float(np.median(values)) if values else None


class _Conclusion:
    """What follows from the evidence of an experiment."""

    def __init__(
        self,
        scale: Scale,
        values: Values,
        evidence: Evidence,
        plan: PairPlan | None,
        better: Better | None,
        smallest: float,
        level: float,
    ) -> None:
        self.scale, self.values, self.evidence, self.plan = scale, values, evidence, plan
        self.better, self.smallest, self.level = better, smallest, level
        self.has_size = scale.logarithmic or scale.base > 0
        self.centre, self.differs = evidence.centre, evidence.differs
        self.ends = evidence.ends if self.has_size else None
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
        """About how many more pairs would show such a difference, if blocks keep differing as they did."""
        if self.plan is not None or self.values.size < RUNS or self.differs or self.alike:
            return None
        needed = bets.blocks_needed(effect, float(self.values.std(ddof=1)), self.values, level=self.level)
        return None if needed is None else needed * RUNS

    def to_plan(self, effect: float) -> int | None:
        """About how many pairs a new experiment should plan to show such a difference."""
        if self.values.size < RUNS or self.differs or self.alike:
            return None
        needed = planned.blocks_to_plan(effect, float(self.values.std(ddof=1)), level=self.level)
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
        fewest = bets.fewest_blocks(self.level) if self.plan is None else planned.fewest_blocks(self.level)
        if self.values.size < fewest:
            least = f"below {fewest * RUNS} pairs, the random order alone could show any difference"
            return (f"{count(self.values.size, 'block')} of {RUNS} pairs cannot tell: {least}",)
        if not self.values.any():
            return ("both sides gave the same value in every pair",)
        if not self.evidence.method:
            return ("no planned look was reached",)
        return (f"the interval ({self._shown_ends()}) includes no change", self._needed())

    def _shown_ends(self) -> str:
        if self.ends is None:
            return "any"
        low, high = (percent(self.scale.relative(end), signed=True) for end in self.ends)
        return f"{low} to {high}"

    def _needed(self) -> str:
        """How many pairs would tell what is seen, and what is of interest."""
        seen = f"a difference of this size ({percent(self.scale.relative(self.centre), signed=True)})"
        wanted = [(self.centre, seen)]
        if self.smallest:
            wanted.append((self.of_interest, f"one of {percent(self.smallest)}"))
        if self.plan is None:
            return "; ".join(f"{self._more_pairs(effect)} would detect {what}" for effect, what in wanted)
        sizes = "; ".join(f"{self._planned_pairs(effect)} to detect {what}" for effect, what in wanted)
        return f"a new experiment should plan {sizes}"

    def _more_pairs(self, effect: float) -> str:
        more = self.more(effect)
        return f"more than {bets.MOST_BLOCKS * RUNS:,} pairs" if more is None else f"about {more:,} more pairs"

    def _planned_pairs(self, effect: float) -> str:
        pairs = self.to_plan(effect)
        return f"more than {planned.MOST_BLOCKS * RUNS:,} pairs" if pairs is None else f"about {pairs:,} pairs"


# Asked once, at the end, of every experiment: one in a hundred may be luck.
_LEVEL = 0.99


def order_note(pairs: Sequence[Pair]) -> str:
    """The sentence that says that order matters, and by how much; empty where the pairs do not show it."""
    scale = scale_of(pairs)
    if not scale.logarithmic and scale.base == 0:
        return ""
    effects = second_against_first(pairs, scale)
    if effects.size < bets.fewest_blocks():
        return ""
    ends = t_interval(effects, _LEVEL)
    if ends[0] <= 0 <= ends[1]:
        return ""
    low, high = (percent(scale.relative(end), signed=True) for end in ends)
    shown = percent(scale.relative(float(effects.mean())), signed=True)
    return (
        f"run order matters: the second run of a pair gives {shown} [{low}, {high}] against the first; the order is "
        "balanced and random, so the comparison stands"
    )
