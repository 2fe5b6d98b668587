"""How far one probe was from its limit, and how well it knows that: the number that the search reasons with.

Slow requests come in bunches, as long as a queue takes to forget. So a probe of a busy service holds few independent
looks, however many requests it sends: the time that the queue remembers counts, not the number of samples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.analyse.capacity.probe import BESIDE_LIMIT, SHARES, WAITING, ProbeJudgement, ProbeOutcome, Values
from assay.analyse.intervals import variance_inflation
from assay.metrics import describe

# A tail is fitted to the slowest fifth; where as many are beyond the limit, they are counted instead.
_TAIL = 0.2
_FEWEST = 5  # samples, that say something
_ENOUGH = 20  # samples, that show a spread
# How wrong an exponential tail may be, for each time that it falls by e from where it is fitted to the limit.
_TAIL_ERROR = 0.1
# The next four were fitted to probes of queues whose truth is known (benches/capacity.py), one setting for all.
_MEMORY = 2.0  # relaxation times that one independent look takes
_BUNCHES = 4.0  # by how much the spread inside a probe understates that between probes
_TRUSTED = 20.0  # relaxation times from which on the spread inside a probe counts more than theory
_FITTED = 0.8  # a fitted tail knows the share a bit better than counting
# The logarithm of a share that comes in bunches lies below its mean more often than not.
_SKEW = 0.6
_SETTLED = 0.15  # of a probe, which the load leaves out before it measures
_FORGETS = 2.0  # relaxation times until a queue that began empty is nearly as long as it will be
_MOST_DROPPED = 0.3
_FULL = 5.0  # relaxation times of the queue that was seen, until it is known to grow no longer
_SHORT = 0.9  # of what came: less is all that a service can deliver
_CERTAIN = 9.0  # log odds of a service that fell behind
_MEAN_SCALE = 4.0  # a mean grows by about this much less than the odds of being beyond a limit in the tail
_LEAST_ERROR = 0.1


@dataclass(frozen=True, slots=True)
class ProbeEvidence:
    """What one probe says about the rate that was tried."""

    rate: float
    excess: float
    """Log odds of a request to be beyond the limit, less those that are allowed: above zero is too much."""
    error: float
    """Standard error of it."""
    samples: int = 0
    relaxation_s: float = 0.0
    """How long the queue that was seen remembers."""
    behind: bool = False
    """Whether the service fell behind: no number says how far it was from the limit."""
    delivered_per_s: float = math.inf
    """What the service delivered, where that was too little."""
    filling: bool = False
    """Whether the queue may not have been full yet: then it is at least this bad."""


def evidence(outcome: ProbeOutcome, judgement: ProbeJudgement, objective: Mapping[str, float]) -> ProbeEvidence:
    """Of several limits, the one that is missed most clearly, or nearest to it, speaks for all."""
    if judgement.behind:
        return ProbeEvidence(outcome.rate, _CERTAIN, 0.5, behind=True, delivered_per_s=judgement.delivered_per_s)
    parts = [
        _of_limit(outcome, name, limit, growing=judgement.growing)
        for name, limit in objective.items()
        if outcome.values.get(name.rpartition(".")[0]) is not None
    ]
    # Without a limit, a service that keeps up is good enough.
    return max(parts, key=lambda part: part.excess / part.error, default=ProbeEvidence(outcome.rate, -3.0, 1.0))


def _of_limit(outcome: ProbeOutcome, name: str, limit: float, *, growing: bool) -> ProbeEvidence:
    metric, _, statistic = name.rpartition(".")
    values = outcome.values[metric]
    values = values[np.isfinite(values)]
    if values.size < _FEWEST:
        return ProbeEvidence(outcome.rate, -0.5, 2.5, int(values.size))
    higher = describe(metric).better == "higher"
    if higher:
        values, limit = -values, -limit
    if statistic in SHARES:
        allowed = SHARES[statistic] if higher else 1 - SHARES[statistic]
        return _of_share(outcome, values, limit, allowed, waiting=metric in WAITING, growing=growing)
    if statistic == "mean":
        return _of_mean(outcome, values, limit, growing=growing)
    value = float(values.min() if statistic == "min" else values.max() if statistic == "max" else values.std())
    return ProbeEvidence(outcome.rate, 3.0 if value > limit else -3.0, 1.0, int(values.size))


def _of_mean(outcome: ProbeOutcome, values: Values, limit: float, *, growing: bool) -> ProbeEvidence:
    mean = float(values.mean())
    error = float(values.std(ddof=1)) * math.sqrt(_BUNCHES * variance_inflation(values) / values.size)
    scale = _MEAN_SCALE / max(abs(limit), 1e-12)
    return ProbeEvidence(
        outcome.rate, scale * (mean - limit), max(scale * error, _LEAST_ERROR), int(values.size), filling=growing
    )


@dataclass(frozen=True, slots=True)
class _Tail:
    """The slowest of some samples: their share, where they begin and how far they reach beyond it on average."""

    share: float
    begins: float
    reach: float
    beyond: NDArray[np.bool_]


def _tail(values: Values, limit: float) -> _Tail:
    beyond = values > limit
    begins = limit
    if float(beyond.mean()) < _TAIL:
        begins = float(np.quantile(values, 1 - _TAIL))
        beyond = values > begins
    reach = float((values[beyond] - begins).mean()) if beyond.any() else 0.0
    return _Tail(float(beyond.mean()), begins, reach, beyond)


def _of_share(
    outcome: ProbeOutcome, values: Values, limit: float, allowed: float, *, waiting: bool, growing: bool
) -> ProbeEvidence:
    """The log odds of being beyond the limit, by counting and by the shape of the tail.

    Few bunches are beyond a limit on p99, so their count says little. The tail of a queue is about exponential; its fit
    counts as a few bunches more.
    """
    relaxation_s, own_s, seconds = 0.0, 0.0, outcome.duration_s
    if waiting:
        relaxation_s = _relaxation_s(values, limit, allowed, outcome.offered_per_s)
        # By how far its slowest requests wait, not by how far they may: a short queue forgets sooner.
        own_s = min(relaxation_s, 4 * outcome.offered_per_s * (_tail(values, limit).reach / 1e3) ** 2)
        share = min(_MOST_DROPPED, max(0.0, _FORGETS * own_s / seconds - _SETTLED))
        values, seconds = values[int(share * values.size) :], seconds * (1 - share)
    n, tail = values.size, _tail(values, limit)
    looks = min(float(n), seconds / (_MEMORY * relaxation_s)) if relaxation_s else float(n)
    spread = _spread(tail, n, allowed, looks, seconds / relaxation_s if relaxation_s else math.inf)
    variance = _FITTED * math.log1p(spread)
    share = _share(values, limit, tail, allowed, spread, variance)
    share = outcome.failed_share + (1 - outcome.failed_share) * share
    excess = _log_odds(share) - _log_odds(allowed) + _SKEW * variance / 2
    error = max(math.sqrt(variance), _LEAST_ERROR)
    full_s = min(_FORGETS * relaxation_s, max(_FULL * own_s, BESIDE_LIMIT * limit / 1e3))
    filling = growing or (waiting and seconds < full_s)
    short = excess > 0 and outcome.delivered_per_s < _SHORT * outcome.offered_per_s
    delivered = outcome.delivered_per_s if short else math.inf
    return ProbeEvidence(outcome.rate, excess, error, int(n), own_s, delivered_per_s=delivered, filling=filling)


def _relaxation_s(values: Values, limit: float, allowed: float, rate: float) -> float:
    """How long a queue remembers in which this share waits beyond this limit (reflected Brownian motion).

    With waits that are exponential with mean w, it is 8 w² over the variance of the work that comes in a second, which
    is about twice the time of service: 4 w² · rate.
    """
    fastest = float(np.quantile(values, 0.05))
    wait_s = max(limit - fastest, 0.05 * abs(limit)) / 1e3 / math.log(1 / allowed)
    return 4 * rate * wait_s**2


def _spread(tail: _Tail, n: int, allowed: float, looks: float, relaxations: float) -> float:
    """The relative variance of the share beyond the limit, from the bunches that were seen and from theory.

    A short probe holds too few bunches to show how they vary; then theory has the word.
    """
    by_theory = (1 - allowed) / allowed / looks
    if n < _ENOUGH or not 0 < tail.share < 0.9:
        return by_theory
    to_limit = max(1.0, math.log(1 / allowed) / math.log(1 / tail.share))
    inflation = variance_inflation(tail.beyond.astype(np.float64))
    seen = _BUNCHES * inflation * (1 - tail.share) / (tail.share * n) * to_limit**2
    trust = 1.0 if math.isinf(relaxations) else relaxations / (relaxations + _TRUSTED)
    return math.exp(trust * math.log(max(seen, 1e-6)) + (1 - trust) * math.log(by_theory))


def _share(values: Values, limit: float, tail: _Tail, allowed: float, spread: float, variance: float) -> float:
    """The share beyond the limit: bunches counted, and the fitted tail as if it were some more of them."""
    if tail.begins >= limit:
        return tail.share
    falls = (limit - tail.begins) / max(tail.reach, 1e-9)
    fitted = tail.share * math.exp(-min(falls, 40.0))
    weight = 1 / ((_TAIL_ERROR * falls) ** 2 + variance)
    looks = (1 - allowed) / allowed / spread
    beyond = float((values > limit).mean()) * looks
    return (beyond + weight) / (looks + weight / max(fitted, 1e-12))


def _log_odds(share: float) -> float:
    share = min(max(share, 1e-12), 0.98)
    return math.log(share / (1 - share))
