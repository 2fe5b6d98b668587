"""Which rate to try next, and what the rates tried so far say about the capacity."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from pydantic import JsonValue

from assay.analyse.capacity.probe import ERRORS, SHARES, ProbeJudgement, ProbeOutcome, judged
from assay.analyse.intervals import TAILS, backed
from assay.analyse.text import count, number
from assay.spec.workload import Search

# Each step up multiplies the rate by this: few steps from one to ten thousand, and no overload that breaks things.
GROWTH = 4.0
# One rate may be tried for this many times `search.probe` in all, and all rates together for so many times
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
    """What the search found."""

    capacity: float | None
    """The highest rate that was measured to meet the objective; None where no rate did."""
    low: float | None
    """The capacity is at least this: the same number."""
    high: float | None
    """A higher rate that was measured to miss the objective; None where no rate did."""
    reason: str


@dataclass(frozen=True, slots=True)
class _Bracket:
    """The highest rate that is believed to meet the objective and the lowest above it that is not."""

    low: ProbeJudgement | None
    high: ProbeJudgement | None


def next_step(history: Sequence[ProbeJudgement], search: Search) -> ProbeStep | CapacityResult:
    """Decide what to try next, from all rates tried so far.

    Rates grow geometrically until one misses; then the gap is halved on the log scale until it is as narrow as
    `search.within` asks. An answer that cannot be told asks for the same rate again, longer. Before an answer is
    given, what carries it is doubted: a miss that a passing disturbance explains and a hit that was seen once are
    tried again, and rates that contradict each other too.
    """
    if not history:
        return ProbeStep(search.lowest, search.probe)
    bracket = _bracket(history)
    step = _wish(history, bracket, search)
    if isinstance(step, CapacityResult):
        return step
    if len(history) >= search.probes and all(one.rate != step.rate for one in history):
        return _ended(history, bracket, f"the search ended after {count(search.probes, 'rate')}")
    spent = sum(one.duration_s for one in history)
    if spent + step.duration_s > _IN_ALL * search.probes * search.probe:
        return _ended(history, bracket, f"the search ended after {number(spent)} s")
    return step


def _wish(history: Sequence[ProbeJudgement], bracket: _Bracket, search: Search) -> ProbeStep | CapacityResult:
    """The next probe, were there no limit to their number."""
    doubtful = _contradiction(history) or _doubtful_miss(bracket.high, history)
    if doubtful is not None:
        return ProbeStep(doubtful.rate, search.probe)
    if all(one.meets is not False for one in history):
        return _grow(max(history, key=lambda one: one.rate), history, bracket, search)
    low, high = bracket.low, bracket.high
    if low is None or high is None:
        return _at_the_lowest(high or low or history[0], history, bracket, search)
    if _settled(low, high, search):
        return _confirmed(low, high, history, bracket, search)
    for one in (high, low):
        if one.rate in _after_first_miss(history) and (again := _again(one, search)) is not None:
            return again
    return ProbeStep(_between(low.rate, high, search), search.probe)


def _after_first_miss(history: Sequence[ProbeJudgement]) -> set[float]:
    """The rates that were tried after the first miss: before it, a higher rate tells more than the same one again."""
    missed = next((place for place, one in enumerate(history) if one.meets is False), len(history))
    return {one.rate for one in history[missed + 1 :]}


def _between(low: float, high: ProbeJudgement, search: Search) -> float:
    """The rate that halves the gap on the log scale; in overload the service tells where the gap is likely to end."""
    likely = _ABOVE_DELIVERED * high.delivered_per_s
    if low > likely * _REFUTED:
        return math.sqrt(low * high.rate)
    return math.sqrt(low * min(max(likely, low * (1 + search.within) ** 3), high.rate))


def _grow(
    top: ProbeJudgement, history: Sequence[ProbeJudgement], bracket: _Bracket, search: Search
) -> ProbeStep | CapacityResult:
    """Go up from the highest rate, since none was shown to miss; at the top, make sure of it."""
    at_top = top.rate >= search.highest
    if (at_top or not top.leans) and (again := _again(top, search)) is not None:
        return again
    if not at_top:
        return ProbeStep(min(top.rate * GROWTH, search.highest), search.probe)
    if top.meets:
        reason = f"the highest rate that may be tried, {number(top.rate)}/s, still met the objective"
        return CapacityResult(top.rate, top.rate, None, f"at least {number(top.rate)}/s: {reason}")
    return _prove(top, history, bracket, search)


def _at_the_lowest(
    one: ProbeJudgement, history: Sequence[ProbeJudgement], bracket: _Bracket, search: Search
) -> ProbeStep | CapacityResult:
    """Even the lowest rate is not good, or not shown to be."""
    if (again := _again(one, search)) is not None:
        return again
    if one.meets is False and one.rate <= search.lowest:
        return CapacityResult(
            None, None, one.rate, f"even the lowest rate, {number(one.rate)}/s, misses the objective: {one.why}"
        )
    return _ended(history, bracket, f"at {number(one.rate)}/s it could not be told")


def _settled(low: ProbeJudgement | None, high: ProbeJudgement, search: Search) -> bool:
    return low is not None and high.rate <= low.rate * (1 + search.within) * (1 + 1e-9)


def _confirmed(
    low: ProbeJudgement, high: ProbeJudgement, history: Sequence[ProbeJudgement], bracket: _Bracket, search: Search
) -> ProbeStep | CapacityResult:
    """Try again what the answer rests on; then give it."""
    if (again := _again(low, search)) is not None:
        return again
    if low.meets is None:
        return _prove(low, history, bracket, search)
    if low.probes == 1:
        return ProbeStep(low.rate, search.probe)
    if (again := _again(high, search)) is not None:
        return again
    if high.meets is False:
        return CapacityResult(
            low.rate, low.rate, high.rate, f"met at {number(low.rate)}/s, missed at {number(high.rate)}/s"
        )
    return _ended(history, bracket, f"at {number(high.rate)}/s it could not be told")


def _prove(
    untold: ProbeJudgement, history: Sequence[ProbeJudgement], bracket: _Bracket, search: Search
) -> ProbeStep | CapacityResult:
    """Look a bit below a rate at which it cannot be told: only what was shown to be good can be claimed."""
    near = (1 + search.within) * (1 + 1e-9)
    below = [one for one in history if one.rate < untold.rate]
    proven = max((one.rate for one in below if one.meets), default=search.lowest)
    highest = max((one.rate for one in below), default=search.lowest)
    closest = next((one for one in below if one.rate == highest), None)
    if closest is not None and closest.rate * near >= untold.rate:
        if closest.meets is None:
            return _again(closest, search) or _prove(closest, history, bracket, search)
        if closest.meets and closest.probes == 1:
            return ProbeStep(closest.rate, search.probe)
        return _ended(history, bracket, f"at {number(untold.rate)}/s it could not be told")
    if proven * near >= untold.rate:
        return _ended(history, bracket, f"at {number(untold.rate)}/s it could not be told")
    return ProbeStep(max(untold.rate / (1 + search.within), proven), search.probe)


def _again(one: ProbeJudgement, search: Search) -> ProbeStep | None:
    """The same rate for longer, where it could not be told and that may help."""
    left = _LONGEST * search.probe - one.duration_s
    if one.meets is not None or left < search.probe:
        return None
    needed = one.duration_s * (one.times * _SPARE - 1) if math.isfinite(one.times) else left
    if (needed > left and one.times > _LONGEST) or one.least_s > left:
        return None  # no probe of an allowed length would tell
    return ProbeStep(one.rate, min(max(needed, search.probe, one.least_s), left))


def _contradiction(history: Sequence[ProbeJudgement]) -> ProbeJudgement | None:
    """A rate to try again: one that missed below one that met, or the other one, the less tried first."""
    for miss in sorted((one for one in history if one.meets is False), key=lambda one: one.rate):
        for hit in (one for one in history if one.meets and one.rate > miss.rate):
            doubtful = [one for one in (miss, hit) if one.probes < _MOST_VOTES]
            if doubtful:
                return min(doubtful, key=lambda one: one.probes)
    return None


def _doubtful_miss(high: ProbeJudgement | None, history: Sequence[ProbeJudgement]) -> ProbeJudgement | None:
    """The lowest miss, where it alone ends the way up and a passing disturbance of one probe would explain it."""
    if high is None or high.meets is not False or high.behind or high.probes > 1:
        return None
    others = [one for one in history if one.meets is False and one.rate != high.rate]
    return None if others else high


def _believed(one: ProbeJudgement) -> bool:
    return one.leans if one.meets is None else one.meets


def _bracket(history: Sequence[ProbeJudgement]) -> _Bracket:
    """Where rates turn from good to bad, by a monotone fit to all answers: no single one decides against the others."""
    ordered = sorted(history, key=lambda one: one.rate)
    score = np.array([float(_believed(one)) for one in ordered])
    weight = np.array([_UNSURE if one.meets is None else _SURE * one.probes for one in ordered])
    fitted = falling_fit(score, weight)
    good = [one for one, value in zip(ordered, fitted, strict=True) if value > 0.5 and _believed(one)]
    low = good[-1] if good else None
    bad = [one for one in ordered if (low is None or one.rate > low.rate) and not _believed(one)]
    return _Bracket(low, bad[0] if bad else None)


def falling_fit(score: np.typing.NDArray[np.float64], weight: np.typing.NDArray[np.float64]) -> list[float]:
    """The never rising series nearest to the scores (weighted least squares, by pooling adjacent violators)."""
    blocks: list[list[float]] = []  # value, weight, length
    for value, one in zip(score.tolist(), weight.tolist(), strict=True):
        blocks.append([value, one, 1])
        while len(blocks) > 1 and blocks[-2][0] < blocks[-1][0]:
            later, before = blocks.pop(), blocks.pop()
            total = before[1] + later[1]
            mean = (before[0] * before[1] + later[0] * later[1]) / total
            blocks.append([mean, total, before[2] + later[2]])
    return [value for value, _, length in blocks for _ in range(int(length))]


def _ended(history: Sequence[ProbeJudgement], bracket: _Bracket, why: str) -> CapacityResult:
    """What is known when the search must end: only rates that were measured to meet the objective count."""
    low = bracket.low
    met = [one.rate for one in history if one.meets and (low is None or one.rate <= low.rate)]
    capacity = max(met, default=None)
    missed = [one.rate for one in history if one.meets is False and (capacity is None or one.rate > capacity)]
    high = min(missed, default=None)
    if capacity is None:
        untold = [one for one in history if one.meets is None]
        rest = f"; {untold[-1].why}" if untold else ""
        return CapacityResult(None, None, high, f"{why}; no rate was shown to meet the objective{rest}")
    end = f"missed at {number(high)}/s" if high is not None else "no higher rate was shown to miss it"
    return CapacityResult(capacity, capacity, high, f"{why}; met at {number(capacity)}/s, {end}")


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
        """Add what a probe saw."""
        self.outcomes.append(outcome)

    def facts(self) -> dict[str, JsonValue]:
        """The record of the search, for the result."""
        last = self.step()
        done = (
            last
            if isinstance(last, CapacityResult)
            else _ended(self._judged(), _bracket(self._judged()), "it was cut short")
        )
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
        (found,) = judged([outcome], self.objective, self.errors)
        return {
            "rate": outcome.rate,
            "duration_s": outcome.duration_s,
            "offered": outcome.offered_per_s,
            "delivered": outcome.delivered_per_s,
            "meets": found.meets,
            "why": found.why,
            "failed_share": outcome.failed_share,
            "saturated": outcome.saturated,
            "judged": statistics_named(outcome.values, self.objective),
            "statistics": {name: _statistics(values) for name, values in outcome.values.items() if values.size},
        }


def statistics_named(
    values: Mapping[str, np.typing.NDArray[np.float64]], names: Mapping[str, float]
) -> dict[str, JsonValue]:
    """The value of each statistic that an objective names, as far as there are samples of its metric."""
    found: dict[str, JsonValue] = {}
    for name in names:
        metric, _, statistic = name.rpartition(".")
        seen = values.get(metric)
        if seen is not None and seen.size:
            found[name] = _statistic(seen, statistic)
    return found


def _statistic(values: np.typing.NDArray[np.float64], name: str) -> float:
    if name in SHARES:
        return float(np.quantile(values, SHARES[name]))
    plain = {"mean": values.mean(), "min": values.min(), "max": values.max(), "std": values.std()}
    return float(plain[name])


def _statistics(values: np.typing.NDArray[np.float64]) -> JsonValue:
    """Median, mean and the percentiles that the samples of one probe back."""
    given = {"p50": 0.5, **{name: share for name, share in TAILS.items() if backed(values.size, share)}}
    cut = np.quantile(values, list(given.values())).tolist()
    return {"count": int(values.size), "mean": float(values.mean()), **dict(zip(given, cut, strict=True))}
