"""What the pairs of an experiment say about one metric: better, worse or cannot tell; and whether run order matters.

The evidence may be looked at after every block without being fooled more often.

The choice. A fair coin decides whether a block runs A B B A or B A A B. If the two sides are the same, then the four
numbers of a block would have been what they are whichever way the coin had fallen; only the sign of the block's
difference comes from the coin. So under "no difference" each difference is +d or -d with equal chance, given
everything before it and given its size d. Nothing else is assumed: noise may have heavy tails, drift, remember the run
before, come in bursts or in steps of a clock. The promise rests on the coin alone, which assay throws itself.

A bet on fair coins has no expected win. Start with a stake of 1, bet before each block a share of it on the
sign, and the chance to ever own 20 is at most 1 in 20 (Ville's inequality), however often one looks and whenever one
stops. Owning 20 is therefore the evidence that an answer of 95 % asks for. This is an always-valid test (a test
martingale, or e-process); alpha spending would need the number of looks beforehand, and a sequential t or mSPRT with a
normal model keeps its promise only as far as noise is normal.

The bet. If differences were normal around delta with spread sigma, the best share to bet on "+" for a size of d would
be tanh(delta d / sigma^2). Neither is known, so sizes are measured in the median size so far (its own included: the
sign is still open then) and the stake is divided among four steepnesses and two signs: tiny to large effects. Sizes are
cut at twice the median: no single disturbed block can ruin what the others have earned.

The interval. If b differs from a by a constant factor, then differences less that factor have signs by the coin again.
All factors against which the bets have not won 20 form the interval of 95 %; it holds at every look as well (a
confidence sequence), for which it is about twice as wide as one for a single look. Six blocks are the least
that can tell anything: with five coins, luck draws the extreme once in sixteen.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

import numpy as np

from assay.analyse.ab.pairs import RUNS, Pair, Scale, Values, differences, scale_of, second_against_first
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
    """After how many more pairs half of all experiments would detect a difference of this size, about.

    None for too many to name, or none seen.
    """
    more_for_smallest: int | None = None
    """The same for the smallest difference of interest."""
    differs: bool = False
    """Whether the sides were distinguished, whatever follows from it."""
    alike: bool = False
    """Whether any difference is smaller than the smallest of interest."""

    @property
    def is_final(self) -> bool:
        return self.differs or self.alike


def decide(
    metric: str, unit: str, better: Better | None, pairs: Sequence[Pair], *, smallest: float = 0.0, level: float = LEVEL
) -> ABDecision:
    """What the pairs show so far; may be asked after every block without losing its promise.

    Args:
        pairs: all that were measured, in order, the failed ones too.
        level: the promise: 1 - level is how often equal things are ever called different.
    """
    good = [pair for pair in pairs if pair.complete]
    scale = scale_of(good)
    values = differences(good, scale)
    evidence = _Evidence(scale, values, better, smallest, level)
    answer, because = evidence.answer()
    ends = evidence.ends
    return ABDecision(
        metric=metric,
        unit=unit,
        better=better,
        a=_median([pair.a for pair in good if pair.a is not None]),
        b=_median([pair.b for pair in good if pair.b is not None]),
        change=scale.relative(evidence.centre) if values.size and evidence.has_size else None,
        interval=None
        if ends is None
        else Interval(
            scale.relative(ends[0]),
            scale.relative(ends[1]),
            level,
            f"bets on the order of {count(values.size, 'block')}, in random order; holds at every look",
        ),
        answer=answer,
        because=because,
        pairs=len(good),
        failed=len(pairs) - len(good),
        failures=tuple(dict.fromkeys(pair.why for pair in pairs if pair.why)),
        more_for_seen=evidence.more(evidence.centre),
        more_for_smallest=evidence.more(evidence.of_interest),
        differs=evidence.differs,
        alike=evidence.alike,
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
        """About how many more pairs would show such a difference, if blocks keep differing as they did."""
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
            least = f"below {fewest * RUNS} pairs, the random order alone could show any difference"
            return (f"{count(self.values.size, 'block')} of {RUNS} pairs cannot tell: {least}",)
        if not self.values.any():
            return ("both sides gave the same value in every pair",)
        return (f"the interval ({self._shown_ends()}) includes no change", self._needed())

    def _shown_ends(self) -> str:
        if self.ends is None:
            return "any"
        low, high = (percent(self.scale.relative(end), signed=True) for end in self.ends)
        return f"{low} to {high}"

    def _needed(self) -> str:
        """How many more pairs would tell what is seen, and what is of interest."""
        observed = self._pairs_for(
            self.centre, f"a difference of this size ({percent(self.scale.relative(self.centre), signed=True)})"
        )
        if not self.smallest:
            return observed
        return f"{observed}; {self._pairs_for(self.of_interest, f'one of {percent(self.smallest)}')}"

    def _pairs_for(self, effect: float, what: str) -> str:
        more = self.more(effect)
        number = f"more than {MOST_BLOCKS * RUNS:,} pairs" if more is None else f"about {more:,} more pairs"
        return f"{number} would detect {what}"


# Asked once, at the end, of every experiment: one in a hundred may be luck.
_LEVEL = 0.99


def order_note(pairs: Sequence[Pair]) -> str:
    """The sentence that says that order matters, and by how much; empty where the pairs do not show it."""
    scale = scale_of(pairs)
    if not scale.logarithmic and scale.base == 0:
        return ""
    effects = second_against_first(pairs, scale)
    if effects.size < fewest_blocks():
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


# How steeply a bet grows with the size of a difference, and the part of the stake that bets so.
# The largest part is on large effects, so that the fewest blocks that can tell them do.
_BETS = ((0.1, 0.1), (0.3, 0.15), (0.9, 0.15), (3.0, 0.6))
_STEEPNESS = np.array([steepness for steepness, _ in _BETS])
_SHARES = np.log([share / 2 for _, share in _BETS])  # half on each sign
_LARGEST = 2.0  # in median sizes
# How far from the middle the end of an interval is looked for, in units of the widest deviation.
_REACH: list[float] = [2.0**step for step in range(10, -7, -1)]
_HALVINGS = 24
# More blocks than this are not worth naming.
MOST_BLOCKS = 2500
_NODES = 400


def threshold(level: float = LEVEL) -> float:
    """What the bets must have won, as a logarithm, for an answer with this promise."""
    return -math.log1p(-level)


def winnings(differences: Sequence[float] | Values, centre: float = 0.0) -> Values:
    """The logarithm of what the bets own after each block, if the true difference were `centre`."""
    bets = np.tanh(np.multiply.outer(_STEEPNESS, _ratios(differences, centre)))
    both = [_SHARES[:, None] + np.cumsum(np.log1p(sign * bets), axis=1) for sign in (1.0, -1.0)]
    owned: Values = np.logaddexp.reduce(np.concatenate(both), axis=0)
    return owned


def _stakes(differences: Values, sign: float) -> Values:
    """The logarithm of what each bet on one sign owns after all blocks."""
    bets = np.tanh(np.multiply.outer(_STEEPNESS, _ratios(differences, 0.0)))
    owned: Values = _SHARES + np.log1p(sign * bets).sum(axis=1)
    return owned


def won(differences: Sequence[float] | Values, centre: float = 0.0) -> float:
    """The logarithm of what the bets own after all blocks; that of the stake, 0, before the first."""
    return float(winnings(differences, centre)[-1]) if len(differences) else 0.0


def _ratios(differences: Sequence[float] | Values, centre: float) -> Values:
    """Each difference in units of the median size so far; none is larger than the largest that counts."""
    sizes: list[float] = []
    ratios: list[float] = []
    for difference in differences:
        deviation = float(difference) - centre
        if deviation == 0:  # the coin changes nothing about it, so there is nothing to bet on
            ratios.append(0.0)
            continue
        insort(sizes, abs(deviation))
        middle = (sizes[(len(sizes) - 1) // 2] + sizes[len(sizes) // 2]) / 2
        ratios.append(math.copysign(min(abs(deviation) / middle, _LARGEST), deviation))
    return np.array(ratios)


@cache
def fewest_blocks(level: float = LEVEL) -> int:
    """The number of blocks below which not even differences of equal size and sign can tell anything."""
    blocks = 1
    while won([1.0] * blocks) < threshold(level):
        blocks += 1
    return blocks


def interval(differences: Sequence[float] | Values, level: float = LEVEL) -> tuple[float, float] | None:
    """Where the true difference lies; None where too few blocks promise any end."""
    values = np.asarray(differences, dtype=np.float64)
    if not values.size:
        return None
    centre = float(np.median(values))
    widest = float(np.abs(values - centre).max())
    if widest == 0:
        return (centre, centre) if values.size >= fewest_blocks(level) else None
    ends = [_end(values, centre, side * widest, threshold(level)) for side in (-1.0, 1.0)]
    return None if ends[0] is None or ends[1] is None else (ends[0], ends[1])


def _end(values: Values, centre: float, unit: float, limit: float) -> float | None:
    """The outermost difference on one side that is not yet excluded, to many digits."""
    if won(values, centre + _REACH[0] * unit) < limit:
        return None
    outer, inner = _REACH[0], 0.0
    for reach in _REACH[1:]:
        if won(values, centre + reach * unit) < limit:
            inner = reach
            break
        outer = reach
    for _ in range(_HALVINGS):
        middle = (outer + inner) / 2
        outer, inner = (middle, inner) if won(values, centre + middle * unit) >= limit else (outer, middle)
    return centre + outer * unit


def blocks_needed(
    effect: float, spread: float, known: Sequence[float] | Values = (), *, level: float = LEVEL, chance: float = 0.5
) -> int | None:
    """About how many more blocks tell a difference with that chance; None for more than a few thousand.

    For normal differences the winnings of each bet grow by a sum of independent steps, so that their mean and variance
    say when most sums have passed the threshold.

    Args:
        known: the differences that were measured already; the bets continue from what they own after them.
    """
    if effect == 0:
        return None
    fewest = max(fewest_blocks(level) - len(known), 1)
    if spread <= abs(effect) * 1e-9:
        return fewest
    values = abs(effect) + spread * _normal_nodes()
    middle = float(np.median(np.abs(values)))
    ratios = np.sign(values) * np.minimum(np.abs(values) / middle, _LARGEST)
    gains = np.log1p(np.tanh(np.multiply.outer(_STEEPNESS, ratios)))
    z = NormalDist().inv_cdf(chance)
    steps = [
        _steps(float(gain.mean()), float(gain.var()), z, threshold(level) - float(share))
        for gain, share in zip(gains, _stakes(np.asarray(known), math.copysign(1.0, effect)), strict=True)
    ]
    needed = max(min(steps), fewest)
    return math.ceil(needed) if needed <= MOST_BLOCKS else None


def _steps(mean: float, variance: float, z: float, height: float) -> float:
    """How many steps of that mean and variance pass a height, z standard deviations below their mean."""
    if mean <= 0:
        return math.inf
    if height <= 0:
        return 0.0
    root = (z * math.sqrt(variance) + math.sqrt(z * z * variance + 4 * mean * height)) / (2 * mean)
    return root * root


@cache
def _normal_nodes() -> Values:
    """Values of the standard normal distribution, each as likely as any other."""
    normal = NormalDist()
    return np.array([normal.inv_cdf((node + 0.5) / _NODES) for node in range(_NODES)])
