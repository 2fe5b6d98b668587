"""Which rate to try next, what the rates tried so far say about the capacity, and when a service falls behind."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from assay.analyse.capacity.probe import ERRORS, SHARES, ProbeJudgement, ProbeOutcome, Values, judged
from assay.analyse.intervals import TAILS, backed, incomplete_beta
from assay.analyse.records import Interval
from assay.analyse.text import count, number
from assay.spec.workload import Search

# Each step up multiplies the rate by this: few steps from one to ten thousand, and no overload that breaks things.
GROWTH = 4.0
# One rate may be tried for this many times `search.probe` in all, and all rates together for this many times
# `search.probe × search.probes`.
_LONGEST = 8.0
_IN_ALL = 3.0
# Probes that may contradict each other before the majority is believed.
_MOST_VOTES = 3
# What a service delivers when it is asked for too much is about what it can deliver: a guess, no bound.
_ABOVE_DELIVERED = 1.05
_REFUTED = 1.1
# A bit longer than what should be enough, since the share that was seen is itself uncertain.
_SPARE = 1.25
# How strongly an answer counts in the monotone fit.
_SURE, _UNSURE = 1.0, 0.1


@dataclass(frozen=True, slots=True)
class ProbeStep:
    """The next probe."""

    rate: float
    duration_s: float


@dataclass(frozen=True, slots=True)
class CapacityResult:
    capacity: float | None
    """The highest rate that was measured to meet the objective; None where no rate did."""
    low: float | None
    """The capacity is at least this: the same number."""
    high: float | None
    """A higher rate that was measured to miss the objective; None where no rate did."""
    reason: str


def next_step(history: Sequence[ProbeJudgement], search: Search) -> ProbeStep | CapacityResult:
    """Decide what to try next, from all rates tried so far.

    Rates grow geometrically until one misses; then the gap is halved on the log scale until it is as narrow as
    `search.within` asks. An undecided rate is tried again, longer. Before an answer is
    given, what carries it is doubted: a miss that a passing disturbance explains and a hit that was seen once are
    tried again, and rates that contradict each other too.
    """
    if not history:
        return ProbeStep(search.lowest, search.probe)
    tried = _TriedRates(history, search)
    step = tried.next_step()
    if isinstance(step, CapacityResult):
        return step
    if len(history) >= search.probes and all(judgement.rate != step.rate for judgement in history):
        return tried.ended(f"the search ended after {count(search.probes, 'rate')}")
    spent = sum(judgement.duration_s for judgement in history)
    if spent + step.duration_s > _IN_ALL * search.probes * search.probe:
        return tried.ended(f"the search ended after {number(spent)} s")
    return step


class _TriedRates:
    """All rates that were tried, the highest that is believed good (`low`) and the lowest above it that is not."""

    def __init__(self, history: Sequence[ProbeJudgement], search: Search) -> None:
        self.history, self.search = history, search
        self.low, self.high = _bracket(history)

    def next_step(self) -> ProbeStep | CapacityResult:
        """The next probe, were there no limit to their number."""
        doubtful = _contradiction(self.history) or _doubtful_miss(self.high, self.history)
        if doubtful is not None:
            return self._probe(doubtful.rate)
        if all(judgement.meets is not False for judgement in self.history):
            return self._grow(max(self.history, key=lambda judgement: judgement.rate))
        low, high = self.low, self.high
        if low is None or high is None:
            return self._at_the_lowest(high or low or self.history[0])
        if high.rate <= low.rate * self._near:
            return self._confirmed(low, high)
        # Before the first miss, a higher rate tells more than the same one again.
        missed = next(
            (place for place, judgement in enumerate(self.history) if judgement.meets is False), len(self.history)
        )
        later = {judgement.rate for judgement in self.history[missed + 1 :]}
        for edge in (high, low):
            if edge.rate in later and (again := self._again(edge)) is not None:
                return again
        return self._probe(self._between(low.rate, high))

    def ended(self, why: str) -> CapacityResult:
        """What is known when the search must end: only rates that were measured to meet the objective count."""
        met = [
            judgement.rate
            for judgement in self.history
            if judgement.meets and (self.low is None or judgement.rate <= self.low.rate)
        ]
        capacity = max(met, default=None)
        missed = [
            judgement.rate
            for judgement in self.history
            if judgement.meets is False and (capacity is None or judgement.rate > capacity)
        ]
        high = min(missed, default=None)
        if capacity is None:
            undecided = [judgement for judgement in self.history if judgement.meets is None]
            rest = f"; {undecided[-1].why}" if undecided else ""
            return CapacityResult(None, None, high, f"{why}; no rate was shown to meet the objective{rest}")
        end = f"missed at {number(high)}/s" if high is not None else "no higher rate was shown to miss it"
        return CapacityResult(capacity, capacity, high, f"{why}; met at {number(capacity)}/s, {end}")

    @property
    def _near(self) -> float:
        """The ratio of two rates that are as close as is asked for."""
        return (1 + self.search.within) * (1 + 1e-9)

    def _probe(self, rate: float) -> ProbeStep:
        return ProbeStep(rate, self.search.probe)

    def _undecided(self, judgement: ProbeJudgement) -> CapacityResult:
        return self.ended(f"undecided at {number(judgement.rate)}/s")

    def _between(self, low: float, high: ProbeJudgement) -> float:
        """The rate that halves the gap on the log scale; an overloaded service tells where the gap is likely to end."""
        likely = _ABOVE_DELIVERED * high.delivered_per_s
        if low > likely * _REFUTED:
            return math.sqrt(low * high.rate)
        return math.sqrt(low * min(max(likely, low * (1 + self.search.within) ** 3), high.rate))

    def _grow(self, top: ProbeJudgement) -> ProbeStep | CapacityResult:
        """Go up from the highest rate, since none was shown to miss; at the top, make sure of it."""
        at_top = top.rate >= self.search.highest
        if (at_top or not top.leans) and (again := self._again(top)) is not None:
            return again
        if not at_top:
            return self._probe(min(top.rate * GROWTH, self.search.highest))
        if top.meets:
            reason = f"the highest rate that may be tried, {number(top.rate)}/s, still met the objective"
            return CapacityResult(top.rate, top.rate, None, f"at least {number(top.rate)}/s: {reason}")
        return self._prove(top)

    def _at_the_lowest(self, lowest: ProbeJudgement) -> ProbeStep | CapacityResult:
        """Even the lowest rate is not good, or not shown to be."""
        if (again := self._again(lowest)) is not None:
            return again
        if lowest.meets is False and lowest.rate <= self.search.lowest:
            reason = f"even the lowest rate, {number(lowest.rate)}/s, misses the objective: {lowest.why}"
            return CapacityResult(None, None, lowest.rate, reason)
        return self._undecided(lowest)

    def _confirmed(self, low: ProbeJudgement, high: ProbeJudgement) -> ProbeStep | CapacityResult:
        """Try again what the answer rests on; then give it."""
        if (again := self._again(low)) is not None:
            return again
        if low.meets is None:
            return self._prove(low)
        if low.probes == 1:
            return self._probe(low.rate)
        if (again := self._again(high)) is not None:
            return again
        if high.meets is not False:
            return self._undecided(high)
        reason = f"met at {number(low.rate)}/s, missed at {number(high.rate)}/s"
        return CapacityResult(low.rate, low.rate, high.rate, reason)

    def _prove(self, undecided: ProbeJudgement) -> ProbeStep | CapacityResult:
        """Probe a bit below an undecided rate: only what was shown to be good can be claimed."""
        below = [judgement for judgement in self.history if judgement.rate < undecided.rate]
        proven = max((judgement.rate for judgement in below if judgement.meets), default=self.search.lowest)
        highest = max((judgement.rate for judgement in below), default=self.search.lowest)
        closest = next((judgement for judgement in below if judgement.rate == highest), None)
        if closest is not None and closest.rate * self._near >= undecided.rate:
            if closest.meets is None:
                return self._again(closest) or self._prove(closest)
            return self._probe(closest.rate) if closest.meets and closest.probes == 1 else self._undecided(undecided)
        if proven * self._near >= undecided.rate:
            return self._undecided(undecided)
        return self._probe(max(undecided.rate / (1 + self.search.within), proven))

    def _again(self, judgement: ProbeJudgement) -> ProbeStep | None:
        """The same rate for longer, where it is undecided and that may help."""
        left = _LONGEST * self.search.probe - judgement.duration_s
        if judgement.meets is not None or left < self.search.probe:
            return None
        needed = judgement.duration_s * (judgement.times * _SPARE - 1) if math.isfinite(judgement.times) else left
        if (needed > left and judgement.times > _LONGEST) or judgement.least_s > left:
            return None  # no probe of an allowed length would tell
        return ProbeStep(judgement.rate, min(max(needed, self.search.probe, judgement.least_s), left))


def _contradiction(history: Sequence[ProbeJudgement]) -> ProbeJudgement | None:
    """A rate to try again: one that missed below one that met, or the other one, the less tried first."""
    for miss in sorted(
        (judgement for judgement in history if judgement.meets is False), key=lambda judgement: judgement.rate
    ):
        for hit in (judgement for judgement in history if judgement.meets and judgement.rate > miss.rate):
            doubtful = [judgement for judgement in (miss, hit) if judgement.probes < _MOST_VOTES]
            if doubtful:
                return min(doubtful, key=lambda judgement: judgement.probes)
    return None


def _doubtful_miss(high: ProbeJudgement | None, history: Sequence[ProbeJudgement]) -> ProbeJudgement | None:
    """The lowest miss, where it alone ends the way up and a passing disturbance of one probe would explain it."""
    if high is None or high.meets is not False or high.behind or high.probes > 1:
        return None
    others = [judgement for judgement in history if judgement.meets is False and judgement.rate != high.rate]
    return None if others else high


def _believed(judgement: ProbeJudgement) -> bool:
    return judgement.leans if judgement.meets is None else judgement.meets


def _bracket(history: Sequence[ProbeJudgement]) -> tuple[ProbeJudgement | None, ProbeJudgement | None]:
    """Where rates turn from good to bad, by a monotone fit to all answers: no single one decides against the others."""
    ordered = sorted(history, key=lambda judgement: judgement.rate)
    score = np.array([float(_believed(judgement)) for judgement in ordered])
    weight = np.array([_UNSURE if judgement.meets is None else _SURE * judgement.probes for judgement in ordered])
    fitted = falling_fit(score, weight)
    good = [judgement for judgement, value in zip(ordered, fitted, strict=True) if value > 0.5 and _believed(judgement)]
    low = good[-1] if good else None
    bad = [
        judgement for judgement in ordered if (low is None or judgement.rate > low.rate) and not _believed(judgement)
    ]
    return low, bad[0] if bad else None


def falling_fit(score: Values, weight: Values) -> list[float]:
    """The never rising series nearest to the scores (weighted least squares, by pooling adjacent violators)."""
    blocks: list[list[float]] = []  # value, weight, length
    for value, mass in zip(score.tolist(), weight.tolist(), strict=True):
        blocks.append([value, mass, 1])
        while len(blocks) > 1 and blocks[-2][0] < blocks[-1][0]:
            later, before = blocks.pop(), blocks.pop()
            total = before[1] + later[1]
            mean = (before[0] * before[1] + later[0] * later[1]) / total
            blocks.append([mean, total, before[2] + later[2]])
    return [value for value, _, length in blocks for _ in range(int(length))]


@dataclass(slots=True)
class RateSearch:
    """A search under way: ask for the next probe, tell what it saw, and keep the record of it."""

    search: Search
    objective: Mapping[str, float]
    errors: float = ERRORS
    outcomes: list[ProbeOutcome] = field(default_factory=list)

    def step(self) -> ProbeStep | CapacityResult:
        return next_step(self._judged(), self.search)

    def tell(self, outcome: ProbeOutcome) -> None:
        self.outcomes.append(outcome)

    def facts(self) -> dict[str, JsonValue]:
        """The record of the search, for the result."""
        done = self.step()
        if not isinstance(done, CapacityResult):
            done = _TriedRates(self._judged(), self.search).ended("it was cut short")
        return {
            "capacity": done.capacity,
            "low": done.low,
            "high": done.high,
            "reason": done.reason,
            "within": self.search.within,
            "objective": dict(self.objective),
            "probes": [self._probe(outcome) for outcome in self.outcomes],
        }

    def _judged(self) -> tuple[ProbeJudgement, ...]:
        return judged(self.outcomes, self.objective, self.errors)

    def _probe(self, outcome: ProbeOutcome) -> JsonValue:
        (judgement,) = judged([outcome], self.objective, self.errors)
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
