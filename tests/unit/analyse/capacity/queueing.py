"""A queue with several servers, of which the truth is known: what a probe of it sees, and what it can carry."""

from __future__ import annotations

import heapq
import math

import numpy as np

from assay.analyse.capacity import CapacityResult, ProbeOutcome, ProbeStep, RateSearch
from assay.spec.workload import Search

SETTLE_S = 2.0
GRACE_S = 5.0


def probe(rate: float, seconds: float, capacity: float, servers: int, rng: np.random.Generator) -> ProbeOutcome:
    """Poisson arrivals, exponential service, first come first served; begun empty, the first seconds left out."""
    end_s = seconds + SETTLE_S
    due = np.sort(rng.uniform(0, end_s, rng.poisson(rate * end_s)))
    service = rng.exponential(servers / capacity, due.size)
    free, ended = [0.0] * servers, np.empty(due.size)
    for place, (at, takes) in enumerate(zip(due.tolist(), service.tolist(), strict=True)):
        ended[place] = max(heapq.heappop(free), at) + takes
        heapq.heappush(free, float(ended[place]))
    counted = due >= SETTLE_S
    done = ((ended >= SETTLE_S) & (ended <= end_s)).sum()
    seen = counted & (ended <= end_s + GRACE_S)
    return ProbeOutcome(
        rate, seconds, counted.sum() / seconds, float(done) / seconds, {"e2e_ms": (ended - due)[seen] * 1e3}
    )


def tail(rate: float, at_s: float, capacity: float, servers: int) -> float:
    """The chance that a request takes longer, in the long run (M/M/c, Erlang's C)."""
    if rate >= capacity:
        return 1.0
    load, own = rate / capacity * servers, capacity / servers
    terms = [1.0]
    for k in range(1, servers):
        terms.append(terms[-1] * load / k)
    waiting = terms[-1] * load / servers / (1 - rate / capacity)
    waits = waiting / (sum(terms) + waiting)
    spare = capacity - rate
    if abs(spare - own) < 1e-9:
        both = (1 + own * at_s) * math.exp(-own * at_s)
    else:
        both = (spare * math.exp(-own * at_s) - own * math.exp(-spare * at_s)) / (spare - own)
    return (1 - waits) * math.exp(-own * at_s) + waits * both


def true_capacity(capacity: float, servers: int, limit_ms: float, share: float) -> float:
    """The highest rate of which the percentile keeps the limit."""
    low, high = 0.0, capacity
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle, limit_ms / 1e3, capacity, servers) <= 1 - share else (low, middle)
    return low


def search_with(look, objective: dict[str, float], **settings: float) -> tuple[CapacityResult, RateSearch]:
    """Search with `look(rate, seconds)` as the service."""
    found = RateSearch(Search(**{"lowest": 1.0, "highest": 10_000.0, **settings}), objective)
    for _ in range(100):
        step = found.step()
        if isinstance(step, CapacityResult):
            return step, found
        assert isinstance(step, ProbeStep)
        found.tell(look(step.rate, step.duration_s))
    raise AssertionError("the search does not end")
