"""The first bad item of an ordered list, found under noise: which one to measure next, and how sure the answer is.

Items go from good to bad, and somewhere between two of them a step lies. Each measured item is compared with the good
end in blocks of runs; a block says how much worse the item is, with noise. The model is one step of unknown place, with
blocks around 0 before it and at or beyond the step after it. Every block gives a weight of evidence (log odds) that its
item is bad; all weights together give the chance of each place, and that is the confidence of the answer. An item that
was judged wrongly is thus outvoted by its neighbours, and measured again where that decides.

Blocks of one moment may be disturbed together, so noise is taken to have heavy tails (Student's t with 4 degrees of
freedom) and no single block can decide about an item.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from assay.analyse.ab.evidence import centre_of
from assay.analyse.intervals import LEVEL, t_interval

Values = NDArray[np.float64]
Answer = Literal["good", "bad", "cannot tell"]

# Decided with odds of 99 to 1: an answer rests on two items, and both must be right in 95 of 100 searches.
LIMIT = math.log(99)
_HEAVY = 4.0
# A block counts for this much of the limit at most, so that two must agree.
_MOST_OF_A_BLOCK = 0.6
# An item between good and bad is called so only where chance would say it in one of a hundred.
_CLEAR = 0.99
# Two neighbours between which a step is claimed were picked for looking so, which asks for more.
_CLEAR_STEP = 0.999
# Half-way is only what lies this much of the step away from both.
_APART = 0.2
_FEWEST = 4  # blocks


@dataclass(frozen=True, slots=True)
class Levels:
    """What good and bad mean, in log ratios against the good end; positive is worse."""

    good: float
    """A block at or below this speaks for good as much as any can."""
    bad: float
    """A block at or above this speaks for bad as much as any can."""
    step: float
    """By how much the bad end is worse."""
    spread: float
    """Of blocks, as the ends showed it."""

    @property
    def boundary(self) -> float:
        """Half-way: here a block says nothing."""
        return (self.good + self.bad) / 2


@dataclass(frozen=True, slots=True)
class BisectGuess:
    """Where the first bad item is, as far as is known."""

    first: int
    """The first item that may be the first bad one."""
    last: int
    """The last one that may be; the same as `first`, unless those before it cannot be measured."""
    confidence: float


def levels_of(ends: Sequence[Values], boundary: float | None = None) -> Levels:
    """What good and bad mean, from blocks that compare the bad end with the good one.

    Args:
        ends: differences of blocks, by item; the first are those of the bad end, the others only tell of the spread.
        boundary: from which difference on an item is bad; half of that between the ends when left out.
    """
    step = centre_of(ends[0])
    middle = step / 2 if boundary is None else boundary
    half = min(middle, step - middle)
    return Levels(middle - half, middle + half, step, pooled_spread(ends))


def pooled_spread(groups: Sequence[Values]) -> float:
    """The spread of blocks around the middle of their own item, over all items."""
    deviations = [group - group.mean() for group in groups if group.size > 1]
    freedom = sum(group.size - 1 for group in deviations)
    return math.sqrt(sum(float((group**2).sum()) for group in deviations) / freedom) if freedom else 0.0


def weight_of(blocks: Values, levels: Levels) -> float:
    """The log odds that an item is bad rather than good, from its blocks alone; 0 for one that is clearly neither.

    Odds between good and bad say nothing about what lies half-way: there they would follow the smallest error of the
    boundary.
    """
    quarter = (levels.bad - levels.good) / 4
    if _lies_in(blocks, levels.boundary - quarter, levels.boundary + quarter):
        return 0.0
    return float(sum(_weight(float(value), levels) for value in blocks))


def _weight(value: float, levels: Levels) -> float:
    # Beyond a level an item fits it perfectly: how much worse than bad something is does not make it less bad.
    to_good = max(value - levels.good, 0.0)
    to_bad = max(levels.bad - value, 0.0)
    spread = max(levels.spread, abs(levels.step) * 1e-6)
    ratio = math.log1p((to_good / spread) ** 2 / _HEAVY) - math.log1p((to_bad / spread) ** 2 / _HEAVY)
    most = _MOST_OF_A_BLOCK * LIMIT
    return min(max((_HEAVY + 1) / 2 * ratio, -most), most)


def answer_of(weight: float) -> Answer:
    """What the evidence about one item says."""
    if abs(weight) < LIMIT:
        return "cannot tell"
    return "bad" if weight > 0 else "good"


def places(weights: Mapping[int, float], items: int) -> Values:
    """The chance that each item is the first bad one."""
    logs = np.zeros(items)
    for item, weight in weights.items():
        logs[: item + 1] += weight  # it is bad if the first bad one is it or lies before it
    logs[0] = -math.inf
    chances = np.exp(logs - logs.max())
    probabilities: Values = chances / chances.sum()
    return probabilities


def guess_of(chances: Values, unmeasurable: Collection[int]) -> BisectGuess:
    """The most likely place; items that cannot be measured count together with the next one that can."""
    best = BisectGuess(1, 1, -1.0)
    first = 1
    for item in range(1, chances.size):
        if item in unmeasurable and item < chances.size - 1:
            continue
        mass = min(float(chances[first : item + 1].sum()), 1.0)
        if mass > best.confidence:
            best = BisectGuess(first, item, mass)
        first = item + 1
    return best


def next_item(chances: Values, closed: Collection[int]) -> int | None:
    """The item whose answer would tell most: it halves the chances best; None where no open one is left."""
    below = np.cumsum(chances)
    open_ = [item for item in range(1, chances.size - 1) if item not in closed]
    return min(open_, key=lambda item: (abs(float(below[item]) - 0.5), item), default=None)


def is_between(blocks: Values, levels: Levels) -> bool:
    """Whether an item is clearly neither as good as the good end nor as bad as the bad one."""
    return _lies_in(blocks, _APART * levels.step, (1 - _APART) * levels.step)


def _is_a_step(before: Values, after: Values, levels: Levels) -> bool:
    """Whether two neighbours differ by more than noise.

    Where an item lies half-way, luck calls it good or bad; two such items in a row would pass for the step.
    """
    apart = float(after.mean()) - (float(before.mean()) if before.size else 0.0)
    parts = 1 / after.size + (1 / before.size if before.size else 0.0)
    return apart > NormalDist().inv_cdf(_CLEAR_STEP) * levels.spread * math.sqrt(parts)


def _widened(sides: tuple[int, int], chances: Values, measured: Mapping[int, Values], levels: Levels) -> BisectGuess:
    """The range between the nearest items that are clearly better and clearly worse than two that are not apart."""
    both = np.concatenate([measured[side] for side in sides])
    first = max((item for item in measured if item < sides[0] and _is_a_step(measured[item], both, levels)), default=0)
    after = (item for item in measured if item > sides[1] and _is_a_step(both, measured[item], levels))
    last = min(after, default=chances.size - 1)
    return BisectGuess(first + 1, last, min(float(chances[first + 1 : last + 1].sum()), 1.0))


def _lies_in(blocks: Values, low: float, high: float) -> bool:
    """Whether the middle of an item clearly lies between two bounds."""
    if blocks.size < _FEWEST:
        return False
    ends = t_interval(blocks, _CLEAR)
    return low < ends[0] and ends[1] < high


@dataclass(frozen=True, slots=True)
class BisectState:
    """How far a search is."""

    chances: Values
    """Of each item to be the first bad one."""
    guess: BisectGuess
    next: int | None
    """The item to measure; None where the guess is good enough, or no item is left to measure."""
    is_clear: bool = False
    """Whether the two items at the guess are themselves clearly apart, so that a step lies between them."""


def standing(
    blocks: Mapping[int, Values],
    items: int,
    *,
    boundary: float | None = None,
    skipped: Collection[int] = (),
    closed: Collection[int] = (),
    stay: int | None = None,
    level: float = LEVEL,
) -> BisectState:
    """What all blocks together say, and which item should be measured next.

    Args:
        blocks: item → how much worse than the good one its blocks say it is; the last item must be among them.
        items: how many there are; the first is good and the last is bad.
        stay: the item that was measured last; it is measured until it is decided, since another one must be built.
    """
    last = items - 1
    done = {*skipped, *closed}
    levels = levels_of([blocks[last], *(values for item, values in blocks.items() if item != last)], boundary)
    weights = {
        item: weight_of(values, levels) for item, values in blocks.items() if 0 < item < last and item not in skipped
    }
    chances = places(weights, items)
    guess = guess_of(chances, skipped)
    if guess.confidence >= level:
        measured = {0: np.zeros(0)} | {item: values for item, values in blocks.items() if item not in skipped}
        # The nearest measured items on both sides.
        sides = (
            max(item for item in measured if item < guess.first),
            min(position for position in measured if position >= guess.last),
        )
        # That the ends differ is known before any search.
        if sides == (0, last) or _is_a_step(measured[sides[0]], measured[sides[1]], levels):
            return BisectState(chances, guess, None, is_clear=True)
        open_ = [item for item in sides if 0 < item < last and item not in done]
        more = min(open_, key=lambda item: (blocks[item].size, item), default=None)
        return BisectState(chances, _widened(sides, chances, measured, levels), more)
    if stay is not None and stay not in done and answer_of(weights.get(stay, 0.0)) == "cannot tell":
        return BisectState(chances, guess, stay)
    return BisectState(chances, guess, next_item(chances, done))
