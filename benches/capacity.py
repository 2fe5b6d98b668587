"""How near `rate: search` comes to the capacity of queues whose capacity is known, in simulated time.

The product's own judging and searching runs against discrete-event queues; only the load and the clock are simulated.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.analyse.capacity import CapacityResult, ProbeOutcome, RateSearch, saturated
from assay.spec.workload import Search
from benches.page import Page, Table

Values = NDArray[np.float64]
_Service = Callable[[np.random.Generator, int], Values]
_SEED = 2026
# What the load loop does: seconds that are left out at the begin of a probe, and between two looks at it.
_SETTLE, _MOST_SETTLE_S, _LOOK_S = 0.15, 5.0, 0.25


@dataclass(frozen=True, slots=True)
class Queue:
    """First come, first served, with Poisson arrivals."""

    name: str
    servers: int
    service: _Service
    statistic: str
    limit_ms: float
    truth: float
    """Exact for M/M/1; by simulation of three million requests a rate, to 0.3 %, for the others."""
    before: str
    """The row of 64e9f2a5, with the same seed and number of searches."""


def _exponential(mean_s: float) -> _Service:
    return lambda rng, size: rng.exponential(mean_s, size)


def _constant(mean_s: float) -> _Service:
    return lambda _rng, size: np.full(size, mean_s)


def _lognormal(mean_s: float) -> _Service:
    return lambda rng, size: mean_s * np.exp(rng.standard_normal(size) - 0.5)


def _mm1(per_s: float, allowed: float, limit_s: float) -> float:
    """P(T > t) = exp(-(μ - λ) t)."""
    return per_s - math.log(1 / allowed) / limit_s


QUEUES = (
    Queue(
        "M/M/1 μ 100, p99 ≤ 250 ms",
        1,
        _exponential(0.01),
        "p99",
        250,
        _mm1(100, 0.01, 0.25),
        "37 %|32 %|52 %|2 %|0 %|88 %|18 %|343 s",
    ),
    Queue(
        "M/M/1 μ 100, p90 ≤ 250 ms",
        1,
        _exponential(0.01),
        "p90",
        250,
        _mm1(100, 0.1, 0.25),
        "0 %|81 %|98 %|2 %|0 %|62 %|7 %|188 s",
    ),
    Queue(
        "M/M/1 μ 20, p90 ≤ 500 ms",
        1,
        _exponential(0.05),
        "p90",
        500,
        _mm1(20, 0.1, 0.5),
        "1 %|49 %|72 %|24 %|10 %|53 %|17 %|230 s",
    ),
    Queue("M/D/1 μ 100, p99 ≤ 100 ms", 1, _constant(0.01), "p99", 100, 77.4, "13 %|37 %|79 %|5 %|0 %|88 %|13 %|307 s"),
    Queue(
        "M/M/4 μ 100, p90 ≤ 150 ms", 4, _exponential(0.04), "p90", 150, 79.7, "0 %|62 %|90 %|4 %|1 %|74 %|12 %|219 s"
    ),
    Queue(
        "M/D/16 μ 200, p99 ≤ 150 ms", 16, _constant(0.08), "p99", 150, 172.8, "0 %|52 %|98 %|0 %|0 %|84 %|13 %|287 s"
    ),
    Queue(
        "M/lognormal/4 μ 100, p99 ≤ 500 ms",
        4,
        _lognormal(0.04),
        "p99",
        500,
        85.5,
        "2 %|57 %|87 %|18 %|2 %|42 %|11 %|269 s",
    ),
    Queue(
        "M/M/1 μ 5, p90 ≤ 2 s",
        1,
        _exponential(0.2),
        "p90",
        2000,
        _mm1(5, 0.1, 2.0),
        "3 %|33 %|52 %|48 %|32 %|31 %|17 %|263 s",
    ),
)


@dataclass(frozen=True, slots=True)
class Answers:
    """What many searches of one queue found, over the truth."""

    capacity: Values
    low: Values
    high: Values
    seconds: Values

    def cells(self) -> list[str]:
        """No answer, within 5 and 10 %, more than 5 and 10 % too high, interval, seconds; shares of all searches."""
        off, given = self.capacity - 1, np.isfinite(self.capacity)
        width = self.high[given] / self.low[given] - 1
        shares = (
            ~given, abs(off) <= 0.05, abs(off) <= 0.1, off > 0.05, off > 0.1, (self.low <= 1) & (self.high >= 1),
        )  # fmt: skip
        return [
            *(f"{100 * share.mean():.0f} %" for share in shares),
            f"{100 * np.median(width):.0f} %" if width.size else "",
            f"{self.seconds.mean():.0f} s",
        ]


def bench(*, quick: bool = False) -> Page:
    """Search each queue many times."""
    rounds = 5 if quick else 120
    found = [(queue, _searches(queue, number, rounds)) for number, queue in enumerate(QUEUES)]
    together = Answers(*(np.concatenate([getattr(one, name) for _, one in found]) for name in Answers.__slots__))
    rows = []
    for queue, answers in found:
        rows += [[queue.name, "before", *queue.before.split("|")], [queue.name, "now", *answers.cells()]]
    rows += [["all", "before", *_ALL_BEFORE.split("|")], ["all", "now", *together.cells()]]
    return Page("capacity", "How near a search comes to the capacity", _ABOUT, [Table(_TITLE, _HEAD, rows, _NOTES)])


def _searches(queue: Queue, number: int, rounds: int) -> Answers:
    capacity, low, high, seconds = (np.empty(rounds) for _ in range(4))
    for turn in range(rounds):
        result, seconds[turn] = search(queue, np.random.default_rng([_SEED, turn, number]))
        capacity[turn] = math.nan if result.capacity is None else result.capacity / queue.truth
        low[turn], high[turn] = (result.low or 0.0) / queue.truth, (result.high or math.inf) / queue.truth
    return Answers(capacity, low, high, seconds)


def search(queue: Queue, rng: np.random.Generator) -> tuple[CapacityResult, float]:
    """One search at the product's defaults, and the simulated seconds that it took."""
    found, seconds = RateSearch(Search(), {f"e2e_ms.{queue.statistic}": queue.limit_ms}), 0.0
    while not isinstance(step := found.step(), CapacityResult):
        outcome, took_s = probe(queue, step.rate, step.duration_s, rng)
        seconds += took_s
        found.tell(outcome)
    return step, seconds


def probe(queue: Queue, rate: float, seconds: float, rng: np.random.Generator) -> tuple[ProbeOutcome, float]:
    """What a probe of the queue sees, from empty, and the time until it ended: early where it fell behind for good."""
    settle_s = min(_MOST_SETTLE_S, _SETTLE * seconds)
    due = np.sort(rng.uniform(0, settle_s + seconds, rng.poisson(rate * (settle_s + seconds))))
    service = queue.service(rng, due.size)
    ended = ends(due, service, queue.servers)
    stop_s, fell = _stopped(due, ended, settle_s, settle_s + seconds, float(service.mean()) if due.size else 0.0)
    seen, length_s = (due >= settle_s) & (due < stop_s), stop_s - settle_s
    delivered = float(((ended >= settle_s) & (ended < stop_s)).sum()) / length_s
    values = {"e2e_ms": (ended - due)[seen] * 1e3}
    return ProbeOutcome(rate, length_s, float(seen.sum()) / length_s, delivered, values, saturated=fell), stop_s


def ends(due: Values, service: Values, servers: int) -> Values:
    """When each request is answered. One server, or constant times: waits are sums less the least of them so far."""
    if servers == 1:
        before = np.cumsum(service) - service - due
        return due + service + before - np.minimum.accumulate(before) if due.size else due
    if np.ptp(service) == 0 if service.size else True:
        ended = np.empty(due.size)
        for place in range(servers):
            ended[place::servers] = ends(due[place::servers], service[place::servers], 1)
        return ended
    free, answered = [0.0] * servers, []
    for at, takes in zip(due.tolist(), service.tolist(), strict=True):
        end = max(at, free[0]) + takes
        heapq.heapreplace(free, end)
        answered.append(end)
    return np.array(answered)


def _stopped(due: Values, ended: Values, begin_s: float, end_s: float, latency_s: float) -> tuple[float, bool]:
    looks = np.arange(begin_s, end_s, _LOOK_S)
    came, went = np.searchsorted(due, looks, "right"), np.searchsorted(np.sort(ended), looks, "right")
    for place in np.flatnonzero(came - went > 16).tolist():  # with fewer in flight, `saturated` never says so
        upto = slice(place + 1)
        if saturated(looks[upto] - begin_s, (came - went)[upto], came[upto], went[upto], latency_s) is True:
            return float(looks[place]), True
    return end_s, False


_ALL_BEFORE = "7 %|50 %|79 %|13 %|6 %|65 %|12 %|263 s"
_TITLE = "120 searches a row"
_HEAD = (
    "queue and objective", "tree", "no answer", "within 5 %", "within 10 %", "> 5 % too high", "> 10 % too high",
    "interval holds the truth", "median width of the interval", "simulated time",
)  # fmt: skip
_ABOUT = (
    "Searches at the defaults (`within: 5%`, `probe: 10s`, `probes: 12`) against queues whose capacity is known. "
    "Shares are of all searches, those without an answer among them."
)
_NOTES = (
    "Goals: no answer at most 3 %, within 5 % at least 85 %, within 10 % at least 97 %, > 5 % too high at most 2 %.",
    "*before* is the tree at 64e9f2a5, same simulation and seed. Its interval was the gap between met and missed.",
    "Queues that remember for long stay short: one probe of 160 s at the capacity of M/M/1 with μ 5 leaves ±10 %.",
)
