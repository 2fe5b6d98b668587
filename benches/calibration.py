"""Does each statistical promise of `assay.analyse` hold? Known truths are simulated and the promises counted.

    .venv/bin/python -m benches.calibration [rounds] > benches/results/calibration.md

The tests run the same table with fewer rounds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from assay.analyse.compare import compare_metric
from assay.analyse.intervals import between_runs, median_interval_of_run
from assay.analyse.records import Interval
from assay.analyse.steady_state import drift, enough, steady
from assay.analyse.summary import summarise
from benches.figures import order_statistic_interval, percentile_estimate

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

    @property
    def promised(self) -> str:
        if self.least <= 0 and self.most >= 1:
            return "nothing"
        if self.least <= 0:
            return f"at most {self.most:.1%}"
        return f"at least {self.least:.1%}" if self.most >= 1 else f"{self.least:.1%} to {self.most:.1%}"

    def measure(self, rounds: int, seed: int = 20240229) -> float:
        """The share of rounds in which it happened."""
        rng = np.random.default_rng(seed)
        rounds = max(1, rounds // self.cost)
        return sum(self.once(rng) for _ in range(rounds)) / rounds


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


# Rounds: each simulates one experiment and says whether the event happened.


def runs_cover(rng: Rng, noise: str, runs: int) -> bool:
    share = 0.05
    truth = float(np.exp(share**2 / 2)) if noise == "lognormal" else 1.0
    return holds(between_runs(NOISES[noise](rng, runs, share)), truth)


def order_covers(rng: Rng, n: int, q: float) -> bool:
    return holds(order_statistic_interval(rng.exponential(size=n), q), -float(np.log(1 - q)))


def median_covers(rng: Rng, noise: str, n: int) -> bool:
    return holds(median_interval_of_run(STRONG[noise](rng, n, 0.1)), 1.0)


def estimate_above(rng: Rng, n: int, p: float) -> bool:
    estimate = percentile_estimate(rng.exponential(size=n), p)
    return estimate is not None and estimate >= -np.log(1 - p)


def stop_within(rng: Rng, noise: str, share: float, target: float) -> bool:
    """Whether the median at the moment of stopping is as close to the truth as the rule promised."""
    durations = (NOISES[noise](rng, 40_000, share) * 1e6).astype(np.int64)
    n = 64
    while n < durations.size and not enough(durations[:n], target):
        n = int(n * 1.4) + 1
    return abs(float(np.median(durations[:n])) / 1e6 - 1) <= target


def side(values: Values):
    return summarise("m", "ms", "lower", {run: values[run : run + 1] for run in range(values.size)})


def told_apart(rng: Rng, noise: str, runs: int, change: float) -> bool:
    a, b = (NOISES[noise](rng, runs, 0.02) for _ in range(2))
    return compare_metric("m", side(a), side(b * (1 + change))).answer != "cannot tell"


def told_right(rng: Rng, runs: int, change: float) -> bool:
    a, b = (lognormal(rng, runs, 0.02) for _ in range(2))
    return compare_metric("m", side(a), side(b * (1 + change))).answer == ("worse" if change > 0 else "better")


def drifts(rng: Rng, noise: str, n: int, share: float, shape: str) -> bool:
    moves = {"level": np.zeros(n), "linear": np.linspace(0, 0.1, n), "step": 0.1 * (np.arange(n) >= n // 2)}
    return drift(NOISES[noise](rng, n, share) + moves[shape]).steady is False


def flags(rng: Rng, n: int, odd: float | None) -> bool:
    values = normal(rng, n, 0.02)
    if odd is not None:
        values[rng.integers(n)] = odd
    return side(values).outlier_count > 0


def warm_enough(rng: Rng, noise: str, share: float, excess: float, tau: float) -> bool:
    """Whether the excess of an exponential warm-up has fallen to 2.5 % when the rule calls it over."""
    n = np.arange(20_000)
    durations = (NOISES[noise](rng, n.size, share) * (1 + excess * np.exp(-n / tau)) * 1e6).astype(np.int64)
    size = 30
    while size < n.size and not steady(durations[:size]):
        size = int(size * 1.25)
    return excess * np.exp(-size / tau) <= 0.025


def rows() -> list[Row]:
    return [*interval_rows(), *tail_rows(), *stopping_rows(), *comparison_rows(), *drift_rows(), *outlier_rows()]


def interval_rows() -> list[Row]:
    between = [
        Row(
            "95 % between runs holds the truth",
            f"{runs} runs, {noise} 5 %",
            0.93,
            0.97,
            partial(runs_cover, noise=noise, runs=runs),
        )
        for noise in ("normal", "lognormal")
        for runs in (3, 5, 10)
    ]
    order = [
        Row(
            "95 % order statistics hold the quantile",
            f"p{100 * q:.0f} of {n} exponential",
            0.95,
            1,
            partial(order_covers, n=n, q=q),
        )
        for q, n in ((0.5, 20), (0.5, 200), (0.9, 100))
    ]
    inside = [
        Row(
            "95 % of a run's median holds the truth",
            f"{n} samples, {noise} 10 %",
            0.93,
            1,
            partial(median_covers, noise=noise, n=n),
        )
        for noise in ("normal", "lognormal", "Student t3", "AR(0.6)")
        for n in (64, 256, 1000)
    ]
    return [*between, *order, *inside]


def tail_rows() -> list[Row]:
    return [
        Row(
            "early stopping estimate is at or above the percentile",
            f"p{100 * p:.0f} of {n} exponential",
            0.99,
            1,
            partial(estimate_above, n=n, p=p),
        )
        for p, n in ((0.9, 64), (0.9, 500), (0.99, 662))
    ]


def stopping_rows() -> list[Row]:
    stops = [
        Row(
            "median at the stop is within the target",
            f"±{target:.0%}, {noise} {share:.0%}",
            0.93,
            1,
            partial(stop_within, noise=noise, share=share, target=target),
            4,
        )
        for noise, share, target in (
            ("lognormal", 0.1, 0.02),
            ("lognormal", 0.1, 0.01),
            ("Student t3", 0.1, 0.01),
            ("AR(0.6)", 0.1, 0.01),
        )
    ]
    warm = [
        Row(
            "warm-up called over is over (excess ≤ 2.5 %)",
            f"+{excess:.0%} fading over {tau} calls, {noise} {share:.0%}",
            0.95,
            1,
            partial(warm_enough, noise=noise, share=share, excess=excess, tau=tau),
            10,
        )
        for noise, share, excess, tau in (
            ("lognormal", 0.02, 10, 3),
            ("lognormal", 0.02, 0.3, 30),
            ("Student t3", 0.05, 0.3, 100),
            ("lognormal", 0.1, 2, 30),
        )
    ]
    return [*stops, *warm]


def comparison_rows() -> list[Row]:
    same = [
        Row(
            "equal things called different",
            f"{runs} against {runs} runs, {noise} 2 %",
            0,
            0.055,
            partial(told_apart, noise=noise, runs=runs, change=0.0),
        )
        for noise in ("normal", "lognormal")
        for runs in (3, 5, 10)
    ]
    real = [
        Row(
            "a change is found, in the right direction",
            f"{change:+.0%}, {runs} against {runs} runs, 2 %",
            0.9,
            1,
            partial(told_right, runs=runs, change=change),
            2,
        )
        for runs, change in ((3, 0.15), (5, 0.06), (5, -0.06), (10, 0.04))
    ]
    return [*same, *real]


def drift_rows() -> list[Row]:
    level = [
        Row(
            "a level run called drifting",
            f"{n} samples, {noise} {share:.0%}",
            0,
            0.05,
            partial(drifts, noise=noise, n=n, share=share, shape="level"),
            2,
        )
        for noise in NOISES
        for n, share in ((64, 0.1), (100, 0.02), (300, 0.1))
    ]
    moving = [
        Row(
            "a drift is seen",
            f"10 % {shape}, {n} samples, normal 2 %",
            0.95,
            1,
            partial(drifts, noise="normal", n=n, share=0.02, shape=shape),
            2,
        )
        for shape in ("linear", "step")
        for n in (64, 100, 1000)
    ]
    return [*level, *moving]


def outlier_rows() -> list[Row]:
    none = [
        Row("a set without outliers has one flagged", f"{n} normal values, 2 %", 0, most, partial(flags, n=n, odd=None))
        for n, most in ((3, 0.10), (5, 0.07), (10, 0.07), (30, 0.09))
    ]
    one = [
        Row(
            "an odd value is flagged",
            f"{n} normal values, 2 %, one {odd - 1:+.0%}",
            0.95,
            1,
            partial(flags, n=n, odd=odd),
        )
        for n, odd in ((5, 1.5), (10, 1.2), (30, 1.15))
    ]
    return [*none, *one]


def limit_rows() -> list[Row]:
    """Where the tool is known to be too sure, or where a change is small for its runs; nothing is promised here."""
    small = [
        Row(
            "a change is found, in the right direction",
            f"{change:+.0%}, {runs} against {runs} runs, 2 %",
            0,
            1,
            partial(told_right, runs=runs, change=change),
            2,
        )
        for runs, change in ((3, 0.05), (5, 0.03), (5, 0.05), (10, 0.03))
    ]
    return (
        small
        + [
            Row(
                "95 % of a run's median holds the truth",
                f"{n} samples, AR(0.9) 10 %",
                0,
                1,
                partial(median_covers, noise="AR(0.9)", n=n),
            )
            for n in (64, 256, 1000)
        ]
        + [
            Row(
                "warm-up called over is over (excess ≤ 2.5 %)",
                f"+30% fading over 1000 calls, lognormal {share:.0%}, asked from 30 calls on",
                0,
                1,
                partial(warm_enough, noise="lognormal", share=share, excess=0.3, tau=1000),
                10,
            )
            for share in (0.01, 0.03)
        ]
    )


def main(rounds: int) -> int:
    print("# Calibration\n")
    print(
        f"Simulated experiments with a known truth, up to {rounds:,} per line; `benches/calibration.py` prints this.\n"
    )
    broken = print_table(rows(), rounds)
    print("\nKnown limits, where nothing is promised: changes that are small for the number of runs, short series with")
    print("a long memory, and a warm-up slower than the time it is watched. The checks `steady state reached` and")
    print("`interval narrow enough` look again at the last two. A median without an interval counts as a miss.\n")
    print_table(limit_rows(), rounds)
    return 1 if broken else 0


def print_table(table: list[Row], rounds: int) -> int:
    """Print each row as it is measured; how many promises were broken."""
    print("| promise | situation | promised | measured | holds |")
    print("|---|---|---|---|---|")
    broken = 0
    for row, measured in zip(table, _measured(table, rounds), strict=True):
        kept = row.least <= measured <= row.most
        broken += not kept
        verdict = "" if row.promised == "nothing" else "yes" if kept else "**no**"
        print(f"| {row.what} | {row.situation} | {row.promised} | {measured:.1%} | {verdict} |", flush=True)
    return broken


def _measured(table: list[Row], rounds: int) -> Iterator[float]:
    """The shares of all rows, in order; each row has its own seed, so several may be counted at once."""
    with ProcessPoolExecutor() as pool:
        yield from pool.map(Row.measure, table, repeat(rounds))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000))
