"""A row of the calibration table, and the noises that its rounds are drawn from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from assay.analyse.records import Interval

Rng = np.random.Generator
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Row:
    """One promise: how often something must happen, and one simulated round of it."""

    what: str
    situation: str
    least: float
    most: float
    once: Callable[[Rng], bool]
    cost: int = 1  # rounds are divided by this where one round is slow
    before: Callable[[Rng], bool] | None = None
    """The same round by the rule that was in place before."""

    @property
    def promised(self) -> str:
        if self.least <= 0 and self.most >= 1:
            return "nothing"
        if self.least <= 0:
            return f"at most {self.most:.1%}"
        return f"at least {self.least:.1%}" if self.most >= 1 else f"{self.least:.1%} to {self.most:.1%}"

    def measure(self, rounds: int, seed: int = 20240229) -> float:
        """The share of rounds in which it happened."""
        return _share(self.once, max(1, rounds // self.cost), seed)

    def measure_before(self, rounds: int, seed: int = 20240229) -> float | None:
        """The share by the former rule; None where there was none."""
        return None if self.before is None else _share(self.before, max(1, rounds // self.cost), seed)


def _share(once: Callable[[Rng], bool], rounds: int, seed: int) -> float:
    rng = np.random.default_rng(seed)
    return sum(once(rng) for _ in range(rounds)) / rounds


# Noise: one series of n values with median 1 and the given relative deviation.


def normal(rng: Rng, n: int, share: float) -> Values:
    return 1 + share * rng.standard_normal(n)


def lognormal(rng: Rng, n: int, share: float) -> Values:
    return np.exp(share * rng.standard_normal(n))


def heavy(rng: Rng, n: int, share: float) -> Values:
    return 1 + share * rng.standard_t(3, n) / np.sqrt(3)


def remembering(rng: Rng, n: int, share: float, rho: float = 0.6) -> Values:
    """AR(1): each value keeps the share rho of the one before it."""
    kept = round(-20 / np.log(rho))  # what is older than this has faded to 2e-9
    shocks = rng.standard_normal(n + kept - 1) * np.sqrt(1 - rho**2)
    return 1 + share * np.convolve(shocks, rho ** np.arange(kept), mode="valid")


NOISES = {"normal": normal, "lognormal": lognormal, "Student t3": heavy, "AR(0.6)": remembering}
STRONG = {**NOISES, "AR(0.9)": partial(remembering, rho=0.9)}


def holds(interval: Interval | None, truth: float) -> bool:
    return interval is not None and interval.low <= truth <= interval.high
