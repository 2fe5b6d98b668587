"""Lengths in tokens, drawn from a spread that keeps its mean also where its ends are cut off."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from assay.errors import MeasureError
from assay.spec.workload import Tokens

_UNIT = NormalDist()
# So far out (in standard deviations) the part of a curve that is left is too thin to draw from.
_FURTHEST = 6.0
_HALVINGS = 80


def draw(asked: int | Tokens, count: int, random: np.random.Generator, at: str) -> NDArray[np.int64]:
    """Draw lengths.

    Raises:
        MeasureError: when no spread of that shape has the mean inside the bounds.
    """
    if isinstance(asked, int):
        return np.full(count, asked, dtype=np.int64)
    high = math.inf if asked.max is None else float(asked.max)
    shares = _shares(count, random)
    if asked.shape == "uniform":
        drawn = asked.min + np.floor(shares * (high - asked.min + 1))
    elif asked.std == 0:
        _check_inside(asked, high, at, strictly=False)
        drawn = np.full(count, asked.mean)
    else:
        _check_inside(asked, high, at, strictly=True)
        drawn = _lognormal(asked, high, shares, at) if asked.shape == "lognormal" else _normal(asked, high, shares, at)
    return np.clip(np.floor(drawn + 0.5), asked.min, high).astype(np.int64)


def draw_outputs(asked: int | Tokens | None, count: int, seed: int) -> list[int | None]:
    """The answer lengths to ask for, one per item; the server's own default where none is asked for."""
    if asked is None:
        return [None] * count
    return [int(one) for one in draw(asked, count, np.random.default_rng([seed, 31]), "workload.output_tokens")]


def _shares(count: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Shares of the way through a spread, one from each of `count` equal parts: few draws, yet the whole shape."""
    return (random.permutation(count) + random.random(count)) / max(count, 1)


def _normal(asked: Tokens, high: float, shares: NDArray[np.float64], at: str) -> NDArray[np.float64]:
    std, low = asked.std, float(asked.min)

    def mean(middle: float) -> float:
        below, above = (low - middle) / std, (high - middle) / std
        return middle + std * (_density(below) - _density(above)) / _between(below, above)

    middle = _solve(mean, asked.mean, low - _FURTHEST * std, min(high, asked.mean) + _FURTHEST * std)
    if middle is None:
        raise _unreachable(asked, at)
    return middle + std * _quantiles((low - middle) / std, (high - middle) / std, shares)


def _lognormal(asked: Tokens, high: float, shares: NDArray[np.float64], at: str) -> NDArray[np.float64]:
    spread = math.sqrt(math.log1p((asked.std / asked.mean) ** 2))
    low, top = math.log(asked.min), math.log(high) if math.isfinite(high) else math.inf

    def mean(middle: float) -> float:
        below, above = (low - middle) / spread, (top - middle) / spread
        kept = _between(below - spread, above - spread) / _between(below, above)
        return math.exp(middle + spread**2 / 2) * kept

    end = min(top, math.log(asked.mean)) + _FURTHEST * spread
    middle = _solve(mean, asked.mean, low - _FURTHEST * spread, end)
    if middle is None:
        raise _unreachable(asked, at)
    return np.exp(middle + spread * _quantiles((low - middle) / spread, (top - middle) / spread, shares))


def _solve(mean: Callable[[float], float], wanted: float, low: float, high: float) -> float | None:
    """Where a rising function has a value; None when it does not within the ends."""
    if not mean(low) <= wanted <= mean(high):
        return None
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if mean(middle) < wanted else (low, middle)
    return (low + high) / 2


def _quantiles(below: float, above: float, shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Where shares of the normal curve between two ends lie."""
    if below > 0:  # the upper half of the curve is computed on the lower one, where small shares keep their digits
        return -_quantiles(-above, -below, 1 - shares)
    first, last = _UNIT.cdf(below), _UNIT.cdf(above)
    inside = np.clip(first + shares * (last - first), 1e-300, 1 - 1e-16)
    return np.fromiter((_UNIT.inv_cdf(one) for one in inside.tolist()), dtype=np.float64, count=len(shares))


def _between(below: float, above: float) -> float:
    return _UNIT.cdf(-below) - _UNIT.cdf(-above) if below > 0 else _UNIT.cdf(above) - _UNIT.cdf(below)


def _density(at: float) -> float:
    return 0.0 if math.isinf(at) else _UNIT.pdf(at)


def _check_inside(asked: Tokens, high: float, at: str, *, strictly: bool) -> None:
    inside = asked.min < asked.mean < high if strictly else asked.min <= asked.mean <= high
    if not inside:
        raise MeasureError(
            f"the mean length {asked.mean:g} does not lie between min ({asked.min}) and max ({asked.max})",
            code="token-lengths",
            at=at,
            try_="move the bounds apart, or the mean between them",
        )


def _unreachable(asked: Tokens, at: str) -> MeasureError:
    bounds = f"min {asked.min}" if asked.max is None else f"min {asked.min} and max {asked.max}"
    return MeasureError(
        f"no {asked.shape} spread with std {asked.std:g} has the mean {asked.mean:g} within {bounds}",
        code="token-lengths",
        at=at,
        try_="use a smaller std, other bounds, or shape: lognormal for lengths that vary more than their mean",
    )
