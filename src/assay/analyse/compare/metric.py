"""One metric of two jobs, or of several results of one job on each side: better, worse, or cannot tell and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from assay.analyse.compare.change import (
    MIN_RUNS,
    MOST_RUNS,
    RelativeChange,
    ResultReading,
    change_between,
    change_between_results,
    runs_to_tell,
)
from assay.analyse.intervals import LEVEL, between_runs
from assay.analyse.records import Answer, Comparison, Interval, MetricStatistics
from assay.analyse.text import count, percent
from assay.metrics import Better

RECOMMENDED_RUNS = 3
# From so many results on, the spread between them is known well enough to tell a change that matters.
RECOMMENDED_RESULTS = 5


@dataclass(frozen=True, slots=True)
class _Decision:
    answer: Answer
    because: tuple[str, ...]
    change: Interval | None = None


def compare_metric(
    name: str, a: MetricStatistics, b: MetricStatistics, *, level: float = LEVEL, smallest: float = 0.0
) -> Comparison:
    """Say whether b is better or worse than a, from the spread between runs alone.

    Args:
        level: The promise of the change's interval; 1 - level is how often equal things are called different.
    """
    decision = _decide(a, b, level, smallest)
    return Comparison(
        metric=name,
        unit=a.unit,
        better=a.better or b.better,
        a=float(np.median(_run_values(a))),
        b=float(np.median(_run_values(b))),
        a_interval=a.interval,
        b_interval=b.interval,
        change=decision.change,
        answer=decision.answer,
        because=decision.because,
    )


def compare_results(
    name: str,
    a: Sequence[MetricStatistics],
    b: Sequence[MetricStatistics],
    *,
    level: float = LEVEL,
    smallest: float = 0.0,
) -> Comparison:
    """Say whether some results of a job are better or worse than others; the spread between results counts."""
    if len(a) == len(b) == 1:
        return compare_metric(name, a[0], b[0], level=level, smallest=smallest)
    decision = _decide_results(a, b, level, smallest)
    return Comparison(
        metric=name,
        unit=a[0].unit,
        better=_direction(*a, *b),
        a=_middle(a),
        b=_middle(b),
        a_interval=side_interval(a, level),
        b_interval=side_interval(b, level),
        change=decision.change,
        answer=decision.answer,
        because=decision.because,
    )


def different_meaning(statistics: Sequence[MetricStatistics]) -> str:
    """Why numbers of one name do not mean the same: their units or directions differ; empty where they agree."""
    units = dict.fromkeys(one.unit or "none" for one in statistics)
    if len(units) > 1:
        return f"the units differ: {' against '.join(units)}"
    directions = dict.fromkeys(one.better for one in statistics if one.better)
    return f"which direction is better differs: {' against '.join(directions)}" if len(directions) > 1 else ""


def side_interval(statistics: Sequence[MetricStatistics], level: float = LEVEL) -> Interval | None:
    """The interval of one side: of its only result between runs, of several between results."""
    if len(statistics) == 1:
        return statistics[0].interval
    found = between_runs([float(np.median(_run_values(one))) for one in statistics], level)
    return found and replace(found, method=found.method.replace("runs", "results"))


def _middle(statistics: Sequence[MetricStatistics]) -> float:
    return float(np.median([np.median(_run_values(one)) for one in statistics]))


def _direction(*statistics: MetricStatistics) -> Better | None:
    return next((one.better for one in statistics if one.better), None)


def _run_values(stats: MetricStatistics) -> NDArray[np.float64]:
    return np.array(list(stats.run_values.values()), dtype=np.float64)


def _decide(a: MetricStatistics, b: MetricStatistics, level: float, smallest: float) -> _Decision:
    left, right = _run_values(a), _run_values(b)
    fewest = min(left.size, right.size)
    if fewest < MIN_RUNS:
        have = f"{count(left.size, 'run')} against {count(right.size, 'run')}"
        need = f"each side needs {MIN_RUNS} or more, better {RECOMMENDED_RUNS}"
        return _cannot_tell(f"{have}: {need}, to know how much runs differ by themselves")
    if different := different_meaning((a, b)):
        return _cannot_tell(different)
    change = change_between(left, right)
    if not change.logarithmic and change.base == 0:
        return _cannot_tell("the first side is zero, so no relative change exists")
    interval = change.interval(level)
    few = f"only {fewest} runs on a side, so the interval is wide; {RECOMMENDED_RUNS} or more are better"
    return _answer(
        change,
        interval,
        _direction(a, b),
        smallest,
        few if fewest < RECOMMENDED_RUNS else "",
        lambda: more_runs(change, fewest, level),
    )


def _decide_results(
    a: Sequence[MetricStatistics], b: Sequence[MetricStatistics], level: float, smallest: float
) -> _Decision:
    if different := different_meaning((*a, *b)):
        return _cannot_tell(different)
    sides = [
        [ResultReading(float(np.median(runs)), tuple(runs)) for one in side if (runs := _run_values(one)).size]
        for side in (a, b)
    ]
    change = change_between_results(*sides)
    if change is None or (not change.logarithmic and change.base == 0):
        return _cannot_tell("the first side is zero, so no relative change exists")
    fewest = min(len(side) for side in sides if len(side) > 1)
    few = f"only {fewest} results on a side; {RECOMMENDED_RESULTS} or more know better how much results differ"
    return _answer(
        change,
        change.interval(level),
        _direction(*a, *b),
        smallest,
        few if fewest < RECOMMENDED_RESULTS else "",
        lambda: "more results would tell",
    )


def _answer(
    change: RelativeChange,
    interval: Interval,
    better: Better | None,
    smallest: float,
    few: str,
    more: Callable[[], str],
) -> _Decision:
    """The answer of an interval.

    Args:
        few: Said beside a clear answer that rests on little.
    """
    relative = change.relative(change.estimate)
    if interval.low <= 0 <= interval.high:
        return _cannot_tell(_inconclusive(change, interval, smallest, more), interval)
    if abs(relative) < smallest:
        least = f"the {percent(smallest)} that is of interest"
        return _cannot_tell(f"the change of {percent(relative, signed=True)} is smaller than {least}", interval)
    if better is None:
        return _cannot_tell("it changed, but which direction is better was not declared", interval)
    improved = (relative > 0) == (better == "higher")
    return _Decision("better" if improved else "worse", (few,) if few else (), interval)


def _cannot_tell(reason: str, change: Interval | None = None) -> _Decision:
    return _Decision("cannot tell", (reason,), change)


def _inconclusive(change: RelativeChange, interval: Interval, smallest: float, more: Callable[[], str]) -> str:
    """Why an interval that holds zero gives no answer, and what would."""
    if change.error == 0:
        return "both sides gave the same value in every run"
    ends = f"{percent(interval.low, signed=True)} to {percent(interval.high, signed=True)}"
    if max(abs(interval.low), abs(interval.high)) <= smallest:
        return f"any change ({ends}) is smaller than the {percent(smallest)} that is of interest"
    return f"the change may be {ends}, which includes none; {more()}"


def more_runs(change: RelativeChange, runs: int, level: float) -> str:
    """How many runs of a new comparison would tell a change of the size seen, in words.

    Runs that are added to these until they tell would break the promise: equal things are then called different more
    often than in one of twenty cases.
    """
    needed = runs_to_tell(change, runs, level)
    if needed is None:
        return f"more than {MOST_RUNS} runs would be needed to tell"
    fresh = f"a new comparison, planned with about {needed} runs on each side, would tell a change of the size seen"
    return f"{fresh}; so would `assay ab`, which may look after every run"
