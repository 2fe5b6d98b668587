"""`assay compare` of many metrics together: false answers where nothing changed, and what is still found; simulated."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from assay.analyse.compare import JobComparison, compare_metric, judged_together
from assay.analyse.compare.jobs import ResultPool
from assay.analyse.records import Comparison, MetricStatistics
from assay.analyse.summary import summarise
from benches.page import Page, Table

Values = NDArray[np.float64]
_Noise = Callable[[np.random.Generator, tuple[int, int]], Values]
_METRICS = 50
_FALSE = 0.05
_SPREAD = 0.03
_SEED = 77_003
_NOISES: dict[str, _Noise] = {
    "independent, normal": lambda rng, shape: rng.normal(0, 1, shape),
    "independent, t with 3 degrees of freedom": lambda rng, shape: rng.standard_t(3, shape),
    "moving together (correlation 0.8)": lambda rng, shape: (
        math.sqrt(0.2) * rng.normal(0, 1, shape) + math.sqrt(0.8) * rng.normal(0, 1, (1, shape[1]))
    ),
}


def bench(*, quick: bool = False) -> Page:
    """Fifty metrics of one job: none changed, then one of them, then ten."""
    rounds = 20 if quick else 400
    return Page("compare_many", "Comparing many metrics", _ABOUT, [_equal(rounds), _changed(rounds)])


def _lines(rng: np.random.Generator, noise: _Noise, runs: int, changes: Values) -> list[Comparison]:
    """One comparison a metric, the second side larger by its change."""
    a, b = (np.exp(_SPREAD * noise(rng, (changes.size, runs))) for _ in range(2))
    sides = zip(a, b * (1 + changes[:, None]), strict=True)
    return [compare_metric("m", *(_stats(values) for values in side)) for side in sides]


def _stats(values: Values) -> MetricStatistics:
    return summarise("m", "ms", "lower", {run: values[run : run + 1] for run in range(values.size)})


def _together(lines: list[Comparison], headlines: tuple[str, ...] = ()) -> tuple[Comparison, ...]:
    (judged,) = judged_together([JobComparison(ResultPool((), (), (), (), ()), tuple(lines))], [headlines])
    return judged.lines


def _answered(lines: tuple[Comparison, ...] | list[Comparison]) -> list[bool]:
    return [line.answer != "cannot tell" for line in lines]


def _equal(rounds: int) -> Table:
    rows = []
    for name, noise in _NOISES.items():
        for runs in (3, 5, 10):
            rng, before, now = np.random.default_rng(_SEED + runs), 0, 0
            for _ in range(rounds):
                lines = _lines(rng, noise, runs, np.zeros(_METRICS))
                before += any(_answered(lines))
                now += any(_answered(_together(lines)))
            most = _FALSE + 3 * math.sqrt(_FALSE * (1 - _FALSE) / rounds)
            passed = "pass" if now / rounds <= most else "**fail**"
            rows.append([name, str(runs), f"{before / rounds:.1%}", f"{now / rounds:.1%}", "≤ 5%", passed])
    notes = [
        f"{rounds:,} comparisons a row of {_METRICS} metrics that did not change, runs that differ by {_SPREAD:.0%}.",
        "Each number by itself is how it was before. Two runs a side had answers then, and have none now.",
        "Passed within three standard errors.",
    ]
    columns = ["metrics", "runs a side", "any false answer: each by itself", "judged together", "promise", "kept"]
    return Table("Nothing changed", columns, rows, notes)


def _changed(rounds: int) -> Table:
    rows = []
    noise = _NOISES["independent, normal"]
    for changed, runs, change in ((1, 5, 0.1), (1, 5, 0.2), (1, 10, 0.05), (1, 10, 0.1), (10, 5, 0.1), (10, 10, 0.05)):
        changes = np.where(np.arange(_METRICS) < changed, change, 0.0)
        rng, alone, together, first = np.random.default_rng(_SEED + 100 + runs), 0, 0, 0
        shares: list[float] = []
        for _ in range(rounds):
            lines = _lines(rng, noise, runs, changes)
            found = _answered(_together(lines))
            alone += sum(_answered(lines)[:changed])
            together += sum(found[:changed])
            shares.append(sum(found[changed:]) / max(sum(found), 1))
            if changed == 1:
                # The same number as the only headline metric.
                first += _answered(_together([lines[0]]))[0]
        of = rounds * changed
        headline = f"{first / of:.0%}" if changed == 1 else ""
        rows.append(
            [
                f"{changed} of {_METRICS}", f"+{change:.0%}", str(runs), f"{alone / of:.0%}", f"{together / of:.0%}",
                headline, f"{np.mean(shares):.1%}",
            ]
        )  # fmt: skip
    notes = [f"{rounds:,} comparisons a row, independent metrics, runs that differ by {_SPREAD:.0%}."]
    columns = [
        "changed", "by", "runs a side", "found: each by itself", "judged together", "as the only headline metric",
        "false among the answers",
    ]  # fmt: skip
    return Table("Some changed", columns, rows, notes)


_ABOUT = (
    "A campaign compared with another in 50 metrics: how often any of them is called better or worse though nothing "
    "changed, and what the protection costs where something did. Simulated, so the truth is known."
)
