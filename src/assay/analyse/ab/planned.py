"""The test of an experiment whose number of pairs is declared: a few looks planned ahead, exact whatever the noise.

As with the bets, only the coin is trusted. Without a difference, every sign of a block's difference could as well be
the other one. So the differences are held against the same differences with other signs: how often would coins alone
show as clear a sum? That is a permutation test, and exact. Of the 5 % of error that are allowed, each look may spend a
part (Lan and DeMets); what is not spent at a look remains for the next ones. The parts are those of O'Brien and
Fleming: little at first, most at the end, so that the last look is hardly weaker than a test that looks once. From the
eighth block on a little more is allowed, so that a large difference ends a long experiment early. Sizes are cut at
twice the median: no single disturbed block outweighs the others.

Sign patterns. Of up to 14 blocks all are tried. Each later block has the product of some of the first signs, so that
the patterns remain a group: a test over a group of patterns is exact, however few of all it has.

The interval. If b differs from a by a constant factor, then differences less that factor have signs by the coin again.
All factors that the look does not reject form the interval (a repeated confidence interval, Jennison and Turnbull): it
holds at all planned looks together, whatever ends the experiment.

The estimate. What ends an experiment early tends to be too large. The estimate is the difference under which half of
all experiments would have ended earlier with a larger one, or at this look with a larger sum (the stage-wise order of
Tsiatis, Rosner and Mehta): over all experiments, it is too large as often as too small.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from assay.analyse.ab.evidence import Evidence, centre_of, interval_of
from assay.analyse.ab.pairs import Values
from assay.analyse.intervals import LEVEL
from assay.analyse.text import count

# All sign patterns of this many blocks are tried; one of each two opposite ones is kept.
_WHOLE = 14
_HALF = 1 << (_WHOLE - 1)
_COLUMNS = 64  # made at a time, and kept
_LOOKS = 10
# The first look of a long experiment, and the part of the error that it may spend: as much as eight equal signs need.
_FIRST = 8
_EARLY = 5 / 32
_LARGEST = 2.0  # in median sizes
# Sums that are as near as this to each other, as a share of the largest, are equal but for rounding.
_TIE = 1e-5
_HALVINGS = 16
# More blocks than a test of normal differences with a known spread needs: for the looks, and for not knowing it.
_INFLATION, _UNKNOWN = 1.1, 2
# More blocks than this are not worth naming.
MOST_BLOCKS = 2500
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class PairPlan:
    """After how many blocks the evidence is looked at, and how much of the error each look may spend."""

    blocks: int

    @property
    def looks(self) -> tuple[int, ...]:
        """Blocks after which it is looked: every tenth of the budget, early ones that double, and the last."""
        step = -(-self.blocks // _LOOKS)
        early = (_FIRST * 2**power for power in range(self.blocks.bit_length()))
        wanted = {*range(step, self.blocks, step), *early}
        return (*sorted(look for look in wanted if _FIRST <= look < self.blocks), self.blocks)

    def spent(self, blocks: int, level: float = LEVEL) -> float:
        """How often equal things may have been called different by then."""
        error = 1 - level
        if blocks >= self.blocks:
            return error
        share = blocks / self.blocks
        late = 2 * (1 - _NORMAL.cdf(_NORMAL.inv_cdf(1 - error / 2) / math.sqrt(share)))
        return max(late, error * _EARLY * (1 + math.log2(blocks / _FIRST) / _FIRST))


def fewest_blocks(level: float = LEVEL) -> int:
    """The number of blocks below which not even differences of equal sign can tell anything."""
    return math.ceil(1 - math.log2(1 - level))


def look_at(values: Values, plan: PairPlan, level: float = LEVEL, *, ended: bool = False) -> PlannedLook | None:
    """The last planned look that was reached; None before the first.

    Args:
        ended: nothing more will be measured, for want of pairs or of time; then all of the error is spent.
    """
    looks = [look for look in plan.looks if look <= values.size]
    spends = [plan.spent(look, level) for look in looks]
    if ended and values.size and values.size < plan.blocks:
        # The end comes by time or failures, which the coins do not decide.
        looks = [*(look for look in looks if look < values.size), values.size]
        spends = [*spends[: len(looks) - 1], 1 - level]
    return PlannedLook(values[: looks[-1]], looks, spends) if looks else None


def blocks_to_plan(effect: float, spread: float, *, level: float = LEVEL, chance: float = 0.8) -> int | None:
    """How many blocks a new experiment should plan to detect a difference with that chance; None for thousands."""
    if effect == 0:
        return None
    quantiles = _NORMAL.inv_cdf((1 + level) / 2) + _NORMAL.inv_cdf(chance)
    needed = max(_INFLATION * (quantiles * spread / effect) ** 2 + _UNKNOWN, _FIRST)
    return math.ceil(needed) if needed <= MOST_BLOCKS else None


@dataclass(frozen=True, slots=True)
class _Look:
    """A look of the experiment, as it applies to any differences."""

    blocks: int
    largest: float
    """What a difference counts at most."""
    limit: float
    """What a sum must exceed, as a share of the sum of sizes."""


class PlannedLook:
    """The differences up to a look, against themselves with other signs."""

    def __init__(self, values: Values, looks: Sequence[int], spends: Sequence[float]) -> None:
        self._values, self._looks, self._spends = values, looks, spends

    @property
    def blocks(self) -> int:
        return self._values.size

    def evidence(self) -> Evidence:
        ends = interval_of(self._values, self.excludes, halvings=_HALVINGS)
        return Evidence(
            differs=self.excludes(),
            centre=centre_of(self._values) if ends is None else self._estimate(*ends),
            ends=ends,
            method=(
                f"signs of {count(self._values.size, 'block')} in random order against all others, look "
                f"{len(self._looks)}; holds at all planned looks"
            ),
        )

    def excludes(self, centre: float = 0.0) -> bool:
        """Whether this look rejects that `centre` is the true difference."""
        deviations = self._values - centre
        if not deviations.any():
            return False
        scores = self._scores(deviations)
        return abs(float(scores[:, -1].sum())) > self._limits(scores)[-1]

    def _scores(self, deviations: Values) -> Values:
        """What each block counts at each look, one column a look; only the shares of a column count."""
        found = np.zeros((deviations.size, len(self._looks)))
        for column, look in enumerate(self._looks):
            found[:look, column] = _cut(deviations[:look], _largest(deviations[:look]))
        return found

    def _limits(self, scores: Values) -> list[float]:
        """What the sum of each look must exceed, so that no more patterns do than the error allows."""
        sums = np.abs(_patterns(len(scores)) @ scores.astype(np.float32)).astype(np.float64)
        alive = np.ones(_HALF, dtype=bool)
        limits: list[float] = []
        for here, own, spend in zip(sums.T, scores.T, self._spends, strict=True):
            allowed = math.floor(spend * _HALF + 1e-9) - (_HALF - int(alive.sum()))
            tie = _TIE * float(np.abs(own).sum())
            limits.append(_edge(here[alive], allowed) + tie if allowed > 0 else math.inf)
            alive &= here <= limits[-1]
        return limits

    def _estimate(self, low: float, high: float) -> float:
        """The difference under which as many experiments would have shown more as less."""
        if self._values.sum() < 0:  # what ends it early is then a difference downwards
            return -PlannedLook(-self._values, self._looks, self._spends)._estimate(-high, -low)
        can_tell = self.excludes()
        bounds = list(self._bounds())
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self._above(middle, bounds, can_tell=can_tell) < 0.5 else (low, middle)
        return (low + high) / 2

    def _bounds(self) -> Iterator[_Look]:
        scores = self._scores(self._values)
        limits = self._limits(scores)
        for look, own, limit in zip(self._looks, scores.T, limits, strict=True):
            size = float(np.abs(own).sum())
            if size and (math.isfinite(limit) or look == self._looks[-1]):
                yield _Look(look, _largest(self._values[:look]), limit / size)

    def _above(self, truth: float, bounds: Sequence[_Look], *, can_tell: bool) -> float:
        """How often an experiment of that true difference shows more than this one; equal ones count half.

        More is shown by what ends at an earlier look, and of what ends at this one by what has a larger sum.
        """
        deviations = self._values - truth
        own = self._scores(deviations)[:, -1]
        # With its other sign a block would have given this. Sums over a pattern are a constant and a product.
        pairs = (self._values, truth - deviations)
        columns = [own]
        constants: list[float] = []
        for look in bounds:
            sides = [_cut(side[: look.blocks], look.largest) for side in pairs]
            for here, there in (sides, np.abs(sides)):
                columns.append(np.pad((here - there) / 2, (0, own.size - look.blocks)))
                constants.append(float((here + there).sum()) / 2)
        moved = (_patterns(own.size) @ np.stack(columns, axis=1).astype(np.float32)).astype(np.float64)
        total, tie = 0.0, _TIE * float(np.abs(own).sum())
        for sign in (1.0, -1.0):
            alive = np.ones(_HALF, dtype=bool)
            for number, look in enumerate(bounds):
                top = constants[2 * number] + sign * moved[:, 2 * number + 1]
                sizes = constants[2 * number + 1] + sign * moved[:, 2 * number + 2]
                ratio = top / np.maximum(sizes, 1e-300)
                if look.blocks == own.size:
                    alive &= (ratio > look.limit) | (not can_tell)
                else:
                    total += int((alive & (ratio > look.limit)).sum())
                    alive &= np.abs(ratio) <= look.limit
            ahead = sign * moved[alive, 0] - float(own.sum())
            total += int((ahead > tie).sum()) + int((np.abs(ahead) <= tie).sum()) / 2
        return total / (2 * _HALF)


def _largest(values: Values) -> float:
    """What a difference counts at most; all of it where most are zero."""
    return _LARGEST * float(np.median(np.abs(values))) or math.inf


def _cut(values: Values, largest: float) -> Values:
    """Differences in units of what one counts at most; single precision then holds them, however small they are."""
    if math.isfinite(largest):
        with np.errstate(over="ignore"):
            return np.clip(values / largest, -1.0, 1.0)
    return values


def _edge(sums: Values, allowed: int) -> float:
    """The largest sum that must not be rejected, if as many as allowed are."""
    kept = sums.size - allowed - 1
    return float(np.partition(sums, kept)[kept]) if kept >= 0 else -math.inf


def _patterns(blocks: int) -> NDArray[np.float32]:
    return _made(-(-blocks // _COLUMNS) * _COLUMNS)[:, :blocks]


@cache
def _made(columns: int) -> NDArray[np.float32]:
    """Signs of blocks, one pattern a row; the first sign is always +, since both directions count alike."""
    masks = Random(5)  # noqa: S311  (any will do)
    numbers = np.arange(_HALF, dtype=np.uint32)
    signs = np.ones((_HALF, columns), dtype=np.float32, order="F")
    for column in range(1, columns):
        mask = 1 << (column - 1) if column < _WHOLE else masks.randrange(1, _HALF)
        signs[:, column] -= 2.0 * (np.bitwise_count(numbers & np.uint32(mask)) & 1)
    return signs
