"""Machines that make noise in ways a benchmark meets, and experiments on them with a known truth."""

from __future__ import annotations

import numpy as np

from assay.analyse.ab import ORDERS, Pair


def _autoregressive(rng: np.random.Generator, n: int, memory: float) -> np.ndarray:
    values = rng.normal(0, 1, n)
    for index in range(1, n):
        values[index] += memory * values[index - 1]
    return values * np.sqrt(1 - memory**2)


def _bursts(rng: np.random.Generator, n: int) -> np.ndarray:
    """Somebody else works on the machine for a while, again and again."""
    busy = (np.sin(np.arange(n) / 9 + rng.uniform(0, 7)) > 0.6) * rng.uniform(0, 20, n)
    return rng.normal(0, 1, n) + busy


# Name → noise of n runs one after another, in units of their spread.
NOISE = {
    "normal": lambda rng, n: rng.normal(0, 1, n),
    "heavy tails": lambda rng, n: rng.standard_t(3, n),
    "no mean at all": lambda rng, n: rng.standard_cauchy(n),
    "memory 0.6": lambda rng, n: _autoregressive(rng, n, 0.6),
    "memory 0.95": lambda rng, n: _autoregressive(rng, n, 0.95),
    "drift": lambda rng, n: rng.normal(0, 1, n) + np.linspace(0, rng.uniform(-40, 40), n),
    "warm-up": lambda rng, n: rng.normal(0, 1, n) + 30 * np.exp(-np.arange(n) / 20),
    "bursts": _bursts,
    "a beat of four runs": lambda rng, n: rng.normal(0, 0.1, n) + np.tile([3.0, 0, 0, 3.0], n // 4 + 1)[:n],
    "ticks of a clock": lambda rng, n: np.round(rng.normal(0, 0.7, n)),
    "skewed": lambda rng, n: rng.exponential(1, n) ** 2,
    "two speeds": lambda rng, n: 5.0 * (rng.random(n) < 0.5) + rng.normal(0, 0.1, n),
}  # fmt: skip


def pairs_from(noise: np.ndarray, orders: list[str], effect: float = 0.0, spread: float = 0.02) -> list[Pair]:
    """The pairs of an experiment: run i of the machine is that of the side whose turn it is."""
    found: list[Pair] = []
    for block, order in enumerate(orders):
        values = 10 * np.exp(spread * noise[4 * block : 4 * block + 4])
        sides: dict[str, list[float]] = {"A": [], "B": []}
        for letter, value in zip(order, values, strict=True):
            sides[letter].append(float(value) * (np.exp(effect) if letter == "B" else 1.0))
        found += [
            Pair(block, (order == "ABBA") != bool(i), a, b)
            for i, (a, b) in enumerate(zip(*sides.values(), strict=True))
        ]
    return found


def coins(rng: np.random.Generator, blocks: int) -> list[str]:
    return [ORDERS[int(one)] for one in rng.integers(0, 2, blocks)]


def block_differences(noise: np.ndarray, orders: list[str], effect: float = 0.0) -> np.ndarray:
    """The same as differences of blocks alone, on the scale of the noise."""
    four = noise[: 4 * len(orders)].reshape(-1, 4)
    inner = (four[:, 1] + four[:, 2] - four[:, 0] - four[:, 3]) / 2
    signs = np.array([1.0 if order == "ABBA" else -1.0 for order in orders])
    return signs * inner + effect
