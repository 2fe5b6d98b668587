"""One metric of two jobs, or of several results of one job on each side: better, worse, or cannot tell and why."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from assay.analyse.headline import is_quality
from assay.analyse.intervals import LEVEL, between_runs, median_of_runs, t_quantile, t_tail
from assay.analyse.records import Answer, Comparison, Interval, MetricStatistics
from assay.analyse.text import count, percent
from assay.metrics import Better

# From this many results on, the spread between them is known well enough to show a change that matters.
RECOMMENDED_RESULTS = 5


@dataclass(frozen=True, slots=True)
class _Decision:
    answer: Answer
    because: tuple[str, ...]
    change: Interval | None
    chance: float | None = None


def compare_metric(
    name: str, a: MetricStatistics, b: MetricStatistics, *, level: float = LEVEL, smallest: float = 0.0
) -> Comparison:
    """Say whether b is better or worse than a, from the spread between runs alone.

    Args:
        level: The promise of the change's interval; 1 - level is how often equal things are called different.
    """
    return compare_results(name, (a,), (b,), level=level, smallest=smallest)


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
        decision = _decide(name, a[0], b[0], level, smallest)
    else:
        decision = _decide_results(a, b, level, smallest)
    return Comparison(
        metric=name,
        unit=a[0].unit,
        better=_direction(*a, *b),
        a=_middle(a),
        b=_middle(b),
        a_interval=_side_interval(a, level),
        b_interval=_side_interval(b, level),
        change=decision.change,
        answer=decision.answer,
        because=decision.because,
        chance=decision.chance,
    )


def different_meaning(statistics: Sequence[MetricStatistics]) -> str:
    """Why numbers of one name do not mean the same: their units or directions differ; empty where they agree."""
    units = dict.fromkeys(stats.unit or "none" for stats in statistics)
    if len(units) > 1:
        return f"the units differ: {' against '.join(units)}"
    directions = dict.fromkeys(stats.better for stats in statistics if stats.better)
    return f"which direction is better differs: {' against '.join(directions)}" if len(directions) > 1 else ""


def _side_interval(statistics: Sequence[MetricStatistics], level: float) -> Interval | None:
    """The interval of one side: of its only result between runs, of several between results."""
    if len(statistics) == 1:
        return statistics[0].interval
    return between_results([float(np.median(run_values(stats))) for stats in statistics], level)


def between_results(values: Sequence[float], level: float) -> Interval | None:
    """Student's t interval of several results; None for fewer than two."""
    interval = between_runs(values, level)
    return interval and replace(interval, method=interval.method.replace("runs", "results"))


def _middle(statistics: Sequence[MetricStatistics]) -> float:
    return float(np.median([np.median(run_values(stats)) for stats in statistics]))


def _direction(*statistics: MetricStatistics) -> Better | None:
    return next((stats.better for stats in statistics if stats.better), None)


def run_values(stats: MetricStatistics) -> NDArray[np.float64]:
    return np.array(list(stats.run_values.values()), dtype=np.float64)


def _decide(name: str, a: MetricStatistics, b: MetricStatistics, level: float, smallest: float) -> _Decision:
    left, right = run_values(a), run_values(b)
    fewest = min(left.size, right.size)
    have = f"{count(left.size, 'run')} against {count(right.size, 'run')}"
    need = f"{have}: each side needs {MIN_RUNS} or more, to know how much runs differ by themselves"
    if fewest < 2:
        return _cannot_tell(need)
    if different := different_meaning((a, b)):
        return _cannot_tell(different)
    change = change_of(name, a, b)
    if not change.logarithmic and change.base == 0:
        return _cannot_tell("the first side is zero, so no relative change exists")
    if fewest < MIN_RUNS:
        return _cannot_tell(need, change.interval(level))
    return _answer(
        change,
        change.interval(level),
        _direction(a, b),
        smallest,
        "",
        lambda: more_runs(change, fewest, level),
    )


def _decide_results(
    a: Sequence[MetricStatistics], b: Sequence[MetricStatistics], level: float, smallest: float
) -> _Decision:
    if different := different_meaning((*a, *b)):
        return _cannot_tell(different)
    sides = [
        [ResultReading(float(np.median(runs)), tuple(runs)) for stats in side if (runs := run_values(stats)).size]
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
        lambda: "more results would decide it",
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
    chance = None if better is None else change.chance_either_way
    if interval.low <= 0 <= interval.high:
        return _cannot_tell(_inconclusive(change, interval, smallest, more), interval, chance)
    if abs(relative) < smallest:
        least = f"the {percent(smallest)} that is of interest"
        return _cannot_tell(f"the change of {percent(relative, signed=True)} is smaller than {least}", interval, chance)
    if better is None:
        return _cannot_tell("it changed, but which direction is better was not declared", interval)
    improved = (relative > 0) == (better == "higher")
    return _Decision("better" if improved else "worse", (few,) if few else (), interval, chance)


def _cannot_tell(reason: str, change: Interval | None = None, chance: float | None = None) -> _Decision:
    return _Decision("cannot tell", (reason,), change, chance)


def _inconclusive(change: RelativeChange, interval: Interval, smallest: float, more: Callable[[], str]) -> str:
    """Why an interval that holds zero gives no answer, and what would."""
    if change.error == 0:
        return "both sides gave the same value in every run"
    ends = f"{percent(interval.low, signed=True)} to {percent(interval.high, signed=True)}"
    if max(abs(interval.low), abs(interval.high)) <= smallest:
        return f"any change ({ends}) is smaller than the {percent(smallest)} that is of interest"
    return f"the interval ({ends}) includes no change; {more()}"


def more_runs(change: RelativeChange, runs: int, level: float) -> str:
    """How many runs of a new comparison would detect a change of this size, in words.

    Runs that are added to these until they tell would break the promise: equal things are then called different more
    often than in one of twenty cases.
    """
    needed = runs_to_decide(change, runs, level)
    if needed is None:
        return f"more than {MOST_RUNS} runs would be needed"
    fresh = f"a new comparison, planned with about {needed} runs on each side, would detect a change of this size"
    return f"{fresh}; so would `assay ab`, which measures both in turn"


# More runs than this are not worth naming.
MOST_RUNS = 1000
# The runs named must show a change of the observed size four times in five, not only if luck holds.
_POWER = 0.8


@dataclass(frozen=True, slots=True)
class RelativeChange:
    """The change from a to b with its error, on the scale on which it was compared."""

    estimate: float
    error: float
    df: float
    logarithmic: bool
    base: float  # what a plain difference is relative to
    method: str = "Welch's t"
    error_above: float | None = None
    """Towards the upper end, where that is another than towards the lower one."""

    def ends(self, level: float) -> tuple[float, float]:
        """The change on the compared scale, as far as the spread tells it."""
        reach = t_quantile(level, self.df)
        above = self.error if self.error_above is None else self.error_above
        return self.estimate - reach * self.error, self.estimate + reach * above

    @property
    def largest_error(self) -> float:
        return max(self.error, self.error_above or 0.0)

    def interval(self, level: float) -> Interval:
        """The relative change, as far as the spread tells it."""
        low, high = self.ends(level)
        method = f"{self.method}, {self.df:.1f} degrees of freedom"
        return Interval(self.relative(low), self.relative(high), level, method)

    def relative(self, value: float) -> float:
        """A change on the compared scale as a share of a."""
        return math.expm1(min(value, 700.0)) if self.logarithmic else value / self.base

    def chance(self, sign: int) -> float:
        """How often luck alone shows as clear a change in this direction (1 up, -1 down) where there is none."""
        ahead = sign * self.estimate
        error = self.error if self.error_above is None or self.estimate > 0 else self.error_above
        if not error:
            return 0.0 if ahead > 0 else 1.0
        tail = t_tail(abs(ahead) / error, self.df) / 2
        return tail if ahead > 0 else 1 - tail

    @property
    def chance_either_way(self) -> float:
        """How often luck alone shows as clear a change in either direction."""
        return min(2 * min(self.chance(1), self.chance(-1)), 1.0)


def change_between(a: NDArray[np.float64], b: NDArray[np.float64]) -> RelativeChange:
    """Compare two sets of two or more run values, on a log scale where all are positive.

    On a log scale the change is a ratio, which is what is asked for, and run effects that multiply add up.
    """
    logarithmic = bool((a > 0).all() and (b > 0).all())
    base = abs(float(a.mean()))
    if logarithmic:
        a, b = np.log(a), np.log(b)
    parts = (float(a.var(ddof=1)) / a.size, float(b.var(ddof=1)) / b.size)
    total = sum(parts)
    df = total**2 / (parts[0] ** 2 / (a.size - 1) + parts[1] ** 2 / (b.size - 1)) if matters(total, a, b) else 1.0
    error = math.sqrt(total) if matters(total, a, b) else 0.0
    return RelativeChange(float(b.mean() - a.mean()), error, max(df, 1.0), logarithmic, base)


def change_of(name: str, a: MetricStatistics, b: MetricStatistics) -> RelativeChange:
    """The change from one result to another, each with two runs or more.

    A planned number of runs is compared by the means, on the scale of ratios. Where the spread decided how many runs
    there are, the means depend on it, and the middle runs are compared. The interval then comes from theirs: the
    distance of an end is the root of the sum of squares of those that move it that way (Zou and Donner, Statistics in
    Medicine 27, 2008). Scores are compared by their means.
    """
    left, right = run_values(a), run_values(b)
    if is_quality(name) or a.widened == b.widened == 1:
        return change_between(left, right)
    logarithmic = bool((left > 0).all() and (right > 0).all())
    first, second = (_Middle.of(values, stats, logarithmic=logarithmic) for values, stats in ((left, a), (right, b)))
    # Few runs tell small chances badly: the tails beyond the 95 % that the intervals promise are those of Student's t.
    df = float(left.size + right.size - 2)
    reach = t_quantile(LEVEL, df)
    return RelativeChange(
        estimate=second.centre - first.centre,
        error=math.hypot(second.below, first.above) / reach,
        df=df,
        logarithmic=logarithmic,
        base=abs(float(left.mean())),
        method="intervals of both middle runs",
        error_above=math.hypot(second.above, first.below) / reach,
    )


@dataclass(frozen=True, slots=True)
class _Middle:
    """The middle run of one side, and how far its interval reaches, on the compared scale."""

    centre: float
    below: float
    above: float

    @classmethod
    def of(cls, values: NDArray[np.float64], stats: MetricStatistics, *, logarithmic: bool) -> _Middle:
        interval = median_of_runs(values, widened=stats.widened)
        if interval is None:
            raise AssertionError("a side of two runs or more has an interval")
        ends = float(np.median(values)), interval.low, interval.high
        centre, low, high = map(math.log, ends) if logarithmic else ends
        return cls(centre, max(centre - low, 0.0), max(high - centre, 0.0))


def matters(variance: float, a: NDArray[np.float64], b: NDArray[np.float64]) -> bool:
    """Whether a variance is more than the rounding of equal values."""
    size = max(float(np.abs(a).max()), float(np.abs(b).max()))
    return variance > (4e-16 * size) ** 2


def runs_to_decide(change: RelativeChange, runs: int, level: float) -> int | None:
    """Runs on each side that would show a change of the observed size; None for more than a thousand."""
    spread = change.error * math.sqrt(runs)  # error of a set of one run on each side
    if not _decided_by(MOST_RUNS, change, spread, level):
        return None
    # More runs always tell more, so halving finds the first number that is enough.
    low, high = runs, MOST_RUNS
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _decided_by(middle, change, spread, level) else (middle, high)
    return high


def _decided_by(runs: int, change: RelativeChange, spread: float, level: float) -> bool:
    """Whether that many runs on each side would show a change of the observed size."""
    df = 2 * runs - 2
    need = t_quantile(level, df) + t_quantile(2 * _POWER - 1, df)
    return need * spread / math.sqrt(runs) <= abs(change.estimate)


Values = NDArray[np.float64]
# The spread of two runs is hardly known: equal things on two levels were called different in 13 % of cases.
MIN_RUNS = 3
# Up to this many results the spread between them is hardly known ...
_FEW = 3
# ... and its variance is taken to be at least this many times what the runs predict, with this many degrees of freedom.
_AT_LEAST = 3.0
_FREEDOM = 4


@dataclass(frozen=True, slots=True)
class ResultReading:
    """One number of one result."""

    value: float
    runs: tuple[float, ...] = ()
    """What each run gave; empty where only the number over all runs is known, as of a percentile."""


def change_between_results(a: Sequence[ResultReading], b: Sequence[ResultReading]) -> RelativeChange | None:
    """The change from some results to others; None where a single result on each side lacks two runs."""
    if any(not reading.runs for reading in (*a, *b)):  # a percentile over all runs is not the mean of those of the runs
        a, b = ([replace(reading, runs=()) for reading in side] for side in (a, b))
    if len(a) == len(b) == 1:
        left, right = (np.array(side[0].runs, dtype=np.float64) for side in (a, b))
        return change_between(left, right) if min(left.size, right.size) >= MIN_RUNS else None
    logarithmic = all(value > 0 for reading in (*a, *b) for value in _values(reading))
    first, second = (_Side.of(side, logarithmic=logarithmic) for side in (a, b))
    variance, df, method = _error(first, second)
    significant = matters(variance, first.means, second.means)
    return RelativeChange(
        estimate=float(second.means.mean() - first.means.mean()),
        error=math.sqrt(variance) if significant else 0.0,
        df=max(df, 1.0) if significant else 1.0,
        logarithmic=logarithmic,
        base=abs(float(np.mean([np.mean(_values(reading)) for reading in a]))),
        method=method,
    )


def _values(reading: ResultReading) -> tuple[float, ...]:
    return reading.runs or (reading.value,)


@dataclass(frozen=True, slots=True)
class _Side:
    """The results of one side, on the compared scale."""

    means: Values
    counts: Values
    """Runs of each result."""
    within: float | None
    """Variance between the runs of a result, over all results; None where none has two."""
    freedom: int
    """Degrees of freedom of `within`."""

    @classmethod
    def of(cls, readings: Sequence[ResultReading], *, logarithmic: bool) -> _Side:
        values = [np.array(_values(reading), dtype=np.float64) for reading in readings]
        taken = [np.log(runs) for runs in values] if logarithmic else values
        freedom = sum(runs.size - 1 for runs in taken)
        squares = sum(float(((runs - runs.mean()) ** 2).sum()) for runs in taken)
        return cls(
            means=np.array([runs.mean() for runs in taken]),
            counts=np.array([runs.size for runs in taken], dtype=np.float64),
            within=squares / freedom if freedom else None,
            freedom=freedom,
        )

    def spread(self) -> tuple[float, float]:
        """Variance of one of two or more results, and its degrees of freedom."""
        results = self.means.size
        variance = float(self.means.var(ddof=1))
        expected = (self.within or 0.0) * float((1 / self.counts).mean())
        if results <= _FEW and variance < _AT_LEAST * expected:
            return _AT_LEAST * expected, _FREEDOM
        return max(variance, expected), results - 1


def _error(a: _Side, b: _Side) -> tuple[float, float, str]:
    """Variance of the change, its degrees of freedom, and how they were found."""
    sizes = a.means.size, b.means.size
    if min(sizes) == 1:
        single, many = (a, b) if sizes[0] == 1 else (b, a)
        variance, df = _one_against_many(single, many)
        return variance, df, f"prediction of one result from {max(sizes)}"
    parts = [(variance / side.means.size, df) for side in (a, b) for variance, df in (side.spread(),)]
    return sum(part for part, _ in parts), _welch(parts), f"Welch's t between {sizes[0]} and {sizes[1]} results"


def _one_against_many(single: _Side, many: _Side) -> tuple[float, float]:
    results = many.means.size
    usual, df = many.spread()
    # The new result may have fewer runs, or runs that differ more, than those it is held against.
    freedom, within = max(
        ((side.freedom, side.within) for side in (single, many) if side.within is not None),
        key=lambda pair: pair[1],
        default=(0, 0.0),
    )
    own = within / float(single.counts[0])
    if own <= usual:
        return usual * (1 + 1 / results), df
    return own + usual / results, min(df, _welch([(own, freedom), (usual / results, df)]))


def _welch(parts: Sequence[tuple[float, float]]) -> float:
    """Degrees of freedom of a sum of variances, each with its own."""
    total = sum(part for part, _ in parts)
    below = sum(part * part / df for part, df in parts if df)
    return total * total / below if below else 1.0
