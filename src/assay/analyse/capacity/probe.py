"""What one probe of a rate shows: the objective is met, missed, or undecided with so few samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.analyse.intervals import TAILS, incomplete_beta, normal_quantile, t_quantile, variance_inflation
from assay.analyse.records import MetricStatistics
from assay.analyse.steady_state import drift
from assay.analyse.text import count, number, percent, quantity
from assay.metrics import Metric, describe

Values = NDArray[np.float64]

# Chance of a wrong answer where the truth lies exactly on the limit; away from it, it falls fast.
ALPHA = 0.1
# Share of failed requests that a rate may have: a service that fails one in a hundred does not carry the load.
ERRORS = 0.01
# A service that keeps up ends as many requests as are due, but for those in flight at the two ends of a probe.
_DELIVERED = 0.95
_ENDS = 3.0  # standard deviations of a Poisson count
# The correlation of "bad" is read from this many bad samples or more, else from the slowest twentieth.
_ENOUGH_BAD = 10
# A percentile that is this many times better than its limit needs no counting of samples.
_FAR = 2.0
_SLOWEST = 0.05
# Latencies that grow by more than this from the begin to the end of a probe are those of a queue that fills up: the
# probe was too short to see where it ends.
_RISING = 0.25
# A queue that makes requests wait for seconds takes many times as long to build up: a shorter probe never sees it.
BESIDE_LIMIT = 10.0
# Metrics in milliseconds that hold the time spent waiting in a queue.
WAITING = frozenset({"e2e_ms", "latency_ms", "ttft_ms", "first_answer_ms", "service_ms"})
SHARES = {"median": 0.5, "p50": 0.5, **TAILS}


@dataclass(frozen=True, slots=True, eq=False)
class ProbeOutcome:
    """What was seen while one rate was tried, without the time that the service took to settle."""

    rate: float
    """Requests per second that were asked for."""
    duration_s: float
    offered_per_s: float
    """Requests that were due, per second."""
    delivered_per_s: float
    """Requests that ended well, per second."""
    values: Mapping[str, Values]
    """Metric → its samples of requests that ended well, in the order in which they were due."""
    failed_share: float = 0.0
    """Of the requests that were due: failed, or skipped since too many were open."""
    saturated: bool = False
    """Whether the probe was ended early since the service fell behind for good."""


@dataclass(frozen=True, slots=True)
class ProbeJudgement:
    """What one probe says by itself."""

    rate: float
    duration_s: float
    meets: bool | None
    why: str
    behind: bool = False
    """Whether the service fell behind, or failed too often: no more samples are needed to say so."""
    delivered_per_s: float = math.inf
    """What the service delivered, where it fell behind."""
    growing: bool = False
    """Whether latency still grew when the probe ended."""


@dataclass(frozen=True, slots=True)
class _Part:
    """One condition: met, missed or cannot tell."""

    meets: bool | None
    why: str
    behind: bool = False
    growing: bool = False


def judge(outcome: ProbeOutcome, objective: Mapping[str, float], errors: float = ERRORS) -> ProbeJudgement:
    """Whether one probe shows that the objective is met, or missed, or neither."""
    vetoes = (_behind(outcome), _failing(outcome, errors), _rising(outcome))
    parts = [part for part in vetoes if part is not None]
    statistics = {
        name: limit for name, limit in objective.items() if outcome.values.get(name.rpartition(".")[0]) is not None
    }
    # Each of several limits is one more chance to be missed by luck.
    parts += [_held(outcome, name, limit, ALPHA / len(statistics)) for name, limit in statistics.items()]
    if not parts:
        parts = [_Part(True, "the service keeps up")]
    answers = [part.meets for part in parts]
    meets = False if False in answers else None if None in answers else True
    behind = any(part.behind for part in parts)
    return ProbeJudgement(
        rate=outcome.rate,
        duration_s=outcome.duration_s,
        meets=meets,
        why="; ".join(part.why for part in parts if part.meets is meets),
        behind=behind,
        delivered_per_s=outcome.delivered_per_s if behind else math.inf,
        growing=any(part.growing for part in parts),
    )


def _behind(outcome: ProbeOutcome) -> _Part | None:
    if outcome.saturated:
        return _Part(False, f"at {number(outcome.rate)}/s the service fell behind for good", behind=True)
    due = outcome.offered_per_s * outcome.duration_s
    missing = due - outcome.delivered_per_s * outcome.duration_s - outcome.failed_share * due
    # Requests that are in flight at the end have not failed: as many as come in while one is answered.
    # The first answers tell how long one takes, before a queue could grow much.
    times = _times(outcome.values)
    early_s = float(np.median(times[: max(times.size // 4, 1)])) / 1e3 if times.size else 0.0
    in_flight = outcome.offered_per_s * early_s
    if missing <= max((1 - _DELIVERED) * due, _ENDS * math.sqrt(due), in_flight):
        return None
    rates = f"{number(outcome.delivered_per_s)} of {number(outcome.offered_per_s)} requests/s were answered"
    return _Part(False, f"the service did not keep up: {rates}", behind=True)


def _times(values: Mapping[str, Values]) -> Values:
    """How long whole answers took, where it was sampled."""
    return next((values[name] for name in ("e2e_ms", "latency_ms") if name in values), np.empty(0))


def _rising(outcome: ProbeOutcome) -> _Part | None:
    """The part that says that latencies were still growing when the probe ended; None where they were not."""
    moved = drift(_times(outcome.values))
    if moved.steady is not False or moved.share < _RISING:
        return None
    return _Part(None, f"latency was still growing: {moved.detail}", growing=True)


def _failing(outcome: ProbeOutcome, errors: float) -> _Part | None:
    """The part that says that too many requests failed; None where they did not, or too few to be sure."""
    due = outcome.offered_per_s * outcome.duration_s
    failed = outcome.failed_share * due
    if failed <= 0 or _at_least(failed, due, errors) > ALPHA:
        return None
    return _Part(False, f"{percent(outcome.failed_share)} of the requests failed", behind=True)


def _held(outcome: ProbeOutcome, name: str, limit: float, alpha: float) -> _Part:
    """Hold one limit against the samples of its metric."""
    metric, _, statistic = name.rpartition(".")
    values = outcome.values[metric]
    description = describe(metric)
    finite = values[np.isfinite(values)]
    if not finite.size:
        return _Part(None, f"{metric} has no samples")
    if statistic in SHARES or statistic == "mean":
        failed = outcome.failed_share
        of_mean = statistic == "mean"
        part = _mean_held(finite, name, limit, alpha) if of_mean else _share_held(finite, name, limit, alpha, failed)
        return (_too_short(outcome, metric, limit) or part) if part.meets else part
    value = float(finite.std(ddof=1)) if statistic == "std" and finite.size > 1 else 0.0
    value = float(finite.min()) if statistic == "min" else float(finite.max()) if statistic == "max" else value
    met = value <= limit if description.better != "higher" else value >= limit
    return _Part(met, limit_sentence(name, value, description, limit))


def _share_held(values: Values, name: str, limit: float, alpha: float, failed_share: float) -> _Part:
    """A percentile keeps its limit when few enough samples lie beyond it: a binomial question, of any distribution.

    A failed request has no sample; it counts as one beyond the limit.
    """
    metric, _, statistic = name.rpartition(".")
    description = describe(metric)
    higher = description.better == "higher"
    share = SHARES[statistic]
    allowed = share if higher else 1 - share
    beyond = values < limit if higher else values > limit
    failed = values.size * failed_share / max(1 - failed_share, 1e-9)
    bad, n = float(beyond.sum()) + failed, values.size + failed
    inflation = _inflation(values, beyond, higher)
    meets = _decide(bad / inflation, n / inflation, allowed, alpha)
    value = float(np.quantile(values, share))
    detail = f"{percent(bad / n)} of {count(round(n), 'sample')} beyond it, {percent(allowed)} may be"
    return _Part(meets, f"{limit_sentence(name, value, description, limit)} ({detail})")


@dataclass(frozen=True, slots=True)
class ShareHeld:
    """Whether a percentile keeps a limit, by how many samples lie beyond it."""

    meets: bool | None
    """None: too close to tell."""
    beyond: float
    """Share of the samples beyond the limit."""
    allowed: float
    """Share that may be."""


def share_held(by_run: Sequence[Values], share: float, limit: float, *, higher: bool, alpha: float) -> ShareHeld:
    """Hold a percentile of several runs against a limit, by the rule of a probe.

    Runs differ by more than their samples let expect. So the shares beyond the limit are compared between runs too, and
    that many samples count as one that the larger of the two spreads is explained.

    Args:
        alpha: Chance of a wrong miss where the truth lies on the limit.
    """
    parts = [values for values in by_run if values.size]
    pooled = np.concatenate(parts)
    beyond = [values < limit if higher else values > limit for values in parts]
    allowed = share if higher else 1 - share
    bad = float(sum(mask.sum() for mask in beyond))
    if not bad and _is_far(parts, share, limit, higher=higher, alpha=alpha):
        return ShareHeld(True, 0.0, allowed)
    within = max(_inflation(values, mask, higher) for values, mask in zip(parts, beyond, strict=True))
    edge = _edge(pooled, np.concatenate(beyond), higher)
    between = _between(parts, limit if edge is None else edge, higher, alpha)
    inflation = min(max(within, between), pooled.size / 2)
    meets = _decide(bad / inflation, pooled.size / inflation, allowed, alpha)
    return ShareHeld(meets, bad / pooled.size, allowed)


def _is_far(parts: Sequence[Values], share: float, limit: float, *, higher: bool, alpha: float) -> bool:
    """Whether the percentile is on the good side of a limit by a factor of two, by the runs' own percentiles.

    Only asked where no sample is beyond the limit. Counting samples then says little: slow ones come in bunches, and
    one pause of the machine moves the worst value of a run by orders of magnitude and its percentile hardly.
    """
    tails = np.array([float(np.quantile(values, share)) for values in parts])
    if tails.size < 2 or min(float(tails.min()), limit) <= 0:
        return False
    logs = np.log(tails)
    half = t_quantile(1 - 2 * alpha, tails.size - 1) * float(logs.std(ddof=1)) / math.sqrt(tails.size)
    middle, edge = float(logs.mean()), math.log(limit)
    return middle - half > edge + math.log(_FAR) if higher else middle + half < edge - math.log(_FAR)


def _between(parts: Sequence[Values], edge: float, higher: bool, alpha: float) -> float:
    """How many samples count as one by the spread of the runs' shares beyond an edge; few runs tell it badly."""
    shares = np.array([float((values < edge if higher else values > edge).mean()) for values in parts])
    sizes = np.array([values.size for values in parts], dtype=np.float64)
    mean = float((shares * sizes).sum() / sizes.sum())
    if shares.size < 2 or not 0 < mean < 1:
        return 1.0
    spread = float((sizes * (shares - mean) ** 2).sum()) / (shares.size - 1) / (mean * (1 - mean))
    unsure = t_quantile(1 - 2 * alpha, shares.size - 1) / normal_quantile(1 - 2 * alpha)
    return spread * unsure**2


def _too_short(outcome: ProbeOutcome, metric: str, limit: float) -> _Part | None:
    if metric not in WAITING or outcome.duration_s >= BESIDE_LIMIT * limit / 1e3:
        return None
    reason = f"a probe of {number(outcome.duration_s)} s is too short to see waits of {number(limit)} ms build up"
    return _Part(None, reason)


def _edge(values: Values, beyond: NDArray[np.bool_], higher: bool) -> float | None:
    """The edge of the slowest twentieth, where too few samples lie on one side of a limit; else None."""
    if _ENOUGH_BAD <= int(beyond.sum()) <= values.size - _ENOUGH_BAD:
        return None
    return float(np.quantile(values, _SLOWEST if higher else 1 - _SLOWEST))


def _inflation(values: Values, beyond: NDArray[np.bool_], higher: bool) -> float:
    """How many samples count as one: slow requests come in bunches."""
    if values.size < 4:
        return 1.0
    edge = _edge(values, beyond, higher)
    if edge is not None:
        beyond = values < edge if higher else values > edge
    return min(variance_inflation(beyond.astype(np.float64)), values.size / 2)


def _decide(bad: float, n: float, allowed: float, alpha: float) -> bool | None:
    """Whether this few (or this many) bad ones decide."""
    if _at_most(bad, n, allowed) <= ALPHA:
        return True
    return False if bad > 0 and _at_least(bad, n, allowed) <= alpha else None


def _at_most(k: float, n: float, p: float) -> float:
    """The chance of at most k hits in n tries; the numbers need not be whole."""
    return 1.0 if k >= n else incomplete_beta(1 - p, n - k, k + 1)


def _at_least(k: float, n: float, p: float) -> float:
    """The chance of at least k hits in n tries."""
    return 1.0 if k <= 0 else incomplete_beta(p, k, n - k + 1)


def _mean_held(values: Values, name: str, limit: float, alpha: float) -> _Part:
    """A mean keeps its limit when its one-sided interval does."""
    description = describe(name.rpartition(".")[0])
    mean = float(values.mean())
    sign = -1.0 if description.better == "higher" else 1.0
    distance = sign * (limit - mean)
    met = distance >= 0
    sentence = limit_sentence(name, mean, description, limit)
    if values.size < 2:
        return _Part(None, sentence)
    error = float(values.std(ddof=1)) * math.sqrt(variance_inflation(values) / values.size)
    reach = t_quantile(1 - 2 * (ALPHA if met else alpha), values.size - 1) * error
    return _Part(met if abs(distance) >= reach else None, sentence)


def limit_sentence(name: str, value: float, known: Metric | MetricStatistics, limit: float) -> str:
    """A statistic beside its limit, in words."""
    word = "at least" if known.better == "higher" else "at most"
    return f"{name} is {quantity(value, known.unit)}; {word} {number(limit)} was asked for"
