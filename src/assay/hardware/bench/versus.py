"""The same work in a bare loop of the library beside ours, in turn: what our own machinery costs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median

from pydantic import JsonValue

from assay.hardware.bench.timing import Timed, calibrate

FEWEST_PAIRS = 9
MOST_PAIRS = 101
_TAIL = 0.025  # of each side: the interval promises 95 %


@dataclass(frozen=True, slots=True)
class Versus:
    """How fast ours is, as a share of the bare loop."""

    ratio: float
    """Median of the pairs; 1 is as fast, below 1 is slower."""
    low: float
    high: float
    pairs: int
    ours_s: float
    """One call, the median of the blocks."""
    bare_s: float

    def facts(self, work: float, unit: float) -> dict[str, JsonValue]:
        """As it is kept in a result, with both speeds in the unit of the test."""
        return {
            "ratio": self.ratio,
            "low": self.low,
            "high": self.high,
            "level": 1 - 2 * _TAIL,
            "pairs": self.pairs,
            "ours": work / self.ours_s / unit,
            "bare": work / self.bare_s / unit,
        }


def versus(ours: Timed, bare: Timed, each_s: float) -> Versus:
    """Time both in turn, each first every other time, so that a drift of the machine hits both alike."""
    calls = calibrate(bare)
    ours(calls)
    ours_s: list[float] = []
    bare_s: list[float] = []
    while len(ours_s) < FEWEST_PAIRS or (sum(ours_s) < 2 * each_s and len(ours_s) < MOST_PAIRS):
        if len(ours_s) % 2:
            ours_s.append(ours(calls))
            bare_s.append(bare(calls))
        else:
            bare_s.append(bare(calls))
            ours_s.append(ours(calls))
    ratios = sorted(b / o for o, b in zip(ours_s, bare_s, strict=True))
    rank = median_rank(len(ratios))
    return Versus(
        ratio=median(ratios),
        low=ratios[rank],
        high=ratios[-1 - rank],
        pairs=len(ratios),
        ours_s=median(ours_s) / calls,
        bare_s=median(bare_s) / calls,
    )


def median_rank(n: int) -> int:
    """How many values may be left out at each end so that the rest holds the median with the promised chance."""
    chance, rank = 0.0, 0
    while rank < n // 2:
        chance += math.comb(n, rank) / 2**n
        if chance > _TAIL:
            break
        rank += 1
    return max(rank - 1, 0)
