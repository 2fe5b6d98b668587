"""Calibration between runs: intervals, runs that are added until they are enough, two levels, and percentiles.

Rows have the law of a run's value as a share of its level. `before` is the rule of version 0.2: Student's t between the
runs for the centre, and a fixed number of runs of which only narrow ones count as valid.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from assay.analyse.checks.runs import dependence
from assay.analyse.intervals import TAILS, between_runs, median_of_runs, relative_half_width
from assay.analyse.levels import levels_of_runs, levels_of_samples
from assay.analyse.records import Interval
from assay.analyse.stopping import WIDENED, RunsUntilPrecise
from assay.analyse.summary import summarise
from assay.analyse.tails import tail_interval
from assay.plan.job import Job
from assay.run.records import RunOutcome, SingleRunResult
from assay.spec.benchmark import Definition
from benches.calibration_rows import Rng, Row, Values, holds, lognormal, normal, remembering

Law = Callable[[Rng, int], Values]


def exponential(rng: Rng, n: int) -> Values:
    """A level that is only ever exceeded: 100, and 5 on average above it."""
    return 1 + 0.05 * rng.exponential(size=n)


def two_levels(rng: Rng, n: int, share: float, apart: float = 0.1, spread: float = 0.005) -> Values:
    return (1 + apart * (rng.random(n) < share)) * (1 + spread * rng.standard_normal(n))


def bad_runs(rng: Rng, n: int, share: float) -> Values:
    """Some runs are slower by 20 to 100 %."""
    slower = np.where(rng.random(n) < share, 0.2 + 0.8 * rng.random(n), 0.0)
    return (1 + slower) * (1 + 0.01 * rng.standard_normal(n))


def t3(rng: Rng, n: int, share: float) -> Values:
    return 1 + share * rng.standard_t(3, n) / math.sqrt(3)


ONE_LEVEL: dict[str, Law] = {
    "normal 3 %": partial(normal, share=0.03),
    "lognormal 30 %": partial(lognormal, share=0.3),
    "Student t3 3 %": partial(t3, share=0.03),
    "exponential 5 %": exponential,
}
SEVERAL: dict[str, Law] = {
    "two levels 80/20": partial(two_levels, share=0.2),
    "two levels 70/30": partial(two_levels, share=0.3),
    "one bad run in five": partial(bad_runs, share=0.2),
    "one bad run in twenty": partial(bad_runs, share=0.05),
}
EVEN: dict[str, Law] = {"two levels 50/50": partial(two_levels, share=0.5)}
LAWS = {**ONE_LEVEL, **SEVERAL, **EVEN}


ADDED: dict[str, Law] = {
    **{f"normal {100 * share:g} %": partial(normal, share=share) for share in (0.005, 0.01, 0.02, 0.03, 0.05, 0.08)},
    **{name: LAWS[name] for name in ("Student t3 3 %", "exponential 5 %", *SEVERAL)},
}


@cache
def middle_of(law: str) -> float:
    """The median of a law."""
    return float(np.median(LAWS[law](np.random.default_rng(1), 2_000_000)))


def covers(rng: Rng, law: str, runs: int, interval: Callable[[Values], Interval | None]) -> bool:
    return holds(interval(LAWS[law](rng, runs)), middle_of(law))


def interval_rows() -> list[Row]:
    return [
        Row(
            "95 % holds the middle run",
            f"{runs} runs, {law}",
            least,
            1,
            partial(covers, law=law, runs=runs, interval=median_of_runs),
            before=partial(covers, law=law, runs=runs, interval=between_runs),
        )
        for laws, least in ((ONE_LEVEL, 0.93), (SEVERAL, 0.90))
        for law in laws
        for runs in (3, 5, 10, 20)
    ]


# -- runs that are added ---------------------------------------------------------------------------------------------

NARROW = 0.05
_RUN_S = 1.0


@cache
def _job(budget_s: int) -> Job:
    target = {"command": "true", "metrics": [{"name": "m", "pattern": "m (.*)", "unit": "ms", "better": "lower"}]}
    definition = Definition.model_validate({"target": target, "measure": {"budget": budget_s}})
    return Job("calibration", "", 0, definition)


def added(rng: Rng, law: Law, budget_s: int) -> Values:
    """The values of the runs of a job, one second each, until the product's rule has enough of them."""
    rule, values = RunsUntilPrecise(_job(budget_s)), law(rng, budget_s + 5)
    for number, value in enumerate(values):
        run = SingleRunResult(number, number == 0, "", "", _RUN_S, metrics={"m": float(value)})
        rule.add(RunOutcome(run))
        if number >= 4 and not rule.more():
            return values[: number + 1]
    return values


def added_cover(rng: Rng, law: Law, truth: float, budget_s: int) -> bool:
    return holds(median_of_runs(added(rng, law, budget_s), widened=WIDENED), truth)


def narrow_cover(rng: Rng, law: Law, truth: float, runs: int) -> bool:
    """Five runs are repeated until they pass as narrow: whether their interval holds the truth."""
    for _ in range(200):
        interval = between_runs(law(rng, runs))
        if interval is not None and relative_half_width(interval) <= NARROW:
            return interval.low <= truth <= interval.high
    return True


def adding_rows() -> list[Row]:
    spreads = (0.005, 0.01, 0.02, 0.03, 0.05, 0.08)
    of_normal = [
        Row(
            "95 % after adding runs, given the verdict, holds the truth",
            f"±2 % asked for, normal {spread:.1%}, budget of {budget} runs",
            0.94,
            1,
            partial(added_cover, law=partial(normal, share=spread), truth=1.0, budget_s=budget),
            before=partial(narrow_cover, law=partial(normal, share=spread), truth=1.0, runs=3 if budget < 40 else 5),
        )
        for budget in (20, 60)
        for spread in spreads
    ]
    others = [
        Row(
            "95 % after adding runs holds the middle run",
            f"±2 % asked for, {law}, budget of 60 runs",
            0.94,
            1,
            partial(added_cover, law=LAWS[law], truth=middle_of(law), budget_s=60),
        )
        for law in ("Student t3 3 %", "exponential 5 %", *SEVERAL)
    ]
    return [*of_normal, *others]


# -- two levels ------------------------------------------------------------------------------------------------------


def named(rng: Rng, law: Law, runs: int) -> bool:
    return levels_of_runs(law(rng, runs)) is not None


def named_inside(rng: Rng, law: Law, samples: int) -> bool:
    return levels_of_samples(law(rng, samples)) is not None


def level_rows() -> list[Row]:
    alarms = [
        Row("one level called two", f"{runs} runs, {law}", 0, 0.015, partial(named, law=LAWS[law], runs=runs))
        for law in ONE_LEVEL
        for runs in (5, 10, 30)
    ]
    inside = [
        Row("one level called two", f"{n} samples, {name}", 0, 0.01, partial(named_inside, law=law, samples=n), 10)
        for name, law in (
            ("normal 10 %", partial(normal, share=0.1)),
            ("lognormal 50 %", partial(lognormal, share=0.5)),
            ("exponential 5 %", exponential),
            ("AR(0.9) 10 %", partial(remembering, share=0.1, rho=0.9)),
        )
        for n in (300, 3000)
    ]
    found = [
        Row("two levels are named", f"{runs} runs, 80/20, 10 % apart, each ±0.5 %", least, 1,
            partial(named, law=LAWS["two levels 80/20"], runs=runs))
        for runs, least in ((20, 0.9), (40, 0.95))
    ]  # fmt: skip
    samples = [
        Row(
            "two levels are named",
            f"{n} samples, 80/20, 20 % apart, each ±2 %",
            0.95,
            1,
            partial(named_inside, law=partial(two_levels, share=0.2, apart=0.2, spread=0.02), samples=n),
            10,
        )
        for n in (300, 3000)
    ]
    return [*alarms, *inside, *found, *samples]


# -- runs that depend on each other ----------------------------------------------------------------------------------


def depends(rng: Rng, law: Law, runs: int) -> bool:
    values = law(rng, runs)
    return bool(dependence("m", summarise("m", "ms", "lower", {run: values[run : run + 1] for run in range(runs)})))


def trending(rng: Rng, n: int) -> Values:
    return (1 + 0.01 * np.arange(n)) * normal(rng, n, 0.01)


def dependence_rows() -> list[Row]:
    alarms = [
        Row(
            "independent runs called dependent",
            f"{runs} runs, {law}",
            0,
            0.05,
            partial(depends, law=LAWS[law], runs=runs),
        )
        for law in (*ONE_LEVEL, "two levels 80/20")
        for runs in (5, 10, 20)
    ]
    found = Row(
        "dependent runs are named", "10 runs, 1 % a run, each ±1 %", 0.95, 1, partial(depends, law=trending, runs=10)
    )
    return [*alarms, found]


# -- percentiles -----------------------------------------------------------------------------------------------------


def pareto(rng: Rng, n: int) -> Values:
    return (1 - rng.random(n)) ** -0.5


TAILED: dict[str, Law] = {
    "exponential": lambda rng, n: rng.exponential(size=n),
    "lognormal 1": lambda rng, n: np.exp(rng.standard_normal(n)),
    "Pareto 2": pareto,
    "AR(0.9), lognormal 0.5": lambda rng, n: np.exp(remembering(rng, n, 0.5, 0.9) - 1),
}
REMEMBERS = {"AR(0.9), lognormal 0.5"}


@cache
def percentile_of(law: str, statistic: str, between: float) -> float:
    rng = np.random.default_rng(1)
    runs: list[NDArray[np.float64]] = [
        TAILED[law](rng, 2_000) * math.exp(between * rng.standard_normal()) for _ in range(2_000)
    ]
    return float(np.quantile(np.concatenate(runs), TAILS[statistic]))


def tail_covers(rng: Rng, law: str, statistic: str, runs: int, samples: int, between: float) -> bool:
    """Whether the interval holds the percentile; one that is not given promises nothing."""
    parts = [TAILED[law](rng, samples) * math.exp(between * rng.standard_normal()) for _ in range(runs)]
    value = float(np.quantile(np.concatenate(parts), TAILS[statistic]))
    interval = tail_interval(parts, TAILS[statistic], value)
    return interval is None or holds(interval, percentile_of(law, statistic, between))


_SIZES = (("p90", 5, 200), ("p99", 5, 1_000), ("p99", 1, 1_000), ("p99_9", 5, 10_000))


def tail_rows() -> list[Row]:
    return [
        Row(
            "95 % of a percentile holds it",
            f"{statistic} of {runs} × {samples:,} {law}" + (f", runs differ by {between:.0%}" if between else ""),
            0.93,
            1,
            partial(tail_covers, law=law, statistic=statistic, runs=runs, samples=samples, between=between),
            10,
        )
        for law in TAILED
        for between in (0.0, 0.03)
        for statistic, runs, samples in _SIZES
        if runs > 1 or not (between or law in REMEMBERS)
    ]


def rows() -> list[Row]:
    return [*interval_rows(), *adding_rows(), *level_rows(), *dependence_rows(), *tail_rows()]


def limit_rows() -> list[Row]:
    """Where nothing is promised: the middle of two equal halves, and runs that differ by much more than they should."""
    even = [
        Row(
            "95 % holds the middle run",
            f"{runs} runs, two levels 50/50",
            0,
            1,
            partial(covers, law="two levels 50/50", runs=runs, interval=median_of_runs),
            before=partial(covers, law="two levels 50/50", runs=runs, interval=between_runs),
        )
        for runs in (3, 5, 10, 20)
    ]
    apart = [
        Row(
            "95 % of a percentile holds it",
            f"{statistic} of {runs} × {samples:,} {law}, runs differ by 30%",
            0,
            1,
            partial(tail_covers, law=law, statistic=statistic, runs=runs, samples=samples, between=0.3),
            10,
        )
        for law in ("exponential", "lognormal 1")
        for statistic, runs, samples in (("p90", 5, 200), ("p99", 5, 1_000), ("p99", 10, 1_000))
    ]
    apart += [
        Row(
            "95 % of a percentile holds it",
            f"p99 of 1 × 1,000 {law}",
            0,
            1,
            partial(tail_covers, law=law, statistic="p99", runs=1, samples=1_000, between=0.0),
            10,
        )
        for law in sorted(REMEMBERS)
    ]
    few = [
        Row("two levels are named", f"{runs} runs, 80/20, 10 % apart, each ±0.5 %", 0, 1,
            partial(named, law=LAWS["two levels 80/20"], runs=runs))
        for runs in (5, 10)
    ]  # fmt: skip
    remember = [
        Row(
            "95 % holds the middle run",
            f"{runs} runs that remember the run before (AR 0.6), 3 %",
            0,
            1,
            partial(remembering_cover, runs=runs),
        )
        for runs in (5, 10)
    ]
    unseen = [
        Row("dependent runs are named", f"{runs} runs, {name}", 0, 1, partial(depends, law=law, runs=runs))
        for name, law in (("1 % a run, each ±1 %", trending), ("AR 0.6, 3 %", partial(remembering, share=0.03)))
        for runs in (5, 10, 20)
        if (name, runs) != ("1 % a run, each ±1 %", 10)
    ]
    return [*even, *apart, *few, *remember, *unseen]


def remembering_cover(rng: Rng, runs: int) -> bool:
    return holds(median_of_runs(remembering(rng, runs, 0.03)), 1.0)
