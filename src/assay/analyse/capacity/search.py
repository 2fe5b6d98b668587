"""Which rate to try next, what the rates tried so far say about the capacity, and when a service falls behind."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from assay.analyse.capacity.belief import CapacityBelief
from assay.analyse.capacity.evidence import ProbeEvidence, evidence
from assay.analyse.capacity.probe import ALPHA, ERRORS, SHARES, ProbeJudgement, ProbeOutcome, Values, judge
from assay.analyse.intervals import TAILS, backed, incomplete_beta
from assay.analyse.records import Interval
from assay.analyse.text import count, number
from assay.spec.workload import Search

# Each step up multiplies the rate by this: few steps from one to ten thousand, and no overload that breaks things.
GROWTH = 4.0
# All rates together may take this many times `search.probe × search.probes`; a probe takes a bit longer than it
# measures, while the service settles.
_IN_ALL = 3.0
_SETTLING = 1.15
# How long a probe is, in times of `search.probe`: on the way up, near the capacity, and at most.
_GROWING, _NEAR, _LONGEST = 0.5, 4.0, 8.0
_LEAST_LEFT = 0.7
# A service is slow where its queue remembers long: a probe lasts as many of these times.
_RELAXATIONS = 6.0
# Of rates as far from each other as this, a queue remembers about as long (log scale).
_ALIKE = 0.35
# From this standard deviation of the logarithm of the capacity on, probes are long and stay on the good side of it.
_KNOWN = 0.35
# The capacity lies as close as `search.within` with this chance when the search ends.
_SURE = 0.78
# The interval. The belief is a bit too sure of itself (benches/capacity.py), so it is cut further out.
_LEVEL, _LOW, _HIGH = 0.9, 0.03, 0.97
_CERTAIN = 0.9
# The answer lies a bit below the middle, and so low that it is seldom more than 5 % too high.
_BELOW_MIDDLE = 0.42
_SELDOM, _TOO_HIGH = 0.03, 1.05
# A rate that was tried is the answer where it is as close as this to the one that would be.
_ANSWERS = (0.98, 1.01)


@dataclass(frozen=True, slots=True)
class ProbeStep:
    """The next probe."""

    rate: float
    duration_s: float


@dataclass(frozen=True, slots=True)
class CapacityResult:
    capacity: float | None
    """A rate that was tried, and that by all probes meets the objective; None where no rate does."""
    low: float | None
    """The capacity lies above this and below `high` with a chance of nine in ten."""
    high: float | None
    """None where the highest rate that may be tried met the objective."""
    reason: str


@dataclass(slots=True)
class RateSearch:
    """A search under way: ask for the next probe, tell what it saw, and keep the record of it.

    After each probe a `CapacityBelief` holds the chance of each rate to be the capacity. Rates grow until one is too
    much. Then each probe is where the capacity most likely lies, until that is known as closely as `search.within`
    asks or the time is spent.
    """

    search: Search
    objective: Mapping[str, float]
    errors: float = ERRORS
    outcomes: list[ProbeOutcome] = field(default_factory=list, init=False)
    _judgements: list[ProbeJudgement] = field(default_factory=list, init=False)
    _evidence: list[ProbeEvidence] = field(default_factory=list, init=False)
    _belief: CapacityBelief = field(init=False)

    def __post_init__(self) -> None:
        self._belief = CapacityBelief(self.search.lowest, self.search.highest)

    def tell(self, outcome: ProbeOutcome) -> None:
        """Take in what a probe saw."""
        judgement = judge(outcome, self.objective, self.errors)
        seen = evidence(outcome, judgement, self.objective)
        self.outcomes.append(outcome)
        self._judgements.append(judgement)
        self._evidence.append(seen)
        self._belief.add(seen)

    def step(self) -> ProbeStep | CapacityResult:
        """The next probe, or the answer."""
        search, belief = self.search, self._belief
        if not self.outcomes:
            return ProbeStep(search.lowest, _GROWING * search.probe)
        if (ended := self._ended()) is not None:
            return ended
        middle, spread = belief.quantile(0.5), math.log(belief.quantile(0.84) / belief.quantile(0.16)) / 2
        known = self._bounded and spread < _KNOWN
        rate = max(self._target, middle * (1 - search.within / 2)) if known else middle
        top = max(outcome.rate for outcome in self.outcomes)
        rate = min(max(rate, search.lowest), search.highest, GROWTH * top)
        grows = rate > 0.97 * GROWTH * top or (rate >= search.highest > top)
        times = _GROWING if grows else _NEAR if known else 1.0
        remembers_s = max(
            (seen.relaxation_s for seen in self._evidence if abs(math.log(seen.rate / rate)) < _ALIKE), default=0.0
        )
        seconds = min(max(times * search.probe, _RELAXATIONS * remembers_s), _LONGEST * search.probe)
        left_s = self._left_s / _SETTLING
        if left_s < min(_LEAST_LEFT * search.probe, seconds):
            return self._answer(f"the search ended after {number(self._spent_s)} s")
        return ProbeStep(rate, min(seconds, left_s))

    def facts(self) -> dict[str, JsonValue]:
        """The record of the search, for the result."""
        done = self.step()
        if not isinstance(done, CapacityResult):
            done = self._answer("it was cut short")
        return {
            "capacity": done.capacity,
            "low": done.low,
            "high": done.high,
            "level": _LEVEL,
            "reason": done.reason,
            "within": self.search.within,
            "objective": dict(self.objective),
            "probes": [
                self._probe(outcome, judgement)
                for outcome, judgement in zip(self.outcomes, self._judgements, strict=True)
            ],
        }

    @property
    def _spent_s(self) -> float:
        return sum(outcome.duration_s for outcome in self.outcomes) * _SETTLING

    @property
    def _left_s(self) -> float:
        return _IN_ALL * self.search.probes * self.search.probe - self._spent_s

    @property
    def _bounded(self) -> bool:
        """Whether some rate was too much."""
        return self._belief.quantile(1 - _SELDOM) < 0.98 * self.search.highest

    @property
    def _target(self) -> float:
        """The rate that would be the answer."""
        belief = self._belief
        cautious = min(belief.quantile(0.5), _TOO_HIGH * belief.quantile(_SELDOM))
        return max(cautious, belief.quantile(_BELOW_MIDDLE))

    def _ended(self) -> CapacityResult | None:
        """The answer, where it is known; None where another probe is worth its time."""
        search, belief, target = self.search, self._belief, self._target
        rates = [outcome.rate for outcome in self.outcomes]
        if rates.count(search.lowest) > 1 and belief.below(search.lowest) >= _CERTAIN:
            why = next(
                judgement.why
                for judgement in reversed(self._judgements)
                if judgement.rate == search.lowest and (judgement.meets is not True)
            )
            reason = f"even the lowest rate, {number(search.lowest)}/s, misses the objective: {why}"
            return CapacityResult(None, None, search.lowest, reason)
        if max(rates) >= search.highest and belief.below(search.highest) <= 1 - _CERTAIN:
            return self._at_the_top()
        if (few := self._too_few(self._left_s)) is not None:
            return CapacityResult(None, None, None, few)
        close = belief.below(target * (1 + search.within)) - belief.below(target * (1 - search.within))
        there = any(_ANSWERS[0] * target <= rate <= _ANSWERS[1] * target for rate in self._good(target))
        return self._answer("") if self._bounded and close > _SURE and there else None

    def _at_the_top(self) -> CapacityResult | None:
        """The highest rate that may be tried is good."""
        highest = self.search.highest
        if (few := self._too_few(0.0)) is not None:
            return None if self._left_s > self.search.probe else CapacityResult(None, None, None, few)
        reason = f"the highest rate that may be tried, {number(highest)}/s, still met the objective"
        return CapacityResult(highest, highest, None, f"at least {number(highest)}/s: {reason}")

    def _good(self, target: float) -> list[float]:
        """The rates that were tried and may be the answer, the lowest first."""
        refuted = {judgement.rate for judgement in self._judgements if judgement.behind}
        rates = {outcome.rate for outcome in self.outcomes if outcome.rate <= _ANSWERS[1] * target}
        return sorted(rates - refuted)

    def _answer(self, why: str) -> CapacityResult:
        """What is known now."""
        belief = self._belief
        low, high = belief.quantile(_LOW), belief.quantile(_HIGH)
        good = self._good(self._target)
        few = self._too_few(0.0)
        if not good or few is not None or belief.below(good[-1]) > _CERTAIN:
            undecided = [judgement.why for judgement in self._judgements if judgement.meets is not True]
            parts = [why, few or "no rate was shown to meet the objective", *undecided[-1:]]
            return CapacityResult(None, None, high if self._bounded else None, "; ".join(filter(None, parts)))
        capacity = good[-1]
        low = min(low, capacity)
        if not self._bounded:
            end = f"met at {number(capacity)}/s, no higher rate was shown to miss it"
            return CapacityResult(capacity, low, None, "; ".join(filter(None, [why, end])))
        high = max(high, capacity)
        end = f"met at {number(low)}/s, missed at {number(high)}/s"
        return CapacityResult(capacity, low, high, "; ".join(filter(None, [why, end])))

    def _too_few(self, left_s: float) -> str | None:
        """Why too few requests can be seen near the capacity for a limit on a percentile; None where they can."""
        shares = {name: SHARES.get(name.rpartition(".")[2], 0.5) for name in self.objective}
        if not shares:
            return None
        name = max(shares, key=lambda known: shares[known])
        needed = math.log(ALPHA) / math.log(shares[name])
        top = min(self._belief.quantile(1 - _SELDOM), self.search.highest)
        near = min(self._target, self.search.highest) / GROWTH
        seen = sum(outcome.rate * outcome.duration_s for outcome in self.outcomes if outcome.rate >= near)
        if seen + left_s / _SETTLING * top >= needed:
            return None
        return (
            f"no rate was shown to meet the objective: {name} needs {count(math.ceil(needed), 'request')} near the "
            f"capacity, and the time of the search is enough for {number(seen + left_s / _SETTLING * top)}"
        )

    def _probe(self, outcome: ProbeOutcome, judgement: ProbeJudgement) -> JsonValue:
        return {
            "rate": outcome.rate,
            "duration_s": outcome.duration_s,
            "offered": outcome.offered_per_s,
            "delivered": outcome.delivered_per_s,
            "meets": judgement.meets,
            "why": judgement.why,
            "failed_share": outcome.failed_share,
            "saturated": outcome.saturated,
            "judged": statistics_named(outcome.values, self.objective),
            "statistics": {name: _statistics(values) for name, values in outcome.values.items() if values.size},
        }


def statistics_named(values: Mapping[str, Values], names: Mapping[str, float]) -> dict[str, JsonValue]:
    """The value of each statistic that an objective names, as far as there are samples of its metric."""
    figures: dict[str, JsonValue] = {}
    for name in names:
        metric, _, statistic = name.rpartition(".")
        samples = values.get(metric)
        if samples is not None and samples.size:
            plain = {"mean": samples.mean(), "min": samples.min(), "max": samples.max(), "std": samples.std()}
            figures[name] = float(np.quantile(samples, SHARES[statistic]) if statistic in SHARES else plain[statistic])
    return figures


def _statistics(values: Values) -> JsonValue:
    """Median, mean and the percentiles that the samples of one probe back."""
    shares = {"p50": 0.5, **{name: share for name, share in TAILS.items() if backed(values.size, share)}}
    cut = np.quantile(values, list(shares.values())).tolist()
    return {"count": int(values.size), "mean": float(values.mean()), **dict(zip(shares, cut, strict=True))}


Counts = Sequence[float] | NDArray[np.float64] | NDArray[np.int64]

# A shorter look would take a pause of the service for its end.
SHORTEST_S = 5.0
# The time that the first answers take fills the pipe: requests in flight rise and nothing is wrong.
_FILLING = 5.0
_BEHIND = 0.93
_KEEPS_UP = 0.97
_BLOCKS = 4
# Standard deviations of a Poisson count. The question is put many times in one run, so the limit is high.
_CLEARLY = 4.0
_USUAL = 2.0
# In a pipe that only fills, completions catch up with arrivals; the deficit of a saturated service stays. And a pause
# makes its whole deficit in one step, in one half of the window.
_LATE = 0.35
_EARLY = 0.25


def saturated(t: Counts, in_flight: Counts, due: Counts, done: Counts, latency_s: float = 0.0) -> bool | None:
    """Whether the service falls behind for good.

    Args:
        t: Seconds, rising, one entry per look of the load loop (some each second).

    Returns:
        True where requests in flight grew steadily and far fewer ended than were due, longer than chance or the
        filling of the pipe explains; False where the service keeps up; None while it is undecided.
    """
    at, open_, came, went = (np.asarray(series, dtype=np.float64) for series in (t, in_flight, due, done))
    if at.size < 2 * _BLOCKS:
        return None
    elapsed = float(at[-1] - at[0])
    if elapsed < SHORTEST_S + _FILLING * latency_s:
        return None
    # The longer the load runs, the longer a pause it may have had.
    begin = int(np.searchsorted(at, at[-1] - max(SHORTEST_S, elapsed / 2)))
    middle = (begin + at.size - 1) // 2
    arrivals = float(came[-1] - came[begin])
    deficit = arrivals - float(went[-1] - went[begin])
    if deficit <= max((1 - _KEEPS_UP) * arrivals, _USUAL * math.sqrt(arrivals)):
        return False
    late = float((came[-1] - came[middle]) - (went[-1] - went[middle]))
    behind = deficit > max((1 - _BEHIND) * arrivals, _CLEARLY * math.sqrt(arrivals))
    levels = [float(block.mean()) for block in np.array_split(open_[begin:], _BLOCKS)]
    grows = all(after > before for before, after in pairwise(levels))
    stays = _LATE * deficit <= late <= (1 - _EARLY) * deficit
    return True if behind and grows and stays else None


# A line has two parameters, a line with a bend four; fewer points would fit any bend.
MIN_RATES = 5
# The bend is looked for in many places, so a chance bend is more likely than its F statistic alone says; with this
# limit a straight noisy curve gets a knee in fewer than one of twenty cases (the tests measure it).
_CHANCE = 0.005
# A real bend too small to be called a knee: the end of the curve must lie this far above the line before it.
_RISE = 1.25
_PLACES = 200


@dataclass(frozen=True, slots=True)
class Knee:
    """Where latency begins to rise with the rate."""

    rate: float
    interval: Interval
    """Rates at which the bend may lie as well, given the spread."""
    before: float
    """Power with which latency grows with the rate before it; 0 is level."""
    after: float
    """The same after it."""


def knee(rates: Sequence[float], latencies: Sequence[Sequence[float]], level: float = 0.95) -> Knee | None:
    """Find the knee of a latency curve.

    Two straight lines that meet, on logarithmic axes, are held against a single one. The bend counts when it
    explains far more than its two parameters would by chance, and when the curve rises by a quarter or more.

    Args:
        latencies: For each rate the values of its runs; several runs tell what noise is.
    """
    x, y = _points(rates, latencies)
    if np.unique(x).size < MIN_RATES:
        return None
    df = x.size - 4
    places = np.linspace(float(x.min()), float(x.max()), _PLACES + 2)[1:-1]
    # Two lines that meet at a place: level, slope, change of slope.
    fits = [
        _residual(np.column_stack([np.ones_like(x), x, np.maximum(x - place, 0.0)]), y) for place in places.tolist()
    ]
    rests = np.array([rest for rest, _ in fits])
    best = int(np.argmin(rests))
    straight = _residual(np.column_stack([np.ones_like(x), x]), y)[0]
    coefficients = fits[best][1]
    before, after = float(coefficients[1]), float(coefficients[1] + coefficients[2])
    rise = math.exp(float(coefficients[2]) * (float(x.max()) - float(places[best])))
    if rests[best] <= 0 < straight:
        chance = 0.0
    else:
        chance = _f_tail((straight - rests[best]) / 2 / max(rests[best] / df, 1e-300), 2, df)
    if after <= before or rise < _RISE or chance > _CHANCE:
        return None
    near = places[[_f_tail((rest - rests[best]) / max(rests[best] / df, 1e-300), 1, df) >= 1 - level for rest in rests]]
    # Real curves bend and do not break, so no bend is known more closely than the rates around it were tried.
    levels = np.unique(x)
    low = min(float(near.min()), float(levels[levels <= places[best]].max()))
    high = max(float(near.max()), float(levels[levels >= places[best]].min()))
    method = f"two lines through {x.size} values; no closer than the rates that were tried"
    interval = Interval(float(np.exp(low)), float(np.exp(high)), level, method)
    return Knee(float(np.exp(places[best])), interval, before, after)


def _points(rates: Sequence[float], latencies: Sequence[Sequence[float]]) -> tuple[Values, Values]:
    """All runs as points on logarithmic axes; what is not positive has no place there."""
    pairs = [
        (rate, value)
        for rate, values in zip(rates, latencies, strict=True)
        for value in values
        if rate > 0 and value > 0 and math.isfinite(value)
    ]
    x, y = (np.log(np.array(column, dtype=np.float64)) for column in (zip(*pairs, strict=True) if pairs else ([], [])))
    return x, y


def _residual(columns: Values, y: Values) -> tuple[float, Values]:
    coefficients: Values = np.linalg.lstsq(columns, y, rcond=None)[0].astype(np.float64, copy=False)
    rest = y - columns @ coefficients
    return float(np.einsum("i,i->", rest, rest)), coefficients


def _f_tail(f: float, df1: int, df2: int) -> float:
    """The chance that an F statistic is larger."""
    return 1.0 if f <= 0 else incomplete_beta(df2 / (df2 + df1 * f), df2 / 2, df1 / 2)
