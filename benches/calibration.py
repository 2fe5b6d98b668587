"""Does each statistical promise of `assay.analyse` hold? Known truths are simulated and the promises counted.

    .venv/bin/python -m benches.calibration [rounds] > benches/results/calibration.md

The tests run the same table with fewer rounds.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import repeat

import numpy as np

from assay.analyse.compare import compare_metric
from assay.analyse.intervals import median_interval_of_run
from assay.analyse.steady_state import drift, enough, steady
from assay.analyse.stopping import WIDENED
from assay.analyse.summary import summarise
from benches import calibration_runs
from benches.calibration_rows import NOISES, STRONG, Rng, Row, Values, holds, lognormal, normal

# Rounds: each simulates one experiment and says whether the event happened.


def median_covers(rng: Rng, noise: str, n: int) -> bool:
    return holds(median_interval_of_run(STRONG[noise](rng, n, 0.1)), 1.0)


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
    return [
        *calibration_runs.rows(),
        *inside_rows(),
        *stopping_rows(),
        *comparison_rows(),
        *drift_rows(),
        *outlier_rows(),
    ]


def inside_rows() -> list[Row]:
    return [
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
    added = [
        Row(
            "equal things called different",
            f"runs added until ±2 %, {law}, budget of 60 runs",
            0,
            0.05,
            partial(added_told_apart, law=law, change=0.0),
            5,
        )
        for law in calibration_runs.ADDED
    ]
    moved = [
        Row(
            "a change is found, in the right direction",
            f"+4%, runs added until ±2 %, {law}, budget of 60 runs",
            0.8,
            1,
            partial(added_told_apart, law=law, change=0.04),
            5,
        )
        for law in ("normal 1 %", "normal 3 %", "two levels 80/20")
    ]
    return [*same, *real, *added, *moved]


def added_told_apart(rng: Rng, law: str, change: float) -> bool:
    """Whether two jobs whose runs were added are called different; with a change, in the right direction."""
    a, b = (calibration_runs.added(rng, calibration_runs.ADDED[law], 60) for _ in range(2))
    sides = [
        summarise("m", "ms", "lower", {run: values[run : run + 1] for run in range(values.size)}, widened=WIDENED)
        for values in (a, b * (1 + change))
    ]
    answer = compare_metric("m", *sides).answer
    return answer == "worse" if change else answer != "cannot tell"


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
        calibration_runs.limit_rows()
        + small
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
    print(
        "\nKnown limits, where nothing is promised: the middle of runs on two equally frequent levels, runs that differ"
    )
    print(
        "much or remember each other, changes that are small for the number of runs, short series with a long memory,"
    )
    print("and a warm-up slower than the time it is watched. A median without an interval counts as a miss.\n")
    print_table(limit_rows(), rounds)
    return 1 if broken else 0


def print_table(table: list[Row], rounds: int) -> int:
    """Print each row as it is measured; how many promises were broken."""
    print("| promise | situation | promised | before | measured | holds |")
    print("|---|---|---|---|---|---|")
    broken = 0
    for row, (measured, former) in zip(table, _measured(table, rounds), strict=True):
        kept = row.least <= measured <= row.most
        broken += not kept
        verdict = "" if row.promised == "nothing" else "yes" if kept else "**no**"
        before = "" if former is None else f"{former:.1%}"
        print(f"| {row.what} | {row.situation} | {row.promised} | {before} | {measured:.1%} | {verdict} |", flush=True)
    return broken


def _measured(table: list[Row], rounds: int) -> Iterator[tuple[float, float | None]]:
    """The shares of all rows, now and before, in order; each row has its own seed, so several are counted at once."""
    with ProcessPoolExecutor() as pool:
        now, before = (pool.map(measure, table, repeat(rounds)) for measure in (Row.measure, Row.measure_before))
        yield from zip(now, before, strict=True)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000))
