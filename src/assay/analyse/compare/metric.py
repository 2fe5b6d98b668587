"""One metric of two jobs: better, worse, or cannot tell and why."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.analyse.compare.welch import MOST_RUNS, Change, change_between, runs_to_tell
from assay.analyse.intervals import LEVEL
from assay.analyse.records import Answer, Comparison, Interval, MetricStatistics
from assay.analyse.words import count, percent
from assay.metrics import Better

MIN_RUNS = 2
RECOMMENDED_RUNS = 3


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
        name: Name of the metric.
        a: The measure.
        b: What is judged.
        level: The promise of the change's interval; 1 - level is how often equal things are called different.
        smallest: The smallest relative change that is of interest.
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


def _run_values(stats: MetricStatistics) -> NDArray[np.float64]:
    return np.array(list(stats.run_values.values()), dtype=np.float64)


def _decide(a: MetricStatistics, b: MetricStatistics, level: float, smallest: float) -> _Decision:
    left, right = _run_values(a), _run_values(b)
    fewest = min(left.size, right.size)
    if fewest < MIN_RUNS:
        have = f"{count(left.size, 'run')} against {count(right.size, 'run')}"
        need = f"each side needs {MIN_RUNS} or more, better {RECOMMENDED_RUNS}"
        return _cannot_tell(f"{have}: {need}, to know how much runs differ by themselves")
    if a.unit != b.unit:
        return _cannot_tell(f"the units differ: {a.unit or 'none'} against {b.unit or 'none'}")
    change = change_between(left, right)
    if not change.logarithmic and change.base == 0:
        return _cannot_tell("the first side is zero, so no relative change exists")
    return _answer(change, change.interval(level), a.better or b.better, smallest, fewest)


def _answer(change: Change, interval: Interval, better: Better | None, smallest: float, runs: int) -> _Decision:
    relative = change.relative(change.estimate)
    if interval.low <= 0 <= interval.high:
        return _cannot_tell(_inconclusive(change, interval, smallest, runs), interval)
    if abs(relative) < smallest:
        least = f"the {percent(smallest)} that is of interest"
        return _cannot_tell(f"the change of {percent(relative, signed=True)} is smaller than {least}", interval)
    if better is None:
        return _cannot_tell("it changed, but which direction is better was not declared", interval)
    improved = (relative > 0) == (better == "higher")
    few = f"only {runs} runs on a side, so the interval is wide; {RECOMMENDED_RUNS} or more are better"
    return _Decision("better" if improved else "worse", (few,) if runs < RECOMMENDED_RUNS else (), interval)


def _cannot_tell(reason: str, change: Interval | None = None) -> _Decision:
    return _Decision("cannot tell", (reason,), change)


def _inconclusive(change: Change, interval: Interval, smallest: float, runs: int) -> str:
    """Why an interval that holds zero gives no answer, and what would."""
    if change.error == 0:
        return "both sides gave the same value in every run"
    ends = f"{percent(interval.low, signed=True)} to {percent(interval.high, signed=True)}"
    if max(abs(interval.low), abs(interval.high)) <= smallest:
        return f"any change ({ends}) is smaller than the {percent(smallest)} that is of interest"
    needed = runs_to_tell(change, runs, interval.level)
    if needed is None:
        return f"the change may be {ends}, which includes none; more than {MOST_RUNS} runs would be needed to tell"
    more = f"about {count(needed - runs, 'more run')} on each side would tell a change of the size seen"
    return f"the change may be {ends}, which includes none; {more}"
