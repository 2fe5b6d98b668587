"""Noise of real machines: what falls on two levels, swells, remembers for long or follows the clock, and never changes.

Each law draws series without any change; a step of so many deviations can be added to the end or the middle.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from benches.series_laws import LEVEL, NOISE, noise

Values = NDArray[np.float64]
Law = Callable[[np.random.Generator, int, int], Values]

_APART = 8.0
"""Two levels are this many of their own deviations apart."""


def _two_levels(share: float) -> Law:
    def draw(rng: np.random.Generator, count: int, points: int) -> Values:
        return rng.standard_normal((count, points)) + _APART * (rng.random((count, points)) < share)

    return draw


def _sticky(stay: float) -> Law:
    def draw(rng: np.random.Generator, count: int, points: int) -> Values:
        moves = rng.random((count, points)) > stay
        moves[:, 0] = rng.random(count) < 1 / 2
        return rng.standard_normal((count, points)) + _APART * (np.cumsum(moves, axis=1) % 2)

    return draw


def _swelling(shape: Callable[[Values], Values]) -> Law:
    def draw(rng: np.random.Generator, count: int, points: int) -> Values:
        return rng.standard_normal((count, points)) * shape(np.linspace(0, 1, points))

    return draw


def _garch(rng: np.random.Generator, count: int, points: int) -> Values:
    """The variance is 0.1 + 0.2 × the last square + 0.7 × the last variance."""
    warm = 100
    out, variance, last = np.empty((count, points + warm)), np.ones(count), np.zeros(count)
    for point in range(points + warm):
        variance = 0.1 + 0.2 * last**2 + 0.7 * variance
        last = np.sqrt(variance) * rng.standard_normal(count)
        out[:, point] = last
    return out[:, warm:]


def _remembering_t3(rng: np.random.Generator, count: int, points: int) -> Values:
    warm = 50
    fresh = rng.standard_t(3, (count, points + warm)) / math.sqrt(3)
    for point in range(1, points + warm):
        fresh[:, point] = 0.6 * fresh[:, point - 1] + 0.8 * fresh[:, point]
    return fresh[:, warm:]


def _day_and_night(rng: np.random.Generator, count: int, points: int) -> Values:
    """One result an hour, two deviations up by day and down by night, beginning at any hour."""
    hours = rng.integers(0, 24, count)[:, None] + np.arange(points)
    return rng.standard_normal((count, points)) + 2 * np.sin(2 * math.pi * hours / 24)


def _long_memory(d: float) -> Law:
    """Fractional noise of order d, exactly: circulant embedding of its autocovariance."""

    def draw(rng: np.random.Generator, count: int, points: int) -> Values:
        lags = np.arange(1, points + 1)
        correlation = np.concatenate([[1.0], np.cumprod((lags - 1 + d) / (lags - d))])
        around = np.concatenate([correlation, correlation[-2:0:-1]])
        power = np.maximum(np.fft.fft(around).real, 0)
        size = around.size
        white = rng.standard_normal((count, size)) + 1j * rng.standard_normal((count, size))
        return np.fft.fft(white * np.sqrt(power / size), axis=1).real[:, :points]

    return draw


LAWS: dict[str, Law] = {
    "two levels, 80/20": _two_levels(0.2),
    "two levels, 50/50": _two_levels(0.5),
    "two levels that stay, 0.7": _sticky(0.7),
    "two levels that stay, 0.9": _sticky(0.9),
    "spread grows from 1 to 4": _swelling(lambda at: 1 + 3 * at),
    "spread triples half-way": _swelling(lambda at: np.where(at < 0.5, 1.0, 3.0)),
    "GARCH(0.2, 0.7)": _garch,
    "AR 0.6 with t3 innovations": _remembering_t3,
    "day and night, ±2 σ": _day_and_night,
    "long memory, d = 0.3": _long_memory(0.3),
    "long memory, d = 0.45": _long_memory(0.45),
}


def unchanged(law: str, count: int, points: int, seed: int) -> Values:
    """Series without a change, around 100: of the laws above, or one of `series_laws.noise`."""
    rng = np.random.default_rng(seed)
    drawn = LAWS[law](rng, count, points) if law in LAWS else noise(rng, law, count, points)
    return LEVEL * (1 + NOISE * drawn)


def stepped(law: str, count: int, points: int, at: int, step: float, seed: int) -> Values:
    """The same with a step of so many deviations of 2 % before point `at`."""
    drawn = unchanged(law, count, points, seed)
    drawn[:, at:] += LEVEL * NOISE * step
    return drawn
